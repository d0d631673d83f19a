"""Which tokens count in transforms: of roles, without some, of a mask; and estimates of tokens or of answers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.llm import (
    ChatHistory,
    History,
    KLRewardTransform,
    RetrieveKL,
    RetrieveLogProb,
    kl_estimate,
)
from specgen_runtime.llm.conversations.messages import Chat
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


def test_a_mask_of_other_tokens_than_those_that_are_rendered() -> None:
    """Roles render anew: a mask of sampled tokens as wide as the conversations may be of others."""
    data = wrapped(0)(told())
    data["mine"] = data["masks", "all_attention_mask"].clone()
    options: dict[str, Any] = {"roles": ["tool"], "empty": "zero", "mask_key": "mine"}
    kl = RetrieveKL(**pair(), **options)(data.clone())["kl_penalty"]
    torch.testing.assert_close(
        kl, RetrieveKL(**pair(), roles=["tool"], empty="zero")(data.clone())["kl_penalty"]
    )
    data["tokens", "full"][0, -1] += 1
    with pytest.raises(
        ValueError, match=r"row 0: 'mine' is a mask of the (\d+) tokens in the data, but .*as \1 others"
    ):
        RetrieveKL(**pair(), **options)(data)
    sampled = pair(prefer_tokens=True)
    RetrieveKL(**sampled, mask_key="mine")(data.clone())


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


# -------------------------------------------------------- KLRewardTransform


def whole_log_probs(data: TensorDict) -> TensorDict:
    """The data with the policy's log-probabilities of all tokens, as one that scores writes them."""
    write = RetrieveLogProb(wrapped(0), assistant_only=False, log_probs_full_key=("log_probs", "full"))
    return write(data)


@pytest.mark.parametrize(
    "options",
    [
        {"roles": ["tool"]},
        {"roles": ["tool", "assistant"], "exclude_tokens": ["<|im_end|>"]},
        {"roles": {"assistant"}},
        {"exclude_tokens": [4]},
        {},
    ],
)
def test_tokens_of_the_penalty_are_those_of_retrieve_kl(options: dict[str, Any]) -> None:
    found = KLRewardTransform(wrapped(1), coef=0.5, **options)(whole_log_probs(told(reward=torch.ones(2, 1))))
    wanted = RetrieveKL(**pair(), coeff=0.5, empty="zero", **options)(told(reward=torch.ones(2, 1)))
    assert bool(found["kl_penalty"][0].any())
    torch.testing.assert_close(found["kl_penalty"], wanted["kl_penalty"])
    torch.testing.assert_close(found["ref_log_probs"], wanted["ref_log_probs", "full"])
    torch.testing.assert_close(found["reward"], wanted["reward"])


def test_a_mask_of_the_penalty() -> None:
    data = whole_log_probs(told())
    width = data["log_probs", "full"].shape[-1]
    data["mine"] = torch.arange(width).expand(2, -1) >= width - 6
    found = KLRewardTransform(wrapped(1), mask_key="mine")(data.clone())["kl_penalty"]
    wanted = KLRewardTransform(wrapped(1))(data)["kl_penalty"]
    torch.testing.assert_close(found, wanted.where(data["mine"], 0.0))
    assert (found != wanted).any(), "the first answer is outside of the mask"
    with pytest.raises(KeyError, match=rf"no mask of \[2, {width}\] tokens at 'yours'"):
        KLRewardTransform(wrapped(1), mask_key="yours")(data)


def test_excluded_tokens_and_masks_behind_prompts() -> None:
    """Where it is not known what the assistant said, all behind the prompt counts but what is excluded."""
    ids = torch.tensor([[5, 6, 7, 4, 8, 4]]).repeat(2, 1)
    data = TensorDict(tokens={"full": ids, "prompt": ids[:, :2]}, batch_size=(2,))
    data["log_probs"] = {"full": torch.full((2, 6), -1.0)}
    data["mine"] = torch.tensor([[True] * 6, [False] * 4 + [True] * 2])
    reference = wrapped(1, input_mode="tokens")
    kl = KLRewardTransform(reference, exclude_tokens=[4], mask_key="mine")(data)["kl_penalty"]
    assert (kl != 0).tolist() == [[False, False, True, False, True, False], [False] * 4 + [True, False]]


def test_roles_of_sampled_tokens() -> None:
    """They end where sampling ended, before what the template puts behind the last message."""
    rendered = whole_log_probs(told())
    policy = wrapped(0, prefer_tokens=False)
    scored = policy(told())
    kept = scored["masks", "all_attention_mask"].clone()
    kept[:, -1] = False  # the template's line break
    data = told(tokens={"full": scored["tokens", "full"]}, log_probs=rendered["log_probs"].clone())
    data["masks"] = {"all_attention_mask": kept, "all_assistant_mask": scored["masks", "all_assistant_mask"]}
    transform = KLRewardTransform(wrapped(1), roles=["tool"])
    kl = transform(data)["kl_penalty"]
    wanted = KLRewardTransform(wrapped(1), roles=["tool"])(rendered)["kl_penalty"]
    assert bool(wanted[0].any())
    torch.testing.assert_close(kl, wanted)
    data["tokens", "full"][0, -8] += 1
    with pytest.raises(
        ValueError, match=r"row 0: the data have \d+ tokens that are not those of the conversation"
    ):
        transform(data)


@pytest.mark.parametrize("roles", [["tool"], ["tool", "assistant"]])
def test_roles_that_the_policy_did_not_sample(roles: list[str]) -> None:
    """A policy that samples writes log-probabilities of its own answers alone."""
    scored = whole_log_probs(told())
    said = wrapped(0, prefer_tokens=False)(told())["masks", "all_assistant_mask"]
    sampled = scored.clone()
    sampled["log_probs", "full"] = scored["log_probs", "full"].where(said, 0.0)
    transform = KLRewardTransform(wrapped(1), roles=roles)
    with pytest.raises(
        ValueError, match=r"row 0: \('log_probs', 'full'\) is 0 for all \d+ tokens of these roles"
    ):
        transform(sampled)
    only = KLRewardTransform(wrapped(1), roles=["assistant"])
    torch.testing.assert_close(only(sampled)["kl_penalty"], only(scored)["kl_penalty"])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"roles": "tool"}, "roles are names such as"),
        ({"roles": ["tool"], "assistant_only": False}, "with assistant_only=True"),
        ({"exclude_tokens": ["the weather"]}, "to be one token here"),
    ],
)
def test_keywords_of_the_penalty(options: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        KLRewardTransform(wrapped(1), **options)(whole_log_probs(told()))
    with pytest.raises(ValueError, match="input_mode='history'"):
        KLRewardTransform(wrapped(1, input_mode="tokens"), roles=["tool"])
