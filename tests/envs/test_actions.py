"""Actions that users give: other dtypes for the same numbers, and values outside the spec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, GymEnv, ParallelEnv, SerialEnv
from specgen_runtime.specs import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
)
from specgen_runtime.transforms import TransformedEnv
from specgen_std import chains
from specgen_std.envs.cartpole import CartPole
from specgen_std.envs.pendulum import Pendulum
from specgen_std.transforms.step_counter import StepCounter
from tensordict import TensorDict
from torch import Tensor

from tests.envs.counting import Counting, Grid


class Acting(Counting):
    """Takes actions of any spec, and remembers the last."""

    def __init__(self, spec: Any, nested: bool = False) -> None:
        super().__init__()
        self.action_spec = Composite({("agent", "action"): spec}) if nested else spec
        self.last: Any = None

    def _step(self, tensordict: Any) -> TensorDict:
        self.last = tensordict[self.action_key]
        return super()._step(TensorDict({"count": tensordict["count"], "action": torch.zeros(1)}))


SPECS: dict[str, Any] = {
    "one-hot": OneHot(3),
    "one-hot int8": OneHot(3, dtype=torch.int8),
    "multi one-hot": MultiOneHot([2, 2]),
    "categorical": Categorical(2),
    "categorical int8": Categorical(2, dtype=torch.int8),
    "multi categorical": MultiCategorical([2, 2]),
    "binary": Binary(3),
    "bounded": Bounded(0, 1, (2,)),
    "bounded int": Bounded(0, 1, (2,), dtype=torch.int32),
}
WHOLE = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def whole_numbers(spec: Any) -> Tensor:
    """A member of a spec, as int64."""
    torch.manual_seed(0)
    found: Tensor = spec.rand().float().round().long()
    return found


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
@pytest.mark.parametrize("name", SPECS)
def test_the_same_numbers_in_another_dtype(name: str, nested: bool, dtype: torch.dtype) -> None:
    spec = SPECS[name]
    env = Acting(spec, nested)
    action = whole_numbers(spec)
    for acted in (
        env.step(env.reset().set(env.action_key, action.to(dtype))),
        env.rollout(2, lambda td: td.set(env.action_key, action.to(dtype)))[0],
    ):
        assert acted[env.action_key].dtype is spec.dtype
        assert torch.equal(acted[env.action_key].long(), action)
        assert env.last.dtype is spec.dtype


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
@pytest.mark.parametrize("name", SPECS)
def test_whole_floating_point_numbers(name: str, nested: bool, dtype: torch.dtype) -> None:
    spec = SPECS[name]
    env = Acting(spec, nested)
    action = whole_numbers(spec)
    root = env.reset().set(env.action_key, action.to(dtype))
    if spec.dtype.is_floating_point and spec.dtype is not dtype:
        with pytest.raises(TypeError, match="must be"):  # 0.1 could not be cast exactly, and 0.5 could
            env.step(root)
        return
    env.step(root)
    assert root[env.action_key].dtype is env.last.dtype is spec.dtype
    assert torch.equal(env.last.long(), action)


@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
@pytest.mark.parametrize("env", [SerialEnv, ParallelEnv])
def test_batches_take_whole_floating_point_numbers(env: Any, batch: tuple[int, ...]) -> None:
    made = env(2, lambda: CartPole(batch_size=batch))
    rolled = made.rollout(3, lambda td: td.set("action", torch.ones(td.shape)), break_when_any_done=False)
    assert rolled["action"].dtype is made.action_spec.dtype
    assert (rolled["action"] == 1).all()
    made.close()


@pytest.mark.parametrize(
    ("spec", "action"),
    [
        (OneHot(3), torch.tensor([0, 2, 0])),
        (OneHot(3), torch.tensor([0.0, 2.0, 0.0])),
        (OneHot(3), torch.tensor([0.0, 1.0, 0.0], requires_grad=True)),
        (Categorical(2), torch.tensor(0.5)),
        (Categorical(2), torch.tensor(torch.nan)),
        (Categorical(2, dtype=torch.int8), torch.tensor(257.0)),
        (Categorical(2, dtype=torch.uint8), torch.tensor(-1.0)),
        (Categorical(2, dtype=torch.int8), torch.tensor(257)),
        (Categorical(2, dtype=torch.bool), torch.tensor(2)),
        (Bounded(0, 1, (2,)), torch.zeros(2, dtype=torch.float64)),
        (Bounded(0, 1, (2,)), torch.zeros(2, dtype=torch.complex64)),
        (Bounded(-1, 1, (2,), dtype=torch.int8), torch.tensor([255, 255], dtype=torch.uint8)),
    ],
    ids=str,
)
def test_what_could_mean_something_else_is_refused(spec: Any, action: Tensor) -> None:
    for nested in (False, True):
        env = Acting(spec, nested)
        td = env.reset().set(env.action_key, action)
        with pytest.raises(TypeError, match=r"step: .*'action'.* must be torch\..*found torch\."):
            env.step(td)
        assert td[env.action_key] is action


ENVS: dict[str, Callable[[], EnvBase]] = {
    "native": CartPole,
    "native batch": lambda: CartPole(batch_size=(2,)),
    "fused": lambda: chains.CartPoleTrain(batch_size=(2,)),
    "transformed": lambda: TransformedEnv(CartPole(batch_size=(2,)), StepCounter()),
    "gymnasium": lambda: GymEnv("CartPole-v1", categorical_action_encoding=True),
    "gymnasium, one-hot": lambda: GymEnv("CartPole-v1"),
    "serial": lambda: SerialEnv(2, CartPole),
    "serial gymnasium": lambda: SerialEnv(2, lambda: GymEnv("CartPole-v1")),
    "parallel": lambda: ParallelEnv(2, CartPole),
    "agents": lambda: Grid(batch_size=(2,)),
}


@pytest.mark.parametrize("name", ENVS)
def test_every_environment_takes_them(name: str) -> None:
    env = ENVS[name]()
    key = env.action_key
    expected = env.rand_action(env.reset())[key]
    given = expected.to(torch.int16)

    def act(tensordict: Any) -> Any:
        return tensordict.set(key, given)

    assert torch.equal(env.step(env.reset().set(key, given))[key], expected)
    step, root = env.step_and_maybe_reset(env.reset().set(key, given))
    assert step[key].dtype is expected.dtype
    assert root.batch_size == env.batch_size
    for stop in (True, False):
        assert env.rollout(3, act, break_when_any_done=stop)[key].dtype is expected.dtype
    with pytest.raises(TypeError, match="must be"):
        env.step(env.reset().set(key, expected.double() + 0.25))
    env.close()


OUTSIDE: dict[str, tuple[Callable[..., Any], Callable[[tuple[int, ...]], Tensor]]] = {
    "class": (CartPole, lambda size: torch.full(size, 2)),
    "negative class": (chains.CartPoleTrain, lambda size: torch.full(size, -1)),
    "number": (Pendulum, lambda size: torch.full((*size, 1), 2.5)),
    "NaN": (chains.PendulumTrain, lambda size: torch.full((*size, 1), torch.nan)),
}


@pytest.mark.parametrize("batch", [(), (3,), (2, 2)], ids=str)
@pytest.mark.parametrize("wrap", [False, True], ids=["plain", "transformed"])
@pytest.mark.parametrize("name", OUTSIDE)
def test_native_steps_refuse_what_is_outside(name: str, wrap: bool, batch: tuple[int, ...]) -> None:
    make, action = OUTSIDE[name]
    env = make(batch_size=batch)
    if wrap:
        env = TransformedEnv(env, StepCounter(step_count_key="counted"))
    for method in (env.step, env.step_and_maybe_reset):
        root = env.reset()
        wrong = action(batch)
        if wrong.numel() > 1:  # one of them is enough
            right = env.rand_action(env.reset())["action"]
            wrong = torch.cat([wrong.flatten()[:1], right.flatten()[1:]]).reshape(right.shape)
        with pytest.raises(ValueError, match=r"\w+\.step: 'action' is not in its spec .*found torch\."):
            method(root.set("action", wrong))
    with pytest.raises(ValueError, match=r"'action'.* is not in its spec"):
        env.rollout(3, lambda td: td.set("action", action(batch)))


def test_rounding_is_no_fault() -> None:
    env = Pendulum()
    env.step(env.reset().set("action", torch.tensor([2.000001])))


ONE_HOT: dict[str, Any] = {
    "one-hot": OneHot(3),
    "one-hot int8": OneHot(3, dtype=torch.int8),
    "rows": OneHot(3, (2, 3)),
    "multi one-hot": MultiOneHot([2, 3]),
    "masked": OneHot(3, mask=torch.tensor([False, True, True])),
}


@pytest.mark.parametrize("name", ONE_HOT)
@pytest.mark.parametrize("batched", [False, True])
def test_one_hot_vectors_of_zeros_choose_nothing(name: str, batched: bool) -> None:
    spec = ONE_HOT[name]
    env: Any = SerialEnv(2, lambda: Acting(spec)) if batched else Acting(spec)
    nothing = env.full_action_spec.zero()
    assert not spec.is_in(spec.zero())
    assert not env.rollout(3, lambda td: td.update(nothing))["action"].any()
    some = env.action_spec.rand()
    some[..., : some.shape[-1] // 2] = False  # of several groups, one may choose
    if name == "multi one-hot":
        env.rollout(3, lambda td: td.set("action", some))
    with pytest.raises(ValueError, match=r"the policy's 'action' at step 0 is not in its spec"):
        env.rollout(3, lambda td: td.set("action", torch.ones_like(some)))


def test_what_reads_the_class_refuses_zeros() -> None:
    env = GymEnv("CartPole-v1")
    nothing = env.full_action_spec.zero()
    with pytest.raises(ValueError, match=r"one-hot vector of 2 classes, found \[0, 0\]"):
        env.step(env.reset().update(nothing))
    with pytest.raises(ValueError, match="one-hot"):
        env.rollout(3, lambda td: td.update(nothing))
