"""Types inside a chain: a transform's expressions inferred again for the keys it is bound to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from specgen.check.around_scope import any_of, fold_expression, given_around
from specgen.check.chains.around import repetitions
from specgen.check.chains.model import Instance, Row
from specgen.check.chains.scope import argument_at, base_scope, given_keys, interval_of, of_part, shape_of
from specgen.check.model import Entry, Statement, identifier
from specgen.check.transforms.model import AROUND_PHASES, Phase
from specgen.check.transforms.names import NTH
from specgen.check.transforms.networks import network_function, network_symbol, readable, with_sizes
from specgen.diagnostics import Note, Sink, Span
from specgen.diagnostics.rules import flow as rules
from specgen.diagnostics.rules import transform_language as language_rules
from specgen.expr import (
    ANYTHING,
    Binding,
    Function,
    Interval,
    SpecType,
    Symbol,
    Type,
    Typed,
    check_assignable,
    full,
    infer,
    point,
)
from specgen.expr.builtins.batch import BATCH_AT_RESET
from specgen.expr.builtins.record import Builtin
from specgen.expr.dtypes import is_int
from specgen.expr.symbols import Time
from specgen.expr.tree import Expr, names_read_or_called
from specgen.values import replace

_REPEATED = tuple(phase for phase in AROUND_PHASES if phase != "action")
"""The parts of `around` that read what the environment returns."""

_ROUNDS = 4
"""So often the values of what is carried are widened by a step; what still grows then is unbounded."""


def typed_row(instance: Instance, row: Row, span: Callable[..., Span], sink: Sink, *, inverse: bool) -> Row:
    """The row with every statement that applies to it typed, and with the types of outputs that nothing declares.

    What doesn't fit is reported at the chain.
    """
    phases: tuple[Phase, ...] = ("inverse", "action") if inverse else ("reset", "map", "step", *_REPEATED)
    values: dict[str, Interval] = {}
    for round_ in range(_ROUNDS + 1):
        typing = _Typing(instance, row, span, Sink(), values if round_ < _ROUNDS else {})
        typing.run(phases)
        if typing.sink.has_errors or not typing.grown or round_ == _ROUNDS:
            break
        values = {**typing.values, **typing.grown}
    sink.extend(typing.sink.items)
    return replace(row, bound=typing.bound, symbols=typing.symbols, outputs=typing.outputs)


def first_actions(instance: Instance, row: Row, span: Callable[..., Span]) -> tuple[Statement, ...]:
    """The statements that compute the actions of the first repetition of `around`, whose number is known."""
    typing = _Typing(instance, row, span, Sink(), {})
    typing.nth = 0
    typing.run(("action",))
    return typing.bound.get("action", ())


class _Typing:
    """The types of one row.

    Attributes:
        nth: the number of the repetition, where it is known.
        functions: the networks and the functions of files that expressions call.
        values: the values of outputs whose type follows, as far as they are known.
        grown: those that a step leaves, with what they are then.
        outputs: the entries of the outputs; those whose type follows get it on the way.
        bound: the statements of each phase, typed for these entries.
        symbols: what each phase is given, by its path below the row.
    """

    def __init__(
        self,
        instance: Instance,
        row: Row,
        span: Callable[..., Span],
        sink: Sink,
        values: Mapping[str, Interval],
    ) -> None:
        self.instance = instance
        self.transform = instance.transform
        self.row = row
        self.span = span
        self.sink = sink
        self.functions = _callable(instance, row.sizes)
        self.nth: int | None = None
        self.values = dict(values)
        self.grown: dict[str, Interval] = {}
        self.outputs = dict(row.outputs)
        self.bound: dict[Phase, tuple[Statement, ...]] = {}
        self.symbols: dict[str, Symbol] = {}
        first = next((entry.dotted for entry in row.inputs.values()), "once")
        self.path = f"{instance.path}.{first}"
        self._of_rewards: dict[str, Entry] = {}  # what the map computes of rewards
        self.pending = {
            name
            for name in row.outputs
            if not (output := self.transform.output(name)).declared and not output.inverse
        }

    def run(self, phases: tuple[Phase, ...]) -> None:
        """Type the statements of some phases, in this order, up to the first mistake."""
        for phase in phases:
            scope = {**base_scope(self.instance), **given_keys(self.transform, self.row), **self._sizes()}
            scope |= self._buffers()
            statements = self.instance.statements(phase, self.row)
            if statements:
                scope |= self._given_around(phase) if phase in AROUND_PHASES else self._given(phase)
            if phase in ("inverse", "action"):
                scope |= self.row.facts
            typed: list[Statement] = []
            for statement in statements:
                made = self._statement(
                    phase, statement, of_part(statement, scope) if phase == "inverse" else scope
                )
                if made is None:
                    return
                typed.append(made)
            self.bound[phase] = tuple(typed)

    def _statement(self, phase: Phase, statement: Statement, scope: dict[str, Binding]) -> Statement | None:
        """A statement with its types; what it defines goes into the scope. None after reporting a mistake."""
        if self._reads_reward_too_early(phase, statement):
            return None
        found = Sink()
        expr = self._expression(phase, statement)
        bare = statement.target.removeprefix("next.")
        callables = {**self.functions, **BATCH_AT_RESET} if phase == "reset" else self.functions
        inferred = partial(
            infer,
            scope=scope,
            source=statement.source,
            sink=found,
            functions=callables,
            draw_prefix=f"draw_{identifier(bare)}",
            for_any_key=True,
        )
        typed = inferred(expr)
        if phase in ("until", "skip") and statement.target == phase and typed is not None and typed.type.dims:
            typed = inferred(any_of(expr))
        target = self.outputs.get(bare) or self.row.inputs.get(bare)
        if typed is not None and bare in self.pending and phase in ("reset", "map"):
            target = self.outputs[bare] = self._settle(bare, typed, phase)
            self.pending.discard(bare)
        elif typed is not None and target is not None:
            wanted = SpecType("pattern", target.type.dtype, target.type.dims)
            fits = check_assignable(typed, wanted, statement.source, found, name=statement.target)
            output = self.outputs.get(bare) and self.transform.output(bare)
            if not fits and output and not output.declared:
                self._report_change(statement, target, typed)
                return None
            if output and not output.declared and phase == "step":
                self._grow(bare, typed)
        if found.has_errors or typed is None:
            self._report(statement, found)
            return None
        type_ = target.type if target is not None else typed.type
        symbol = Symbol(
            f"{self.path}.{phase}.{statement.target}",
            identifier(statement.target),
            type_,
            typed.interval,
            _time(statement.target),
            None if target is None else target.key,
            statement.symbol.span,
        )
        static = None if target else typed.static
        scope[statement.target] = Binding(type_, typed.interval, static=static, symbol=symbol)
        return replace(statement, typed=typed, symbol=symbol)

    def _settle(self, name: str, typed: Typed, phase: Phase) -> Entry:
        """The entry of an output whose type is that of what is computed."""
        entry, output = self.outputs[name], self.transform.output(name)
        source = self.row.inputs.get(output.each or "")
        column = entry.role == "reward" or (source is not None and source.type.col)
        type_ = Type(typed.type.dtype, typed.type.dims, col=column)
        if output.source is not None and output.source in self.row.inputs and typed.op == "name":
            return replace(entry, spec=self.row.inputs[output.source].spec, type=type_)
        values = self.values.get(name, typed.interval)
        if self.instance.learns and output.image == "interval" and output.values is not None:
            values = output.values  # as the class knows them, which has no numbers to begin with
        if phase == "reset" and name not in self.values:
            self.values[name] = values
        return replace(entry, spec=_spec_within(type_, values), type=type_)

    def _grow(self, name: str, typed: Typed) -> None:
        """Note that a step may leave the values that an output has so far."""
        known = self.values.get(name)
        if known is not None and not typed.interval.within(known):
            self.grown[name] = known.hull(typed.interval)

    def _buffers(self) -> dict[str, Binding]:
        """What is learned, with the dtypes and dimensions that it has for these entries."""
        scope: dict[str, Binding] = {}
        for buffer in self.transform.buffers:
            if buffer.each is not None and buffer.each not in self.row.inputs:
                continue  # the inverse reads none
            source = None if buffer.each is None else self.row.inputs[buffer.each].type
            dtype = buffer.dtype or (source.dtype if source is not None else buffer.type.dtype)
            dims = source.dims if source is not None and buffer.shaped else ()
            kind, values = Type(dtype, dims, "const"), full(dtype)
            if buffer.like is not None and (typed := self._like(buffer.like)) is not None:
                kind, values = Type(typed.type.dtype, typed.type.dims, "const"), full(typed.type.dtype)
            if buffer.name in self.instance.given:
                value = self.instance.params[self.instance.given[buffer.name]]
                kind, values = Type("float32", shape_of(value), "const"), interval_of(value)
            symbol = Symbol(f"{self.path}.buffers.{buffer.name}", identifier(buffer.name), kind, values)
            self.symbols[f"buffers.{buffer.name}"] = symbol
            scope[buffer.name] = Binding(kind, symbol.interval, what="buffer", symbol=symbol)
        return scope

    def _like(self, statement: Statement) -> Typed | None:
        """The expression that a buffer is like, for these entries; None after reporting a mistake."""
        scope, found = {**base_scope(self.instance), **self._sizes(), **self._given("buffer_types")}, Sink()
        typed = infer(
            statement.expr, scope, statement.source, found, functions=self.functions, for_any_key=True
        )
        if typed is None:
            self._report(statement, found)
        return typed

    def _sizes(self) -> dict[str, Binding]:
        """The sizes that have names."""
        return {
            name: Binding(Type("int64", (), "lit"), point(number), static=number, what="size")
            for name, number in self.row.sizes.items()
        }

    def _given(self, phase: Phase) -> dict[str, Binding]:
        """What a phase reads of the entries; an output has only its dtype before it is assigned at a reset."""
        scope: dict[str, Binding] = {}
        mapped = self.transform.mapped if phase == "map" else frozenset()
        for role in self.transform.forward if phase != "inverse" else ():
            if role.form == "all":
                names = tuple(name for name in self.row.inputs if name.partition(".")[0] == role.name)
                for prefix in ("", "next.") if phase == "step" else ("",):
                    numbered = tuple(f"{prefix}{name}" for name in names)
                    several = Binding(Type("any"), ANYTHING, what="several keys", several=numbered)
                    scope[f"{prefix}{role.name}"] = several
        for name, entry in {**self.row.inputs, **self.outputs}.items():
            if name in self.pending or name in mapped:
                continue
            for full_name in (name, f"next.{name}") if phase == "step" else (name,):
                if phase == "reset" and name in self.outputs:
                    dtype = Type(entry.type.dtype, (), "lit")
                    scope[name] = Binding(dtype, point(0), static=0)
                    continue
                symbol = Symbol(
                    f"{self.path}.{phase}.in.{full_name}",
                    identifier(full_name),
                    entry.type,
                    entry.spec.interval,
                    _time(full_name),
                    entry.key,
                )
                self.symbols[symbol.path.removeprefix(f"{self.path}.")] = symbol
                scope[full_name] = Binding(entry.type, symbol.interval, what="key", symbol=symbol)
        return scope

    def _expression(self, phase: Phase, statement: Statement) -> Expr:
        """What is computed; a fold is told apart from its first repetition."""
        around = self.transform.around
        if around is None or phase != "fold" or statement.target not in self.row.inputs:
            return statement.expr
        return fold_expression(around, statement)

    def _given_around(self, phase: Phase) -> dict[str, Binding]:
        """What a part of `around` reads of the entries."""
        around = self.transform.around
        repeats = around is not None and around.kind == "repeat"
        count = repetitions(self.instance).interval.high if repeats else 1
        given = given_around(f"{self.path}.", phase, self.row, count)
        made = [binding.symbol for binding in given.values() if binding.symbol is not None]
        self.symbols |= {symbol.path.removeprefix(f"{self.path}."): symbol for symbol in made}
        if self.nth is not None:
            kind = Type("int64", (), "lit")
            given[NTH] = Binding(kind, point(self.nth), static=self.nth, what="number of the repetition")
        return given

    def _report(self, statement: Statement, found: Sink) -> None:
        first = next(item for item in found.items if item.severity == "error")
        key = next(iter(self.row.inputs.values()), None)
        applied = "can't be used here" if key is None else f"can't be applied to `{key.dotted}` ({key.spec})"
        self.sink.add(
            rules.WRONG_INPUT.at(
                self.span(*argument_at(self.instance, statement, first.span)),
                f"`{self.transform.name}` {applied}: {first.message}",
                notes=[Note(f"in `{statement.path}`", first.span)],
                help=first.help,
            )
        )

    def _report_change(self, statement: Statement, target: Entry, typed: Typed) -> None:
        name = statement.target.removeprefix("next.")
        self.sink.add(
            language_rules.TYPE_CHANGES.at(
                self.span(),
                f"`{name}` of `{self.transform.name}` is {target.type} after a reset and {typed.type} after a step",
                notes=[
                    Note(f"in `{statement.path}`", statement.source.span_of(0, len(statement.source.text)))
                ],
            )
        )

    def _reads_reward_too_early(self, phase: Phase, statement: Statement) -> bool:
        """Report a statement that reads a reward where there is none: at a reset, or before the step."""
        if phase == "map":
            return self._makes_observation_of_reward(statement)
        if phase not in ("reset", "step"):
            return False
        for name in names_read_or_called(statement.expr):
            carried = phase == "step" and name.path in self.row.outputs
            entry = (self.row.outputs if carried else self.row.inputs).get(name.path)
            if entry is not None and entry.role == "reward":
                where = "at a reset" if phase == "reset" else "before a step"
                own = f"read `next.{name.path}`, or the shape of an output"
                instead = "carry it in an output with `hidden: true`" if carried else own
                self.sink.add(
                    rules.NO_REWARD_YET.at(
                        self.span(),
                        f"`{self.transform.name}` can't be applied to the reward `{entry.dotted}`: "
                        f"it reads its value {where}",
                        notes=[
                            Note(f"in `{statement.path}`", statement.source.span_of(name.start, name.end))
                        ],
                        help=f"there is a reward behind each step only: {instead}",
                    )
                )
                return True
        return False

    def _makes_observation_of_reward(self, statement: Statement) -> bool:
        """Report a map that makes an observation of a reward, which a reset would lack."""
        inputs = self.row.inputs.items()
        rewards = {name.partition(".")[0]: entry for name, entry in inputs if entry.role == "reward"}
        read = next(
            (name for name in sorted(statement.reads) if name in rewards or name in self._of_rewards), None
        )
        if read is None:
            return False
        entry = rewards.get(read) or self._of_rewards[read]
        output = self.outputs.get(statement.target)
        if output is None or output.role == "reward":
            self._of_rewards[statement.target] = entry
            return False
        self.sink.add(
            rules.NO_REWARD_YET.at(
                self.span(),
                f"`{self.transform.name}` makes the observation `{output.dotted}` of the reward `{entry.dotted}`, "
                "which no reset returns",
                notes=[
                    Note(f"in `{statement.path}`", statement.source.span_of(0, len(statement.source.text)))
                ],
                help="let it read what there is at a reset, too, or be a reward itself: `group: reward`",
            )
        )
        return True


def _spec_within(type_: Type, values: Interval) -> SpecType:
    """The spec of what has these values: bounded where both ends say something."""
    shape = type_.shape
    if values.bounded and not values.nan and values != full(type_.dtype) and type_.dtype != "bool":
        low: float = values.low
        high: float = values.high
        if is_int(type_.dtype):
            low, high = int(low), int(high)
        return SpecType("bounded", type_.dtype, shape, low, high)
    return SpecType("unbounded", type_.dtype, shape)


def _time(name: str) -> Time:
    return "next" if name.startswith("next.") else "now"


def _callable(instance: Instance, sizes: Mapping[str, int]) -> dict[str, Function | Builtin]:
    """The functions that expressions of a transform call, networks among them, where its roles have these sizes."""
    roles = readable(instance.transform.roles, instance.transform.outputs)
    return dict(instance.transform.functions) | {
        network.name: network_function(
            with_sizes(network, roles, sizes), roles, network_symbol(instance.path, network.name)
        )
        for network in instance.transform.networks
    }
