"""The library's transforms of keys, frames, rewards and shapes against TorchRL's, and what differs from theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import specgen_std.transforms as ours
import torch
from specgen_runtime.envs import GymEnv, check_env_specs
from specgen_runtime.specs import Bounded
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.envs import Pendulum

from tests.transforms.envs import Walk
from tests.transforms.test_against_torchrl import TheirWalk, run, theirs

pytestmark = pytest.mark.peers


def in_place(t: Any, key: str) -> dict[str, Callable[[], list[Any]]]:
    """Chains that rewrite or drop what they read."""
    return {
        "CatFrames": lambda: [t.CatFrames(3, -1, in_keys=[key])],
        "CatFrames constant": lambda: [
            t.CatFrames(3, -1, in_keys=[key], padding="constant", padding_value=2.0)
        ],
        "UnsqueezeTransform": lambda: [t.UnsqueezeTransform(-1, in_keys=[key])],
        "SqueezeTransform": lambda: [
            t.UnsqueezeTransform(-2, in_keys=[key]),
            t.SqueezeTransform(-2, in_keys=[key]),
        ],
        "FlattenObservation": lambda: [
            t.UnsqueezeTransform(-1, in_keys=[key]),
            t.FlattenObservation(-2, -1, in_keys=[key]),
        ],
        "PermuteTransform": lambda: [
            t.UnsqueezeTransform(-1, in_keys=[key]),
            t.PermuteTransform([-1, -2], in_keys=[key]),
        ],
        "ExcludeTransform": lambda: [t.InitTracker(), t.ExcludeTransform(key)],
        "SelectTransform": lambda: [t.InitTracker(), t.SelectTransform(key)],
        "RenameTransform": lambda: [t.RenameTransform([key], ["seen"])],
        "RenameTransform copy": lambda: [t.RenameTransform([key], ["seen"], create_copy=True)],
        "CatTensors": lambda: [t.CatTensors([key], out_key="vector")],
    }


def beside(t: Any, key: str) -> dict[str, Callable[[], list[Any]]]:
    """Chains that leave what the environment reads as it is."""
    return {
        "CatFrames renamed": lambda: [t.CatFrames(3, -1, in_keys=[key], out_keys=["frames"])],
        "CatTensors kept": lambda: [t.CatTensors([key], out_key="vector", del_keys=False)],
        "RewardClipping": lambda: [t.RewardClipping(-0.5, 0.25)],
        "BinarizeReward": lambda: [t.BinarizeReward()],
        "SignTransform": lambda: [t.SignTransform(in_keys=["reward"])],
        "TargetReturn": lambda: [t.TargetReturn(10.0)],
        "TargetReturn constant": lambda: [t.TargetReturn(10.0, mode="constant")],
        "TargetReturn of clipped": lambda: [t.RewardClipping(-0.5, 0.25), t.TargetReturn(3.0)],
    }


EVERY = [*in_place(ours, "x"), *beside(ours, "x")]


@pytest.mark.parametrize("name", EVERY)
def test_cartpole(name: str) -> None:
    key = "observation"
    env = TransformedEnv(GymEnv("CartPole-v1"), Compose(*(in_place(ours, key) | beside(ours, key))[name]()))
    chain = (in_place(theirs, key) | beside(theirs, key))[name]()
    peer = theirs.TransformedEnv(theirs.GymEnv("CartPole-v1"), theirs.Compose(*chain))
    check_env_specs(env)
    env.set_seed(5, static_seed=True)
    peer.set_seed(5, static_seed=True)
    env.reset()  # TorchRL's set_seed resets; ours seeds the next reset
    run(env, peer)


@pytest.mark.parametrize("batch", [(3,), (4, 3)])
@pytest.mark.parametrize("name", beside(ours, "x"))
def test_batches_with_partial_resets(name: str, batch: tuple[int, ...]) -> None:
    frames = (
        name.startswith("CatFrames") and len(batch) > 1
    )  # TorchRL's fails at partial resets of two dimensions
    env = TransformedEnv(Walk(*batch), Compose(*beside(ours, "position")[name]()))
    peer = theirs.TransformedEnv(TheirWalk(*batch), theirs.Compose(*beside(theirs, "position")[name]()))
    if not frames:
        run(env, peer, partial=True)
    check_env_specs(env)


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
@pytest.mark.parametrize("name", EVERY)
def test_specs_at_any_batch_size(name: str, batch: tuple[int, ...]) -> None:
    chains = in_place(ours, "position") | beside(ours, "position")
    env = TransformedEnv(Walk(*batch, bounded=True), Compose(*chains[name]()))
    check_env_specs(env)
    data = env.rollout(12, break_when_any_done=False)
    for key, spec in env.observation_spec.items(True, True):
        assert bool(spec.is_in(data["next"].get(key).moveaxis(len(batch), 0)[-1])), key


def test_frames_of_padding_are_in_the_spec() -> None:
    """TorchRL leaves constant padding out of the bounds."""
    chain = ours.CatFrames(2, -1, in_keys=["position"], padding="constant", padding_value=50.0)
    spec = TransformedEnv(Walk(bounded=True), chain).observation_spec["position"]
    assert isinstance(spec, Bounded)
    assert spec.space.high.tolist() == [50.0, 50.0, 50.0, 10.0, 10.0, 10.0]
    assert spec.space.low.tolist() == [-10.0] * 6


def test_stepping_the_same_data_twice_gives_the_same_frames() -> None:
    """TorchRL keeps frames on the object: a step that is repeated repeats its frame."""
    env = TransformedEnv(Walk(3), ours.CatFrames(3, -1, in_keys=["position"]))
    root = env.reset().set("action", torch.full((3, 3), 0.5))
    first = env.step(root.clone())["next", "position"]
    assert torch.equal(env.step(root.clone())["next", "position"], first)


def test_maxima_of_negative_values() -> None:
    """TorchRL pads with zeros, which win over negative values."""
    env = TransformedEnv(Walk(2), ours.TimeMaxPool(in_keys=["position"], T=3, out_keys=["largest"]))
    data = env.rollout(4, lambda td: td.set("action", -torch.ones(2, 3)), break_when_any_done=False)
    position, largest = data["next", "position"], data["next", "largest"]
    expected = torch.stack([data["position"][:, 0], position[:, 0]]).amax(0)
    assert torch.equal(largest[:, 0], expected)
    assert torch.equal(data["largest"][:, 0], data["position"][:, 0])


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
def test_state_and_counters_can_be_dropped_and_renamed(batch: tuple[int, ...]) -> None:
    """TorchRL raises KeyError at the next step, and refuses swaps."""
    plain = Pendulum(batch_size=batch).rollout(5, lambda td: td.set("action", torch.zeros(*batch, 1)))
    count = ours.StepCounter(max_steps=4)
    chain = Compose(
        count, ours.ExcludeTransform("step_count", "th"), ours.RenameTransform(["observation"], ["o"])
    )
    env = TransformedEnv(Pendulum(batch_size=batch), chain)
    check_env_specs(env)
    swap = TransformedEnv(Pendulum(batch_size=batch), ours.RenameTransform(["th", "thdot"], ["thdot", "th"]))
    check_env_specs(swap)
    for each in (env, swap):
        each.set_seed(0)
    both = Pendulum(batch_size=batch)
    both.set_seed(0)
    act = lambda td: td.set("action", torch.ones(*batch, 1))  # noqa: E731 - the same policy for all
    data, swapped, expected = (each.rollout(4, act) for each in (env, swap, both))
    assert torch.equal(data["next", "o"], expected["next", "observation"])
    assert torch.equal(swapped["next", "th"], expected["next", "thdot"])
    assert torch.equal(swapped["next", "thdot"], expected["next", "th"])
    assert bool(data["next", "truncated"].moveaxis(len(batch), 0)[-1].all())
    assert "step_count" not in data
    assert plain["th"].shape == (*batch, 5)


def test_flags_can_not_be_dropped() -> None:
    env = TransformedEnv(Walk(3), ours.ExcludeTransform("done"))
    with pytest.raises(ValueError, match="can't drop 'done'"):
        env.reset()


def test_keys_keep_their_order() -> None:
    """TorchRL sorts the keys that it concatenates."""
    chain = Compose(
        ours.RenameTransform(["position"], ["b"], create_copy=True), ours.CatTensors(["position", "b"])
    )
    env = TransformedEnv(Walk(3, bounded=True), chain)
    check_env_specs(env)
    assert isinstance(env.observation_spec["observation_vector"], Bounded)
    with pytest.raises(KeyError, match="nothing"):
        _ = TransformedEnv(Walk(3), ours.CatTensors(["nothing", "position"])).observation_spec


def test_arguments_that_shape_types_are_checked() -> None:
    with pytest.raises(ValueError, match="N must be >= 1"):
        ours.CatFrames(0, -1)
    with pytest.raises(ValueError, match="padding must be one of 'same', 'constant', got 'zero'"):
        ours.CatFrames(2, -1, padding="zero")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mode must be one of"):
        ours.TargetReturn(1.0, mode="other")  # type: ignore[arg-type]


def test_offline_as_in_an_environment() -> None:
    """On recorded data a transform writes what it would have written in the environment."""
    plain = Walk(3).rollout(12, break_when_any_done=False)
    chains = in_place(ours, "position") | beside(ours, "position")
    for name, make in chains.items():
        torch.manual_seed(0)
        env = TransformedEnv(Walk(3), Compose(*make()))
        actions = iter(plain["action"].unbind(-2))
        expected = env.rollout(
            12, lambda td, moves=actions: td.set("action", next(moves)), break_when_any_done=False
        )
        data = Compose(*make())(plain.clone())
        for key in env.observation_spec.keys(True, True):
            if "_carry" not in key:
                assert torch.equal(data["next"].get(key), expected["next"].get(key)), (name, key)
                assert torch.equal(data.get(key), expected.get(key)), (name, key)
        gone = {"position"} - set(env.observation_spec.keys())
        assert not gone & set(data.keys()), name
