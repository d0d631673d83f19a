"""What a policy or the dynamics can do wrong, in every kind of environment: a clear error, and it works afterwards."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.envs import GymEnv
from specgen_runtime.specs import Categorical
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std import chains, envs, transforms
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule
from torch import nn

from tests.envs.counting import Counting

Policy = Callable[[Any], Any]


def transformed(env: Callable[[], Any]) -> Any:
    return TransformedEnv(env(), Compose(transforms.StepCounter(max_steps=50), transforms.RewardSum()))


ENVS: dict[str, Callable[[], Any]] = {
    "by hand": partial(Counting, batch_size=(3,), limit=50),
    "by hand, on a device": partial(Counting, batch_size=(3,), limit=50, device="cpu"),
    "generated": partial(envs.MountainCar, batch_size=(3,)),
    "generated, continuous": partial(envs.MountainCarContinuous, batch_size=(3,)),
    "generated, one": envs.Pendulum,
    "generated, on a device": partial(envs.Pendulum, batch_size=(2,), device="cpu"),
    "generated over Gymnasium": envs.PendulumGym,
    "GymEnv": partial(GymEnv, "Pendulum-v1"),
    "GymEnv, one-hot": partial(GymEnv, "MountainCar-v0"),
    "GymEnv, index": partial(GymEnv, "MountainCar-v0", categorical_action_encoding=True),
    "transformed": partial(transformed, partial(Counting, batch_size=(3,), limit=50)),
    "transformed, generated": partial(transformed, partial(envs.Pendulum, batch_size=(3,))),
    "transformed GymEnv": partial(transformed, partial(GymEnv, "Pendulum-v1")),
    "chain": partial(chains.PendulumTrain, batch_size=(3,)),
    "chain, one": chains.MountainCarTrain,
    "chain over Gymnasium": chains.PendulumGymTrain,
}

RUNS: dict[str, dict[str, Any]] = {
    "any": {},
    "on": {"break_when_any_done": False},
    "step by step": {"callback": lambda env, td: None},
}

each_env = pytest.mark.parametrize("kind", ENVS)
each_run = pytest.mark.parametrize("run", RUNS)


def at(step: int, fault: Policy, env: Any) -> Policy:
    """A policy that is right but for one step."""
    count = 0

    def act(td: TensorDictBase) -> Any:
        nonlocal count
        count += 1
        right = env.full_action_spec.rand()
        return fault(td.update(right)) if count == step + 1 else td.update(right)

    return act


def set_action(change: Callable[[torch.Tensor], torch.Tensor]) -> Policy:
    return lambda td: td.set("action", change(td["action"]))


def outside(env: Any) -> Policy:
    """An action that its spec does not have."""
    if env.action_spec.dtype.is_floating_point:
        return set_action(lambda action: action * 0 + 9.0)
    return set_action(lambda action: action * 0 + 7)


def other_dtype(action: torch.Tensor) -> torch.Tensor:
    """Numbers that the action's own dtype, of integers or float32, does not hold."""
    return action.to(torch.float64) + 0.1


def check_usable(env: Any, kind: str) -> None:
    """The environment gives what a new one gives for the same seed."""
    fresh = ENVS[kind]()
    for each in (env, fresh):
        torch.manual_seed(0)
        each.set_seed(5)
        each.found = each.rollout(6)
    assert_identical(env.found, fresh.found, "after the fault")
    env.close()


@each_run
@each_env
@pytest.mark.parametrize("step", [0, 2])
@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (set_action(other_dtype), "found torch.float64"),
        (set_action(lambda action: action.unsqueeze(-1)), r"found torch\.\w+ \[.*1\]"),
    ],
    ids=["dtype", "shape"],
)
def test_wrong_dtype_or_shape(kind: str, run: str, step: int, fault: Policy, found: str) -> None:
    env = ENVS[kind]()
    expected = f"{env.action_spec.dtype} {list(env.action_spec.shape)}"
    with pytest.raises(RuntimeError, match=rf"'action' must be {expected.replace('[', '.')[:-1]}.*{found}"):
        env.rollout(5, at(step, fault, env), **RUNS[run])
    check_usable(env, kind)


@each_run
@each_env
def test_another_device(kind: str, run: str) -> None:
    env = ENVS[kind]()
    fault = set_action(lambda action: action.to("meta"))
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        env.rollout(5, at(2, fault, env), **RUNS[run])
    check_usable(env, kind)


@each_run
@each_env
def test_no_action(kind: str, run: str) -> None:
    env = ENVS[kind]()
    for fault in (lambda td: td, lambda td: td.set("acton", env.full_action_spec.rand().get("action"))):
        with pytest.raises(KeyError, match=r"no 'action' \(action_spec\); found") as caught:
            env.rollout(5, fault, **RUNS[run])
        assert "'done'" in str(caught.value)
    check_usable(env, kind)


@each_run
@each_env
def test_outside_the_spec(kind: str, run: str) -> None:
    env = ENVS[kind]()
    with pytest.raises(ValueError, match=r"action.*found"):
        env.rollout(5, at(2, outside(env), env), **RUNS[run])
    check_usable(env, kind)


@each_run
@each_env
def test_not_a_number(kind: str, run: str) -> None:
    env = ENVS[kind]()
    if not env.action_spec.dtype.is_floating_point:
        pytest.skip("integers are numbers")
    fault = set_action(lambda action: action * torch.nan)
    with pytest.raises(ValueError, match=r"'action'.*nan"):
        env.rollout(5, at(2, fault, env), **RUNS[run])
    check_usable(env, kind)


@each_run
@each_env
@pytest.mark.parametrize("result", [None, {"action": 1}], ids=lambda r: type(r).__name__)
def test_no_tensordict(kind: str, run: str, result: Any) -> None:
    env = ENVS[kind]()
    with pytest.raises(
        TypeError, match=rf"must return the tensordict with 'action'.*{type(result).__name__}"
    ):
        env.rollout(5, at(2, lambda td: result, env), **RUNS[run])
    check_usable(env, kind)


@each_run
@each_env
def test_a_new_tensordict_is_fine(kind: str, run: str) -> None:
    def alone(td: TensorDictBase) -> TensorDict:
        return TensorDict({"action": td["action"].clone()}, batch_size=td.batch_size)

    results = []
    for fault in (alone, lambda td: td):
        env = ENVS[kind]()
        torch.manual_seed(1)
        env.set_seed(1)
        results.append(
            env.rollout(4, lambda td, env=env, fault=fault: fault(at(9, fault, env)(td)), **RUNS[run])
        )
    assert_identical(results[0], results[1], "a new tensordict instead of the one given")


@each_run
@each_env
def test_errors_of_a_policy_pass_through(kind: str, run: str) -> None:
    class Own(Exception):
        pass

    def raising(td: TensorDictBase) -> TensorDictBase:
        raise Own("no idea")

    env = ENVS[kind]()
    with pytest.raises(Own, match="no idea"):
        env.rollout(5, at(2, raising, env), **RUNS[run])
    check_usable(env, kind)


@each_env
@pytest.mark.parametrize("method", ["step", "step_and_maybe_reset"])
def test_single_steps(kind: str, method: str) -> None:
    env = ENVS[kind]()
    step = getattr(env, method)
    root = env.reset()
    with pytest.raises(KeyError, match="no 'action'"):
        step(root.clone())
    wrong = env.rand_action(root.clone())
    wrong["action"] = other_dtype(wrong["action"])
    with pytest.raises(RuntimeError, match="'action' must be"):
        step(wrong)
    with pytest.raises(TypeError, match="needs a tensordict, found NoneType"):
        step(None)
    check_usable(env, kind)


def test_outside_a_spec_with_a_mask() -> None:
    # The mask may have changed since, but not how many classes there are.
    env = Chooses(batch_size=(3,), limit=50)
    with pytest.raises(ValueError, match=r"'action' at step 0 is not in its spec.* in \[9, 9\]"):
        env.rollout(2, lambda td: td.set("action", torch.full((3, 1), 9)))
    assert env.rollout(2, lambda td: td.set("action", torch.full((3, 1), 2)))["action"].unique().tolist() == [
        2
    ]


class Chooses(Counting):
    """Takes one of four classes, the third of which is not allowed now."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        mask = [True, True, False, True]
        self.action_spec: Any = Categorical(4, shape=(*self.batch_size, 1), mask=mask)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        following = super()._step(tensordict)
        return following.set("reward", following["reward"].float())


class Linear(nn.Linear):
    """A layer that reads the first observation."""

    def forward(self, *observations: Any) -> Any:
        return super().forward(observations[0].float())


@pytest.mark.parametrize("tensordicts", [False, True])
@each_run
@pytest.mark.parametrize(
    "kind", ["by hand", "generated", "GymEnv", "transformed, generated", "chain over Gymnasium"]
)
def test_a_network_of_another_size_is_told_what_it_was_called_with(
    kind: str, run: str, tensordicts: bool
) -> None:
    env = ENVS[kind]()
    key = next(iter(env.observation_spec.keys()))
    policy: Any = Linear(env.reset()[key].shape[-1] + 5, 1)
    if tensordicts:
        policy = TensorDictModule(policy, [key], ["action"])
    with pytest.raises(RuntimeError, match="cannot be multiplied") as raised:
        env.rollout(3, policy, **RUNS[run])
    (noted,) = [note for note in raised.value.__notes__ if note.startswith("in the policy")]
    dtype = str(env.observation_spec[key].dtype).removeprefix("torch.")
    assert noted.startswith(f"in the policy, which was called with '{key}', {dtype} [")
