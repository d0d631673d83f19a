"""Policies with distributions that have to be named: Beta on an interval, and choices in an order."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from specgen_runtime.modules import OneHotOrdinal, Ordinal, ScaledBeta

from tests.pipelines.small import small_config
from tests.pipelines.test_ends import PPO, trained

SAC = ("SACMountainCar", "pipelines/sac_mountain_car, chains/mountain_car, losses/sac")
CARTPOLE = ("PPOCartPole", "pipelines/ppo_cartpole, chains/cartpole, losses/ppo")
BETA = "networks: {actor_network: {dist: beta, scale: drop}}"


def test_a_beta_policy_has_the_bounds_of_the_action(tmp_path: Path) -> None:
    """PPO trains it: scores of what was drawn are those that were stored, and the ratios begin at 1."""
    with trained(PPO, BETA, tmp_path) as module:
        config = small_config(module)
        parts = module.Training(config)
        batch = parts.collector.next()
        distribution = parts.actor_network.get_dist(batch)
        assert isinstance(distribution, ScaledBeta)
        assert (float(distribution.min), float(distribution.max)) == (-2.0, 2.0)
        assert (distribution.concentration1 > 1).all()
        assert (distribution.concentration0 > 1).all()
        torch.testing.assert_close(distribution.log_prob(batch["action"]), batch["action_log_prob"])
        assert batch["action"].abs().max() > 1  # of the interval, not of one between 0 and 1
        before = [one.detach().clone() for one in parts.actor_network.parameters()]
        with torch.no_grad():
            parts.estimator(batch)
        metrics = module.update(parts, batch.select(*parts.stored).reshape(-1))
        assert float(metrics.mean_ratio) == pytest.approx(1, abs=1e-5)
        after = list(parts.actor_network.parameters())
        assert all(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
        module.train(config, folder=tmp_path / "run")


def test_a_beta_policy_learns_by_draws_that_depend_on_it(tmp_path: Path) -> None:
    with trained(SAC, "networks: {actor_network: {dist: beta}}", tmp_path) as module:
        config = small_config(module)
        parts = module.train(config, folder=tmp_path / "run")
        assert all(one.isfinite().all() for one in parts.actor_network.parameters())
        assert isinstance(parts.actor_network.get_dist(parts.buffer.sample()), ScaledBeta)


ENV = """
envs:
  Choosing:
    doc: Each choice adds to x, the more the later it stands; it is to be near 1.
    state: {x: float32}
    action: {action: ACTION}
    reset: {x: "uniform(-1, 1)"}
    step:
      next.x: x + 0.1 * float32(CHOICE) - 0.2
      reward: -abs(next.x - 1)
      terminated: abs(next.x) > 2
    observation: {observation: "float32[1]"}
    observe: {observation: stack(x)}
"""


@pytest.mark.parametrize(
    ("action", "choice", "dist", "made"),
    [
        ("categorical(5)", "action", "ordinal", Ordinal),
        ("onehot(5)", "argmax(action)", "onehot_ordinal", OneHotOrdinal),
    ],
)
def test_choices_in_an_order(action: str, choice: str, dist: str, made: type, tmp_path: Path) -> None:
    changes = f"env: Choosing\n    networks: {{actor_network: {{dist: {dist}}}}}\n    stop: {{return: drop}}"
    changes += ENV.replace("ACTION", action).replace("CHOICE", choice)
    with trained(CARTPOLE, changes, tmp_path) as module:
        parts = module.train(small_config(module), folder=tmp_path / "run")
        batch = parts.collector.next()
        distribution = parts.actor_network.get_dist(batch)
        assert type(distribution) is made
        torch.testing.assert_close(distribution.log_prob(batch["action"]), batch["action_log_prob"])
        assert batch["scores"].shape[-1] == 5
        torch.testing.assert_close(distribution.probs, made(batch["scores"]).probs)


def test_a_beta_policy_over_one_of_several_actions(tmp_path: Path) -> None:
    """Each action has its own part of the last layer: two weights for each of two forces, five scores for the choice."""
    changes = (
        "env: Choosing\n    stop: {return: drop}\n"
        "    networks: {actor_network: {actions: {force: {dist: beta}, move: {dist: ordinal}}}}"
    )
    changes += ENV.replace(
        "{action: ACTION}", "{action.move: categorical(5), action.force: 'float32[2] in [-3, 1]'}"
    ).replace("float32(CHOICE)", "(float32(action.move) + sum(action.force))")
    with trained(CARTPOLE, changes, tmp_path) as module:
        parts = module.train(small_config(module), folder=tmp_path / "run")
        distributions = parts.actor_network.get_dist(parts.collector.next()).dists
        found = {type(one): one for one in distributions.values()}
        assert set(found) == {ScaledBeta, Ordinal}
        force = found[ScaledBeta]
        assert force.event_shape == (2,)
        assert (float(force.min), float(force.max)) == (-3.0, 1.0)
        assert found[Ordinal].probs.shape[-1] == 5
