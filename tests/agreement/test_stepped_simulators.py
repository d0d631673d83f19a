"""Chains that leave out steps of simulators, step them after a reset, and repeat steps that draw."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from specgen_runtime.collectors import Collector
from specgen_runtime.envs import EnvBase, SerialEnv, check_env_specs
from specgen_runtime.testing import assert_identical, check_env
from specgen_runtime.transforms import Compose, TransformedEnv

from tests.agreement.gymnasium_arms import RECORDS, registered
from tests.agreement.interpreted import interpreted, printed_programs
from tests.agreement.test_random_chains import drive, random_rollouts, same_specs, shown
from tests.support import compile_texts, imported

SCHEMA = """\
specgen: 1
import:
  - specgen_std/transforms/actions
  - specgen_std/transforms/init_tracker
  - specgen_std/transforms/observation_norm
  - specgen_std/transforms/reward_sum
  - specgen_std/transforms/step_counter
  - specgen_std/transforms/time
  - specgen_std/transforms/vec_norm
envs:
  Arm: {gymnasium: {id: specgen-arm-v0}}
  Track:
    python: {class: "tests.transforms.python_classes:Track", stateful: true}
    params: {length: {type: int, default: 9, min: 1}}
    action: {action: "float32[1] in [-1, 1]"}
    observation: {place: "float32[1]", count: int64}
  Walk:
    action: {action: "float32[2] in [-1, 1]"}
    state: {x: "float32[2] in [-9, 9]"}
    observation: {seen: "float32[2] in [-18, 18]"}
    reset: {x: "uniform(-1, 1, shape=2)"}
    step:
      next.x: clip(x + action + normal(0, 0.3, shape=2), -9, 9)
      reward: clip(sum(next.x), -1, 2)
      terminated: any(next.x > 2.0)
    observe: {seen: 2 * x}
transforms:
  Still:
    in: {x: {each: [observation], type: "float32[2, 3]"}}
    around: {skip: "x[0, 0] > 0.3"}
  Rest:
    in: {x: {key: place, type: "float32[1]"}}
    around: {skip: "x[0] > 0.3"}
  Stand:
    in: {x: {key: seen, type: "float32[2]"}}
    around: {skip: "x[0] > 0.3"}
  Moved:
    in: {x: {each: [observation], type: "float32[...]"}}
    out: {moved: {each: x, name: "moved_{}", type: like(x)}}
    reset: {moved: 2 * x}
    step: {next.moved: next.x - x}
  Wind:
    in: {x: {each: [observation], type: "float32[...]"}}
    out: {windy: {each: x, name: "windy_{}", type: like(x)}}
    reset: {windy: "x + 0.1 * normal(0, 1, like=x)"}
    step: {next.windy: "next.x + 0.1 * normal(0, 1, like=next.x) * uniform(0, 1)"}
  Span:
    doc: Two steps as one, and how far the second one went.
    in: {x: {each: [seen], type: "float32[...]"}, reward: {key: reward, type: "float32[]"}}
    out: {span: {each: x, name: "span_{}", type: "like(x)"}}
    around: {repeat: 2, fold: {reward: acc.reward + next.reward}, collect: {span: next.x - x}}
  Toss:
    in: {x: {each: [seen], type: "float32[...]"}}
    out: {tossed: {each: x, name: "tossed_{}", type: "like(x)"}}
    reset: {tossed: zeros_like(x)}
    step:
      hit: uniform(0, 1, like=next.x) < 0.5
      next.tossed: where(hit, next.x, -next.x)
  Settle:
    in: {x: {each: [observation], type: "float32[2, 3]"}}
    around: {reset_steps: "int64(clip(3 * x[0, 1], 0, 3))", at_most: 3, action: random}
  RandomStart:
    params: {most: {type: int, default: 4, min: 0}}
    around: {reset_steps: "int64(most * uniform(0, 1))", at_most: most, action: random}
chains:
  Started: {env: Arm, transforms: [RandomStart, {StepCounter: {max_steps: 10}}, RewardSum]}
  Skipped: {env: Arm, transforms: [InitTracker, StepCounter, Still, RewardSum]}
  SkippedTwice: {env: Arm, transforms: [Still, Moved, {Still: {in_keys: [moved_observation]}}, {StepCounter: {max_steps: 5}}]}
  SkippedInside: {env: Arm, transforms: [StepCounter, Still, RewardSum, {FrameSkipTransform: {frame_skip: 2}}], allow: [SG328]}
  SkippedCollected: {env: Arm, transforms: [Still, {MultiAction: {steps: 3, stack_observations: true}}]}
  SkippedOutside: {env: Arm, transforms: [{FrameSkipTransform: {frame_skip: 2}}, Still, {StepCounter: {max_steps: 4}}]}
  Noops: {env: Arm, transforms: [StepCounter, {NoopResetEnv: {noops: 14}}, RewardSum]}
  FixedNoops: {env: Arm, transforms: [Moved, {NoopResetEnv: {noops: 3, random: false}}, StepCounter]}
  NoNoops: {env: Arm, transforms: [{NoopResetEnv: {noops: 0}}, StepCounter]}
  NoopsOfParameters:
    env: Arm
    params: {most: {type: int, default: 4, min: 0}, chance: {default: true}}
    transforms: [{NoopResetEnv: {noops: most, random: chance}}]
  NoopsAndSkips: {env: Arm, transforms: [Moved, {FrameSkipTransform: {frame_skip: 2}}, {NoopResetEnv: {noops: 5}}, {FrameSkipTransform: {frame_skip: 2}}]}
  NoopsTwice: {env: Arm, transforms: [{NoopResetEnv: {noops: 3}}, StepCounter, {NoopResetEnv: {noops: 13}}]}
  NoopsInFront: {env: Arm, transforms: [{NoopResetEnv: {noops: 5}}, ActionScaling, {VecNorm: {in_keys: [observation], out_keys: [normed]}}]}
  NoopsHidden: {env: Arm, transforms: [{ObservationNorm: {loc: 1.0, scale: 2.0, in_keys: [observation]}}, Moved, {NoopResetEnv: {noops: 5}}]}
  SkippedNoops: {env: Arm, transforms: [StepCounter, Still, {NoopResetEnv: {noops: 5}}, {FrameSkipTransform: {frame_skip: 2}}], allow: [SG328]}
  Settled: {env: Arm, transforms: [InitTracker, Settle, {InitTracker: {init_key: second}}]}
  Tracked: {env: Track, transforms: [StepCounter, {NoopResetEnv: {noops: 12}}, RewardSum, Rest]}
  Drawn: {env: Walk, transforms: [{FrameSkipTransform: {frame_skip: 3}}, RewardSum]}
  DrawnAround: {env: Walk, transforms: [{Wind: {in_keys: [seen]}}, {FrameSkipTransform: {frame_skip: 3}}, {Wind: {in_keys: [x]}}]}
  DrawnTwice: {env: Walk, transforms: [{Wind: {in_keys: [seen]}}, {FrameSkipTransform: {frame_skip: 2}}, {MultiAction: {steps: 2}}, {Wind: {in_keys: [x]}}]}
  DrawnActions: {env: Walk, transforms: [{ActionDiscretizer: {num_intervals: 5, sampling: random}}, {FrameSkipTransform: {frame_skip: 2}}]}
  DrawnActionsBehind: {env: Walk, transforms: [{FrameSkipTransform: {frame_skip: 2}}, {ActionDiscretizer: {num_intervals: 5, sampling: random}}]}
  DrawnStill: {env: Walk, transforms: [Stand, {FrameSkipTransform: {frame_skip: 2}}]}
  DrawnSpans: {env: Walk, transforms: [{Span: {in_keys: [seen]}}, {Toss: {in_keys: [seen]}}]}
  DrawnOutside: {env: Walk, transforms: [{Wind: {in_keys: [seen]}}, Stand]}
  SimulatedDraws: {env: Arm, transforms: [Wind, {FrameSkipTransform: {frame_skip: 2}}, {Wind: {in_keys: [windy_observation]}}]}
  SimulatedActions: {env: Arm, transforms: [{ActionDiscretizer: {num_intervals: 5, sampling: random}}, Wind, {FrameSkipTransform: {frame_skip: 2}}]}
  SkippedDraws: {env: Arm, transforms: [Wind, Still, {Wind: {in_keys: [windy_observation]}}]}
  NoopDraws: {env: Arm, transforms: [Wind, {NoopResetEnv: {noops: 14}}, {Wind: {in_keys: [windy_observation]}}]}
"""

NAMES = [line.split(":")[0].strip() for line in SCHEMA.partition("chains:\n")[2].splitlines()]
NAMES = [name for name in NAMES if name[0].isupper()]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files, said, _ = compile_texts({"sample.yaml": SCHEMA}, "stepped", RECORDS)
    assert files, said
    with registered(), imported(files, "stepped", tmp_path_factory.mktemp("made")):
        yield importlib.import_module("stepped.sample")


def pair(made: ModuleType, name: str, **arguments: Any) -> tuple[EnvBase[Any], EnvBase[Any]]:
    """A chain, and the classes that it is made of one after another."""
    fused = getattr(made, name)(**arguments)
    unfused = fused._unfused()
    return fused, TransformedEnv(unfused.env_class(**arguments), Compose(*unfused.transforms))


@pytest.mark.parametrize("name", NAMES)
def test_a_chain_is_as_the_classes(made: ModuleType, name: str) -> None:
    for env in pair(made, name):
        check_env_specs(env)
    same_specs(*pair(made, name))
    drive(*pair(made, name))


@pytest.mark.parametrize("batch", [(3,), (4, 3)], ids=str)
@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("Drawn")])
def test_repeated_draws_of_rows(made: ModuleType, name: str, batch: tuple[int, ...]) -> None:
    drive(*pair(made, name, batch_size=batch))


def test_repeated_draws_as_they_are_interpreted(tmp_path_factory: pytest.TempPathFactory) -> None:
    with printed_programs() as programs:
        files, said, _ = compile_texts({"sample.yaml": SCHEMA}, "stepped_again", RECORDS)
    assert files, said
    with imported(files, "stepped_again", tmp_path_factory.mktemp("interpreted")):
        module = importlib.import_module("stepped_again.sample")
        for name in ("drawn", "drawn_around", "drawn_twice", "drawn_actions", "drawn_still"):
            class_ = getattr(module, "".join(word.title() for word in name.split("_")))
            with interpreted(module, programs, f"{name}_advance") as counts:
                class_(batch_size=(2,)).rollout(6, break_when_any_done=False)
            assert counts == {f"{name}_advance": 6}


class Counted(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Counts its steps and resets."""

    steps = resets = 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        return super().step(action)

    def reset(self, **kwargs: Any) -> Any:
        self.resets += 1
        return super().reset(**kwargs)


def counted(env: Any) -> Counted:
    env._gym_source.env = wrapper = Counted(env._gym_source.env)
    return wrapper


def test_what_stands_still_is_not_stepped(made: ModuleType) -> None:
    env = made.Skipped()
    env.set_seed(0)
    inner, root, stood = counted(env), env.reset(), 0
    for step in range(1, 60):
        still = bool(root["observation"][0, 0] > 0.3)
        stood += still
        before = shown(root).clone()
        after = env.step(env.rand_action(root))["next"]
        assert inner.steps == step - stood
        if still:
            assert not after["reward"]
            assert_identical(after.exclude("reward"), before.exclude("action"), "a row that stands")
            assert after["observation"].data_ptr() != root["observation"].data_ptr()
        root = env.reset() if still or after["done"] else after.exclude("reward")
    assert 0 < stood < 50


def test_noops_are_random_actions_after_each_reset(made: ModuleType) -> None:
    env = made.FixedNoops()
    inner = counted(env)
    env.set_seed(3)
    torch.manual_seed(0)
    root = env.reset()
    assert (inner.steps, inner.resets, int(root["step_count"])) == (3, 1, 0)
    plain = gymnasium.make("specgen-arm-v0")
    plain.reset(seed=3)
    torch.manual_seed(0)
    for _ in range(3):
        observation, _, over, cut, _ = plain.step(env.action_spec.rand().numpy())
        assert not over
        assert not cut
    assert np.array_equal(root["observation"].numpy(), observation)


def test_an_episode_that_ends_within_the_noops_begins_again(made: ModuleType) -> None:
    env = made.NoopsTwice()
    inner = counted(env)
    env.set_seed(1)
    torch.manual_seed(0)
    for _ in range(20):
        root = env.reset()
        assert not root["done"]
    assert inner.resets > 20


def test_frames_are_skipped_as_gymnasium_steps(made: ModuleType) -> None:
    """Rewards add up over steps with one action, and nothing steps behind the end."""
    env = made.SkippedOutside()
    plain = gymnasium.make("specgen-arm-v0")
    env.set_seed(5)
    root, (observation, _) = env.reset(), plain.reset(seed=5)
    for _ in range(50):
        still = observation[0, 0] > 0.3
        after = env.step(env.rand_action(root))["next"]
        reward, ended = np.float32(0), False
        for _ in range(0 if still else 2):
            observation, one, ended, cut, _ = plain.step(root["action"].numpy())
            reward += np.float32(one)
            if ended or cut:
                break
        assert np.array_equal(after["observation"].numpy(), observation)
        assert after["reward"].item() == reward
        assert bool(after["terminated"]) == ended
        root = after.exclude("reward")
        if still or after["done"]:
            root, (observation, _) = env.reset(), plain.reset()


@pytest.mark.parametrize("name", ["SkippedOutside", "FixedNoops"])
def test_specs_are_made_once(made: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They take longer to make than a step."""
    env = getattr(made, name)()

    def again(self: object) -> None:
        raise AssertionError("specs are made anew")

    for method in ("_specs", "_env_specs"):
        monkeypatch.setattr(type(env), method, again)
    env.step(env.rand_action(env.reset()))


ACTING = [name for name in NAMES if "Noop" in name or name in ("Settled", "Tracked", "Started")]
"""Chains whose resets draw random actions."""


@pytest.mark.parametrize("name", NAMES)
def test_what_draws_actions_in_resets_says_so(made: ModuleType, name: str) -> None:
    fused, dynamic = pair(made, name)
    for env in (fused, dynamic, SerialEnv(2, lambda: getattr(made, name)())):
        assert env._acts_in_resets == (name in ACTING)


@pytest.mark.parametrize("name", ACTING)
def test_random_rollouts_of_batches(made: ModuleType, name: str) -> None:
    random_rollouts(*(SerialEnv(2, lambda which=which: pair(made, name)[which]) for which in range(2)))


@pytest.mark.parametrize("name", ACTING)
def test_collected_random_actions(made: ModuleType, name: str) -> None:
    batches = []
    for env in pair(made, name):
        env.set_seed(3)
        torch.manual_seed(3)
        collector = Collector(env, None, frames_per_batch=15, total_frames=60)
        batches.append([shown(batch) for batch in collector])
        collector.shutdown()
    for number, (found, expected) in enumerate(zip(*batches, strict=True)):
        assert_identical(found, expected, f"batch {number}")


@pytest.mark.parametrize("which", [0, 1], ids=["fused", "classes"])
@pytest.mark.parametrize("name", ["Noops", "FixedNoops", "Settled", "Started", "Tracked"])
def test_environments_that_act_in_resets_keep_the_contract(made: ModuleType, name: str, which: int) -> None:
    check_env(lambda: pair(made, name)[which])


def test_a_reset_of_no_row_takes_no_steps(made: ModuleType) -> None:
    for env in pair(made, "FixedNoops"):
        base = env if not isinstance(env, TransformedEnv) else env.base_env
        inner, root = counted(base), env.reset()
        steps = inner.steps
        env.reset(root.set("_reset", torch.tensor([False])))
        assert inner.steps == steps
