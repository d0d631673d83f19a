"""The contract of converted environments: through another library's interface and back, nothing of it is lost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from specgen_runtime.envs import GymEnv, check_env_specs
from specgen_runtime.envs.batched import SerialEnv
from specgen_runtime.interop import from_gymnasium, from_torchrl, to_gymnasium, to_torchrl
from specgen_runtime.specs import MultiCategorical
from specgen_runtime.testing import (
    check_aliasing,
    check_closing,
    check_done_rules,
    check_env,
    check_partial_resets,
    check_rollout_is_stepping,
)

from tests.conformance.test_generated import DETERMINISTIC, GYM, NATIVE
from tests.conformance.walks import Walk
from tests.envs.counting import Counting, Grid

Make = Callable[[], Any]

SINGLE = [env for env in NATIVE if not env.group_map]
"""Gymnasium's environments have no groups of agents."""

each_generated = pytest.mark.parametrize("env", [*NATIVE, *GYM], ids=lambda env: env.__name__)
each_single = pytest.mark.parametrize("env", [*SINGLE, *GYM], ids=lambda env: env.__name__)


def through_torchrl(make: Make) -> Any:
    # the chain without transforms keeps the conversions from unwrapping each other
    lib = pytest.importorskip("torchrl.envs", reason="the extra `peers`")
    return from_torchrl(lib.TransformedEnv(to_torchrl(make()), lib.Compose()))


def through_gymnasium(make: Make, **arguments: Any) -> Any:
    return from_gymnasium(to_gymnasium(make(), **arguments))


@pytest.mark.peers
@each_generated
def test_torchrl(env: type[Any]) -> None:
    several = isinstance(env().action_spec, MultiCategorical)
    check_env(
        partial(through_torchrl, env),
        steps=15,
        deterministic=env.__name__ in DETERMINISTIC,
        # TorchRL's specs of several choices ask their sizes of tensors, and can't move to meta
        devices=("cpu",) if several else None,
    )


BATCHES: dict[str, Make] = {
    "generated": partial(NATIVE[0], batch_size=(3,)),
    "walks": partial(Walk, batch_size=(2,)),
    "agents": partial(Grid, batch_size=(2,)),
    "SerialEnv": lambda: SerialEnv(2, partial(Walk, batch_size=())),
}


@pytest.mark.peers
@pytest.mark.parametrize("name", BATCHES)
def test_torchrl_in_batches(name: str) -> None:
    # TorchRL's batches of Bounded specs can't move to meta
    check_env(
        partial(through_torchrl, BATCHES[name]), steps=15, deterministic=name == "agents", devices=("cpu",)
    )


@each_single
def test_gymnasium(env: type[Any]) -> None:
    check_env(partial(through_gymnasium, env), steps=15, deterministic=env.__name__ in DETERMINISTIC)


VECTORS: dict[str, Make] = {
    "walks": lambda: SerialEnv(2, partial(Walk, batch_size=())),
    "counts": lambda: SerialEnv(2, Counting),
    "GymEnv": lambda: SerialEnv(2, partial(GymEnv, "CartPole-v1")),
}

each_mode = pytest.mark.parametrize("mode", ["SameStep", "Disabled"])


@each_mode
@pytest.mark.parametrize("name", VECTORS)
def test_gymnasium_vectors(name: str, mode: str) -> None:
    make = partial(through_gymnasium, VECTORS[name], autoreset_mode=mode)
    check_env(make, steps=20, deterministic=name == "counts")


@each_mode
@pytest.mark.parametrize("env", SINGLE, ids=lambda env: env.__name__)
def test_gymnasium_vectors_of_native_batches(env: type[Any], mode: str) -> None:
    # all but the checks of seeds: the environments of a native batch have no seeds of their own
    make = partial(through_gymnasium, partial(env, batch_size=(3,)), autoreset_mode=mode)
    made = make()
    check_env_specs(made, seed=0)
    check_partial_resets(made)
    check_done_rules(make, steps=15)
    check_aliasing(make)
    check_rollout_is_stepping(make, steps=10)
    check_closing(make)
