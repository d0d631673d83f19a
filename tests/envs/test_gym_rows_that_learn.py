"""Steps of NumPy's learn what the general ways learn, and show what has been learned, bit by bit."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from specgen_runtime.envs import GeneratedGymEnv, SerialEnv
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms import CommonStatistics
from tensordict.nn import TensorDictModule

from tests.support import generate, imported

SCHEMA = """
specgen: 1
import:
  - specgen_std/envs/cartpole
  - specgen_std/transforms/observation_norm
  - specgen_std/transforms/reward_sum
  - specgen_std/transforms/step_counter
  - specgen_std/transforms/vec_norm
transforms:
  Followed:
    doc: An update that NumPy may round otherwise.
    in: {x: {each: [observation, reward], type: "float32[...]"}}
    out: {y: {each: x, name: "{}_left", type: like(x)}}
    buffers: {centre: {each: x, type: "float64[...]", init: 0.5}}
    update: {next.centre: centre + tanh(batch_mean(x) - centre)}
    map: {y: x - float32(centre)}
  Counted:
    doc: A statistic of all keys.
    in: {x: {each: [observation, reward], type: "float32[...]"}}
    out: {y: {each: x, name: "{}_counted", type: like(x)}}
    buffers: {count: {type: int64, init: 1}}
    update: {next.count: count + int64(batch_count())}
    map: {y: x / float32(count)}
  Shown:
    doc: What is learned, itself; of a few rows the value before is forgotten.
    params: {rate: {default: 0.25, above: 0, max: 1}}
    in: {x: {each: [observation, reward], type: "float32[...]"}}
    out: {last: {each: x, name: "{}_last", type: "float64[...]"}}
    buffers: {last_x: {each: x, type: "float32[...]", init: 0.0}}
    update: {next.last_x: last_x + float32(rate * batch_sum(x) / batch_count()) * rate}
    allow: [SG320]
    map: {last: float64(last_x) - 0.5 * float64(x)}
chains:
  Normed:
    env: CartPoleGym
    transforms: [RewardSum, {StepCounter: {max_steps: 12}}, {VecNorm: {decay: 0.99}}]
    allow: [SG311]
  Several:
    env: CartPoleGym
    transforms: [{StepCounter: {max_steps: 12}}, Shown, Followed, Counted, {VecNorm: {in_keys: [observation_left]}}]
  Standardised:
    env: CartPoleGym
    transforms: [{ObservationNorm: {in_keys: [observation], standard_normal: true}}]
"""
NAMES = ["Normed", "Several", "Standardised"]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    files = generate({"learned.yaml": SCHEMA}, "learned_package")
    with imported(files, "learned_package", tmp_path_factory.mktemp("learned")):
        from learned_package import learned  # type: ignore[import-not-found]

        yield learned


@pytest.fixture(params=NAMES)
def cls(request: pytest.FixtureRequest, package: Any) -> Any:
    return getattr(package, request.param)


def started(env: Any) -> Any:
    """An environment whose statistics all have values, and whose episodes are the same each time."""
    if "Standardised" in type(env).__name__:
        values = env.transforms["0"]._statistics
        values.put("shift|observation", torch.tensor([0.1, -0.2, 0.05, 0.3]))
        values.put("factor|observation", torch.tensor([0.4, 0.7, 1.3, 0.6]))
    env.set_seed(3)
    return env


def generally(env: Any) -> Any:
    """The environment, without steps of NumPy's."""
    env.__dict__["_rows"] = None
    return env


def transitions(env: Any, steps: int = 60) -> Any:
    torch.manual_seed(2)
    root, records = env.reset(), []
    for _ in range(steps):
        record, root = env.step_and_maybe_reset(env.rand_action(root))
        records.append(record.clone())
    return torch.stack(records)


def assert_same_state(one: Any, other: Any) -> None:
    found, expected = one.state_dict(), other.state_dict()
    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert value.dtype is expected[name].dtype
        assert torch.equal(value, expected[name]), name


def test_steps_and_resets(cls: Any) -> None:
    env, other = started(cls()), generally(started(cls()))
    assert env._row_steps() is not None
    found = transitions(env)
    assert found["next", "done"].any()
    assert_identical(found, transitions(other))
    assert_same_state(env, other)


def test_updates_of_numpys_are_printed_where_it_computes_them_alike(package: Any) -> None:
    assert package.Shown._updated_row is not None
    assert package.Followed._updated_row is None  # `tanh` is torch's
    assert package.Counted._updated_row is None  # one statistic of all keys


@pytest.mark.parametrize("stops", [True, False])
def test_rollouts(cls: Any, stops: bool) -> None:
    env, other = started(cls()), generally(started(cls()))
    for steps in (40, 7):
        found, expected = [], []
        for one, rollouts in ((env, found), (other, expected)):
            torch.manual_seed(steps)
            rollouts.append(one.rollout(steps, break_when_any_done=stops))
        assert_identical(found[0], expected[0])
        assert found[0].names == expected[0].names
    assert_same_state(env, other)


def test_rollouts_of_a_policy(cls: Any) -> None:
    env, other = started(cls()), generally(started(cls()))
    policy = TensorDictModule(lambda x: (x.sum() > 0).long(), ["observation"], ["action"])
    found, expected = (one.rollout(40, policy, break_when_any_done=False) for one in (env, other))
    assert_identical(found, expected)
    assert_same_state(env, other)


def test_environments_side_by_side_learn_together(package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for generally_stepped in (False, True):
        statistics = CommonStatistics(package.Normed)
        env, frozen = SerialEnv(3, statistics), SerialEnv(2, statistics.frozen)
        if generally_stepped:
            monkeypatch.setattr(GeneratedGymEnv, "_row_steps", lambda _: None)
        env.set_seed(1)
        frozen.set_seed(5)
        rows = []
        for _ in range(2):  # what the ones learn, the others show, and learn nothing
            torch.manual_seed(0)
            rows += [env.rollout(20, break_when_any_done=False), frozen.rollout(6, break_when_any_done=False)]
        found.append((rows, env))
    (rows, env), (expected, other) = found
    for one, same in zip(rows, expected, strict=True):
        assert_identical(one, same)
    assert_same_state(env.envs[0], other.envs[0])


def test_frozen_copies_and_states_that_are_loaded(cls: Any) -> None:
    env = started(cls())
    transitions(env, 20)
    frozen, loaded, unpickled = env.frozen_copy(), started(cls()), pickle.loads(pickle.dumps(env))
    assert frozen._row_steps() is not None
    before = copy.deepcopy(frozen.state_dict())
    loaded.rollout(3)  # the arrays of before must not be shown again
    loaded.load_state_dict(env.state_dict())
    for one in (env, loaded, unpickled, frozen):
        one.set_seed(9)
    expected = transitions(env, 20)
    assert_identical(transitions(loaded, 20), expected)
    assert_identical(transitions(unpickled, 20), expected)
    shown = transitions(frozen, 20)
    after = frozen.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    again = generally(copy.deepcopy(frozen))
    for one in (frozen, again):
        one.set_seed(9)
    assert_identical(transitions(frozen, 20), transitions(again, 20))
    assert shown.shape == (20,)


def test_statistics_that_processes_share(package: Any) -> None:
    env, other = started(package.Normed()), started(package.Normed())
    env.share_memory()
    assert_identical(transitions(env), transitions(other))
    assert_same_state(env, other)
    held = env.transforms["2"]._statistics.values["loc|observation"]
    kept = held.clone()
    env.rollout(3)
    assert not torch.equal(held, kept)  # it is the memory that the others have, too


def test_nobody_gets_the_memory_of_what_is_learned(package: Any) -> None:
    env = started(package.Several())
    record, root = env.step_and_maybe_reset(env.rand_action(env.reset()))
    copied = env.state_dict()
    for value in record["next"].values():
        value.fill_(1)
    assert all(torch.equal(value, copied[name]) for name, value in env.state_dict().items())
    before = env.transforms["1"]._statistics.values["last_x|observation"]
    kept = before.clone()
    env.step(env.rand_action(root))
    assert torch.equal(before, kept)  # who has a value keeps it


def test_what_has_not_been_learned_is_asked_for(package: Any) -> None:
    with pytest.raises(RuntimeError, match="has no 'shift'"):
        package.Standardised().reset()
