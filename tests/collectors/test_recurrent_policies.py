"""What collectors and `with_primers` give environments, for policies that remember."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.collectors import Collector, with_primers
from specgen_runtime.modules import (
    GRUModule,
    GSDEHead,
    GSDEPolicy,
    OrnsteinUhlenbeckProcessModule,
    ProbabilisticActor,
    TanhNormal,
)
from specgen_runtime.transforms import TransformedEnv
from specgen_std.envs.cartpole import CartPole
from specgen_std.envs.pendulum import Pendulum
from specgen_std.transforms import InitTracker
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn


def remembering(is_init: str = "is_init") -> Any:
    torch.manual_seed(0)
    memory = GRUModule(
        input_size=4,
        hidden_size=3,
        in_keys=["observation", "memory", is_init],
        out_keys=["features", ("next", "memory")],
    )
    return TensorDictSequential(
        memory,
        TensorDictModule(nn.Linear(3, 2), ["features"], ["logits"]),
        TensorDictModule(lambda logits: logits.argmax(-1), ["logits"], ["action"]),
    )


@pytest.mark.parametrize("there", [(), ("is_init",), ("memory",), ("is_init", "memory")], ids=str)
def test_what_the_environment_lacks_is_added(there: tuple[str, ...]) -> None:
    policy = remembering()
    env: Any = CartPole(batch_size=[2])
    for key in there:
        env = TransformedEnv(env, InitTracker() if key == "is_init" else policy[0].make_tensordict_primer())
    env.set_seed(0)
    collector: Collector[Any] = Collector(
        env, policy, frames_per_batch=240, auto_register_policy_transforms=True
    )
    assert isinstance(collector.env, TransformedEnv)
    assert (collector.env is env) == (len(there) == 2)
    batch = collector.next()
    begins = batch["is_init"]
    assert begins.shape == (2, 120, 1)
    assert begins[:, 0].all()
    assert torch.equal(begins[:, 1:], batch["next", "done"][:, :-1])
    assert begins.sum() > 4
    assert (batch["memory"][begins.squeeze(-1)] == 0).all()
    goes_on = ~begins[:, 1:].squeeze(-1)
    assert torch.equal(batch["memory"][:, 1:][goes_on], batch["next", "memory"][:, :-1][goes_on])
    assert not batch["next", "is_init"].any()


def test_first_steps_have_the_name_that_is_read() -> None:
    env = with_primers(CartPole(), remembering("begins"))
    assert {"begins", "memory"} <= set(env.reset().keys())
    assert "is_init" not in env.reset()


def test_noise_that_begins_anew() -> None:
    env = Pendulum()
    noise = OrnsteinUhlenbeckProcessModule(spec=env.action_spec)
    policy = TensorDictSequential(TensorDictModule(nn.Linear(3, 1), ["observation"], ["action"]), noise)
    assert "is_init" in with_primers(env, policy).rollout(3, policy)
    assert with_primers(env, policy[0]) is env
    assert with_primers(env, lambda tensordict: tensordict) is env


def test_noise_that_is_kept_for_several_steps_begins_anew() -> None:
    head = TensorDictModule(GSDEHead(3, 1), ["observation"], ["loc", "scale"])
    actor = ProbabilisticActor(head, ["loc", "scale"], distribution_class=TanhNormal)
    policy = GSDEPolicy(actor)
    batch = with_primers(Pendulum(batch_size=[2]), policy).rollout(3, policy)
    assert batch["is_init"][:, 0].all()
    noise = batch["_gsde_noise"]
    assert torch.equal(noise[:, 0], noise[:, 2])
    assert not torch.equal(noise[0], noise[1])  # each environment has its own, as TorchRL's module draws it
    assert "begins" in with_primers(Pendulum(), GSDEPolicy(actor, is_init_key="begins")).reset()
