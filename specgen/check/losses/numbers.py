"""What a checked loss has of numbers: parameters that are buffers, what specs say, and what expressions read of either."""

from __future__ import annotations

from specgen.check.model import Parameter
from specgen.expr import Symbol, Typed
from specgen.values import dataclass


@dataclass(frozen=True)
class CheckedDomain:
    """A role of which keywords of the constructor say the spec.

    Attributes:
        role: the role.
        places: the keywords, of which one is given, with their places in the declaration.
        network: the policy whose own spec says what they don't.
        low, high: its bounds; None where no expression reads them.
        size: how many numbers it has.
    """

    role: str
    places: tuple[tuple[int, str], ...]
    network: str | None
    low: Symbol | None
    high: Symbol | None
    size: Symbol

    @property
    def keywords(self) -> tuple[str, ...]:
        """The keywords."""
        return tuple(word for _, word in self.places)


@dataclass(frozen=True)
class CoefficientPart:
    """A part of a parameter that is a number or a pair: its name in `parts`, its value, and its limits, those of both too."""

    name: str
    symbol: Symbol
    range: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Coefficient:
    """A parameter that the class keeps as a buffer.

    Attributes:
        name: the parameter.
        state: the name of the buffer.
        auto: the number that the default stands for, the word "auto" or None; None for a parameter whose default
            stands for itself.
        of_domain: whether that number is one of a spec, which may be known only when it is read.
        auto_when: the condition under which there is that number; None for always.
        symbol: its value.
        nonzero: whether it was not 0 when the loss was made.
        parts: what expressions read of a number that may be a pair, and the limits of each.
        true_is: the parameter whose number True stands for.
        apart: whether the parts are buffers of their own where one number is given, too.
        by_part: whether it may be a number for each part of an action.
    """

    name: str
    state: str
    auto: Typed | None
    of_domain: bool
    auto_when: Typed | None
    symbol: Symbol
    nonzero: Symbol
    parts: tuple[CoefficientPart, ...] = ()
    true_is: str | None = None
    apart: bool = False
    by_part: bool = False

    @property
    def filled(self) -> bool:
        """Whether a number is there also where None is given."""
        return self.auto is not None and self.auto_when is None


@dataclass(frozen=True)
class ParamRead:
    """What expressions read of a parameter.

    Attributes:
        symbol: its value.
        param: the parameter.
        tensor: whether it is a buffer.
        part: the name of the part of a pair that it is; empty elsewhere.
        absent: whether it may be None.
        late: whether it may be known only when it is read: so it is read where something needs it.
    """

    symbol: Symbol
    param: Parameter
    tensor: bool
    part: str = ""
    absent: bool = False
    late: bool = False

    @property
    def name(self) -> str:
        """Its name in the pure function."""
        return self.symbol.name

    @property
    def asks(self) -> bool:
        """Whether it says that a number was not 0 when the loss was made."""
        return self.symbol.type.dtype == "bool" and self.param.kind != "bool"
