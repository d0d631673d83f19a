"""Specs: drawing, checking, projecting, encoding and building, against TorchRL's and against torch by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import specgen_runtime.specs
import torch
import torchrl.data
from tensordict import TensorDict

from benchmarks.harness import Budget, Row, Work, paired

OURS, PEER = specgen_runtime.specs, torchrl.data

# What an environment with a camera gives at each step.
OBSERVED: dict[str, Any] = {
    "observation": np.zeros(4, np.float32),
    "pixels": np.zeros((3, 32, 32), np.uint8),
    "action": 2,
    "room": 3,
    "done": np.array([True]),
    "reward": np.zeros(1, np.float32),
}

Prepare = Callable[[ModuleType], Callable[[], object]]


def rows(budget: Budget) -> Iterator[Row]:
    """A `Bounded` of four floats, and a `Composite` of six leaves."""
    yield from _family("Bounded", _bounded, np.zeros(4, np.float32), budget)
    yield from _family("Composite of 6", _composite, OBSERVED, budget, {"rand": 2.0, "encode": 2.0})
    spec = _composite(OURS)
    for name, ours, by_hand in (
        ("rand", spec.rand, _rand_by_hand),
        ("encode", lambda: spec.encode(OBSERVED), _encode_by_hand),
    ):
        yield paired(f"Composite of 6, {name}", Work(ours), Work(by_hand), budget, peer_name="torch by hand")


def _family(
    name: str,
    make: Callable[[ModuleType], Any],
    observed: object,
    budget: Budget,
    limits: dict[str, float] | None = None,
) -> Iterator[Row]:
    prepared: dict[str, Prepare] = {
        "rand": lambda module: make(module).rand,
        "is_in": lambda module: _with_draw(make(module), "is_in", scale=1),
        "project, inside": lambda module: _with_draw(make(module), "project", scale=1),
        "project, outside": lambda module: _with_draw(make(module), "project", scale=3),
        "encode": lambda module: _encoding(make(module), observed),
        "build": lambda module: lambda: make(module),
    }
    for what, prepare in prepared.items():
        limit = (limits or {}).get(what, 1.0)
        torch.manual_seed(0)
        yield paired(f"{name}, {what}", Work(prepare(OURS)), Work(prepare(PEER)), budget, limit=limit)


def _with_draw(spec: Any, method: str, scale: int) -> Callable[[], object]:
    """Call a method with a draw, whose floats are scaled out of the spec's bounds."""
    value = spec.rand()
    call = getattr(spec, method)
    if scale == 1:
        return lambda: call(value)
    if isinstance(value, torch.Tensor):
        outside = torch.full_like(value, scale)
        return lambda: call(outside)
    value["observation"] = torch.full_like(value["observation"], scale)
    # A composite projects in place: a shallow copy keeps what was given outside.
    return lambda: call(value.copy())


def _encoding(spec: Any, observed: object) -> Callable[[], object]:
    return lambda: spec.encode(observed)


def _bounded(module: ModuleType) -> Any:
    return module.Bounded(-1, 1, (4,))


def _composite(module: ModuleType) -> Any:
    return module.Composite(
        observation=module.Bounded(-1, 1, (4,)),
        pixels=module.Bounded(0, 255, (3, 32, 32), dtype=torch.uint8),
        action=module.OneHot(4),
        room=module.Categorical(5),
        done=module.Binary(shape=(1,), dtype=torch.bool),
        reward=module.Unbounded((1,)),
    )


def _rand_by_hand() -> TensorDict:
    return TensorDict(
        {
            "observation": torch.rand(4) * 2 - 1,
            "pixels": torch.randint(256, (3, 32, 32), dtype=torch.uint8),
            "action": torch.nn.functional.one_hot(torch.randint(4, ()), 4).bool(),
            "room": torch.randint(5, ()),
            "done": torch.randint(2, (1,), dtype=torch.bool),
            "reward": torch.randn(1),
        }
    )


def _encode_by_hand() -> TensorDict:
    action = torch.zeros(4, dtype=torch.bool)
    action[OBSERVED["action"]] = True
    return TensorDict(
        {
            "observation": torch.from_numpy(OBSERVED["observation"].copy()),
            "pixels": torch.from_numpy(OBSERVED["pixels"].copy()),
            "action": action,
            "room": torch.tensor(OBSERVED["room"]),
            "done": torch.from_numpy(OBSERVED["done"].copy()),
            "reward": torch.from_numpy(OBSERVED["reward"].copy()),
        }
    )
