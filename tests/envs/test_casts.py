"""Environments are not cast: their data are of the dtypes that their specs say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.envs import GymEnv, SerialEnv, check_env_specs
from specgen_runtime.transforms import TransformedEnv
from specgen_std.envs.cartpole import CartPole
from specgen_std.envs.pendulum import Pendulum
from specgen_std.transforms.observation_norm import ObservationNorm
from specgen_std.transforms.step_counter import StepCounter
from tensordict import TensorDict
from torch import nn

from tests.envs.counting import Counting
from tests.python_envs.support import envs as python_envs


class Shifted(Counting):
    """Its rewards depend on a parameter and on a buffer."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.net = torch.nn.Linear(1, 1)
        self.register_buffer("shift", torch.ones(1))
        self.register_buffer("turns", torch.ones(1, dtype=torch.int64))

    def _step(self, tensordict: Any) -> TensorDict:
        following = super()._step(tensordict)
        return following.set("reward", self.net(following["reward"]) + self.shift)


CASTS: dict[str, Any] = {
    "to": lambda env: env.to(torch.float64),
    "to like": lambda env: env.to(torch.zeros((), dtype=torch.float64)),
    "to device and dtype": lambda env: env.to("cpu", torch.float64),
    "double": lambda env: env.double(),
    "half": lambda env: env.half(),
    "in a module": lambda env: torch.nn.ModuleDict({"env": env}).to(torch.float64),
}


@pytest.mark.parametrize("cast", CASTS)
@pytest.mark.parametrize("wrap", [False, True], ids=["plain", "transformed"])
def test_casts_that_would_leave_the_specs_are_refused(cast: str, wrap: bool) -> None:
    # E29: a TypeError in TorchRL, too, by `to`; by the others the data are no longer what the specs say.
    inner = Shifted()
    env: Any = TransformedEnv(inner, StepCounter()) if wrap else inner
    with pytest.raises(
        TypeError, match=r"Shifted cannot be cast: 'net\.weight' would be torch\.float(64|16)"
    ):
        CASTS[cast](env)
    assert {each.dtype for each in inner.parameters()} == {inner.shift.dtype} == {torch.float32}
    check_env_specs(env)


@pytest.mark.parametrize("cast", CASTS)
@pytest.mark.parametrize(
    "make",
    [
        Counting,
        lambda: TransformedEnv(Counting(), StepCounter()),
        lambda: TransformedEnv(Pendulum(), ObservationNorm(torch.ones(3), torch.ones(3), ["observation"])),
        CartPole,
        lambda: GymEnv("CartPole-v1"),
        lambda: SerialEnv(2, Shifted),
    ],
    ids=["hand-written", "transformed", "with buffers of transforms", "native", "gymnasium", "batch"],
)
def test_casts_of_nothing_change_nothing(make: Any, cast: str) -> None:
    env = make()
    before = env.specs.clone()
    CASTS[cast](env)
    assert env.to(torch.float64) is env
    for name in ("input_spec", "output_spec"):
        assert getattr(env, name).to("cpu") == before[name].to("cpu")
    check_env_specs(env)
    env.close()


def test_a_part_can_be_cast() -> None:
    env = Shifted()
    env.net.to(torch.float64)
    assert env.net.weight.dtype is torch.float64
    with pytest.raises(TypeError, match=r"'net\.weight' would be torch\.float32"):
        env.to(torch.float32)


@pytest.mark.parametrize("cast", CASTS)
def test_parameters_of_a_users_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cast: str) -> None:
    with python_envs(tmp_path) as (generated, user):
        walk = user.Walk

        class Learnt(nn.Module):
            made, rows = 0, walk.rows

            def __init__(self, setup: Any) -> None:
                super().__init__()
                self.gain = nn.Parameter(torch.ones(()))
                self.walk = walk(setup)

            def reset(self, *args: Any) -> Any:
                return self.walk.reset(*args)

            def step(self, *args: Any) -> Any:
                result = self.walk.step(*args)
                return result._replace(reward=result.reward * self.gain)

        monkeypatch.setattr(user, "Walk", Learnt)
        env = generated.Walk(batch_size=(4,))
        with pytest.raises(
            TypeError, match=r"Walk cannot be cast: 'python\.gain' would be torch\.float(64|16)"
        ):
            CASTS[cast](env)
        check_env_specs(env)
