"""What `rollout` takes besides a policy: actions, where to keep the data, what to look for."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, NotFiniteError, ParallelEnv, SerialEnv, check_env_specs
from specgen_runtime.specs import Bounded, Categorical, Composite, Unbounded
from specgen_runtime.transforms import TransformedEnv
from specgen_std.transforms.step_counter import StepCounter
from tensordict import TensorDict

from tests.envs.counting import Counting, Grid
from tests.envs.native_pendulum import Pendulum


def same(left: Any, right: Any) -> None:
    assert left.batch_size == right.batch_size
    assert set(left.keys(True, True)) == set(right.keys(True, True))
    for key in left.keys(True, True):
        assert torch.equal(left[key], right[key]), key


class TestActions:
    @pytest.mark.parametrize("env", [Counting(), Counting(batch_size=(2,)), Grid(batch_size=(2,)), Grid()])
    def test_a_rollout_is_played_again(self, env: EnvBase) -> None:
        data = env.rollout(3)
        same(env.rollout(100, actions=data), data)

    def test_of_a_generated_environment(self) -> None:
        env = Pendulum(batch_size=(2,))
        start = env.reset()
        data = env.rollout(4, auto_reset=False, tensordict=start)
        same(env.rollout(4, actions=data, auto_reset=False, tensordict=start), data)

    def test_any_iterable(self) -> None:
        env = Counting(batch_size=(2,))
        steps = torch.rand(4, 2, 1)
        for actions in (
            steps,
            list(steps),
            [{"action": step} for step in steps],
            [TensorDict({"action": step}, (2,)) for step in steps],
        ):
            data = env.rollout(9, actions=actions)
            assert torch.equal(data["action"], steps.movedim(0, 1))
        data = env.rollout(3, actions=(step for step in steps))
        assert torch.equal(data["action"], steps[:3].movedim(0, 1))

    def test_nested_actions(self) -> None:
        env = Grid()
        steps = torch.randint(5, (2, 2))
        inner = [TensorDict({"action": step}, (2,)) for step in steps]
        for actions in (steps, inner, [{"agents": {"action": step}} for step in steps]):
            assert torch.equal(env.rollout(9, actions=actions)["agents", "action"], steps)

    def test_what_is_refused(self) -> None:
        # E16: TorchRL's short iterators end in StopIteration.
        env = Counting()
        with pytest.raises(
            ValueError, match="actions ended after 2 steps, the rollout of 4 steps needs one for step 2"
        ):
            env.rollout(4, actions=iter(torch.zeros(2, 1)))
        with pytest.raises(ValueError, match="not from both"):
            env.rollout(4, env.rand_action, actions=torch.zeros(2, 1))
        with pytest.raises(ValueError, match="at least one step"):
            env.rollout(4, actions=[])
        with pytest.raises(TypeError, match="must be iterable, found int"):
            env.rollout(4, actions=3)  # type: ignore[arg-type]
        with pytest.raises(KeyError, match="must hold 'action', found 'x'"):
            env.rollout(4, actions=[{"x": torch.zeros(1)}])
        with pytest.raises(RuntimeError, match=r"'action' must be torch.float32 \[1\]"):
            env.rollout(4, actions=torch.zeros(2, 3))
        with pytest.raises(ValueError, match="'action' at step 1 is not in its spec"):
            env.rollout(4, actions=torch.tensor([[0.0], [9.0]]))
        env.full_action_spec = Composite(left=Unbounded((1,)), right=Unbounded((1,)))
        with pytest.raises(TypeError, match="'left', 'right'; give a tensordict"):
            env.rollout(4, actions=torch.zeros(2, 1))


def test_where_the_data_are_kept() -> None:
    env = Counting(batch_size=(2,), limit=2)
    assert env.rollout(3).device is None
    for kwargs in ({}, {"break_when_any_done": False}, {"break_when_all_done": True}):
        assert env.rollout(3, storing_device="cpu", **kwargs).device == torch.device("cpu")
    assert Pendulum().rollout(3, storing_device="meta")["action"].device.type == "meta"
    data = env.rollout(2, lambda td: td.set("action", torch.ones(2, 1)), storing_device="cpu")
    assert data.device == torch.device("cpu")


def test_writing_into_a_given_tensordict() -> None:
    for env in (Counting(batch_size=(2,)), Pendulum(batch_size=(2,))):
        out = env.rollout(3)
        before = out["action"]
        assert env.rollout(3, out=out) is out
        assert out["action"] is before
        with pytest.raises(RuntimeError, match=r"batch size \[2, 3\], the rollout \[2, 2\]"):
            env.rollout(2, out=out)


class Placed(Counting):
    """Can be reset to a given count."""

    _supports_set_state = True

    def _reset(self, tensordict: Any, *, set_state: bool = False, **kwargs: Any) -> TensorDict:
        fresh = super()._reset(tensordict)
        return fresh.update({"count": tensordict["count"]}) if set_state else fresh


def transformed(make: Any) -> TransformedEnv:
    return TransformedEnv(make(), StepCounter())


class TestSetState:
    def test_resets(self) -> None:
        env = Placed()
        state = TensorDict({"count": torch.tensor([2])})
        assert env.reset(state.clone(), set_state=True)["count"] == 2
        assert env.reset(state.clone(), set_state=False)["count"] == 0
        assert env.reset(state.clone())["count"] == 2
        assert env.reset()["count"] == 0

    @pytest.mark.parametrize("kind", ["serial", "parallel", "transformed", "batch inside", "inside a batch"])
    def test_environments_of_environments(self, kind: str) -> None:
        makes: dict[str, Any] = {
            "serial": lambda make: SerialEnv(2, make),
            "parallel": lambda make: ParallelEnv(2, make),
            "transformed": lambda make: TransformedEnv(make(batch_size=(2,)), StepCounter()),
            "batch inside": lambda make: TransformedEnv(SerialEnv(2, make), StepCounter()),
            "inside a batch": lambda make: SerialEnv(2, partial(transformed, make)),
        }
        env = makes[kind](Placed)
        assert env._supports_set_state
        state = TensorDict({"count": torch.tensor([[2], [1]])}, [2])
        for set_state, expected in ((True, [2, 1]), (None, [2, 1]), (False, [0, 0])):
            assert env.reset(state.clone(), set_state=set_state)["count"].flatten().tolist() == expected
        assert env.reset()["count"].flatten().tolist() == [0, 0]
        data = env.rollout(5, tensordict=state, set_state=True, break_when_any_done=False)
        assert data["count"].squeeze(-1).tolist() == [[2, 3, 4, 0, 1], [1, 2, 3, 4, 0]]
        env.close()
        env = makes[kind](Counting)
        assert not env._supports_set_state
        with pytest.raises(NotImplementedError, match="set_state=True"):
            env.reset(state.clone(), set_state=True)
        env.close()

    def test_rollouts(self) -> None:
        env = Placed(limit=4)
        state = TensorDict({"count": torch.tensor([2])})
        data = env.rollout(5, tensordict=state, set_state=True, break_when_any_done=False)
        assert data["count"].flatten().tolist() == [2, 3, 0, 1, 2]

    @pytest.mark.parametrize("env", [Counting(), Pendulum()])
    def test_without_support(self, env: EnvBase) -> None:
        with pytest.raises(NotImplementedError, match="set_state=True"):
            env.reset(set_state=True)
        with pytest.raises(NotImplementedError, match="set_state=True"):
            env.rollout(2, set_state=True)
        assert env.rollout(2, set_state=False).batch_size == (2,)


def test_ends_do_not_hand_their_state_to_the_next_episode() -> None:
    # What is done is reset from its masks alone: a `_reset` that reads its state from the tensordict begins anew.
    class Reading(Counting):
        def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
            fresh = super()._reset(tensordict)
            given = None if tensordict is None else tensordict.get("count", None)
            return fresh if given is None else fresh.update({"count": given})

    data = Reading(limit=2).rollout(5, break_when_any_done=False)
    assert data["count"].flatten().tolist() == [0, 1, 0, 1, 0]


class Drifting(Counting):
    """Its observations are not finite from a count on, in the second of two environments."""

    def __init__(
        self, *, bad: float = float("nan"), at: int = 2, key: str = "observation", **kwargs: Any
    ) -> None:
        super().__init__(batch_size=(2,), **kwargs)
        self.bad, self.at, self.key = bad, at, key

    def _step(self, tensordict: Any) -> TensorDict:
        following = super()._step(tensordict)
        if int(following["count"][1]) >= self.at:
            following[self.key][1] = self.bad
        return following


class TestFinite:
    @pytest.mark.parametrize("key", ["observation", "reward"])
    @pytest.mark.parametrize("stop", [True, False])
    def test_what_is_not_is_named(self, key: str, stop: bool) -> None:
        env = Drifting(key=key)
        assert not env.rollout(3, break_when_any_done=stop)["next", key].isfinite().all()
        env.check_finite = True
        with pytest.raises(
            NotFiniteError, match=rf"_step: '{key}' of environment \[1\] at step 1.*found nan"
        ) as caught:
            env.rollout(3, break_when_any_done=stop)
        assert (caught.value.key, caught.value.step, caught.value.index) == (key, 1, (1,))
        assert isinstance(caught.value, FloatingPointError)

    def test_steps_and_resets(self) -> None:
        env = Drifting(bad=float("-inf"), at=1)
        env.check_finite = True
        with pytest.raises(
            NotFiniteError, match=r"'observation' of environment \[1\] must be finite, found -inf"
        ):
            env.rand_step()

        class Lost(Counting):
            def __init__(self) -> None:
                super().__init__()
                self.check_finite = True

            def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
                return super()._reset(tensordict).update({"observation": torch.full((1,), torch.inf)})

        with pytest.raises(NotFiniteError, match="_reset: 'observation' must be finite, found inf"):
            Lost().reset()

    def test_through_transforms(self) -> None:
        env = Drifting()
        env.check_finite = True
        with pytest.raises(NotFiniteError, match="at step 1"):
            TransformedEnv(env, lambda td: td).rollout(3)

    @pytest.mark.parametrize("policy", [None, lambda td: td.set("action", torch.ones(2, 1))])
    def test_lifted_rollouts(self, policy: Any) -> None:
        env = Pendulum(batch_size=(2,))
        start = env.reset()
        start["th"][1] = torch.nan
        env.rollout(3, policy, auto_reset=False, tensordict=start)
        env.check_finite = True
        with pytest.raises(NotFiniteError, match=r"of environment \[1\].* at step 0"):
            env.rollout(3, policy, auto_reset=False, tensordict=start)
        with pytest.raises(NotFiniteError, match=r"of environment \[1\]"):
            env.step(env.rand_action(start))
        assert env.rollout(3, policy).batch_size == (2, 3)
        check_env_specs(env)


class Choosing(Counting):
    """Two observations and two actions."""

    def __init__(self) -> None:
        super().__init__()
        self.full_action_spec = Composite(action=Bounded(-1, 1, (1,)), which=Categorical(3))


class TestPolicies:
    def test_what_takes_a_tensordict(self) -> None:
        def annotated(root: TensorDict) -> TensorDict:
            return root.set("action", torch.ones(1))

        class Module(torch.nn.Module):
            def forward(self, tensordict: Any) -> Any:
                return tensordict.set("action", torch.ones(1))

        class Keyed:
            in_keys = ("observation",)

            def __call__(self, anything: Any) -> Any:
                return anything.set("action", torch.ones(1))

        for policy in (annotated, Module(), Keyed(), lambda td: TensorDict({"action": torch.ones(1)})):
            assert (Counting().rollout(2, policy)["action"] == 1).all()
        data = Counting().rollout(2, lambda x: x.set("action", torch.ones(1)), trust_policy=True)
        assert (data["action"] == 1).all()
        data = Pendulum().rollout(2, lambda x: x.set("action", torch.ones(1)), trust_policy=True)
        assert (data["action"] == 1).all()

    def test_what_takes_observations(self) -> None:
        seen = []

        def policy(count: torch.Tensor, observation: torch.Tensor) -> torch.Tensor:
            seen.append((int(count), float(observation)))
            return observation / 10

        data = Counting().rollout(3, policy)
        assert data["action"].flatten().tolist() == pytest.approx([0, 0.1, 0.2])
        assert seen == [(0, 0.0), (1, 1.0), (2, 2.0)]
        data = Choosing().rollout(2, lambda count, observation: (observation / 10, count[0]))
        assert data["which"].tolist() == [0, 1]

    def test_what_does_not_fit(self) -> None:
        with pytest.raises(
            TypeError, match="called with the observations 'count', 'observation': too many positional"
        ):
            Counting().rollout(2, lambda x: x)
        with pytest.raises(TypeError, match="must return 'action', 'which', found Tensor"):
            Choosing().rollout(2, lambda count, observation: observation)
        with pytest.raises(
            TypeError, match="must return 'action', found TensorDict; a policy that takes the"
        ):
            Counting().rollout(2, lambda count, observation: TensorDict())

    @pytest.mark.parametrize(
        ("action", "message"),
        [
            (torch.ones(1, dtype=torch.float64), "must be torch.float32.*found torch.float64"),
            (torch.ones(2), r"must be torch.float32 \[1\].*found torch.float32 \[2\]"),
        ],
    )
    def test_wrong_actions_are_found_where_they_are_written(self, action: torch.Tensor, message: str) -> None:
        # E17
        for env in (Counting(device="cpu"), Pendulum(device="cpu")):
            with pytest.raises(RuntimeError, match="'action' " + message):
                env.rollout(2, lambda td, action=action: td.set("action", action))
