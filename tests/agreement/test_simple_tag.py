"""SimpleTag against a plain interpreter of one instance in double precision, particle by particle.

The interpreter follows the rules of the particle worlds (see the schema) pair by pair, as their authors wrote them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from specgen_std.envs import SimpleTag
from tensordict import TensorDict

BATCHES: list[tuple[int, ...]] = [(), (1,), (2,), (3,), (4, 3)]
DT, DAMPING, FORCE, MARGIN = 0.1, 0.25, 100.0, 0.001
RADII = [0.075, 0.075, 0.075, 0.05, 0.2, 0.2]
PUSHES = [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)]

Vector = np.ndarray[Any, np.dtype[np.float64]]


def repulsion(here: Vector, there: Vector, reach: float) -> Vector:
    """The force on a disc at `here` by one at `there`; they touch at the distance `reach`."""
    distance = math.dist(here, there)
    penetration = float(np.logaddexp(0.0, (reach - distance) / MARGIN)) * MARGIN
    return FORCE * penetration * (here - there) / distance


def one_step(positions: Vector, velocities: Vector, actions: list[int]) -> tuple[Vector, Vector]:
    """Positions of all six discs and velocities of the four that move, after a step."""
    moved, faster = positions.copy(), velocities.copy()
    for i in range(4):
        force = np.array(PUSHES[actions[i]]) * (3.0 if i < 3 else 4.0)
        for j in range(6):
            if j != i:
                force = force + repulsion(positions[i], positions[j], RADII[i] + RADII[j])
        moved[i] = positions[i] + velocities[i] * DT
        faster[i] = velocities[i] * (1 - DAMPING) + force * DT
        speed, most = math.hypot(*faster[i]), 1.0 if i < 3 else 1.3
        if speed > most:
            faster[i] = faster[i] / speed * most
    return moved, faster


def rewards(positions: Vector) -> tuple[float, float]:
    """Of each adversary, and of the agent."""
    touches = sum(math.dist(positions[i], positions[3]) < RADII[i] + RADII[3] for i in range(3))
    penalty = sum(
        0.0 if x < 0.9 else (x - 0.9) * 10 if x < 1 else min(math.exp(2 * x - 2), 10.0)
        for x in np.abs(positions[3])
    )
    return 10.0 * touches, -10.0 * touches - penalty


def sight(positions: Vector, velocities: Vector, me: int) -> list[float]:
    """What one particle sees."""
    seen = [*velocities[me], *positions[me]]
    for other in (4, 5, *(j for j in range(4) if j != me)):
        seen += [*(positions[other] - positions[me])]
    return seen if me == 3 else [*seen, *velocities[3]]


def world(row: TensorDict) -> tuple[Vector, Vector]:
    positions = torch.cat((row["adversary", "position"], row["agent", "position"], row["obstacle"]))
    velocities = torch.cat((row["adversary", "velocity"], row["agent", "velocity"]))
    return positions.double().numpy(), velocities.double().numpy()


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_steps_are_those_of_one_instance(batch: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    env = SimpleTag(batch_size=batch)
    env.set_seed(2)
    root = env.reset()
    root["adversary", "position"] *= 0.4  # so that they meet
    root["agent", "position"] *= 0.4
    data = env.rollout(60, break_when_any_done=False, auto_reset=False, tensordict=root)
    touches = 0
    for row in data.reshape(-1).unbind(0):
        positions, velocities = world(row)
        touches += int((row["next", "adversary", "reward"] > 0).any())
        actions = [*row["adversary", "action"].tolist(), *row["agent", "action"].tolist()]
        moved, faster = one_step(positions, velocities, actions)
        found, found_speeds = world(row["next"])
        np.testing.assert_allclose(found, moved, atol=2e-6)
        np.testing.assert_allclose(found_speeds, faster, atol=2e-6)
        hunters, fleeing = rewards(found)
        np.testing.assert_allclose(row["next", "adversary", "reward"], [[hunters]] * 3)
        np.testing.assert_allclose(row["next", "agent", "reward"], [[fleeing]], atol=1e-5)
        for each in range(4):
            group, place = ("agent", 0) if each == 3 else ("adversary", each)
            shown = row["next", group, "observation"][place]
            np.testing.assert_allclose(shown, sight(found, found_speeds, each), atol=1e-6)
    assert touches, "nobody was caught"


def test_particles_in_one_place_stay_finite() -> None:
    env = SimpleTag(batch_size=(3,))
    root = env.reset()
    root["adversary", "position"] = torch.zeros(3, 3, 2)
    root["agent", "position"] = torch.zeros(3, 1, 2)
    after = env.step(env.rand_action(root))["next"]
    assert all(value.isfinite().all() for value in after.values(True, True) if value.dtype.is_floating_point)


def test_groups_are_called_as_in_the_original() -> None:
    assert SimpleTag.group_map == {
        "adversary": ["adversary_0", "adversary_1", "adversary_2"],
        "agent": ["agent_0"],
    }
    assert SimpleTag(batch_size=(5,)).reset()["adversary"].batch_size == (5, 3)


def test_constants_are_made_where_the_data_is() -> None:
    env = SimpleTag(batch_size=(3,), device="meta")
    data = env.step(env.rand_action(env.reset()))
    assert {value.device.type for value in data.values(True, True)} == {"meta"}
