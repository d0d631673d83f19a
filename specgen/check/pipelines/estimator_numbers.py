"""The numbers that value estimators have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from specgen.check.pipelines.model import GROUP_ADVANTAGE

ESTIMATOR_NUMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "td0": ("gamma",),
    "td1": ("gamma",),
    "td_lambda": ("gamma", "lmbda"),
    "gae": ("gamma", "lmbda"),
    "vtrace": ("gamma",),
    "multi_agent_gae": ("gamma", "lmbda"),
    GROUP_ADVANTAGE: (),
}
"""The names of the numbers of each estimator, by the name of that."""
