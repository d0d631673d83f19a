"""Generated environments compiled whole by `torch.compile(fullgraph=True)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.envs import NotFiniteError
from specgen_runtime.testing import assert_identical
from specgen_std import chains
from specgen_std import envs as library
from specgen_std.envs.pendulum import PendulumParams, pendulum_advance
from tensordict import TensorDict
from torch import Tensor

from tests.envs.natives import each_native, started
from tests.envs.randomised import envs

__all__ = ["envs"]


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Any:
    yield
    torch.compiler.reset()


def whole(function: Callable[..., Any], backend: str = "eager") -> Callable[..., Any]:
    compiled: Callable[..., Any] = torch.compile(function, fullgraph=True, backend=backend)
    return compiled


@each_native
def test_a_compiled_step(make: Callable[..., Any]) -> None:
    env = make(batch_size=(3,))
    root = started(env)
    assert_identical(whole(env.step)(root.clone()), env.step(root.clone()), "compiled")


def test_a_compiled_pure_function() -> None:
    root = started(library.Pendulum(batch_size=(3,)))
    args = (PendulumParams(), root["th"], root["thdot"], root["done"], root["action"])
    for backend in ("eager", "aot_eager"):
        for got, wanted in zip(whole(pendulum_advance, backend)(*args), pendulum_advance(*args), strict=True):
            assert torch.equal(got, wanted)


def test_compiled_resets_of_what_is_done(envs: Any) -> None:
    env = envs.Cart(batch_size=(4,))
    root = started(env)
    root["x"][0] = torch.tensor([2.9999, 0.0])
    root["v"][0] = torch.tensor([5.0, 0.0])
    step = whole(lambda tensordict: env.step_and_maybe_reset(tensordict)[1])
    following = step(root.clone())
    assert (following["mass"] != root["mass"]).tolist() == [True, False, False, False]
    assert_identical(following[1:], env.step_and_maybe_reset(root.clone())[1][1:], "compiled")


def test_a_compiled_rollout(envs: Any) -> None:
    env = envs.Exact(batch_size=(4,))
    root = env.reset()

    def act(tensordict: TensorDict) -> TensorDict:
        return tensordict.set("action", torch.tanh(tensordict["observation"][..., :1]))

    def roll(tensordict: TensorDict) -> TensorDict:
        return env.rollout(2, act, auto_reset=False, tensordict=tensordict, break_when_any_done=False)

    rollout = whole(roll)(root.clone())
    assert rollout.batch_size == (4, 2)
    assert rollout.names == [None, "time"]
    assert_identical(rollout, roll(root.clone()), "compiled")


def test_compiled_rollouts_write_where_they_are_told_and_look_at_what_they_find() -> None:
    env = library.Pendulum(batch_size=(3,))
    root = env.reset()

    def act(tensordict: TensorDict) -> TensorDict:
        return tensordict.set("action", torch.tanh(tensordict["observation"][..., :1]))

    def roll(tensordict: Any, **kwargs: Any) -> Any:
        return env.rollout(
            2, act, auto_reset=False, tensordict=tensordict, break_when_any_done=False, **kwargs
        )

    expected = roll(root.clone())
    out = expected.clone().zero_()
    found = whole(lambda tensordict, place: roll(tensordict, out=place))(root.clone(), out)
    assert found is out
    assert_identical(found, expected, "compiled, with out")
    torch.compiler.reset()
    env.check_finite = True
    looking = torch.compile(roll, backend="eager")  # looking at values breaks the graph
    assert_identical(looking(root.clone()), expected, "compiled, with check_finite")
    root["th"][1] = float("nan")
    with pytest.raises(NotFiniteError, match=r"'observation' of environment \[1\] at step 0"):
        looking(root.clone())


@pytest.mark.parametrize(
    ("make", "random", "stop"),
    [
        (library.CartPole, True, True),
        (chains.PendulumTrain, False, True),
        (library.Pendulum, True, False),
    ],
)
def test_compiled_rollouts_name_time(make: Callable[..., Any], random: bool, stop: bool) -> None:
    env = make(batch_size=(2,))
    drawn = env.rand_action()["action"]

    def act(tensordict: TensorDict) -> TensorDict:
        return tensordict.set("action", drawn)

    def roll() -> Any:
        return env.rollout(2, None if random else act, break_when_any_done=stop)

    data = torch.compile(roll, backend="eager")()  # where it stops depends on values, which breaks the graph
    assert data.names == data["next"].names == roll().names == [None, "time"]


def test_compiled_partial_steps() -> None:
    env = chains.CartPoleTrain(batch_size=(3,))
    root = started(env).set("_step", torch.tensor([True, False, True]))
    assert_identical(whole(env.step)(root.clone()), env.step(root.clone()), "compiled")
    torch.compiler.reset()
    step = whole(lambda tensordict: env.step_and_maybe_reset(tensordict)[1])
    assert_identical(step(root.clone()), env.step_and_maybe_reset(root.clone())[1], "compiled")


def test_compiled_draws_follow_the_global_seed(envs: Any) -> None:
    env = envs.DrunkTrain(batch_size=(32,))
    reset = whole(lambda: env.reset())
    torch.manual_seed(0)
    first = reset()
    torch.manual_seed(0)
    assert_identical(reset(), first, "the same seed")
    assert not torch.equal(reset()["noise"], first["noise"])
    assert env.observation_spec.is_in(first)
    step = whole(env.step)
    root = env.rand_action(first)
    torch.manual_seed(0)
    one = step(root.clone())
    torch.manual_seed(0)
    assert_identical(step(root.clone()), one, "the same seed")


def test_a_compiled_partial_reset(envs: Any) -> None:
    env = envs.Cart(batch_size=(4,))
    root = env.reset()
    mask = torch.tensor([True, False, True, False]).unsqueeze(-1)
    after = whole(env.reset)(root.clone().set("_reset", mask))
    assert ((after["mass"] != root["mass"]) == mask.squeeze(-1)).all()
    assert "_reset" not in after.keys()  # noqa: SIM118


def test_a_compiled_gradient(envs: Any) -> None:
    env = envs.Exact(batch_size=(3,))
    root = started(env)

    def loss(action: Tensor) -> Tensor:
        total: Tensor = env.step(root.clone().set("action", action))["next", "reward"].sum()
        return total

    action = root["action"].clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(action), action)
    (found,) = torch.autograd.grad(whole(loss, "aot_eager")(action), action)
    torch.testing.assert_close(found, expected)


@pytest.mark.slow
def test_compiled_to_native_code() -> None:
    root = started(library.Pendulum(batch_size=(16,)))
    args = (PendulumParams(), root["th"], root["thdot"], root["done"], root["action"])
    compiled = whole(pendulum_advance, "inductor")(*args)
    torch.testing.assert_close(tuple(compiled), tuple(pendulum_advance(*args)))
