"""Losses with policies: draws, log-probabilities and entropies, against the same by hand."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
from specgen_runtime.modules.distributions import rsample_and_log_prob
from tensordict import TensorDict
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
)
from torch import nn

from tests.objectives.peers import N_OBS, action_value, batch, policy
from tests.support import generate, imported

SCHEMA = """\
specgen: 1
losses:
  SoftLoss:
    networks:
      actor_network: {policy: action, in: [observation], target: delay}
      qvalue_network:
        {in: [observation, action], out: {state_action_value: "float32[1]"}, ensemble: members}
    keys: {action: action, stored: {key: action_log_prob, type: float32}}
    params: {members: {default: 2, min: 1}, n: {default: 3, min: 1}, delay: false}
    let:
      dist: actor_network(now)
      new_action: rsample(dist)
      log_p: log_prob(dist, new_action)
      q: min(qvalue_network(now, action=new_action), axis=ensemble)
      several: rsample(dist, n=n)
      each: qvalue_network(now, action=several) - log_prob(dist, several)
      old: where(delay, log_prob(actor_network.target(now), action), stored)
    terms:
      loss_actor: 0.2 * log_p - q
      loss_draws: mean(logsumexp(each, axis=draw), axis=ensemble)
      loss_old: (log_prob(dist, action) - old)**2
      loss_entropy: -entropy(dist, n=n)
  DiscreteLoss:
    networks:
      actor_network: {policy: action, in: [observation]}
      qvalue_network: {qvalue: action, in: [observation], out: {action_value: "float32[n_actions]"}}
    keys: {action: action}
    let:
      dist: actor_network(now)
    terms:
      loss_actor: sum(probs(dist) * (0.1 * log_probs(dist) - qvalue_network.frozen(now)), axis=-1)
      loss_data: -log_prob(dist, action)
      loss_value: (gather(qvalue_network(now), action) - 1.0)**2
  ScoredLoss:
    networks: {actor_network: {policy: action, in: [observation]}}
    keys: {action: {key: action, type: "float32[a]"}}
    let: {dist: actor_network(now)}
    terms:
      loss: -log_prob(dist, 0.5 * action)
      loss_mode: sum((mode(dist) - action)**2, axis=-1)
"""


PACKAGE = "generated_policies"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    with imported(
        generate({"policies.yaml": SCHEMA}, PACKAGE), PACKAGE, tmp_path_factory.mktemp("made")
    ) as module:
        yield module


def data(*shape: int) -> TensorDict:
    steps = batch(*shape)
    return steps.set("action_log_prob", torch.randn(shape, generator=torch.Generator().manual_seed(3)))


@pytest.mark.parametrize("shape", [(6,), (2, 3)])
def test_draws_by_hand(made: ModuleType, shape: tuple[int, ...]) -> None:
    actor, critics = policy(), [action_value(seed=seed) for seed in (1, 2)]
    loss = made.SoftLoss(actor, critics, reduction="none")
    steps = data(*shape)
    torch.manual_seed(5)
    got = loss(steps)
    torch.manual_seed(5)
    dist = actor.get_dist(steps.select("observation"))
    action, log_p = rsample_and_log_prob(dist)
    several, score = rsample_and_log_prob(dist, (3,))

    def value(action: torch.Tensor) -> torch.Tensor:
        observation = steps["observation"].expand(*action.shape[:-1], N_OBS)
        return torch.stack([critic.module(observation, action).squeeze(-1) for critic in critics])

    torch.testing.assert_close(got["loss_actor"], 0.2 * log_p - value(action).amin(0))
    torch.testing.assert_close(got["loss_draws"], (value(several) - score).logsumexp(1).mean(0))
    mine = dist.log_prob(steps["action"])
    torch.testing.assert_close(got["loss_old"], (mine - steps["action_log_prob"]) ** 2)


def test_gradients_go_through_draws(made: ModuleType) -> None:
    loss = made.SoftLoss(policy(), action_value())
    loss(data(5))["loss_actor"].backward()
    assert all(p.grad is not None and p.grad.any() for p in loss.actor_network_params.parameters())


def test_a_generator_of_its_own(made: ModuleType) -> None:
    loss = made.SoftLoss(policy(), action_value())
    results = []
    for _ in range(2):
        loss.generator = torch.Generator().manual_seed(9)
        torch.manual_seed(len(results))
        before = torch.get_rng_state()
        results.append(loss(data(5))["loss_actor"])
        assert torch.equal(before, torch.get_rng_state())
    torch.testing.assert_close(*results, rtol=0, atol=0)
    following = loss(data(5))["loss_actor"]
    assert not torch.equal(following, results[0])


def test_a_choice_reads_one_side_only(made: ModuleType) -> None:
    steps = data(5)
    del steps["action_log_prob"]
    delayed = made.SoftLoss(policy(), action_value(), delay=True)
    with pytest.warns(UserWarning, match="updater"):
        torch.testing.assert_close(delayed(steps)["loss_old"], torch.tensor(0.0))
    with pytest.raises(KeyError, match="action_log_prob"):
        made.SoftLoss(policy(), action_value())(steps)


def discrete() -> ProbabilisticTensorDictSequential:
    torch.manual_seed(4)
    return ProbabilisticTensorDictSequential(
        TensorDictModule(nn.Linear(N_OBS, 3), in_keys=["observation"], out_keys=["logits"]),
        ProbabilisticTensorDictModule(
            in_keys=["logits"], out_keys=["action"], distribution_class=torch.distributions.Categorical
        ),
    )


def test_probabilities_of_discrete_actions(made: ModuleType) -> None:
    actor, values = discrete(), nn.Linear(N_OBS, 3)
    loss = made.DiscreteLoss(actor, values, action_space="categorical", reduction="none")
    steps = batch(6)
    steps["action"] = torch.randint(3, (6,), generator=torch.Generator().manual_seed(2))
    got = loss(steps)
    log_probs = actor[0].module(steps["observation"]).log_softmax(-1)
    q = values(steps["observation"])
    torch.testing.assert_close(got["loss_actor"], (log_probs.exp() * (0.1 * log_probs - q)).sum(-1))
    chosen = steps["action"].unsqueeze(-1)
    torch.testing.assert_close(got["loss_data"], -log_probs.gather(-1, chosen).squeeze(-1))
    torch.testing.assert_close(got["loss_value"], (q.gather(-1, chosen).squeeze(-1) - 1) ** 2)


def test_what_is_computed_is_scored(made: ModuleType) -> None:
    actor = policy()
    loss = made.ScoredLoss(actor, reduction="none")
    steps = batch(6)
    dist = actor.get_dist(steps.select("observation"))
    got = loss(steps)
    torch.testing.assert_close(got["loss"], -dist.log_prob(0.5 * steps["action"]))
    torch.testing.assert_close(
        got["loss_mode"], (dist.deterministic_sample - steps["action"]).square().sum(-1)
    )


def test_a_draw_with_gradients_of_a_distribution_that_has_none(made: ModuleType) -> None:
    with pytest.raises(TypeError, match=r"`actor_network` needs a distribution with gradients.*Categorical"):
        made.SoftLoss(discrete(), action_value())
