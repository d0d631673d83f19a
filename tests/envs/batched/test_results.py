"""A batch gives what its environments give one by one, bit by bit."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, GymEnv, check_env_specs
from specgen_runtime.envs.spec_leaves import leaves_of
from specgen_runtime.transforms import FunctionTransform, TransformedEnv
from specgen_std.envs.cartpole import CartPole
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase

from tests.envs.batched.conftest import Make
from tests.envs.counting import Counting, Grid, Stateful
from tests.envs.spec_kinds import KINDS, SINGLE, made

KEYS_OF = ("full_observation_spec", "full_reward_spec", "full_done_spec")


def cartpole() -> GymEnv[Any]:
    return GymEnv("CartPole-v1")


ENVS: dict[str, Any] = {
    "gym": cartpole,
    "generated": CartPole,
    "generated, batched": partial(CartPole, batch_size=[2]),
    "state in the tensordict": Counting,
    "state outside": partial(Stateful, batch_size=(2,)),
    "agents": Grid,
    "agents without a joint end": partial(Grid, root_done=False),
}


def same(left: Any, right: Any) -> None:
    """Both have the same keys, and every value is equal, bit by bit."""
    assert set(left.keys(True, True)) == set(right.keys(True, True))
    for key in left.keys(True, True):
        assert left.get(key).dtype is right.get(key).dtype, key
        assert torch.equal(left.get(key), right.get(key)), key


def actions_for(env: EnvBase[Any], steps: int) -> list[TensorDictBase]:
    torch.manual_seed(7)
    return [env.full_action_spec.rand() for _ in range(steps)]


@pytest.fixture(params=ENVS)
def make_env(request: pytest.FixtureRequest) -> Any:
    return ENVS[request.param]


def test_steps_and_resets(batch: Make, make_env: Any) -> None:
    env = batch(2, make_env)
    singles = [make_env() for _ in range(2)]
    assert env.set_seed(11) == 13
    for i, single in enumerate(singles):
        single.set_seed(11 + i)
    root = env.reset()
    roots = [single.reset() for single in singles]
    for actions in actions_for(env, 30):
        for i in range(2):
            same(root[i], roots[i])
        record, root = env.step_and_maybe_reset(root.update(actions))
        for i, single in enumerate(singles):
            expected, roots[i] = single.step_and_maybe_reset(roots[i].update(actions[i]))
            same(record[i], expected)


@pytest.mark.parametrize("stop", [True, False])
def test_rollouts(batch: Make, stop: bool) -> None:
    env = batch(2, [cartpole, cartpole])
    singles = [cartpole(), cartpole()]
    env.set_seed(3)
    for i, single in enumerate(singles):
        single.set_seed(3 + i)
    torch.manual_seed(0)
    data = env.rollout(40, break_when_any_done=stop)
    assert data.names == [None, "time"]
    assert data.shape == (2, data.shape[1])
    assert bool(data["next", "done"].any())
    for i, single in enumerate(singles):
        expected = single.rollout(
            data.shape[1], actions=data[i].select("action").unbind(0), break_when_any_done=False
        )
        same(data[i], expected)


def test_all_done(batch: Make) -> None:
    env = batch(2, [partial(Counting, limit=2), partial(Counting, limit=4)])
    data = env.rollout(10, break_when_all_done=True)
    assert data.shape == (2, 4)
    assert data["next", "count"].flatten(1).tolist() == [[1, 2, 2, 2], [1, 2, 3, 4]]


def test_step_by_step_as_step_and_maybe_reset(batch: Make) -> None:
    env, other = batch(2, cartpole), batch(2, cartpole)
    for each in (env, other):
        each.set_seed(0)
    left, right = env.reset(), other.reset()
    for actions in actions_for(env, 40):
        record = env.step(left.update(actions))
        left = env.maybe_reset(env.step_mdp(record))
        expected, right = other.step_and_maybe_reset(right.update(actions))
        same(record, expected)
        same(left, right)


class TestPartialResets:
    def test_only_the_rows_of_the_mask(self, batch: Make) -> None:
        env = batch(3, partial(Stateful, batch_size=(2,)))
        root = env.reset()
        for actions in actions_for(env, 3):
            _, root = env.step_and_maybe_reset(root.update(actions))
        mask = torch.tensor([[True, False], [False, False], [True, True]])[..., None]
        result = env.reset(root.set("_reset", mask))
        assert result is root
        assert "_reset" not in root
        expected = torch.where(mask, 0.0, 3.0)
        assert torch.equal(root["observation"], expected)
        assert torch.equal(env.step(root.update(actions_for(env, 1)[0]))["next", "observation"], expected + 1)

    def test_only_those_environments_are_asked(self, batch: Make) -> None:
        from tests.envs.batched.faulty import Faulty

        env = batch(2, Faulty)
        root = env.reset()
        env.reset(root.set("_reset", torch.tensor([[False], [True]])))
        assert env.resets == [1, 2]
        assert env.reset(root.set("_reset", torch.zeros(2, 1, dtype=torch.bool))) is root
        assert env.resets == [1, 2]

    def test_what_is_kept_need_not_be_given(self, batch: Make) -> None:
        env = batch(2, Stateful)
        root = env.reset()
        env.step(root.update(actions_for(env, 1)[0]))
        mask = torch.tensor([[True], [False]])[:, None].expand(2, 3, 1)
        result = env.reset(TensorDict({"_reset": mask}, batch_size=[2, 3]))
        assert result["observation"].flatten().tolist() == [0, 0, 0, 1, 1, 1]

    def test_keyword_arguments(self, batch: Make) -> None:
        from tests.envs.batched.faulty import Faulty

        env = batch(2, Faulty)
        assert env.reset(count=4)["observation"].flatten().tolist() == [4, 4]
        several = [{"count": 1}, {"count": 2}]
        assert env.reset(list_of_kwargs=several)["observation"].flatten().tolist() == [1, 2]
        with pytest.raises(RuntimeError, match="1 dicts for 2 environments"):
            env.reset(list_of_kwargs=[{}])


class TestRoots:
    """What the caller changes has to reach the environments."""

    def test_state_from_elsewhere(self, batch: Make) -> None:
        env = batch(2, partial(Counting, limit=100))
        root = env.reset()
        action = {"action": torch.zeros(2, 1)}
        _, later = env.step_and_maybe_reset(root.update(action))
        later["count"].fill_(7)
        assert env.step(later.update(action))["next", "count"].tolist() == [[8], [8]]
        later["count"].numpy()[:] = 20
        assert env.step(later.exclude("next"))["next", "count"].tolist() == [[21], [21]]
        assert env.step(env.reset().update(action))["next", "count"].tolist() == [[1], [1]]

    def test_observations_changed_in_place_or_replaced(self, batch: Make) -> None:
        env = batch(2, Remembering)
        action = {"action": torch.zeros(2, 1)}
        root = env.reset().update(action)
        root["observation"].add_(5)
        record, root = env.step_and_maybe_reset(root)
        assert record["next", "observation"].tolist() == [[6], [6]]
        root["observation"].numpy()[:] = 7  # which torch does not notice
        assert env.step(root)["next", "observation"].tolist() == [[8], [8]]
        root = root.exclude("next").set("observation", torch.full((2, 1), 10.0))
        assert env.step(root)["next", "observation"].tolist() == [[11], [11]]
        assert env.step(root.exclude("observation", "next"))["next", "observation"].tolist() == [[1], [1]]
        with pytest.raises(KeyError, match="count"):
            env.step(TensorDict(action, batch_size=[2]))

    def test_observations_that_a_transform_made_others(self, batch: Make) -> None:
        env = batch(2, Counting)
        action = {"action": torch.zeros(2, 1)}
        root = env.reset().update(action).set("observation", torch.zeros(2, 3, dtype=torch.float64))
        record, root = env.step_and_maybe_reset(root)
        assert record["next", "observation"].tolist() == [[1], [1]]
        assert root["observation"].tolist() == [[1], [1]]

    def test_other_entries_stay(self, batch: Make) -> None:
        env = batch(2, Counting)
        hidden = torch.rand(2, 4)
        record, root = env.step_and_maybe_reset(env.rand_action(env.reset()).set("hidden", hidden))
        assert torch.equal(record["hidden"], hidden)
        assert torch.equal(root["hidden"], hidden)
        assert "reward" not in root

    def test_what_no_spec_names_stays_with_the_environment(self, batch: Make) -> None:
        env = batch(2, Secretive)
        action = {"action": torch.zeros(2, 1)}
        root = env.reset().update(action)
        assert root["secret", "count"].tolist() == [[0], [0]]
        record = env.step(root)
        record, root = env.step_and_maybe_reset(env.step_mdp(record).update(action))
        assert record["next", "secret", "count"].tolist() == [[2], [2]]
        root = env.reset(root.set("_reset", torch.tensor([[True], [False]])))
        following = env.step(root.update(action))["next"]
        assert following["secret", "count"].tolist() == [[1], [3]]

    def test_results_are_no_views_of_shared_memory(self, batch: Make) -> None:
        env = batch(2, Counting)
        first = env.step(env.rand_action(env.reset()))
        kept = first.clone()
        env.rollout(3)
        same(first, kept)
        root = env.reset()
        root["count"].fill_(50)
        assert env.reset()["count"].tolist() == [[0], [0]]

    def test_presets_prevail(self, batch: Make) -> None:
        env = batch(2, Counting)
        root = env.rand_action(env.reset())
        root.set("next", TensorDict({"reward": torch.full((2, 1), 9.0)}, batch_size=[2]))
        assert env.step(root)["next", "reward"].tolist() == [[9], [9]]


class Secretive(Counting):
    """Keeps a number in the tensordict that no spec names."""

    def __init__(self) -> None:
        super().__init__(limit=100)

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        return super()._reset(tensordict, **kwargs).set(("secret", "count"), torch.zeros(1))

    def _step(self, tensordict: Any) -> Any:
        return super()._step(tensordict).set(("secret", "count"), tensordict["secret", "count"] + 1)


class Remembering(Counting):
    """Counts on from what it is shown, which is no declared state."""

    def _step(self, tensordict: Any) -> TensorDict:
        following = super()._step(tensordict)
        seen = tensordict.get("observation", None)
        return following.set("observation", torch.ones(1) if seen is None else seen + 1)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in SINGLE])
def test_kinds_of_specs(batch: Make, kind: str) -> None:
    check_env_specs(batch(2, partial(made, kind)))


class TestDifferentEnvironments:
    def test_lazy_stacks(self, batch: Make) -> None:
        env = batch(2, [partial(Counting, limit=2), partial(Grid, limit=5)])
        assert isinstance(env.reset(), LazyStackedTensorDict)
        assert isinstance(env.fake_tensordict()[0]["next", "count"], torch.Tensor)
        data = env.rollout(4, break_when_any_done=False)
        assert data.shape == (2, 4)
        assert data[0]["count"].flatten().tolist() == [0, 1, 0, 1]
        assert data[1]["time"].flatten().tolist() == [0, 1, 2, 3]
        assert "reward" not in data[0]
        assert "count" not in data[1]
        assert ("agents", "reward") not in data[1].keys(True)
        assert env.rollout(9, break_when_all_done=True).shape == (2, 5)

    def test_other_bounds_are_dense(self, batch: Make) -> None:
        env = batch(2, [Counting, Narrow])
        data = env.rollout(3)
        assert isinstance(data, TensorDict)
        assert bool((data[1]["action"].abs() <= 0.1).all())
        assert [leaf.items[0].place for leaf in leaves_of(env.full_action_spec)] == [0, 1]

    def test_asked_for(self, batch: Make) -> None:
        env = batch(2, Counting, share_individual_td=True)
        assert isinstance(env.reset(), LazyStackedTensorDict)
        check_env_specs(env)
        with pytest.raises(ValueError, match="only be stacked lazily"):
            batch(2, [Counting, Grid], share_individual_td=False)

    def test_kwargs_decide(self, batch: Make) -> None:
        env = batch(2, Counting, create_env_kwargs=[{"limit": 2}, {"limit": 3}])
        assert env.limit == [2, 3]
        env.update_kwargs([{"limit": 4}, {"limit": 5}])
        env.close()
        assert env.limit == [4, 5]

    def test_one_batch_size(self, batch: Make) -> None:
        with pytest.raises(ValueError, match=r"environment 1 .* has \[2\], environment 0 .* \[\]"):
            batch(2, [Counting, partial(Counting, batch_size=(2,))])


class Narrow(Counting):
    def __init__(self) -> None:
        super().__init__()
        from specgen_runtime.specs import Bounded

        self.action_spec = Bounded(-0.1, 0.1, shape=(1,))


def test_transforms_outside_and_inside(batch: Make) -> None:
    outside = TransformedEnv(batch(2, cartpole), FunctionTransform(_doubled))
    inside = batch(2, _transformed)
    for env in (outside, inside):
        env.set_seed(1)
    actions = actions_for(inside, 30)
    left, right = outside.reset(), inside.reset()
    for action in actions:
        record, left = outside.step_and_maybe_reset(left.update(action))
        expected, right = inside.step_and_maybe_reset(right.update(action))
        same(record, expected)
        same(left, right)


def _doubled(tensordict: Any) -> Any:
    return tensordict.set("observation", tensordict["observation"] * 2)


def _transformed() -> TransformedEnv:
    return TransformedEnv(cartpole(), FunctionTransform(_doubled))


def test_inference_mode(batch: Make) -> None:
    env = batch(2, Counting)
    with torch.inference_mode():
        data = env.rollout(4)
    assert data["next", "count"].flatten(1).tolist() == [[1, 2, 3, 4]] * 2
    # The memory that was made there is used outside, too.
    data = env.rollout(4)
    assert data["next", "count"].flatten(1).tolist() == [[1, 2, 3, 4]] * 2
    assert not data["next", "count"].is_inference()


def test_batches_of_batches(batch: Make) -> None:
    env = batch(2, _inner)
    assert env.batch_size == (2, 2)
    assert env.set_seed(5) == 9
    data = env.rollout(30, break_when_any_done=False)
    singles = [cartpole() for _ in range(4)]
    for i, single in enumerate(singles):
        single.set_seed(5 + i)
        assert torch.equal(single.reset()["observation"], data[i // 2, i % 2, 0]["observation"])


def _inner() -> Any:
    from specgen_runtime.envs import SerialEnv

    return SerialEnv(2, cartpole)
