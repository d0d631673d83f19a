"""The values that the class of a loss computes, as far as they are found: their names and types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from specgen.check.losses.distributions import UNTYPED, result_type
from specgen.check.losses.forward import (
    Alias,
    Bernoulli,
    Choice,
    Chosen,
    Computed,
    Data,
    Draw,
    DrawnLogProb,
    Forward,
    ForwardValue,
    Gradient,
    Joint,
    NetworkBuffer,
    NetworkCall,
    Noise,
    Output,
    Read,
    Split,
    parts_of,
    values_below,
)
from specgen.check.losses.model import LossNetwork
from specgen.expr import Type
from specgen.expr.builtins.named_axes import axes_that_differ
from specgen.expr.sizes import Axis, merged_axes, unlike
from specgen.expr.types import Distribution, Record
from specgen.program.names import numbered
from specgen.values import dataclass, replace


@dataclass
class ForwardValues:
    """What was found of the values of one class.

    Attributes:
        networks: the declared networks.
        roles: what the data hold, with its type where that is known.
        taken: the names that the declaration gives.
        found: the values, in order.
    """

    networks: Mapping[str, LossNetwork]
    roles: Mapping[str, Type | None]
    taken: frozenset[str]
    found: list[Forward] = field(default_factory=list)
    _known: dict[ForwardValue, str] = field(default_factory=dict)

    def made(self, name: str) -> Forward | None:
        """The value of that name, if there is one."""
        return next((one for one in self.found if one.name == name), None)

    def add(self, name: str, value: ForwardValue, path: str) -> Forward:
        """Give a value a name that the declaration says."""
        made = Forward(name, value, self.network_of(value), self.type_of(value), path)
        self.found.append(made)
        if not isinstance(value, Choice | Alias):
            self._known.setdefault(value, name)
        return made

    def known(self, value: ForwardValue) -> str | None:
        """The name of a value that was computed before."""
        return self._known.get(value)

    def named(self, value: ForwardValue, path: str) -> str:
        """The name of a value: a new one unless it was computed before."""
        known = self._known.get(value)
        if known is not None:
            return known
        return self.add(
            numbered(self._wish(value), self.taken | {made.name for made in self.found}), value, path
        ).name

    def first_name(self, name: str) -> str:
        """The first name of a value that has several."""
        made = self.made(name)
        return (
            self.first_name(made.value.name) if made is not None and isinstance(made.value, Alias) else name
        )

    def network_of(self, value: ForwardValue) -> str:
        """The network that a value comes from; empty of noise, which comes from none."""
        for part in parts_of(value):
            match part:
                case Noise() | Bernoulli() | NetworkBuffer():
                    return ""
                case NetworkCall():
                    return part.network
                case Alias(name) | DrawnLogProb(name):
                    made = self.made(name)
                    assert made is not None
                    return made.network
                case _:
                    pass
        raise ValueError(value)

    def type_of(self, value: ForwardValue) -> Type:
        """The type of a value; of what expressions compute it is not known."""
        match value:
            case Data():
                return logical(self.roles[value.role])
            case Computed():
                return UNTYPED
            case Alias():
                made = self.made(value.name)
                assert made is not None
                return made.type
            case NetworkCall():
                type = self.networks[value.network].value
                read = (self.type_of(part).axes for _, part in value.replaced)
                return replace(type, axes=merged_axes(type.axes, *read))
            case NetworkBuffer():
                return value.type
            case Joint():
                return self.type_of(value.calls[0])
            case Split():
                return self.type_of(value.run)
            case Output():
                record = self.type_of(value.of)
                assert isinstance(record, Record)
                return replace(dict(record.fields)[value.role], col=False, axes=record.axes)
            case Draw() | Read():
                distribution = self.type_of(value.distribution)
                assert isinstance(distribution, Distribution)
                given = [self.type_of(part) for part in value.given] if isinstance(value, Read) else []
                function = value.kind if isinstance(value, Draw) else value.function
                return result_type(function, distribution, given, drawn_axes(value))
            case Noise():
                like = self.type_of(value.like)
                return replace(like, axes=merged_axes(like.axes, drawn_axes(value)))
            case Bernoulli():
                return Type("bool")
            case Chosen():
                members, few = self.type_of(value.value), Axis("ensemble", value.count.size)
                axes = (few if axis.name == few.name else axis for axis in members.axes)
                return replace(members, axes=tuple(axes))
            case Gradient():
                return replace(gradient_type(value.to, self.roles), axes=self.type_of(value.of).axes)
            case DrawnLogProb():
                return Type("float32", axes=self.type_of(Alias(value.draw)).axes)
            case Choice():
                return self.type_of(value.then)

    def wrong_axes(self, value: ForwardValue) -> str | None:
        """What is wrong with the axes of what a value is computed from; None where nothing is."""
        if isinstance(value, Draw | Noise) and drawn_axes(value):
            (source,) = values_below(value)
            if "draw" in map(str, self.type_of(source).axes):
                return (
                    "there is an axis `draw` already: what is drawn for each draw has one draw, without `n`"
                )
        two = unlike(self.type_of(value).axes)
        return None if two is None else axes_that_differ(*two)

    def _wish(self, value: ForwardValue) -> str:
        """What a value is best called."""
        match value:
            case NetworkCall() | Alias():
                return value.name
            case NetworkBuffer() | Joint() | Split():
                raise ValueError(f"{value} has a name")
            case Output():
                return f"{self._wish(value.of)}_{value.role}"
            case Draw():
                return f"{self._wish(value.distribution)}_{value.kind}"
            case Noise():
                return "standard_normal" if value.ends is None else "uniform"
            case Bernoulli():
                return "bernoulli"
            case Chosen():
                return f"{self._wish(value.value)}_chosen"
            case DrawnLogProb():
                return f"{value.draw}_log_prob"
            case Read():
                computed = "".join(f"_of_{part.name}" for part in value.given if isinstance(part, Computed))
                return f"{self._wish(value.distribution)}_{value.function}{computed}"
            case Gradient():
                return f"{value.of.network}_gradient"
            case Choice():
                return self._wish(value.then)
            case Data() | Computed():
                return "value"


def drawn_axes(draw: Draw | Noise | Read) -> tuple[Axis, ...]:
    """The axis of its own that a draw of several has."""
    return () if draw.count is None else (Axis("draw", draw.count.size),)


def logical(type: Type | None) -> Type:
    """What expressions see of an entry: numbers have no trailing 1 there."""
    return UNTYPED if type is None else replace(type, col=False)


def gradient_type(roles: tuple[str, ...], known: Mapping[str, Type | None]) -> Type:
    """The type of a derivative to these roles, vectors one behind the other where there are several."""
    types = [logical(known[role]) for role in roles]
    if len(types) == 1:
        return types[0]
    sizes = [dim for one in types for dim in one.sizes]
    return replace(types[0], dims=(sum(sizes[1:], start=sizes[0]),))
