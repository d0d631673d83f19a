"""What `*xs` is of a single key, and bounds where one key stands in several roles."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.specs import Bounded
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms import TransformedEnv
from specgen_std.envs import Pendulum

from tests.support import generate, imported

TEXT = """\
specgen: 1
import: [specgen_std/envs/pendulum]
transforms:
  Reduced:
    doc: What several keys are together.
    in: {xs: {all: [observation], type: "float32[...]"}}
    out: {low: {key: low}, high: {key: high}, total: {key: total}}
    map: {low: "min(*xs)", high: "max(*xs)", total: "sum(*xs)"}
  Apart:
    doc: Rises in one role and falls in the other.
    in: {x: {each: [], type: "float32[...]"}, y: {each: [], type: "float32[...x]", with: x}}
    out: {d: {each: x, name: "apart_{}"}}
    map: {d: exp(0.25 * x) - y}
envs:
  Pair:
    doc: Two numbers that are pushed.
    state: {a: "float32 in [-8, 8]", b: "float32 in [-8, 8]"}
    action: {push: "float32[2] in [-1, 1]"}
    reset: {a: "uniform(-8, 8)", b: "uniform(-8, 8)"}
    step: {next.a: "clip(a + push[0], -8, 8)", next.b: "clip(b + push[1], -8, 8)", reward: a - b, terminated: false}
chains:
  Alone:
    env: Pendulum
    transforms: [Reduced]
  Swapped:
    env: Pair
    transforms: [{Apart: {in_keys: [a, b], y_keys: [b, a]}}]
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"together.yaml": TEXT}, "together_package")
    with imported(files, "together_package", tmp_path_factory.mktemp("generated")) as module:
        yield module


def test_one_key_of_several_is_itself(package: Any) -> None:
    """Not its own least element."""
    rollouts = []
    for env in (package.Alone(batch_size=[3]), TransformedEnv(Pendulum(batch_size=[3]), package.Reduced())):
        env.set_seed(1)
        torch.manual_seed(1)
        rollouts.append(env.rollout(5))
    data = rollouts[0]
    assert_identical(data, rollouts[1])
    for key in ("low", "high", "total"):
        assert torch.equal(data[key], data["observation"]), key


@pytest.mark.parametrize(("x", "y"), [(["a"], ["a"]), (["a", "b"], ["b", "a"])], ids=str)
def test_bounds_of_a_key_in_two_roles(package: Any, x: list[str], y: list[str]) -> None:
    """What rises in one role and falls in the other: the ends of a key are no ends of what is made of it."""
    env = TransformedEnv(package.Pair(), package.Apart(in_keys=x, y_keys=y))
    spec = env.observation_spec["apart_a"]
    ends = torch.linspace(-8, 8, 101)
    made = torch.exp(0.25 * ends) - (ends if x == y else ends[:, None])
    low, high = (spec.low, spec.high) if isinstance(spec, Bounded) else (-torch.inf, torch.inf)
    assert bool((low <= made).all())
    assert bool((made <= high).all())


def test_swapped_keys_in_a_chain(package: Any) -> None:
    rollouts = []
    transform = package.Apart(in_keys=["a", "b"], y_keys=["b", "a"])
    for env in (package.Swapped(batch_size=[3]), TransformedEnv(package.Pair(batch_size=[3]), transform)):
        env.set_seed(1)
        torch.manual_seed(1)
        rollouts.append(env.rollout(5))
        assert bool(env.observation_spec.is_in(rollouts[-1].select(*env.observation_keys)[:, 0]))
    assert_identical(rollouts[0], rollouts[1])
