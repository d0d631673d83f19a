"""What the class of a loss computes before its pure function, as printed Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from specgen.check.losses.forward import (
    Alias,
    Bernoulli,
    Choice,
    Chosen,
    Computed,
    Count,
    Data,
    Draw,
    DrawnLogProb,
    Forward,
    ForwardValue,
    NetworkCall,
    Noise,
    Read,
    Record,
    parts_of,
)
from specgen.check.losses.model import CheckedLoss, LossNetwork
from specgen.check.losses.values import ForwardValues
from specgen.check.model import identifier
from specgen.code import Code, using
from specgen.expr import Symbol, Type, Typed
from specgen.literals import literal
from specgen.plan.losses.conditions import where_needed
from specgen.plan.model import Line
from specgen.program.conditions import ALWAYS, Condition
from specgen.program.torch_text import print_expression


class ForwardPrinter:
    """Prints the values that the class of one loss computes.

    Args:
        loss: the loss.
        needed: when each value is needed.
    """

    def __init__(self, loss: CheckedLoss, needed: Callable[[Symbol], Condition]) -> None:
        self._loss = loss
        self._needed = needed
        self._conditional = {made.name for made in loss.forward if needed(made.symbol) != ALWAYS}
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
            if made.replaced or isinstance(made.value, DrawnLogProb):
                continue
            value, name, otherwise = self.value(made.value), made.name, "None"
            if isinstance(made.value, Draw) and name in self._scored:
                value = self._draw(made.value, "_and_log_prob")
                name, otherwise = f"{name}, {self._scored[name]}", "(None, None)"
            value = where_needed(self._loss, self._needed(made.symbol), value, otherwise)
            yield Line(using(f"{name} = {value}", *value.uses), made.path)

    def argument(self, made: Forward) -> Code:
        """A value as an argument of the pure function: its name, or a function of what is computed there."""
        if not made.replaced:
            return Code(made.name)
        value = self.value(made.value)
        return using(f"lambda {', '.join(map(identifier, made.replaced))}: {value}", *value.uses)

    def value(self, value: ForwardValue) -> Code:
        """A value as expressions see it."""
        match value:
            case Data():
                behind = ".squeeze(-1)" if self._is_column(value.role) else ""
                return Code(f"{self._read(value)}{behind}")
            case Alias() if value.name in self._conditional:
                return using(f"not_none({identifier(value.name)})", "not_none")
            case Alias():
                return Code(identifier(value.name))
            case Computed():
                return Code(identifier(value.name))
            case NetworkCall():
                return self._called(value)
            case Draw():
                return self._draw(value, "")
            case Noise():
                like = self.value(value.like)
                return using(f"normal_like({like}, self.generator)", "normal_like", *like.uses)
            case Bernoulli():
                p = self._count(value.probability)
                return using(f"bernoulli_of(tensordict, {p}, self.generator)", "bernoulli_of", *p.uses)
            case Chosen():
                members, k = self.value(value.value), self._count(value.count)
                text = f"chosen_members({members}, {k}, self.generator)"
                return using(text, "chosen_members", *members.uses, *k.uses)
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
        if network.plain and not network.policy:
            return self._called_with_tensors(network, call)
        record = "tensordict" if call.record == "now" else "next_tensordict"
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
        owner = f"self.functional_network({literal(network.name)})" if network.optional else network.name
        if network.policy:
            copy = literal(call.variant)
            plain = f", plain=keys.{self._key(network.output)}" if network.certain else ""
            return using(f"{owner}.dist({copy}, {record}{replaced}, generator=self.generator{plain})", *uses)
        behind = ", randomness=self.vmap_randomness)" if network.members else ")"
        behind += ".squeeze(-1)" if network.type.col else ""
        return using(
            f"{owner}.{call.variant}({record}, keys.{self._key(network.output)}{replaced}{behind}", *uses
        )

    def _called_with_tensors(self, network: LossNetwork, call: NetworkCall) -> Code:
        given = dict(call.replaced)
        values = [
            self._stored(role, given[role]) if role in given else self._read(Data(role), call.record)
            for role in network.reads
        ]
        behind = ".squeeze(-1)" if network.type.col else ""
        uses = (name for value in values for name in value.uses)
        return using(f"self.{network.name}({', '.join(value.text for value in values)}){behind}", *uses)

    def _stored(self, role: str, value: ForwardValue) -> Code:
        """A value as a network reads it in the place of data: numbers have a trailing 1 there."""
        if isinstance(value, Data):
            return self._read(value)
        text = self.value(value)
        return using(f"{_inside(text)}.unsqueeze(-1)", *text.uses) if self._is_column(role) else text

    def _draw(self, draw: Draw, behind: str) -> Code:
        distribution, n = self.value(draw.distribution), self._count(draw.count)
        return using(f"{_inside(distribution)}.{draw.kind}{behind}({n})", *distribution.uses, *n.uses)

    def _of_distribution(self, read: Read) -> Code:
        distribution = self.value(read.distribution)
        given = [self._scored_value(part) for part in read.given]
        n = self._count(read.count)
        arguments = [*given, n] if n.text else given
        text = f"{_inside(distribution)}.{read.function}({', '.join(map(str, arguments))})"
        return using(text, *distribution.uses, *(name for one in arguments for name in one.uses))

    def _scored_value(self, value: ForwardValue) -> Code:
        """What is scored, as it is stored: data must have no gradients."""
        if isinstance(value, Data):
            return Code(self._read(value).text.replace("self._read(", "self._read_without_gradient(", 1))
        return self.value(value)

    def _count(self, count: Count | None) -> Code:
        return Code("") if count is None else python(count.typed, "self.")

    def _read(self, data: Data, of: Record = "now") -> Code:
        role = self._roles[data.role]
        record = "next_tensordict" if role.after or of == "next" else "tensordict"
        return Code(f"self._read({record}, keys.{role.accepted}, {literal(role.name)})")

    def _key(self, role: str) -> str:
        """The name under which the keys of the loss hold a role."""
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


def roles_read(loss: CheckedLoss, record: Record = "now") -> set[str]:
    """The roles that values of the class read from the data, or from the next ones."""
    plain = {network.name: network.reads for network in loss.networks if network.plain}
    found: set[str] = set()
    for part in (part for made in loss.forward for part in parts_of(made.value)):
        if isinstance(part, Data) and record == "now":
            found.add(part.role)
        elif isinstance(part, NetworkCall) and part.record == record:
            found |= set(plain.get(part.network, ())) - {role for role, _ in part.replaced}
    return found


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
