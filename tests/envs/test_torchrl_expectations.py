"""What users of TorchRL expect where data are unusual: stale `next` entries, rows without old data, extra entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, GymEnv, SerialEnv, step_mdp
from specgen_runtime.specs import Categorical, Composite, Unbounded
from specgen_runtime.transforms import TransformedEnv
from specgen_std.chains import PendulumGymTrain
from specgen_std.envs.pendulum import Pendulum, PendulumGym
from specgen_std.transforms import StepCounter
from tensordict import TensorDict, TensorDictBase

from tests.envs.counting import Counting, Scripted, Stateful


class TestStaleNext:
    @pytest.mark.parametrize(
        "again", [lambda td: td, lambda td: td.copy(), lambda td: td.clone()], ids=["same", "copy", "clone"]
    )
    @pytest.mark.parametrize(
        "make",
        [
            Stateful,
            lambda: SerialEnv(3, lambda: Stateful(batch_size=())),
            lambda: TransformedEnv(Stateful(), lambda td: td),
        ],
        ids=["plain", "serial", "transformed"],
    )
    def test_a_second_step_replaces_it(self, make: Callable[[], Any], again: Callable[[Any], Any]) -> None:
        env = make()
        td = env.rand_step(env.reset())
        for count in (2, 3):
            td = env.rand_step(again(td))
            assert (td["next", "observation"] == count).all()

    def test_presets_prevail_in_the_first_step_only(self) -> None:
        env = Stateful()
        td = env.rand_action(env.reset())
        td["next"] = TensorDict({"reward": torch.full((3, 1), 5.0)}, [3])
        assert (env.step(td)["next", "reward"] == 5).all()
        assert (env.step(td)["next", "reward"] == 0).all()

    def test_entries_of_a_policy_stay(self) -> None:
        env = Stateful()
        td = env.rand_step(env.reset())
        td["next", "hidden"] = torch.ones(3, 1)
        td = env.step(td)
        assert (td["next", "hidden"] == 1).all()
        assert (td["next", "observation"] == 2).all()

    def test_flags_that_are_left_out_are_not_those_of_before(self) -> None:
        env = Scripted(next={"terminated": torch.tensor([True])})
        td = env.rand_step(env.reset())
        env.given_next = {}
        assert not env.step(td)["next", "done"].any()

    def test_no_tensordict(self) -> None:
        env = Stateful()
        with pytest.raises(TypeError, match="'next' must be a tensordict, found Tensor"):
            env.step(env.rand_action(env.reset()).set("next", torch.zeros(3)))

    @pytest.mark.parametrize("make", [Stateful, lambda: GymEnv("CartPole-v1")], ids=["plain", "gym"])
    def test_rollouts_go_on_from_rollouts(self, make: Callable[[], Any]) -> None:
        env = make()
        first = env.rollout(2)
        second = env.rollout(2, auto_reset=False, tensordict=first[..., -1])
        assert type(second) is TensorDict
        assert not torch.equal(
            first["next", "observation"][..., -1, :], second["next", "observation"][..., 0, :]
        )
        assert ("next", "observation") in first.keys(True)
        third = env.rollout(2, tensordict=env.rand_step(env.reset()))
        assert type(third) is TensorDict


class TestRandomSteps:
    def test_they_go_on(self) -> None:
        env = Stateful()
        assert "observation" in env.rand_step()
        td = env.rand_step()
        assert "observation" not in td
        assert (td["next", "observation"] == 2).all()

    def test_a_state_in_the_tensordict_begins_anew(self) -> None:
        env = Counting()
        for _ in range(2):
            assert env.rand_step()["next", "count"].item() == 1

    @pytest.mark.parametrize(
        "make", [lambda: GymEnv("Pendulum-v1"), lambda: SerialEnv(2, lambda: GymEnv("Pendulum-v1"))]
    )
    def test_gymnasium(self, make: Callable[[], Any]) -> None:
        env = make()
        env.set_seed(0)
        first = env.reset()["observation"][..., :2]
        moved = (env.rand_step()["next", "observation"][..., :2] - first).abs().max()
        assert moved < 0.2  # one step, not another episode
        assert "observation" not in env.rand_step()

    @pytest.mark.parametrize(
        "make", [lambda: GymEnv("Pendulum-v1"), PendulumGym, lambda: SerialEnv(2, PendulumGym)]
    )
    @pytest.mark.parametrize("policy", [False, True])
    def test_after_rollouts(self, make: Callable[[], Any], policy: bool) -> None:
        env = make()
        env.set_seed(0)
        last = env.rollout(5, env.rand_action if policy else None)["next", "observation"][..., -1, :2]
        moved = (env.rand_step()["next", "observation"][..., :2] - last).abs().max()
        assert moved < 0.5  # one step, not another episode
        assert "observation" not in env.rand_step()

    def test_of_generated_environments(self) -> None:
        # What they carry themselves is in the tensordict only.
        for make in (PendulumGymTrain, Pendulum):
            env = make()
            env.rollout(5)
            assert "observation" in env.rand_step()


class TestPartialResets:
    MASK = torch.tensor([[True], [False], [True]])

    def test_what_is_not_there_is_what_reset_returned(self) -> None:
        env = Stateful()
        env.rand_step(env.reset())
        td = env.reset(TensorDict({"_reset": self.MASK}, [3]))
        assert td["observation"].flatten().tolist() == [0, 1, 0]
        assert set(td.keys()) == {"observation", "done", "terminated"}

    @pytest.mark.parametrize(
        "make",
        [lambda: Counting(batch_size=(3,)), lambda: TransformedEnv(Stateful(), StepCounter())],
        ids=["state", "counter"],
    )
    def test_state_must_be_there(self, make: Callable[[], Any]) -> None:
        with pytest.raises(KeyError, match="keeps the rows outside '_reset'"):
            make().reset(TensorDict({"_reset": self.MASK}, [3]))


class TestStepMdp:
    def test_what_next_lacks_is_kept_if_not_excluded(self) -> None:
        one = torch.ones(1)
        td = TensorDict(reward=one, done=one, truncated=one, next=TensorDict(done=one * 2))
        assert set(step_mdp(td).keys()) == {"done", "truncated"}
        kept = step_mdp(td, exclude_reward=False)
        assert (kept["reward"].item(), kept["done"].item()) == (1, 2)
        assert set(step_mdp(td, exclude_reward=False, keep_other=False).keys()) == {"done"}
        assert step_mdp(td, exclude_done=True).is_empty()

    @pytest.mark.parametrize(
        "entries",
        [
            {"agents": {}},
            {"agents": {"inner": {}}},
            {"agents": {"action": torch.ones(1)}},
            {"next": {"agents": {}}},
            {"next": {"agents": {"reward": torch.ones(1)}}},
        ],
    )
    def test_empty_containers_are_left_out(self, entries: dict[str, Any]) -> None:
        td = TensorDict(entries).set(("next", "observation"), torch.ones(1))
        keys: dict[str, Any] = {"reward_keys": [("agents", "reward")], "action_keys": [("agents", "action")]}
        before = set(td.keys(True))
        assert set(step_mdp(td, **keys).keys()) == {"observation"}
        assert set(td.keys(True)) == before


def test_entries_that_no_spec_names_leave_rollouts_dense() -> None:
    seen = []

    def policy(td: TensorDictBase) -> TensorDictBase:
        seen.append("info" in td)
        return td.set("action", torch.zeros(1))

    data = Scripted(next={"info": torch.ones(2)}).rollout(3, policy)
    assert type(data) is TensorDict
    assert "info" not in data
    assert data["next", "info"].shape == (3, 2)
    assert seen == [False, True, True]  # a policy may hand itself what it needs through "next"


def test_leaves_as_whole_groups() -> None:
    env = Scripted(batch_size=(2,))
    env.full_observation_spec = Unbounded((2, 5))
    env.full_reward_spec_unbatched = Unbounded((1,))
    env.full_done_spec = Categorical(2, shape=(2, 1), dtype=torch.bool)
    env.full_action_spec_unbatched = Unbounded((3,))
    assert (env.observation_keys, env.reward_keys, env.action_keys) == (
        ["observation"],
        ["reward"],
        ["action"],
    )
    assert env.done_keys == ["done", "terminated"]
    assert env.action_spec.shape == (2, 3)
    with pytest.raises(TypeError, match="state_spec must be a Composite"):
        env.full_state_spec = Unbounded((2, 1))  # type: ignore[assignment]


@pytest.mark.parametrize("name", ["done", "terminated", "truncated"])
def test_flags_that_are_numbers_are_named(name: str) -> None:
    flags = {"done": torch.tensor([False]), "terminated": torch.tensor([False])}
    env = Scripted(next={**flags, name: torch.zeros(1)})
    with pytest.raises(TypeError, match=rf"Scripted.*'{name}' must be torch.bool.*found torch.float32"):
        env.rand_step()


def test_attributes_through_transforms() -> None:
    env: Any = TransformedEnv(
        TransformedEnv(Counting(limit=7), StepCounter()), StepCounter(), auto_unwrap=False
    )
    assert env.limit == 7
    assert not hasattr(env, "_private")
    with pytest.raises(
        AttributeError, match=r"' object has no attribute 'limmit', nor has the TransformedEnv"
    ):
        _ = env.limmit


def test_no_reward_spec() -> None:
    class Nothing(EnvBase):
        def __init__(self) -> None:
            super().__init__()
            self.observation_spec = Composite(observation=Unbounded((1,)))
            self.action_spec = Unbounded((1,))

        def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
            return TensorDict(observation=torch.zeros(1))

        def _step(self, tensordict: Any) -> TensorDict:
            return TensorDict(observation=torch.zeros(1))

        def _set_seed(self, seed: int | None) -> None:
            pass

    assert (Nothing().rollout(3)["next", "reward"] == 0).all()
