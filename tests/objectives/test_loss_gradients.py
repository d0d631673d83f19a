"""What no gradient of a loss goes through is computed without gradients, and everything else with them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.objectives import FunctionalNetwork, input_gradient, member_gradients

from tests.objectives.every_loss import batch, losses, made

pytestmark = pytest.mark.filterwarnings("ignore:No target network updater", "ignore:.*arget.*updater.*")

RUNS = {
    "SACLoss": {
        ("actor_network", "dist", False),
        ("qvalue_network", "target", False),
        ("qvalue_network", "live", True),
        ("actor_network", "dist", True),
        ("qvalue_network", "frozen", True),
    },
    "DDPGLoss": {
        ("value_network", "live", True),
        ("actor_network", "target", False),
        ("actor_network", "frozen", False),  # which that is without target parameters
        ("value_network", "target", False),
        ("actor_network", "live", True),
        ("value_network", "frozen", True),
    },
    "TD3Loss": {
        ("actor_network", "live", True),
        ("qvalue_network", "frozen", True),
        ("actor_network", "target", False),
        ("qvalue_network", "target", False),
        ("qvalue_network", "live", True),
    },
    "DQNLoss": {("value_network", "live", True), ("value_network", "target", False)},
    "A2CLoss": {("actor_network", "dist", True), ("critic_network", "live", True)},
}
"""The runs of networks of some losses, and whether they are made with gradients."""


@pytest.mark.parametrize("name", RUNS)
def test_runs_without_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: set[tuple[str, str, bool]] = set()
    for method in ("live", "frozen", "target", "dist"):
        kept = getattr(FunctionalNetwork, method)

        def run(self: Any, *args: Any, kept: Any = kept, method: str = method, **kwargs: Any) -> Any:
            runs.add((self.name, method, torch.is_grad_enabled()))
            return kept(self, *args, **kwargs)

        monkeypatch.setattr(FunctionalNetwork, method, run)
    made(losses()[name])(batch(name, 5))
    assert runs == RUNS[name]


def test_targets_are_computed_without_gradients() -> None:
    """Even a value that requires gradients brings none, and the estimator does not see them."""
    from specgen_std.losses.sac import sac_qvalue

    seen: list[tuple[bool, bool]] = []

    def value_estimate(next_value: torch.Tensor) -> torch.Tensor:
        seen.append((torch.is_grad_enabled(), next_value.requires_grad))
        return next_value

    next_q, q = torch.randn(2, 2, 5, requires_grad=True).unbind(0)
    terms = sac_qvalue(
        next_q,
        None,
        torch.randn(5, requires_grad=True),
        q,
        value_estimate,
        has_value_network=False,
        loss_function="l2",
        log_alpha=torch.zeros((), requires_grad=True),
    )
    assert seen == [(False, False)]
    (gradient,) = torch.autograd.grad(terms.loss_qvalue.sum(), [next_q], allow_unused=True)
    assert gradient is None


def test_derivatives_of_what_does_not_depend_on_its_inputs_are_zero() -> None:
    """As `torch.func` has them, by which compiled losses compute."""
    x, y = torch.randn(3, 2), torch.randn(3, 4, requires_grad=True)
    constant = input_gradient(lambda x, y: torch.ones(3), x, y)
    assert torch.equal(constant, torch.zeros(3, 6))
    assert torch.equal(torch.func.grad(lambda x: torch.ones(3).sum())(x), torch.zeros(3, 2))
    members = member_gradients(lambda x: torch.ones(5, 3), x)
    assert torch.equal(members, torch.zeros(5, 3, 2))
    of_one = input_gradient(lambda x, y: y.sum(-1) ** 2, x, y)
    assert torch.equal(of_one[:, :2], torch.zeros(3, 2))
    assert of_one.requires_grad
