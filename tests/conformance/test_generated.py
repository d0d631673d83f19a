"""Every generated class of the standard library, found by walking the package, under one contract."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import specgen_std
import torch
from specgen_runtime.envs import GeneratedEnv, GeneratedGymEnv, check_env_specs
from specgen_runtime.envs.keys import as_tuple
from specgen_runtime.objectives import LossModule
from specgen_runtime.specs import Composite
from specgen_runtime.testing import (
    check_done_rules,
    check_env,
    check_fake_tensordict,
    check_partial_resets,
    check_rollout_is_stepping,
)
from specgen_runtime.transforms import GeneratedTransform

from tests.objectives.every_loss import made as made_loss

WHOLE: list[tuple[int, ...]] = [(), (3,)]
"""Batch sizes of which the whole contract is checked."""
FURTHER: list[tuple[int, ...]] = [(1,), (7,), (4, 3)]
"""A batch size that equals a feature size hides wrong broadcasting, so both kinds are here."""

DETERMINISTIC = {"CliffWalking"}
"""Environments that draw nothing: all seeds give the same."""

LONG = {"AcrobotTrain", "MountainCarContinuousTrain"}
"""Chains with a time limit of 500 steps or more, which random actions seldom end before."""

REQUIRED: dict[str, Any] = {
    "num_intervals": 3,
    "num_actions_effective": 2,
    "dtype_in": "float32",
    "dtype_out": "float64",
    "max_actions": 4,
    "steps": 3,
    "target_network": torch.nn.Linear(4, 2),
    "predictor_network": torch.nn.Linear(4, 2),
    "min_horizon": 2,
    "max_horizon": 5,
    "size": 3,
    "state_dim": 4,
    "action_dim": 2,
    "N": 2,
    "dim": -1,
    "dims": [-1, -2],
    "first_dim": -2,
    "in_keys": ["observation"],
    "last_dim": -1,
    "loc": 0.5,
    "out_keys": ["other"],
    "scale": 2.0,
    "target_return": 1.0,
    "w": 3,
}
"""Values for what has no default."""


def classes(base: type) -> Iterator[type[Any]]:
    for module in pkgutil.walk_packages(specgen_std.__path__, "specgen_std."):
        for _, found in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(found, base) and found.__module__ == module.name:
                yield found


GYM: list[type[Any]] = list(classes(GeneratedGymEnv))
NATIVE: list[type[Any]] = [env for env in classes(GeneratedEnv) if env not in GYM]
TRANSFORMS: list[type[Any]] = list(classes(GeneratedTransform))
LOSSES: list[type[Any]] = list(classes(LossModule))

each_native = pytest.mark.parametrize("env", NATIVE, ids=lambda env: env.__name__)
each_gym = pytest.mark.parametrize("env", GYM, ids=lambda env: env.__name__)


def test_the_walk_finds_the_library() -> None:
    assert {"CartPole", "Pendulum", "MountainCar", "MountainCarContinuous", "Acrobot", "CartPoleTrain"} <= {
        env.__name__ for env in NATIVE
    }
    assert len(GYM) >= 5
    assert len(TRANSFORMS) >= 6
    assert LOSSES


@each_native
@pytest.mark.parametrize("batch", WHOLE, ids=str)
def test_native(env: type[Any], batch: tuple[int, ...]) -> None:
    check_env(partial(env, batch_size=batch), steps=25, deterministic=env.__name__ in DETERMINISTIC)


@each_native
@pytest.mark.parametrize("batch", FURTHER, ids=str)
def test_native_in_batches(env: type[Any], batch: tuple[int, ...]) -> None:
    check_env_specs(env(batch_size=batch), seed=0)
    check_rollout_is_stepping(partial(env, batch_size=batch), steps=8)


@pytest.mark.parametrize("env", [e for e in NATIVE if e.__name__.endswith("Train")], ids=lambda e: e.__name__)
def test_native_over_many_episodes(env: type[Any]) -> None:
    """Longer than the time limit of a chain, but where that is long: there, episodes end in other tests."""
    steps = 60 if env.__name__ in LONG else 210
    check_rollout_is_stepping(partial(env, batch_size=(3,)), steps=steps)


@each_gym
def test_gym(env: type[Any]) -> None:
    check_env(env, steps=30)
    check_done_rules(env, steps=260)


@each_native
def test_partial_resets(env: type[Any]) -> None:
    check_partial_resets(env(batch_size=(4, 3)), steps=30)


@pytest.mark.parametrize("env", [*NATIVE, *GYM], ids=lambda env: env.__name__)
def test_specs_are_locked_composites_on_the_device(env: type[Any]) -> None:
    made = env(device="cpu")
    for group in ("action", "observation", "reward", "done", "state"):
        spec = getattr(made, f"full_{group}_spec")
        assert isinstance(spec, Composite)
        assert spec.device == torch.device("cpu")
        for key, leaf in spec.items(True, True):
            assert leaf.device == torch.device("cpu"), as_tuple(key)
        with pytest.raises(RuntimeError, match="lock"):
            spec["other"] = leaf
    check_fake_tensordict(made)


@pytest.mark.parametrize("env", NATIVE, ids=lambda env: env.__name__)
def test_params_have_the_defaults_of_the_constructor(env: type[Any]) -> None:
    made = env()
    signature = inspect.signature(env.__init__).parameters
    params = getattr(made, "params", ())
    fields = getattr(params, "_asdict", dict)()
    assert {name: signature[name].default for name in fields} == fields


@pytest.mark.parametrize("env", [*NATIVE, *GYM], ids=lambda env: env.__name__)
def test_misspelt_keywords_are_refused(env: type[Any]) -> None:
    with pytest.raises(TypeError, match="batchsize"):
        env(batchsize=(3,))


@pytest.mark.parametrize("env", NATIVE, ids=lambda env: env.__name__)
def test_moving_keeps_class_and_data(env: type[Any]) -> None:
    made = env(batch_size=(3,))
    moved = made.to("cpu")
    assert moved is made
    assert moved.rollout(3, break_when_any_done=False).device == torch.device("cpu")


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda each: each.__name__)
def test_transforms_are_constructible(transform: type[Any]) -> None:
    made = construct(transform)
    assert type(made)(**given(transform)) is not made
    assert transform.__doc__
    with pytest.raises(TypeError, match="no_such_argument"):
        construct(transform, no_such_argument=1)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda each: each.__name__)
def test_losses_are_constructible(loss: type[Any]) -> None:
    asked = inspect.signature(loss).parameters.get("functional")
    assert made_loss(loss).functional == (asked is None or asked.default)
    assert loss.__doc__
    with pytest.raises(TypeError, match="no_such_argument"):
        made_loss(loss, no_such_argument=1)


def given(transform: type[Any]) -> dict[str, Any]:
    parameters = inspect.signature(transform).parameters.values()
    required = [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    return {name: REQUIRED[name] for name in required}


def construct(transform: type[Any], **more: object) -> Any:
    return transform(**given(transform), **more)
