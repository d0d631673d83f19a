"""What the class of a loss computes before its pure function, as printed Python."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.loss_forward import (
    Alias,
    Choice,
    Computed,
    Count,
    Data,
    Draw,
    DrawnLogProb,
    Forward,
    ForwardValue,
    NetworkCall,
    Read,
    parts_of,
)
from specgen.check.loss_model import CheckedLoss, LossNetwork
from specgen.check.loss_values import ForwardValues
from specgen.check.model import identifier
from specgen.code import Code, using
from specgen.expr import Type, Typed
from specgen.literals import literal
from specgen.plan.loss_parts import LossParts
from specgen.plan.loss_reads import read_role, where_needed
from specgen.plan.model import Line
from specgen.program.conditions import ALWAYS, NEVER, Condition
from specgen.program.torch_text import print_expression


class ForwardPrinter:
    """Prints the values that the class of one loss computes.

    Args:
        loss: the loss.
        parts: what its pure function takes.
    """

    def __init__(self, loss: CheckedLoss, parts: LossParts) -> None:
        self._loss = loss
        self._parts = parts
        self._networks = {network.name: network for network in loss.networks}
        self._roles = {role.name: role for role in loss.roles}
        types: dict[str, Type | None] = {role.name: role.type for role in loss.roles}
        types |= {
            one.output: one.type for one in loss.networks if not one.policy and types.get(one.output) is None
        }
        self._types = types
        self._values = ForwardValues(self._networks, types, frozenset(), list(loss.forward))
        drawn = {made.value.draw: made.name for made in loss.forward if isinstance(made.value, DrawnLogProb)}
        self._scored = drawn

    def lines(self) -> Iterator[Line]:
        """The assignments of `forward`, in order: a draw and its log-probability are one."""
        for made in self._loss.forward:
            unwanted = made.replaced or self._needed(made.name) == NEVER
            if unwanted or isinstance(made.value, DrawnLogProb):
                continue
            value, name, absent = self.value(made.value), made.name, "None"
            if isinstance(made.value, Draw) and name in self._scored:
                value = self._draw(made.value, "_and_log_prob")
                name, absent = f"{name}, {self._scored[name]}", "(None, None)"
            value = where_needed(self._loss, self._needed(made.name), value, absent)
            yield Line(using(f"{name} = {value}", *value.uses), made.path)

    def argument(self, made: Forward) -> Code:
        """A value as an argument of the pure function: its name, or a function of what is computed there."""
        if not made.replaced:
            return Code(made.name)
        value = self.value(made.value)
        text = f"lambda {', '.join(map(identifier, made.replaced))}: {value}"
        return where_needed(self._loss, self._needed(made.name), using(text, *value.uses))

    def _needed(self, name: str) -> Condition:
        """When a value is needed."""
        return self._parts.needed(next(made.symbol for made in self._loss.forward if made.name == name))

    def _there(self, value: ForwardValue) -> Code:
        """A value that is there, where what it is needed for is computed: type checkers are told so."""
        text = self.value(value)
        if isinstance(value, Alias) and self._needed(value.name) != ALWAYS:
            return using(f"not_none({text})", "not_none", *text.uses)
        return text

    def value(self, value: ForwardValue) -> Code:
        """A value as expressions see it."""
        match value:
            case Data():
                read = self._read(value)
                return using(f"{read}.squeeze(-1)", *read.uses) if self._is_column(value.role) else read
            case Alias():
                return Code(identifier(value.name))
            case Computed():
                return Code(identifier(value.name))
            case NetworkCall():
                return self._called(value)
            case Draw():
                return self._draw(value, "")
            case Read():
                return self._of_distribution(value)
            case Choice():
                assert value.typed is not None
                chosen = python(value.typed, "self.")
                then, otherwise = self.value(value.then), self.value(value.otherwise)
                text = f"{_inside(then)} if {chosen} else {otherwise}"
                return using(text, *then.uses, *chosen.uses, *otherwise.uses)
            case DrawnLogProb():
                raise ValueError(f"{value.draw} gives its log-probability itself")

    def _called(self, call: NetworkCall) -> Code:
        network = self._networks[call.network]
        record = "tensordict" if call.record == "now" else "next_tensordict"
        owner = f"self.functional_network({literal(network.name)})" if network.optional else network.name
        replaced = ""
        uses: set[str] = set()
        if call.replaced:
            drawn = {role: "draw" in self._values.type_of(value).axes for role, value in call.replaced}
            parts = []
            for role, value in call.replaced:
                stored = self._stored(role, value)
                uses |= stored.uses
                behind = ".unsqueeze(0)" if any(drawn.values()) and not drawn[role] else ""
                parts.append(f"keys.{self._key(role)}: {_inside(stored) if behind else stored}{behind}")
            replaced = f", {{{', '.join(parts)}}}" + (", draws=True" if any(drawn.values()) else "")
        if network.policy:
            copy = literal(call.variant)
            text = f"{owner}.dist({copy}, {record}{replaced}, generator=self.generator)"
            return using(text, *uses)
        behind = ", randomness=self.vmap_randomness)" if network.members else ")"
        behind += ".squeeze(-1)" if network.type.col else ""
        return using(
            f"{owner}.{call.variant}({record}, keys.{self._key(network.output)}{replaced}{behind}", *uses
        )

    def _stored(self, role: str, value: ForwardValue) -> Code:
        """A value as a network reads it in the place of data: numbers have a trailing 1 there."""
        if isinstance(value, Data):
            return self._read(value)
        text = self._there(value)
        return using(f"{_inside(text)}.unsqueeze(-1)", *text.uses) if self._is_column(role) else text

    def _draw(self, draw: Draw, behind: str) -> Code:
        distribution, n = self._there(draw.distribution), self._count(draw.count)
        return using(f"{_inside(distribution)}.{draw.kind}{behind}({n})", *distribution.uses, *n.uses)

    def _of_distribution(self, read: Read) -> Code:
        distribution = self._there(read.distribution)
        given = [self._scored_value(part) for part in read.given]
        n = self._count(read.count)
        arguments = [*given, n] if n.text else given
        text = f"{_inside(distribution)}.{read.function}({', '.join(map(str, arguments))})"
        return using(text, *distribution.uses, *(name for one in arguments for name in one.uses))

    def _scored_value(self, value: ForwardValue) -> Code:
        """What is scored, as it is stored: data must have no gradients."""
        if isinstance(value, Data):
            read = self._read(value)
            return using(f"without_gradient({read}, {literal(value.role)})", "without_gradient", *read.uses)
        return self._there(value)

    def _count(self, count: Count | None) -> Code:
        return Code("") if count is None else python(count.typed, "self.")

    def _read(self, data: Data) -> Code:
        return read_role(self._loss, self._roles[data.role])

    def _key(self, role: str) -> str:
        return self._roles[role].accepted if role in self._roles else role

    def _is_column(self, role: str) -> bool:
        type = self._types.get(role)
        return type is not None and type.col


def records(value: ForwardValue, loss: CheckedLoss) -> set[str]:
    """The records that a value reads."""
    after = {role.name for role in loss.roles if role.after}
    parts = list(parts_of(value))
    found: set[str] = {part.record for part in parts if isinstance(part, NetworkCall)}
    return found | {"next" for part in parts if isinstance(part, Data) and part.role in after}


def roles_read(loss: CheckedLoss) -> set[str]:
    """The roles that values of the class read from the data."""
    return {part.role for made in loss.forward for part in parts_of(made.value) if isinstance(part, Data)}


def reparameterized(loss: CheckedLoss, network: LossNetwork) -> bool:
    """Whether draws of a policy need gradients."""
    drawn = (made for made in loss.forward if made.network == network.name)
    parts = (part for made in drawn for part in parts_of(made.value))
    return any(isinstance(part, Draw) and part.kind == "rsample" for part in parts)


def python(condition: Typed, owner: str = "") -> Code:
    """An expression of parameters in Python; they are names, or attributes of `owner`."""
    return print_expression(condition, lambda symbol: f"{owner}{symbol.name}")


def _inside(code: Code) -> str:
    """A value as what something else is asked of."""
    return f"({code})" if " if " in code.text else code.text
