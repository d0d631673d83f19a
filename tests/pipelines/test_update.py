"""Updates of printed modules, where not all is moved in each."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_std.pipelines import mappo_tag, ppo_cartpole, ppo_taxi, redq_pendulum, td3_pendulum

from tests.pipelines.small import parts_class, pipeline, small_config
from tests.pipelines.test_training import equal, parameters, targets


def with_batch(module: Any, name: str) -> tuple[Any, Any]:
    """The parts of a pipeline, and a batch of what a random policy does."""
    parts = getattr(module, name)(small_config(module))
    rollout = parts.env.rollout(8, break_when_any_done=False)
    return parts, rollout.select(*parts.stored).reshape(-1)


@pytest.mark.parametrize(
    ("module", "name", "delayed"),
    [
        (td3_pendulum, "TD3Pendulum", {"actor_optimizer"}),
        (redq_pendulum, "REDQPendulum", {"actor_optimizer", "temperature_optimizer"}),
    ],
)
def test_delayed_parts_move_in_each_second_update(module: Any, name: str, delayed: set[str]) -> None:
    parts, batch = with_batch(module, name)
    for updates in range(4):
        before, before_targets = parameters(parts), targets(parts)
        module.update(parts, batch, updates=updates)
        stayed = {part for part, values in parameters(parts).items() if equal(values, before[part])}
        assert stayed == (delayed if updates % 2 else set())
        assert before_targets
        follows = not updates % 2 or module is redq_pendulum  # those of REDQ follow in each update
        assert equal(targets(parts), before_targets) is not follows


def test_what_a_delayed_update_does_without_gradients_is_what_it_would_do_with_them() -> None:
    """In an update without a step of the policy its term needs no gradient: the values move as if it had one."""
    parts, batch = with_batch(td3_pendulum, "TD3Pendulum")
    other, _ = with_batch(td3_pendulum, "TD3Pendulum")
    td3_pendulum.update(parts, batch, updates=1)
    losses = other.loss(batch)
    torch.autograd.backward(losses["loss_actor"] + losses["loss_qvalue"])
    other.critic_optimizer.step()
    assert equal(parameters(parts)["critic_optimizer"], parameters(other)["critic_optimizer"])


def test_the_global_generator_has_no_part_in_an_update() -> None:
    parts, batch = with_batch(td3_pendulum, "TD3Pendulum")
    other, _ = with_batch(td3_pendulum, "TD3Pendulum")
    torch.manual_seed(1)
    one = td3_pendulum.update(parts, batch, updates=0)
    torch.manual_seed(2)
    assert td3_pendulum.update(other, batch, updates=0) == one


@pytest.mark.parametrize(
    ("module", "name"), [(ppo_cartpole, "PPOCartPole"), (ppo_taxi, "PPOTaxi"), (mappo_tag, "MAPPOTag")]
)
def test_minibatches_hold_all_that_losses_read(module: Any, name: str) -> None:
    parts = getattr(module, name)(small_config(module))
    batch = parts.collector.next()
    for part, estimator in vars(parts).items():
        if part.endswith("estimator"):
            estimator(batch)
    held = batch.select(*parts.stored)
    assert len(list(held.keys(True, True))) < len(list(batch.keys(True, True)))
    for part, loss in vars(parts).items():
        if part.endswith("loss"):
            assert (loss(held) == loss(batch)).all()


@pytest.mark.parametrize("name", ["ppo_cartpole", "ppo_pendulum", "ppo_taxi"])
def test_the_estimator_has_the_critic_that_the_loss_trains(name: str) -> None:
    """What moves in an update is what the next advantages are estimated with."""
    module = pipeline(name)
    parts = parts_class(module)(small_config(module))
    batch = parts.collector.next()
    parts.estimator(batch)
    before = batch["state_value"].clone()
    with torch.no_grad():
        for value in parts.loss.critic_network_params.values(True, True):
            value.add_(0.25)
    parts.estimator(batch)
    assert not torch.isclose(batch["state_value"], before).any()
