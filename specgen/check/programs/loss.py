"""A loss as a component: `terms`, the pure function of what its networks and the data give."""

from __future__ import annotations

from dataclasses import replace

from specgen.check.loss_builtins import LOSS_BUILTINS, WORDS
from specgen.check.loss_model import CheckedLoss, LossParam
from specgen.check.model import Statement, identifier, snake
from specgen.check.programs.body import Body
from specgen.diagnostics import Sink
from specgen.expr import ANYTHING, Binding, Expr, SourceText, Symbol, Type, Typed, full, infer
from specgen.program.cut import live
from specgen.program.program import Assign, Component, Input, Output, OutputRole, Program, Region
from specgen.program.walk import store, with_parts


def loss_component(loss: CheckedLoss) -> Component:
    """The terms of a loss, its metrics and what it writes, as one program."""
    path = f"losses.{loss.name}"
    estimator = Symbol(f"{path}.value_estimate", "value_estimate", Type("function", ()))
    body = Body(path, LOSS_BUILTINS, _words(loss))
    inputs: list[Input] = []
    for made in loss.forward:
        symbol = Symbol(made.path, made.name, made.type, full(made.type.dtype))
        inputs.append(Input(body.bind(made.name, symbol), "data"))
    for role in loss.roles:
        if role.type is not None:
            name = f"{path}.keys.{role.name}"
            symbol = Symbol(name, identifier(role.name), role.type, role.interval, key=role.key)
            inputs.append(Input(body.bind(role.name, symbol), "data"))
    inputs.append(Input(estimator, "function"))
    inputs += [Input(body.bind(param.name, _param(path, param)), "param") for param in loss.params]
    for statement in loss.let:
        body.assign(statement)
    outputs: list[Output] = []
    for statement in loss.terms:
        symbol = body.symbol(statement.target, Type(loss.types[statement.target].dtype))
        body.add(symbol, store(body.typed(statement), symbol.type), statement.path)
        body.bind(statement.target, symbol)
        outputs.append(Output(statement.name, symbol, "term"))
    outputs += _without_gradients(body, loss.metrics, "metric")
    outputs += _without_gradients(body, loss.writes, "write")
    statements = tuple(
        replace(one, value=_estimated(one.value, estimator)) if isinstance(one, Assign) else one
        for one in body.statements
    )
    program = Program(snake(loss.name), tuple(inputs), statements, tuple(outputs), f"{loss.name}Terms")
    return Component(loss.name, {"terms": live(program)})


def condition(loss: CheckedLoss, expr: Expr, source: SourceText) -> Typed:
    """A condition on the parameters of a loss, over their symbols."""
    scope = _words(loss)
    for param in loss.params:
        symbol = _param(f"losses.{loss.name}", param)
        scope[param.name] = Binding("", param.type, param.interval, symbol=symbol)
    sink = Sink()
    typed = infer(expr, scope, source, sink)
    assert typed is not None, f"a checked condition no longer types: {list(map(str, sink.items))}"
    return typed


def _param(path: str, param: LossParam) -> Symbol:
    return Symbol(f"{path}.params.{param.name}", param.name, param.type, param.interval)


def _words(loss: CheckedLoss) -> dict[str, Binding]:
    """The words that parameters may be, as expressions read them."""
    scope = dict(WORDS)
    for param in loss.params:
        for word in param.choices:
            scope.setdefault(word, Binding("", Type("str", (), "lit"), ANYTHING, static=word))
    return scope


def _without_gradients(body: Body, statements: tuple[Statement, ...], role: OutputRole) -> list[Output]:
    """Add statements that need no gradients; what is written into the data has a trailing 1."""
    made: list[Assign] = []
    for statement in statements:
        value = body.typed(statement)
        if role == "write":
            value = store(value, Type(value.type.dtype, (), col=True))
        made.append(Assign(body.symbol(f"{role}.{statement.target}", value.type, wish=statement.name), value))
    if made:
        results = tuple((one.target, one.target) for one in made)
        origin = statements[0].path.rpartition(".")[0]
        body.statements.append(Region("no_grad", tuple(made), results=results, origin=origin))
    return [Output(statement.name, one.target, role) for statement, one in zip(statements, made, strict=True)]


def _estimated(expr: Typed, estimator: Symbol) -> Typed:
    """`expr` with calls of the value estimator that read it."""
    made = with_parts(expr, lambda part: _estimated(part, estimator))
    return replace(made, captured=(estimator,)) if made.op == "value_estimate" else made
