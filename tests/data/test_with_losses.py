"""Replay buffers with environments, losses and value estimators: keys, shapes and marks are those that they read."""

from __future__ import annotations

import torch
from specgen_runtime.data import (
    LazyTensorStorage,
    SliceSampler,
    TensorDictPrioritizedReplayBuffer,
    TensorDictReplayBuffer,
)
from specgen_runtime.modules import QValueActor
from specgen_runtime.objectives import SoftUpdate
from specgen_runtime.objectives.value.functional import generalized_advantage_estimate
from specgen_runtime.transforms import MultiStepTransform
from specgen_std.envs.cartpole import CartPole
from specgen_std.losses.dqn import DQNLoss
from torch import nn


def test_priorities_of_a_loss() -> None:
    """Prioritized windows of several steps, of several environments: what the loss wrote is what is drawn by."""
    torch.manual_seed(0)
    env = CartPole(batch_size=[8])
    network = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
    loss_module = DQNLoss(
        QValueActor(network, in_keys=["observation"], spec=env.action_spec), delay_value=True
    )
    target_updater = SoftUpdate(loss_module, tau=0.05)
    optimizer = torch.optim.Adam(loss_module.parameters(), 3e-3)
    buffer = TensorDictPrioritizedReplayBuffer(
        alpha=0.6,
        beta=0.4,
        storage=LazyTensorStorage(5_000, ndim=2),
        batch_size=64,
        transform=MultiStepTransform(3, 0.99),
    )
    for _ in range(3):
        buffer.extend(env.rollout(100, break_when_any_done=False))
    assert len(buffer) == 8 * 297
    for _ in range(20):
        sample = buffer.sample()
        loss = loss_module(sample)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        target_updater.step()
        buffer.update_tensordict_priority(sample)
    row, column = sample["index"].unbind(-1)
    priorities = buffer.sampler._trees.priorities.view(-1, 8)  # type: ignore[attr-defined]
    assert torch.allclose(priorities[row, column], sample["td_error"].flatten())
    assert len(sample["priority_weight"].unique()) > 20


def test_estimates_end_with_each_slice() -> None:
    """Advantages of slices that stand behind each other are those of each slice alone."""
    torch.manual_seed(0)
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(2_000, ndim=2), sampler=SliceSampler(slice_len=8), batch_size=256
    )
    buffer.extend(CartPole(batch_size=[8]).rollout(100, break_when_any_done=False))
    sample = buffer.sample()
    assert sample["next", "terminated"].any()

    def advantage(batch: tuple[int, ...]) -> torch.Tensor:
        data = sample.reshape(batch)
        value, next_value = (each["observation"][..., :1] for each in (data, data["next"]))
        signals = (data["next", key] for key in ("reward", "done", "terminated"))
        return generalized_advantage_estimate(0.9, 0.9, value, next_value, *signals)[0].flatten()

    assert torch.equal(advantage((256,)), advantage((32, 8)))
