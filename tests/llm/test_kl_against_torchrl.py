"""KL penalties beside TorchRL's: the same values where these are right, and both where they are not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.llm import KLRewardTransform, RetrieveKL, chats_of
from specgen_runtime.ragged import rows_at
from tensordict import TensorDict
from torch import Tensor

from tests.llm.conversations import CHATS, conversations, model, pair, tokenizer, wrapped
from tests.llm.models import tiny_tokenizer

pytestmark = pytest.mark.peers
wrappers = pytest.importorskip("torchrl.modules.llm")
peers = pytest.importorskip("torchrl.envs.llm.transforms")
History = pytest.importorskip("torchrl.data.llm").History


def peer(seed: int, **keywords: Any) -> Any:
    whole = {"tokenizer": tokenizer(), "generate": False, "return_log_probs": True, "pad_output": True}
    keys = {"input_mode": "history", "log_probs_key": f"p{seed}"}
    return wrappers.TransformersWrapper(model(seed), **{**whole, **keys, **keywords})


def their_data(reward: Tensor | None = None) -> TensorDict:
    history = History.from_chats(CHATS)
    chat = wrappers.policies.ChatHistory._from_tensordict(TensorDict(full=history, batch_size=(2,)))
    after = TensorDict(history=chat, batch_size=(2,))
    if reward is not None:
        after["reward"] = reward
    return TensorDict(history=chat, next=after, batch_size=(2,))


def theirs(**keywords: Any) -> Any:
    return peers.RetrieveKL(gen_model=peer(0), ref_model=peer(1), tokenizer=tokenizer(), **keywords)


def test_values() -> None:
    """With padded output and without rewards, all is well."""
    found = theirs(add_to_reward=False)(their_data())["next"].get("kl_penalty").unbind()
    ours = RetrieveKL(**pair())(conversations())["next", "kl_penalty"]
    for row, own in zip(found, ours, strict=True):
        torch.testing.assert_close(own[-len(row) :], row.detach(), rtol=1e-4, atol=1e-4)


def test_detach_and_the_form_of_the_penalty() -> None:
    found = theirs(add_to_reward=False, detach=True)(their_data())["next"].get("kl_penalty")
    assert found.requires_grad
    assert found.is_nested
    ours = RetrieveKL(**pair(), detach=True)(conversations())["next", "kl_penalty"]
    assert not ours.requires_grad
    assert ours.shape == (2, 21)


@pytest.mark.parametrize("shape", [(2, 1), (2, 21, 1)])
def test_dense_rewards(shape: tuple[int, ...]) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        theirs()(their_data(torch.zeros(shape)))
    assert RetrieveKL(**pair())(conversations(torch.zeros(shape)))["next", "reward"].shape == shape


def test_tokenizers_that_differ() -> None:
    other = tiny_tokenizer()
    other.add_tokens(["the weather"])
    peers.RetrieveKL(gen_model=peer(0), ref_model=peer(1, tokenizer=other))  # accepted
    with pytest.raises(ValueError, match="different tokenizers"):
        RetrieveKL(wrapped(0), wrapped(1, tokenizer=other))


def test_a_negative_coefficient() -> None:
    theirs(coeff=-1.0)
    with pytest.raises(ValueError, match="rewards distance"):
        RetrieveKL(**pair(), coeff=-1.0)


def test_one_reward_for_each_conversation_outside_an_environment() -> None:
    transform = peers.KLRewardTransform(ref_model=peer(1, input_mode="tokens"))
    with pytest.raises(Exception):  # noqa: B017 (which one depends on the data)
        transform(their_data(torch.zeros(2, 1)))
    data = conversations(torch.zeros(2, 1))
    data["log_probs", "full"] = torch.zeros(2, 21)
    assert KLRewardTransform(wrapped(1))(data)["next", "reward"].shape == (2, 1)


@pytest.mark.parametrize("storage", ["LazyTensorStorage", "LazyStackStorage"])
@pytest.mark.parametrize("pad_output", [True, False])
def test_in_a_replay_buffer_of_torchrl(storage: str, pad_output: bool) -> None:
    data = pytest.importorskip("torchrl.data")
    buffer = data.ReplayBuffer(storage=getattr(data, storage)(4), batch_size=2)
    buffer.append_transform(RetrieveKL(**pair(pad_output=pad_output)))
    buffer.extend(conversations(torch.ones(2, 1)))
    after = buffer.sample()["next"]
    rows = rows_at(after, "kl_penalty")
    assert rows is not None
    for row, reward in zip(rows, after["reward"], strict=True):
        torch.testing.assert_close(reward, 1 - row.sum(-1, keepdim=True))


def test_what_an_entry_of_a_history_is() -> None:
    """Theirs stores messages one by one; ours one list for each row, and attributes are histories of their own."""
    assert their_data()["history"]._tensordict.get("full").batch_size == (2, 2)
    data = conversations()
    assert data.get(("history", "full")).batch_size == (2,)
    data["history"].full.append(data["history"].full[:, 0])
    assert chats_of(data.get(("history", "full"))) == CHATS  # the attribute was a copy
    data["history"].full = data["history"].full.append(data["history"].full[:, 0])
    assert [len(chat) for chat in chats_of(data.get(("history", "full")))] == [3, 3]


def test_templates_of_tokenizers() -> None:
    """Theirs takes a template of its own unless the tokenizer's has generation blocks; ours the tokenizer's."""
    plain = tiny_tokenizer("{%- for m in messages %}{{ '[' + m['content'] + ']' }}{%- endfor %}")
    text = History.from_chats(CHATS[0]).apply_chat_template(tokenizer=plain, add_generation_prompt=False)
    assert text.startswith("<|im_start|>user")
    own = conversations()["history"].full[0].apply_chat_template(tokenizer=plain, add_generation_prompt=False)
    assert own == "[Hello][I'm well]"


def test_ends_of_turns_are_said_by_the_assistant() -> None:
    """By templates that both know by name: theirs leaves the token out that ends an answer."""
    options: Any = {
        "tokenizer": tiny_tokenizer(),
        "chat_template_name": "chatml_format",
        "add_generation_prompt": False,
        "return_dict": True,
        "return_assistant_tokens_mask": True,
    }
    said = []
    for history in (History.from_chats(CHATS[0]), conversations()["history"].full[0]):
        found = history.apply_chat_template(**options)
        said.append(options["tokenizer"].decode(found["input_ids"][found["assistant_masks"].bool()]))
    assert said == ["I'm well", "I'm well<|im_end|>"]
