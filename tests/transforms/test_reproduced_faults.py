"""Faults of TorchRL's transforms that were reproduced, and that are none here; most others stand with their class."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, check_env_specs
from specgen_runtime.specs import Binary, Bounded, Composite, OneHot, TensorSpec, Unbounded
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.transforms import (
    ActionDiscretizer,
    ActionScaling,
    BinarizeReward,
    CatFrames,
    CatTensors,
    DiscreteActionProjection,
    FlattenObservation,
    MultiAction,
    RandomTruncationTransform,
    RenameTransform,
    RewardClipping,
    SelectTransform,
    StepCounter,
    TargetReturn,
    TimeMaxPool,
    ToTensorImage,
)
from tensordict import TensorDict

from tests.transforms.envs import Team, Walk


class Drawn(EnvBase):
    """Whatever its specs say: entries are drawn from them, and it never ends."""

    def __init__(self, observation: Composite, reward: Any) -> None:
        super().__init__(batch_size=observation.shape)
        batch = observation.shape
        self.observation_spec = observation
        self.action_spec = Unbounded((*batch, 1))
        self.full_reward_spec = Composite(reward=reward, shape=batch)
        self.full_done_spec = Composite(done=Binary(1, (*batch, 1), dtype=torch.bool), shape=batch)

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        fresh: TensorDict = self.observation_spec.rand().update(self.full_done_spec.zero())
        if tensordict is not None and "_reset" in tensordict:
            kept = tensordict.select(*fresh.keys(True, True))
            rows = tensordict["_reset"].squeeze(-1)
            return fresh.where(rows, kept)
        return fresh

    def _step(self, tensordict: Any) -> TensorDict:
        following: TensorDict = self.observation_spec.rand().update(self.full_done_spec.zero())
        return following.update(self.full_reward_spec.rand())

    def _set_seed(self, seed: int | None) -> None:
        torch.manual_seed(seed or 0)


class Choosers(EnvBase):
    """Two agents, each of which sees what it did before; it has a generator of its own, and draws nothing."""

    def __init__(self, *batch: int, action: TensorSpec) -> None:
        super().__init__(batch_size=batch)
        group = (*batch, 2)
        actions = action.expand(*group, *action.shape)
        seen = Unbounded((*group, *action.shape), dtype=action.dtype)
        self.action_spec = Composite(agents=Composite(action=actions, shape=group), shape=batch)
        self.observation_spec = Composite(agents=Composite(seen=seen, shape=group), shape=batch)
        self.state_spec = self.observation_spec.clone()
        self.reward_spec = Unbounded((*batch, 1))
        self.done_spec = Composite(done=Binary(1, (*batch, 1), dtype=torch.bool), shape=batch)
        self._generator = torch.Generator()

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        fresh: TensorDict = self.observation_spec.zero()
        return fresh

    def _step(self, tensordict: Any) -> TensorDict:
        agents = TensorDict({"seen": tensordict["agents", "action"]}, (*self.batch_size, 2))
        zeros = torch.zeros(*self.batch_size, 1)
        return TensorDict({"agents": agents, "reward": zeros, "done": zeros.bool()}, self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        self._generator.manual_seed(seed or 0)


def drawn(reward: Any = None, batch: tuple[int, ...] = (), **observed: Any) -> Drawn:
    """An environment that observes values of these specs."""
    specs = observed or {"seen": Unbounded((*batch, 1))}
    return Drawn(Composite(specs, shape=batch), Unbounded((*batch, 1)) if reward is None else reward)


def test_rewards_are_not_clipped_where_no_limit_is_given() -> None:
    env = TransformedEnv(drawn(), RewardClipping(out_keys=["clipped"]))
    check_env_specs(env)
    data = env.rollout(20)["next"]
    assert torch.equal(data["clipped"], data["reward"])


def test_bounded_rewards_are_clipped() -> None:
    env = TransformedEnv(drawn(Bounded(-2.0, 0.5, (1,))), RewardClipping(-1.0, 1.0))
    check_env_specs(env)
    spec: Any = env.full_reward_spec["reward"]
    assert (float(spec.space.low), float(spec.space.high)) == (-1.0, 0.5)


def test_several_rewards_are_told_from_none() -> None:
    env = TransformedEnv(drawn(Unbounded((3,))), BinarizeReward())
    check_env_specs(env)
    assert env.rollout(3)["next", "reward"].shape == (3, 3)


def test_bounds_stand_behind_one_another() -> None:
    pair: dict[str, Any] = {"a": Bounded(-1.0, 2.0, (2,)), "b": Bounded(0.0, 5.0, (1,))}
    env = TransformedEnv(drawn(**pair), CatTensors(["b", "a"]))
    check_env_specs(env)
    spec: Any = env.observation_spec["observation_vector"]
    assert spec.space.low.tolist() == [0.0, -1.0, -1.0]
    assert spec.space.high.tolist() == [5.0, 2.0, 2.0]


def test_one_hot_rows_one_behind_the_other_are_no_one_hot() -> None:
    env = TransformedEnv(drawn(board=OneHot(4, (3, 4))), FlattenObservation(-2, -1, in_keys=["board"]))
    check_env_specs(env)
    spec = env.observation_spec["board"]
    assert spec.shape == (12,)
    assert not isinstance(spec, OneHot)


def test_keys_that_are_selected_are_there() -> None:
    with pytest.raises(KeyError, match="SelectTransform reads 'missing', but the environment has only"):
        _ = TransformedEnv(Walk(2), SelectTransform("missing")).observation_spec


def test_a_counter_that_nobody_sees_goes_on() -> None:
    env = TransformedEnv(Walk(2), Compose(StepCounter(max_steps=3), SelectTransform("position")))
    check_env_specs(env)
    assert "step_count" not in env.observation_spec.keys(True)
    assert env.rollout(9, break_when_any_done=True).shape[-1] <= 3


@pytest.mark.parametrize("shape", [(1,), (3,)])
def test_the_return_to_come_is_like_the_reward(shape: tuple[int, ...]) -> None:
    env = TransformedEnv(drawn(Unbounded(shape, dtype=torch.float64)), TargetReturn(10.0))
    check_env_specs(env)
    data = env.rollout(4)
    assert data["target_return"].dtype == torch.float64
    left = 10.0 - data["next", "reward"].sum(0)
    torch.testing.assert_close(data["next", "target_return"][-1], left, rtol=1e-12, atol=1e-12)


def test_frames_of_rows_that_are_reset_alone() -> None:
    env = TransformedEnv(Walk(2, 3), CatFrames(3, -1, in_keys=["position"], out_keys=["frames"]))
    root = env.rollout(3, break_when_any_done=False)[..., -1]["next"].exclude("reward")
    rows = torch.tensor([[True, False, False], [False, True, True]])
    again = env.reset(root.clone().set("_reset", rows.unsqueeze(-1)))
    assert torch.equal(again["frames"][~rows], root["frames"][~rows])
    assert torch.equal(again["frames"][rows], again["position"][rows].repeat(1, 3))


def test_the_same_transform_at_another_batch_size() -> None:
    stack = CatFrames(3, -1, in_keys=["position"], out_keys=["frames"])
    TransformedEnv(Walk(3), stack).rollout(2)
    other = TransformedEnv(Walk(2, 2), stack.clone())
    assert other.rollout(2)["frames"].shape == (2, 2, 2, 9)


def test_flags_of_agents_follow_a_random_end_of_the_team() -> None:
    env = TransformedEnv(Team(4), Compose(StepCounter(), RandomTruncationTransform(1, 3)))
    check_env_specs(env)
    following = env.rollout(6, break_when_any_done=False)["next"]
    ended = following["truncated"]
    assert ended.any()
    for flag in ("truncated", "done"):
        nested = following.get(("agents", flag), None)
        assert nested is None or nested[ended.expand(nested.shape[:-1])].all()


def test_frames_are_no_part_of_a_state_dict() -> None:
    """A run that goes on with other rows has nothing to load frames into."""
    env = TransformedEnv(Walk(3), CatFrames(3, -1, in_keys=["position"], out_keys=["frames"]))
    env.rollout(4)
    saved = env.state_dict()
    assert not any(isinstance(value, torch.Tensor) for value in saved.values())
    other = TransformedEnv(Walk(2, 2), CatFrames(3, -1, in_keys=["position"], out_keys=["frames"]))
    other.load_state_dict(saved)
    check_env_specs(other)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: TimeMaxPool(in_keys=["position"], out_keys=["largest"], T=3), (3, 3)),
        (lambda: MultiAction(2), (3, 2, 3)),
    ],
)
def test_a_step_that_is_repeated_gives_the_same(make: Any, shape: tuple[int, ...]) -> None:
    """What was seen before is in the tensordict: the object remembers nothing."""
    env = TransformedEnv(Walk(3), make())
    root = env.step_mdp(env.step(env.rand_action(env.reset()))).set("action", torch.full(shape, 0.25))
    first = env.step(root.clone())["next"]
    env.step(env.rand_action(env.reset()))
    assert (env.step(root.clone())["next"] == first).all()


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (lambda: CatFrames(2, -1, in_keys=[("agents", "x")], out_keys=[("agents", "seen")]), "seen"),
        (lambda: TimeMaxPool(in_keys=[("agents", "x")], out_keys=[("agents", "seen")], T=2), "seen"),
        (lambda: TargetReturn(5.0, in_keys=[("agents", "reward")]), "target_return"),
    ],
)
def test_two_reset_keys(make: Any, key: str) -> None:
    """An entry of agents begins anew with those that are reset, whichever of the two masks says so."""
    env = TransformedEnv(Team(3), make())
    assert env.reset_keys == ["_reset", ("agents", "_reset")]
    check_env_specs(env)
    fresh = env.reset()
    push = torch.full((3, 2, 1), 0.5)
    root = env.step_mdp(env.step(fresh.clone().set(("agents", "action"), push)))
    before = root["agents", key].clone()
    assert not (before == fresh["agents", key]).all(-1).any()
    rows = torch.tensor([[True], [False], [False]])
    again = env.reset(root.clone().set("_reset", rows))
    assert torch.equal(again["agents", key][0], fresh["agents", key][0])
    assert torch.equal(again["agents", key][1:], before[1:])


@pytest.mark.parametrize(
    "make",
    [
        lambda: CatTensors(["position"], "joined"),
        lambda: RenameTransform(["position"], ["joined"]),
    ],
)
def test_what_the_environment_steps_from_may_be_joined_or_renamed(make: Any) -> None:
    """What is taken away from the user is still what the environment reads."""
    env = TransformedEnv(Walk(3), make())
    check_env_specs(env)
    torch.manual_seed(0)
    data = env.rollout(5)
    torch.manual_seed(0)
    assert torch.equal(data["next", "joined"], Walk(3).rollout(5)["next", "position"])
    assert "position" not in data["next"].keys()  # noqa: SIM118 - a tensordict


@pytest.mark.parametrize(
    ("inner", "make"),
    [
        (
            Bounded(-1.0, 1.0, (3,)),
            lambda: ActionDiscretizer(4, action_key=("agents", "action"), sampling="random"),
        ),
        (OneHot(3), lambda: DiscreteActionProjection(3, 5, action_key=("agents", "action"))),
    ],
)
def test_actions_are_drawn_from_the_generator_of_the_environment(inner: TensorSpec, make: Any) -> None:
    """Neither does the global generator decide, nor is it moved."""
    env = TransformedEnv(Choosers(20, action=inner), make())
    chosen = env.full_action_spec.rand()
    if isinstance(inner, OneHot):
        chosen["agents", "action"] = torch.eye(5, dtype=torch.bool)[4].expand(20, 2, 5)
    found = []
    for seed, elsewhere in ((3, 0), (3, 1), (4, 0)):
        env.set_seed(seed)
        torch.manual_seed(elsewhere)
        before = torch.get_rng_state()
        found.append(env.step(env.reset().update(chosen))["next", "agents", "seen"])
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


@pytest.mark.parametrize("make", [lambda: ActionDiscretizer(4), ActionScaling])
def test_bounds_that_nobody_knows(make: Any) -> None:
    """Outside of an environment there is no spec, rather than one without bounds."""
    with pytest.raises(
        RuntimeError, match="is part of no environment that could tell the bounds of 'action'"
    ):
        make().inv(TensorDict(action=torch.ones(3)))


def test_projected_actions_of_a_group() -> None:
    env = TransformedEnv(
        Choosers(4, action=OneHot(3)), DiscreteActionProjection(3, 5, action_key=("agents", "action"))
    )
    check_env_specs(env)
    assert env.full_action_spec["agents", "action"] == OneHot(5, shape=(4, 2, 5))
    chosen = torch.arange(8).reshape(4, 2) % 5
    action = torch.nn.functional.one_hot(chosen, 5).bool()
    seen = env.step(env.reset().set(("agents", "action"), action))["next", "agents", "seen"]
    assert seen.shape == (4, 2, 3)
    assert (seen.sum(-1) == 1).all()
    assert torch.equal(seen[chosen < 3], action[chosen < 3][:, :3])


@pytest.mark.parametrize(
    ("make", "keywords"),
    [
        (CatTensors, {"unsqueeze_if_oor": True}),
        (ToTensorImage, {"shape_tolerant": True}),
        (RandomTruncationTransform, {"min_horizon": 1, "max_horizon": 2, "done_key": "done"}),
    ],
)
def test_keywords_that_are_not_taken(make: type, keywords: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        make(**keywords)


def test_maxima_of_recorded_data() -> None:
    """They are those that the environment would have written."""
    plain = Walk(3).rollout(12, break_when_any_done=False)
    assert plain["next", "done"].any()
    actions = iter(plain["action"].unbind(1))
    env = TransformedEnv(Walk(3), TimeMaxPool(in_keys=["position"], out_keys=["largest"], T=3))
    online = env.rollout(12, lambda td: td.set("action", next(actions)), break_when_any_done=False)
    found = TimeMaxPool(in_keys=["position"], out_keys=["largest"], T=3)(plain)
    for place in ("largest", ("next", "largest")):
        assert torch.equal(found[place], online[place])


def test_a_state_that_is_not_selected_is_in_neither_data_nor_specs() -> None:
    env = TransformedEnv(Walk(3), SelectTransform())
    check_env_specs(env)
    torch.manual_seed(0)
    data = env.rollout(4)
    for place in (data, data["next"], env.observation_spec, env.state_spec):
        assert "position" not in place.keys()  # noqa: SIM118 - a tensordict
    torch.manual_seed(0)
    assert torch.equal(data["next", "reward"], Walk(3).rollout(4)["next", "reward"])
