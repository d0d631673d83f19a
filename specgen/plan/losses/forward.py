"""What the class of a loss computes before its pure function, as printed Python."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import groupby

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
    Gradient,
    Joint,
    NetworkBuffer,
    NetworkCall,
    Noise,
    Output,
    Read,
    Split,
    parts_of,
)
from specgen.check.losses.model import CheckedLoss, LossNetwork, LossRole
from specgen.check.losses.values import ForwardValues
from specgen.check.model import identifier
from specgen.code import Code, using
from specgen.expr import Symbol, Type
from specgen.expr.types import Record
from specgen.literals import literal
from specgen.plan.losses.coefficients import order_of_parts
from specgen.plan.losses.conditions import of_attributes, where_needed
from specgen.plan.model import Line
from specgen.precedence import ATOM, LAMBDA, OR, TERNARY
from specgen.program.conditions import ALWAYS, NEVER, Condition


class ForwardPrinter:
    """Prints the values that the class of one loss computes.

    Args:
        loss: the loss.
        needed: when each value is needed.
        trained: the arguments of the pure function that a gradient may go through.
        handed: the values that the pure function takes.
        given: the values that a method is given, by name, as it reads its arguments.
    """

    def __init__(
        self,
        loss: CheckedLoss,
        needed: Callable[[Symbol], Condition],
        trained: frozenset[Symbol],
        handed: Iterable[Forward],
        given: Mapping[str, Code] | None = None,
    ) -> None:
        self._loss = loss
        self._given = given or {}
        self._needed = needed
        self._conditional = {made.name for made in loss.forward if needed(made.symbol) != ALWAYS}
        self._networks = loss.networks_by_name
        self._roles = {role.name: role for role in loss.roles}
        types: dict[str, Type | None] = {role.name: role.type for role in loss.roles}
        written = (one for network in loss.networks for one in network.outputs)
        types |= {role: type for role, type in written if types.get(role) is None}
        self._types = types
        self._values = ForwardValues(self._networks, types, frozenset(), list(loss.forward))
        drawn = {made.value.draw: made.name for made in loss.forward if isinstance(made.value, DrawnLogProb)}
        self._scored = drawn
        self._trained = _trained_through(loss, trained)
        below = (part for made in loss.forward for part in parts_of(made.value))
        self._read_by_name = {one.name for one in below if isinstance(one, Alias)} | {
            one.name for one in handed
        }

    def lines(self) -> Iterator[Line]:
        """The assignments of `forward`, in order; those that no gradient goes through in blocks without gradients."""
        for trained, group in groupby(self._assigned(), lambda made: made.name in self._trained):
            lines = [(self._line(made), made) for made in group]
            if trained or not any(_computes(made.value) for _, made in lines):
                yield from (Line(line, made.path) for line, made in lines)
                continue
            text = "".join(f"\n    {line}" for line, _ in lines)
            uses = {use for line, _ in lines for use in line.uses}
            yield Line(using(f"with torch.no_grad():{text}", "torch", *uses), lines[0][1].path)

    def _assigned(self) -> Iterator[Forward]:
        """What is computed before the pure function, but for what another part needs: a draw gives its log-probability."""
        for made in self._loss.forward:
            if (
                not made.replaced
                and not isinstance(made.value, DrawnLogProb)
                and self._needed(made.symbol) != NEVER
            ):
                yield made

    def _line(self, made: Forward) -> Code:
        value, name, otherwise = self.value(made.value), made.name, "None"
        if isinstance(made.value, Draw) and name in self._scored:
            value = self._draw(made.value, "_and_log_prob")
            draw = name if name in self._read_by_name else "_"
            name, otherwise = f"{draw}, {self._scored[name]}", "(None, None)"
        value = where_needed(self._loss, self._needed(made.symbol), value, otherwise)
        return using(f"{name} = {value}", *value.uses)

    def argument(self, made: Forward) -> Code:
        """A value as an argument of the pure function: its name, or a function of what is computed there."""
        if not made.replaced:
            return Code(made.name)
        value = self.value(made.value)
        names = ", ".join(map(identifier, made.replaced))
        return using(f"lambda {names}: {value}", *value.uses, precedence=LAMBDA)

    def value(self, value: ForwardValue) -> Code:
        """A value as expressions see it."""
        match value:
            case Data():
                behind = ".squeeze(-1)" if self._is_column(value.role) else ""
                return Code(f"{self._read(value)}{behind}")
            case Alias() if value.name in self._given:
                return self._given[value.name]
            case Alias() if value.name in self._conditional:
                return using(f"not_none({identifier(value.name)})", "not_none")
            case Alias():
                return Code(identifier(value.name))
            case Computed():
                return Code(identifier(value.name))
            case NetworkCall():
                return self._called(value)
            case NetworkBuffer():
                return using(
                    f"network_buffer(self, {literal(value.network)}, {literal(value.buffer)})",
                    "network_buffer",
                )
            case Joint():
                return self._joined(value)
            case Split():
                return self._split(value)
            case Output():
                return self._output(value)
            case Draw():
                return self._draw(value, "")
            case Noise():
                return self._noise(value)
            case Bernoulli():
                p = self._count(value.probability)
                return using(f"bernoulli_of(tensordict, {p})", "bernoulli_of", *p.uses)
            case Chosen(value=NetworkCall() as call):
                return self._called(call, value.count)
            case Chosen():
                members, k = self.value(value.value), self._count(value.count)
                return using(f"chosen_members({members}, {k})", "chosen_members", *members.uses, *k.uses)
            case Read():
                return self._of_distribution(value)
            case Gradient():
                return self._gradient(value)
            case Choice():
                assert value.typed is not None
                chosen = of_attributes(value.typed)
                then, otherwise = self.value(value.then), self.value(value.otherwise)
                text = f"{then.at(OR)} if {chosen.at(OR)} else {otherwise}"
                return using(text, *then.uses, *chosen.uses, *otherwise.uses, precedence=TERNARY)
            case DrawnLogProb():
                raise ValueError(f"{value.draw} gives its log-probability itself")

    def _called(
        self, call: NetworkCall, chosen: Count | None = None, variables: Collection[str] = ()
    ) -> Code:
        network = self._networks[call.network]
        if network.kept:
            return self._called_with_tensors(network, call, variables)
        record = "tensordict" if call.record == "now" else "next_tensordict"
        replaced = ""
        uses: set[str] = set()
        drawn = {role for role, value in call.replaced if self._is_drawn(value)}
        if call.replaced:
            parts = []
            for role, value in call.replaced:
                stored = self._stored(role, Computed(role) if role in variables else value)
                uses |= stored.uses
                behind = ".unsqueeze(0)" if drawn and role not in drawn else ""
                parts.append(f"keys.{self._key(role)}: {stored.at(ATOM) if behind else stored}{behind}")
            replaced = f", {{{', '.join(parts)}}}" + (", draws=True" if drawn else "")
        owner = self._owner(network) + ".evaluated" * call.evaluated
        if network.policy:
            copy = literal(call.variant)
            samples = f", samples={len(self._loss.samples)}" if self._loss.samples else ""
            plain = f", plain=keys.{self._key(network.output)}" if network.certain else ""
            text = f"{owner}.dist({copy}, {record}{replaced}{samples}{plain})"
            return using(text, *uses)
        if isinstance(network.type, Record):
            return using(f"{owner}.outputs({literal(call.variant)}, {record}{replaced})", *uses)
        key = f"keys.{self._key(network.output)}"
        behind = "" if chosen is None else f", choose={self._count(chosen)}"
        behind += f"{', randomness=self.vmap_randomness' * bool(network.members)})"
        behind += ".squeeze(-1)" * network.type.col
        text = f"{owner}.{call.variant}({record}, {key}{replaced}{behind}"
        return using(self._checked(text, call, network.output, network.type, bool(network.members)), *uses)

    def _checked(self, text: str, call: NetworkCall, role: str, type: Type, members: bool = False) -> str:
        """What a network gives, which must be one number of each sample, or an array, where its type says so."""
        if type.rank == 1 or type.col or self._loss.samples:
            return text
        record = "tensordict" if call.record == "now" else "next_tensordict"
        axes = members + any(self._is_drawn(value) for _, value in call.replaced)
        behind = f", axes={axes}" if axes else ""
        given = f"{text}, {record}, keys.{self._key(role)}, {literal(role)}"
        if type.dims == ():
            return f"self._number({given}{behind})"
        if call.record == "next" or call.variant != "live":  # all copies give what the trained one gives
            return text
        return f"self._array({given}, {literal(tuple(map(str, type.dims)))}{behind})"

    def _output(self, output: Output) -> Code:
        """An entry of a run of a network that writes several."""
        record, run, made = self.value(output.of), output.of, self._loss.forward
        while isinstance(run, Alias):
            run = next(one.value for one in made if one.name == run.name)
        behind = ".squeeze(-1)" if self._is_column(output.role) else ""
        text = f"{record.at(ATOM)}[keys.{self._key(output.role)}]{behind}"
        if isinstance(run, NetworkCall):
            type = dict(self._networks[run.network].outputs)[output.role]
            text = self._checked(text, run, output.role, type)
        return using(text, *record.uses)

    def _is_drawn(self, value: ForwardValue) -> bool:
        """Whether a value has a dimension of draws in front of the batch."""
        return "draw" in map(str, self._values.type_of(value).axes)

    def _called_with_tensors(
        self, network: LossNetwork, call: NetworkCall, variables: Collection[str]
    ) -> Code:
        given = dict(call.replaced)
        values = [
            self._stored(role, Computed(role) if role in variables else given[role])
            if role in given
            else self._read(Data(role), after=call.record == "next")
            for role in network.reads
        ]
        behind = ".squeeze(-1)" if network.type.col else ""
        uses = (name for value in values for name in value.uses)
        return using(f"self.{network.name}({', '.join(value.text for value in values)}){behind}", *uses)

    @staticmethod
    def _owner(network: LossNetwork) -> str:
        return f"self.functional_network({literal(network.name)})" if network.optional else network.name

    def _joined(self, run: Joint) -> Code:
        network = self._networks[run.calls[0].network]
        inputs: list[str] = []
        uses: set[str] = set()
        for call in run.calls:
            stored = {role: self._stored(role, value) for role, value in call.replaced}
            uses |= {name for code in stored.values() for name in code.uses}
            replaced = ", ".join(f"keys.{self._key(role)}: {code}" for role, code in stored.items())
            record = "tensordict" if call.record == "now" else "next_tensordict"
            inputs.append(f"({record}, {{{replaced}}})")
        behind = ", randomness=self.vmap_randomness" if network.members else ""
        key, calls = self._key(network.output), ", ".join(inputs)
        text = f"joined_values({self._owner(network)}, keys.{key}, [{calls}]{behind})"
        return using(text, "joined_values", *uses)

    def _split(self, part: Split) -> Code:
        run = next(made.value for made in self._loss.forward if made.name == part.run.name)
        assert isinstance(run, Joint)
        name = self.value(part.run)
        behind = ".squeeze(-1)" if self._networks[run.calls[0].network].type.col else ""
        return using(f"{name}[{part.place}]{behind}", *name.uses)

    def _gradient(self, gradient: Gradient) -> Code:
        """The derivative of a run of a network, which is a function of what the derivative is to."""
        given = dict(gradient.of.replaced)
        run = self._called(gradient.of, variables=gradient.to)
        function = "member_gradients" if self._networks[gradient.of.network].members else "input_gradient"
        names = ", ".join(map(identifier, gradient.to))
        inputs = [self.value(given[role]) for role in gradient.to]
        text = f"{function}(lambda {names}: {run}, {', '.join(map(str, inputs))})"
        return using(text, function, *run.uses, *(name for one in inputs for name in one.uses))

    def _stored(self, role: str, value: ForwardValue) -> Code:
        """A value as a network reads it in the place of data: numbers have a trailing 1 there."""
        if isinstance(value, Data):
            return self._read(value)
        text = self.value(value)
        return using(f"{text.at(ATOM)}.unsqueeze(-1)", *text.uses) if self._is_column(role) else text

    def _draw(self, draw: Draw, behind: str) -> Code:
        distribution, n = self.value(draw.distribution), self._count(draw.count)
        return using(f"{distribution.at(ATOM)}.{draw.kind}{behind}({n})", *distribution.uses, *n.uses)

    def _noise(self, noise: Noise) -> Code:
        like, n = self.value(noise.like), self._count(noise.count)
        if noise.ends is None:
            return using(f"normal_like({like})", "normal_like", *like.uses)
        ends = ", ".join(self._count(end).text for end in noise.ends)
        behind = f", n={n}" if n.text else ""
        return using(f"uniform_like({like}, {ends}{behind})", "uniform_like", *like.uses, *n.uses)

    def _of_distribution(self, read: Read) -> Code:
        distribution = self.value(read.distribution)
        if len(read.given) == 1 and isinstance(data := read.given[0], Data):
            return self._scored_data(distribution, data)
        given = [self.value(part) for part in read.given]
        n = self._count(read.count)
        parts = order_of_parts(self._loss) if read.function == "entropies" else ()
        arguments = [*given, *([n] if n.text else ()), *parts]
        text = f"{distribution.at(ATOM)}.{read.function}({', '.join(map(str, arguments))})"
        return using(text, *distribution.uses, *(name for one in arguments for name in one.uses))

    def _scored_data(self, distribution: Code, data: Data) -> Code:
        """The log-probability of what the data hold, as they hold it."""
        record, key, role = self._place(data)
        text = f"self._log_prob_of({distribution}, {record}, {key}, {role})"
        return using(text, *distribution.uses)

    def _count(self, count: Count | None) -> Code:
        return Code("") if count is None else of_attributes(count.typed)

    def _read(self, data: Data, *, after: bool = False) -> Code:
        method = reader_of(self._loss, self._roles[data.role])
        return Code(f"{method}({', '.join(self._place(data, after=after))})")

    def _place(self, data: Data, *, after: bool = False) -> tuple[str, str, str]:
        """The record that holds data, their key there, and what they are called."""
        role = self._roles[data.role]
        record = "next_tensordict" if role.after or after else "tensordict"
        return record, f"keys.{role.accepted}", literal(role.name)

    def _key(self, role: str) -> str:
        """The name under which the keys of the loss hold a role."""
        return self._roles[role].accepted if role in self._roles else role

    def _is_column(self, role: str) -> bool:
        type = self._types.get(role)
        return type is not None and type.col


def reader_of(loss: CheckedLoss, role: LossRole) -> str:
    """What reads the data of a role: numbers with or without a trailing 1, as they are declared, or they would be paired."""
    if role.type is None or role.type.dims != () or loss.samples:
        return "self._read"
    if not role.type.col:
        return "self._read_number"
    return "self._read_signal" if role.after else "self._read_column"


def _trained_through(loss: CheckedLoss, trained: frozenset[Symbol]) -> frozenset[str]:
    """The values of the class that a gradient may go through; a draw by `sample` sends none on but by its likelihood."""
    stopped = {
        made.name for made in loss.forward if isinstance(made.value, Draw) and made.value.kind == "sample"
    }
    found = {made.name for made in loss.forward if made.symbol in trained} - stopped
    for made in reversed(loss.forward):
        if made.name in found:
            below = list(parts_of(made.value))
            found |= {one.name for one in below if isinstance(one, Alias)} - stopped
            found |= {one.draw for one in below if isinstance(one, DrawnLogProb)}
    return frozenset(found)


def _computes(value: ForwardValue) -> bool:
    """Whether something of a value might be computed with gradients: what it is of an earlier one costs nothing."""
    still = Alias | Data | Noise | Bernoulli | Chosen | NetworkBuffer | Split
    return any(not isinstance(part, still) for part in parts_of(value))


def records(value: ForwardValue, loss: CheckedLoss) -> set[str]:
    """The records that a value reads."""
    after = {role.name for role in loss.roles if role.after}
    networks = loss.networks_by_name
    found: set[str] = set()
    for part in parts_of(value):
        if isinstance(part, Data):
            found |= {"next"} if part.role in after else set()
        elif isinstance(part, NetworkCall):
            network = networks[part.network]
            found |= (
                {"next" if role in after else part.record for role in network.of_data(part)}
                if network.kept
                else {part.record}
            )
    return found


def roles_read(loss: CheckedLoss) -> set[str]:
    """The roles that values of the class read from the data, but those that only networks know."""
    networks = loss.networks_by_name
    found: set[str] = set()
    for part in (part for made in loss.forward for part in parts_of(made.value)):
        if isinstance(part, Data):
            found.add(part.role)
        elif isinstance(part, NetworkCall):
            found |= set(networks[part.network].of_data(part))
    return found
