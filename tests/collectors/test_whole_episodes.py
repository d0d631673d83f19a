"""Collectors of whole episodes: one of each environment in a batch, from its beginning to its end."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.collectors import Collector, MultiAsyncCollector, MultiSyncCollector, split_trajectories
from specgen_std.envs.cartpole import CartPole
from tensordict import TensorDict

from tests.collectors.policies import pusher
from tests.envs.counting import Grid


def test_they_are_those_of_a_rollout_until_all_are_done() -> None:
    env = CartPole(batch_size=[5])
    env.set_seed(3)
    collector = Collector(env, pusher(), frames_per_batch=5 * 200, whole_episodes=True)
    twin, policy = CartPole(batch_size=[5]), pusher()
    twin.set_seed(3)
    for number in range(2):
        torch.manual_seed(number)
        batch = collector.rollout()
        torch.manual_seed(number)
        expected = twin.rollout(200, policy, break_when_all_done=True)
        mask, numbers = batch["collector", "mask"], batch["collector", "traj_ids"]
        assert batch.names == [None, "time"]
        assert (batch.exclude("collector") == expected)[mask].all()
        lengths = mask.sum(-1)
        assert len(lengths.unique()) > 1
        assert int(lengths.max()) == batch.shape[1] < 200
        for row, length in enumerate(lengths.tolist()):
            assert batch["next", "done"][row, :length].flatten().nonzero().flatten().tolist() == [length - 1]
            assert numbers[row].unique().tolist() == [5 * number + row]


@pytest.mark.parametrize(
    "keywords",
    [{"split_trajs": True}, {"return_same_td": True}, {"init_random_frames": 10}],
    ids=lambda keywords: next(iter(keywords)),
)
def test_keywords_that_contradict_them(keywords: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="whole_episodes"):
        Collector(CartPole(), frames_per_batch=20, whole_episodes=True, **keywords)


@pytest.mark.parametrize("root_done", [True, False])
def test_those_of_agents_end_with_the_last_of_them(root_done: bool) -> None:
    class Apart(Grid):
        def _step(self, tensordict: Any) -> TensorDict:
            made = super()._step(tensordict)
            made["agents", "terminated"][:, 0] |= made["time"] >= 1
            return made

    env = Apart(batch_size=(2,), limit=4, root_done=root_done)
    batch = Collector(env, frames_per_batch=100, whole_episodes=True).rollout()
    assert batch["next", "agents", "done"][:, :, 0].all()  # one agent is done from the first step on
    assert batch["collector", "mask"].tolist() == [[True] * 4] * 2


@pytest.mark.parametrize("size", [(), (2, 3)])
def test_those_of_any_batch_count_no_waiting(size: tuple[int, ...]) -> None:
    collector: Collector[Any] = Collector(
        CartPole(batch_size=size), frames_per_batch=60 * 200, total_frames=200, whole_episodes=True
    )
    with pytest.raises(TypeError, match="has no length"):
        len(collector)
    frames = 0
    for batch in list(collector):
        mask = batch["collector", "mask"]
        assert mask.shape == batch.shape
        assert batch["next", "done"].squeeze(-1)[mask].sum() == max(1, torch.Size(size).numel())
        frames += int(mask.sum())
        again = split_trajectories(batch)  # which pads once more
        assert torch.equal(again["collector", "mask"], mask.reshape(-1, batch.shape[-1]))
    assert collector.frames == frames >= 200


@pytest.mark.parametrize("joined", ["stack", 0])
def test_those_of_workers_are_as_long_as_the_longest(joined: Any) -> None:
    """The last step of the others repeats, and counts no more; each worker has its seed."""
    makers = [partial(CartPole, batch_size=[2])] * 2
    workers = MultiSyncCollector(
        makers, frames_per_batch=4 * 200, total_frames=100, whole_episodes=True, cat_results=joined
    )
    try:
        workers.set_seed(1)
        frames, lengths = 0, set()
        for batch in workers:
            mask = batch["collector", "mask"]
            assert batch.shape[:-1] == ((2, 2) if joined == "stack" else (4,))
            assert batch.names[-1] == "time"
            assert batch["next", "done"].squeeze(-1)[mask].sum() == 4
            assert len(batch["collector", "traj_ids"].unique()) == 4
            longest = mask.sum(-1).reshape(2, 2).amax(-1)
            for worker, steps in zip(batch.reshape(2, 2, -1), longest.tolist(), strict=True):
                last = worker[:, steps - 1 :]
                assert (last["observation"] == last["observation"][:, :1]).all()
            lengths |= {*longest.tolist()}
            frames += int(mask.sum())
        assert len(lengths) > 1
        assert workers.frames == frames >= 100
    finally:
        workers.shutdown()


def test_those_of_workers_go_without_replay_buffers() -> None:
    with pytest.raises(ValueError, match="goes without"):
        MultiAsyncCollector([CartPole] * 2, frames_per_batch=20, whole_episodes=True, split_trajs=True)
    workers = MultiAsyncCollector([CartPole], frames_per_batch=20, total_frames=40, whole_episodes=True)
    try:
        with pytest.raises(TypeError, match="has no length"):
            len(workers)
    finally:
        workers.shutdown()
