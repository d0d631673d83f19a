"""GridWorld against a plain interpreter of one instance, written by hand from the rules: bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.testing import check_env
from tensordict import TensorDict

from tests.support import generate, imported

SCHEMA = Path(__file__).parent / "schemas" / "grid_world.yaml"
BATCHES: list[tuple[int, ...]] = [(), (1,), (3,), (5,), (7,), (4, 3)]
"""3 is the number of agents and 5 the size of the grid: wrong broadcasting would go unnoticed there."""
STEPS = 200
BONUS = 1.5

N, SIZE = 3, 5
MOVES = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)]


@dataclass
class World:
    """One instance: plain integers and lists, no arrays."""

    pos: list[tuple[int, int]]
    goal: list[tuple[int, int]]
    walls: list[list[bool]]
    cost: np.float32

    def step(self, action: list[int], bonus: float) -> dict[str, Any]:
        """Move the agents and say what came of it."""
        want = [
            (min(max(x + MOVES[a][0], 0), SIZE - 1), min(max(y + MOVES[a][1], 0), SIZE - 1))
            for (x, y), a in zip(self.pos, action, strict=True)
        ]
        self.pos = [
            here if self.walls[there[0]][there[1]] or want.count(there) > 1 else there
            for here, there in zip(self.pos, want, strict=True)
        ]
        arrived = [here == there for here, there in zip(self.pos, self.goal, strict=True)]
        reward = [np.float32(bonus) if home else -self.cost for home in arrived]
        return {"arrived": arrived, "reward": reward, **self.observe()}

    def observe(self) -> dict[str, Any]:
        """What the agents see."""
        observation = [
            [np.float32(value) / np.float32(SIZE - 1) for value in (*here, *there)]
            for here, there in zip(self.pos, self.goal, strict=True)
        ]
        mask = [[self._free(x + dx, y + dy) for dx, dy in MOVES] for x, y in self.pos]
        return {"observation": observation, "mask": mask}

    def _free(self, x: int, y: int) -> bool:
        return 0 <= x < SIZE and 0 <= y < SIZE and not self.walls[x][y]


@pytest.fixture(scope="module")
def grid_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    files = generate({"grid_world.yaml": SCHEMA.read_text(encoding="utf-8")}, "grid_package")
    with imported(files, "grid_package", tmp_path_factory.mktemp("grid")) as package:
        yield package.GridWorld


def worlds_in(root: TensorDict) -> list[World]:
    """The instances that the rows of a batch hold."""
    flat = root.reshape(-1)
    return [
        World(
            pos=[(int(x), int(y)) for x, y in row["pos"]],
            goal=[(int(x), int(y)) for x, y in row["goal"]],
            walls=row["walls"].tolist(),
            cost=row["cost"].numpy()[()],
        )
        for row in flat.unbind(0)
    ]


def check_root(data: TensorDict, worlds: list[World]) -> None:
    """Compare everything that is at the root and follows from a state."""
    rows = data.reshape(-1)
    same(rows["pos"], [world.pos for world in worlds], torch.int64)
    same(rows["goal"], [world.goal for world in worlds], torch.int64)
    same(rows["walls"], [world.walls for world in worlds], torch.bool)
    same(rows["cost"], [world.cost for world in worlds], torch.float32)
    seen = [world.observe() for world in worlds]
    same(rows["agents", "observation"], [each["observation"] for each in seen], torch.float32)
    same(rows["agents", "action_mask"], [each["mask"] for each in seen], torch.bool)


def check_step(data: TensorDict, worlds: list[World]) -> None:
    """Let the interpreter take the step that the environment took, and compare every entry of `next`."""
    actions = data["agents", "action"].reshape(-1, N).tolist()
    results = [world.step(action, BONUS) for world, action in zip(worlds, actions, strict=True)]
    after = data["next"].reshape(-1)
    check_root(after, worlds)
    arrived = [[[home] for home in each["arrived"]] for each in results]
    same(after["agents", "reward"], [[[r] for r in each["reward"]] for each in results], torch.float32)
    for flag in ("terminated", "done"):
        same(after["agents", flag], arrived, torch.bool)
        same(after[flag], [[all(each["arrived"])] for each in results], torch.bool)
    for flag in (after["truncated"], after["agents", "truncated"]):
        assert not flag.any()


def same(found: torch.Tensor, expected: Any, dtype: torch.dtype) -> None:
    wanted = torch.as_tensor(np.array(expected)).to(dtype)
    assert found.dtype is dtype
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_steps_and_resets(grid_world: Any, batch: tuple[int, ...]) -> None:
    env = grid_world(bonus=BONUS, batch_size=batch)
    env.set_seed(0)
    torch.manual_seed(0)
    root = env.reset()
    ended = 0
    for step in range(STEPS):
        check_root(root, worlds_in(root))
        root = env.rand_action(root)
        if step % 11 == 3:
            bring_home(root)
        worlds = worlds_in(root)
        transition, following = env.step_and_maybe_reset(root)
        check_step(transition, worlds)
        done = transition["next", "done"]
        ended += int(done.sum())
        check_kept(following, transition["next"], ~done)
        if step % 20 == 7:
            following = reset_some(env, following)
        root = following
    assert ended >= STEPS // 11, "nothing was reset on the way"


def bring_home(root: TensorDict) -> None:
    """Put the goals of every third row under its agents and let them stand: the episode ends there."""
    size = max(1, root.batch_size.numel())
    chosen = (torch.arange(size) % 3 == 0).reshape(*root.batch_size, 1, 1)
    root["goal"] = torch.where(chosen, root["pos"], root["goal"])
    root["agents", "action"] = root["agents", "action"].masked_fill(chosen.squeeze(-1), 0)


def check_kept(following: TensorDict, before: TensorDict, kept: torch.Tensor) -> None:
    """Rows that were not reset go on from where they were."""
    rows = kept.reshape(-1)
    for key in ("pos", "goal", "walls", "cost", ("agents", "observation"), ("agents", "action_mask")):
        assert torch.equal(
            following[key].reshape(len(rows), -1)[rows], before[key].reshape(len(rows), -1)[rows]
        )
    assert not following["done"].any()


def reset_some(env: Any, root: TensorDict) -> TensorDict:
    """Start new episodes in every other row."""
    size = max(1, env.batch_size.numel())
    mask = (torch.arange(size) % 2 == 0).reshape(*env.batch_size, 1)
    before = root.clone()
    after: TensorDict = env.reset(root.set("_reset", mask))
    check_kept(after, before, ~mask)
    check_root(after, worlds_in(after))
    same(
        after["agents", "done"].reshape(size, -1)[mask.reshape(-1)],
        np.zeros((int(mask.sum()), N)),
        torch.bool,
    )
    return after


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_rollout(grid_world: Any, batch: tuple[int, ...]) -> None:
    env = grid_world(bonus=BONUS, batch_size=batch)
    torch.manual_seed(1)
    data = env.rollout(STEPS, break_when_any_done=False)
    for transition in data.unbind(-1):
        worlds = worlds_in(transition)
        check_root(transition, worlds)
        check_step(transition, worlds)


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_contract(grid_world: Any, batch: tuple[int, ...]) -> None:
    check_env(partial(grid_world, batch_size=batch), steps=60)


def test_keys_and_shapes(grid_world: Any) -> None:
    env = grid_world(batch_size=(7,))
    assert env.reward_keys == [("agents", "reward")]
    assert env.full_reward_spec["agents", "reward"].shape == (7, N, 1)
    assert env.full_done_spec["agents", "done"].shape == (7, N, 1)
    assert env.full_done_spec["done"].shape == (7, 1)
    assert env.full_action_spec["agents", "action"].shape == (7, N)
