"""`IncrementalTokenizer`: tokens of conversations over several turns, of which those that were sampled stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from specgen_runtime.llm import ChatEnv, IncrementalTokenizer, Message, TransformersWrapper, chats_of
from specgen_runtime.testing import check_env
from specgen_runtime.transforms import TransformedEnv
from tensordict import TensorDict

from tests.llm.models import tiny_model, tiny_tokenizer

QUESTIONS = ["Hello", "What's the weather?", "How"]


def again(chat: list[Message], row: Mapping[str, Any]) -> list[Message] | None:
    return None if len(chat) > 4 else [{"role": "tool", "content": "42"}]


def observing(**keywords: Any) -> Any:
    return ChatEnv.with_tokenizer(
        QUESTIONS,
        tools=again,
        max_turns=3,
        batch_size=(2,),
        tokenizer=tiny_tokenizer(),
        pad_to=120,
        **keywords,
    )


def test_sampled_tokens_stay_over_turns() -> None:
    tokenizer = tiny_tokenizer()
    policy = TransformersWrapper(
        tiny_model("llama", tokenizer),
        tokenizer=tokenizer,
        generate_kwargs={"max_new_tokens": 5, "do_sample": True},
        pad_output=True,
        pad_to=120,
        return_log_probs=True,
    )
    torch.manual_seed(0)
    data = observing().rollout(3, policy)
    recut = 0
    for row in data:
        for turn, step in enumerate(row):
            full = step["tokens", "full"][step["masks", "all_attention_mask"]]
            following = step["next", "tokens", "prompt"][step["next", "attention_mask"]]
            assert following[: len(full)].tolist() == full.tolist()
            assert tokenizer.decode(following[len(full) :]).endswith("<|im_start|>assistant\n")
            if turn:
                prompt = step["tokens", "prompt"]
                assert torch.equal(prompt, row[turn - 1]["next", "tokens", "prompt"])
        text = tokenizer.decode(following)
        chat = chats_of([row[-1].get(("next", "history", "prompt")).data])[0]
        rendered = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        assert text == rendered
        recut += tokenizer(text, add_special_tokens=False)["input_ids"] != following.tolist()
    assert recut, "a text alone would have been cut into other tokens"


def test_resets_are_rendered() -> None:
    tokenizer = tiny_tokenizer(None)
    env = TransformedEnv(
        ChatEnv(batch_size=(2,), system_prompt="Be brief."),
        IncrementalTokenizer(tokenizer, chat_template_name="qwen", tokens_key=("mine", "all")),
    )
    root = env.reset(TensorDict(query=["Hello!", "What is it?"], batch_size=(2,)))
    for ids, mask, query in zip(
        root["mine", "all"], root["attention_mask"], ("Hello!", "What is it?"), strict=True
    ):
        wanted = f"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n{query}<|im_end|>\n<|im_start|>assistant\n"
        assert tokenizer.decode(ids[mask]) == wanted
        assert not mask[: int((~mask).sum())].any(), "padding is on the left"


def test_contract() -> None:
    check_env(observing, steps=5)


def test_too_long() -> None:
    env = TransformedEnv(ChatEnv(QUESTIONS), IncrementalTokenizer(tiny_tokenizer(), pad_to=3))
    with pytest.raises(ValueError, match=r"row 0 has \d+ tokens, which is more than the width of 3"):
        env.reset()
