"""The generated `DistillationLoss`: against TorchRL's, by its formula, and against the gradient of a KL divergence."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_std.losses import DistillationLoss
from tensordict import TensorDict, lazy_stack
from tensordict.nn import TensorDictModule

from tests.objectives.test_sft import LENGTH, PRECISIONS, Scores, answers

OPTIONS: list[dict[str, Any]] = [
    {},
    {"kl_direction": "forward"},
    {"assistant_only": False},
    {"normalize_by_seq_length": False, "reduction": "sum"},
    {"normalize_by_seq_length": False, "kl_direction": "forward", "assistant_only": False},
    {"reduction": "none"},
]


def taught(dtype: torch.dtype, lengths: list[int]) -> TensorDict:
    """Sequences of these lengths, all tokens of which a teacher scored."""
    data = answers(dtype, lengths)
    generator = torch.Generator().manual_seed(3)
    scores = -torch.randn(4, LENGTH, generator=generator, dtype=torch.float64).exp().to(dtype)
    data["next", "teacher_log_probs", "full"] = scores
    return data


@pytest.mark.peers
@pytest.mark.parametrize("lengths", [[LENGTH] * 4, [6, 3, 5, 2]])
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("given", OPTIONS)
def test_equals_torchrls(
    given: dict[str, Any], dtype: torch.dtype, tolerance: float, lengths: list[int]
) -> None:
    llm = pytest.importorskip("torchrl.objectives.llm")
    data = taught(dtype, lengths)
    mine = DistillationLoss(Scores(4, dtype), **given)
    theirs = llm.DistillationLoss(Scores(4, dtype, lengths), tokenizer=object(), **given)
    ragged = []
    for row, end in zip(data.clone(), lengths, strict=True):
        for key in (("masks", "all_assistant_mask"), ("masks", "all_attention_mask")):
            row[key] = row[key][:end]
        row["next", "teacher_log_probs", "full"] = row["next", "teacher_log_probs", "full"][:end]
        row.set_non_tensor(("history", "full"), "text")
        ragged.append(row)
    found, wanted = mine(data), theirs(lazy_stack(ragged)).to_tensordict()
    assert set(found.keys()) == set(mine.out_keys) == {"loss_distill", "kl_to_teacher"}
    for key, value in found.items():
        torch.testing.assert_close(value, wanted[key], rtol=tolerance, atol=tolerance, msg=key)
    assert not found["kl_to_teacher"].requires_grad
    (got,) = torch.autograd.grad(found["loss_distill"].sum(), mine.parameters())
    (other,) = torch.autograd.grad(wanted["loss_distill"].sum(), theirs.parameters())
    torch.testing.assert_close(got, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("direction", ["reverse", "forward"])
def test_what_does_not_count_may_be_nan(direction: Any) -> None:
    data = taught(torch.float64, [6, 3, 5, 2])
    assistant = data["masks", "all_assistant_mask"]
    teacher = data["next", "teacher_log_probs", "full"]
    data["next", "teacher_log_probs", "full"] = torch.where(assistant, teacher, torch.nan)
    model = Scores(4, torch.float64)
    model.numbers.data[~assistant] = torch.nan
    found = DistillationLoss(model, kl_direction=direction)(data)
    rows = []
    for row, other, counts in zip(model.numbers, teacher, assistant, strict=True):
        apart = -row[counts].exp() - other[counts]
        apart = apart if direction == "reverse" else -apart
        rows.append(((-apart).exp() - 1 + apart).mean())
    torch.testing.assert_close(found["loss_distill"], torch.stack(rows).mean())
    torch.testing.assert_close(found["kl_to_teacher"], torch.stack(rows).mean().detach())
    (gradient,) = torch.autograd.grad(found["loss_distill"], [model.numbers])
    assert gradient[assistant].isfinite().all()


@pytest.mark.parametrize("direction", ["reverse", "forward"])
def test_the_gradient_is_that_of_the_teachers_divergence(direction: Any) -> None:
    """Over all tokens of a vocabulary, as often as who draws them says; the value is the divergence of the direction."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(5, generator=generator, dtype=torch.float64).requires_grad_()
    teacher = torch.randn(5, generator=generator, dtype=torch.float64).log_softmax(-1)
    student = logits.log_softmax(-1)
    drawn = (student if direction == "reverse" else teacher).detach().exp()
    network = TensorDictModule(
        lambda tokens: logits.log_softmax(-1)[tokens], in_keys=[("tokens", "full")], out_keys=["log_probs"]
    )
    tokens = torch.arange(5)[:, None]  # a sequence of each token
    data = TensorDict(
        {
            "tokens": {"full": tokens},
            "masks": {"all_assistant_mask": torch.ones(5, 1, dtype=torch.bool)},
            "teacher": teacher[tokens],
        },
        [5],
    )
    loss = DistillationLoss(network, kl_direction=direction, reduction="none")
    loss.set_keys(log_probs="log_probs", teacher_log_prob="teacher")
    expected = (drawn * loss(data)["loss_distill"]).sum()
    forward = (teacher.exp() * (teacher - student)).sum()
    reverse = (student.exp() * (student - teacher)).sum()
    torch.testing.assert_close(expected, reverse if direction == "reverse" else forward)
    (got,) = torch.autograd.grad(expected, logits, retain_graph=True)
    (wanted,) = torch.autograd.grad(forward, logits)
    torch.testing.assert_close(got, wanted)


@pytest.mark.peers
def test_sequences_without_answers_do_not_count_and_are_refused_by_the_peer() -> None:
    llm = pytest.importorskip("torchrl.objectives.llm")
    data = taught(torch.float64, [LENGTH] * 4)
    data["masks", "all_assistant_mask"][1] = False
    kept = torch.tensor([0, 2, 3])
    model = Scores(4, torch.float64)
    few = Scores(4, torch.float64)
    few.numbers.data = model.numbers.data[kept]
    found, expected = DistillationLoss(model)(data), DistillationLoss(few)(data[kept])
    torch.testing.assert_close(found.to_dict(), expected.to_dict())
    texts = lazy_stack([row.set_non_tensor(("history", "full"), "text") for row in data.clone().unbind(0)])
    with pytest.raises(ValueError, match="no tokens selected"):
        llm.DistillationLoss(Scores(4, torch.float64, [LENGTH] * 4), tokenizer=object())(texts)


def test_without_masks_the_student_tells_them() -> None:
    data = taught(torch.float32, [6, 3, 5, 2])
    masks = data.pop("masks")

    class Marks(Scores):
        """Writes the masks, too."""

        def __init__(self) -> None:
            super().__init__(4, torch.float32)
            self.out_keys += [("masks", "all_assistant_mask"), ("masks", "all_attention_mask")]

        def forward(self, data: Any) -> Any:
            return super().forward(data).update({"masks": masks})

    for assistant_only in (True, False):
        given = {"assistant_only": assistant_only}
        found = DistillationLoss(Marks(), **given)(data)["loss_distill"]
        # what a student that tells nothing of padding is told by the data
        which = masks["all_assistant_mask" if assistant_only else "all_attention_mask"]
        told = data.clone().set("masks", {"all_assistant_mask": which, "all_attention_mask": which})
        torch.testing.assert_close(
            found, DistillationLoss(Scores(4, torch.float32), **given)(told)["loss_distill"]
        )
    with pytest.raises(KeyError, match="actor_network does not write"):
        DistillationLoss(Scores(4, torch.float32), assistant_only=False)(data)


def test_a_direction_that_is_none() -> None:
    with pytest.raises(ValueError, match="kl_direction must be one of 'reverse', 'forward'"):
        DistillationLoss(Scores(4, torch.float32), kl_direction="both")  # type: ignore[arg-type]
