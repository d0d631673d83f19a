"""The keywords that transforms with a KL penalty share."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, TypeAlias, TypedDict

from specgen_runtime.llm.kl_estimators import Estimator
from specgen_runtime.services import ActorOptions

__all__ = ["FixedArguments", "KLOptions", "Level", "PenaltyOptions", "Spread", "split_options"]

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


class FixedArguments:
    """Base of transforms most of whose arguments are used up when they are made.

    ``class Thing(FixedArguments, ..., changeable=("coeff",))``: assigning any other argument of `Thing` to one that is
    made is an AttributeError, as it would have no effect. So is assigning what follows from arguments: `derived` says
    for each such attribute what to give instead.
    """

    _fixed: ClassVar[frozenset[str]] = frozenset()
    _derived: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(
        cls,
        changeable: Collection[str] | None = None,
        derived: Mapping[str, str] | None = None,
        **keywords: Any,
    ) -> None:
        super().__init_subclass__(**keywords)
        if derived is not None:
            cls._derived = derived
        if changeable is not None:
            of_class: Any = cls
            named = {*inspect.signature(of_class.__init__).parameters} - {"self", "options"}
            cls._fixed = frozenset({*named, *KLOptions.__annotations__} - {*changeable})

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._derived:
            raise AttributeError(f"{name} can't be assigned: {self._derived[name]}")
        if name in self._fixed:
            made = type(self).__name__
            where = f"{made}(..., {name}=...)"
            if name in PenaltyOptions.__annotations__ and hasattr(type(self), "penalty"):
                where = f"the transform's `penalty`, or {where}"
            raise AttributeError(f"{name} has no effect on a {made} that is made: give it to {where}")
        super().__setattr__(name, value)
