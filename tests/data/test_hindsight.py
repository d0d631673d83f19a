"""`HERReplayBuffer`: goals come from where they may, rewards are those of the goals, and the rest of a sample stays."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.data import (
    HERReplayBuffer,
    HindsightStrategy,
    LazyTensorStorage,
    ListStorage,
    PrioritizedSampler,
    SamplerWithoutReplacement,
    SliceSampler,
    SliceSamplerWithoutReplacement,
)
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

STRATEGIES = list(HindsightStrategy)


def steps(count: int, first: int = 0, batch: tuple[int, ...] = (), length: int = 7) -> TensorDict:
    """Steps `[count, *batch]`; what is achieved behind each is its own number, and goals are -1."""
    number = torch.arange(first, first + count).reshape(count, *[1] * len(batch)).expand(count, *batch)
    place = torch.arange(torch.Size(batch).numel()).reshape(batch) * 1000
    achieved = (number + place).double().unsqueeze(-1)
    done = (number % length == length - 1).unsqueeze(-1)
    goal = torch.full_like(achieved, -1.0)
    return TensorDict(
        {
            "number": number + place,
            "achieved_goal": achieved - 1,
            "desired_goal": goal,
            "next": {
                "achieved_goal": achieved,
                "desired_goal": goal,
                "reward": torch.full_like(achieved, -5.0),
                "done": done,
                "terminated": torch.zeros_like(done),
            },
        },
        (count, *batch),
    )


def distance(step: TensorDictBase) -> Tensor:
    found: Tensor = step["desired_goal"] - step["next", "achieved_goal"]
    return found


def allowed(strategy: str, at: int, rows: list[int], length: int = 7) -> set[int]:
    """The numbers of steps whose goals a step may have, of those that are kept."""
    episode = {row for row in rows if row // length == at // length}
    return {
        "future": {row for row in episode if row >= at},
        "final": {max(episode)},
        "episode": episode,
        "random": set(rows),
    }[strategy]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("written", [20, 45, 50])  # not full; full, whose newest row is anywhere
@pytest.mark.parametrize("kind", [LazyTensorStorage, ListStorage])
def test_goals_come_from_where_the_strategy_says(
    strategy: HindsightStrategy, written: int, kind: Any
) -> None:
    buffer = HERReplayBuffer(
        distance,
        strategy=strategy,
        her_ratio=1.0,
        storage=kind(30),
        generator=torch.Generator().manual_seed(0),
    )
    for first in range(0, written, 5):
        buffer.extend(steps(5, first))
    rows = list(range(max(0, written - 30), written))
    seen: dict[int, set[int]] = {}
    for _ in range(40):
        sample = buffer.sample(50)
        goals = sample["desired_goal"].squeeze(-1)
        assert torch.equal(sample["next", "desired_goal"].squeeze(-1), goals)
        torch.testing.assert_close(sample["next", "reward"].squeeze(-1), goals - sample["number"])
        for at, goal in zip(sample["number"].tolist(), goals.tolist(), strict=True):
            seen.setdefault(at, set()).add(int(goal))
    assert seen.keys() == set(rows)
    for at, goals in seen.items():
        assert goals <= allowed(strategy, at, rows), at
        if strategy != "random":
            assert goals == allowed(strategy, at, rows), at  # each of them is drawn
    assert (buffer[:]["desired_goal"] == -1).all()  # what is kept stays


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_several_environments_side_by_side(strategy: HindsightStrategy) -> None:
    buffer = HERReplayBuffer(
        distance, strategy=strategy, her_ratio=1.0, storage=LazyTensorStorage(90, ndim=2), dim_extend=0
    )
    for first in range(0, 50, 5):
        buffer.extend(steps(5, first, (3,)))
    rows = list(range(20, 50))
    sample = buffer.sample(600)
    goals = sample["desired_goal"].squeeze(-1).long()
    for at, goal in zip(sample["number"].tolist(), goals.tolist(), strict=True):
        if strategy == "random":
            assert goal % 1000 in rows
        else:
            assert at // 1000 == goal // 1000
            assert goal % 1000 in allowed(strategy, at % 1000, rows)


def test_the_rest_of_a_sample_keeps_its_goals() -> None:
    buffer = HERReplayBuffer(distance, her_ratio=0.3, storage=LazyTensorStorage(30), batch_size=20)
    buffer.extend(steps(30))
    sample = buffer.sample()
    assert (sample["desired_goal"][:6] >= 0).all()
    assert (sample["desired_goal"][6:] == -1).all()
    assert (sample["next", "reward"][6:] == -5).all()
    assert sample["index"].shape == (20,)
    buffer.her_ratio = 0.0
    assert (buffer.sample()["desired_goal"] == -1).all()


@pytest.mark.parametrize("column", [True, False])
def test_episodes_end_where_new_goals_are_reached(column: bool) -> None:
    """Flags that stay without `terminated_fn`; the end of a trajectory stays one."""

    def reached(step: TensorDictBase) -> Tensor:
        found: Tensor = step["desired_goal"] == step["next", "achieved_goal"]
        return found if column else found.squeeze(-1)

    def sampled(**options: Any) -> TensorDict:
        buffer = HERReplayBuffer(
            distance, her_ratio=0.5, storage=LazyTensorStorage(28), generator=torch.Generator().manual_seed(0), **options
        )  # fmt: skip
        data = steps(28)
        data["next", "terminated"] = data["next", "done"].clone()
        buffer.extend(data)
        return buffer.sample(400)

    sample, kept = sampled(terminated_fn=reached), sampled()
    assert torch.equal(sample["desired_goal"], kept["desired_goal"])
    there = sample["desired_goal"] == sample["next", "achieved_goal"]
    assert 0 < there[:200].sum() < 200
    assert torch.equal(sample["next", "terminated"][:200], there[:200])
    assert torch.equal(sample["next", "terminated"][200:], kept["next", "terminated"][200:])
    assert torch.equal(sample["next", "done"], kept["next", "done"] | sample["next", "terminated"])
    assert torch.equal(kept["next", "done"], kept["number"].unsqueeze(-1) % 7 == 6)


def test_a_flag_of_another_shape() -> None:
    buffer = HERReplayBuffer(
        distance, terminated_fn=partial(_constant, torch.zeros(3)), storage=LazyTensorStorage(30)
    )
    buffer.extend(steps(30))
    with pytest.raises(
        ValueError, match=r"terminated_fn gives \[3\] for 8 steps, whose \('next', 'terminated'\) is \[8, 1\]"
    ):
        buffer.sample(10)


def test_numbers_of_trajectories_are_ends() -> None:
    """Of batches of a collector, whose environments stand one behind the other and end in the middle of an episode."""
    data = steps(30, length=100)
    data["collector", "traj_ids"] = torch.arange(30) // 10
    buffer = HERReplayBuffer(distance, strategy="final", her_ratio=1.0, storage=LazyTensorStorage(30))
    buffer.extend(data)
    sample = buffer.sample(100)
    assert torch.equal(sample["desired_goal"].squeeze(-1), sample["number"] // 10 * 10.0 + 9)


def test_prefetched_samples_are_those_that_were_drawn() -> None:
    drawn = []
    for prefetch in (None, 3):
        buffer = HERReplayBuffer(
            distance,
            storage=LazyTensorStorage(30),
            batch_size=20,
            prefetch=prefetch,
            generator=torch.Generator().manual_seed(3),
        )
        buffer.extend(steps(30))
        drawn.append([buffer.sample()["desired_goal"] for _ in range(4)])
    assert all(torch.equal(one, other) for one, other in zip(*drawn, strict=True))


def test_with_other_samplers() -> None:
    by_priority = HERReplayBuffer(
        distance, storage=LazyTensorStorage(30), sampler=PrioritizedSampler(30, 0.7, 0.5), batch_size=20
    )
    by_priority.extend(steps(30))
    sample = by_priority.sample()
    by_priority.update_tensordict_priority(sample.set("td_error", sample["next", "reward"].abs()))
    assert sample["priority_weight"].shape == (20,)
    once = HERReplayBuffer(
        distance, storage=LazyTensorStorage(30), sampler=SamplerWithoutReplacement(), batch_size=10
    )
    once.extend(steps(30))
    assert sorted(int(n) for sample in once for n in sample["number"]) == list(range(30))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            lambda data: data.exclude("desired_goal"),
            KeyError,
            "'desired_goal' is missing in the replay buffer",
        ),
        (lambda data: data.exclude(("next", "achieved_goal")), KeyError, "'achieved_goal'"),
        (
            lambda data: data.exclude(("next", "done"), ("next", "terminated")),
            KeyError,
            "finds no trajectories",
        ),
        (
            lambda data: data.set(("next", "achieved_goal"), torch.zeros(30, 2)),
            ValueError,
            r"'desired_goal' has the shape \[1\], and what is achieved \[2\]",
        ),
    ],
)
def test_rows_without_goals(change: Any, error: type[Exception], message: str) -> None:
    buffer = HERReplayBuffer(distance, storage=LazyTensorStorage(30))
    buffer.extend(change(steps(30)))
    with pytest.raises(error, match=message):
        buffer.sample(10)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match=r"her_ratio must be between 0 and 1, got 1\.5"):
        HERReplayBuffer(distance, her_ratio=1.5)
    with pytest.raises(ValueError, match="strategy is one of future, final, episode, random, got 'last'"):
        HERReplayBuffer(distance, strategy="last")  # type: ignore[arg-type]
    given: Any
    for given, shown in ((torch.zeros(3), r"\[3\]"), (1.0, "float")):
        buffer = HERReplayBuffer(partial(_constant, given), storage=LazyTensorStorage(30))
        buffer.extend(steps(30))
        with pytest.raises(
            ValueError, match=rf"reward_fn gives {shown} for 8 steps, whose \('next', 'reward'\) is \[8, 1\]"
        ):
            buffer.sample(10)


def _constant(value: Any, step: Any) -> Any:
    return value


@pytest.mark.peers
def test_goals_are_what_was_achieved_behind_a_step() -> None:
    """TorchRL's are what was achieved before it: where an episode ended is never a goal. The paper's are states behind."""
    theirs = pytest.importorskip("torchrl.data")
    found = {}
    for name, buffer in {
        "theirs": theirs.HERReplayBuffer(
            distance, her_ratio=1.0, strategy="final", storage=theirs.LazyTensorStorage(30)
        ),
        "ours": HERReplayBuffer(distance, her_ratio=1.0, strategy="final", storage=LazyTensorStorage(30)),
    }.items():
        buffer.extend(steps(28))
        sample = buffer.sample(100)
        found[name] = {int(goal) for goal in sample["desired_goal"]}
    assert found == {"theirs": {5, 12, 19, 26}, "ours": {6, 13, 20, 27}}


@pytest.mark.peers
@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_the_same_steps_give_goals_as_torchrl_does(strategy: Any) -> None:
    """But for that: TorchRL's goals of a step are ours minus one, of all steps."""
    theirs = pytest.importorskip("torchrl.data")
    goals = []
    for buffer, kept in (
        (theirs.HERReplayBuffer, theirs.LazyTensorStorage(30)),
        (HERReplayBuffer, LazyTensorStorage(30)),
    ):
        made = buffer(distance, her_ratio=1.0, strategy=strategy, storage=kept)
        made.extend(steps(24))
        seen: dict[int, set[int]] = {}
        for _ in range(60):
            sample = made.sample(50)
            for at, goal in zip(
                sample["number"].tolist(), sample["desired_goal"].flatten().tolist(), strict=True
            ):
                seen.setdefault(at, set()).add(int(goal))
        goals.append(seen)
    assert goals[1] == {at: {goal + 1 for goal in found} for at, found in goals[0].items()}


@pytest.mark.parametrize("kind", [SliceSampler, SliceSamplerWithoutReplacement])
def test_goals_do_not_change_within_a_part_of_a_trajectory(kind: type[SliceSampler]) -> None:
    message = f"the steps of a {kind.__name__} are read one behind the other: draw single steps"
    with pytest.raises(ValueError, match=message):
        HERReplayBuffer(distance, storage=LazyTensorStorage(30), sampler=kind(slice_len=3), batch_size=6)
    buffer = HERReplayBuffer(distance, storage=LazyTensorStorage(30), batch_size=6)
    with pytest.raises(ValueError, match=message):
        buffer.set_sampler(kind(slice_len=3))
    buffer.extend(steps(20))
    assert len(buffer.sample()) == 6


@pytest.mark.peers
def test_samples_between_batches_that_are_written_over_others() -> None:
    """TorchRL compares the rows of the last write with those of the one before, which fails where they are several."""
    theirs = pytest.importorskip("torchrl.data")
    options: dict[str, Any] = {"her_ratio": 1.0, "strategy": "final"}
    peer = theirs.HERReplayBuffer(distance, storage=theirs.LazyTensorStorage(28), **options)
    mine = HERReplayBuffer(distance, storage=LazyTensorStorage(28), **options)
    for buffer in (peer, mine):
        buffer.extend(steps(28))
        buffer.extend(steps(7, 28))
        buffer.sample(20)
        buffer.extend(steps(7, 35))
    with pytest.raises(RuntimeError, match="ambiguous"):
        peer.sample(20)
    assert {int(goal) for goal in mine.sample(200)["desired_goal"]} == {20, 27, 34, 41}
    mine[0:7] = steps(7, 28, length=100)  # rows of the fifth episode, without its end
    assert {int(goal) for goal in mine.sample(200)["desired_goal"]} == {20, 27, 41}
