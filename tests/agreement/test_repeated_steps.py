"""Chains whose steps are several of the environment, with an action each, what is collected, and any keys folded."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_std.envs import Taxi
from specgen_std.transforms import (
    ActionDiscretizer,
    ActionScaling,
    ClipTransform,
    FlattenAction,
    FrameSkipTransform,
    MultiAction,
    RewardSum,
    StepCounter,
    TimeMaxPool,
)

from tests.agreement.interpreted import interpreted, printed_programs
from tests.agreement.test_random_chains import same_chains
from tests.support import generate, imported

SCHEMA = """
specgen: 1
import:
  - specgen_std/envs/taxi
  - specgen_std/transforms/actions
  - specgen_std/transforms/keys
  - specgen_std/transforms/shapes
  - specgen_std/transforms/reward_sum
  - specgen_std/transforms/rewards
  - specgen_std/transforms/frames
  - specgen_std/transforms/step_counter
  - specgen_std/transforms/time
envs:
  Walk:
    allow: [SG142]
    action: {action: "float32[2] in [-1, 1]"}
    state: {x: "float32[2] in [-9, 9]", count: "int64 in [0, 99]"}
    observation: {seen: "float32[2] in [-18, 18]"}
    reset: {x: "uniform(-1, 1, shape=2)", count: 0}
    step:
      next.x: clip(x + action, -9, 9)
      next.count: min(count + 1, 99)
      reward: clip(sum(next.x), -1, 2)
      terminated: any(next.x > 4.0)
    observe: {seen: 2 * x}
transforms:
  Pooled:
    doc: What is seen is the largest of several steps, the state their sum, and a row tells of itself.
    params: {count: {type: int, default: 3, min: 1, static: true}}
    in:
      seen: {key: seen, type: "float32[n]"}
      x: {key: x, type: "float32[n]"}
      reward: {each: env.reward, type: "float[...]"}
    out:
      taken: {each: reward, name: steps, type: "int64[...]"}
      far: {key: far, type: "bool[]"}
      half: {key: half}
    around:
      repeat: count
      until: any(next.seen < -8.0)
      fold:
        reward: min(acc.reward, next.reward)
        seen: max(acc.seen, next.seen)
        x: acc.x + next.x
      collect: {far: "any(next.x > x + 0.5)"}
      taken: taken
    map: {half: 0.5 * seen}
  Mixed:
    doc: The policy writes the first action and the last, between which those of the repetitions lie.
    params: {count: {type: int, default: 4, min: 2, static: true}}
    in:
      u: {each: [action], type: "float32[n]", inverse: true}
      reward: {each: env.reward, type: "float[...]"}
    out:
      first: {each: u, name: "first_{}", type: "float32[n] in [-1, 1]"}
      last: {each: u, name: "last_{}", type: "float32[n] in [-1, 1]"}
    around:
      repeat: count
      action: {u: first + float32(nth) / float32(count - 1) * (n / n) * (last - first)}
      fold: {reward: acc.reward + next.reward}
  Joined:
    doc: A row stops where the largest of what is seen and the state is large, and pays for the smallest.
    in:
      xs: {all: [seen, x], type: "float32[2]"}
      reward: {key: reward, type: "float32[]"}
    around:
      repeat: 4
      until: any(max(*next.xs) > 3) and any(concat(*xs, axis=-1) > -9)
      fold: {reward: "acc.reward + next.reward + 0.1 * min(min(*next.xs))"}
  Flat:
    doc: Rows stand still where anything is large.
    in: {xs: {all: [x, seen], type: "float32[...]"}}
    around: {skip: "any(concat(*xs, axis=-1) > 5)"}
  Weighed:
    doc: The mean of what is seen is a reward.
    in:
      seen: {key: seen, type: "float32[n]"}
      reward: {key: reward, type: "float32[]"}
    around:
      repeat: 2
      fold: {reward: acc.reward + next.reward + sum(next.seen) / n}
chains:
  Stopped: {env: Walk, transforms: [Joined, RewardSum]}
  Still: {env: Walk, transforms: [Flat, Weighed, RewardSum]}
  Stacked: {env: Walk, transforms: [StepCounter, {MultiAction: {steps: 3, stack_observations: true}}, RewardSum], allow: [SG328]}
  Scaled: {env: Walk, transforms: [ActionScaling, {MultiAction: {steps: 2, in_keys: [reward], in_keys_inv: [action], out_keys: [parts], out_keys_inv: [chunk]}}, {FlattenAction: {in_keys_inv: [chunk]}}]}
  Inside: {env: Walk, transforms: [{FrameSkipTransform: {frame_skip: 2}}, {MultiAction: {steps: 3}}, {StepCounter: {max_steps: 4}}]}
  Outside: {env: Walk, transforms: [{MultiAction: {steps: 2}}, {FrameSkipTransform: {frame_skip: 3}}, RewardSum]}
  Twice: {env: Walk, transforms: [{MultiAction: {steps: 2}}, {ClipTransform: {in_keys: [x], low: -3, high: 3}}, {MultiAction: {steps: 3, out_keys: [sums]}}]}
  Chosen: {env: Walk, transforms: [{ActionDiscretizer: {num_intervals: 5}}, {MultiAction: {steps: 2, stack_rewards: false}}]}
  Pools: {env: Walk, transforms: [Pooled, RewardSum]}
  Widest: {env: Walk, transforms: [Pooled, {TimeMaxPool: {in_keys: [seen], T: 2}}]}
  PoolsOfPools: {env: Walk, transforms: [{Pooled: {count: 2}}, Mixed, {StepCounter: {max_steps: 5}}]}
  Between: {env: Walk, transforms: [Mixed, {MultiAction: {steps: 2, in_keys_inv: [first_action]}}]}
  Streets: {env: Taxi, transforms: [{MultiAction: {steps: 2, stack_observations: true}}, {StepCounter: {max_steps: 9}}]}
"""


def _scaled(made: ModuleType) -> list[Transform]:
    keys: dict[str, Any] = {
        "in_keys": ["reward"],
        "out_keys": ["parts"],
        "in_keys_inv": ["action"],
        "out_keys_inv": ["chunk"],
    }
    return [ActionScaling(), MultiAction(2, **keys), FlattenAction(in_keys_inv=["chunk"])]


DYNAMIC: dict[str, Callable[[ModuleType], list[Transform]]] = {
    "Stopped": lambda made: [made.Joined(), RewardSum()],
    "Still": lambda made: [made.Flat(), made.Weighed(), RewardSum()],
    "Stacked": lambda made: [StepCounter(), MultiAction(3, stack_observations=True), RewardSum()],
    "Scaled": _scaled,
    "Inside": lambda made: [FrameSkipTransform(2), MultiAction(3), StepCounter(4)],
    "Outside": lambda made: [MultiAction(2), FrameSkipTransform(3), RewardSum()],
    "Twice": lambda made: [
        MultiAction(2),
        ClipTransform(["x"], low=-3, high=3),
        MultiAction(3, out_keys=["sums"]),
    ],
    "Chosen": lambda made: [ActionDiscretizer(5), MultiAction(2, stack_rewards=False)],
    "Pools": lambda made: [made.Pooled(), RewardSum()],
    "Widest": lambda made: [made.Pooled(), TimeMaxPool(["seen"], T=2)],
    "PoolsOfPools": lambda made: [made.Pooled(count=2), made.Mixed(), StepCounter(5)],
    "Between": lambda made: [made.Mixed(), MultiAction(2, in_keys_inv=["first_action"])],
    "Streets": lambda made: [MultiAction(2, stack_observations=True), StepCounter(9)],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"repeated.yaml": SCHEMA}, "repeated")
    with imported(files, "repeated", tmp_path_factory.mktemp("generated")):
        yield importlib.import_module("repeated.repeated")


def base(made: ModuleType, name: str, batch: tuple[int, ...]) -> EnvBase:
    kinds: dict[str, Any] = {"Streets": Taxi}
    env: EnvBase = kinds.get(name, made.Walk)(batch_size=batch)
    return env


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)], ids=str)
@pytest.mark.parametrize("name", DYNAMIC)
def test_a_chain_is_as_the_classes(made: ModuleType, name: str, batch: tuple[int, ...]) -> None:
    fused = getattr(made, name)(batch_size=batch)
    dynamic = TransformedEnv(base(made, name, batch), Compose(*DYNAMIC[name](made)))
    same_chains(fused, dynamic)


def test_functions_are_as_they_are_interpreted(tmp_path_factory: pytest.TempPathFactory) -> None:
    with printed_programs() as programs:
        files = generate({"repeated.yaml": SCHEMA}, "repeated_again")
    with imported(files, "repeated_again", tmp_path_factory.mktemp("interpreted")):
        module = importlib.import_module("repeated_again.repeated")
        for name in ("Stacked", "Twice", "Pools", "Between"):
            with interpreted(module, programs, name.lower()) as counts:
                getattr(module, name)(batch_size=(2,)).rollout(3)
            assert sum(counts.values()) > 0, name


def test_each_action_is_taken_in_its_turn(made: ModuleType) -> None:
    env, alone = made.Stacked(batch_size=(5,)), made.Walk(batch_size=(5,))
    root = env.reset()
    root["action"] = torch.linspace(-1, 1, 30).reshape(5, 3, 2)
    after = env.step(root)["next"]
    state = alone.reset(root.select("x", "count", "seen", "done", "terminated"))
    state = state.update(root.select("x", "count"))
    for nth in range(3):
        state["action"] = root["action"][:, nth]
        state = alone.step(state)["next"]
        assert torch.equal(after["rewards"][:, nth], state["reward"])
        assert torch.equal(after["stacked_x"][:, nth], state["x"])
        state = state.exclude("reward")
    assert torch.equal(after["x"], state["x"])
