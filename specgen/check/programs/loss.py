"""A loss as a component: `terms`, the pure function of what its networks and the data give."""

from __future__ import annotations

from dataclasses import replace

from specgen.check.loss_model import CheckedLoss
from specgen.check.model import Statement, snake
from specgen.check.programs.body import Body
from specgen.expr import Symbol, Type, Typed
from specgen.expr.builtins.table import TABLE
from specgen.program.cut import live
from specgen.program.program import Assign, Component, Input, Output, OutputRole, Program, Region
from specgen.program.share import share
from specgen.program.walk import store, with_parts


def loss_component(loss: CheckedLoss) -> Component:
    """The terms of a loss, its metrics and what it writes, as one program."""
    path = f"losses.{loss.name}"
    estimator = Symbol(f"{path}.value_estimate", "value_estimate", Type("function", ()))
    body = Body(path)
    inputs = [
        Input(made.symbol, "network" if made.replaced else "data") for made in loss.forward if not made.inner
    ]
    inputs += [Input(loss.symbols[f"keys.{r.name}"], "data") for r in loss.roles if r.type is not None]
    inputs.append(Input(estimator, "function"))
    inputs += [Input(loss.symbols[f"params.{param.name}"], "param") for param in loss.params]
    inputs += [Input(one.symbol, "learnable") for one in loss.learnables]
    for statement in loss.let:
        body.assign(statement)
    outputs: list[Output] = []
    for statement in loss.terms:
        symbol = body.assign(statement, Type(loss.types[statement.target].dtype)).symbol
        assert symbol is not None
        outputs.append(Output(statement.name, symbol, "term"))
    outputs += _without_gradients(body, loss.metrics, "metric")
    outputs += _without_gradients(body, loss.writes, "write")
    statements = tuple(
        replace(one, value=_estimated(one.value, estimator)) if isinstance(one, Assign) else one
        for one in body.statements
    )
    program = Program(snake(loss.name), tuple(inputs), statements, tuple(outputs), f"{loss.name}Terms")
    return Component(loss.name, {"terms": share(live(program))})


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
    """Add statements that need no gradients; what is written into the data has a trailing 1."""
    made: list[Assign] = []
    for statement in statements:
        value = body.typed(statement)
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


def _estimated(expr: Typed, estimator: Symbol) -> Typed:
    """`expr` with calls of the value estimator that read it."""
    made = with_parts(expr, lambda part: _estimated(part, estimator))
    return replace(made, captured=(estimator,)) if made.op == "value_estimate" else made
