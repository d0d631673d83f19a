"""What goes on in a training after a `DeployedPolicy` was made does not change it, and neither do its own observations."""

from __future__ import annotations

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
