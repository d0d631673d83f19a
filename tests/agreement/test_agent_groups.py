"""Environments with groups of agents: against an interpreter of one instance, and against the same without `groups`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.envs import SerialEnv
from specgen_runtime.interop import to_torchrl
from specgen_runtime.specs import Composite
from specgen_runtime.testing import assert_identical, check_env
from specgen_runtime.transforms import TransformedEnv
from specgen_std.transforms import StepCounter
from tensordict import TensorDict

from tests.support import generate, imported

SCHEMAS = Path(__file__).parent / "schemas"
BATCHES: list[tuple[int, ...]] = [(), (1,), (2,), (3,), (7,), (4, 3), (3, 2)]
"""2 and 3 are numbers of agents, too: wrong broadcasting would go unnoticed there."""
GROUPS = {"red": 3, "blue": 2, "scout": 1}
LIMIT = 12

F = np.float32

each_batch = pytest.mark.parametrize("batch", BATCHES, ids=str)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    texts = {name: (SCHEMAS / name).read_text(encoding="utf-8") for name in ("teams.yaml", "squads.yaml")}
    with imported(
        generate(texts, "team_package"), "team_package", tmp_path_factory.mktemp("teams")
    ) as package:
        yield package


def plain(data: TensorDict) -> dict[str, Any]:
    """One row as NumPy arrays by dotted key."""
    return {
        ".".join(key if isinstance(key, tuple) else (key,)): value.numpy()
        for key, value in data.items(True, True)
    }


def one_step(row: dict[str, Any]) -> dict[str, Any]:
    """What Teams makes of one instance, agent by agent, from the rules of the declaration."""
    after: dict[str, Any] = {key: row[key] for key in ("wind",)}
    move, wind = row["red.move"], row["wind"]
    after["red.position"] = [
        [min(max(F(F(x + dx) + w), F(-4)), F(4)) for x, dx, w in zip(here, way, wind, strict=True)]
        for here, way in zip(row["red.position"], move, strict=True)
    ]
    shots = [gun == 3 for gun in row["red.gun"]]
    energy = [
        min(max(F(e - F(2 if shot else 0.5)), F(0)), F(10))
        for e, shot in zip(row["red.unit.energy"], shots, strict=True)
    ]
    after["red.unit.energy"] = energy
    after["blue.position"] = [
        [
            min(max(F(x + F(a)), F(-4)), F(4))
            for x, a in zip(here, (int(b[1]) - int(b[2]), int(b[3]) - int(b[4])), strict=True)
        ]
        for here, b in zip(row["blue.position"], row["blue.action"], strict=True)
    ]
    after["scout.cell"] = [
        [min(max(x + a, 0), 4) for x, a in zip(cell, (action[0] - 1, action[1]), strict=True)]
        for cell, action in zip(row["scout.cell"], row["scout.action"], strict=True)
    ]
    after["apart"] = [[abs(r[0] - b[0]) for b in after["blue.position"]] for r in after["red.position"]]
    after["clock"] = min(int(row["clock"]) + 1, 1000)
    dead = [e <= 0 for e in energy]
    out = any(abs(x) >= 4 for here in after["blue.position"] for x in here)
    rewards = [F(F(-1 if d else 0.25) - F(0.5 if shot else 0)) for d, shot in zip(dead, shots, strict=True)]
    after["red.reward"] = [[r] for r in rewards]
    after["blue.reward"] = [[F(-2 if out else 1)]] * 2
    after["scout.reward"] = [[F(-0.1)]]
    after["reward"] = [F(sum(rewards)) + 2 * F(-2 if out else 1)]
    ended, cut = all(dead), after["clock"] >= LIMIT
    own: dict[str, tuple[Any, Any]] = {
        "red": (dead, [False] * 3),
        "blue": ([out] * 2, [False] * 2),
        "scout": ([False], [False]),
    }
    for group, (terminated, truncated) in own.items():
        after[f"{group}.terminated"] = [[t or ended] for t in terminated]
        after[f"{group}.truncated"] = [[t or cut] for t in truncated]
        after[f"{group}.done"] = [
            [t or c or ended or cut] for t, c in zip(terminated, truncated, strict=True)
        ]
    return after | {"terminated": [ended], "truncated": [cut], "done": [ended or cut]} | observed(after)


def observed(state: dict[str, Any]) -> dict[str, Any]:
    """What the agents of one instance see."""
    red, blue, energy = state["red.position"], state["blue.position"], state["red.unit.energy"]
    return {
        "red.observation": [[*here, e] for here, e in zip(red, energy, strict=True)],
        "red.gun_mask": [[e > 1, True, here[0] > 0, e > 3] for here, e in zip(red, energy, strict=True)],
        "red.mates": [[[a - b for a, b in zip(here, there, strict=True)] for there in red] for here in red],
        "blue.mask": [[True, x < 3, x > -3, abs(y) < 4, abs(y) < 4] for x, y in blue],
        "blue.here": [True, True],
        "scout.mask": [[x > 0, True, x < 4, True, y < 4] for x, y in state["scout.cell"]],
        "apart_seen": state["apart"],
    }


@each_batch
def test_steps_are_those_of_one_instance(made: ModuleType, batch: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    env = made.Teams(batch_size=batch)
    env.set_seed(1)
    data = env.rollout(60, break_when_any_done=False)
    rows = data.reshape(-1)
    for row in rows.unbind(0):
        before = plain(row.exclude("next"))
        for key, value in observed(before).items():
            assert np.array_equal(before[key], np.array(value)), key
        found = plain(row["next"])
        expected = one_step(before)
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            wanted = np.array(value)
            assert found[key].shape == wanted.shape, key
            if key == "reward":  # a sum in another order
                np.testing.assert_allclose(found[key], wanted, rtol=1e-5)
            else:
                assert np.array_equal(found[key], wanted.astype(found[key].dtype)), key
    assert rows["next", "terminated"].any()
    assert rows["next", "truncated"].any()


@each_batch
def test_random_actions_keep_to_the_masks(made: ModuleType, batch: tuple[int, ...]) -> None:
    data = made.Teams(batch_size=batch).rollout(60, break_when_any_done=False)
    gun = data["red", "gun_mask"].gather(-1, data["red", "gun"].unsqueeze(-1))
    first, second = data["scout", "mask"].split([3, 2], -1)
    ways = data["scout", "action"].unsqueeze(-1)
    assert gun.all()
    assert not (data["blue", "action"] & ~data["blue", "mask"]).any()
    assert first.gather(-1, ways[..., 0, :]).all()
    assert second.gather(-1, ways[..., 1, :]).all()


@each_batch
def test_groups_are_dimensions_that_need_not_be_written(made: ModuleType, batch: tuple[int, ...]) -> None:
    results = []
    for make in (made.Teams, made.TeamsByHand):
        torch.manual_seed(3)
        env = make(batch_size=batch)
        env.set_seed(3)
        data = env.rollout(40, break_when_any_done=False)
        results.append((env, data, torch.rand(1)))
    (env, data, end), (by_hand, other, other_end) = results
    assert torch.equal(end, other_end)
    leaves, others = dict(data.items(True, True)), dict(other.items(True, True))
    assert leaves.keys() == others.keys()
    for key, value in leaves.items():
        assert value.dtype is others[key].dtype
        assert torch.equal(value, others[key]), key
    for group in ("action", "observation", "state", "reward", "done"):
        specs, expected = (getattr(each, f"full_{group}_spec") for each in (env, by_hand))
        assert dict(specs.items(True, True)) == dict(expected.items(True, True))


@each_batch
def test_tensordicts_of_groups_have_a_dimension_for_agents(made: ModuleType, batch: tuple[int, ...]) -> None:
    for make in (made.Teams, made.TeamsTrain, lambda **kw: TransformedEnv(made.Teams(**kw), StepCounter(5))):
        env = make(batch_size=batch)
        data = env.rollout(4, break_when_any_done=False)
        stepped, following = env.step_and_maybe_reset(env.rand_action(env.reset()))
        partly = env.reset(TensorDict({"_reset": torch.ones(*batch, 1, dtype=torch.bool)}, batch))
        by_policy = env.rollout(
            4, lambda td, env=env: td.update(env.full_action_spec.rand()), break_when_any_done=False
        )
        for name, count in GROUPS.items():
            for td in (
                stepped,
                stepped["next"],
                following,
                partly,
                env.fake_tensordict(),
                env.full_action_spec.rand(),
            ):
                assert td[name].batch_size == (*batch, count), name
            for td in (data, data["next"], by_policy, by_policy["next"]):
                assert td[name].batch_size == (*batch, 4, count), name
            assert data[name].names[-2:] == ["time", None]
            for group in ("action", "reward", "done", "observation"):
                spec = getattr(env, f"full_{group}_spec")[name]
                assert isinstance(spec, Composite)
                assert spec.shape == (*batch, count), group
        assert data["red", "unit"].batch_size == (*batch, 4, 3)


def test_group_map(made: ModuleType) -> None:
    agents = {"red": ["red_0", "red_1", "red_2"], "blue": ["ann", "bob"], "scout": ["scout_0"]}
    assert made.Teams.group_map == agents
    assert made.TeamsTrain(batch_size=(2,)).group_map == agents
    assert made.TeamsByHand.group_map == {}


@pytest.mark.parametrize("name", ["Teams", "Squads"])
@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
def test_contract(made: ModuleType, name: str, batch: tuple[int, ...]) -> None:
    check_env(partial(getattr(made, name), batch_size=batch), steps=30)


@pytest.mark.parametrize("name", ["Squads", "SquadsTrain", "TeamsTrain", "TeamsByHand"])
def test_the_end_of_all_is_the_end_of_each_group(made: ModuleType, name: str) -> None:
    torch.manual_seed(0)
    env = getattr(made, name)(batch_size=(40,))
    after = env.rollout(30, break_when_any_done=False)["next"]
    own = 0
    for flag in ("terminated", "truncated", "done"):
        assert after[flag].any()
        for group in GROUPS:
            each = after[group, flag].flatten(2)
            assert each[after[flag].squeeze(-1)].all(), (group, flag)
            own += int(each[~after[flag].squeeze(-1)].sum())
    assert own, "no group ended before the others"


def test_rewards_read_the_flags_that_the_step_says(made: ModuleType) -> None:
    """A group that the root ends is not rewarded as one that ended by itself."""
    torch.manual_seed(0)
    data = made.Squads(batch_size=(40,)).rollout(30, break_when_any_done=False)
    after = data["next"]
    by_itself = after["red", "unit", "energy"] <= 0
    shot = data["red", "gun"] == 3
    expected = torch.where(by_itself, -1.0, 0.25) - torch.where(shot, 0.5, 0.0)
    assert torch.equal(after["red", "reward"].squeeze(-1), expected)
    assert (after["red", "terminated"].squeeze(-1) & ~by_itself).any()


def test_serial_env_keeps_the_agents(made: ModuleType) -> None:
    env = SerialEnv(2, partial(made.Teams, batch_size=(3,)))
    data = env.rollout(5, break_when_any_done=False)
    assert data["red"].batch_size == (2, 3, 5, 3)
    assert data["next", "blue"].batch_size == (2, 3, 5, 2)


@pytest.mark.peers
@pytest.mark.parametrize("name", ["Teams", "TeamsByHand"])
@pytest.mark.parametrize("batch", [(), (3,), (4, 3)], ids=str)
def test_torchrl_takes_both_layouts(made: ModuleType, name: str, batch: tuple[int, ...]) -> None:
    check_env_specs = pytest.importorskip("torchrl.envs").check_env_specs
    env = getattr(made, name)(batch_size=batch)
    wrapped = to_torchrl(env)
    check_env_specs(wrapped)
    data = wrapped.rollout(5, break_when_any_done=False)
    agents = () if name == "TeamsByHand" else (3,)
    assert data["red"].batch_size == (*batch, 5, *agents)


def test_two_rollouts_with_one_seed(made: ModuleType) -> None:
    env = made.TeamsTrain(batch_size=(3,))
    found = []
    for _ in range(2):
        env.set_seed(5)
        torch.manual_seed(5)
        found.append(env.rollout(20, break_when_any_done=False))
    assert_identical(found[0], found[1], "the same seed")
