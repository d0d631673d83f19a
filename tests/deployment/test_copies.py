"""What goes on in a training after a `DeployedPolicy` was made does not change it, and neither do its own observations."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from specgen_runtime.deployment import DeployedPolicy
from specgen_runtime.modules import EGreedyModule, QValueActor
from specgen_runtime.random_state import policy_generators
from specgen_runtime.transforms import Transform, TransformedEnv, VecNormV2
from specgen_std.chains.cartpole import CartPoleTrain
from specgen_std.envs.pendulum import Pendulum
from tensordict.nn import TensorDictModule, TensorDictSequential
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


@pytest.mark.parametrize("owned", [False, True])
def test_making_and_resetting_draw_nothing(owned: bool) -> None:
    env = CartPoleTrain()
    actor = QValueActor(nn.Linear(4, 2), in_keys=["observation"], spec=env.action_spec)
    noise = EGreedyModule(env.action_spec, eps_init=1.0, eps_end=1.0)
    if owned:
        noise.generator = torch.Generator().manual_seed(3)
    before = torch.get_rng_state()
    agent = DeployedPolicy(TensorDictSequential(actor, noise), env, deterministic=False)
    generators = policy_generators(agent.policy)
    states = [one.get_state() for one in generators]
    assert len(generators) == owned
    agent.reset()
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one.get_state(), state) for one, state in zip(generators, states, strict=True))
    agent.act({"observation": torch.zeros(4)})
    now = generators[0].get_state() if owned else torch.get_rng_state()
    assert not torch.equal(now, states[0] if owned else before)
