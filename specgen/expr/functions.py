"""Functions that a declaration defines: a list of named steps and a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specgen.diagnostics import Sink
from specgen.diagnostics.rules import expressions as rules
from specgen.expr.builtins.record import Builtin
from specgen.expr.infer import infer
from specgen.expr.interval import Interval
from specgen.expr.parser import parse
from specgen.expr.torch_text import to_torch
from specgen.expr.types import Binding, Function, SourceText, Type, Typed


@dataclass(frozen=True, slots=True)
class FunctionBody:
    """A declared function, checked: its record for callers and its printed body.

    Attributes:
        function: What callers see.
        lines: Names and texts of its steps, in order.
        result: The text of what it returns.
        steps: The typed trees of the steps and, last, of the result.

    """

    function: Function
    lines: tuple[tuple[str, str], ...]
    result: str
    steps: tuple[tuple[str, Typed], ...]


def infer_function(
    name: str,
    text: str,
    params: Sequence[tuple[str, Type, Interval]],
    lets: Sequence[tuple[str, SourceText]],
    result: SourceText,
    scope: Mapping[str, Binding],
    sink: Sink,
    *,
    functions: Mapping[str, Function | Builtin] | None = None,
    prefix: tuple[str, ...] = (),
) -> FunctionBody | None:
    """A declared function, or None when `sink` got the reasons why it is not sound.

    Args:
        name: Its name in the language.
        text: Its name in Python.
        params: Names, types and values of its parameters; their level is `batch`.
        lets: Names and expressions of its steps, in order.
        result: The expression that it returns.
        scope: What else its body may read: dims, consts, params.
        sink: Takes the mistakes.
        functions: The functions declared above it.
        prefix: Texts that calls pass before the arguments, such as `params`.

    """
    names = dict(scope)
    for param, kind, values in params:
        names[param] = Binding(param, kind, values, what="argument")
    steps: list[tuple[str, Typed]] = []
    sound = True
    for step, source in lets:
        typed = _step(source, names, sink, functions)
        if typed is None:
            sound = False
            continue
        steps.append((step, typed))
        # A step that is a number stays one: its text is a name, so it counts as a parameter's.
        level = "ctor" if typed.type.python else typed.type.level
        kind = Type(typed.type.dtype, typed.type.dims, level, stretch=typed.type.stretch)
        names[step] = Binding(step, kind, typed.interval, what="local")
    typed = _step(result, names, sink, functions)
    if typed is None or not sound:
        return None
    like = next((names[param] for param, kind, _ in params if kind.level == "batch"), None)
    dims = typed.type.sizes
    body = to_torch(typed, dims=dims, like=like)
    kind = Type(typed.type.dtype, dims)
    function = Function(name, text, tuple((p, t) for p, t, _ in params), kind, typed.interval, prefix)
    lines = tuple((step, to_torch(one, like=like)) for step, one in steps)
    return FunctionBody(function, lines, body, (*steps, ("", typed)))


def _step(
    source: SourceText,
    scope: Mapping[str, Binding],
    sink: Sink,
    functions: Mapping[str, Function | Builtin] | None,
) -> Typed | None:
    expr = parse(source, sink)
    if expr is None:
        return None
    typed = infer(expr, scope, source, sink, functions=functions)
    if typed is not None and typed.draws:
        span = source.span_of(typed.start, typed.end)
        message = "a function draws nothing: it gives the same result for the same arguments"
        sink.add(rules.WRONG_ARGUMENTS.at(span, message, help="pass the draw as an argument"))
        return None
    return typed
