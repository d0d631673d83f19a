"""Losses that users declare from papers, by extending those of the library, against the papers' formulas in plain torch."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.modules import NormalParamExtractor, ProbabilisticActor, TanhNormal
from specgen_runtime.objectives import member_gradients
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torch.nn import functional

from tests.docs.pages import read_page
from tests.objectives.nets import N_ACT, N_OBS, batch
from tests.support import generate, imported

pytestmark = pytest.mark.filterwarnings("ignore:No target network updater")

SCHEMA = """\
specgen: 1
import: [specgen_std/losses/dqn, specgen_std/losses/sac]
losses:
  QuantileDQNLoss:
    extends: DQNLoss
    networks: {value_network: {out: {action_value: "float32[quantiles, n_actions]"}}}
    params: {double_dqn: drop, loss_function: drop, gamma: {default: 0.99, min: 0, max: 1}}
    value_estimator: drop
    require: drop
    let:
      choosing_q: drop
      next_value: drop
      best: argmax(mean(next_q, axis=0))
      chosen: q[:, action]
      target: stop_grad(reward + where(terminated, 0.0, gamma) * next_q[:, best])
      delta: target[None, :] - chosen[:, None]
      share: (arange(size(chosen)) + 0.5) / size(chosen)
      huber: where(abs(delta) <= 1, 0.5 * delta**2, abs(delta) - 0.5)
      error: sum(mean(abs(share[:, None] - where(delta < 0, 1.0, 0.0)) * huber, axis=1))
    terms: {loss: error}
    writes: {priority: error}
  EDACLoss:
    extends: SACLoss
    keys: {action: {type: "float32[a]"}}
    params: {eta: {default: 1.0, min: 0}, num_qvalue_nets: {default: 3, min: 2}}
    let:
      near: action + 0
      slope: gradient(qvalue_network(now, action=near), near)
      unit: slope / norm(slope)[None]
    terms:
      loss_diversity: eta * (sum(sum(unit, axis=ensemble)**2) - sum(unit**2, axis=(-1, ensemble)))
  DrawnSlopeLoss:
    networks:
      actor_network: {policy: action, in: [observation]}
      critic: {in: [observation, action], out: {worth: "float32[1]"}, ensemble: members}
    keys: {action: {key: action, type: "float32[a]"}}
    params: {members: {default: 2, min: 1}}
    let:
      dist: actor_network(now)
      drawn: rsample(dist, n=4)
      slope: gradient(critic(now, action=drawn), drawn)
    terms:
      loss_slope: mean(norm(slope)**2, axis=(draw, ensemble))
"""


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"papers.yaml": SCHEMA, **read_page("losses.md").schemas}, "papers")
    with imported(files, "papers", tmp_path_factory.mktemp("papers")) as made:
        yield made


def discrete(*shape: int) -> TensorDict:
    data = batch(*shape)
    data["action"] = torch.randint(N_ACT, shape, generator=torch.Generator().manual_seed(3))
    return data


def moved(loss: Any) -> Any:
    """A loss whose targets are not what it trains."""
    for place, value in enumerate(loss.target_value_network_params.flatten_keys().values()):
        value.data.add_(torch.randn(value.shape, generator=torch.Generator().manual_seed(place)) * 0.3)
    return loss


def test_munchausen_dqn(papers: ModuleType) -> None:
    """Vieillard et al. 2020, eq. 2, as the manual's page of losses declares it."""
    torch.manual_seed(0)
    made = import_module(f"{papers.__name__}.munchausen")
    network, data, temperature = nn.Linear(N_OBS, N_ACT), discrete(16), 0.03
    loss = moved(made.MunchausenDQNLoss(network, action_space="categorical"))
    loss.make_value_estimator(gamma=0.9)
    found = loss(data)["loss"]
    weight, bias = (
        value for _, value in sorted(loss.target_value_network_params.flatten_keys().items(), reverse=True)
    )
    action = data["action"][:, None]
    log_pi = (functional.linear(data["observation"], weight, bias) / temperature).log_softmax(-1)
    next_q = functional.linear(data["next", "observation"], weight, bias)
    next_log_pi = (next_q / temperature).log_softmax(-1)
    soft = (next_log_pi.exp() * (next_q - temperature * next_log_pi)).sum(-1, keepdim=True)
    bonus = 0.9 * (temperature * log_pi.gather(-1, action)).clamp(-1, 0)
    goal = data["next", "reward"] + bonus + 0.9 * soft * ~data["next", "terminated"]
    torch.testing.assert_close(
        found, functional.mse_loss(network(data["observation"]).gather(-1, action), goal.detach())
    )


def test_quantile_dqn(papers: ModuleType) -> None:
    """Dabney et al. 2018, algorithm 1."""
    quantiles, data, rows = 5, discrete(16), torch.arange(16)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(N_OBS, quantiles * N_ACT), nn.Unflatten(-1, (quantiles, N_ACT)))
    found = papers.QuantileDQNLoss(network, action_space="categorical")(data)["loss"]
    chosen = network(data["observation"])[rows, :, data["action"]]
    following = network(data["next", "observation"])
    best = following.mean(1).argmax(-1)
    goal = data["next", "reward"] + 0.99 * ~data["next", "terminated"] * following[rows, :, best]
    delta = goal.detach()[:, None, :] - chosen[:, :, None]
    share = (torch.arange(quantiles) + 0.5) / quantiles
    huber = functional.huber_loss(delta, torch.zeros_like(delta), reduction="none")
    expected = ((share[None, :, None] - (delta < 0).float()).abs() * huber).mean(2).sum(1).mean()
    torch.testing.assert_close(found, expected)


def test_rewards_and_flags_that_are_none_are_named_by_where_they_stand(papers: ModuleType) -> None:
    network = nn.Sequential(nn.Linear(N_OBS, 5 * N_ACT), nn.Unflatten(-1, (5, N_ACT)))
    loss, data = papers.QuantileDQNLoss(network, action_space="categorical"), discrete(16)
    with pytest.raises(
        KeyError, match=r"the reward \('next', 'reward'\) is not in the tensordict; it holds \('next'"
    ):
        loss(data.exclude(("next", "reward")))
    with pytest.raises(
        RuntimeError, match=r"\('next', 'reward'\), the reward, has the shape \[16, 1\]; got \[16\]"
    ):
        loss(data.clone().set(("next", "reward"), torch.zeros(16)))
    flags = data["next", "terminated"].float()
    with pytest.raises(
        RuntimeError, match=r"\('next', 'terminated'\), terminated, must be a bool tensor, got .*float"
    ):
        loss(data.clone().set(("next", "terminated"), flags))


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(N_OBS + N_ACT, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        return self.layers(torch.cat([observation, action], -1))


def critics(count: int, key: str) -> list[TensorDictModule]:
    torch.manual_seed(5)
    return [TensorDictModule(Critic(), ["observation", "action"], [key]) for _ in range(count)]


def actor() -> ProbabilisticActor:
    torch.manual_seed(4)
    layers = nn.Sequential(nn.Linear(N_OBS, 2 * N_ACT), NormalParamExtractor())
    return ProbabilisticActor(
        TensorDictModule(layers, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
    )


def continuous(*shape: int) -> TensorDict:
    data = batch(*shape)
    data["action"] = torch.randn(*shape, N_ACT, generator=torch.Generator().manual_seed(3)).tanh()
    return data


@pytest.mark.parametrize("shape", [(6,), (3, 2), ()], ids=str)
def test_gradients_of_each_member(papers: ModuleType, shape: tuple[int, ...]) -> None:
    """An et al. 2021, eq. 5: the members' slopes to the action, as unit vectors, are to point elsewhere."""
    members, data = critics(3, "state_action_value"), continuous(*shape)
    loss = papers.EDACLoss(actor(), members)
    loss.select_out_keys("loss_diversity")
    found = loss(data)["loss_diversity"]
    found.backward()
    action = data["action"].clone().requires_grad_()
    units = []
    for member in members:
        value = member.module(data["observation"], action).sum()
        (slope,) = torch.autograd.grad(value, action, create_graph=True)
        units.append(slope / slope.norm(dim=-1, keepdim=True))
    pairs = [(one * other).sum(-1) for one in units for other in units if one is not other]
    expected = torch.stack(pairs).sum(0).mean()
    torch.testing.assert_close(found.detach(), expected.detach())
    expected.backward()
    weights = loss.qvalue_network_params.flatten_keys()
    for name, value in members[1].named_parameters():
        if value.grad is None:  # of the last bias, which no slope depends on
            assert weights[name].grad is None
        else:
            torch.testing.assert_close(weights[name].grad[1], value.grad)


def test_gradients_to_each_draw(papers: ModuleType) -> None:
    members, data, policy = critics(2, "worth"), continuous(6), actor()
    loss = papers.DrawnSlopeLoss(policy, members)
    torch.manual_seed(1)
    found = loss(data)["loss_slope"]
    torch.manual_seed(1)
    drawn = policy.get_dist(data.clone()).rsample((4,))
    squares = []
    for member in members:
        value = member.module(data["observation"].expand(4, 6, N_OBS), drawn).sum()
        squares.append(torch.autograd.grad(value, drawn, create_graph=True)[0].norm(dim=-1) ** 2)
    torch.testing.assert_close(found, torch.stack(squares).mean())


def test_gradients_of_each_member_compiled(papers: ModuleType) -> None:
    loss = papers.EDACLoss(actor(), critics(3, "state_action_value"))
    loss.select_out_keys("loss_diversity")
    data = continuous(6)
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(data)["loss_diversity"], loss(data)["loss_diversity"])


WEIGHTS = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def of_members(x: Tensor, y: Tensor) -> Tensor:
    """A number of each of three members for each row."""
    return (WEIGHTS[:, None] * (x * y.sum(-1, keepdim=True)).sin()).sum(-1)


def test_member_gradients_mapped() -> None:
    x, y = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(1))
    expected = member_gradients(of_members, x, y)
    assert expected.shape == (3, 5, 8)
    mapped = torch.vmap(lambda x, y: member_gradients(of_members, x[None], y[None]))(x, y)
    torch.testing.assert_close(mapped.squeeze(2).transpose(0, 1), expected)
