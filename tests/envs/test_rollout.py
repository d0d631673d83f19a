"""`rollout` of any environment."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.envs import (
    ExplorationType,
    GymEnv,
    SerialEnv,
    check_env_specs,
    exploration_type,
    set_exploration_type,
    step_mdp,
)
from specgen_runtime.specs import Unbounded
from specgen_runtime.transforms import TransformedEnv
from specgen_std.envs.cartpole import CartPole
from specgen_std.transforms.step_counter import StepCounter
from tensordict import LazyStackedTensorDict, TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from tests.envs.counting import Counting, Grid, Scripted


def full(value: float) -> Any:
    return lambda td: td.set("action", torch.full((*td.batch_size, 1), value))


def test_layout() -> None:
    data = Counting(batch_size=(3,), limit=4).rollout(10)
    assert data.batch_size == (3, 4)
    assert data.names == [None, "time"]
    assert data["next"].names == [None, "time"]
    assert data["count"][0].flatten().tolist() == [0, 1, 2, 3]
    assert data["next", "count"][0].flatten().tolist() == [1, 2, 3, 4]
    assert data["next", "done"][..., -1, :].all()
    assert set(data.keys()) == {"action", "count", "observation", "done", "terminated", "truncated", "next"}
    assert "reward" in data["next"].keys(True)


def test_any_done_stops_or_resets() -> None:
    env = Counting(limit=3)
    assert env.rollout(10).batch_size == (3,)
    data = env.rollout(7, break_when_any_done=False)
    assert data["count"].flatten().tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert data["next", "done"].flatten().tolist() == [False, False, True, False, False, True, False]
    assert not data["done"].any()


def test_all_done_freezes_rows() -> None:
    env = Counting(batch_size=(2,), limit=4)
    start = env.reset()
    start["count"] = torch.tensor([[2], [0]])
    data = env.rollout(10, break_when_all_done=True, auto_reset=False, tensordict=start)
    assert data.batch_size == (2, 4)
    assert data["next", "count"][..., 0].tolist() == [[3, 4, 4, 4], [1, 2, 3, 4]]
    assert torch.equal(data["action"][0, 1], data["action"][0, 3])
    with pytest.raises(TypeError, match="exclude each other"):
        env.rollout(2, break_when_any_done=True, break_when_all_done=True)


@pytest.mark.parametrize("steps", [0, -1])
def test_no_steps_are_refused(steps: int) -> None:
    # TorchRL: "list_of_tensordicts cannot be empty" (E16).
    with pytest.raises(ValueError, match=f"max_steps must be at least 1, got {steps}"):
        Counting().rollout(steps)
    with pytest.raises(TypeError, match=r"max_steps must be a whole number, got 2\.5"):
        Counting().rollout(2.5)  # type: ignore[arg-type]


def test_starting_from_a_tensordict() -> None:
    env = Counting(limit=4)
    first = env.rollout(2)
    second = env.rollout(10, auto_reset=False, tensordict=step_mdp(first[..., -1]))
    assert second["count"].flatten().tolist() == [2, 3]
    done = step_mdp(second[..., -1])
    assert env.rollout(2, auto_reset=False, tensordict=done)["count"].flatten().tolist() == [0, 1]
    assert done["done"].all()
    with pytest.raises(RuntimeError, match="needs a tensordict"):
        env.rollout(2, auto_reset=False)


def test_the_callback_sees_each_transition_but_the_last() -> None:
    # In TorchRL `next` is there only with break_when_any_done=False (E18).
    for stop in (True, False):
        seen: list[int] = []
        Counting().rollout(
            4,
            callback=lambda env, td, seen=seen: seen.append(td["next", "count"].item()),
            break_when_any_done=stop,
        )
        assert seen == [1, 2, 3]


def test_contiguous_or_lazy() -> None:
    env = Counting(batch_size=(2,))
    assert type(env.rollout(3)) is TensorDict
    lazy = env.rollout(3, return_contiguous=False)
    assert isinstance(lazy, LazyStackedTensorDict)
    assert lazy.batch_size == (2, 3)
    assert lazy.names == [None, "time"]


class Growing(Counting):
    """Observes all that it has counted so far."""

    def __init__(self, batch_size: tuple[int, ...] = ()) -> None:
        super().__init__(batch_size=batch_size)
        self.observation_spec["history"] = Unbounded((*batch_size, -1))

    def seen(self, count: Any) -> Any:
        return torch.zeros(*self.batch_size, int(count.max()) + 1)

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        fresh = super()._reset(tensordict)
        return fresh.set("history", self.seen(fresh["count"]))

    def _step(self, tensordict: Any) -> TensorDict:
        following = super()._step(tensordict)
        return following.set("history", self.seen(following["count"]))


def growing(env: Any) -> Any:
    """A policy that writes one more number at each step."""
    written = []

    def act(tensordict: Any) -> Any:
        written.append(0.0)
        memory = torch.zeros(*env.batch_size, len(written))
        return env.rand_action(tensordict).set("memory", memory)

    return act


ALIKE: dict[str, Any] = {
    "hand-written": lambda: Counting(batch_size=(2,)),
    "transformed": lambda: TransformedEnv(Counting(batch_size=(2,)), StepCounter()),
    "native": lambda: CartPole(batch_size=(2,)),
    "gymnasium": lambda: GymEnv("CartPole-v1"),
    "batch": lambda: SerialEnv(2, Counting),
}


class TestSizesThatDiffer:
    """A lazy stack, or an error that names the key: never another thing than what was asked for."""

    message = r"{}' is \[.*1\] at step 0 and \[.*2\] at step 1.*Call rollout with return_contiguous=False"

    @pytest.mark.parametrize("stop", [True, False])
    @pytest.mark.parametrize("batch", [(), (2,)], ids=str)
    def test_dynamic_specs(self, batch: tuple[int, ...], stop: bool) -> None:
        env = Growing(batch)
        for contiguous in (None, False):
            data = env.rollout(3, break_when_any_done=stop, return_contiguous=contiguous)
            assert isinstance(data, LazyStackedTensorDict)
            assert [step["history"].shape[-1] for step in data.unbind(-1)] == [1, 2, 3]
        with pytest.raises(RuntimeError, match=self.message.format("'history")):
            env.rollout(3, break_when_any_done=stop, return_contiguous=True)
        assert type(env.rollout(1, return_contiguous=True)) is TensorDict
        if not batch:  # rows of different sizes have no partial resets
            check_env_specs(env)
            with pytest.raises(AssertionError, match="'history'"):
                check_env_specs(env, return_contiguous=True)

    @pytest.mark.parametrize("kind", ALIKE)
    @pytest.mark.parametrize("stop", [True, False])
    def test_what_a_policy_writes(self, kind: str, stop: bool) -> None:
        env = ALIKE[kind]()
        for contiguous in (None, False):
            data = env.rollout(3, growing(env), break_when_any_done=stop, return_contiguous=contiguous)
            assert isinstance(data, LazyStackedTensorDict)
            assert data.names[-1] == "time"
            assert [step["memory"].shape[-1] for step in data.unbind(-1)] == [1, 2, 3]
        with pytest.raises(RuntimeError, match=self.message.format("'memory")):
            env.rollout(3, growing(env), break_when_any_done=stop, return_contiguous=True)
        assert type(env.rollout(3, return_contiguous=True)) is TensorDict
        env.close()


def test_set_truncated() -> None:
    data = Counting(batch_size=(3,)).rollout(2, set_truncated=True)
    assert data["next", "truncated"][..., 0].tolist() == [[False, True]] * 3
    assert data["next", "done"][..., 0].tolist() == [[False, True]] * 3
    assert not data["truncated"].any()
    with pytest.raises(RuntimeError, match="'truncated'"):
        Scripted(flags=("done",)).rollout(2, set_truncated=True)


def test_policies_of_all_kinds() -> None:
    env = Counting()
    env.observation_spec = Unbounded((1,))
    env.state_spec = None
    env._step = lambda td: TensorDict(  # type: ignore[method-assign]
        {"observation": td["observation"] + 1, "reward": td["action"], "terminated": td["action"] > 5}
    )
    env._reset = lambda td, **kw: TensorDict({"observation": torch.zeros(1)})  # type: ignore[method-assign]
    net = nn.Linear(1, 1)
    nn.init.zeros_(net.weight)
    nn.init.constant_(net.bias, 0.25)
    wrapped = TensorDictModule(net, in_keys=["observation"], out_keys=["action"])
    for policy in (net, wrapped, full(0.25), lambda td: TensorDict({"action": torch.full((1,), 0.25)})):
        assert torch.equal(env.rollout(3, policy)["action"], torch.full((3, 1), 0.25))


def test_a_plain_module_needs_one_observation() -> None:
    with pytest.raises(TypeError, match="wrap it in a TensorDictModule"):
        Counting().rollout(2, nn.Linear(1, 1))


def test_policies_that_do_not_write_an_action_are_refused() -> None:
    # E17
    env = Counting()
    with pytest.raises(KeyError, match="no 'action'"):
        env.rollout(3, lambda td: td)
    with pytest.raises(TypeError, match="must return the tensordict with 'action'"):
        env.rollout(3, lambda td: torch.zeros(1))
    with pytest.raises(TypeError, match="callable"):
        env.rollout(3, 3)  # type: ignore[arg-type]


def test_actions_outside_their_spec_are_refused() -> None:
    # E17
    env = Counting(batch_size=(2,))
    with pytest.raises(ValueError, match=r"the policy's 'action' at step 0 is not in its spec"):
        env.rollout(3, full(9.0))
    assert env.rollout(3, full(1.0000001)).batch_size == (2, 3)


def test_policy_outputs_are_kept() -> None:
    def policy(td: TensorDict) -> TensorDict:
        td["log_prob"] = torch.zeros(3)
        td["next", "hidden"] = torch.ones(3, 2)
        return full(0.5)(td)

    env = Counting(batch_size=(3,))
    start = env.reset().set("hidden", torch.zeros(3, 2))
    data = env.rollout(4, policy, auto_reset=False, tensordict=start)
    assert data["log_prob"].shape == (3, 4)
    assert data["hidden"][0, :, 0].tolist() == [0, 1, 1, 1]


def test_nested_rollouts() -> None:
    env = Grid(batch_size=(2,), limit=2)
    data = env.rollout(5, break_when_any_done=False)
    assert data["agents", "action"].shape == (2, 5, 2)
    assert data["next", "agents", "reward"].shape == (2, 5, 2, 1)
    assert data["time"][0].flatten().tolist() == [0, 1, 0, 1, 0]
    check_env_specs(Grid(batch_size=(2,), root_done=False, limit=2))


def test_auto_cast_to_device() -> None:
    env = Counting(device="cpu")
    net = TensorDictModule(nn.Linear(1, 1), in_keys=["observation"], out_keys=["action"])
    nn.init.zeros_(net.module.weight)
    nn.init.zeros_(net.module.bias)
    data = env.rollout(3, net, auto_cast_to_device=True)
    assert data.device == torch.device("cpu")
    assert data["action"].device == torch.device("cpu")


def test_exploration_type_drives_tensordict() -> None:
    from tensordict.nn.probabilistic import interaction_type

    assert ExplorationType.DETERMINISTIC.name == "DETERMINISTIC"
    before = exploration_type()
    with set_exploration_type(ExplorationType.MODE):
        assert exploration_type() is ExplorationType.MODE
        assert interaction_type() is ExplorationType.MODE
        with set_exploration_type("random"):
            assert exploration_type() is ExplorationType.RANDOM
    assert exploration_type() is before

    @set_exploration_type(ExplorationType.MEAN)  # type: ignore[untyped-decorator]
    def inside() -> Any:
        return exploration_type()

    assert inside() is ExplorationType.MEAN
    with pytest.raises(ValueError):
        set_exploration_type("sideways")


class TestCheckEnvSpecs:
    """Each fault is found, and its key named."""

    def check(self, match: str, **entries: Any) -> None:
        with pytest.raises(AssertionError, match=match):
            check_env_specs(Scripted(**entries))

    def test_dtype(self) -> None:
        self.check("'observation'", next={"observation": torch.zeros(2, dtype=torch.float64)})

    def test_missing(self) -> None:
        self.check("'observation'", next={"observation": None})

    def test_flags_that_are_declared_and_never_given(self) -> None:
        # E7: TorchRL's check passes.
        env = Scripted(next={"terminated": None})
        with pytest.raises(AssertionError, match=r"'done', 'terminated', 'truncated'.* would never end"):
            check_env_specs(env)

    def test_extra(self) -> None:
        self.check("'info' is in the 'next' but in no spec", next={"info": torch.zeros(1)})

    def test_domain(self) -> None:
        env = Scripted(next={"observation": torch.full((2,), torch.nan)})
        with pytest.raises(AssertionError, match="'observation' in the 'next': the value is outside"):
            check_env_specs(env)

    def test_state_that_never_advances(self) -> None:
        class Forgetful(Counting):
            def _step(self, tensordict: Any) -> TensorDict:
                return super()._step(tensordict).exclude("count")

        env = Forgetful()
        env.observation_spec = Unbounded((1,))
        with pytest.raises(AssertionError, match="'count' is in the state spec but not in 'next'"):
            check_env_specs(env)

    def test_state_that_is_not_observed(self) -> None:
        env = Counting()
        env.observation_spec = Unbounded((1,))
        check_env_specs(env)
        assert env.rollout(3)["next", "count"].flatten().tolist() == [1, 2, 3]

    def test_the_generator_is_left_alone(self) -> None:
        torch.manual_seed(3)
        expected = torch.rand(2)
        torch.manual_seed(3)
        check_env_specs(Counting(), seed=0)
        assert torch.equal(torch.rand(2), expected)

    def test_seed_and_tensordict_together(self) -> None:
        # TorchRL forgets the tensordict when a seed is given (E10).
        seen: list[Any] = []

        class Watching(Counting):
            def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
                seen.append(tensordict)
                return super()._reset(tensordict)

        env = Watching()
        check_env_specs(env, seed=0, tensordict=env.reset().set("mine", torch.zeros(1)))
        assert env.seeded == 0
        assert len(seen) > 4
        assert all("mine" in given.keys() for given in seen[1:])  # noqa: SIM118

    @pytest.mark.parametrize("stop", [True, False, "both"])
    @pytest.mark.parametrize("seed", [None, 0])
    def test_every_reset_gets_the_tensordict(self, stop: Any, seed: int | None) -> None:
        class Told(Counting):
            """Episodes begin where the caller says; there is no other way to begin one."""

            def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
                fresh = super()._reset(tensordict)
                return fresh.update({"count": tensordict["start"]})

        env = Told(batch_size=(2,), limit=100)
        start = TensorDict({"start": torch.full((2, 1), 7)}, [2])
        check_env_specs(env, tensordict=start, seed=seed, break_when_any_done=stop)
        assert list(start.keys()) == ["start"]
        with pytest.raises(TypeError):
            check_env_specs(env)
