"""Environments that write into what they have returned: the data of earlier steps stay, or the key is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.envs import EnvBase, SerialEnv, check_env_specs
from specgen_runtime.specs import Bounded, Composite, Unbounded
from specgen_runtime.testing import check_aliasing
from specgen_runtime.transforms import TransformedEnv
from specgen_std.transforms.reward_sum import RewardSum
from specgen_std.transforms.step_counter import StepCounter
from tensordict import TensorDict

from tests.python_envs.support import envs as python_envs

LIMIT = 3
ENTRIES = ("position", ("deep", "speed"), "reward", "terminated", "clock")


class Counter(EnvBase):
    """Every entry counts its steps; one of them stands in memory that the environment uses again.

    Args:
        entry: which one.
        keep: gives the values the place where they are returned.
        batch_size: of the environment.
    """

    def __init__(
        self,
        entry: Any = None,
        keep: Callable[[Any, torch.Tensor], torch.Tensor] = lambda memory, value: value,
        batch_size: tuple[int, ...] = (),
    ) -> None:
        super().__init__(batch_size=batch_size)
        number = Unbounded((*batch_size, 1))
        self.observation_spec = Composite(
            {"position": number, ("deep", "speed"): number, "clock": number}, shape=batch_size
        )
        self.state_spec = Composite(clock=number, shape=batch_size)
        self.action_spec = Bounded(-1.0, 1.0, (*batch_size, 1))
        self.entry, self.keep = entry, keep
        self.memory: dict[str, Any] = {}

    def given(self, count: torch.Tensor, *names: str) -> dict[Any, torch.Tensor]:
        entries: dict[Any, torch.Tensor] = {"position": count, ("deep", "speed"): count, "clock": count}
        if names:
            entries |= {"reward": count, "terminated": count >= LIMIT}
        found = {}
        for key, value in entries.items():
            fresh = value.clone()
            found[key] = self.keep(self.memory, fresh) if key == self.entry else fresh
        return found

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        return TensorDict(self.given(torch.zeros(*self.batch_size, 1)), self.batch_size)

    def _step(self, tensordict: Any) -> TensorDict:
        return TensorDict(self.given(tensordict["clock"] + 1, "reward"), self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        pass


def one_tensor(memory: Any, value: torch.Tensor) -> torch.Tensor:
    return memory.setdefault("buffer", torch.zeros_like(value)).copy_(value)


def one_array(memory: Any, value: torch.Tensor) -> torch.Tensor:
    array = memory.setdefault("buffer", np.zeros(value.shape, value.numpy().dtype))
    array[:] = value.numpy()
    return torch.from_numpy(array)


def two_tensors(memory: Any, value: torch.Tensor) -> torch.Tensor:
    memory["turn"] = not memory.get("turn", False)
    return one_tensor(memory.setdefault(memory["turn"], {}), value)


def a_constant(memory: Any, value: torch.Tensor) -> torch.Tensor:
    return memory.setdefault(value.sum().item(), value)


def rolled(env: EnvBase[Any], **kwargs: Any) -> Any:
    torch.manual_seed(0)
    return env.rollout(2 * LIMIT, break_when_any_done=False, **kwargs)


def assert_equal(found: Any, expected: Any) -> None:
    for key, value in expected.items(True, True):
        assert torch.equal(found.get(key), value), key


each_entry = pytest.mark.parametrize("entry", ENTRIES, ids=str)
each_batch = pytest.mark.parametrize("batch", [(), (2,)], ids=str)


@each_entry
@each_batch
@pytest.mark.parametrize("contiguous", [None, False])
def test_arrays_are_copied(entry: Any, batch: tuple[int, ...], contiguous: bool | None) -> None:
    env = Counter(entry, one_array, batch)
    assert_equal(rolled(env, return_contiguous=contiguous), rolled(Counter(batch_size=batch)))
    check_env_specs(env)
    root = env.reset()
    before = root.clone()
    following = env.step(env.rand_action(root))["next"].clone()
    env.rand_step(env.step_mdp(root))
    assert_equal(root, before)
    assert_equal(root["next"], following)


@each_entry
@each_batch
@pytest.mark.parametrize("wrap", [False, True], ids=["plain", "transformed"])
def test_tensors_that_change_are_refused(entry: Any, batch: tuple[int, ...], wrap: bool) -> None:
    env: Any = Counter(entry, one_tensor, batch)
    if wrap:
        env = TransformedEnv(env, StepCounter())
    name = repr(entry).replace("(", r"\(").replace(")", r"\)")
    message = rf"(Counter|TransformedEnv)\._(step|reset) changed {name} in place.*return new tensors"
    for stop in (True, False):
        with pytest.raises(RuntimeError, match=message):
            env.rollout(2 * LIMIT, break_when_any_done=stop)
    with pytest.raises(AssertionError, match=name):
        check_env_specs(env)


@each_entry
def test_resets_that_change_what_steps_returned(entry: Any) -> None:
    class Restarted(Counter):
        """Steps give new tensors, and a reset writes into the last one."""

        def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
            if "last" in self.memory:
                self.memory["last"].zero_()
            return super()._reset(tensordict)

    def remembered(memory: Any, value: torch.Tensor) -> torch.Tensor:
        memory["last"] = value
        return value

    env = Restarted(entry, remembered)
    assert env.rollout(LIMIT + 1).shape == (LIMIT,)
    with pytest.raises(RuntimeError, match=r"Restarted\._reset changed .* in place"):
        rolled(env)
    with pytest.raises(AssertionError, match="changed"):
        check_env_specs(env)


@each_entry
def test_memory_that_is_used_again_later_is_found_by_the_check(entry: Any) -> None:
    with pytest.raises(AssertionError, match="changed in later steps or resets"):
        check_env_specs(Counter(entry, two_tensors))


@each_entry
@each_batch
def test_constants_may_be_returned_again(entry: Any, batch: tuple[int, ...]) -> None:
    env = Counter(entry, a_constant, batch)
    assert_equal(rolled(env), rolled(Counter(batch_size=batch)))
    check_env_specs(env)


def test_what_is_observed_may_be_handed_on() -> None:
    class Goal(Counter):
        def _step(self, tensordict: Any) -> TensorDict:
            return super()._step(tensordict).set("position", tensordict["position"])

    assert rolled(Goal())["next", "position"].unique().tolist() == [0.0]
    check_env_specs(Goal())


@each_entry
def test_a_batch_copies_what_its_environments_give(entry: Any) -> None:
    for keep in (one_array, two_tensors):
        batch, right = SerialEnv(2, lambda keep=keep: Counter(entry, keep)), SerialEnv(2, Counter)
        assert_equal(rolled(batch), rolled(right))
        check_env_specs(batch)
        batch.close()
        right.close()


def test_transforms_that_make_new_tensors_hide_it() -> None:
    """Only the sum of rewards is kept, which is new at each step."""
    env = TransformedEnv(Counter(), RewardSum())
    assert rolled(env)["next", "episode_reward"].flatten().tolist() == [1.0, 3.0, 6.0] * 2


def test_the_check_of_aliasing_finds_it_too() -> None:
    with pytest.raises((AssertionError, RuntimeError), match="position"):
        check_aliasing(lambda: Counter("position", one_tensor))


def test_arrays_of_a_vectorised_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with python_envs(tmp_path) as (generated, user):
        right, buffer = user.Walk.step, np.zeros((4, 2), np.float32)

        def thrifty(self: Any, *args: Any) -> Any:
            result = right(self, *args)
            buffer[:] = result.observation.numpy()
            return result._replace(observation=torch.from_numpy(buffer))

        def walked() -> Any:
            env = generated.Walk(batch_size=(4,))
            env.set_seed(0)
            torch.manual_seed(0)
            return env.rollout(5, break_when_any_done=False)

        expected = walked()
        monkeypatch.setattr(user.Walk, "step", thrifty)
        assert_equal(walked(), expected)
