"""Parameters that differ between the environments of a batch: given as tensors, or drawn at each reset."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.specs import Bounded, Unbounded
from specgen_runtime.testing import check_env

from tests.envs.randomised import BATCHES, envs

__all__ = ["envs"]

DRAWN = ("mass", "wind", "gear", "slick")


@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("name", ["Cart", "CartTrain", "Exact"])
def test_the_contract_holds(envs: Any, name: str, batch: tuple[int, ...]) -> None:
    check_env(partial(getattr(envs, name), batch_size=batch), steps=25)


@pytest.mark.parametrize("name", ["Cart", "CartTrain"])
def test_they_are_keys_of_the_state(envs: Any, name: str) -> None:
    env = getattr(envs, name)(batch_size=(3,))
    for key in (*DRAWN, "drag"):
        assert key in env.state_keys
        assert key in env.observation_keys
        assert env.state_spec[key] == env.observation_spec[key]
    assert isinstance(env.state_spec["wind"], Unbounded)
    assert isinstance(env.state_spec["drag"], Bounded)
    assert env.state_spec["drag"].space.high.max() == 1
    gear = env.state_spec["gear"]
    assert (gear.dtype, gear.space.low.min(), gear.space.high.max()) == (torch.int64, 1, 3)
    assert env.state_spec["slick"].dtype == torch.bool
    assert env.observation_spec.is_in(env.reset())


@pytest.mark.parametrize("name", ["Cart", "CartTrain"])
def test_what_is_drawn_is_of_the_distribution(envs: Any, name: str) -> None:
    env = getattr(envs, name)(batch_size=(20_000,), spread=0.5)
    env.set_seed(0)
    root = env.reset()
    mass = root["mass"]
    assert mass.min() >= 0.5
    assert mass.max() <= 1.5
    assert abs(mass.mean() - 1.0) < 0.01
    assert abs(mass.var() - 1 / 12) < 0.005
    assert (root["wind"].abs() <= 0.5 * mass.unsqueeze(-1)).all()
    assert torch.bincount(root["gear"])[1:].float().div(20_000).sub(1 / 3).abs().max() < 0.02
    assert abs(root["slick"].float().mean() - 0.25) < 0.02
    narrow = getattr(envs, name)(batch_size=(100,), spread=0.0)
    assert (narrow.reset()["mass"] == 1).all()


@pytest.mark.parametrize("name", ["Cart", "CartTrain"])
def test_they_are_kept_until_the_next_reset(envs: Any, name: str) -> None:
    env = getattr(envs, name)(batch_size=(6,))
    env.set_seed(0)
    root = env.reset()
    resets = 0
    for _ in range(40):
        transition, following = env.step_and_maybe_reset(env.rand_action(root))
        done = transition["next", "done"].squeeze(-1)
        for key in (*DRAWN, "drag"):
            assert torch.equal(transition["next", key], transition[key])
            assert torch.equal(following[key][~done], transition[key][~done])
        assert (following["mass"][done] != transition["mass"][done]).all()
        resets += int(done.sum())
        root = following
    assert resets


def test_a_partial_reset_draws_only_for_its_rows(envs: Any) -> None:
    env = envs.CartTrain(batch_size=(4, 3))
    root = env.reset()
    before = root.clone()
    mask = torch.zeros(4, 3, 1, dtype=torch.bool)
    mask[1, 2] = mask[3] = True
    after = env.reset(root.set("_reset", mask))
    rows = mask.squeeze(-1)
    assert torch.equal(after["mass"][~rows], before["mass"][~rows])
    assert (after["mass"][rows] != before["mass"][rows]).all()
    assert torch.equal(after["wind"][~rows], before["wind"][~rows])


def test_the_constructor_takes_the_place_of_a_draw_and_of_nothing_else(envs: Any) -> None:
    masses = torch.tensor([1.0, 2.0, 3.0])
    drawing, fixed = envs.Cart(batch_size=(3,)), envs.Cart(batch_size=(3,), mass=masses, gear=2)
    drawing.set_seed(7)
    fixed.set_seed(7)
    for _ in range(3):
        drawn, given = drawing.reset(), fixed.reset()
        assert torch.equal(given["mass"], masses)
        assert (given["gear"] == 2).all()
        assert torch.equal(given["x"], drawn["x"])
        assert torch.equal(given["slick"], drawn["slick"])
        # what is drawn from a parameter follows the value given
        ratio = given["wind"] / drawn["wind"] * (drawn["mass"] / masses).unsqueeze(-1)
        torch.testing.assert_close(ratio, torch.ones(3, 2))


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)], ids=str)
def test_values_broadcast_to_the_batch(envs: Any, batch: tuple[int, ...]) -> None:
    for given in (0.25, torch.tensor(0.25), torch.full((1,) if batch else (), 0.25), torch.full(batch, 0.25)):
        root = envs.CartTrain(batch_size=batch, drag=given).reset()
        assert root["drag"].shape == batch
        assert (root["drag"] == 0.25).all()
    wind = torch.tensor([0.5, -0.5])
    root = envs.Cart(batch_size=batch, wind=wind).reset()
    assert torch.equal(root["wind"], wind.expand(*batch, 2))
    assert torch.equal(envs.Cart(batch_size=batch, wind=[0.5, -0.5]).reset()["wind"], root["wind"])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"mass": 0.0}, ValueError, "mass must be > 0, got 0.0"),
        ({"mass": torch.tensor([1.0, 2.0, -3.0])}, ValueError, "mass must be > 0, got -3.0"),
        ({"mass": float("nan")}, ValueError, "mass must be > 0, got nan"),
        ({"drag": 1.5}, ValueError, "drag must be <= 1, got 1.5"),
        ({"gear": 4}, ValueError, "gear must be <= 3, got 4"),
        ({"gear": 1.5}, TypeError, "gear must be torch.int64, got torch.float32"),
        ({"slick": 1}, TypeError, "slick must be torch.bool, got torch.int64"),
        ({"mass": True}, TypeError, "mass must be torch.float32, got torch.bool"),
        ({"mass": "heavy"}, TypeError, "mass must be numbers or a tensor, got 'heavy'"),
        (
            {"mass": torch.ones((), device="meta")},
            ValueError,
            "mass is on the meta device, where it has no values, and the environment is on cpu",
        ),
        ({"mass": torch.ones(4)}, ValueError, r"broadcasts to \[3\].*got a tensor of shape \[4\]"),
        ({"mass": torch.ones(2, 3)}, ValueError, r"broadcasts to \[3\].*got a tensor of shape \[2, 3\]"),
        ({"wind": torch.ones(3)}, ValueError, r"broadcasts to \[3, 2\].*got a tensor of shape \[3\]"),
        ({"drag": None}, TypeError, "drag must be numbers or a tensor, got None"),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["Cart", "CartTrain"])
def test_wrong_values_are_refused(
    envs: Any, name: str, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        getattr(envs, name)(batch_size=(3,), **given)


@pytest.mark.parametrize("default", [torch.float32, torch.float64, torch.float16])
def test_numbers_keep_their_digits(envs: Any, default: torch.dtype) -> None:
    """Whatever torch's default dtype is: 0.1 is the float64 nearest to it, or the float32."""
    torch.set_default_dtype(default)
    try:
        for given in (0.1, [0.1], np.float64(0.1), torch.tensor(0.1, dtype=torch.float64)):
            stiffness = envs.Exact(batch_size=(2,), stiffness=given).reset()["stiffness"]
            assert stiffness.dtype == torch.float64
            assert stiffness.tolist() == [0.1, 0.1]
        drag = envs.Cart(batch_size=(2,)).reset()["drag"]
        gear = envs.Cart(batch_size=(2,), gear=[1, 3]).reset()["gear"]
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(drag, torch.tensor([0.1, 0.1], dtype=torch.float32))
    assert gear.tolist() == [1, 3]


def test_writing_into_the_tensordict_leaves_the_environment_alone(envs: Any) -> None:
    env = envs.Cart(batch_size=(3,), mass=torch.ones(3), drag=0.5)
    root = env.reset()
    root["mass"].mul_(2)
    root["drag"].zero_()
    again = env.reset()
    assert (again["mass"] == 1).all()
    assert (again["drag"] == 0.5).all()


def test_step_takes_them_from_the_tensordict(envs: Any) -> None:
    env = envs.Cart(batch_size=(3,), slick=False)
    root = env.rand_action(env.reset())
    heavier = root.clone().set("mass", root["mass"] * 2)
    light, heavy = env.step(root.clone()), env.step(heavier)
    assert (heavy["next", "mass"] == 2 * light["next", "mass"]).all()
    assert not torch.equal(heavy["next", "v"], light["next", "v"])


def test_they_are_no_part_of_the_state_dict(envs: Any) -> None:
    env = envs.Cart(batch_size=(3,), mass=2.0)
    assert not env.state_dict()
    assert not list(env.parameters())


def test_gradients_reach_the_tensor_that_was_given(envs: Any) -> None:
    mass = torch.nn.Parameter(torch.tensor([0.5, 1.0, 2.0]))
    for make in (envs.Cart, envs.CartTrain):
        env = make(batch_size=(3,), mass=mass, slick=False)
        torch.manual_seed(0)
        reward = env.rollout(6, break_when_any_done=False)["next", "reward"]
        (gradient,) = torch.autograd.grad(reward.sum(), mass)
        assert (gradient != 0).all()
        with torch.no_grad():
            mass.mul_(2)
        assert torch.equal(env.reset()["mass"], mass)  # what an optimiser changes is seen
