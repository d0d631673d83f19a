"""The same environment, policy and seeds give the batches of TorchRL's collector, keyword by keyword."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import torchrl.collectors as theirs
from specgen_runtime.collectors import Collector, split_trajectories
from specgen_runtime.interop import to_torchrl
from specgen_std.envs.cartpole import CartPole
from tensordict import TensorDict
from torchrl.collectors.utils import split_trajectories as their_split

from tests.collectors.policies import ENVS, policy_for, pusher

pytestmark = pytest.mark.filterwarnings("ignore")


def _both(name: str, kind: str, *, torchrl: bool, seed_later: bool = False, **keywords: Any) -> list[Any]:
    env: Any = ENVS[name]()
    policy = policy_for(name, kind)
    if not seed_later:
        env.set_seed(5)
    made: Any = (
        theirs.Collector(to_torchrl(env), policy, **keywords)
        if torchrl
        else Collector(env, policy, **keywords)
    )
    if seed_later:
        env.set_seed(5)
    torch.manual_seed(9)  # TorchRL's asks the policy for its keys when it is made
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batches = [batch if batch is None else batch.clone() for batch in made]
    made.shutdown()
    return batches


def _compare(name: str, kind: str, *, ids: bool = True, **keywords: Any) -> list[Any]:
    mine = _both(name, kind, torchrl=False, **keywords)
    peer = _both(name, kind, torchrl=True, **keywords)
    assert len(mine) == len(peer) > 0
    for one, other in zip(mine, peer, strict=True):
        assert one.batch_size == other.batch_size
        assert one.names[-1] == "time"
        assert set(one.keys(True, True)) == set(other.keys(True, True))
        for key in one.keys(True, True):
            if key == ("collector", "traj_ids") and not ids:
                continue
            torch.testing.assert_close(one[key], other[key], rtol=0, atol=0, msg=str(key))
    return mine


@pytest.mark.parametrize("kind", ["random", "module", "function"])
@pytest.mark.parametrize("name", ENVS)
def test_batches(name: str, kind: str) -> None:
    count = ENVS[name]().batch_size.numel()
    mine = _compare(name, kind, frames_per_batch=40 * count, total_frames=120 * count)
    if name != "pendulum":
        ids = torch.cat([batch["collector", "traj_ids"] for batch in mine], -1)
        assert len(ids.unique()) > 2 * count


@pytest.mark.parametrize(
    "keywords",
    [
        {"set_truncated": True},
        {"max_frames_per_traj": 7},
        {"max_frames_per_traj": -1},
        {"init_random_frames": 30},
        {"init_random_frames": 25},
        {"init_random_frames": -1},
        {"split_trajs": True},
        {"split_trajs": False},
        {"track_traj_ids": False},
        {"compact_obs": True},
        {"return_same_td": True},
        {"use_buffers": False},
        {"storing_device": "cpu"},
        {"device": "cpu"},
        {"policy_device": "cpu"},
        {"env_device": "cpu"},
        {"no_cuda_sync": True},
        {"trust_policy": True},
        {"total_frames": 50},
        {"postproc": lambda data: data.select("action", ("next", "reward"))},
        {"exploration_type": None},
    ],
    ids=lambda keywords: ", ".join(
        f"{name}={value}" if not callable(value) else name for name, value in keywords.items()
    ),
)
@pytest.mark.parametrize("name", ["one", "batch"])
def test_keyword(name: str, keywords: dict[str, Any]) -> None:
    _compare(name, "module", **{"frames_per_batch": 30, "total_frames": 90, **keywords})


def test_policies_that_write_no_action_key_twice() -> None:
    """Batches that are rounded up have as many rows as TorchRL's."""
    mine = _compare("batch", "random", frames_per_batch=50, total_frames=150)
    assert mine[0].numel() == 51


def test_reset_at_each_iter() -> None:
    """TorchRL resets once more when it is made, so that its numbers of trajectories begin later."""
    mine = _compare(
        "batch",
        "module",
        ids=False,
        seed_later=True,
        reset_at_each_iter=True,
        frames_per_batch=60,
        total_frames=180,
    )
    ids = torch.cat([batch["collector", "traj_ids"] for batch in mine], -1)
    assert not set(mine[0]["collector", "traj_ids"].unique().tolist()) & set(
        mine[1]["collector", "traj_ids"].unique().tolist()
    )
    assert ids.min() == 0


def test_replay_buffers() -> None:
    from specgen_runtime.data import LazyTensorStorage, ReplayBuffer
    from torchrl.data import LazyTensorStorage as TheirStorage
    from torchrl.data import ReplayBuffer as TheirBuffer

    mine = ReplayBuffer(storage=LazyTensorStorage(1000))
    peer = TheirBuffer(storage=TheirStorage(1000))
    common: dict[str, Any] = {"frames_per_batch": 60, "total_frames": 180}
    assert _both("one", "module", torchrl=False, replay_buffer=mine, **common) == [None] * 3
    assert _both("one", "module", torchrl=True, replay_buffer=peer, **common) == [None] * 3
    assert len(mine) == len(peer) == 180
    ours, other = mine[:], peer[:]
    assert set(ours.keys(True, True)) == set(other.keys(True, True))
    for key in ours.keys(True, True):
        torch.testing.assert_close(ours[key], other[key], rtol=0, atol=0, msg=str(key))


@pytest.mark.parametrize("size", [(40,), (3, 40)])
@pytest.mark.parametrize("by", ["numbers", "done"])
def test_split_trajectories(size: tuple[int, ...], by: str) -> None:
    torch.manual_seed(0)
    env = CartPole(batch_size=size[:-1])
    data = next(iter(Collector(env, frames_per_batch=size[-1] * env.batch_size.numel())))
    if by == "done":
        del data["collector"]
    mine = split_trajectories(data)
    peer = their_split(data, prefix="collector", done_key=None if by == "numbers" else "done")
    assert set(mine.keys(True, True)) == set(peer.keys(True, True))
    for key in mine.keys(True, True):
        if key != ("collector", "traj_ids"):
            assert torch.equal(mine[key], peer[key]), key


def test_a_policy_with_weights_of_its_own() -> None:
    """Weights that are given are the policy's from the next batch on, as in TorchRL."""
    batches = []
    other = TensorDict.from_module(pusher(3)).data
    for torchrl in (False, True):
        env, policy = CartPole(batch_size=[2]), pusher()
        env.set_seed(0)
        made: Any = (
            theirs.Collector(to_torchrl(env), policy, frames_per_batch=40)
            if torchrl
            else Collector(env, policy, frames_per_batch=40)
        )
        torch.manual_seed(1)
        run = iter(made)
        next(run)
        made.update_policy_weights_(other)
        batches.append(next(run).clone())
    assert (batches[0] == batches[1]).all()


def test_len() -> None:
    for make in (Collector, theirs.Collector):
        env: Any = CartPole() if make is Collector else to_torchrl(CartPole())
        assert len(make(env, None, frames_per_batch=30, total_frames=100)) == 4
        with pytest.raises(RuntimeError):
            len(make(env, None, frames_per_batch=30))
