"""Values that are computed in some cases only, laid out as `if` blocks: those of one condition beside each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from typing import TypeAlias

from specgen.expr import Symbol, Type, Typed
from specgen.program.conditions import ALWAYS, Condition, condition_of
from specgen.program.guards import ABSENT, is_choice
from specgen.program.program import Assign, Region, Statement
from specgen.program.walk import expressions, reads, reads_symbol, store, targets, with_parts
from specgen.values import dataclass, replace


@dataclass(frozen=True)
class Block:
    """Statements under a condition, and those of the other case.

    Attributes:
        condition: the condition.
        body: what is computed where it holds.
        otherwise: what is computed elsewhere.
        results: what is read behind the block; None elsewhere, if `otherwise` does not define it, too.
    """

    condition: Typed
    body: tuple[Laid, ...]
    otherwise: tuple[Laid, ...]
    results: tuple[Symbol, ...]


Laid: TypeAlias = Statement | Block


def in_blocks(body: Sequence[Statement], kept: Iterable[Symbol]) -> tuple[Laid, ...]:
    """The statements with those of one condition in one block.

    A block stands before the first other statement that reads something of it. Statements that call networks stay in
    their order: these may draw random numbers. A value that is alone under its condition keeps it, in its expression.

    Args:
        body: the statements of a program or region; `when` nodes say in which cases a value is computed.
        kept: what is read behind them.
    """
    return tuple(_laid([_split(statement) for statement in body], frozenset(kept)))


def in_order(laid: Iterable[Laid]) -> Iterator[Statement]:
    """The statements in the order in which they are printed."""
    for one in laid:
        if isinstance(one, Block):
            yield from in_order((*one.body, *one.otherwise))
        else:
            yield one


def always_made(laid: Iterable[Laid]) -> Iterator[Symbol]:
    """The values that are there behind the statements, whatever the conditions of blocks and values among them."""
    for one in laid:
        if isinstance(one, Block):
            elsewhere = set(always_made(one.otherwise))
            yield from (symbol for symbol in always_made(one.body) if symbol in elsewhere)
        elif not isinstance(one, Assign) or one.value.op != "when":
            yield from targets(one)


def absent_reads(laid: Iterable[Laid]) -> Iterator[Symbol]:
    """The values that may be None, each as often as it is read."""
    for one in laid:
        parts = [one.condition] if isinstance(one, Block) else list(_expressions(one))
        for node in (node for part in parts for node in part.nodes):
            if node.op == "name" and node.symbol is not None and node.options.get(ABSENT) == ABSENT:
                yield node.symbol
        if isinstance(one, Block):
            yield from absent_reads((*one.body, *one.otherwise))


def certain_reads(laid: Iterable[Laid]) -> frozenset[Symbol]:
    """The values that are read in any case, and not on one side of a choice only."""
    found: frozenset[Symbol] = frozenset()
    for one in laid:
        found = found.union(*map(_certain, [one.condition] if isinstance(one, Block) else _expressions(one)))
    return found


def _certain(expr: Typed) -> frozenset[Symbol]:
    if expr.op == "name":
        return frozenset() if expr.symbol is None else frozenset({expr.symbol})
    if expr.op in ("when", "and", "or"):
        return _certain(expr.args[0])
    if is_choice(expr):
        condition, chosen, otherwise = expr.args
        return _certain(condition) | (_certain(chosen) & _certain(otherwise))
    return frozenset[Symbol]().union(*map(_certain, expr.parts))


def known_there(expr: Typed, there: AbstractSet[Symbol]) -> Typed:
    """An expression whose readers of these values need not ask whether they are None."""
    if expr.op != "name":
        return with_parts(expr, lambda part: known_there(part, there))
    if expr.symbol in there and expr.options.get(ABSENT) == ABSENT:
        return replace(expr, options={**expr.options, ABSENT: "elsewhere"})
    return expr


def _expressions(statement: Statement) -> Iterator[Typed]:
    yield from expressions(statement)
    if isinstance(statement, Region):
        for one in statement.body:
            yield from _expressions(one)


_Placed: TypeAlias = tuple[Condition, Statement]
"""A statement, and when it is computed."""


@dataclass
class _Group:
    """Statements that become a block."""

    condition: Condition
    body: list[_Placed]
    otherwise: list[_Placed] = field(default_factory=list)

    @property
    def defined(self) -> frozenset[Symbol]:
        return frozenset(target for _, one in (*self.body, *self.otherwise) for target in targets(one))

    @property
    def alone(self) -> Assign | None:
        """The one value that it is, which asks of nothing twice whether it is None: an expression, and no block."""
        if len(self.body) > 1 or self.otherwise:
            return None
        (_, alone), found = self.body[0], Counter(absent_reads([self.body[0][1]]))
        if not isinstance(alone, Assign) or max(found.values(), default=0) > 1:
            return None
        value, condition = alone.value, self.condition.typed
        return replace(alone, value=Typed("when", value.type, value.interval, (condition, value)))


def _split(statement: Statement) -> _Placed:
    """A statement without its condition, and that."""
    if isinstance(statement, Assign) and statement.value.op == "when":
        condition, value = statement.value.args
        return condition_of(condition), replace(statement, value=value)
    return ALWAYS, statement


def _laid(statements: Sequence[_Placed], kept: frozenset[Symbol]) -> list[Laid]:
    made: list[Laid | _Group] = []
    pending: list[_Group] = []
    for condition, statement in statements:
        if not pending and condition == ALWAYS:
            made.append(statement)
            continue
        if _calls_network(statement):
            pending = []
        wanted = reads(statement)
        own = next((group for group in pending if _joins(group, condition, statement)), None)
        pending = [group for group in pending if group is own or group.defined.isdisjoint(wanted)]
        if own is not None:
            _join(own, condition, statement)
        elif condition != ALWAYS:
            own = _Group(condition, [(condition, statement)])
            pending.append(own)
        made.append(statement if own is None else own)
    last = {id(one): place for place, one in enumerate(made)}  # where all that a group reads is there
    return [
        one if not isinstance(one, _Group) else one.alone or _block(one, made, kept)
        for place, one in enumerate(made)
        if last[id(one)] == place
    ]


def _calls_network(statement: Statement) -> bool:
    return any(
        node.builtin is not None and node.builtin.family == "network"
        for expr in _expressions(statement)
        for node in expr.nodes
    )


def _joins(group: _Group, condition: Condition, statement: Statement) -> bool:
    """Whether a statement belongs into a block."""
    if condition != ALWAYS:
        if condition.implies(group.condition) or condition.implies(~group.condition):
            return True
        return not group.otherwise and group.condition.implies(condition)
    if not isinstance(statement, Assign) or not is_choice(statement.value):
        return False
    kind = statement.value.type
    chosen, *values = statement.value.args
    alike = all(replace(value.type, col=kind.col) == kind for value in values)
    return alike and group.condition in (condition_of(chosen), ~condition_of(chosen))


def _join(group: _Group, condition: Condition, statement: Statement) -> None:
    if condition != ALWAYS:
        if condition.implies(~group.condition):
            group.otherwise.append((condition, statement))
            return
        if not condition.implies(group.condition):
            group.condition = condition
        group.body.append((condition, statement))
        return
    assert isinstance(statement, Assign)
    chosen, then, otherwise = statement.value.args
    if condition_of(chosen) != group.condition:
        then, otherwise = otherwise, then
    kind = statement.value.type
    group.body.append((group.condition, replace(statement, value=_stored(then, kind))))
    group.otherwise.append((~group.condition, replace(statement, value=_stored(otherwise, kind))))


def _stored(value: Typed, kind: Type) -> Typed:
    """A value with or without a trailing 1, as it is kept."""
    return value if value.type.col == kind.col else store(value, kind)


def _block(group: _Group, around: Sequence[Laid | _Group], kept: frozenset[Symbol]) -> Block:
    """A group as a block, whose results are what anything around it reads."""
    read = set(kept)
    for other in around:
        if isinstance(other, _Group) and other is not group:
            read.update(symbol for _, one in (*other.body, *other.otherwise) for symbol in reads(one))
        elif not isinstance(other, _Group | Block):
            read.update(reads(other))
    results = tuple(
        dict.fromkeys(t for _, one in (*group.body, *group.otherwise) for t in targets(one) if t in read)
    )
    inside = frozenset(results)
    body = [(one.within(group.condition), s) for one, s in group.body]
    otherwise = [(one.within(~group.condition), s) for one, s in group.otherwise]
    return Block(
        group.condition.typed,
        tuple(_laid(_without_renaming(body, inside), inside)),
        tuple(_laid(_without_renaming(otherwise, inside), inside)),
        results,
    )


def _without_renaming(body: Sequence[_Placed], kept: frozenset[Symbol]) -> list[_Placed]:
    """One side of a block, where what only gets another name has that from the beginning."""
    times = Counter(symbol for _, one in body for symbol in reads(one))
    made = {one.target: (condition, one) for condition, one in body if isinstance(one, Assign)}
    names: dict[Symbol, Symbol] = {}
    left: list[_Placed] = []
    for condition, one in reversed(body):
        if isinstance(one, Assign) and reads_symbol(one.value) and one.value.symbol is not None:
            source, target = one.value.symbol, names.get(one.target, one.target)
            alike = source in made and made[source][0] == condition and source.type == target.type
            if alike and times[source] == 1 and source not in kept:
                names[source] = target
                continue
        if isinstance(one, Assign) and one.target in names:
            one = replace(one, target=names[one.target])
        left.append((condition, one))
    return left[::-1]
