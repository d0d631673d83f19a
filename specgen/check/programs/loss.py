"""A loss as a component: `terms`, the pure function of what its networks and the data give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from specgen.check.losses.batch import LOSS_BATCH, with_mask
from specgen.check.losses.forward import Output as NetworkOutput
from specgen.check.losses.masks import counted, values_of_mask
from specgen.check.losses.model import CheckedLoss, LossNetwork
from specgen.check.losses.names import part_function, part_record
from specgen.check.losses.needs import needs_of_forward
from specgen.check.losses.parts import output_groups
from specgen.check.model import Statement, identifier, snake
from specgen.check.programs.body import Body
from specgen.expr import Symbol, Type, Typed, full
from specgen.expr.builtins.optional import GIVEN
from specgen.expr.builtins.table import TABLE
from specgen.expr.dtypes import is_float
from specgen.program.conditions import ALWAYS, NEVER, Condition, condition_of, values_in
from specgen.program.cut import cut
from specgen.program.gradients import in_no_grad, trained_through
from specgen.program.guards import Guarded, assigned, guarded
from specgen.program.program import Assign, Input, Output, OutputRole, Program, Region
from specgen.program.program import Statement as ProgramStatement
from specgen.program.share import hands_on, share
from specgen.program.walk import read, reads_symbol, store, with_parts
from specgen.values import dataclass, replace


@dataclass(frozen=True)
class LossPart:
    """Outputs of a loss that are computed together, apart from the others.

    Attributes:
        name: its name; `terms` of what is all of a loss.
        outputs: the names of its terms and metrics.
        condition: when any of its outputs is there; what depends on parameters in it is said for this case.
        guarded: what computes them, and when each of its values is needed.
        trained: the values that a gradient of its terms may go through.
    """

    name: str
    outputs: tuple[str, ...]
    condition: Condition
    guarded: Guarded
    trained: frozenset[Symbol]

    @property
    def program(self) -> Program:
        """What computes its outputs."""
        return self.guarded.program

    @property
    def programs(self) -> tuple[Program, ...]:
        """For the verifier."""
        return (self.program,)


def part_names(loss: CheckedLoss) -> tuple[str, ...]:
    """The names of the parts of a loss."""
    return tuple(name for name, _ in output_groups(loss, _whole(loss)[0]))


def loss_parts(loss: CheckedLoss) -> tuple[LossPart, ...]:
    """The parts of a loss, in the order in which they are computed."""
    program, conditions = _whole(loss)
    groups = output_groups(loss, program)
    if len(groups) == 1:
        return (_part(loss, program, "terms", program.outputs, conditions),)
    return tuple(
        _part(
            loss,
            replace(program, name=part_function(loss.name, name), record=part_record(loss.name, name)),
            name,
            outputs,
            conditions,
        )
        for name, outputs in groups
    )


def method_part(loss: CheckedLoss, name: str) -> LossPart:
    """What a method computes that is given values: its term or value, from them."""
    program, conditions = _whole(loss)
    method = loss.methods[name]
    if method.value is not None:
        output = Output(method.value.name, _in_program(loss, method.value), "term")
    else:
        term = identifier(method.computes)
        output = next(one for one in program.outputs if one.role == "term" and one.name == term)
    given = given_symbols(loss, name)
    begun = cut(program, (output,), given)
    begun = replace(begun, name=part_function(loss.name, name), record=None)
    read = {one.symbol for one in begun.inputs}
    return _part(loss, begun, name, (output,), conditions, [one for one in given if one in read])


def given_symbols(loss: CheckedLoss, name: str) -> tuple[Symbol, ...]:
    """What a method is given, in the order of its arguments, as its program reads it."""
    return tuple(_in_program(loss, one) for _, one in loss.methods[name].given)


def _in_program(loss: CheckedLoss, value: Symbol) -> Symbol:
    """A value of `let` as the programs of a loss read it."""
    let = {one.symbol: f"losses.{loss.name}.{one.target}" for one in loss.let}
    return replace(value, path=let.get(value, value.path))


def _part(
    loss: CheckedLoss,
    program: Program,
    name: str,
    outputs: tuple[Output, ...],
    conditions: Mapping[str, Condition],
    always: Iterable[Symbol] = (),
) -> LossPart:
    """A part; `always` are inputs that are there whether something needs them or not."""
    condition = NEVER
    for output in outputs:
        if output.role != "value":
            condition |= conditions.get(output.name, ALWAYS)
    there = values_in(condition.typed)
    absent = [one.symbol for one in loss.param_reads if one.absent]
    perhaps = [
        loss.symbols[f"keys.{one.name}"] for one in loss.roles if one.optional and one.type is not None
    ]
    absent += perhaps
    absent += [one.symbol for one in loss.modules if one.optional]
    given = [one.symbol for one in program.inputs if one.symbol.path == _mask_path(loss)]
    given += [one.symbol for one in loss.param_reads if one.tensor and not one.absent and not one.late]
    inputs = program.inputs  # what only conditions read is cut before
    shared = replace(share(cut(program, outputs)), inputs=inputs)
    when = {
        output.name: conditions[output.name].within(condition)
        for output in outputs
        if output.name in conditions
    }
    unknown = frozenset(perhaps)
    asked = set(assigned(shared.body))
    asked |= {made.symbol for made in loss.forward if isinstance(made.value, NetworkOutput)}

    def of_class(needs: Mapping[Symbol, Condition]) -> Mapping[Symbol, Condition]:
        return {one: needed if one in asked else needed.apart_from(unknown) for one, needed in needs.items()}

    def around(needs: Mapping[Symbol, Condition]) -> Mapping[Symbol, Condition]:
        """What the class computes does not depend on what the data hold, but for what it asks of what a network wrote."""
        found = of_class(needs_of_forward(loss, of_class(needs)))
        return {one: needed.within(condition) for one, needed in found.items()}

    optional = [one for one in absent if one not in there]
    kept = replace(shared, outputs=(*outputs, *(Output(one.name, one, "value") for one in always)))
    made = guarded(in_no_grad(kept), when, optional, given, around)
    made = replace(made, program=replace(made.program, outputs=outputs))
    returned = tuple(output.name for output in outputs if output.role in ("term", "metric"))
    return LossPart(name, returned, condition, made, trained_through(shared))


def _mask_path(loss: CheckedLoss) -> str:
    return f"losses.{loss.name}.given.mask"


def _whole(loss: CheckedLoss) -> tuple[Program, Mapping[str, Condition]]:
    """All that a loss computes, and under which conditions there is an output, by its name."""
    path = f"losses.{loss.name}"
    estimator = Symbol(f"{path}.value_estimate", "value_estimate", Type("function", ()))
    body = Body(path)
    inputs = [
        Input(made.symbol, "network" if made.replaced else "data") for made in loss.forward if not made.inner
    ]
    inputs += [Input(loss.symbols[f"keys.{r.name}"], "data") for r in loss.roles if r.type is not None]
    mask = Symbol(_mask_path(loss), "mask", Type("bool"), full("bool"))
    inputs += [Input(mask, "data"), Input(estimator, "function")]
    networks = [one for one in loss.networks if one.optional]
    inputs += [Input(has_network(path, network), "param") for network in networks]
    inputs += [Input(random_network(path, network), "param") for network in loss.networks if network.certain]
    inputs += [Input(one.symbol, "param") for one in loss.param_reads]
    inputs += [Input(bound, "param") for bound in loss.bounds]
    inputs += [Input(one.symbol, "learnable") for one in loss.learnables]
    inputs += [Input(one.symbol, "network") for one in loss.modules]
    asked = {f"{path}.networks.{one.name}": read(has_network(path, one)) for one in networks}
    outputs: list[Output] = []
    needed = set() if loss.mask is None else values_of_mask(loss, loss.mask)
    given = mask
    if loss.mask is not None and not needed:
        mask = _masked(body, loss.mask, given)
    for statement in loss.let:
        body.assign(statement)
        needed.discard(statement.target)
        if loss.mask is not None and mask is given and not needed:
            mask = _masked(body, loss.mask, given)
    if loss.mask is not None:
        outputs.append(Output("mask", mask, "value"))
    masks = {
        f"{identifier(n)}_mask": (n, _masked(body, one, mask, f"{n}.mask")) for n, one in loss.masks.items()
    }
    for statement in loss.terms:
        kind = loss.types[statement.target]
        symbol = body.assign(statement, Type(kind.dtype, kind.dims)).symbol
        assert symbol is not None
        outputs.append(Output(statement.name, symbol, "term"))
    outputs += [Output(name, symbol, "value") for name, (_, symbol) in masks.items()]
    outputs += _without_gradients(body, loss.metrics, "metric", frozenset(loss.when))
    outputs += _without_gradients(body, loss.writes, "write")
    outputs += _without_gradients(body, loss.update, "update")
    implicit = _ImplicitOperands(estimator, read(mask), asked)
    statements = tuple(map(implicit.statement, body.statements))
    program = Program(snake(loss.name), tuple(inputs), statements, tuple(outputs), f"{loss.name}Terms")
    when = {s.name: loss.when[s.target] for s in (*loss.terms, *loss.metrics) if s.target in loss.when}
    when |= {name: loss.when[term] for name, (term, _) in masks.items() if term in loss.when}
    return program, {name: condition_of(implicit.expr(typed)) for name, typed in when.items()}


def _masked(body: Body, mask: Statement, given: Symbol, name: str = "counted") -> Symbol:
    """Add the samples that count for a mask and for the one that is given."""
    symbol = body.symbol(name, Type("bool"), wish=identifier(name))
    return body.add(symbol, counted(body.typed(mask), read(given)), mask.path)


def has_network(path: str, network: LossNetwork) -> Symbol:
    """The truth value that says whether an optional network was given."""
    return Symbol(f"{path}.has.{network.name}", f"has_{network.name}", Type("bool", (), "ctor"), full("bool"))


def random_network(path: str, network: LossNetwork) -> Symbol:
    """The truth value that says whether a network which may be certain gives a distribution."""
    symbol = network.random(path).symbol
    assert symbol is not None
    return symbol


def negated(condition: Typed) -> Typed:
    """The opposite of a condition, as one would write it: `not a or b` becomes `a and not b`."""
    if condition.op == "not":
        return condition.args[0]
    if condition.op in ("or", "and"):
        op = "and" if condition.op == "or" else "or"
        args = tuple(map(negated, condition.args))
        return replace(condition, op=op, args=args, builtin=TABLE[op])
    return replace(condition, op="not", args=(condition,), builtin=TABLE["not"], text="", symbol=None)


def _without_gradients(
    body: Body, statements: tuple[Statement, ...], role: OutputRole, optional: frozenset[str] = frozenset()
) -> list[Output]:
    """Add statements that have no gradients; what is written into the data has a trailing 1.

    A metric that is a value without gradients already is that, but where it is left out on a condition: `optional`.
    """
    made: list[Assign] = []
    named: dict[str, Symbol] = {}
    stopped = {
        one.target for one in body.statements if isinstance(one, Assign) and one.value.op == "stop_grad"
    }
    for statement in statements:
        given = body.typed(statement)
        same = role == "metric" and statement.target not in optional and not given.type.col
        if same and reads_symbol(given) and given.symbol is not None and given.symbol in stopped:
            named[statement.name] = given.symbol
            continue
        value = _detached(given)
        if role != "term" and value.type.level == "batch":
            dims = value.type.dims if role == "metric" else ()
            axes = value.type.axes
            value = store(value, Type(value.type.dtype, dims, col=role == "write", axes=axes))
        wish = f"{statement.name}_detached" if statement.name in body.assigned else statement.name
        made.append(Assign(body.symbol(f"{role}.{statement.target}", value.type, wish=wish), value))
    behind = [replace(one.target, path=f"{one.target.path}.detached") for one in made]
    if made:
        results = tuple((outer, one.target) for outer, one in zip(behind, made, strict=True))
        origin = statements[0].path.rpartition(".")[0]
        body.statements.append(Region("no_grad", tuple(made), results=results, origin=origin))
    computed = iter(behind)
    return [Output(one.name, named.get(one.name) or next(computed), role) for one in statements]


def _detached(value: Typed) -> Typed:
    """A value without gradients: in `no_grad`, what is handed on as it is would keep the gradient that it came with."""
    if value.op != "name":
        return with_parts(value, lambda part: _detached(part) if hands_on(value, part) else part)
    if value.type.python or not is_float(value.type.dtype):
        return value
    return Typed("stop_grad", value.type, value.interval, (value,), builtin=TABLE["stop_grad"])


@dataclass(frozen=True)
class _ImplicitOperands:
    """Gives expressions the operands that programs name and declarations don't.

    Attributes:
        estimator: the value estimator.
        mask: the mask of the samples that count.
        networks: what says whether an optional network was given, by the path of that.
    """

    estimator: Symbol
    mask: Typed
    networks: Mapping[str, Typed]

    def statement(self, statement: ProgramStatement) -> ProgramStatement:
        if isinstance(statement, Region):
            return replace(statement, body=tuple(map(self.statement, statement.body)))
        return (
            replace(statement, value=self.expr(statement.value))
            if isinstance(statement, Assign)
            else statement
        )

    def expr(self, expr: Typed) -> Typed:
        made = with_parts(expr, self.expr)
        if made.op == GIVEN.name and (asked := made.args[0].symbol) is not None:
            return self.networks.get(asked.path, made)
        if made.op in LOSS_BATCH:
            return with_mask(made, self.mask)
        return replace(made, captured=(self.estimator,)) if made.op == "value_estimate" else made
