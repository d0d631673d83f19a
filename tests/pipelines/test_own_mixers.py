"""Teams whose values are mixed by a class of one's own."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.modules import MakesMixer, VDNMixer, own_mixer
from torch import Tensor, nn

from tests.pipelines.small import differing
from tests.pipelines.test_mixed_teams import NUMBERS, evaluated, printed
from tests.support import imported

MIXERS = """\
import torch
from specgen_runtime.modules import Mixer
from torch import nn
from torch.nn import functional


class Monotone(Mixer):
    made = []

    def __init__(self, *, n_agents, state_shape):
        super().__init__(n_agents, True, state_shape)
        Monotone.made.append((n_agents, state_shape))
        self.weights = nn.Linear(state_shape[0], 8 * n_agents)
        self.last = nn.Linear(state_shape[0], 8)
        self.bias = nn.Linear(state_shape[0], 8)
        self.value = nn.Linear(state_shape[0], 1)

    def mix(self, chosen_action_value, state):
        first = self.weights(state).abs().unflatten(-1, (-1, self.n_agents))
        hidden = functional.elu((first @ chosen_action_value).squeeze(-1) + self.bias(state))
        return (hidden * self.last(state).abs()).sum(-1, keepdim=True) + self.value(state)


class Weighted(nn.Module):
    def __init__(self, *, n_agents, state_shape):
        super().__init__()
        assert state_shape is None
        self.weight = nn.Parameter(torch.ones(n_agents, 1))

    def forward(self, values):
        return (values * self.weight.abs()).sum(-2)
"""


@contextmanager
def mixed_by(tmp_path: Path, mixer: str, more: str = "") -> Iterator[ModuleType]:
    """The game of two steps, mixed by a class."""
    lines = (
        f"networks: {{mixer_network: {{mixer: {{python: own_nets.mixers:{mixer}}}, in: {more or 'drop'}}}}}"
    )
    (tmp_path / "nets").mkdir()
    (tmp_path / "made").mkdir()
    with (
        imported({"__init__.py": "", "mixers.py": MIXERS}, "own_nets", tmp_path / "nets"),
        printed(tmp_path / "made", lines),
    ):
        yield importlib.import_module("made.other")


def test_a_mixer_of_ones_own_finds_what_pays(tmp_path: Path) -> None:
    with mixed_by(tmp_path, "Monotone", "[state]") as module:
        assert evaluated(module, "Other", tmp_path / "run", total_frames=6_000, seed=1) == 8
        made = importlib.import_module("own_nets.mixers").Monotone.made
        assert set(made) == {(2, (4,))}


def test_its_parameters_are_trained_and_have_targets(tmp_path: Path) -> None:
    with mixed_by(tmp_path, "Weighted") as module:
        numbers = {
            **NUMBERS,
            "evaluate_every": 5_000,
            "checkpoint_every": 64,
            "warm_up_frames": 64,
            "batch_size": 16,
        }
        config = module.OtherConfig(**{**numbers, "total_frames": 512})
        fresh, parts = module.Other(config), module.train(config, folder=tmp_path / "whole")
        name = ("module", "weight")
        live, target = (getattr(parts.robot_loss, f"{one}mixer_network_params") for one in ("", "target_"))
        assert not torch.equal(live[name], fresh.robot_loss.mixer_network_params[name])
        assert not torch.equal(target[name], fresh.robot_loss.mixer_network_params[name])
        module.train(module.OtherConfig(**{**numbers, "total_frames": 256}), folder=tmp_path / "cut")
        resumed = module.train(config, folder=tmp_path / "cut", resume=True)
        assert not differing(parts.state_dict(), resumed.state_dict())


class Wide(nn.Module):
    def __init__(self, *, n_agents: int, state_shape: tuple[int, ...] | None) -> None:
        super().__init__()

    def forward(self, values: Tensor) -> Tensor:
        return values


def _number(*, n_agents: int, state_shape: tuple[int, ...] | None) -> Any:
    return n_agents


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (Wide, ValueError, r"a mixer of Wide gives torch.float32 of shape \[2, 3, 1\] .* of shape \[2, 1\]"),
        (_number, TypeError, "_number makes a int, and a mixer is an nn.Module"),
    ],
)
def test_what_it_gives_is_checked(make: MakesMixer, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        own_mixer(make, n_agents=3, state_shape=None)


def test_a_mixer_that_does_not_fit_is_named_with_its_inputs() -> None:
    with pytest.raises(ValueError, match=r"can't be called with .* 2, \[2, 3, 1\], \[2, 4\]: TypeError"):
        own_mixer(lambda *, n_agents, state_shape: nn.Linear(1, 1), n_agents=3, state_shape=(4,))


def test_a_function_may_make_it() -> None:
    mixer = own_mixer(lambda *, n_agents, state_shape: VDNMixer(n_agents), n_agents=3, state_shape=None)
    assert mixer(torch.ones(5, 4, 3, 1)).tolist() == [[[3.0]] * 4] * 5
