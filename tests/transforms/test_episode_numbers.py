"""TrajCounter: numbers of episodes, each given once; against TorchRL's."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.envs import ParallelEnv, check_env_specs
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.transforms import StepCounter, TrajCounter

from tests.transforms.envs import Team, Walk

BATCHES = [(), (3,), (4, 3)]


def numbered(*batch: int, **options: Any) -> TransformedEnv:
    return TransformedEnv(Walk(*batch), Compose(StepCounter(7), TrajCounter(**options)))


@pytest.mark.parametrize("batch", BATCHES)
def test_episodes_are_numbered_in_their_order(batch: tuple[int, ...]) -> None:
    check_env_specs(numbered(*batch))
    env = numbered(*batch)
    torch.manual_seed(0)
    data = env.rollout(40, break_when_any_done=False)
    numbers, rows = data["traj_count"].squeeze(-1), torch.Size(batch).numel()
    assert numbers.dtype == torch.int64
    assert torch.equal(numbers, data["next", "traj_count"].squeeze(-1))
    by_row = numbers.reshape(rows, 40)
    assert torch.equal(by_row[:, 0], torch.arange(rows))
    begins = torch.cat([torch.zeros(rows, 1).bool(), data["next", "done"].reshape(rows, 40)[:, :-1]], 1)
    assert torch.equal(by_row[:, 1:] != by_row[:, :-1], begins[:, 1:])
    # In the order in which episodes begin, rows of one moment in the order of the batch.
    given = by_row.T[begins.T]
    assert torch.equal(given, torch.arange(rows, rows + len(given)))
    assert env.state_dict()["transforms.1.begun|done"] >= rows + len(given)


def test_rows_that_go_on_keep_their_number() -> None:
    env = numbered(4)
    root = env.reset()
    assert root["traj_count"].flatten().tolist() == [0, 1, 2, 3]
    root["_reset"] = torch.tensor([[False], [True], [False], [True]])
    assert env.reset(root)["traj_count"].flatten().tolist() == [0, 4, 2, 5]
    assert env.reset()["traj_count"].flatten().tolist() == [6, 7, 8, 9]


def test_groups_and_other_names() -> None:
    env = TransformedEnv(Team(3), Compose(StepCounter(4), TrajCounter(out_key="episode")))
    still = {("agents", "action"): torch.zeros(3, 2, 1)}
    data = env.rollout(9, lambda td: td.update(still), break_when_any_done=False)
    assert data["episode"].squeeze(-1)[:, [0, 4, 8]].T.reshape(-1).tolist() == list(range(9))


def test_saved_and_frozen() -> None:
    env = numbered(2)
    env.rollout(3)
    twin = numbered(2)
    twin.load_state_dict(env.state_dict())
    assert twin.reset()["traj_count"].flatten().tolist() == [2, 3]
    twin.transform[1].freeze()
    again = [twin.reset()["traj_count"].flatten().tolist() for _ in range(2)]
    assert again == [[4, 5], [4, 5]]


def worker(transform: TrajCounter, steps: int) -> TransformedEnv:
    return TransformedEnv(Walk(), Compose(StepCounter(steps), transform.clone()))


def test_four_processes_give_each_number_once() -> None:
    transform = TrajCounter()
    alone = TransformedEnv(Walk(), transform)
    transform.share_memory()
    workers = ParallelEnv(4, [partial(worker, transform.clone(), steps) for steps in (2, 3, 4, 5)])
    data = workers.rollout(30, break_when_any_done=False)
    workers.close()
    begins = torch.cat([torch.ones(4, 1).bool(), data["next", "done"].squeeze(-1)[:, :-1]], 1)
    given = data["traj_count"].squeeze(-1)[begins].tolist()
    assert len({*given}) == len(given) > 25
    assert alone.reset()["traj_count"].item() > max(given)


def test_recorded_data_have_no_order() -> None:
    with pytest.raises(NotImplementedError, match="not on recorded data"):
        TrajCounter()(Walk(3).rollout(4))


@pytest.mark.peers
@pytest.mark.parametrize("batch", BATCHES)
def test_agrees_with_torchrl(batch: tuple[int, ...]) -> None:
    theirs = pytest.importorskip("torchrl.envs", reason="the extra `peers`")
    from tests.transforms.test_against_torchrl import TheirWalk, run

    peer = theirs.TransformedEnv(
        TheirWalk(*batch), theirs.Compose(theirs.StepCounter(7), theirs.TrajCounter("number"))
    )
    run(numbered(*batch, out_key="number"), peer, partial=bool(batch))
