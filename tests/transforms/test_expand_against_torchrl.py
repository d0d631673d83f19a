"""ExpandAs: entries repeated for the dimensions of others, against TorchRL's."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.specs import Categorical, Unbounded
from specgen_runtime.transforms import Compose, ExpandAs, TransformedEnv
from tensordict import TensorDict

from tests.transforms.envs import Team, Walk
from tests.transforms.test_against_torchrl import TheirWalk, run, theirs

pytestmark = pytest.mark.peers

BATCHES: list[tuple[int, ...]] = [(), (3,), (2, 3)]


@pytest.mark.parametrize("batch", BATCHES)
def test_agrees(batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Walk(*batch), ExpandAs("done", "position", "over"))
    peer = theirs.TransformedEnv(TheirWalk(*batch), theirs.ExpandAs("done", "position", "over"))
    check_env_specs(env)
    assert env.observation_spec["over"].shape == peer.observation_spec["over"].shape == (*batch, 3)
    run(env, peer, partial=bool(batch))


@pytest.mark.parametrize("batch", BATCHES)
def test_flags_of_agents(batch: tuple[int, ...]) -> None:
    """A reset returns no rewards: their shape is that of the spec."""
    chain = Compose(
        ExpandAs("done", ("agents", "reward"), ("agents", "over")), ExpandAs("done", ("agents", "x"), "flags")
    )
    env = TransformedEnv(Team(*batch), chain)
    check_env_specs(env)
    spec = env.observation_spec["agents", "over"]
    assert isinstance(spec, Categorical)
    assert spec.shape == (*batch, 2, 1)
    data = env.rollout(6, break_when_any_done=False)
    for moment in (data, data["next"]):
        expected = moment["done"].unsqueeze(-1).expand(*moment["done"].shape[:-1], 2, 1)
        assert torch.equal(moment["agents", "over"], expected)
        assert torch.equal(moment["flags"], expected)


def test_rewards_stay_rewards() -> None:
    env = TransformedEnv(Walk(3), ExpandAs("reward", "position"))
    check_env_specs(env)
    assert isinstance(env.reward_spec, Unbounded)
    assert env.reward_spec.shape == (3, 3)


@pytest.mark.parametrize("batch", BATCHES)
def test_recorded_data(batch: tuple[int, ...]) -> None:
    """At the root and under `next`, wherever both entries are; theirs looks at the root alone."""
    plain = Team(*batch).rollout(4, break_when_any_done=False)
    found = ExpandAs("done", ("agents", "reward"), ("agents", "over"))(plain.clone())
    assert ("agents", "over") not in found.keys(True)
    assert found["next", "agents", "over"].shape == plain["next", "agents", "reward"].shape
    both = ExpandAs("done", ("agents", "x"), "over")(plain.clone())
    expected = theirs.ExpandAs("done", ("agents", "x"), "over")(plain.clone())
    assert torch.equal(both["over"], expected["over"])
    assert torch.equal(
        both["next", "over"], theirs.ExpandAs("done", ("agents", "x"), "over")(plain["next"].clone())["over"]
    )


def test_refusals() -> None:
    with pytest.raises(ValueError, match="'done' is a done flag, which keeps its shape: give an out_key"):
        _ = TransformedEnv(Walk(), ExpandAs("done", "position")).observation_spec
    with pytest.raises(KeyError, match="the environment returns no 'nothing'"):
        _ = TransformedEnv(Walk(), ExpandAs("done", "nothing", "over")).observation_spec
    with pytest.raises(
        ValueError, match=r"'position' has the shape \[3\], which can't be repeated to \[1\] of 'done'"
    ):
        _ = TransformedEnv(Walk(), ExpandAs("position", "done", "other")).observation_spec
    with pytest.raises(KeyError, match="ExpandAs reads 'x'"):
        ExpandAs("x", "y")(TensorDict(y=torch.zeros(2)))
