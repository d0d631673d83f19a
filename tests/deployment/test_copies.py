"""What goes on in a training after a `DeployedPolicy` was made does not change it, and neither do its own observations."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from specgen_runtime.deployment import DeployedPolicy
from specgen_runtime.transforms import Transform, TransformedEnv, VecNormV2
from specgen_std.envs.pendulum import Pendulum
from tensordict.nn import TensorDictModule
from torch import Tensor, nn


def linear() -> TensorDictModule:
    return TensorDictModule(nn.Linear(3, 1), in_keys=["observation"], out_keys=["action"])


def first_action(agent: DeployedPolicy) -> Tensor:
    agent.reset()
    return agent.act({"observation": [3.0, -2.0, 1.0]})["action"]


@pytest.mark.parametrize("reduce_batch_dims", [False, True])
def test_running_moments_stay(reduce_batch_dims: bool) -> None:
    rows = (4,) if reduce_batch_dims else ()
    norm = VecNormV2(["observation"], reduce_batch_dims=reduce_batch_dims)
    env = TransformedEnv(Pendulum(batch_size=rows), norm)
    env.rollout(20)
    policy = linear()
    agent = DeployedPolicy(policy, env)
    seen = (torch.tensor([3.0, -2.0, 1.0]) - norm.loc["observation"]) / norm.scale["observation"]
    wanted = policy.module(seen)
    learned = norm.loc["observation"].clone()
    assert torch.allclose(first_action(agent), wanted, atol=1e-5)
    assert torch.allclose(first_action(agent), wanted, atol=1e-5)
    assert torch.equal(norm.loc["observation"], learned)
    env.rollout(20)
    assert not torch.equal(norm.loc["observation"], learned)
    assert torch.allclose(first_action(agent), wanted, atol=1e-5)


class Shifted(Transform):
    """Written by hand, with a tensor that is no buffer."""

    def __init__(self) -> None:
        super().__init__(in_keys=["observation"], out_keys=["observation"])
        self.shift = torch.ones(3)
        self.sensor: Any = None

    def _apply_transform(self, obs: Tensor, /) -> Tensor:
        return obs + self.shift

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._call(tensordict_reset)


def test_plain_tensors_of_transforms_are_copied() -> None:
    shifted = Shifted()
    agent = DeployedPolicy(linear(), TransformedEnv(Pendulum(), shifted))
    wanted = first_action(agent)
    shifted.shift += 5
    assert torch.equal(first_action(agent), wanted)


class Sensor:
    """What talks to a device, by one at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Shared(Sensor):
    """What several may use."""

    def __deepcopy__(self, memo: Any) -> Shared:
        return self


def test_what_can_not_be_copied_is_told() -> None:
    shifted = Shifted()
    env = TransformedEnv(Pendulum(), shifted)
    shifted.sensor = Sensor()
    with pytest.raises(TypeError, match=r"Shifted holds what can't be copied .*__deepcopy__"):
        DeployedPolicy(linear(), env)
    shifted.sensor = Shared()
    agent = DeployedPolicy(linear(), env)
    (copied,) = [part for part in agent.modules() if isinstance(part, Shifted)]
    assert copied is not shifted
    assert copied.sensor is shifted.sensor
