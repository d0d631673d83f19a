"""Reacher against plain trigonometry in double precision, arm by arm and link by link."""

from __future__ import annotations

import math
from itertools import accumulate

import pytest
import torch
from specgen_std.chains.reacher import ReacherChoices
from specgen_std.envs import Reacher

JOINTS, DT, POWER, FRICTION, COST = 3, 0.05, 20.0, 2.0, 0.05


def tip(angles: list[float]) -> tuple[float, float]:
    """The end of a chain of links that are 1 long together."""
    x = y = 0.0
    for direction in accumulate(angles):
        x += math.cos(direction) / JOINTS
        y += math.sin(direction) / JOINTS
    return x, y


def test_steps_and_observations() -> None:
    env = Reacher(batch_size=[5])
    env.set_seed(0)
    drawing = torch.Generator().manual_seed(0)
    root = env.reset()
    for _ in range(30):
        action = 2 * torch.rand(5, JOINTS, generator=drawing) - 1
        following = env.step(root.set("action", action))["next"]
        for row in range(5):
            before, after = root[row], following[row]
            pushes = action[row].tolist()
            velocities = [
                v + (POWER * push - FRICTION * v) * DT
                for v, push in zip(before["velocity"].tolist(), pushes, strict=True)
            ]
            angles = [a + v * DT for a, v in zip(before["angle"].tolist(), velocities, strict=True)]
            assert after["velocity"].tolist() == pytest.approx(velocities, abs=1e-5)
            assert after["angle"].cos().tolist() == pytest.approx([math.cos(a) for a in angles], abs=1e-5)
            assert after["angle"].sin().tolist() == pytest.approx([math.sin(a) for a in angles], abs=1e-5)
            assert after["angle"].abs().max() <= math.pi + 1e-6
            assert torch.equal(after["target"], before["target"])
            target, end = after["target"].tolist(), tip(angles)
            cost = COST * sum(push**2 for push in pushes) / JOINTS
            assert after["reward"].item() == pytest.approx(-math.dist(target, end) - cost, abs=1e-5)
            ways = list(accumulate(angles))
            seen = [math.cos(a) for a in ways] + [math.sin(a) for a in ways] + velocities + target
            seen += [target[0] - end[0], target[1] - end[1]]
            assert after["observation"].tolist() == pytest.approx(seen, abs=1e-5)
            assert not after["done"].item()
        root = env.step_mdp(root.set("next", following))


def test_targets_are_all_over_the_reach() -> None:
    """As many on each part of the disc: distances are square roots of uniform numbers."""
    env = Reacher(batch_size=[20_000])
    env.set_seed(0)
    root = env.reset()
    x, y = root["target"].unbind(-1)
    area = (x**2 + y**2).sort().values
    assert (area - torch.linspace(0, 1, 20_000)).abs().max() < 0.02
    assert (
        torch.stack([(x > 0) & (y > 0), (x < 0) & (y > 0), (x < 0) & (y < 0)])
        .float()
        .mean(1)
        .allclose(torch.tensor(0.25), atol=0.02)
    )
    assert (root["velocity"] == 0).all()


def test_choices_are_the_middles_of_five_intervals() -> None:
    chain, env = ReacherChoices(batch_size=[5]), Reacher(batch_size=[5])
    chain.set_seed(0)
    root = chain.reset()
    choice = torch.arange(5)[:, None].expand(5, JOINTS)
    ours = chain.step(root.clone().set("action", choice))["next"]
    force = torch.tensor([-0.8, -0.4, 0.0, 0.4, 0.8])[:, None].expand(5, JOINTS)
    state = root.select("angle", "velocity", "target", "done", "terminated", "truncated")
    theirs = env.step(state.set("action", force))["next"]
    for key in ("angle", "velocity", "reward"):
        torch.testing.assert_close(ours[key], theirs[key])
    last = chain.rollout(60, break_when_any_done=False, auto_reset=True)["next"]
    assert last["truncated"].squeeze(-1).nonzero()[:, 1].tolist() == [49] * 5
    torch.testing.assert_close(last["episode_reward"][:, 49], last["reward"][:, :50].sum(1))
