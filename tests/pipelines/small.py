"""The pipelines of the standard library, with numbers that are small enough for tests."""

from __future__ import annotations

import atexit
import functools
import importlib
import pkgutil
import tempfile
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import specgen_std.pipelines
import torch
from specgen_runtime.objectives import LossModule
from specgen_std.chains.pendulum import PendulumTrain

NAMES = sorted(module.name for module in pkgutil.iter_modules(specgen_std.pipelines.__path__))
"""The modules of `specgen_std.pipelines`."""

SIMULATED = ("ppo_cartpole_gym",)
"""Those of them whose environments are simulators: a resumed training begins new episodes."""

_SMALL: dict[str, float] = {
    "num_envs": 2, "num_steps": 4, "epochs": 2, "minibatch_size": 4, "minibatches": 2,
    "capacity": 256, "batch_size": 8, "warm_up_frames": 16, "slice_length": 2, "random_frames": 8, "updates": 2, "delay": 2,
    "evaluate_every": 16, "evaluate_episodes": 2, "checkpoint_every": 16, "stop_return": 1e9,
    "total_frames": 48, "total_updates": 12,
}  # fmt: skip


def pipeline(name: str) -> ModuleType:
    """A printed module."""
    return importlib.import_module(f"specgen_std.pipelines.{name}")


def parts_class(module: ModuleType) -> Any:
    """The class of its parts."""
    (name,) = (name for name in module.__all__ if f"{name}Config" in module.__all__)
    return getattr(module, name)


def small_config(module: ModuleType, **numbers: Any) -> Any:
    """Its configuration with small numbers, where those are not given."""
    config: Any = getattr(module, f"{parts_class(module).__name__}Config")()
    known = {field.name for field in fields(config)}
    given = {name: value for name, value in _SMALL.items() if name in known}
    if "total_updates" in known:
        given |= {"evaluate_every": 4, "checkpoint_every": 4}
    recorded = {"recorded": recorded_pendulum()} if "recorded" in known else {}
    return replace(config, **(given | recorded | numbers))


@functools.cache
def recorded_pendulum() -> str:
    """A folder with transitions of a random policy on Pendulum, batch size `[2, 40]`."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    env = PendulumTrain(batch_size=[2])
    env.set_seed(0)
    env.rollout(40).memmap(folder.name)
    return folder.name


def optimizers(parts: Any) -> dict[str, torch.optim.Optimizer]:
    """Its optimizers, by their attributes."""
    return {name: value for name, value in vars(parts).items() if isinstance(value, torch.optim.Optimizer)}


def losses(parts: Any) -> list[LossModule]:
    """Its losses."""
    return [value for value in vars(parts).values() if isinstance(value, LossModule)]


def leaves(state: Any, path: str = "") -> dict[str, Any]:
    """All values of nested mappings and sequences, by their places."""
    if isinstance(state, dict):
        items = state.items()
    elif isinstance(state, list | tuple):
        items = enumerate(state)
    else:
        return {path: state}
    found: dict[str, Any] = {}
    for key, value in items:
        found |= leaves(value, f"{path}/{key}")
    return found


def differing(a: Any, b: Any) -> list[str]:
    """The places at which two states differ in any bit."""
    left, right = leaves(a), leaves(b)
    assert left.keys() == right.keys()
    return [
        place
        for place, value in left.items()
        if not (
            torch.equal(value, right[place]) if isinstance(value, torch.Tensor) else value == right[place]
        )
    ]


def rows(folder: Path) -> list[dict[str, float]]:
    """The rows of a log, without what the clock says."""
    from specgen_runtime.training import read_log

    clock = ("seconds", "frames_per_second", "updates_per_second")
    return [
        {name: value for name, value in row.items() if name not in clock}
        for row in read_log(folder / "log.csv")
    ]
