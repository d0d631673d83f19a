"""Native toy-text environments against Gymnasium's tables of transitions, state by state and action by action."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import pytest
import torch
from specgen_std.envs import CliffWalking, FrozenLake, FrozenLake8x8, Taxi
from specgen_std.envs import cliff_walking as cliffs
from specgen_std.envs import frozen_lake as lakes
from tensordict import TensorDict
from torch import Tensor

Table = dict[tuple[int, int], dict[tuple[int, float, bool], float]]
"""For each state and action: the probability of each next state, reward and end."""


def reference(id: str, **kwargs: Any) -> tuple[Table, Any]:
    env: Any = gymnasium.make(id, **kwargs).unwrapped
    table: Table = {}
    for state, actions in env.P.items():
        for action, outcomes in actions.items():
            found: dict[tuple[int, float, bool], float] = defaultdict(float)
            for probability, following, reward, ended in outcomes:
                found[int(following), float(reward), bool(ended)] += probability
            table[state, action] = {key: value for key, value in found.items() if value}
    return table, env


def table_of(
    states: int, actions: int, outcomes: Sequence[float], step: Callable[[Tensor, Tensor, int], Any]
) -> Table:
    """What `step(states, actions, outcome)` gives for all pairs, for draws of these probabilities."""
    state = torch.arange(states).repeat_interleave(actions)
    action = torch.arange(actions).repeat(states)
    table: Table = {pair: defaultdict(float) for pair in zip(state.tolist(), action.tolist(), strict=True)}
    for index, probability in enumerate(outcomes):
        following, reward, ended = step(state, action, index)
        rows = zip(following.tolist(), reward.flatten().tolist(), ended.flatten().tolist(), strict=True)
        for pair, row in zip(table, rows, strict=True):
            if probability:
                table[pair][row] += probability
    return table


def assert_same(found: Table, expected: Table) -> None:
    assert found.keys() == expected.keys()
    for pair, outcomes in expected.items():
        assert found[pair].keys() == outcomes.keys(), pair
        for outcome, probability in outcomes.items():
            assert abs(found[pair][outcome] - probability) < 1e-12, (pair, outcome)


@pytest.mark.parametrize(
    ("make", "id"), [(FrozenLake, "FrozenLake-v1"), (FrozenLake8x8, "FrozenLake8x8-v1")], ids=str
)
@pytest.mark.parametrize("slippery", [True, False], ids=["slippery", "dry"])
@pytest.mark.parametrize("success", [1 / 3, 0.8, 1.0])
def test_frozen_lake(make: type[Any], id: str, slippery: bool, success: float) -> None:
    expected, env = reference(id, is_slippery=slippery, success_rate=success)
    lake = make(is_slippery=slippery, success_rate=success)
    prefix = "frozen_lake" if make is FrozenLake else "frozen_lake8x8"
    advance, reward = getattr(lakes, f"{prefix}_advance"), getattr(lakes, f"{prefix}_reward")
    fail = (1 - success) / 2
    # the draw is cut into three pieces: as meant, to one side, to the other
    draws = [success / 2, success + fail / 2, success + 1.5 * fail]

    def step(state: Tensor, action: Tensor, index: int) -> Any:
        luck = torch.full(state.shape, draws[index])
        after = advance(lake.params, lake.consts, state, action, luck)
        return after.cell, reward(lake.consts, state, after.cell), after.terminated

    outcomes = [success, fail, fail] if slippery else [1.0, 0.0, 0.0]
    assert_same(table_of(env.observation_space.n, 4, outcomes, step), expected)
    assert lake.reset()["observation"] == 0


def test_where_the_ice_decides() -> None:
    """The pieces of the draw are as long as their probabilities."""
    lake = FrozenLake(success_rate=0.5)

    def onto(luck: float) -> int:
        cell, right = torch.tensor(9), torch.tensor(2)
        after = lakes.frozen_lake_advance(lake.params, lake.consts, cell, right, torch.tensor(luck))
        return int(after.cell)

    # from the cell 9 to the right is 10, and 13 and 5 are beside the way
    assert [onto(luck) for luck in (0.0, 0.499, 0.5, 0.749, 0.75, 0.999)] == [10, 10, 13, 13, 5, 5] or [
        onto(luck) for luck in (0.0, 0.499, 0.5, 0.749, 0.75, 0.999)
    ] == [10, 10, 5, 5, 13, 13]


@pytest.mark.parametrize("slippery", [True, False], ids=["slippery", "dry"])
def test_cliff_walking(slippery: bool) -> None:
    expected, _ = reference("CliffWalking-v1", is_slippery=slippery)
    env = CliffWalking(is_slippery=slippery)

    def step(state: Tensor, action: Tensor, index: int) -> Any:
        slip = torch.full(state.shape, index)
        after = cliffs.cliff_walking_advance(env.params, env.consts, state, action, slip)
        return after.cell, after.reward, after.terminated

    assert_same(table_of(48, 4, [1 / 3] * 3 if slippery else [1.0, 0.0, 0.0], step), expected)
    assert env.reset()["observation"] == 36


def test_taxi() -> None:
    expected, _ = reference("Taxi-v4")
    env = Taxi(batch_size=(3000,))

    def step(state: Tensor, action: Tensor, index: int) -> Any:
        return taxi_step(env, state, action)

    assert_same(table_of(500, 6, [1.0], step), expected)


def taxi_step(env: Taxi, state: Tensor, action: Tensor) -> Any:
    """All 3000 pairs at once, through `env.step`."""
    no = torch.zeros(3000, 1, dtype=torch.bool)
    root = TensorDict(
        {
            "row": state // 100,
            "column": state // 20 % 5,
            "passenger": state // 4 % 5,
            "destination": state % 4,
            "action": action,
            "done": no,
            "terminated": no,
            "truncated": no,
        },
        batch_size=(3000,),
    )
    after = env.step(root)["next"]
    return after["observation"], after["reward"], after["terminated"]


def test_where_taxi_begins() -> None:
    """Gymnasium's states of non-zero initial probability, each as likely."""
    env: Any = gymnasium.make("Taxi-v4").unwrapped
    wanted = torch.as_tensor(env.initial_state_distrib)
    made = Taxi(batch_size=(300_000,))
    made.set_seed(0)
    shares = torch.bincount(made.reset()["observation"], minlength=500) / 300_000
    assert torch.equal(shares > 0, wanted > 0)
    assert (shares - wanted).abs().max() < 5e-4


def test_a_random_walk_on_the_ice() -> None:
    """It ends about as Gymnasium's does."""
    lake = FrozenLake(batch_size=(2000,))
    lake.set_seed(0)
    torch.manual_seed(0)
    rollout = lake.rollout(100, break_when_any_done=False)
    ended = rollout["next", "terminated"]
    rate = rollout["next", "reward"].sum() / ended.sum()
    assert abs(rate - 0.0139) < 0.003  # the share of random episodes that reach the goal
