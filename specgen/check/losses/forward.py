"""What the class of a loss computes before its pure function: runs of networks, draws from policies, reads of both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Literal, TypeAlias

from specgen.check.network_types import CALLED
from specgen.expr import SourceText, Symbol, Type, Typed, full
from specgen.expr.sizes import Dim, named_size
from specgen.expr.tree import Expr
from specgen.expr.types import Distribution
from specgen.expr.types import Record as RecordType
from specgen.values import dataclass

Variant = Literal["live", "frozen", "target", "stored"]
Record = Literal["now", "next"]
DrawKind = Literal["rsample", "sample"]


@dataclass(frozen=True)
class Data:
    """What the data hold under the key of a role."""

    role: str


@dataclass(frozen=True)
class Computed:
    """What expressions compute: an argument of the function that its value then is, and what it is called there."""

    name: str


@dataclass(frozen=True)
class Alias:
    """An earlier value, by its name."""

    name: str


@dataclass(frozen=True)
class NetworkCall:
    """`network(now)`, `network.frozen.eval(next)`, `network.target(next, action=…)`, …

    Attributes:
        network, variant, record: which network it is, with which parameters, and what it reads; `stored` is what a policy
            wrote into the record, which is not run.
        replaced: the roles of what it reads instead of data, with that.
        evaluated: whether it runs in evaluation mode.
    """

    network: str
    variant: Variant
    record: Record
    replaced: tuple[tuple[str, ForwardValue], ...] = ()
    evaluated: bool = False

    @property
    def name(self) -> str:
        """A name for its value, where the declaration gives none."""
        variant = ("" if self.variant == "live" else f"_{self.variant}") + "_eval" * self.evaluated
        roles = (role for role, _ in self.replaced)
        behind = "".join(f"_{role}" for role in ("of", *roles)) if self.replaced else ""
        return f"{self.network}{variant}_{self.record}{behind}"


@dataclass(frozen=True)
class NetworkBuffer:
    """A buffer of the module that was passed for a network, a constant.

    Attributes:
        network, buffer: which.
        type: its type.
    """

    network: str
    buffer: str
    type: Type


@dataclass(frozen=True)
class Joint:
    """One run of several calls of a network, whose batches stand one behind the other.

    Attributes:
        calls: the calls, in order.
    """

    calls: tuple[NetworkCall, ...]


@dataclass(frozen=True)
class Split:
    """What one call gives of several that run as one.

    Attributes:
        run: the name of the run.
        place: which of its calls it is.
    """

    run: Alias
    place: int


@dataclass(frozen=True)
class Count:
    """A number that a draw needs, an expression of parameters: how many there are, an end of what is drawn.

    `typed` is the expression as it was proved right.
    """

    expr: Expr
    source: SourceText
    typed: Typed = field(compare=False)

    @property
    def size(self) -> Dim:
        """The number as the length of an axis: known when specgen builds, or called as it is written."""
        values, written = self.typed.interval, self.source.text[self.expr.start : self.expr.end]
        return named_size(written, values.low, values.high)


@dataclass(frozen=True)
class Draw:
    """A draw from a distribution. Two draws differ by their number, so that they are never one.

    Attributes:
        kind: with gradients to the parameters of the distribution, or without.
        distribution: what is drawn from.
        site: the number of the draw.
        count: how many are drawn for each sample, along the axis `draw`; None for one, without that axis.
    """

    kind: DrawKind
    distribution: ForwardValue
    site: int
    count: Count | None = None


@dataclass(frozen=True)
class Noise:
    """Numbers that are drawn by themselves, one for each of a value: `normal_like(action)`, `uniform(-1, 1, like=action)`.

    Attributes:
        like: the value.
        site: the number of the draw.
        ends: between which numbers uniform ones are drawn; None of standard normal ones.
        count: how many are drawn for each number of the value, along the axis `draw`; None for one, without that axis.
    """

    like: ForwardValue
    site: int
    ends: tuple[Count, Count] | None = None
    count: Count | None = None


@dataclass(frozen=True)
class Bernoulli:
    """A truth value for each sample, true with a probability: `bernoulli(0.25)`.

    Attributes:
        probability: an expression of parameters.
        site: the number of the draw.
    """

    probability: Count
    site: int


@dataclass(frozen=True)
class Chosen:
    """Some members of an ensemble, the same for the whole batch: `choose(next_q, k, axis=ensemble)`.

    Attributes:
        value: what all members give.
        count: how many are chosen.
        site: the number of the draw.
    """

    value: ForwardValue
    count: Count
    site: int


@dataclass(frozen=True)
class DrawnLogProb:
    """The log-probability of a draw, which came with it: `draw` is the name of that."""

    draw: str


@dataclass(frozen=True)
class Read:
    """A function of a distribution that is no draw: `log_prob`, `entropy`, `mode`, …

    Attributes:
        function: which.
        distribution: of what.
        given: its further values: what is scored, another distribution.
        count: the number of draws of an estimate.
    """

    function: str
    distribution: ForwardValue
    given: tuple[ForwardValue, ...] = ()
    count: Count | None = None


@dataclass(frozen=True)
class Output:
    """One of several entries that a network writes: `world(now).mean`.

    Attributes:
        of: the run of the network.
        role: the role of the entry.
    """

    of: ForwardValue
    role: str


@dataclass(frozen=True)
class Gradient:
    """The derivative of what a network gives to what it reads: `gradient(critic(now, action=x), x)`.

    Attributes:
        of: the run of the network.
        to: the roles that it is to, of those that are replaced.
    """

    of: NetworkCall
    to: tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    """One of two values, as a condition on the parameters says; only that one is computed.

    `typed` is the condition as it was proved right.
    """

    condition: Expr
    source: SourceText
    then: ForwardValue
    otherwise: ForwardValue
    typed: Typed | None = field(default=None, compare=False)


ForwardValue: TypeAlias = (
    Data
    | Computed
    | Alias
    | NetworkCall
    | Output
    | NetworkBuffer
    | Joint
    | Split
    | Draw
    | Noise
    | Bernoulli
    | Chosen
    | DrawnLogProb
    | Read
    | Gradient
    | Choice
)


@dataclass(frozen=True)
class Forward:
    """A value that the class computes for the pure function, or a function of what that computes.

    Attributes:
        name: its name.
        value: what it is.
        network: the network that it comes from; empty of noise.
        type: its type; a `Distribution` and a `Record` stay in the class.
        path: the declaration that it stands in.
    """

    name: str
    value: ForwardValue
    network: str
    type: Type
    path: str

    @property
    def symbol(self) -> Symbol:
        """The value."""
        loss = ".".join(self.path.split(".")[:2])
        type = CALLED if self.replaced else self.type
        return Symbol(f"{loss}.forward.{self.name}", self.name, type, full(self.type.dtype))

    @property
    def replaced(self) -> tuple[str, ...]:
        """What it is a function of; nothing for a value."""
        return tuple(part.name for part in parts_of(self.value) if isinstance(part, Computed))

    @property
    def inner(self) -> bool:
        """Whether only the class knows it: the pure function takes numbers."""
        return isinstance(self.type, Distribution | RecordType) or isinstance(self.value, Joint)


def parts_of(value: ForwardValue) -> Iterator[ForwardValue]:
    """A value, and all that it is computed from, as far as that has no name."""
    yield value
    for part in values_below(value):
        yield from parts_of(part)


def counts_of(value: ForwardValue) -> Iterator[Count]:
    """The numbers that the draws in a value need."""
    for part in parts_of(value):
        if isinstance(part, Draw | Read | Chosen | Noise) and part.count is not None:
            yield part.count
        if isinstance(part, Noise) and part.ends is not None:
            yield from part.ends
        if isinstance(part, Bernoulli):
            yield part.probability


def values_below(value: ForwardValue) -> tuple[ForwardValue, ...]:
    """What a value is computed from, as far as that has no name."""
    match value:
        case NetworkCall():
            return tuple(part for _, part in value.replaced)
        case Joint():
            return value.calls
        case Split():
            return (value.run,)
        case Output() | Gradient():
            return (value.of,)
        case Draw():
            return (value.distribution,)
        case Noise():
            return (value.like,)
        case Chosen():
            return (value.value,)
        case Read():
            return (value.distribution, *value.given)
        case Choice():
            return (value.then, value.otherwise)
        case _:
            return ()
