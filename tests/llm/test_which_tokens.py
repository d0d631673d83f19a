"""Which tokens count in transforms: of roles, without some, of a mask; and estimates of tokens or of answers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.llm import ChatHistory, History, RetrieveKL, RetrieveLogProb, kl_estimate
from specgen_runtime.llm.messages import Chat
from tensordict import TensorDict
from torch import Tensor

from tests.llm.conversations import conversations, left, pair, plain, tokenizer, wrapped

TOLD: list[Chat] = [
    [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "the answer"},
        {"role": "tool", "content": "42"},
        {"role": "assistant", "content": "I'm well"},
    ],
    [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "42"}],
]


def told(**entries: Any) -> TensorDict:
    return TensorDict(history=ChatHistory(full=History.from_chats(TOLD)), **entries, batch_size=(2,))


def scored_text(log_probs: Tensor, row: int) -> str:
    """The tokens with a log-probability, as text."""
    ids = tokenizer().apply_chat_template(TOLD[row], return_dict=True)["input_ids"]
    found: str = tokenizer().decode(torch.tensor(ids)[log_probs[row, -len(ids) :] != 0])
    return found


@pytest.mark.parametrize(
    ("options", "first", "second"),
    [
        ({}, "the answer<|im_end|>I'm well<|im_end|>", "42<|im_end|>"),
        ({"roles": ["tool"], "empty": "zero"}, "42<|im_end|>", ""),
        ({"roles": ["tool", "assistant"]}, "the answer<|im_end|>42<|im_end|>I'm well<|im_end|>", "42<|im_end|>"),
        ({"exclude_tokens": ["<|im_end|>"]}, "the answerI'm well", "42"),
        ({"roles": ("tool",), "exclude_tokens": [4], "empty": "zero"}, "42", ""),
    ],
)  # fmt: skip
def test_roles_and_excluded_tokens(options: dict[str, Any], first: str, second: str) -> None:
    data = RetrieveLogProb(wrapped(0), **options)(told())
    found = data["log_probs_0", "full"]
    assert [scored_text(found, row) for row in (0, 1)] == [first, second]
    kl = RetrieveKL(**pair(), **options)(told())["kl_penalty"]
    assert torch.equal(kl != 0, found != 0)
    whole = RetrieveLogProb(wrapped(0), assistant_only=False)(told())["log_probs_0", "full"]
    torch.testing.assert_close(found, whole.where(found != 0, 0.0))


def test_roles_are_rendered_though_the_data_hold_tokens() -> None:
    data = wrapped(0)(told())
    found = RetrieveLogProb(wrapped(0), roles=["tool"], empty="zero", log_probs_full_key="of_tools")(data)
    assert scored_text(found["of_tools"], 0) == "42<|im_end|>"


def test_a_mask_in_the_data() -> None:
    width = left(plain(0)).shape[-1]
    mask = torch.arange(width).expand(2, -1) >= width - 3
    data = conversations()
    data["mine"] = mask
    kl = RetrieveKL(**pair(), mask_key="mine")(data)["next", "kl_penalty"]
    torch.testing.assert_close(kl, (left(plain(0)) - left(plain(1))).where(mask, 0.0))
    with pytest.raises(KeyError, match=rf"no mask of \[2, {width}\] tokens at 'yours'.*'mine'"):
        RetrieveKL(**pair(), mask_key="yours")(data)
    data["mine"] = torch.zeros(2, width, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"row 0 .* has no token of the assistant that can be scored"):
        RetrieveKL(**pair(), mask_key="mine")(data)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3", "k3_is"])
def test_estimates_of_answers(estimator: Any) -> None:
    reward = torch.tensor([[1.0], [2.0]])
    transform = RetrieveKL(**pair(), estimator=estimator, level="sequence", coeff=0.5)
    data = transform(conversations(reward.clone()))["next"]
    gen, ref = left(plain(0)), left(plain(1))
    ratio = (gen - ref).sum(-1)
    wanted = kl_estimate(ratio, estimator, log_probs=gen.sum(-1))
    torch.testing.assert_close(data["kl_penalty"].sum(-1), wanted)
    assert (data["kl_penalty"] != 0).sum(-1).tolist() == [1, 1]
    assert (data["kl_penalty"][:, -2] != 0).all(), "at the end of the turn, before the template's newline"
    torch.testing.assert_close(data["reward"], reward - 0.5 * wanted[:, None])
    torch.testing.assert_close(transform.penalty.metrics["kl"], wanted.mean())


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"roles": "tool"}, "roles are names such as"),
        ({"roles": []}, "roles are names such as"),
        ({"roles": ["tool"], "assistant_only": False}, "with assistant_only=True"),
        ({"level": "batch"}, "level is 'token' or 'sequence', got 'batch'"),
    ],
)
def test_keywords(options: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        RetrieveKL(**pair(), **options)


def test_a_role_that_nobody_has() -> None:
    with pytest.raises(
        ValueError, match=r"row 0 \(\d+ tokens\) has no token of 'asistant' that can be scored"
    ):
        RetrieveKL(**pair(), roles=["asistant"])(conversations())


def test_what_is_not_one_token() -> None:
    with pytest.raises(ValueError, match="to be one token here, got 'the weather'"):
        RetrieveKL(**pair(), exclude_tokens=["the weather"])(conversations())
