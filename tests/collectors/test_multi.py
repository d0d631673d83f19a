"""Collectors in processes: what they give, and what happens when one is killed."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.collectors import Collector, MultiAsyncCollector, MultiSyncCollector, WorkerLostError
from specgen_runtime.collectors.worker import worker_seed
from specgen_std.envs.cartpole import CartPole

from tests.collectors.makers import AlwaysDies, FailsOnce, Raises
from tests.collectors.policies import pusher


def _sync(**keywords: Any) -> Any:
    options = {"frames_per_batch": 80, "total_frames": 240, **keywords}
    return MultiSyncCollector([partial(CartPole, batch_size=[2])] * 2, pusher(), **options)


def test_a_batch_is_that_of_single_collectors() -> None:
    collector = _sync()
    collector.set_seed(3)
    batches = list(collector)
    collector.shutdown()
    assert [batch.shape for batch in batches] == [(2, 2, 20)] * 3
    assert batches[0].names[-1] == "time"
    for place in range(2):
        env, policy = CartPole(batch_size=[2]), pusher()
        seed = worker_seed(3, place, 0)
        env.set_seed(seed)
        torch.manual_seed(seed)
        single: Any = Collector(env, policy, frames_per_batch=40, first_traj_id=place, traj_id_stride=2)
        run = iter(single)
        for batch in batches:
            mine, alone = batch[place].exclude("policy_version", ("next", "policy_version")), next(run)
            assert (mine == alone).all()


def test_joined_state_and_weights() -> None:
    collector = _sync(cat_results=0, total_frames=-1)
    run = iter(collector)
    first = next(run)
    assert first.shape == (4, 20)
    assert (first["policy_version"] == 0).all()
    torch.nn.init.zeros_(collector.policy[0].module.weight)
    with torch.no_grad():
        collector.policy[0].module.bias.copy_(torch.tensor([-100.0, 100.0]))
    collector.update_policy_weights_()
    second = next(run)
    assert (second["policy_version"] == 1).all()
    assert (second["action"] == 1).all()
    state = collector.state_dict()
    third = next(run)
    other = _sync(cat_results=0)
    other.load_state_dict(state)
    assert (next(iter(other)) == third).all()
    with pytest.raises(KeyError, match="2 workers, expected 1"):
        MultiSyncCollector([CartPole], frames_per_batch=8).load_state_dict(state)
    collector.shutdown()
    other.shutdown()


@pytest.mark.parametrize("kind", [MultiSyncCollector, MultiAsyncCollector])
def test_a_worker_that_is_killed_in_a_batch_is_replaced(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "killed"
    makers = [partial(CartPole, batch_size=[2]), partial(FailsOnce, str(path), batch_size=[2])]
    frames = 400 if kind is MultiSyncCollector else 200
    collector = kind(makers, frames_per_batch=frames, total_frames=5 * frames)
    batches = list(collector)
    assert path.exists()
    assert len(batches) == 5
    assert sum(batch.numel() for batch in batches) == 5 * frames
    if kind is MultiSyncCollector:
        assert collector.lives == [0, 1]
        ids = [batch["collector", "traj_ids"] for batch in batches]
        assert all((each[place] % 2 == place).all() for each in ids for place in range(2))
    collector.shutdown()


def test_workers_that_are_killed_between_batches() -> None:
    collector = _sync(total_frames=-1)
    run = iter(collector)
    next(run)
    os.kill(collector.worker_pids[1], signal.SIGKILL)
    begin = time.monotonic()
    assert next(run).shape == (2, 2, 20)
    assert time.monotonic() - begin < 60
    assert collector.lives == [0, 1]
    os.kill(collector.worker_pids[0], signal.SIGKILL)
    assert set(collector.state_dict()) > {"worker0", "worker1"}
    assert collector.lives == [1, 1]
    collector.shutdown()


def test_workers_that_always_die() -> None:
    collector = MultiSyncCollector([AlwaysDies], frames_per_batch=8)
    with pytest.raises(WorkerLostError, match=r"SIGKILL; 3 workers in a row died"):
        next(iter(collector))
    assert collector.closed


def test_what_a_worker_raises() -> None:
    collector = MultiSyncCollector([CartPole, Raises], frames_per_batch=8)
    with pytest.raises(ArithmeticError, match="no step"):
        next(iter(collector))
    with pytest.raises(TypeError, match="found int"):
        MultiSyncCollector([int], frames_per_batch=8)  # type: ignore[list-item]


def test_asynchronous_batches() -> None:
    collector = MultiAsyncCollector([CartPole] * 2, pusher(), frames_per_batch=50, total_frames=400)
    seen = []
    for batch in collector:
        assert batch.shape == (50,)
        seen.append(int(batch["policy_version"][0]))
        collector.update_policy_weights_()
    assert len(seen) == 8
    assert seen == sorted(seen) or max(seen) >= 4
    assert max(seen) <= 7
    collector.shutdown()


def test_refused() -> None:
    for keywords, error, text in (
        ({"num_workers": 3}, ValueError, "2 functions"),
        ({"cat_results": "sum"}, ValueError, "cat_results"),
        ({"policy_factory": pusher}, TypeError, "exclude"),
    ):
        with pytest.raises(error, match=text):
            _sync(**keywords)
    with pytest.raises(ValueError, match="of one"):
        MultiAsyncCollector([CartPole], frames_per_batch=8, cat_results=0)
    with pytest.raises(TypeError, match="one process only"):
        MultiSyncCollector([CartPole()], frames_per_batch=8)
