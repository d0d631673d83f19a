"""A `map` beside `around`: of what there is after all repetitions, in chains as in the classes."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.specs import Bounded
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_std.transforms import ClipTransform, ObservationNorm, RewardScaling, RewardSum, StepCounter

from tests.agreement.interpreted import interpreted, printed_programs
from tests.agreement.test_random_chains import same_chains
from tests.support import generate, imported

SCHEMA = """
specgen: 1
import:
  - specgen_std/transforms/observation_norm
  - specgen_std/transforms/reward_scaling
  - specgen_std/transforms/reward_sum
  - specgen_std/transforms/step_counter
envs:
  Walk:
    action: {action: "float32[2] in [-1, 1]"}
    state: {x: "float32[2] in [-9, 9]"}
    observation: {seen: "float32[2] in [-18, 18]"}
    reset: {x: "uniform(-1, 1, shape=2)"}
    step:
      next.x: clip(x + action, -9, 9)
      reward: clip(sum(next.x), -1, 2)
      terminated: any(next.x > 4.0)
    observe: {seen: 2 * x}
transforms:
  Skip:
    doc: Several steps are one, of whose last observation is made what is seen.
    params: {count: {type: int, default: 3, min: 1}, scale: {default: 0.5, above: 0}}
    in:
      reward: {each: [reward], type: "float[...]"}
      seen: {key: seen, type: "float32[n]"}
    out:
      twice: {key: twice}
      all: {key: all}
    around:
      repeat: count
      fold: {reward: acc.reward + next.reward}
      until: any(next.seen < -8.0)
    map:
      half: scale * seen
      twice: "concat(half, seen)"
      all: n * half
    drops: [seen]
  Beside:
    doc: The mean reward, beside the sum.
    params: {count: {type: int, default: 2, min: 1, static: true}}
    in: {reward: {each: env.reward, type: "float[...]"}}
    out:
      mean: {each: reward, name: "mean_{}"}
      rewards: {each: reward, name: "{}s"}
      taken: {each: reward, name: "{}_steps", type: "int64[...]"}
    around:
      repeat: count
      fold: {reward: acc.reward + next.reward}
      collect: {rewards: next.reward}
      taken: taken
    map: {mean: reward / count}
  Mean:
    doc: The mean reward, in place of the sum.
    in: {reward: {each: env.reward, type: "float[...]"}}
    out: {mean: {each: reward, name: same}}
    around: {repeat: 2, fold: {reward: acc.reward + next.reward}}
    map: {mean: 0.5 * reward}
  Still:
    doc: Rows stand still where they are far away; what is seen is cut.
    params: {far: {default: 2.0, above: 0}}
    in: {x: {each: [x], type: "float[...]"}}
    out: {near: {each: x, name: near}}
    around: {skip: abs(x) > far}
    map: {near: "clip(x, -far, far)"}
  Begun:
    doc: Steps after a reset, and a copy of what there is then.
    in: {x: {each: [x], type: "float[...]"}}
    out: {begun: {each: x, name: begun}}
    around: {reset_steps: 2, at_most: 2, action: random}
    map: {begun: x + 1}
chains:
  Skipped: {env: Walk, transforms: [StepCounter, Skip, {ObservationNorm: {in_keys: [all], loc: 1.0, scale: 2.0}}, RewardSum], allow: [SG328]}
  Meaned: {env: Walk, transforms: [Mean, {RewardScaling: {loc: 0.0, scale: 3.0}}]}
  Twice: {env: Walk, transforms: [Mean, {Skip: {count: 2}}]}
  Standing: {env: Walk, transforms: [{StepCounter: {max_steps: 9}}, Still, RewardSum]}
"""

DYNAMIC: dict[str, Callable[[ModuleType], list[Transform]]] = {
    "Skipped": lambda made: [
        StepCounter(),
        made.Skip(),
        ObservationNorm(in_keys=["all"], loc=1.0, scale=2.0),
        RewardSum(),
    ],
    "Meaned": lambda made: [made.Mean(), RewardScaling(0.0, 3.0)],
    "Twice": lambda made: [made.Mean(), made.Skip(count=2)],
    "Standing": lambda made: [StepCounter(9), made.Still(), RewardSum()],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"mapped.yaml": SCHEMA}, "mapped")
    with imported(files, "mapped", tmp_path_factory.mktemp("generated")):
        yield importlib.import_module("mapped.mapped")


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)], ids=str)
@pytest.mark.parametrize("name", DYNAMIC)
def test_a_chain_is_as_the_classes(made: ModuleType, name: str, batch: tuple[int, ...]) -> None:
    fused = getattr(made, name)(batch_size=batch)
    dynamic = TransformedEnv(made.Walk(batch_size=batch), Compose(*DYNAMIC[name](made)))
    same_chains(fused, dynamic)


def test_functions_are_as_they_are_interpreted(tmp_path_factory: pytest.TempPathFactory) -> None:
    with printed_programs() as programs:
        files = generate({"mapped.yaml": SCHEMA}, "mapped_again")
    with imported(files, "mapped_again", tmp_path_factory.mktemp("interpreted")):
        module = importlib.import_module("mapped_again.mapped")
        for name in ("Skipped", "Standing"):
            with interpreted(module, programs, name.lower()) as counts:
                getattr(module, name)(batch_size=(2,)).rollout(3)
            assert sum(counts.values()) > 0, name


def test_the_map_reads_what_is_folded(made: ModuleType) -> None:
    limits = ClipTransform(["reward"], low=-1, high=2)
    env = TransformedEnv(made.Walk(batch_size=(5,)), Compose(limits, made.Beside(count=3)))
    check_env_specs(env)
    after = env.rollout(6, break_when_any_done=False)["next"]
    assert torch.equal(after["mean_reward"], after["reward"] / 3)
    torch.testing.assert_close(after["rewards"].sum(2), after["reward"])
    assert ((after["reward_steps"] >= 1) & (after["reward_steps"] <= 3)).all()
    spec = env.full_reward_spec["mean_reward"]
    assert isinstance(spec, Bounded)
    assert (spec.low.min().item(), spec.high.max().item()) == (-1.0, 2.0)  # of sums in [-3, 6]


def test_what_there_is_after_steps_behind_a_reset(made: ModuleType) -> None:
    env = TransformedEnv(made.Walk(batch_size=(3,)), made.Begun())
    check_env_specs(env)
    root = env.reset()
    assert torch.equal(root["begun"], root["x"] + 1)
    after = env.rand_step(root)["next"]
    assert torch.equal(after["begun"], after["x"] + 1)
