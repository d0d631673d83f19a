"""What each term of a loss trains."""

from __future__ import annotations

from specgen.check.lints.gradients import Gradients
from specgen.check.losses.model import CheckedLoss


def trained_by_terms(loss: CheckedLoss) -> dict[str, tuple[str, ...]]:
    """The networks and learned numbers that the gradient of each term reaches, in the order of declaration."""
    gradients = Gradients(loss.let, loss.forward)
    names = [*(network.name for network in loss.networks), *(one.name for one in loss.learnables)]
    return {
        term.name: tuple(name for name in names if name in gradients.trained(term.expr))
        for term in loss.terms
    }
