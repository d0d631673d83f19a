"""Actions that are permuted, projected and several at once, against TorchRL's, and what differs from theirs."""

from __future__ import annotations

import re

import pytest
import specgen_std.transforms as ours
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.specs import Bounded, OneHot, Unbounded
from specgen_runtime.transforms import Compose, TransformedEnv
from tensordict import TensorDict

from tests.transforms.envs import Walk
from tests.transforms.test_actions import Echo, acted
from tests.transforms.test_against_torchrl import TheirWalk, theirs

pytestmark = pytest.mark.peers

BATCHES: list[tuple[int, ...]] = [(), (3,), (2, 3)]


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("dims", [[-1, -2], [-2, -3, -1], [-1, -3, -2], [-1]])
def test_permuted_actions(dims: list[int], batch: tuple[int, ...]) -> None:
    high = torch.arange(1.0, 25).reshape(2, 3, 4)
    env = TransformedEnv(
        Echo(*batch, action=Bounded(low=-high, high=high, shape=(2, 3, 4))),
        ours.PermuteTransform(dims, [], in_keys_inv=["action"]),
    )
    check_env_specs(env)
    kept = 3 - len(dims)
    order = [*range(kept), *(dim % 3 for dim in dims)]
    assert torch.equal(env.action_spec.high[(0,) * len(batch)], high.permute(order))
    action = env.action_spec.rand()
    peer = theirs.PermuteTransform(dims, in_keys_inv=["action"])
    assert torch.equal(acted(env, action=action)["seen_action"], peer._inv_apply_transform(action))


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("ends", [(0, 1), (1, 2), (0, 2), (1, 1), (0, -1), (-2, 2)])
def test_actions_flattened_from_the_front(ends: tuple[int, int], batch: tuple[int, ...]) -> None:
    """Theirs counts the batch where recorded data are flattened, and refuses ends that are counted from both."""
    high = torch.arange(1.0, 25).reshape(2, 3, 4)
    spec = Bounded(low=-high, high=high, shape=(2, 3, 4))
    flatten = ours.FlattenAction(*ends, allow_positive_dim=True)
    env = TransformedEnv(Echo(*batch, action=spec), flatten)
    check_env_specs(env)
    assert torch.equal(env.action_spec.high[(0,) * len(batch)], high.flatten(*ends))
    action = env.action_spec.rand()
    seen = acted(env, action=action)["seen_action"]
    recorded = ours.FlattenAction(*ends, in_keys=["seen_action"], allow_positive_dim=True)
    assert torch.equal(recorded(TensorDict({"seen_action": seen}, batch))["seen_action"], action)
    fixed = [end if end < 0 else end - 3 for end in ends]
    assert torch.equal(theirs.FlattenAction(*fixed)._apply_transform(seen), action)


@pytest.mark.parametrize("batch", BATCHES)
def test_projected_actions(batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Echo(*batch, action=OneHot(3)), ours.DiscreteActionProjection(3, 5))
    check_env_specs(env)
    assert env.action_spec == OneHot(5, shape=(*batch, 5))
    peer = theirs.DiscreteActionProjection(3, 5)
    for chosen in range(5):
        action = torch.nn.functional.one_hot(torch.full(batch, chosen), 5).bool()
        seen = acted(env, action=action)["seen_action"]
        assert seen.dtype == torch.bool
        assert (seen.sum(-1) == 1).all()
        if chosen < 3:
            assert torch.equal(seen, peer._inv_apply_transform(action.clone()).bool())


def test_projections_are_drawn_evenly_and_from_the_seed() -> None:
    env = TransformedEnv(Echo(3000, action=OneHot(3)), ours.DiscreteActionProjection(3, 4))
    action = torch.nn.functional.one_hot(torch.full((3000,), 3), 4).bool()
    found = []
    for _ in range(2):
        torch.manual_seed(2)
        found.append(acted(env, action=action)["seen_action"])
    assert torch.equal(*found)
    assert ((found[0].float().mean(0) - 1 / 3).abs() < 0.04).all()


def test_fewer_actions_than_there_are() -> None:
    """TorchRL gives the environment vectors of another size."""
    env = TransformedEnv(Echo(50, action=OneHot(4)), ours.DiscreteActionProjection(2, 4))
    check_env_specs(env)
    seen = acted(env, action=OneHot(4).expand(50, 4).rand())["seen_action"]
    assert seen.shape == (50, 4)
    assert not seen[:, 2:].any()
    with pytest.raises(ValueError, match=re.escape("max_actions must be >= num_actions_effective, got 2")):
        ours.DiscreteActionProjection(3, 2)


@pytest.mark.parametrize("batch", BATCHES)
def test_several_actions(batch: tuple[int, ...]) -> None:
    """Theirs returns the single rewards in place of the reward, ours beside their sum."""
    env = TransformedEnv(Walk(*batch), ours.MultiAction(3))
    check_env_specs(env)
    assert env.action_spec.shape == (*batch, 3, 3)
    assert isinstance(env.full_observation_spec["rewards"], Unbounded)
    peer = theirs.TransformedEnv(TheirWalk(*batch), theirs.MultiAction())
    chunk = 0.1 * torch.randn(*batch, 3, 3)
    found = env.step(env.reset().set("action", chunk))["next"]
    expected = peer.step(peer.reset().set("action", chunk))["next"]
    assert torch.equal(found["position"], expected["position"])
    assert torch.equal(found["rewards"], expected["reward"])
    torch.testing.assert_close(found["reward"], expected["reward"].sum(-2))
    assert torch.equal(found["done"], expected["done"])


@pytest.mark.parametrize("batch", BATCHES)
def test_observations_behind_each_action(batch: tuple[int, ...]) -> None:
    """Theirs stands in place of the observation, which has another shape at resets."""
    chain = Compose(ours.StepCounter(), ours.MultiAction(3, False, stack_observations=True))
    env = TransformedEnv(Walk(*batch), chain)
    check_env_specs(env)
    assert env.observation_spec["stacked_position"].shape == (*batch, 3, 3)
    assert env.observation_spec["stacked_step_count"].dtype == torch.int64
    peer = theirs.TransformedEnv(TheirWalk(*batch), theirs.MultiAction(stack_observations=True))
    chunk = 0.1 * torch.randn(*batch, 3, 3)
    fresh, found = env.reset(), env.step(env.reset().set("action", chunk))["next"]
    expected = peer.step(peer.reset().set("action", chunk))["next"]
    assert torch.equal(found["stacked_position"], expected["position"])
    assert torch.equal(found["position"], expected["position"][..., -1, :])
    assert (found["stacked_step_count"].squeeze(-1) == torch.tensor([1, 2, 3])).all()
    assert not fresh["stacked_position"].any()
    far = torch.ones(*batch, 3, 3)
    for _ in range(2):
        found = env.step(env.step_mdp(env.step(fresh.set("action", far))).set("action", far))["next"]
    ended = found["step_count"] < 6
    assert ended.all()
    assert not found["stacked_position"][..., -1, :].any()


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("stack_rewards", [True, False])
def test_ends_inside(stack_rewards: bool, batch: tuple[int, ...]) -> None:
    """A row that ends stays there, with zeros behind it; TorchRL's rollouts can't be stacked then."""
    env = TransformedEnv(Walk(*batch), Compose(ours.StepCounter(), ours.MultiAction(6, stack_rewards)))
    check_env_specs(env)
    torch.manual_seed(0)
    data = env.rollout(4, break_when_any_done=False)
    for row in data.reshape(-1, 4):
        for moment in row:
            position, rewards, over = moment["position"], [], False
            for action in moment["action"]:
                if not over:
                    position = position * 1.25 + action
                    rewards.append(position.sum())
                    over = bool((position.abs() > 3).any())
            following = moment["next"]
            torch.testing.assert_close(following["position"], position)
            torch.testing.assert_close(following["reward"].squeeze(-1), torch.stack(rewards).sum())
            assert following["done"].item() == over
            assert following["step_count"].item() == moment["step_count"].item() + len(rewards)
            assert ("rewards" in set(following.keys())) == stack_rewards
            if stack_rewards:
                assert not following["rewards"][len(rewards) :].any()
    assert data["next", "done"].any()
