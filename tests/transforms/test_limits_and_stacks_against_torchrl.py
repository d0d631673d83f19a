"""The library's ClipTransform, Stack and LineariseRewards against TorchRL's, and what differs from theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import specgen_std.transforms as ours
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.specs import Bounded
from specgen_runtime.transforms import Compose, TransformedEnv
from tensordict import TensorDict

from tests.transforms.envs import Walk
from tests.transforms.screens import Screen
from tests.transforms.test_against_torchrl import TheirWalk, run, theirs

pytestmark = pytest.mark.peers

BATCHES = [(), (3,), (4, 3)]


def chains(t: Any) -> dict[str, Callable[[], list[Any]]]:
    """Chains that agree bit by bit; called for both libraries."""
    keys = {"in_keys": ["reward", "position"], "out_keys": ["reward", "clipped"]}

    def copies() -> list[Any]:
        return [t.RenameTransform(["position"], [name], create_copy=True) for name in ("b", "a")]

    return {
        "ClipTransform": lambda: [t.ClipTransform(**keys, low=-0.5, high=1.0)],
        "ClipTransform low": lambda: [t.ClipTransform(**keys, low=-0.5)],
        "ClipTransform high": lambda: [t.ClipTransform(**keys, high=1.0)],
        "Stack": lambda: [*copies(), t.Stack(["b", "a"], "both")],
        "Stack before": lambda: [*copies(), t.Stack(["b", "a"], "both", dim=-2)],
        "Stack kept": lambda: [*copies(), t.Stack(["b", "a"], "both", del_keys=False)],
    }


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", chains(ours))
def test_agrees(name: str, batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Walk(*batch), Compose(*chains(ours)[name]()))
    peer = theirs.TransformedEnv(TheirWalk(*batch), theirs.Compose(*chains(theirs)[name]()))
    check_env_specs(env)
    run(env, peer, partial=bool(batch))


@pytest.mark.parametrize("name", chains(ours))
def test_offline_as_in_an_environment(name: str) -> None:
    plain = Walk(3).rollout(12, break_when_any_done=False)
    actions = iter(plain["action"].unbind(-2))
    env = TransformedEnv(Walk(3), Compose(*chains(ours)[name]()))
    expected = env.rollout(12, lambda td: td.set("action", next(actions)), break_when_any_done=False)
    data = Compose(*chains(ours)[name]())(plain.clone())
    for key in expected.keys(True, True):
        assert torch.equal(data.get(key), expected.get(key)), key


def test_limits_of_whole_numbers() -> None:
    """TorchRL makes floats of them and says int64 in the spec."""
    env = TransformedEnv(Screen(2), ours.ClipTransform(["moment"], ["near"], low=1, high=3))
    check_env_specs(env)
    spec = env.observation_spec["near"]
    assert isinstance(spec, Bounded)
    assert spec.dtype == torch.int64
    assert (spec.space.low.unique().tolist(), spec.space.high.unique().tolist()) == ([1], [3])


def test_tighter_bounds_stay() -> None:
    """TorchRL replaces them by the limits, widened a little."""
    env = TransformedEnv(Walk(bounded=True), ours.ClipTransform(["position"], ["near"], low=-20.0, high=4.0))
    spec = env.observation_spec["near"]
    assert isinstance(spec, Bounded)
    assert (spec.space.low.unique().tolist(), spec.space.high.unique().tolist()) == ([-10.0], [4.0])


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("weights", [None, [1.0, -2.0, 0.5]])
def test_weighted_sums(batch: tuple[int, ...], weights: list[float] | None) -> None:
    given = {} if weights is None else {"weights": weights}
    data = TensorDict({"reward": torch.randn(*batch, 3)}, batch)
    mine = ours.LineariseRewards(in_keys=["reward"], **given)(data.clone())["reward"]
    other = theirs.LineariseRewards(in_keys=["reward"], **given)(data.clone())["reward"]
    assert mine.shape == other.shape == (*batch, 1)
    assert torch.equal(mine, other)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("weights", [None, [-2.0]])
def test_one_reward_is_weighted(batch: tuple[int, ...], weights: list[float] | None) -> None:
    """Its trailing 1 is what is summed."""
    data = TensorDict({"reward": torch.randn(*batch, 1)}, batch)
    mine = ours.LineariseRewards(in_keys=["reward"], weights=weights)
    other = theirs.LineariseRewards(in_keys=["reward"], weights=weights)(data.clone())["reward"]
    assert torch.equal(mine(data.clone())["reward"], other)
    env = TransformedEnv(Walk(*batch), mine)
    check_env_specs(env)
    torch.manual_seed(0)
    found = env.rollout(3)["next", "reward"]
    torch.manual_seed(0)
    assert torch.equal(found, Walk(*batch).rollout(3)["next", "reward"] * (weights or [1.0])[0])


@pytest.mark.parametrize("weights", [None, [1.0, -2.0, 0.5]])
def test_bounds_of_sums(weights: list[float] | None) -> None:
    """With weights, which may change, there are none."""
    low, high = torch.tensor([-1.0, 0.0, 2.0]), torch.tensor([1.0, 0.5, 3.0])
    env = Walk()
    env.observation_spec["costs"] = Bounded(low=low, high=high, shape=(3,))
    spec = TransformedEnv(env, ours.LineariseRewards(["costs"], ["total"], weights=weights)).full_reward_spec[
        "total"
    ]
    assert spec.shape == (1,)
    assert isinstance(spec, Bounded) == (weights is None)
    if isinstance(spec, Bounded):
        assert (spec.space.low.item(), spec.space.high.item()) == (1.0, 4.5)


@pytest.mark.parametrize("batch", BATCHES)
def test_a_sum_beside_the_reward(batch: tuple[int, ...]) -> None:
    env = TransformedEnv(
        Walk(*batch), ours.LineariseRewards(["position"], ["total"], weights=[1.0, 2.0, 3.0])
    )
    check_env_specs(env)
    assert set(env.reward_keys) == {"reward", "total"}
    data = env.rollout(5, break_when_any_done=False)["next"]
    expected = (data["position"] * torch.tensor([1.0, 2.0, 3.0])).sum(-1, keepdim=True)
    assert torch.equal(data["total"], expected)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize(("dim", "shape"), [(-1, (3, 2)), (-2, (2, 3)), (-3, (2, 3, 4))])
def test_stacked_actions(batch: tuple[int, ...], dim: int, shape: tuple[int, ...]) -> None:
    """What the policy writes in place of two actions: recorded, and on the way into an environment."""
    both = torch.randn(*batch, *shape)
    data = TensorDict({"both": both, "seen": torch.randn(*batch, 3)}, batch)
    keys: dict[str, Any] = {"in_key_inv": "both", "out_keys_inv": ["left", ("other", "right")], "dim": dim}
    mine = ours.Stack(["left", ("other", "right")], "both", **keys)
    other = theirs.Stack(["left", ("other", "right")], "both", **keys)
    found, expected = mine.inv(data), other.inv(data.clone())
    for key in keys["out_keys_inv"]:
        assert torch.equal(found[key], expected[key])
    assert torch.equal(mine(found)["both"], both)
    assert mine.in_keys_inv == keys["out_keys_inv"]
    assert mine.out_keys_inv == other.in_keys_inv == ["both"]
    with pytest.raises(ValueError, match="out_keys_inv was not"):
        theirs.Stack(["a"], "b", in_key_inv="c")
