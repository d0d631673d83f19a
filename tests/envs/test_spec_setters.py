"""Setting the specs of an environment: on its device, in place, and what its values must be like then."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, check_env_specs
from specgen_runtime.specs import Binary, Bounded, Categorical, Composite, NonTensor, Unbounded
from tensordict import NonTensorStack, TensorDict, lazy_stack

from tests.envs.counting import Counting, Scripted
from tests.envs.spec_kinds import KINDS, made


def test_the_device_of_the_environment_is_taken_over() -> None:
    env = Counting(device="meta")
    for given in (
        Unbounded((2,)),
        Composite(action=Unbounded((2,))),
        Composite(a=Composite(b=Unbounded((2,)))),
    ):
        env.action_spec = given
        assert env.full_action_spec.device == env.action_spec.device == torch.device("meta")


class Extended(Counting):
    """Adds to the specs of another environment where they are."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        size = self.batch_size
        self.observation_spec["text"] = NonTensor(size, example_data="one")
        self.full_action_spec.set("extra", Categorical(3, size))
        self.full_done_spec["agents", "done"] = Binary(shape=(*size, 1), dtype=torch.bool)

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        return super()._reset(tensordict, **kwargs).set("text", "new")

    def _step(self, tensordict: Any) -> TensorDict:
        return super()._step(tensordict).set("text", "old")


class TestInPlace:
    @pytest.mark.parametrize("size", [(), (2,)])
    def test_until_the_first_use(self, size: tuple[int, ...]) -> None:
        env = Extended(batch_size=size)
        assert ("agents", "terminated") in env.fake_tensordict().keys(True, True)
        check_env_specs(env)
        assert env.observation_keys == ["count", "observation", "text"]
        assert env.action_keys == ["action", "extra"]
        assert env.rollout(2)[..., 0]["next", "text"] in ("old", ["old"] * 2)
        for spec in (env.observation_spec, env.full_action_spec, env.full_done_spec):
            assert spec.is_locked

    def test_what_was_added_is_checked(self) -> None:
        env = Counting()
        env.full_reward_spec["count"] = Unbounded((1,))
        with pytest.raises(RuntimeError, match="'count' is in observation_spec and in reward_spec"):
            env.reset()
        env = Counting()
        env.full_done_spec["ended"] = Binary(shape=(1,), dtype=torch.int8)
        with pytest.raises(ValueError, match=r"'ended' must be torch\.bool"):
            _ = env.done_keys
        env = Counting()
        env.full_reward_spec["more"] = Unbounded(())
        with pytest.raises(RuntimeError, match="needs a dimension after the batch size"):
            env.fake_tensordict()

    def test_not_while_it_is_in_use(self) -> None:
        env = Counting()
        env.reset()
        for moved in (env, env.to("cpu")):
            with pytest.raises(RuntimeError, match="locked"):
                moved.observation_spec["x"] = Unbounded((1,))


def test_specs_before_the_constructor_of_the_base() -> None:
    class Early(Scripted):
        def __init__(self) -> None:
            self.observation_spec = Unbounded((2,))
            self.action_spec = Composite(action=Unbounded((1,)))
            EnvBase.__init__(self, device="cpu")
            self.given_reset, self.given_next = {"observation": torch.zeros(2)}, {}

    env = Early()
    assert env.observation_spec["observation"].device == torch.device("cpu")
    assert env.rollout(2).batch_size == (2,)
    check_env_specs(env)


def test_done_flags_need_a_spec() -> None:
    with pytest.raises(ValueError, match=r"'done' must be torch.bool, found None"):
        Scripted().full_done_spec = Composite(done=None)


class TestKindsOfValues:
    """Tensors and data that are not tensors are not taken for each other."""

    def scripted(self, spec: Any, value: Any, size: tuple[int, ...] = ()) -> Scripted:
        env = Scripted(batch_size=size, reset={"observation": value})
        env.observation_spec = spec
        return env

    def test_data_for_a_tensor(self) -> None:
        env = self.scripted(Unbounded((2,)), "text")
        with pytest.raises(
            RuntimeError, match=r"'observation' must be torch.float32 \[2\].*, found NonTensor"
        ):
            env.reset()

    def test_a_tensor_for_data(self) -> None:
        env = self.scripted(NonTensor(()), torch.zeros(2))
        with pytest.raises(
            RuntimeError, match=r"'observation' must be no tensor .*, found torch.float32 \[2\]"
        ):
            env.reset()

    def test_data_outside_their_spec(self) -> None:
        torch.manual_seed(0)
        env = made("choice of data")
        with pytest.raises(
            ValueError, match=r"(?s)the policy's 'action' at step 0 is not in its spec.*found 'up'"
        ):
            env.rollout(2, lambda td: td.set("action", "up"))
        env = self.scripted(KINDS["choice"][0]["word"], "up")
        with pytest.raises(
            AssertionError, match=r"(?s)'observation' in the .*: the value is outside its spec.*found 'up'"
        ):
            check_env_specs(env)


class TestStacks:
    """Messages tell which item of a stack they are about."""

    def test_an_entry_is_missing(self) -> None:
        env, td = made("agents"), made("agents").rand_action()
        del td["agents"][1]["action"]
        td.update(env.reset())
        with pytest.raises(KeyError, match=r"no \('agents', 'action'\) of item 1 \(action_spec\)"):
            env.step(td)

    def test_an_entry_has_the_wrong_shape(self) -> None:
        env, td = made("agents", batch_size=(4,)), made("agents", batch_size=(4,)).rand_action()
        td["agents"][:, 2]["action"] = torch.zeros(4, 2)
        td.update(env.reset())
        with pytest.raises(
            RuntimeError, match=r"of item 2 must be torch.float32 \[4, 3\] .*, found .* \[4, 2\]"
        ):
            env.step(td)

    def test_an_action_is_outside(self) -> None:
        env = made("agents")

        def policy(td: Any) -> Any:
            td = env.rand_action(td)
            td["agents"][1]["action"].fill_(9.0)
            return td

        with pytest.raises(ValueError, match=r"the policy's \('agents', 'action'\) of item 1 at step 0"):
            env.rollout(2, policy)

    def test_an_entry_is_in_no_spec(self) -> None:
        class More(type(made("agents"))):  # type: ignore[misc]  # a class that is only known here
            def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
                fresh: TensorDict = super()._reset(tensordict, **kwargs)
                fresh["agents"][2]["odd"] = torch.zeros(1)
                return fresh

        with pytest.raises(
            AssertionError, match=r"\('agents', 'odd'\) is in the result of reset but in no spec"
        ):
            check_env_specs(More(*KINDS["agents"]))


def test_environments_of_a_batch_may_differ() -> None:
    stack: Any = torch.stack
    parts = [
        Composite(x=Bounded(0, size, (size,)), only=None if size == 1 else Unbounded((1,))) for size in (1, 2)
    ]

    class Differing(EnvBase):
        def __init__(self) -> None:
            super().__init__(batch_size=(2,))
            self.observation_spec = stack(parts)
            self.action_spec = Bounded(0, 1, (2, 1))
            self.full_state_spec = Composite(count=Unbounded((2, 1)), shape=(2,))
            self.observation_spec["count"] = Unbounded((2, 1))

        def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
            return self.observation_spec.rand().set("count", torch.zeros(2, 1))

        def _step(self, tensordict: Any) -> Any:
            count = tensordict["count"] + 1
            drawn = self.observation_spec.rand().set("count", count)
            return drawn.set("reward", count).set("terminated", count >= torch.tensor([[2.0], [3.0]]))

        def _set_seed(self, seed: int | None) -> None:
            pass

    env = Differing()
    check_env_specs(env)
    data = env.rollout(7, break_when_any_done=False)
    assert data["count"][..., 0].tolist() == [[0, 1, 0, 1, 0, 1, 0], [0, 1, 2, 0, 1, 2, 0]]
    for before, after in zip(data.unbind(-1)[:-1], data.unbind(-1)[1:], strict=True):
        for row in range(2):
            if not before["next", "done"][row]:
                assert torch.equal(before["next"][row]["x"], after[row]["x"])


def test_partial_resets_of_texts() -> None:
    env = Scripted(batch_size=(2,), reset={"observation": NonTensorStack("new", "new")})
    env.observation_spec = NonTensor((2,), batched=True)
    old = TensorDict(observation=NonTensorStack("a", "b"), batch_size=2)
    for flag in ("done", "terminated", "truncated"):
        old[flag] = torch.zeros(2, 1, dtype=torch.bool)
    old["_reset"] = torch.tensor([[True], [False]])
    kept = old.copy().set("observation", torch.zeros(2))
    assert env.reset(old)["observation"] == ["new", "b"]
    with pytest.raises(RuntimeError, match=r"'observation' is torch.float32 \[2\] in .* and no tensor after"):
        env.reset(kept)


def test_partial_resets_of_stacks_in_either_form() -> None:
    env = made("agents that differ in bounds", batch_size=(2,))
    for lazily in (True, False):
        start = env.reset()
        agents = start["agents"].clone()
        start["agents"] = (
            torch.stack(list(agents.unbind(1)), 1) if not lazily else lazy_stack(list(agents.unbind(1)), 1)
        )
        start["_reset"] = torch.tensor([[True], [False]])
        after = env.reset(start.copy())
        assert torch.equal(after["agents"][1]["position"], agents[1]["position"])
        assert not torch.equal(after["agents"][0]["position"], agents[0]["position"])
