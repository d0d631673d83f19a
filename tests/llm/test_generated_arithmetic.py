"""What is declared in `runtime/schemas` and generated into the runtime: up to date, shared with losses, and right."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from specgen_runtime.llm.kl.generated import kl_estimators as estimators
from specgen_runtime.llm.kl.generated import penalties

from tests.support import generate

RUNTIME = Path(__file__).resolve().parents[2] / "runtime"
PACKAGE = RUNTIME / "specgen_runtime" / "llm" / "kl" / "generated"
SCORED = torch.tensor([[False, True, True, False], [True, False, False, True], [False] * 4])
KL = torch.tensor([[9.0, 1.0, 2.0, 9.0], [0.5, 9.0, 9.0, -1.0], [9.0] * 4]).where(SCORED, 0.0)
REWARD = torch.tensor([1.0, 2.0, 3.0])


def test_it_is_up_to_date() -> None:
    schemas = {path.name: path.read_text(encoding="utf-8") for path in (RUNTIME / "schemas").glob("*.yaml")}
    made = generate(schemas, "specgen_runtime.llm.kl.generated")
    found = {path.name: path.read_text(encoding="utf-8") for path in PACKAGE.glob("*.py")}
    assert {path.rsplit("/", 1)[-1]: text for path, text in made.items()} == found, (
        "run `specgen build` in runtime"
    )


def test_losses_share_the_estimators() -> None:
    """One text, of which both packages are generated, also where a link became a copy."""
    text = (RUNTIME / "schemas" / "kl_estimators.yaml").read_text(encoding="utf-8")
    assert text == (RUNTIME.parent / "schemas" / "losses" / "kl_estimators.yaml").read_text(encoding="utf-8")
    for schema in ("grpo", "sft"):
        losses = (RUNTIME.parent / "schemas" / "losses" / f"{schema}.yaml").read_text(encoding="utf-8")
        assert "kl_k3(" in losses
        assert "expm1" not in losses


def test_the_last_scored_token() -> None:
    last = penalties.last_scored(SCORED)
    assert last.tolist() == [[False, False, True, False], [False, False, False, True], [False] * 4]
    assert penalties.sequence_value(KL, last).tolist() == [[0, 0, 3, 0], [0, 0, 0, -0.5], [0] * 4]


def test_rewards() -> None:
    coeff = torch.tensor(0.5)
    assert penalties.penalised_reward(REWARD, KL, coeff).tolist() == [-0.5, 2.25, 3.0]
    last = penalties.last_scored(SCORED)
    spread = penalties.spread_reward(REWARD, KL, last, coeff)
    assert spread.tolist() == [[0, -0.5, 0, 0], [-0.25, 0, 0, 2.5], [0] * 4]
    torch.testing.assert_close(spread[:2].sum(-1), penalties.penalised_reward(REWARD, KL, coeff)[:2])
    tokens = penalties.penalised_token_reward(torch.ones(3, 4), KL, coeff)
    assert tokens.tolist() == (1 - 0.5 * KL).tolist()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_the_reward_of_other_tokens_is_none(bad: float) -> None:
    """A reward that is not finite stays at its token."""
    last = penalties.last_scored(SCORED)
    spread = penalties.spread_reward(torch.tensor([bad, 0.0, 0.0]), KL, last, torch.tensor(1.0))
    assert spread[0, :2].isfinite().all()
    assert not spread[0, 2].isfinite()


def test_metrics() -> None:
    assert float(penalties.scored_mean(KL, SCORED)) == pytest.approx(2.5 / 4)
    assert float(penalties.scored_max(KL, SCORED)) == 2.0
    assert float(penalties.scored_max(-KL.abs() - 1, SCORED)) == -1.5
    nothing = torch.zeros_like(SCORED)
    assert float(penalties.scored_max(KL, nothing)) == float(penalties.scored_mean(KL, nothing)) == 0.0
    assert float(penalties.clipped_fraction(KL, SCORED, bound=0.75)) == pytest.approx(3 / 4)


@pytest.mark.parametrize(("kl", "change"), [(3.0, 0.2), (0.1, -0.2), (1.1, 0.1)])
def test_the_coefficient_follows_the_target(kl: float, change: float) -> None:
    made = penalties.adapted_coefficient(
        torch.tensor(0.3), torch.tensor(kl), target=1.0, horizon=100.0, rows=20
    )
    assert float(made) == pytest.approx(0.3 * (1 + change * 20 / 100))


def test_weights() -> None:
    log_probs = torch.tensor([[0.1, -0.3, 0.5]], requires_grad=True)
    drawn = torch.zeros(1, 3)
    tokens = estimators.importance_weight(log_probs, drawn)
    torch.testing.assert_close(tokens, log_probs.exp())
    prefixes = estimators.importance_weight(log_probs, drawn, prefix=True)
    torch.testing.assert_close(prefixes, log_probs.cumsum(-1).exp())
    (gradient,) = torch.autograd.grad(
        estimators.importance_weight(log_probs, drawn, max_weight=1.2).sum(), log_probs
    )
    assert gradient[0, 2] == 0.0
    assert (gradient[0, :2] > 0).all()
