"""A loss as a component: `terms`, the pure function of what its networks and the data give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from specgen.check.losses.batch import LOSS_BATCH, with_mask
from specgen.check.losses.masks import counted, values_of_mask
from specgen.check.losses.model import CheckedLoss, LossNetwork
from specgen.check.model import Statement, identifier, snake
from specgen.check.programs.body import Body
from specgen.expr import Symbol, Type, Typed, full
from specgen.expr.builtins.optional import GIVEN
from specgen.expr.builtins.table import TABLE
from specgen.expr.dtypes import is_float
from specgen.program.conditions import condition_of
from specgen.program.cut import live
from specgen.program.guards import Guarded, guarded
from specgen.program.program import Assign, Component, Input, Output, OutputRole, Program, Region
from specgen.program.program import Statement as ProgramStatement
from specgen.program.share import hands_on, share
from specgen.program.walk import read, store, with_parts
from specgen.values import dataclass


def loss_component(loss: CheckedLoss) -> Component:
    """The terms of a loss, its metrics and what it writes, as one program."""
    return Component(loss.name, {"terms": loss_terms(loss).program})


def loss_terms(loss: CheckedLoss) -> Guarded:
    """The program of a loss, and when each of its values is needed."""
    path = f"losses.{loss.name}"
    estimator = Symbol(f"{path}.value_estimate", "value_estimate", Type("function", ()))
    body = Body(path)
    inputs = [
        Input(made.symbol, "network" if made.replaced else "data") for made in loss.forward if not made.inner
    ]
    inputs += [Input(loss.symbols[f"keys.{r.name}"], "data") for r in loss.roles if r.type is not None]
    mask = Symbol(f"{path}.given.mask", "mask", Type("bool"), full("bool"))
    inputs += [Input(mask, "data"), Input(estimator, "function")]
    networks = [one for one in loss.networks if one.optional]
    inputs += [Input(has_network(path, network), "param") for network in networks]
    inputs += [Input(random_network(path, network), "param") for network in loss.networks if network.certain]
    inputs += [Input(loss.symbols[f"params.{param.name}"], "param") for param in loss.params]
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
    outputs += _without_gradients(body, loss.metrics, "metric")
    outputs += _without_gradients(body, loss.writes, "write")
    inside = _Inside(estimator, read(mask), asked)
    statements = tuple(map(inside.statement, body.statements))
    program = Program(snake(loss.name), tuple(inputs), statements, tuple(outputs), f"{loss.name}Terms")
    when = {s.name: loss.when[s.target] for s in (*loss.terms, *loss.metrics) if s.target in loss.when}
    when |= {name: loss.when[term] for name, (term, _) in masks.items() if term in loss.when}
    conditions = {name: condition_of(inside.expr(typed)) for name, typed in when.items()}
    absent = [loss.symbols[f"params.{one.name}"] for one in loss.params if one.optional]
    absent += [
        loss.symbols[f"keys.{one.name}"] for one in loss.roles if one.optional and one.type is not None
    ]
    absent += [one.symbol for one in loss.modules if one.optional]
    shared = replace(share(live(program)), inputs=program.inputs)  # what only conditions read is cut before
    return guarded(shared, conditions, absent, (given,))


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


def _without_gradients(body: Body, statements: tuple[Statement, ...], role: OutputRole) -> list[Output]:
    """Add statements that have no gradients; what is written into the data has a trailing 1."""
    made: list[Assign] = []
    for statement in statements:
        value = _detached(body.typed(statement))
        if role != "term" and value.type.level == "batch":
            dims = value.type.dims if role == "metric" else ()
            axes = value.type.axes
            value = store(value, Type(value.type.dtype, dims, col=role == "write", axes=axes))
        made.append(Assign(body.symbol(f"{role}.{statement.target}", value.type, wish=statement.name), value))
    behind = [replace(one.target, path=f"{one.target.path}.detached") for one in made]
    if made:
        results = tuple((outer, one.target) for outer, one in zip(behind, made, strict=True))
        origin = statements[0].path.rpartition(".")[0]
        body.statements.append(Region("no_grad", tuple(made), results=results, origin=origin))
    return [Output(statement.name, one, role) for statement, one in zip(statements, behind, strict=True)]


def _detached(value: Typed) -> Typed:
    """A value without gradients: in `no_grad`, what is handed on as it is would keep the gradient that it came with."""
    if value.op != "name":
        return with_parts(value, lambda part: _detached(part) if hands_on(value, part) else part)
    if value.type.python or not is_float(value.type.dtype):
        return value
    return Typed("stop_grad", value.type, value.interval, (value,), builtin=TABLE["stop_grad"])


@dataclass(frozen=True)
class _Inside:
    """Gives expressions what programs hold and declarations don't name.

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
