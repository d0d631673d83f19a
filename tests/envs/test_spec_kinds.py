"""Environments whose specs are not plain tensors of one size: texts, stacks, choices, variable sizes, data classes."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.envs.spec_leaves import leaves_of
from specgen_runtime.specs import Composite
from specgen_runtime.specs.non_tensors.data import same_data
from tensordict import TensorDict

from tests.envs.spec_kinds import KINDS, SINGLE, Drawing, made

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=[(), (2,)], ids=["one", "two"])
def env(request: pytest.FixtureRequest, kind: str) -> Drawing:
    if request.param and kind in SINGLE:
        pytest.skip("not for several environments at once")
    torch.manual_seed(0)
    return made(kind, batch_size=request.param)


def values(spec: Composite, td: Any) -> dict[str, Any]:
    """What a tensordict has of a spec, for comparisons by `same_data`."""
    return {str(leaf): leaf.find(td) for leaf in leaves_of(spec)}


@pytest.mark.parametrize("contiguous", [None, False])
def test_specs_are_met(env: Drawing, contiguous: bool | None) -> None:
    check_env_specs(env, return_contiguous=contiguous, seed=0)


def test_rollout_to_the_end(env: Drawing) -> None:
    steps = env.rollout(9).unbind(-1)
    assert len(steps) == 3
    for step in steps:
        env.observation_spec.assert_is_in(step)
        env.observation_spec.assert_is_in(step["next"])
        env.full_action_spec.assert_is_in(step)
    for before, after in itertools.pairwise(steps):
        assert same_data(values(env.observation_spec, before["next"]), values(env.observation_spec, after))


@pytest.mark.parametrize("contiguous", [None, False])
def test_rollout_over_several_episodes(env: Drawing, contiguous: bool | None) -> None:
    data = env.rollout(8, break_when_any_done=False, return_contiguous=contiguous)
    assert data.batch_size == (*env.batch_size, 8)
    assert data.names == [*[None] * env.ndim, "time"]
    assert data["count"][..., 0].reshape(-1, 8)[0].tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    steps = data.unbind(-1)
    for before, after in itertools.pairwise(steps):
        env.observation_spec.assert_is_in(after)
        if not env.batch_size:
            same = same_data(
                values(env.observation_spec, before["next"]), values(env.observation_spec, after)
            )
            assert same == (not bool(before["next", "done"]))
            continue
        for row in range(2):
            # A row goes on as it was observed, whatever happens to the others.
            if not bool(before["next", "done"][row]):
                assert same_data(
                    values(env.observation_spec, before["next"][row]),
                    values(env.observation_spec, after[row]),
                )
            else:
                assert after["count"][row] == 0


def test_contiguous_rollouts_are_dense_or_refused(env: Drawing, kind: str) -> None:
    if kind == "stacked, of different sizes":
        with pytest.raises(RuntimeError, match=r"'(x|action)' is of several sizes.*return_contiguous=False"):
            env.rollout(3, return_contiguous=True)
        return
    assert type(env.rollout(3, return_contiguous=True)) is TensorDict


def test_rollout_until_all_are_done(env: Drawing) -> None:
    data = env.rollout(9, break_when_any_done=False, break_when_all_done=True)
    assert data.shape[-1] == (4 if env.batch_size else 3)
    assert bool(data[..., -1]["next", "done"].all())


def test_rollout_from_a_tensordict_with_a_policy(env: Drawing) -> None:
    start, action = env.reset(), env.rand_action()
    data = env.rollout(2, lambda td: td.update(action), auto_reset=False, tensordict=start)
    for step in data.unbind(-1):
        assert same_data(values(env.full_action_spec, step), values(env.full_action_spec, action))
    assert same_data(values(env.observation_spec, data[..., 0]), values(env.observation_spec, start))


def test_random_actions(env: Drawing) -> None:
    for td in (env.rand_action(), env.rand_action(env.reset())):
        assert td.batch_size == env.batch_size
        env.full_action_spec.assert_is_in(td)
    assert env.rand_step()["next", "count"].reshape(-1).tolist() == [1] * env.numel()


def test_fake_data(env: Drawing) -> None:
    fake, real = env.fake_tensordict(), env.rollout(1)[..., 0]
    assert set(fake.keys(True, True)) == set(real.keys(True, True))
    assert fake.batch_size == real.batch_size
    for spec, place in (
        (env.full_action_spec, fake), (env.observation_spec, fake), (env.observation_spec, fake["next"]),
        (env.full_reward_spec, fake["next"]), (env.full_done_spec, fake["next"]),
    ):  # fmt: skip
        assert same_data(values(spec, place), values(spec, spec.zero()))


def test_all_specs_together(env: Drawing) -> None:
    specs = env.specs
    assert specs["output_spec", "full_observation_spec"] == env.observation_spec
    assert specs["input_spec", "full_action_spec"] == env.full_action_spec
    assert specs.clone() == specs
    for group in (env.full_observation_spec, env.full_action_spec):
        with pytest.raises(RuntimeError, match="locked"):
            group["x"] = None


def test_without_the_batch(env: Drawing, kind: str) -> None:
    observation, action = KINDS[kind]
    assert env.full_action_spec_unbatched == action
    assert env.observation_spec_unbatched.select(*observation.keys()) == observation


def test_copies(env: Drawing) -> None:
    for twin in (pickle.loads(pickle.dumps(env)), copy.deepcopy(env)):
        assert twin.specs == env.specs
        torch.manual_seed(1)
        data = twin.rollout(5, break_when_any_done=False)
        torch.manual_seed(1)
        again = env.rollout(5, break_when_any_done=False)
        for mine, its in zip(again.unbind(-1), data.unbind(-1), strict=True):
            for spec in (env.observation_spec, env.full_action_spec, env.full_done_spec):
                assert same_data(values(spec, mine), values(spec, its))


def test_moves(env: Drawing) -> None:
    assert env.device is None
    assert env.to("cpu") is env
    assert env.specs.device == torch.device("cpu")
    assert env.rollout(2).device == torch.device("cpu")
    check_env_specs(env, seed=0)


def test_a_device_from_the_start(kind: str) -> None:
    env = made(kind, device="cpu")
    assert env.observation_spec.device == torch.device("cpu")
    assert env.rollout(4, break_when_any_done=False).device == torch.device("cpu")
