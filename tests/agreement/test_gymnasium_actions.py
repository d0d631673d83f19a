"""Chains over Gymnasium whose transforms change the actions: Gymnasium gets what the dynamic classes give it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, SerialEnv, check_env_specs
from specgen_runtime.specs import TensorSpec
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_std.transforms import (
    ActionDiscretizer,
    ActionScaling,
    ClipTransform,
    DoubleToFloat,
    ExcludeTransform,
    FlattenAction,
    RenameTransform,
    RewardSum,
    StepCounter,
    VecNorm,
)
from tensordict.nn import TensorDictModule
from torch import nn

from tests.agreement.gymnasium_arms import RECORDS, registered
from tests.agreement.test_random_chains import drive
from tests.support import generate, imported

SCHEMA = """
specgen: 1
import:
  - specgen_std/transforms/actions.yaml
  - specgen_std/transforms/double_to_float.yaml
  - specgen_std/transforms/keys.yaml
  - specgen_std/transforms/reward_sum.yaml
  - specgen_std/transforms/rewards.yaml
  - specgen_std/transforms/step_counter.yaml
  - specgen_std/transforms/vec_norm.yaml
envs:
  Arm: {gymnasium: {id: specgen-arm-v0}}
  Precise: {gymnasium: {id: specgen-precise-v0}}
  Buttons: {gymnasium: {id: specgen-buttons-v0, categorical_action_encoding: true}}
  Keys: {gymnasium: {id: specgen-buttons-v0}}
transforms:
  Shaken:
    doc: Actions of one number, and noise.
    in: {u: {each: [action], type: "float32[2, 3] in bounded", inverse: true}}
    out: {v: {each: u, name: push, type: "float32[] in [-1, 1]"}}
    inverse:
      wide: low(u) + (v + 1) * (high(u) - low(u)) * 0.5
      u: clip(wide + 0.1 * uniform(-1, 1, like=v), low(u), high(u))
  Sum:
    doc: Two actions for one.
    in: {u: {each: [action], type: "float32[2, 3]", inverse: true}}
    out:
      v: {each: u, name: coarse, type: "float32[2, 3] in [-0.5, 0.5]"}
      w: {each: u, name: fine, type: "categorical(3)[2, 3]"}
    inverse: {u: v + 0.1 * float32(w)}
  Mirror:
    doc: The buttons from behind.
    in: {u: {each: [action], type: "int64[]", inverse: true}}
    out: {v: {each: u, name: same, type: "categorical(6)"}}
    inverse: {u: 5 - v}
chains:
  Scaled: {env: Arm, transforms: [ActionScaling, {StepCounter: {max_steps: 5}}, RewardSum]}
  Discrete: {env: Arm, transforms: [FlattenAction, {ActionDiscretizer: {num_intervals: 4}}, StepCounter]}
  Drawn: {env: Arm, transforms: [{ActionDiscretizer: {num_intervals: 4, sampling: random}}, StepCounter]}
  Learned: {env: Arm, transforms: [ActionScaling, VecNorm]}
  Unseen: {env: Arm, transforms: [ActionScaling, RewardSum, {ExcludeTransform: {in_keys: [observation]}}]}
  Noisy: {env: Arm, transforms: [Shaken, RewardSum]}
  Two: {env: Arm, transforms: [Sum, RewardSum]}
  Single: {env: Precise, transforms: [{DoubleToFloat: {in_keys: [], in_keys_inv: [action]}}, StepCounter]}
  Clipped: {env: Arm, transforms: [{ClipTransform: {in_keys: [], in_keys_inv: [action], low: -0.9, high: 0.9}}]}
  Named: {env: Keys, transforms: [{RenameTransform: {in_keys: [], out_keys: [], in_keys_inv: [action], out_keys_inv: [hands.push]}}]}
  Mirrored: {env: Buttons, transforms: [Mirror, {StepCounter: {max_steps: 5}}]}
"""

DYNAMIC: dict[str, tuple[str, Callable[[ModuleType], list[Transform]]]] = {
    "Scaled": ("Arm", lambda _: [ActionScaling(), StepCounter(5), RewardSum()]),
    "Discrete": ("Arm", lambda _: [FlattenAction(), ActionDiscretizer(4), StepCounter()]),
    "Drawn": ("Arm", lambda _: [ActionDiscretizer(4, sampling="random"), StepCounter()]),
    "Learned": ("Arm", lambda _: [ActionScaling(), VecNorm()]),
    "Unseen": ("Arm", lambda _: [ActionScaling(), RewardSum(), ExcludeTransform("observation")]),
    "Noisy": ("Arm", lambda made: [made.Shaken(), RewardSum()]),
    "Two": ("Arm", lambda made: [made.Sum(), RewardSum()]),
    "Single": ("Precise", lambda _: [DoubleToFloat([], in_keys_inv=["action"]), StepCounter()]),
    "Clipped": ("Arm", lambda _: [ClipTransform([], in_keys_inv=["action"], low=-0.9, high=0.9)]),
    "Named": ("Keys", lambda _: [RenameTransform([], [], ["action"], [("hands", "push")])]),
    "Mirrored": ("Buttons", lambda made: [made.Mirror(), StepCounter(5)]),
}
DRAWING = ("Drawn", "Noisy")
STEPWISE = (*DRAWING, "Learned")
"""Chains whose rollouts are computed step by step."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files, folder = (
        generate({"arms.yaml": SCHEMA}, "gymnasium_actions", RECORDS),
        tmp_path_factory.mktemp("made"),
    )
    with registered(), imported(files, "gymnasium_actions", folder) as package:
        yield package


def both(made: ModuleType, name: str) -> tuple[EnvBase[Any], EnvBase[Any]]:
    """The chain, and the same transforms around the environment."""
    base, transforms = DYNAMIC[name]
    return getattr(made, name)(), TransformedEnv(getattr(made, base)(), Compose(*transforms(made)))


def batched(made: ModuleType, name: str, place: int, batch: tuple[int, ...]) -> EnvBase[Any]:
    """One of `both`, or a batch of such environments."""
    if not batch:
        return both(made, name)[place]
    return SerialEnv(batch[0], lambda: batched(made, name, place, batch[1:]))


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)], ids=str)
@pytest.mark.parametrize("name", DYNAMIC)
def test_fused_as_dynamic(made: ModuleType, name: str, batch: tuple[int, ...]) -> None:
    fused, dynamic = (batched(made, name, place, batch) for place in (0, 1))
    assert fused.full_action_spec == dynamic.full_action_spec
    if not batch:
        check_env_specs(both(made, name)[0])
    drive(fused, dynamic)


def acting(env: EnvBase[Any], choose: Callable[[TensorSpec, torch.Tensor], torch.Tensor]) -> TensorDictModule:
    """A policy that chooses an action of the spec by what is observed."""

    class Act(nn.Module):
        def forward(self, seen: torch.Tensor) -> torch.Tensor:
            return choose(spec, seen)

    spec = env.action_spec
    return TensorDictModule(Act(), ["observation"], [env.action_key])


@pytest.mark.parametrize("stops", [True, False], ids=["to the end", "on and on"])
@pytest.mark.parametrize("name", DYNAMIC)
def test_random_rollouts(made: ModuleType, name: str, stops: bool) -> None:
    found = []
    for env in both(made, name):
        env.set_seed(4)
        torch.manual_seed(4)
        found.append([env.rollout(40, break_when_any_done=stops) for _ in range(2)])
    for first, second in zip(*found, strict=True):
        assert_identical(first, second, "a rollout")


@pytest.mark.parametrize("name", ["Scaled", "Drawn", "Noisy", "Clipped", "Single", "Learned"])
def test_policies(made: ModuleType, name: str) -> None:
    def chosen(spec: TensorSpec, seen: torch.Tensor) -> torch.Tensor:
        scaled = seen.reshape(-1)[: spec.shape.numel()].reshape(spec.shape).tanh()
        return scaled.to(spec.dtype) if spec.dtype.is_floating_point else (scaled.abs() * 3.9).to(spec.dtype)

    found = []
    for env in both(made, name):
        env.set_seed(4)
        torch.manual_seed(4)
        found.append(env.rollout(40, acting(env, chosen), break_when_any_done=False))
    assert_identical(found[0], found[1], "a rollout")


@pytest.mark.parametrize("name", DYNAMIC)
def test_what_is_fast(made: ModuleType, name: str) -> None:
    chain = getattr(made, name)
    assert chain._gym_lifts is (name not in STEPWISE)
    assert both(made, name)[0]._row_steps() is not None


@pytest.mark.parametrize("name", ["Discrete", "Mirrored"])
@pytest.mark.parametrize("way", ["step", "policy"])
def test_actions_outside_their_spec(made: ModuleType, name: str, way: str) -> None:
    env = both(made, name)[0]
    wrong = torch.full(env.action_spec.shape, 6, dtype=env.action_spec.dtype)
    root = env.reset().set("action", wrong)
    policy = acting(env, lambda spec, seen: wrong)
    with pytest.raises(ValueError, match="is not in its spec"):
        env.step(root) if way == "step" else env.rollout(3, policy)


def test_what_nothing_reads_is_not_kept(made: ModuleType) -> None:
    assert both(made, "Unseen")[0]._root_record._fields == (
        "done",
        "terminated",
        "truncated",
        "episode_reward",
    )
