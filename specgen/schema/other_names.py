"""What others call the distributions of policies."""

from __future__ import annotations

from collections.abc import Collection

_NORMAL = ("normal", "write `tanh_normal` for an action with bounds, `normal` for one without")
_CERTAIN = ("tanh_delta", "write `tanh_delta` for an action with bounds, `delta` for one without")
_SQUASHED = ("tanh_normal", "write `tanh_normal`")
_CHOICES = ("categorical", "write `categorical`")
_DISTRIBUTIONS = {
    "gaussian": _NORMAL, "independentnormal": _NORMAL, "diaggaussian": _NORMAL, "diagonalgaussian": _NORMAL,
    "deterministic": _CERTAIN, "dirac": _CERTAIN,
    "squashedgaussian": _SQUASHED, "squashednormal": _SQUASHED, "tanhgaussian": _SQUASHED,
    "softmax": _CHOICES, "discrete": _CHOICES, "multinomial": _CHOICES,
}  # fmt: skip
"""What others call the distributions of policies, each with one that is meant, and what to write."""


def otherwise_called(name: str, expected: Collection[str]) -> str | None:
    """What to write in the place of a name that others use for one of those that are expected; None if nobody does."""
    meant = _DISTRIBUTIONS.get(name.lower().replace("_", "").replace("-", ""))
    return meant[1] if meant is not None and meant[0] in expected else None
