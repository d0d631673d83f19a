"""`ChatEnv` with tokens in place of conversations: tokenised by chat templates, and read back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.llm import ChatEnv, TransformersWrapper, chats_of
from specgen_runtime.testing import check_env
from tensordict import TensorDictBase

from tests.llm.models import tiny_model, tiny_tokenizer
from tests.llm.test_chat_env import DATA, again, contents, say

WIDTH = 200


def env_of(*args: Any, **keywords: Any) -> ChatEnv[Any, Any]:
    return ChatEnv(
        *args, **{"input_mode": "tokens", "tokenizer": tiny_tokenizer(), "pad_to": WIDTH, **keywords}
    )


def write(text: str, end: str = "<|im_end|>") -> Callable[[Any], Any]:
    """A policy that reads and writes tokens: one for each character."""
    tokenizer = tiny_tokenizer()
    said = [tokenizer.encode(letter, add_special_tokens=False)[0] for letter in text]
    said += [tokenizer.convert_tokens_to_ids(end)] if end else []

    def policy(tensordict: TensorDictBase) -> TensorDictBase:
        ids, mask = tensordict["tokens", "prompt"], tensordict["attention_mask"]
        new = torch.tensor(said).expand(*ids.shape[:-1], -1)
        tensordict["tokens", "full"] = torch.cat([ids, new], -1)[..., -WIDTH:]
        tensordict["masks"] = {"all_attention_mask": torch.cat([mask, new >= 0], -1)[..., -WIDTH:]}
        return tensordict

    return policy


def test_conversations_are_those_of_the_other_modes() -> None:
    env, spoken = env_of(DATA, tools=again, max_turns=9), ChatEnv(DATA, tools=again, max_turns=9)
    data, wanted = env.rollout(5, write("answer"))[0], spoken.rollout(5, say("answer"))[0]
    assert len(data) == len(wanted) == 3
    for step, other in zip(data["next"], wanted["next"], strict=True):
        assert contents(step) == contents(other)
    first, second = (step["tokens", "prompt"][step["attention_mask"]] for step in (data[0], data[0]["next"]))
    sampled = data[0]["tokens", "full"][data[0]["masks", "all_attention_mask"]]
    assert torch.equal(second[: len(sampled)], sampled), "letters stay as they were sampled"
    assert torch.equal(sampled[: len(first)], first)
    assert tiny_tokenizer().encode("answer", add_special_tokens=False) != sampled[len(first) : -1].tolist()


@pytest.mark.parametrize("end", ["<|im_end|>", ""])
def test_an_answer_and_its_end(end: str) -> None:
    env = env_of(["a"])
    message = chats_of(env.step(write("yes", end)(env.reset()))["next"].get(("history", "prompt")))[0][-1]
    assert (message["content"], message.get("is_complete", True)) == ("yes", bool(end))


def test_what_is_no_answer() -> None:
    env = env_of(["a"], batch_size=(2,))
    root = write("yes")(env.reset())
    root["tokens", "full"][1, -6] += 1
    with pytest.raises(RuntimeError, match=r"of row 1 does not begin with the \d+ tokens of"):
        env.step(root)
    with pytest.raises(ValueError, match=r"row 0 has 12 tokens, .* width of 5: raise it \(pad_to\)"):
        env_of(["a"], pad_to=5).reset()


@pytest.mark.parametrize("missing", [{"tokenizer": None}, {"pad_to": None}], ids=["no tokenizer", "no width"])
def test_arguments(missing: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="input_mode='tokens' needs a tokenizer, and pad_to"):
        env_of(["a"], **missing)


def test_environments_are_whole() -> None:
    """Partial resets of groups included."""
    check_env(lambda: env_of(DATA, tools=again, max_turns=3, batch_size=(4,), group=2, pad_to=400), steps=3)


def test_a_model_that_reads_tokens_learns_from_its_own() -> None:
    tokenizer = tiny_tokenizer()
    policy = TransformersWrapper(
        tiny_model("llama", tokenizer),
        tokenizer=tokenizer,
        input_mode="tokens",
        generate_kwargs={"max_new_tokens": 4, "do_sample": True},
        return_log_probs=True,
        pad_output=True,
        pad_to=WIDTH,
    )
    env = env_of(DATA, batch_size=(4,), group=2, max_turns=2, reward=lambda chats, _: [1.0] * len(chats))
    torch.manual_seed(0)
    data = env.rollout(2, policy)
    assert data["tokens", "full"].shape == data["log_probs", "full"].shape == (4, 2, WIDTH)
    turns = data["next", "history"].prompt
    assert turns.shape == (4, 2, -1)
    said = data["log_probs", "full"] != 0
    ids = data["tokens", "full"]
    for row in range(4):
        message = chats_of(data[row, 1]["next"].get(("history", "prompt")))[0][-1]["content"]
        text = tokenizer.decode(ids[row, 1][said[row, 1]])
        assert text.removesuffix("<|im_end|>") == message
