"""Losses of language models: rows of different lengths, which tokens count, and outputs as attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from specgen_runtime.llm import Tokens, TransformersWrapper
from specgen_std.losses import SFTLoss
from specgen_std.losses.grpo import DAPO, CISPOLoss, GRPOLoss
from tensordict import TensorDict, TensorDictBase, lazy_stack

from tests.llm.models import tiny_model

LENGTHS = ((3, 7), (2, 4), (5, 9))
"""Of each row's prompt, and of the whole."""


def actor(**keywords: Any) -> TransformersWrapper:
    given = {"input_mode": "tokens", "generate": False, "pad_output": True, **keywords}
    return TransformersWrapper(tiny_model("llama"), **given)


def rows(masks: bool = True) -> list[TensorDict]:
    """Sampled sequences, one tensordict for each, with an advantage for each token."""
    noise = torch.Generator().manual_seed(0)
    made = []
    for prompt, whole in LENGTHS:
        ids = torch.randint(3, 60, (whole,), generator=noise)
        said = torch.arange(whole) >= prompt
        old = torch.where(said, -4 + 0.3 * torch.randn(whole, generator=noise), 0.0)
        row = TensorDict(
            tokens=Tokens(full=ids, prompt=ids[:prompt]),
            log_probs={"full": old},
            next={"ref_log_probs": {"full": 1.1 * old}},
            advantage=torch.randn(whole, 1, generator=noise),
        )
        if masks:
            row["masks"] = {"all_assistant_mask": said, "all_attention_mask": torch.ones_like(said)}
        made.append(row)
    return made


def padded(of: Sequence[int] = range(len(LENGTHS)), width: int = 9) -> TensorDict:
    """The same, or some of them, with padding on the left, by hand."""

    def left(row: torch.Tensor) -> torch.Tensor:
        return torch.cat([row.new_zeros(width - len(row), *row.shape[1:]), row])

    chosen = [rows()[index] for index in of]
    return torch.stack([TensorDict({key: left(row[key]) for key in keys_of(row)}) for row in chosen])


def keys_of(row: TensorDictBase) -> list[Any]:
    return [key for key in row.keys(True, True) if key not in (("tokens", "prompt"), ("tokens", "padded"))]


def test_steps_of_different_widths() -> None:
    """Two turns of two conversations, each turn as wide as its longest row: the same as of one width."""
    loss = GRPOLoss(actor())
    of_one_width = torch.stack([padded([0, 1]), padded([2, 0])], 1)
    turns = lazy_stack([padded([0, 1], 7), padded([2, 0])], 1)
    for data in (turns, turns.reshape(-1)):
        torch.testing.assert_close(loss(data)["loss_objective"], loss(of_one_width)["loss_objective"])


OF_ADVANTAGES = [
    lambda model: GRPOLoss(model, kl_to_ref_coeff=0.1, kl_to_inference_coeff=0.2),
    lambda model: DAPO(model, clip_epsilon=(0.2, 0.28), aggregation="prompt_mean"),
    lambda model: CISPOLoss(model),
]


def sft(model: TransformersWrapper) -> SFTLoss:
    return SFTLoss(model, kl_to_ref_coeff=0.1)


@pytest.mark.parametrize(
    ("make", "masks"),
    [*((make, True) for make in (*OF_ADVANTAGES, sft)), *((make, False) for make in OF_ADVANTAGES)],
)
def test_rows_of_different_lengths_are_padded(make: Any, masks: bool) -> None:
    """Without masks, answers are what follows the prompts; `SFTLoss` needs the mask."""
    loss = make(actor())
    data = lazy_stack(rows(masks))
    expected, found = loss(padded()), loss(data)
    assert set(found.keys()) == set(expected.keys())
    for key in expected.keys():  # noqa: SIM118
        torch.testing.assert_close(found[key], expected[key], msg=key)
    assert [len(row) for row in data.get(("tokens", "full"), as_list=True)] == [7, 4, 9], (
        "data stay as they are"
    )


def test_wrappers_that_do_not_pad_write_what_losses_read() -> None:
    """A container of rows in a tensordict that is no lazy stack."""
    model = actor(pad_output=False)
    data = model(lazy_stack(rows()).select("tokens", "masks"))
    data["advantage"] = torch.ones(3, 1)
    assert isinstance(data.get(("log_probs", "full"), as_list=True), list)
    found = GRPOLoss(model)(data)
    torch.testing.assert_close(found["ESS"], torch.tensor(1.0))
    torch.testing.assert_close(found["loss_objective"], torch.tensor(-1.0))


def test_a_network_that_does_not_pad_is_read_beside_data_of_rows() -> None:
    """What it writes is padded where the data are, so that each token meets its own reference and mask."""
    data = lazy_stack(rows())
    model = actor(pad_output=False)
    expected, found = sft(model.get_new_version(pad_output=True))(data), sft(model)(data)
    for key in expected.keys():  # noqa: SIM118
        torch.testing.assert_close(found[key], expected[key], msg=key)
    assert expected["kl_to_ref"] != 0


@pytest.mark.parametrize("kind", [GRPOLoss, DAPO, CISPOLoss])
def test_which_tokens_count(kind: Any) -> None:
    data = padded()
    said, attended = (data["masks", f"all_{name}_mask"] for name in ("assistant", "attention"))
    data["log_probs", "full"] = torch.full((3, 9), -4.0)
    ids = data["tokens", "full"]
    places = (attended.long().cumsum(-1) - 1).clamp_min(0)
    logits = tiny_model("llama")(input_ids=ids, attention_mask=attended.long(), position_ids=places).logits
    before = logits[:, :-1].log_softmax(-1)
    log_probs = before.gather(-1, ids[:, 1:, None])[..., 0]
    for strategy, counted in (("sft", said), ("rlhf", said), ("generic", attended)):
        found = kind(actor(), masking_strategy=strategy)(data)
        kept = counted[:, 1:] & attended[:, :-1]
        assert kept.sum() == {"sft": 10, "rlhf": 10, "generic": 17}[strategy]
        torch.testing.assert_close(found["kl_approx"], (-4 - log_probs[kept]).mean())
        entropy = -(before.exp() * before).sum(-1)[kept].mean()
        torch.testing.assert_close(found["entropy"], entropy)
    with pytest.raises(KeyError, match=r"attention_mask \('masks', 'all_attention_mask'\) is not in the"):
        kind(actor(), masking_strategy="generic")(data.exclude(("masks", "all_attention_mask")))
    with pytest.raises(
        ValueError, match="masking_strategy must be one of 'sft', 'rlhf', 'generic', got 'all'"
    ):
        kind(actor(), masking_strategy="all")


def test_answers_follow_prompts_where_there_is_no_mask() -> None:
    data = padded().exclude("masks")
    data["tokens", "prompt"] = data["tokens", "full"][:, :5]
    mask = actor().get_dist(data).mask
    assert mask.tolist() == [[False] * 5 + [True] * 4] * 3
    assert actor().get_dist(data.exclude(("tokens", "prompt"))).mask.tolist() == [[False] + [True] * 8] * 3


@pytest.mark.parametrize(
    ("keyword", "instead"),
    [
        ("clip_value", "use none, there is no critic"),
        ("ref_log_prob_padding_side", "use padded data, or rows of different lengths"),
        ("ref_log_prob_padding_value", "use padded data, or rows of different lengths"),
    ],
)
def test_keywords_of_torchrl_that_have_no_meaning_here(keyword: str, instead: str) -> None:
    with pytest.raises(TypeError, match=f"GRPOLoss takes no {keyword}: {instead}"):
        GRPOLoss(actor(), **{keyword: 0.0})


def test_outputs_are_attributes() -> None:
    found = GRPOLoss(actor())(padded())
    assert found.loss_objective is found["loss_objective"]
    assert found["ESS"] == found.detach().ESS
    with pytest.raises(
        AttributeError, match="there is no 'kl_to_ref'; the loss returned loss_objective, clip_fraction"
    ):
        found.kl_to_ref  # noqa: B018
