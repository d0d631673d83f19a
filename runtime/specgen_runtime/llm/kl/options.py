"""The keywords that transforms with a KL penalty share."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias, TypedDict

from specgen_runtime.llm.kl_estimators import Estimator
from specgen_runtime.services import ActorOptions

__all__ = ["KLOptions", "Level", "PenaltyOptions", "Spread", "split_options"]

Spread: TypeAlias = Literal["sum", "tokens"]
Level: TypeAlias = Literal["token", "sequence"]


class PenaltyOptions(TypedDict, total=False):
    """Keywords of the penalty; see `KLPenalty`."""

    estimator: Estimator
    level: Level
    bound: float
    spread: Spread
    check_finite: bool
    target_kl: float | None
    horizon: float


class KLOptions(PenaltyOptions, ActorOptions, total=False):
    """Keywords of the penalty, and of the Ray actors that its models may run in."""


def split_options(owner: type, options: Mapping[str, Any]) -> tuple[PenaltyOptions, ActorOptions]:
    """The keywords of the penalty, and those of Ray actors.

    Args:
        owner: whose keywords they are, in messages.
        options: what it was given beside the parameters that it names.

    Raises:
        TypeError: one is neither.
    """
    kinds = PenaltyOptions.__annotations__, ActorOptions.__annotations__
    for name in options:
        if not any(name in kind for kind in kinds):
            named = inspect.signature(owner).parameters.values()
            own = [each.name for each in named if each.kind is not each.VAR_KEYWORD]
            close = get_close_matches(name, [*own, *kinds[0], *kinds[1]], 1)
            hint = f": did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"{owner.__name__} has no keyword {name!r}{hint}")
    penalty, actor = ({name: options[name] for name in kind if name in options} for kind in kinds)
    return penalty, actor  # type: ignore[return-value]
