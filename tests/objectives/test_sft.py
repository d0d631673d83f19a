"""The generated `SFTLoss`: against TorchRL's, by its formulas, and over a small transformer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_std.losses import SFTLoss
from tensordict import TensorDict, TensorDictBase, lazy_stack
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from tests.objectives.language_models import LENGTH, Transformer, batch

PRECISIONS = [(torch.float32, 1e-5), (torch.float64, 1e-10)]


class Scores(nn.Module):
    """Writes log-probabilities that are its parameters, whatever it reads."""

    def __init__(self, rows: int, dtype: torch.dtype, lengths: list[int] | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.numbers = nn.Parameter(torch.randn(rows, LENGTH, dtype=dtype))
        self.lengths = lengths
        self.in_keys, self.out_keys = [("tokens", "full")], [("log_probs", "full")]

    def forward(self, data: TensorDictBase) -> Any:
        if self.lengths is None:
            data["log_probs", "full"] = -self.numbers.exp()
            return data
        rows = zip(self.numbers, self.lengths, strict=True)
        return lazy_stack([TensorDict({"log_probs": {"full": -row[:end].exp()}}) for row, end in rows])


SFT_OPTIONS: list[dict[str, Any]] = [
    {},
    {"normalize_by_seq_length": False},
    {"kl_to_ref_coeff": 0.1},
    {"kl_to_ref_coeff": 0.0},
    {"loss_function": "minor_sft", "beta": 0.3},
    {"loss_function": "minor_sft", "normalize_by_seq_length": False},
    {"reduction": "sum"},
    {"reduction": "none", "loss_function": "minor_sft"},
]


def answers(dtype: torch.dtype, lengths: list[int]) -> TensorDict:
    """Sequences of these lengths, padded behind."""
    data = batch(4, dtype=dtype)
    attended = torch.arange(LENGTH) < torch.tensor(lengths)[:, None]
    assistant = data["answered"] & attended
    assistant[:, 0] = True
    data["masks"] = {"all_assistant_mask": assistant, "all_attention_mask": attended}
    reference = data["next", "ref_log_probs", "full"]
    data["next", "ref_log_probs", "full"] = torch.where(assistant, reference, torch.zeros_like(reference))
    return data


@pytest.mark.peers
@pytest.mark.parametrize("lengths", [[LENGTH] * 4, [6, 3, 5, 2]])
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("given", SFT_OPTIONS)
def test_sft_equals_torchrls(
    given: dict[str, Any], dtype: torch.dtype, tolerance: float, lengths: list[int]
) -> None:
    llm = pytest.importorskip("torchrl.objectives.llm")
    data = answers(dtype, lengths)
    mine = SFTLoss(Scores(4, dtype), **given)
    theirs = llm.SFTLoss(Scores(4, dtype, lengths), tokenizer=object(), **given)
    ragged = []
    for row, end in zip(data.clone(), lengths, strict=True):
        for key in (("masks", "all_assistant_mask"), ("masks", "all_attention_mask")):
            row[key] = row[key][:end]
        row["next", "ref_log_probs", "full"] = row["next", "ref_log_probs", "full"][:end]
        row.set_non_tensor(("history", "full"), "text")
        ragged.append(row)
    found, wanted = mine(data), theirs(lazy_stack(ragged)).to_tensordict()
    assert (
        set(found.keys()) == set(mine.out_keys) == {key for key, value in wanted.items() if value is not None}
    )
    # the peer's distance is a mean over all tokens, questions included, where it is 0
    scale = data["masks", "all_assistant_mask"].sum().item() / sum(lengths)
    for key, value in found.items():
        factor = scale if "kl" in key else 1.0
        torch.testing.assert_close(value * factor, wanted[key], rtol=tolerance, atol=tolerance, msg=key)
        if key.startswith("loss_"):
            (got,) = torch.autograd.grad(value.sum(), mine.parameters(), retain_graph=True)
            (other,) = torch.autograd.grad(wanted[key].sum(), theirs.parameters(), retain_graph=True)
            torch.testing.assert_close(got * factor, other, rtol=tolerance, atol=tolerance, msg=key)


@pytest.mark.peers
def test_the_distance_is_reduced_as_the_loss_is_and_not_in_the_peer() -> None:
    llm = pytest.importorskip("torchrl.objectives.llm")
    lengths = [LENGTH] * 4
    data = answers(torch.float64, lengths)
    texts = [row.set_non_tensor(("history", "full"), "text") for row in data.clone().unbind(0)]
    mine, theirs = {}, {}
    for reduction in ("mean", "sum", "none"):
        given: dict[str, Any] = {"kl_to_ref_coeff": 0.1, "reduction": reduction}
        mine[reduction] = SFTLoss(Scores(4, torch.float64), **given)(data)["loss_kl_to_ref"]
        peer = llm.SFTLoss(Scores(4, torch.float64, lengths), tokenizer=object(), **given)
        theirs[reduction] = peer(lazy_stack(texts)).loss_kl_to_ref
    assert mine["none"].shape == (4,)
    torch.testing.assert_close(mine["none"].sum(), mine["sum"])
    torch.testing.assert_close(mine["none"].mean(), mine["mean"])
    torch.testing.assert_close(theirs["none"], theirs["mean"])
    torch.testing.assert_close(theirs["sum"], theirs["mean"])


def test_sft_masks_what_it_reads() -> None:
    """What is no answer may be NaN, in the model's log-probabilities as well as in the reference's."""
    data = answers(torch.float64, [6, 3, 5, 2])
    assistant = data["masks", "all_assistant_mask"]
    reference = data["next", "ref_log_probs", "full"].clone()
    data["next", "ref_log_probs", "full"] = torch.where(
        assistant, reference, torch.full_like(reference, torch.nan)
    )
    for given in ({"kl_to_ref_coeff": 0.5}, {"loss_function": "minor_sft"}):
        model = Scores(4, torch.float64)
        model.numbers.data[~assistant] = torch.nan
        loss = SFTLoss(model, **given)
        outputs = loss(data)
        log_p = [-row[which].exp() for row, which in zip(model.numbers, assistant, strict=True)]
        other = [row[which] for row, which in zip(reference, assistant, strict=True)]
        ahead = torch.stack([a.mean() - b.mean() for a, b in zip(log_p, other, strict=True)])
        if "loss_function" in given:
            expected = {"loss_sft": -(1 / (1 + (-0.1 * ahead).exp())).log().mean()}
        else:
            apart = torch.cat(other) - torch.cat(log_p)
            distance = (apart.exp() - 1 - apart).mean()
            likelihood = torch.stack([row.mean() for row in log_p]).mean()
            expected = {"loss_sft": -likelihood, "loss_kl_to_ref": 0.5 * distance, "kl_to_ref": distance}
        assert set(outputs.keys()) == set(expected)
        for key, value in expected.items():
            torch.testing.assert_close(outputs[key], value, msg=key)
        total = sum(value for key, value in outputs.items() if key.startswith("loss"))
        (gradient,) = torch.autograd.grad(total, [model.numbers])
        assert gradient[assistant].isfinite().all()
        assert not gradient[~assistant].nan_to_num(1.0).any() or gradient[~assistant].isnan().all()


def test_who_tells_which_tokens_are_of_answers() -> None:
    """A network that writes no mask does where the data have one; else it has to."""
    data = answers(torch.float32, [6, 3, 5, 2])
    loss = SFTLoss(Scores(4, torch.float32))
    assert ("masks", "all_assistant_mask") not in loss.in_keys, "it may be missing"
    loss(data)
    del data["masks", "all_assistant_mask"]
    with pytest.raises(
        KeyError, match=r"actor_network does not write \('masks', 'all_assistant_mask'\); it writes"
    ):
        loss(data)


@pytest.mark.peers
def test_minor_sft_takes_no_coefficient_and_does_with_a_warning_in_the_peer() -> None:
    llm = pytest.importorskip("torchrl.objectives.llm")
    scores = Scores(4, torch.float32)
    with pytest.warns(UserWarning, match="kl_to_ref_coeff should not be set"):
        llm.SFTLoss(scores, tokenizer=object(), loss_function="minor_sft", kl_to_ref_coeff=0.1)
    with pytest.raises(ValueError, match="leave kl_to_ref_coeff out"):
        SFTLoss(Scores(4, torch.float32), loss_function="minor_sft", kl_to_ref_coeff=0.1)


@pytest.mark.parametrize("loss_function", ["sft", "minor_sft"])
def test_a_transformer_repeats_what_it_is_shown(loss_function: Any) -> None:
    model = Transformer()
    tokens = torch.arange(LENGTH).repeat(4, 1)

    def log_probs(given: Tensor) -> Tensor:
        return model(given).log_softmax(-1).gather(-1, given.unsqueeze(-1)).squeeze(-1)

    network = TensorDictModule(log_probs, in_keys=[("tokens", "full")], out_keys=[("log_probs", "full")])
    network.add_module("model", model)
    loss = SFTLoss(network, loss_function=loss_function, beta=1.0)
    answer = torch.arange(LENGTH) >= 2
    data = TensorDict(
        {
            "tokens": {"full": tokens},
            "masks": {"all_assistant_mask": answer.expand(4, LENGTH)},
            "next": {"ref_log_probs": {"full": log_probs(tokens).detach()}},
        },
        [4],
    )
    before = log_probs(tokens)[:, answer].exp().mean()
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-2)
    for _ in range(40):
        optimizer.zero_grad()
        loss(data)["loss_sft"].backward()
        optimizer.step()
    assert before < 0.3
    assert log_probs(tokens)[:, answer].exp().min() > 0.8
