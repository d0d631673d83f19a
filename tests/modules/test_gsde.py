"""Noise that depends on the state."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.envs import ExplorationType, SerialEnv, set_exploration_type
from specgen_runtime.modules import LazygSDEModule, gSDEModule
from specgen_runtime.transforms import TransformedEnv
from specgen_std.envs.pendulum import Pendulum
from specgen_std.transforms.policy_states import GSDENoise
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torch.distributions import TanhTransform


def inputs(*batch: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(*batch, 2), torch.randn(*batch, 4), torch.randn(*batch, 2, 4)


def test_the_noise_is_linear_in_the_state() -> None:
    mu, state, epsilon = inputs(5)
    module = gSDEModule(2, 4, sigma_init=0.5)
    with set_exploration_type(ExplorationType.RANDOM):
        same, scale, action, kept = module(mu, state, epsilon)
    assert same is mu
    assert kept is epsilon
    torch.testing.assert_close(action - mu, (0.5 * epsilon * state.unsqueeze(-2)).sum(-1))
    torch.testing.assert_close(scale, 0.5 * state.norm(dim=-1, keepdim=True).expand(5, 2))
    with set_exploration_type(ExplorationType.RANDOM):
        assert torch.equal(module(mu, state, epsilon)[2], action)
        doubled = module(mu, 2 * state, epsilon)[2]
    torch.testing.assert_close(doubled - mu, 2 * (action - mu))


def test_the_scale_is_the_deviation_of_the_noise() -> None:
    mu, state, _ = inputs(2)
    module = gSDEModule(2, 4, sigma_init=0.7)
    torch.manual_seed(0)
    many = module(mu.expand(50_000, 2, 2), state.expand(50_000, 2, 4), None)
    torch.testing.assert_close(many[2].std(0), many[1][0], rtol=0.02, atol=0.0)


@pytest.mark.parametrize("mode", [ExplorationType.MODE, ExplorationType.MEAN, ExplorationType.DETERMINISTIC])
def test_is_silent_unless_exploring(mode: ExplorationType) -> None:
    mu, state, epsilon = inputs(5)
    module = gSDEModule(2, 4, transform=TanhTransform())
    with set_exploration_type(mode):
        assert torch.equal(module(mu, state, epsilon)[2], mu.tanh())
        assert (module(mu, state, None)[3] == 0).all()
        assert (module(mu, state, torch.zeros(5, 1))[3] != 0).all()  # drawn for the whole episode


@pytest.mark.peers
def test_explores_where_nothing_is_set() -> None:
    exploration = pytest.importorskip("torchrl.modules.models.exploration")
    mu, state, epsilon = inputs(5)
    assert not torch.equal(gSDEModule(2, 4)(mu, state, epsilon)[2], mu)
    with pytest.raises(RuntimeError, match="exploration mode None is not defined"):
        exploration.gSDEModule(2, 4)(mu, state, epsilon)


def test_rollouts_keep_the_noise_of_an_episode() -> None:
    torch.manual_seed(0)
    env = TransformedEnv(SerialEnv(2, Pendulum), GSDENoise(state_dim=3, action_dim=1))
    env.set_seed(0)
    policy = TensorDictSequential(
        TensorDictModule(nn.Linear(3, 1), ["observation"], ["loc"]),
        TensorDictModule(
            gSDEModule(1, 3),
            in_keys=["loc", "observation", "gsde_noise"],
            out_keys=["loc", "scale", "action", "gsde_noise"],
        ),
    )
    data = env.rollout(6, policy)
    noise = data["gsde_noise"]
    assert (noise == noise[:, :1]).all()
    assert not torch.equal(noise[0], noise[1])
    assert not torch.equal(data["action"], data["loc"])


@pytest.mark.parametrize("learn", [True, False])
def test_lazy_modules_scale_to_their_states(learn: bool) -> None:
    torch.manual_seed(0)
    states = torch.randn(20_000, 4) * torch.tensor([0.5, 1.0, 2.0, 4.0])
    module = LazygSDEModule(sigma_init=0.3, learn_sigma=learn, scale_min=1e-4)
    mu = torch.zeros(20_000, 2)
    _, _, action, epsilon = module(mu, states, None)
    assert type(module) is gSDEModule
    assert epsilon.shape == (20_000, 2, 4)
    assert action.std().item() == pytest.approx(0.3, rel=0.03)
    assert len(list(module.parameters())) == int(learn)


def test_refuses() -> None:
    mu, state, epsilon = inputs(5)
    module = gSDEModule(2, 4)
    with pytest.raises(ValueError, match="mean and state must have the same batch"):
        module(mu[:2], state, epsilon)
    with pytest.raises(ValueError, match="noise and state must have the same batch"):
        module(mu, state, epsilon[:2])


@pytest.mark.peers
@pytest.mark.parametrize("learn", [True, False])
@pytest.mark.parametrize("batch", [(), (5,), (2, 3)], ids=str)
@pytest.mark.parametrize("mode", [ExplorationType.RANDOM, ExplorationType.MODE])
def test_is_torchrls(learn: bool, batch: tuple[int, ...], mode: Any) -> None:
    exploration = pytest.importorskip("torchrl.modules.models.exploration")
    mu, state, epsilon = inputs(*batch)
    mine = gSDEModule(2, 4, learn_sigma=learn, sigma_init=0.4, transform=TanhTransform())
    theirs = exploration.gSDEModule(2, 4, learn_sigma=learn, sigma_init=0.4, transform=TanhTransform())
    if learn:  # TorchRL begins with softplus(0) whatever sigma_init is
        assert theirs.sigma.mean().item() == pytest.approx(0.6931, abs=1e-4)
        assert mine.sigma.mean().item() == pytest.approx(0.4, abs=1e-6)
    theirs.load_state_dict(mine.state_dict())
    for given in (epsilon, None, torch.zeros(*batch, 1)):
        made = []
        for module in (mine, theirs):
            torch.manual_seed(2)
            with set_exploration_type(mode):
                out = module(mu, state, given)
            grads = []
            if learn:
                grads = list(torch.autograd.grad(out[1].sum() + out[2].sum(), list(module.parameters())))
            made.append([*out, *grads])
        torch.testing.assert_close(made[0], made[1])


@pytest.mark.peers
@pytest.mark.parametrize("learn", [True, False])
@pytest.mark.parametrize("deviation", [None, 0.3])
def test_lazy_modules_are_torchrls(learn: bool, deviation: float | None) -> None:
    exploration = pytest.importorskip("torchrl.modules.models.exploration")
    mu, state, epsilon = inputs(7)
    options = {"learn_sigma": learn, "sigma_init": deviation}
    mine, theirs = LazygSDEModule(**options), exploration.LazygSDEModule(**options)
    with set_exploration_type(ExplorationType.RANDOM):
        torch.testing.assert_close(mine(mu, state, epsilon), theirs(mu, state, epsilon))
