"""How batches are made, started, seeded, looked into, saved, moved and closed."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.envs import GymEnv, ParallelEnv, SerialEnv
from specgen_runtime.specs import Binary, Categorical

from tests.envs.batched.conftest import Make
from tests.envs.batched.faulty import Faulty
from tests.envs.counting import Counting


class Choosing(Counting):
    """Allows one of three actions, and says which."""

    def __init__(self) -> None:
        super().__init__()
        self.action_spec = Categorical(3)
        self.full_observation_spec = self.full_observation_spec.set("allowed", Binary(3, dtype=torch.bool))
        self._action_masks = (("action", "allowed"),)

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        return super()._reset(tensordict, **kwargs).set("allowed", torch.tensor([False, True, False]))

    def _step(self, tensordict: Any) -> Any:
        result = super()._step(tensordict).set("allowed", torch.tensor([False, True, False]))
        return result.set("reward", torch.zeros(1))


def test_random_actions_are_allowed_ones(batch: Make) -> None:
    env = batch(2, Choosing)
    assert env.rollout(4)["action"].unique().tolist() == [1]
    root = env.reset()
    del root["allowed"]
    with pytest.raises(KeyError, match="allowed"):
        env.rand_action(root)
    assert "action" not in root


class TestArguments:
    @pytest.mark.parametrize(
        ("count", "error"),
        [(0, ValueError), (-1, ValueError), (True, TypeError), (2.0, TypeError), ("2", TypeError)],
    )
    def test_counts(self, batch: Make, count: Any, error: type[Exception]) -> None:
        with pytest.raises(error, match="num_workers"):
            batch(count, Counting)

    def test_functions(self, batch: Make) -> None:
        with pytest.raises(RuntimeError, match="2 functions for 4"):
            batch(4, [Counting, Counting])
        with pytest.raises(TypeError, match="found a Counting: each place needs an environment of its own"):
            batch(2, Counting())
        with pytest.raises(TypeError, match=r"create_env_fn\[1\] .* found a Counting"):
            batch(2, [Counting, Counting()])
        with pytest.raises(TypeError, match="found str"):
            batch(2, "CartPole-v1")
        with pytest.raises(TypeError, match="must return an EnvBase, found int"):
            batch(2, int)

    def test_kwargs(self, batch: Make) -> None:
        with pytest.raises(RuntimeError, match="1 dicts for 2"):
            batch(2, Counting, create_env_kwargs=[{}])
        with pytest.raises(TypeError, match="found int"):
            batch(2, Counting, create_env_kwargs=3)
        with pytest.raises(TypeError, match=r"create_env_kwargs\[1\] must be a dict"):
            batch(2, Counting, create_env_kwargs=[{}, 1])
        env = batch(2, Counting)
        with pytest.raises(RuntimeError, match="kwargs has 1 dicts for 2"):
            env.update_kwargs([{}])

    @pytest.mark.parametrize(
        "kwargs", [{"pin_memory": True}, {"allow_step_when_done": True}, {"policy_proof": print}]
    )
    def test_not_supported(self, batch: Make, kwargs: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=next(iter(kwargs))):
            batch(2, Counting, **kwargs)

    def test_of_processes(self) -> None:
        with pytest.raises(TypeError, match="mp_start_method"):
            SerialEnv(2, Counting, mp_start_method="spawn")
        with pytest.raises(ValueError, match="mp_start_method must be one of"):
            ParallelEnv(2, Counting, mp_start_method="teleport")
        with pytest.raises(RuntimeError, match="shared_memory and memmap"):
            ParallelEnv(2, Counting, memmap=True)

    def test_serial_for_single(self) -> None:
        env = ParallelEnv(1, Counting, serial_for_single=True, mp_start_method="spawn")
        assert isinstance(env, SerialEnv)
        assert env.batch_size == (1,)
        assert isinstance(ParallelEnv(2, Counting, serial_for_single=True), ParallelEnv)
        assert isinstance(ParallelEnv(num_workers=1, create_env_fn=Counting), ParallelEnv)


class TestLife:
    def test_starts_when_it_is_used(self, batch: Make) -> None:
        env = batch(2, Faulty)
        assert env.is_closed
        assert env.batch_size == (2,)
        assert env.observation_spec["observation"].shape == (2, 1)
        assert env.is_closed
        env.reset()
        assert not env.is_closed
        with pytest.raises(RuntimeError, match="started already"):
            env.start()

    def test_closing(self, batch: Make) -> None:
        env = batch(2, Faulty)
        with pytest.raises(RuntimeError, match="closed already, or was never used"):
            env.close()
        env.start()
        env.close()
        assert env.is_closed
        with pytest.raises(RuntimeError, match="closed already"):
            env.close()
        env.close(raise_if_closed=False)

    def test_use_after_close_opens_it_again(self, batch: Make) -> None:
        env = batch(2, Faulty)
        env.reset()
        env.reset()
        env.close()
        env.reset()
        assert env.resets == [1, 1]
        env.close()
        env.set_seed(3)
        assert env.seeded == [3, 4]
        env.close()

    def test_the_same_environment_again_is_copied(self, serial: Make) -> None:
        one = Counting()
        env = serial(2, lambda: one)
        env.reset()
        assert env.envs[0] is one
        assert env.envs[1] is not one

    def test_copies_and_pickles_have_environments_of_their_own(self, batch: Make) -> None:
        env = batch(2, Faulty)
        env.reset()
        for other in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
            assert other.is_closed
            other.reset()
            assert other.resets == [1, 1]
            other.close()
        assert env.resets == [1, 1]

    def test_repr(self, batch: Make) -> None:
        env = batch(2, [Counting, Faulty])
        assert repr(env).endswith("Env(Counting, Faulty, batch_size=[2], device=None)")


class TestSeeds:
    def test_seeds_follow_each_other(self, batch: Make) -> None:
        env = batch(3, Faulty)
        assert env.set_seed(10) == 13
        assert env.seeded == [10, 11, 12]
        assert env.set_seed(10, static_seed=True) == 10
        assert env.seeded == [10, 10, 10]
        assert env.set_seed(None) is None
        assert env.seeded == [None, None, None]
        with pytest.raises(TypeError, match="a seed must be an int, found float"):
            env.set_seed(1.5)

    def test_first_observations(self, batch: Make) -> None:
        env = batch(2, _cartpole)
        env.set_seed(4, static_seed=True)
        first = env.reset()["observation"]
        assert torch.equal(first[0], first[1])
        env.set_seed(4)
        second = env.reset()["observation"]
        assert torch.equal(second[0], first[0])
        assert not torch.equal(second[1], first[0])


def _cartpole() -> GymEnv[Any]:
    return GymEnv("CartPole-v1")


class TestAttributes:
    def test_values_and_methods(self, batch: Make) -> None:
        env = batch(2, Faulty)
        assert env.count == [0, 0]  # starts it
        env.step(env.rand_action(env.reset()))
        assert env.count == [1, 1]
        assert env.plus(3, times=2) == [7, 7]
        assert env.count.real == [1, 1]
        assert len(set(env.pid())) == (2 if isinstance(env, ParallelEnv) else 1)

    def test_e20_missing_ones(self, batch: Make) -> None:
        env = batch(2, Faulty)
        with pytest.raises(AttributeError, match="nor its environments have an attribute 'rolout'"):
            env.rolout  # noqa: B018
        assert not hasattr(env, "nothing")
        env.close()
        assert not hasattr(env, "_private")
        assert env.is_closed
        with pytest.raises(ZeroDivisionError, match="a property"):
            env.broken  # noqa: B018

    def test_values_that_stay_in_their_process(self, parallel: Make) -> None:
        env = parallel(2, _with_generator)
        assert env.box.number == [5, 5]
        assert "can't be sent" in repr(env.box)

    def test_values_are_pickled_once(self, parallel: Make) -> None:
        env = parallel(1, _with_count)
        env.start()
        assert [box.pickled for box in env.box] == [1]


def _with_generator() -> Faulty:
    env: Any = Faulty()
    env.box = _Box()
    return env


def _with_count() -> Faulty:
    env: Any = Faulty()
    env.box = _Counted()
    return env


class _Counted:
    """Knows how often it was pickled."""

    pickled = 0

    def __getstate__(self) -> dict[str, Any]:
        self.pickled += 1
        return {"pickled": self.pickled}


class _Box:
    number = 5

    def __reduce__(self) -> Any:
        raise TypeError("stays here")


class Weighted(Counting):
    def __init__(self, value: float = 1.0) -> None:
        super().__init__()
        self.register_buffer("weight", torch.tensor([value]))


class TestState:
    def test_state_dicts(self, batch: Make) -> None:
        env = batch(2, Weighted, create_env_kwargs=[{"value": 1.0}, {"value": 2.0}])
        state = env.state_dict()
        assert [state[f"worker{i}"]["weight"].item() for i in range(2)] == [1, 2]
        other = batch(2, Weighted)
        other.load_state_dict(state)
        assert [weight.item() for weight in other.weight] == [1, 2]
        other.load_state_dict(Weighted(5.0).state_dict())
        assert [weight.item() for weight in other.weight] == [5, 5]
        with pytest.raises(KeyError, match="worker2"):
            batch(3, Weighted).load_state_dict(state)

    def test_devices(self, batch: Make) -> None:
        env = batch(2, Counting, device="cpu")
        assert env.device == torch.device("cpu")
        data = env.rollout(3)
        assert data.device == torch.device("cpu")
        moved = batch(2, partial(Counting, device="cpu"))
        assert moved.rollout(2).device == torch.device("cpu")
        with pytest.raises(ValueError, match=r"different devices \(None, cpu\)"):
            batch(2, [Counting, partial(Counting, device="cpu")])
        both = batch(2, [Counting, partial(Counting, device="cpu")], device="cpu")
        assert both.rollout(2).device == torch.device("cpu")

    def test_to(self, batch: Make) -> None:
        env = batch(2, Counting)
        env.reset()
        assert env.to("cpu") is env
        assert env.action_spec.device == torch.device("cpu")
        assert env.rollout(2).device == torch.device("cpu")

    def test_wrong_arguments(self, batch: Make) -> None:
        env = batch(2, Counting)
        root = env.rand_action(env.reset())
        with pytest.raises(RuntimeError, match=r"batch size \[1\], the environment \[2\]"):
            env.step(root[:1])
        with pytest.raises(TypeError, match="needs a tensordict, found dict"):
            env.step({})
        with pytest.raises(RuntimeError, match="'action' must be"):
            env.step(root.clone().set("action", torch.zeros(2, 1, dtype=torch.float64)))
        with pytest.raises(RuntimeError, match=r"'count' must be torch.int64|found torch.float32"):
            env.step(root.clone().set("count", torch.zeros(2, 1)))
        with pytest.raises(KeyError, match="'action'"):
            env.step(env.reset())
        assert env.step(root)["next", "count"].tolist() == [[1], [1]]


def test_gradients_flow_through_serial_environments(serial: Make) -> None:
    env = serial(2, Counting)
    action = torch.zeros(2, 1, requires_grad=True)
    env.step(env.reset().set("action", action))["next", "reward"].sum().backward()
    assert action.grad is not None
    assert action.grad.flatten().tolist() == [2, 2]
