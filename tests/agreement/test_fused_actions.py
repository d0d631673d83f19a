"""Action transforms in chains: the same actions reach the environment as with the dynamic classes, of the same specs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, check_env_specs
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_std import envs
from specgen_std.transforms import (
    ActionDiscretizer,
    ActionScaling,
    ClipTransform,
    DiscreteActionProjection,
    FlattenAction,
    ObservationNorm,
    PermuteTransform,
    RenameTransform,
    SignTransform,
    SqueezeTransform,
    UnsqueezeTransform,
)

from tests.support import generate, imported

SCHEMA = """
specgen: 1
import:
  - specgen_std/envs/pendulum.yaml
  - specgen_std/transforms/actions.yaml
  - specgen_std/transforms/keys.yaml
  - specgen_std/transforms/observation_norm.yaml
  - specgen_std/transforms/rewards.yaml
  - specgen_std/transforms/shapes.yaml
envs:
  Arm:
    doc: Two by three joints, and a tool for each of three fingers.
    action:
      action: "float32[2, 3] in [[[-1, -2, -3], [-1, -1, -1]], [[1, 2, 3], [4, 5, 6]]]"
      tools: "onehot(4)[3]"
    state: {x: "float32[2, 3]", used: "float32[3]"}
    observation: {}
    reset: {x: "zeros((2, 3))", used: "zeros((3,))"}
    step:
      next.x: x + 0.1 * action
      next.used: used + argmax(tools, axis=-1)
      reward: sum(next.x) + sum(next.used)
      terminated: any(next.x > 1.0)
  Switches:
    doc: Two by three switches.
    action: {action: "binary[2, 3]"}
    state: {x: "float32"}
    observation: {}
    reset: {x: 0.0}
    step: {next.x: x + sum(action), reward: next.x}
transforms:
  Swap:
    doc: Two inverse roles, each made of what is written for both.
    in:
      u: {each: [action], type: "float32[...]", inverse: true}
      w: {key: tools, type: "bool[3, 4]", inverse: true}
    out:
      v: {each: u, name: same, type: "float32[...] in [-1, 1]"}
      h: {each: w, name: same, type: "onehot(4)[3]"}
    inverse:
      half: 0.5 * v
      u: half - 0.25
      w: flip(h, axis=-1)
    signature: [in_keys_inv, out_keys_inv, w_key]
chains:
  Discrete: {env: Pendulum, transforms: [{ActionDiscretizer: {num_intervals: 5}}]}
  Several:
    env: Arm
    transforms: [{ActionDiscretizer: {num_intervals: [2, 5, 3]}}]
  SeveralBits:
    env: Arm
    transforms: [{ActionDiscretizer: {num_intervals: [2, 5, 3], categorical: false, sampling: random}}]
  Bits:
    env: Pendulum
    transforms: [{ActionDiscretizer: {num_intervals: 5, categorical: false, sampling: high, out_action_key: choice}}]
  Drawn: {env: Pendulum, transforms: [{ActionDiscretizer: {num_intervals: 5, sampling: random}}]}
  Scaled: {env: Pendulum, transforms: [ActionScaling]}
  Shifted: {env: Pendulum, transforms: [{ActionScaling: {standard_normal: false}}, {ActionDiscretizer: {num_intervals: 4}}]}
  Explicit: {env: Pendulum, transforms: [{ActionScaling: {loc: 0.5, scale: 2.0}}]}
  Between: {env: Pendulum, transforms: [{ActionScaling: {loc: 0.5, scale: 2.0, standard_normal: false}}]}
  Normed: {env: Pendulum, transforms: [{ObservationNorm: {loc: 0.5, scale: [2.0], in_keys: [], in_keys_inv: [action]}}]}
  Standard:
    env: Arm
    transforms:
      - ObservationNorm: {loc: 0.5, scale: 0.25, standard_normal: true, in_keys: [x], in_keys_inv: [action]}
  Flat: {env: Arm, transforms: [FlattenAction]}
  FlatBits: {env: Switches, transforms: [FlattenAction]}
  FlatTold: {env: Arm, transforms: [{FlattenAction: {action_shape: [2, 3]}}]}
  FlatFront: {env: Arm, transforms: [{FlattenAction: {first_dim: 0, last_dim: 1, allow_positive_dim: true}}]}
  FlatScaled: {env: Arm, transforms: [ActionScaling, FlattenAction, {ActionDiscretizer: {num_intervals: 3}}]}
  Clipped: {env: Pendulum, transforms: [{ClipTransform: {in_keys: [], in_keys_inv: [action], low: -5, high: 5}}]}
  Narrow: {env: Pendulum, transforms: [{ClipTransform: {in_keys: [], in_keys_inv: [action], low: -1, high: 1}}]}
  Signs: {env: Pendulum, transforms: [{SignTransform: {in_keys: [], in_keys_inv: [action]}}]}
  Renamed:
    env: Arm
    transforms:
      - RenameTransform: {in_keys: [x], out_keys: [joints], in_keys_inv: [tools], out_keys_inv: [hands.tools]}
  Longer: {env: Arm, transforms: [{UnsqueezeTransform: {in_keys: [], dim: -2, in_keys_inv: [tools, action]}}]}
  Shorter: {env: Pendulum, transforms: [{SqueezeTransform: {in_keys: [], dim: -1, in_keys_inv: [action]}}]}
  Permuted: {env: Arm, transforms: [{PermuteTransform: {in_keys: [], dims: [-1, -2], in_keys_inv: [action]}}]}
  Projected: {env: Arm, transforms: [{DiscreteActionProjection: {num_actions_effective: 4, max_actions: 6, action_key: tools}}]}
  Fewer: {env: Arm, transforms: [{DiscreteActionProjection: {num_actions_effective: 2, max_actions: 3, action_key: tools}}]}
  Both: {env: Arm, transforms: [Swap]}
"""

DYNAMIC: dict[str, Callable[[ModuleType], list[Transform]]] = {
    "Discrete": lambda _: [ActionDiscretizer(5)],
    "Several": lambda _: [ActionDiscretizer([2, 5, 3])],
    "SeveralBits": lambda _: [ActionDiscretizer([2, 5, 3], categorical=False, sampling="random")],
    "Bits": lambda _: [ActionDiscretizer(5, categorical=False, sampling="high", out_action_key="choice")],
    "Drawn": lambda _: [ActionDiscretizer(5, sampling="random")],
    "Scaled": lambda _: [ActionScaling()],
    "Shifted": lambda _: [ActionScaling(standard_normal=False), ActionDiscretizer(4)],
    "Explicit": lambda _: [ActionScaling(loc=0.5, scale=2.0)],
    "Between": lambda _: [ActionScaling(loc=0.5, scale=2.0, standard_normal=False)],
    "Normed": lambda _: [ObservationNorm(0.5, [2.0], [], in_keys_inv=["action"])],
    "Standard": lambda _: [ObservationNorm(0.5, 0.25, ["x"], in_keys_inv=["action"], standard_normal=True)],
    "Flat": lambda _: [FlattenAction()],
    "FlatBits": lambda _: [FlattenAction()],
    "FlatTold": lambda _: [FlattenAction(action_shape=(2, 3))],
    "FlatFront": lambda _: [FlattenAction(0, 1, allow_positive_dim=True)],
    "FlatScaled": lambda _: [ActionScaling(), FlattenAction(), ActionDiscretizer(3)],
    "Clipped": lambda _: [ClipTransform([], in_keys_inv=["action"], low=-5, high=5)],
    "Narrow": lambda _: [ClipTransform([], in_keys_inv=["action"], low=-1, high=1)],
    "Signs": lambda _: [SignTransform(in_keys=[], in_keys_inv=["action"])],
    "Renamed": lambda _: [RenameTransform(["x"], ["joints"], ["tools"], [("hands", "tools")])],
    "Longer": lambda _: [UnsqueezeTransform(in_keys=[], dim=-2, in_keys_inv=["tools", "action"])],
    "Shorter": lambda _: [SqueezeTransform(in_keys=[], dim=-1, in_keys_inv=["action"])],
    "Permuted": lambda _: [PermuteTransform([-1, -2], [], in_keys_inv=["action"])],
    "Projected": lambda _: [DiscreteActionProjection(4, 6, action_key="tools")],
    "Fewer": lambda _: [DiscreteActionProjection(2, 3, action_key="tools")],
    "Both": lambda made: [made.Swap()],
}

ARMS = {
    "Several",
    "SeveralBits",
    "Standard",
    "Flat",
    "FlatTold",
    "FlatFront",
    "FlatScaled",
    "Renamed",
    "Longer",
    "Permuted",
    "Projected",
    "Fewer",
    "Both",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"acting.yaml": SCHEMA}, "acting")
    with imported(files, "acting", tmp_path_factory.mktemp("generated")):
        yield importlib.import_module("acting.acting")


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize("name", DYNAMIC)
def test_actions_arrive(made: ModuleType, name: str, batch: tuple[int, ...]) -> None:
    fused: EnvBase[Any] = getattr(made, name)(batch_size=batch)
    inner = made.Arm if name in ARMS else made.Switches if name == "FlatBits" else envs.Pendulum
    base: EnvBase[Any] = inner(batch_size=batch)
    dynamic = TransformedEnv(base, Compose(*DYNAMIC[name](made)))
    assert fused.full_action_spec == dynamic.full_action_spec
    check_env_specs(dynamic)
    check_env_specs(fused)
    for env in (fused, dynamic):
        env.set_seed(3)
    root, other = fused.reset(), dynamic.reset()
    for _ in range(4):
        torch.manual_seed(0)
        root = fused.rand_action(root)
        other = other.update(root.select(*fused.action_keys))
        after, expected = fused.step(root), dynamic.step(other)
        for key in dynamic.reward_keys + dynamic.observation_keys:
            if "_carry" not in key:
                place = ("next", *((key,) if isinstance(key, str) else key))
                assert torch.equal(after[place], expected[place]), key
        root, other = fused.step_mdp(after), dynamic.step_mdp(expected)
