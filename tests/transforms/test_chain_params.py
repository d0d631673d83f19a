"""Parameters of chains: what arguments of transforms name is given to the constructor, and does what it does in the classes."""

from __future__ import annotations

import copy
import importlib
import pickle
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, check_env_specs
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.envs.cartpole import CartPoleGym
from specgen_std.envs.pendulum import Pendulum
from specgen_std.transforms import (
    ActionScaling,
    CatFrames,
    ClipTransform,
    FrameSkipTransform,
    RewardClipping,
    RewardScaling,
    RewardSum,
    StepCounter,
    TargetReturn,
)
from tensordict import TensorDict

from tests.support import generate, imported

SCHEMA = """
specgen: 1
import:
  - specgen_std/envs/pendulum
  - specgen_std/envs/cartpole
  - specgen_std/transforms/actions
  - specgen_std/transforms/frames
  - specgen_std/transforms/reward_scaling
  - specgen_std/transforms/reward_sum
  - specgen_std/transforms/rewards
  - specgen_std/transforms/step_counter
  - specgen_std/transforms/time
transforms:
  Turned:
    doc: Observations with another sign.
    params: {turned: {type: bool, default: false}, by: 2.0}
    in: {x: {each: [observation], type: "float[...]"}}
    out: {y: {each: x, name: turned}}
    map: {y: "where(turned, -x, x) * by"}
envs:
  Point:
    doc: A point on a line, each with a mass of its own.
    params: {push: 0.5, mass: {default: 1.0, per_env: true, above: 0}}
    state: {x: float32}
    action: {action: "float32[1] in [-1, 1]"}
    observation: {observation: "float32[1]"}
    reset: {x: "uniform(-1, 1)"}
    step: {next.x: "x + push * action[0] / mass", reward: "-abs(next.x)"}
    observe: {observation: stack(x)}
chains:
  Heavy:
    doc: Parameters of three kinds.
    env: Point
    params: {limit: 20}
    transforms: [{StepCounter: {max_steps: limit}}]
  Wide:
    doc: A number for most that a transform takes.
    env: Pendulum
    params:
      limit: {default: 20, max: 1000}
      factor: {default: 0.1, doc: of rewards, max: 10}
      shift: 0.5
      least: {default: -1.0, min: -5, max: 0}
      pad: 1.0
      goal: 3.0
      middle: 0.0
      half: {default: 2.0, max: 2}
      turned: false
      by: {default: 3.0, min: -1, max: 4}
      standardised: false
    transforms:
      - StepCounter: {max_steps: limit}
      - RewardScaling: {loc: shift, scale: factor, standard_normal: standardised}
      - RewardClipping: {clamp_min: least, clamp_max: 2.0}
      - Turned: {turned: turned, by: by, in_keys: [observation]}
      - CatFrames: {N: 2, dim: -1, in_keys: [observation], padding: constant, padding_value: pad}
      - TargetReturn: {target_return: goal}
      - ActionScaling: {loc: middle, scale: half}
      - ClipTransform: {in_keys: [turned], low: least}
      - RewardSum
  Skipping:
    doc: Several steps that are one.
    env: Pendulum
    params: {skip: {default: 2, max: 8}}
    transforms: [{FrameSkipTransform: {frame_skip: skip}}, RewardSum]
  Simulated:
    doc: One of Gymnasium's environments.
    env: CartPoleGym
    params: {limit: 20, factor: 0.1}
    transforms: [{StepCounter: {max_steps: limit}}, {RewardScaling: {loc: 0.0, scale: factor}}, RewardSum]
"""
OTHERS = {
    "limit": 7, "factor": 0.5, "shift": 1.0, "least": -2.5, "pad": 0.5, "goal": 1.0, "middle": 0.5,
    "half": 1.0, "turned": True, "by": -0.5, "standardised": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"chains.yaml": SCHEMA}, "chain_params")
    with imported(files, "chain_params", tmp_path_factory.mktemp("chain_params")):
        yield importlib.import_module("chain_params.chains")


def drawn(data: TensorDict) -> TensorDict:
    return data.set("action", torch.rand(*data.batch_size, 1) * 2 - 1)


def assert_same(fused: EnvBase[Any], dynamic: EnvBase[Any], steps: int, **words: Any) -> None:
    found = []
    for env in (fused, dynamic):
        env.set_seed(3)
        torch.manual_seed(1)
        found.append(env.rollout(steps, **words))
    assert found[0].batch_size == found[1].batch_size
    assert {*found[0].keys(True, True)} == {*found[1].keys(True, True)}
    for key in found[1].keys(True, True):
        assert torch.equal(found[0][key], found[1][key]), key


@pytest.mark.parametrize("numbers", [{}, OTHERS], ids=["defaults", "others"])
def test_a_chain_does_what_its_transforms_do_with_these_numbers(
    made: ModuleType, numbers: dict[str, Any]
) -> None:
    chain = made.Wide(batch_size=[3], **numbers)
    check_env_specs(chain)
    p = chain.params
    transforms = Compose(
        StepCounter(max_steps=p.limit),
        RewardScaling(loc=p.shift, scale=p.factor, standard_normal=p.standardised),
        RewardClipping(clamp_min=p.least, clamp_max=2.0),
        made.Turned(turned=p.turned, by=p.by, in_keys=["observation"]),
        CatFrames(N=2, dim=-1, in_keys=["observation"], padding="constant", padding_value=p.pad),
        TargetReturn(target_return=p.goal),
        ActionScaling(loc=p.middle, scale=p.half),
        ClipTransform(in_keys=["turned"], low=p.least),
        RewardSum(),
    )
    assert_same(chain, TransformedEnv(Pendulum(batch_size=(3,)), transforms), 30, policy=drawn)


@pytest.mark.parametrize("skip", [1, 2, 5])
def test_steps_are_repeated_as_often_as_it_says(made: ModuleType, skip: int) -> None:
    dynamic = TransformedEnv(
        Pendulum(batch_size=(3,)), Compose(FrameSkipTransform(frame_skip=skip), RewardSum())
    )
    chain = made.Skipping(batch_size=[3], skip=skip)
    check_env_specs(chain)
    assert_same(chain, dynamic, 10)
    assert (chain.rollout(50)["next", "reward"] >= chain.reward_spec.space.low.min()).all()


@pytest.mark.parametrize("numbers", [{}, {"limit": 7, "factor": 0.5}], ids=["defaults", "others"])
@pytest.mark.parametrize("to_the_end", [True, False])
def test_gymnasiums_environments_too(made: ModuleType, numbers: dict[str, Any], to_the_end: bool) -> None:
    chain = made.Simulated(**numbers)
    p = chain.params
    transforms = (StepCounter(max_steps=p.limit), RewardScaling(loc=0.0, scale=p.factor), RewardSum())
    dynamic = TransformedEnv(CartPoleGym(), Compose(*transforms))
    assert_same(chain, dynamic, 30, break_when_any_done=to_the_end)
    assert chain._gym_lifts  # many steps at once
    chain.params = chain.params._replace(limit=3)
    assert chain.rollout(30).batch_size == (3,)


def test_they_are_in_the_ranges_of_the_arguments(made: ModuleType) -> None:
    for number, message in (
        ({"limit": 0}, "limit must be >= 1, got 0"),
        ({"limit": 1001}, "limit must be <= 1000, got 1001"),
        ({"factor": 0.0}, "factor must be > 0, got 0.0"),
    ):
        with pytest.raises(ValueError, match=message):
            made.Wide(**number)
    with pytest.raises(TypeError, match=r"limit must be an integer, got 3\.5"):
        made.Wide(limit=3.5)


def test_they_are_assigned_with_those_of_the_environment(made: ModuleType) -> None:
    """A step is one of the numbers that are assigned, those that the environment behind the chain reads included."""
    chain, other = made.Wide(batch_size=[2]), made.Wide(batch_size=[2], g=3.0, half=1.0)
    for env in (chain, other):
        env.set_seed(0)
    data = drawn(chain.reset())
    chain.params = chain.params._replace(g=3.0, half=1.0)
    assert chain.env_params == Pendulum(g=3.0).params
    found, wanted = chain.step(data.clone()), other.step(data.clone())
    for key in ("thdot", "reward", "observation"):
        assert torch.equal(found["next", key], wanted["next", key])
    with pytest.raises(ValueError, match=r"half must be <= 2, got 3\.0"):
        chain.params = chain.params._replace(half=3.0)
    with pytest.raises(AttributeError, match=r"write env.params = env.params._replace\(shift=...\)"):
        chain.shift = 1.0
    for env in (chain, TransformedEnv(chain)):
        with pytest.raises(AttributeError, match=r"env_params follow from params: write env\.params"):
            env.env_params = Pendulum().params
    assert chain.env_params == Pendulum(g=3.0).params


def test_beside_those_of_each_environment(made: ModuleType) -> None:
    mass = torch.tensor([1.0, 2.0])
    chain = made.Heavy(batch_size=[2], limit=4, mass=mass, push=1.0)
    assert_same(chain, TransformedEnv(made.Point(batch_size=[2], mass=mass, push=1.0), StepCounter(4)), 9)
    assert torch.equal(chain.rollout(9)["mass"][:, 0], mass)


def test_copies_keep_them(made: ModuleType) -> None:
    chain = made.Wide(batch_size=[2], g=3.0, half=1.0)
    for other in (copy.deepcopy(chain), pickle.loads(pickle.dumps(chain)), chain.to("cpu")):
        assert (other.params, other.env_params) == (chain.params, chain.env_params)


def test_bounds_are_those_of_all_values(made: ModuleType) -> None:
    """What is written is within its spec whatever the number, which the range of a parameter bounds."""
    spec = made.Wide(least=0.0).observation_spec["turned"]
    assert (spec.space.low.max().item(), spec.space.high.min().item()) == (-5.0, 32.0)
