"""What the pure function of a loss takes, and how values are stored: shared by the function and the class."""

from __future__ import annotations

from dataclasses import dataclass

from specgen.check.loss_builtins import WORDS
from specgen.check.loss_model import CheckedLoss, Forward, LossParam, LossRole
from specgen.expr import ANYTHING, Binding, Type, Typed, to_torch
from specgen.literals import literal


@dataclass(frozen=True)
class LossParts:
    """The arguments of the pure function.

    Attributes:
        function: its name.
        values: what the networks computed.
        roles: what is read from the data.
        params: what is read from the constructor.
        estimates: whether it takes the value estimator.
    """

    function: str
    values: tuple[Forward, ...]
    roles: tuple[LossRole, ...]
    params: tuple[LossParam, ...]
    estimates: bool


def params_scope(loss: CheckedLoss, prefix: str = "") -> dict[str, Binding]:
    """The parameters of the constructor and the words of their enums, as names or as attributes of `self`."""
    scope: dict[str, Binding] = dict(WORDS)
    for param in loss.params:
        scope[param.name] = Binding(f"{prefix}{param.name}", param.type, param.interval)
        for word in param.choices:
            scope.setdefault(word, Binding(literal(word), Type("str", (), "lit"), ANYTHING, static=word))
    return scope


def stored_text(typed: Typed, type: Type) -> str:
    """The text of a value as a tensor of `type`."""
    return to_torch(typed, cast=type.dtype, dims=type.dims, col=type.col)
