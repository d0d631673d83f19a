"""`step` as a pure function of a tensordict: repeatable, differentiable, mapped by vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.testing import assert_identical
from specgen_std import chains
from specgen_std import envs as library
from specgen_std.envs.pendulum import PendulumParams, pendulum_advance, pendulum_observe, pendulum_reward
from torch import Tensor

from tests.envs.natives import each_native, started
from tests.envs.randomised import envs

__all__ = ["envs"]


@each_native
def test_step_depends_on_its_tensordict_only(make: Callable[..., Any]) -> None:
    one, other = make(batch_size=(3,)), make(batch_size=(3,))
    root = started(one)
    first = one.step(root.clone())
    other.rollout(7)  # another past, another generator
    one.rollout(5)
    assert_identical(other.step(root.clone()), first, "another object")
    assert_identical(one.step(root.clone()), first, "the same object later")
    root_only = root.select(*one.state_keys, *one.done_keys, *one.action_keys)
    assert_identical(one.step(root_only)["next"], first["next"], "the state alone")


# gradients


def flat_step(env: Any, keys: tuple[str, ...]) -> Callable[..., tuple[Tensor, ...]]:
    """`env.step` as a function of tensors: next state and reward."""
    root = started(env)

    def step(*values: Tensor) -> tuple[Tensor, ...]:
        given = root.clone()
        for key, value in zip(keys, values, strict=True):
            given.set(key, value)
        after = env.step(given)["next"]
        return after["x"], after["v"], after["observation"], after["reward"].double()

    return step


def test_gradients_of_step_are_right(envs: Any) -> None:
    """Numerically, in float64, for action, state and parameters of each environment."""
    env = envs.Exact(batch_size=(3,))
    keys = ("x", "v", "action", "mass", "stiffness")
    root = started(env)
    inputs = tuple(root[key].detach().clone().requires_grad_() for key in keys)
    step = flat_step(env, keys)
    assert torch.autograd.gradcheck(lambda *values: step(*values)[:3], inputs)
    # rewards are float32: coarser steps
    assert torch.autograd.gradcheck(lambda *values: step(*values)[3], inputs, eps=1e-2, atol=1e-2)


def test_gradients_of_the_pure_functions_are_right() -> None:
    th, thdot = torch.tensor([0.3, -1.0, 2.0]).double(), torch.tensor([0.5, -0.4, 1.0]).double()
    action = torch.tensor([[0.3], [-1.2], [1.0]]).double()
    done = torch.zeros(3, 1, dtype=torch.bool)
    inputs = tuple(value.requires_grad_() for value in (th, thdot, action))

    def advance(th: Tensor, thdot: Tensor, action: Tensor) -> tuple[Tensor, ...]:
        after = pendulum_advance(PendulumParams(), th, thdot, done, action)
        return after.th, after.thdot, pendulum_observe(after.th, after.thdot)

    assert torch.autograd.gradcheck(advance, inputs)
    assert torch.autograd.gradcheck(pendulum_reward, inputs)


@pytest.mark.parametrize("policy_given", [False, True], ids=["random", "policy"])
def test_gradients_flow_through_rollouts(envs: Any, policy_given: bool) -> None:
    """Back-propagation through time against finite differences."""
    gain = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    x = torch.tensor([0.5, -0.3], dtype=torch.float64, requires_grad=True)
    mass = torch.tensor([0.8, 1.3], dtype=torch.float64, requires_grad=True)

    def policy(tensordict: Any) -> Any:
        return tensordict.set("action", -gain * tensordict["observation"][..., :1])

    def final(gain_: Tensor, x_: Tensor, mass_: Tensor) -> Tensor:
        nonlocal gain
        gain = gain_
        env = envs.Exact(batch_size=(2,), mass=mass_)
        env.set_seed(0)
        torch.manual_seed(0)
        begin = env.reset().set("x", x_)
        rollout = env.rollout(
            5,
            policy if policy_given else None,
            auto_reset=False,
            tensordict=begin,
            break_when_any_done=False,
        )
        total: Tensor = rollout["next", "x"].square().sum() + rollout["observation"].sum()
        return total

    inputs = (gain, x, mass)
    assert torch.autograd.gradcheck(final, inputs)


def test_gradients_end_where_an_episode_does(envs: Any) -> None:
    env = envs.Cart(batch_size=(2,))
    root = started(env)
    root["x"][0] = torch.tensor([2.9999, 0.0])
    root["v"][0] = torch.tensor([5.0, 0.0])
    root["x"].requires_grad_()
    transition, following = env.step_and_maybe_reset(root)
    assert transition["next", "done"].flatten().tolist() == [True, False]
    (gradient,) = torch.autograd.grad(following["x"].sum(), root["x"])
    assert gradient.tolist() == [[0.0, 0.0], [1.0, 1.0]]


# vmap


@each_native
def test_a_mapped_step_is_a_batched_one(make: Callable[..., Any]) -> None:
    single, batched = make(), make(batch_size=(5,))
    root = started(batched)
    expected = batched.step(root.clone())
    mapped = torch.vmap(single.step)(root.clone())
    assert mapped.batch_size == (5,)
    assert_identical(mapped.select(*expected.keys()), expected, "vmap")
    twice = torch.vmap(torch.vmap(single.step))(torch.stack([root, root]))
    assert_identical(twice[1].select(*expected.keys()), expected, "vmap of vmap")


def test_mapped_over_parameters_only(envs: Any) -> None:
    single, batched = envs.Exact(), envs.Exact(batch_size=(4,))
    root = started(single)
    masses = torch.linspace(0.5, 2, 4, dtype=torch.float64)

    def reward(mass: Tensor) -> Tensor:
        found: Tensor = single.step(root.clone().set("mass", mass))["next", "reward"]
        return found

    expected = batched.step(root.expand(4).clone().set("mass", masses))["next", "reward"]
    assert torch.equal(torch.vmap(reward)(masses), expected)
    slopes = torch.vmap(torch.func.grad(lambda mass: reward(mass).squeeze(-1)))(masses)
    assert (slopes != 0).all()


def test_the_pure_functions_can_be_mapped() -> None:
    root = started(library.Pendulum(batch_size=(5,)))
    args = (root["th"], root["thdot"], root["done"], root["action"])
    params = PendulumParams()
    mapped = torch.vmap(lambda *each: pendulum_advance(params, *each))(*args)
    for got, wanted in zip(mapped, pendulum_advance(params, *args), strict=True):
        assert torch.equal(got, wanted)


def test_mapped_steps_that_draw(envs: Any) -> None:
    """Each row draws for itself, from the environment's generator; rows that are done begin anew."""
    single = envs.DrunkTrain()
    root = envs.DrunkTrain(batch_size=(64,)).reset()
    root = torch.vmap(single.rand_action, randomness="different")(root)
    single.set_seed(0)
    transition, following = torch.vmap(single.step_and_maybe_reset, randomness="different")(root.clone())
    assert transition["next", "noise"].unique().numel() == 64
    done = transition["next", "done"].squeeze(-1)
    assert done.any()
    assert (following["step_count"].squeeze(-1) == torch.where(done, 0, 1)).all()
    assert (following["sobriety"][done] != transition["sobriety"][done]).all()
    single.set_seed(0)
    again, _ = torch.vmap(single.step_and_maybe_reset, randomness="different")(root.clone())
    assert torch.equal(again["next", "noise"], transition["next", "noise"])


def test_mapped_partial_resets(envs: Any) -> None:
    single = envs.Cart()
    root = envs.Cart(batch_size=(4,)).reset()
    mask = torch.tensor([True, False, True, False]).unsqueeze(-1)
    after = torch.vmap(single.reset, randomness="different")(root.clone().set("_reset", mask))
    assert ((after["mass"] != root["mass"]) == mask.squeeze(-1)).all()


@each_native
def test_mapped_rollouts_are_batched_ones(make: Callable[..., Any]) -> None:
    single, batched = make(), make(batch_size=(4,))
    root = started(batched)
    key = batched.action_keys[0]
    steps = torch.stack([batched.rand_action(root.clone())[key] for _ in range(3)])

    def roll(env: Any, tensordict: Any, **kwargs: Any) -> Any:
        actions = steps if env is batched else steps[:, 0]
        return env.rollout(
            9, actions=actions, auto_reset=False, tensordict=tensordict, break_when_any_done=False, **kwargs
        )

    steps[:] = steps[:, :1]  # the same in all rows: actions are not mapped over
    expected = roll(batched, root.clone())
    mapped = torch.vmap(lambda tensordict: roll(single, tensordict), randomness="different")(root.clone())
    assert mapped.names == [None, "time"]
    assert_identical(mapped.select(*expected.keys()), expected, "vmap")
    out = expected.clone().zero_()

    def into(tensordict: Any, place: Any) -> Any:
        return roll(single, tensordict, out=place)

    written = torch.vmap(into, randomness="different")(root.clone(), out)
    assert_identical(written.select(*expected.keys()), expected, "vmap with out")
    assert_identical(out, expected, "out")


def test_mapped_random_rollouts() -> None:
    single = library.Pendulum()

    def roll(_: Tensor) -> Any:
        return single.rollout(5, break_when_any_done=False)

    data = torch.vmap(roll, randomness="different")(torch.zeros(6))
    assert data.batch_size == (6, 5)
    assert single.action_spec.is_in(data["action"])
    assert data["action"].unique().numel() == 30
    assert data["th"][:, 0].unique().numel() == 6


def test_mapped_calls_that_look_at_values_are_refused() -> None:
    single = library.Pendulum()
    root = started(library.Pendulum(batch_size=(3,)))
    for kwargs in ({}, {"break_when_any_done": True}, {"break_when_all_done": True}):

        def roll(tensordict: Any, kwargs: Any = kwargs) -> Any:
            return single.rollout(3, auto_reset=False, tensordict=tensordict, **kwargs)

        with pytest.raises(RuntimeError, match="pass break_when_any_done=False"):
            torch.vmap(roll, randomness="different")(root.clone())
    single.check_finite = True
    for call in (
        single.step,
        lambda tensordict: single.step_and_maybe_reset(tensordict)[1],
        lambda tensordict: single.reset(tensordict),
        lambda tensordict: single.reset(),
        lambda tensordict: single.rollout(2, break_when_any_done=False),
    ):
        with pytest.raises(RuntimeError, match="check_finite looks at values"):
            torch.vmap(call, randomness="different")(root.clone())


def test_mapped_partial_steps() -> None:
    single, batched = chains.CartPoleTrain(), chains.CartPoleTrain(batch_size=(4,))
    mask = torch.tensor([True, False, False, True])
    root = started(batched).set("_step", mask)
    expected = batched.step(root.clone())
    mapped = torch.vmap(single.step)(root.clone())
    assert_identical(mapped.select(*expected.keys()), expected, "vmap")
    assert mapped["next", "step_count"].flatten().tolist() == [1, 0, 0, 1]
