"""Our environments in what TorchRL has around environments: collectors, and batches of environments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.interop import to_torchrl
from specgen_std.envs.cartpole import CartPole

from tests.interop.envs import assert_same
from tests.interop.test_to_torchrl import ENVS

pytestmark = pytest.mark.peers

theirs = pytest.importorskip("torchrl.envs", reason="the extra `peers`")
collectors = pytest.importorskip("torchrl.collectors", reason="the extra `peers`")
check_env_specs = pytest.importorskip("torchrl.envs.utils").check_env_specs


def test_serial_env() -> None:
    env = theirs.SerialEnv(3, partial(to_torchrl_of, CartPole))
    check_env_specs(env)
    env.set_seed(0)
    data = env.rollout(40, break_when_any_done=False)
    assert data.shape == (3, 40)
    assert data["next", "done"].any()
    assert not torch.equal(data["observation"][0], data["observation"][1])
    env.close()


def to_torchrl_of(make: Callable[[], Any]) -> Any:
    return to_torchrl(make())


@pytest.mark.slow
def test_parallel_env() -> None:
    serial = theirs.SerialEnv(2, partial(to_torchrl_of, CartPole))
    parallel = theirs.ParallelEnv(2, partial(to_torchrl_of, CartPole), mp_start_method="fork")
    found = []
    for env in (serial, parallel):
        env.set_seed(0)
        torch.manual_seed(0)
        found.append(env.rollout(30, break_when_any_done=False))
        env.close()
    assert_same(*found)


@pytest.mark.parametrize(
    "name", ["CartPole", "CartPole [4]", "CartPoleTrain [4]", "gym", "agents batch", "chain"]
)
def test_collector(name: str) -> None:
    collector = collectors.Collector(
        to_torchrl(ENVS[name]()), policy=None, frames_per_batch=48, total_frames=144
    )
    batches = list(collector)
    collector.shutdown()
    assert [data.numel() for data in batches] == [48, 48, 48]
    assert all(
        set(data["next"].keys()) >= set(data.keys()) - {"collector", "next", "action"} for data in batches
    )


def test_collector_with_a_policy() -> None:
    def policy(data: Any) -> Any:
        return data.set("action", (data["observation"][..., 2] > 0).long())

    env = theirs.TransformedEnv(to_torchrl(CartPole(batch_size=(4,))), theirs.StepCounter())
    collector = collectors.Collector(env, policy, frames_per_batch=400, total_frames=400, trust_policy=True)
    data = next(iter(collector))
    collector.shutdown()
    assert torch.equal(data["action"], (data["observation"][..., 2] > 0).long())
    ended = data["next", "done"][:, :-1].squeeze(-1)
    assert ended.any()
    assert (data["step_count"][:, 1:].squeeze(-1)[ended] == 0).all()
