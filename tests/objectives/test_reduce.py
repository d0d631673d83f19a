"""Samples of more dimensions than the batch: their policies, and means over some of them before the reduction."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.objectives.policies import PolicyDistribution
from specgen_runtime.objectives.reduction import reduce
from tensordict import TensorDict
from tensordict.nn import (
    NormalParamExtractor,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
)
from torch import Tensor, nn

from tests.support import generate, imported

SCHEMA = """\
specgen: 1
losses:
  AgentsLoss:
    samples: [batch, agents, time]
    reduce: {by: aggregation, each_time: [agents], each_agent: [time], each_batch: [time, agents], all: [], kept: none}
    networks:
      policy: {policy: action, in: [observation]}
    keys:
      action: action
      advantage: {key: advantage, type: "float32[1]"}
      priority_weight: priority_weight
    params: {aggregation: {type: "enum(each_time, each_agent, each_batch, all, kept)", default: all}}
    let:
      dist: policy(now)
    mask: answered(dist)
    terms:
      loss: -log_prob(dist, action) * advantage
    metrics:
      entropy: entropy(dist)
"""
PACKAGE = "losses_of_agents"
SHAPE = (5, 3, 4)
WORDS = {"each_time": (1,), "each_agent": (2,), "each_batch": (1, 2), "all": ()}


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    with imported(generate({"agents.yaml": SCHEMA}, PACKAGE), PACKAGE, tmp_path_factory.mktemp("made")):
        yield importlib.import_module(f"{PACKAGE}.agents")


class Masked(torch.distributions.Normal):
    """A distribution that says which of its values are of the policy."""

    mask: Tensor | None = None

    def __init__(self, loc: Tensor, scale: Tensor, mask: Tensor | None = None) -> None:
        super().__init__(loc, scale)
        self.mask = None if mask is None else mask.unsqueeze(-1).expand(loc.shape)


def policy(*, marks: bool = True) -> ProbabilisticTensorDictSequential:
    torch.manual_seed(0)
    numbers = nn.Sequential(nn.Linear(4, 4), NormalParamExtractor())
    return ProbabilisticTensorDictSequential(
        TensorDictModule(numbers, ["observation"], ["loc", "scale"]),
        ProbabilisticTensorDictModule(
            ["loc", "scale", *(["mask"] if marks else [])], ["action"], distribution_class=Masked
        ),
    )


def batch() -> TensorDict:
    generator = torch.Generator().manual_seed(3)
    mask = torch.rand(SHAPE, generator=generator) < 0.5
    mask[0], mask[1, 0], mask[2, :, 1] = False, False, False
    return TensorDict(
        {
            "observation": torch.randn(*SHAPE, 4, generator=generator),
            "action": torch.randn(*SHAPE, 2, generator=generator),
            "advantage": torch.randn(5, 1, generator=generator),
            "priority_weight": torch.rand(5, generator=generator),
            "mask": mask,
        },
        [5],
    )


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("word", [*WORDS, "kept"])
def test_means_come_first(
    agents: ModuleType, word: str, reduction: str, weighted: bool, masked: bool
) -> None:
    """Means of what counts; where nothing does there is none."""
    data, net = batch(), policy(marks=masked)
    if not masked:
        data["mask"] = torch.ones(SHAPE, dtype=torch.bool)
    loss = agents.AgentsLoss(net, aggregation=word, reduction=reduction, use_prioritized_weights=weighted)
    outputs = loss(data)
    made = net.get_dist(data.clone())
    values = -made.log_prob(data["action"]).sum(-1) * data["advantage"].unsqueeze(-1)
    mask, weights = data["mask"], data["priority_weight"] if weighted else torch.ones(5)
    if "none" in (reduction, {"kept": "none"}.get(word)):
        expected = torch.where(mask, values * weights[:, None, None], 0.0)
    else:
        dims = WORDS[word]
        groups = values.movedim(dims, tuple(range(3 - len(dims), 3))).reshape(
            *[size for dim, size in enumerate(SHAPE) if dim not in dims], -1
        )
        counts = mask.movedim(dims, tuple(range(3 - len(dims), 3))).reshape(groups.shape)
        total, weight = torch.zeros(()), torch.zeros(())
        for index in torch.cartesian_prod(
            *[torch.arange(size) for size in groups.shape[:-1]], torch.tensor([0])
        ):
            place = tuple(index[:-1].tolist())
            if counts[place].any():
                total = total + weights[place[0]] * groups[place][counts[place]].mean()
                weight = weight + weights[place[0]]
        expected = total / weight if reduction == "mean" else total
    torch.testing.assert_close(outputs["loss"], expected)
    torch.testing.assert_close(outputs["entropy"], made.entropy().sum(-1)[mask].mean())


def test_weights_of_samples_weigh_within_a_mean() -> None:
    x = torch.tensor([[1.0, 3.0, 8.0], [2.0, 5.0, torch.nan]])
    weights = torch.tensor([[1.0, 3.0, 4.0], [2.0, 0.0, 1.0]])
    mask = torch.tensor([[True, True, False], [True, True, False]])
    found = reduce(x, "mean", mask=mask, weights=weights, first=(-1,))
    means, behind = torch.tensor([(1 + 9) / 4, 2.0]), torch.tensor([2.0, 1.0])
    torch.testing.assert_close(found, (means * behind).sum() / behind.sum())
    assert reduce(x, "mean", mask=torch.zeros_like(mask), first=(-1,)) == 0


def test_what_a_distribution_does_not_mark_counts() -> None:
    logits = torch.randn(4, 6, 3)
    for distribution in (torch.distributions.Categorical(logits=logits), Masked(logits, logits.exp())):
        made = PolicyDistribution(distribution, 2)
        assert made.answered().shape == (4, 6)
        assert made.answered().all()


def test_reduce_is_checked_when_a_loss_is_made(agents: ModuleType) -> None:
    with pytest.raises(ValueError, match="aggregation must be one of"):
        agents.AgentsLoss(policy(), aggregation="agents")
    assert agents.AgentsLoss.means_first["each_batch"] == (-1, -2)
    given: dict[str, Any] = {"aggregation": "each_agent"}
    assert agents.AgentsLoss(policy(), **given).aggregation == "each_agent"
