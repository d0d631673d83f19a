"""What is declared as one number of each sample is refused in other shapes: `[batch, 1]` would meet all other samples."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_std.losses import DistributionalDQNLoss
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from tests.objectives.every_loss import KEYWORDS, batch, networks
from tests.support import generate, imported

SCHEMA = """\
specgen: 1
losses:
  NumbersLoss:
    networks:
      world: {in: [observation], out: {mean: "float32[1]", score: float32}}
      critics: {in: [observation, action], out: {worth: float32}, ensemble: n}
    keys: {goal: {key: goal, type: float32}, action: {key: action, type: "float32[a]"}}
    params: {n: {default: 2, min: 1}}
    let:
      state: world(now)
      worth_now: critics(now)
      noisy: uniform(-1, 1, like=action, n=3)
      drawn: critics(now, action=noisy)
    terms:
      loss_score: (state.score - goal)**2 + (state.mean - goal)**2
      loss_worth: mean((worth_now - goal)**2, axis=ensemble)
      loss_drawn: mean(mean(drawn**2, axis=draw), axis=ensemble)
"""
PACKAGE = "losses_of_numbers"

pytestmark = pytest.mark.filterwarnings("ignore:No target network updater")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    with imported(generate({"numbers.yaml": SCHEMA}, PACKAGE), PACKAGE, tmp_path_factory.mktemp("made")):
        yield importlib.import_module(f"{PACKAGE}.numbers")


class World(nn.Module):
    def __init__(self, *, column: bool) -> None:
        super().__init__()
        self.layers, self.column = nn.Linear(3, 2), column

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        mean, score = self.layers(observation).split(1, -1)
        return mean, score if self.column else score.squeeze(-1)


class Critic(nn.Module):
    def __init__(self, *, column: bool) -> None:
        super().__init__()
        self.layers, self.column = nn.Linear(5, 1), column

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        value = self.layers(torch.cat([observation, action], -1))
        return value if self.column else value.squeeze(-1)


def loss_of(made: ModuleType, *, world: bool = False, critic: bool = False) -> Any:
    """A loss of networks of which some write a trailing 1."""
    torch.manual_seed(0)
    return made.NumbersLoss(
        TensorDictModule(World(column=world), ["observation"], ["mean", "score"]),
        TensorDictModule(Critic(column=critic), ["observation", "action"], ["worth"]),
    )


def data(*shape: int) -> TensorDict:
    torch.manual_seed(1)
    return TensorDict(
        {"observation": torch.randn(*shape, 3), "action": torch.randn(*shape, 2), "goal": torch.randn(shape)},
        shape,
    )


@pytest.mark.parametrize("shape", [(4,), (3, 2)])
def test_numbers_of_each_sample(made: ModuleType, shape: tuple[int, ...]) -> None:
    assert all(value.isfinite() for value in loss_of(made)(data(*shape)).values())


def test_one_of_several_entries(made: ModuleType) -> None:
    loss = loss_of(made, world=True)
    with pytest.raises(
        RuntimeError, match=r"'score', the score, is one number of each sample, \[4\]; got \[4, 1\]"
    ):
        loss(data(4))


@pytest.mark.parametrize(
    ("term", "wanted", "got"),
    [("loss_worth", "[2, 4]", "[2, 4, 1]"), ("loss_drawn", "[2, 3, 4]", "[2, 3, 4, 1]")],
)
def test_values_of_members_and_of_draws(made: ModuleType, term: str, wanted: str, got: str) -> None:
    loss = loss_of(made, critic=True).select_out_keys(term)
    with pytest.raises(RuntimeError) as raised:
        loss(data(4))
    assert f"'worth', the worth, is one number of each sample, {wanted}; got {got}" in str(raised.value)


@pytest.mark.parametrize("role", ["reward", "terminated"])
def test_signals_without_their_trailing_one(role: str) -> None:
    """Five samples and five atoms: each sample's atoms would get the rewards of all."""
    name = "DistributionalDQNLoss"
    loss = DistributionalDQNLoss(**networks(DistributionalDQNLoss), **KEYWORDS[name])
    steps = batch(name, 5)
    steps["next", role] = steps["next", role].squeeze(-1)
    with pytest.raises(RuntimeError, match=rf"{role}.*, the {role}, has the shape \[5, 1\]; got \[5\]"):
        loss(steps)
