"""The update by hand that is timed against a printed one does the same work: parameters and metrics are equal behind it."""

from __future__ import annotations

import torch
from specgen_std.pipelines.ppo_cartpole import PPOCartPole, PPOCartPoleConfig, update

from benchmarks.flat_training import FlatUpdate
from benchmarks.training import first_minibatch


def test_same_updates() -> None:
    parts = PPOCartPole(PPOCartPoleConfig())
    minibatch = first_minibatch(parts)
    by_hand = FlatUpdate(parts, minibatch)
    for _ in range(5):
        ours, theirs = update(parts, minibatch), by_hand()
        for name, value in ours._asdict().items():
            torch.testing.assert_close(getattr(theirs, name), value, msg=name)
    for network, flat in ((parts.actor_network, by_hand.actor), (parts.critic_network, by_hand.critic)):
        for ours_, theirs_ in zip(network.parameters(), flat.parameters(), strict=True):
            torch.testing.assert_close(theirs_, ours_)
