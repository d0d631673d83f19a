"""A `DeployedPolicy` of environments that learn apart, and programs of any batch size."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.deployment import DeployedPolicy
from specgen_runtime.envs import EnvBase, SerialEnv
from specgen_runtime.transforms import TransformedEnv
from specgen_std.envs.pendulum import Pendulum
from specgen_std.transforms import RewardScaling, VecNorm
from tensordict.nn import TensorDictModule

from tests.deployment.test_deployed_policy import learned, linear
from tests.deployment.test_deployed_policy import made as made  # the fixture


@pytest.mark.parametrize("fused", [False, True])
def test_environments_that_learn_apart_are_told(made: ModuleType, fused: bool) -> None:
    def normed() -> EnvBase[Any]:
        return made.Stacked() if fused else TransformedEnv(Pendulum(), VecNorm(in_keys=["observation"]))

    policy = linear(9 if fused else 3, 1)
    env = SerialEnv(2, normed)
    env.rollout(5)
    with pytest.raises(
        ValueError, match="each environment of the SerialEnv has learned a VecNorm of its own"
    ):
        DeployedPolicy(policy, env)
    with pytest.raises(ValueError, match=r"give it one of them, `env.envs\[0\]`"):
        DeployedPolicy(policy, TransformedEnv(env, RewardScaling(0.0, 1.0)))
    assert DeployedPolicy(policy, env.envs[1]).in_keys == ["observation"]


def test_environments_that_learn_apart_what_nobody_needs() -> None:
    rewards = SerialEnv(2, lambda: TransformedEnv(Pendulum(), VecNorm(in_keys=["reward"])))
    rewards.rollout(5)
    assert DeployedPolicy(linear(3, 1), rewards).in_keys == ["observation"]


def test_programs_of_any_batch_size(made: ModuleType) -> None:
    env = learned(made.Stacked(batch_size=[4]))
    for size in ([], [2, 2]):
        act = DeployedPolicy(linear(9, 1), env, batch_size=size).export(dynamic_batch=True).module()
        state = DeployedPolicy(linear(9, 1), env, batch_size=[3]).initial_state()
        assert act({"observation": torch.zeros(3, 3)}, state)[0]["action"].shape == (3, 1)
    fixed = TensorDictModule(lambda x: x.reshape(2, 9)[:, :1], in_keys=["observation"], out_keys=["action"])
    with pytest.raises(Exception, match="Constraints violated"):
        DeployedPolicy(fixed, env, batch_size=[2]).export(dynamic_batch=True)
