"""Native environments on a device: at construction and by `to`, with constants, parameters and generator."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.testing import check_env
from specgen_runtime.transforms import TransformedEnv
from specgen_std import chains
from specgen_std import envs as library
from specgen_std.transforms import RewardScaling
from tensordict import TensorDict
from torch import Tensor

from tests.envs.randomised import envs

__all__ = ["envs"]

needs_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
DEVICES = [pytest.param("meta"), pytest.param("cuda:0", marks=needs_gpu)]


def tensors_of(record: Any) -> list[Tensor]:
    return [value for value in record if isinstance(value, Tensor)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("moved", [False, True], ids=["made_there", "moved"])
@pytest.mark.parametrize("name", ["Cart", "CartTrain", "DrunkTrain"])
def test_everything_is_on_the_device(envs: Any, name: str, moved: bool, device: str) -> None:
    given = {"drag": torch.tensor([0.1, 0.2, 0.3]), "mass": 2.0} if "Cart" in name else {"sobriety": 0.75}
    make: Callable[..., Any] = getattr(envs, name)
    env = (
        make(batch_size=(3,), **given).to(device) if moved else make(batch_size=(3,), device=device, **given)
    )
    wanted = torch.device(device)
    assert env.device == wanted
    assert tensors_of(env.params)
    assert all(value.device == wanted for value in tensors_of(env.params))
    for spec in (env.full_action_spec, env.full_observation_spec, env.full_state_spec, env.full_done_spec):
        assert spec.device == wanted
    root: TensorDict = env.rand_action(env.reset())
    after = env.step(root)
    assert after.device == wanted
    assert all(value.device == wanted for value in after.values(True, True))
    assert after["next", "reward"].shape == (3, 1)


def scaled(**options: Any) -> TransformedEnv:
    return TransformedEnv(library.CartPole(**options), RewardScaling(0.0, 0.1))


@pytest.mark.parametrize("make", [library.Pendulum, library.CartPole, chains.PendulumTrain, scaled])
def test_what_needs_values_is_refused_on_the_meta_device(make: Callable[..., Any]) -> None:
    env = make(batch_size=(3,), device="meta")
    root: TensorDict = env.rand_action(env.reset())
    calls: tuple[Callable[[], Any], ...] = (
        lambda: env.rollout(3),
        lambda: env.rollout(3, break_when_any_done=False),
        lambda: env.step_and_maybe_reset(root.clone()),
        lambda: env.step_and_maybe_reset(TensorDict.lazy_stack(root.unbind(0))),
    )
    for call in calls:
        with pytest.raises(RuntimeError, match=r"is on the meta device.*env.to\('cpu'\)"):
            call()
    assert env.step(root)["next", "reward"].shape == (3, 1)
    assert env.fake_tensordict().device == torch.device("meta")


@pytest.mark.parametrize("device", DEVICES)
def test_constants_move(device: str) -> None:
    env = library.FrozenLake(batch_size=(2,))
    before = env.consts
    env.to(device)
    assert all(value.device == torch.device(device) for value in env.consts)
    assert all(value.device.type == "cpu" for value in before)
    assert env.step(env.rand_action(env.reset()))["next", "observation"].device == torch.device(device)


@pytest.mark.parametrize("device", DEVICES)
def test_a_shape_is_known_without_numbers(device: str) -> None:
    env = chains.PendulumTrain(batch_size=(4, 3), device=device)
    assert env.step(env.rand_action(env.reset()))["next", "observation"].shape == (4, 3, 3)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_rollouts_are_steps(envs: Any) -> None:
    for make in (envs.CartTrain, envs.DrunkTrain, chains.PendulumTrain):
        check_env(partial(make, batch_size=(3,), device="cuda:0"), steps=30)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_and_back(envs: Any) -> None:
    env = envs.Cart(batch_size=(3,), mass=torch.tensor([1.0, 2.0, 3.0]))
    root: TensorDict = env.rand_action(env.reset())
    here = env.step(root.clone())["next"]
    there = env.to("cuda:0").step(root.to("cuda:0"))["next"]
    torch.testing.assert_close(there.to("cpu").to_dict(), here.to_dict())
    assert env.to("cpu").params.mass.device.type == "cpu"
    env.set_seed(0)
    first = env.reset()
    env.set_seed(0)
    torch.testing.assert_close(env.reset().to_dict(), first.to_dict())
