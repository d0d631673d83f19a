"""The dynamic transforms against TorchRL's: the same environment and actions, every entry bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import specgen_std.transforms as ours
import torch
from specgen_runtime.envs import GymEnv, check_env_specs
from specgen_runtime.transforms import Compose, TransformedEnv
from tensordict import TensorDict, TensorDictBase

from tests.transforms.envs import Walk, walk_reset, walk_step

theirs = pytest.importorskip("torchrl.envs", reason="the extra `peers`")
specs = pytest.importorskip("torchrl.data", reason="the extra `peers`")

pytestmark = pytest.mark.peers

STEPS = 200


class TheirWalk(theirs.EnvBase):
    """The same walk on TorchRL's base class."""

    def __init__(self, *batch: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__(batch_size=torch.Size(batch))
        spec = specs.Unbounded((*batch, 3), dtype=dtype)
        self.observation_spec = specs.Composite(position=spec, shape=batch)
        self.state_spec = specs.Composite(position=spec.clone(), shape=batch)
        self.action_spec = specs.Bounded(-1.0, 1.0, (*batch, 3), dtype=dtype)
        self.reward_spec = specs.Unbounded((*batch, 1), dtype=dtype)
        self.walk_dtype = dtype

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        return TensorDict({"position": walk_reset(self.batch_size, self.walk_dtype)}, self.batch_size)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        position, reward, over = walk_step(tensordict["position"], tensordict["action"])
        entries = {"position": position, "reward": reward, "terminated": over, "done": over.clone()}
        return TensorDict(entries, self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        del seed


def chains(library: Any, key: str) -> dict[str, Callable[[], list[Any]]]:
    """Chains under comparison; called for both libraries."""
    t = library
    return {
        "InitTracker": lambda: [t.InitTracker()],
        "InitTracker renamed": lambda: [t.InitTracker(init_key="start")],
        "StepCounter": lambda: [t.StepCounter()],
        "StepCounter limited": lambda: [t.StepCounter(max_steps=9)],
        "StepCounter renamed": lambda: [
            t.StepCounter(max_steps=9, step_count_key="age", truncated_key="late")
        ],
        "RewardSum": lambda: [t.RewardSum()],
        "RewardSum renamed": lambda: [t.RewardSum(in_keys=["reward"], out_keys=["total"])],
        "RewardScaling": lambda: [t.RewardScaling(loc=0.3, scale=0.1)],
        "RewardScaling standard": lambda: [t.RewardScaling(loc=0.3, scale=0.1, standard_normal=True)],
        "RewardScaling renamed": lambda: [t.RewardScaling(0.3, 0.1, ["reward"], ["scaled"])],
        "ObservationNorm": lambda: [t.ObservationNorm(loc=0.3, scale=0.7, in_keys=[key])],
        "ObservationNorm standard": lambda: [
            t.ObservationNorm(loc=0.3, scale=0.7, in_keys=[key], standard_normal=True)
        ],
        "ObservationNorm renamed": lambda: [
            t.ObservationNorm(loc=0.3, scale=0.7, in_keys=[key], out_keys=["normed"])
        ],
        "five": lambda: [
            t.InitTracker(),
            t.StepCounter(max_steps=12),
            t.RewardSum(),
            t.ObservationNorm(loc=0.3, scale=0.7, in_keys=[key], out_keys=["normed"]),
            t.RewardScaling(loc=0.0, scale=0.1),
        ],
        "sum of the scaled": lambda: [t.RewardScaling(loc=0.5, scale=0.1), t.RewardSum(), t.StepCounter(7)],
    }


NAMES = list(chains(ours, "x"))


def compare(ours_td: TensorDictBase, theirs_td: TensorDictBase) -> None:
    found, expected = (set(td.keys(True, True)) for td in (ours_td, theirs_td))
    # TorchRL's GymEnv and ours have the same entries; nothing more, nothing less.
    assert found == expected
    for key in expected:
        a, b = ours_td[key], theirs_td[key]
        assert a.shape == b.shape, key
        assert a.dtype == b.dtype, key
        assert torch.equal(a, b), key


def run(env: Any, peer: Any, partial: bool = False) -> None:
    torch.manual_seed(1)
    root, peer_root = env.reset(), peer.reset()
    compare(root, peer_root)
    for step in range(STEPS):
        root = env.rand_action(root)
        for key in env.action_keys:
            peer_root.set(key, root.get(key).clone())
        data, root = env.step_and_maybe_reset(root)
        peer_data, peer_root = peer.step_and_maybe_reset(peer_root)
        compare(data, peer_data)
        if partial and step % 7 == 3:
            mask = torch.rand(*env.batch_size, 1) < 0.4
            root.set("_reset", mask)
            peer_root.set("_reset", mask.clone())
            root, peer_root = env.reset(root), peer.reset(peer_root)
        compare(root.exclude("action"), peer_root.exclude("action"))


@pytest.mark.parametrize("name", NAMES)
def test_cartpole(name: str) -> None:
    env = TransformedEnv(GymEnv("CartPole-v1"), Compose(*chains(ours, "observation")[name]()))
    peer = theirs.TransformedEnv(
        theirs.GymEnv("CartPole-v1"), theirs.Compose(*chains(theirs, "observation")[name]())
    )
    env.set_seed(5, static_seed=True)
    peer.set_seed(5, static_seed=True)
    env.reset()  # TorchRL's set_seed resets; ours seeds the next reset
    run(env, peer)


@pytest.mark.parametrize("batch", [(3,), (7,), (4, 3)])
@pytest.mark.parametrize(
    "name", [name for name in NAMES if name not in ("ObservationNorm", "ObservationNorm standard")]
)
def test_batches_with_partial_resets(name: str, batch: tuple[int, ...]) -> None:
    # ObservationNorm in place is left out: it rewrites what this environment reads, see test_differences.
    env = TransformedEnv(Walk(*batch), Compose(*chains(ours, "position")[name]()))
    peer = theirs.TransformedEnv(TheirWalk(*batch), theirs.Compose(*chains(theirs, "position")[name]()))
    run(env, peer, partial=True)


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
def test_sums_that_are_rewards(batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Walk(*batch), ours.RewardSum(reward_spec=True))
    peer = theirs.TransformedEnv(TheirWalk(*batch), theirs.RewardSum(reward_spec=True))
    check_env_specs(env)
    assert sorted(env.reward_keys) == sorted(peer.reward_keys) == ["episode_reward", "reward"]
    torch.manual_seed(1)
    root, peer_root = env.reset(), peer.reset()
    for step in range(STEPS):
        assert "episode_reward" not in root  # TorchRL's reset gives one, and its state
        root = env.rand_action(root)
        data, root = env.step_and_maybe_reset(root)
        peer_data, peer_root = peer.step_and_maybe_reset(peer_root.set("action", data["action"].clone()))
        assert torch.equal(data["next", "episode_reward"], peer_data["next", "episode_reward"])
        if batch and step % 7 == 3:
            mask = torch.rand(*batch, 1) < 0.4
            root, peer_root = (e.reset(r.set("_reset", mask)) for e, r in ((env, root), (peer, peer_root)))
    recorded = env.rollout(9, break_when_any_done=False)
    summed = ours.RewardSum(reward_spec=True)(recorded.exclude(("next", "episode_reward"), "_carry"))
    assert torch.equal(summed["next", "episode_reward"], recorded["next", "episode_reward"])


def test_double_to_float() -> None:
    kwargs = {"in_keys": ["reward"], "in_keys_inv": ["action"]}
    env = TransformedEnv(Walk(3, dtype=torch.float64), ours.DoubleToFloat(**kwargs))
    peer = theirs.TransformedEnv(TheirWalk(3, dtype=torch.float64), theirs.DoubleToFloat(**kwargs))
    run(env, peer, partial=True)
    assert env.action_spec.dtype == peer.action_spec.dtype == torch.float32
    chosen = TransformedEnv(Walk(3, dtype=torch.float64), ours.DoubleToFloat(in_keys=["reward"]))
    assert chosen.transform.in_keys_inv == theirs.DoubleToFloat(in_keys=["reward"]).in_keys_inv == []
    every = TransformedEnv(Walk(3, dtype=torch.float64), ours.DoubleToFloat())
    peers = theirs.TransformedEnv(TheirWalk(3, dtype=torch.float64), theirs.DoubleToFloat())
    assert every.transform.in_keys == peers.transform.in_keys
    assert every.transform.out_keys == peers.transform.out_keys
    assert every.transform.in_keys_inv == peers.transform.in_keys_inv
    # The float64 state that goes on exactly behind the float32 one is ours alone.
    compare(every.reset().exclude("_carry"), peers.reset())


@pytest.mark.parametrize("name", NAMES)
def test_specs(name: str) -> None:
    env = TransformedEnv(Walk(3), Compose(*chains(ours, "position")[name]()))
    peer = theirs.TransformedEnv(TheirWalk(3), theirs.Compose(*chains(theirs, "position")[name]()))
    for group in ("full_observation_spec", "full_reward_spec", "full_done_spec", "full_state_spec"):
        mine, other = getattr(env, group), getattr(peer, group)
        keys = [key for key in mine.keys(True, True) if "_carry" not in key]
        assert set(keys) == set(other.keys(True, True)), group
        for key in keys:
            assert mine[key].shape == other[key].shape, key
            assert mine[key].dtype == other[key].dtype, key
            assert type(mine[key]).__name__ == type(other[key]).__name__, key


def test_differences() -> None:
    """What TorchRL feeds back and we do not: a later transform rewrites a carry, or what the environment reads."""
    env = TransformedEnv(Walk(3), Compose(ours.RewardSum(), ours.RewardScaling(1.0, 0.5, ["episode_reward"])))
    peer = theirs.TransformedEnv(
        TheirWalk(3), theirs.Compose(theirs.RewardSum(), theirs.RewardScaling(1.0, 0.5, ["episode_reward"]))
    )
    plain = TransformedEnv(Walk(3), ours.RewardSum())
    roots = [env.reset(), peer.reset(), plain.reset()]
    for _ in range(2):
        for root, each in zip(roots, (env, peer, plain), strict=True):
            each.step(root.set("action", torch.full((3, 3), 0.1)))
        sums = [root["next", "episode_reward"] for root in roots]
        roots = [each.step_mdp(root) for root, each in zip(roots, (env, peer, plain), strict=True)]
    assert torch.equal(sums[0], sums[2] * 0.5 + 1.0)
    assert not torch.equal(sums[1], sums[2] * 0.5 + 1.0)
