"""Transforms that do nothing, or nothing of use, at their place in a chain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from specgen.check.chains.model import Instance
from specgen.check.transforms.model import PHASES
from specgen.diagnostics import Sink, Span
from specgen.diagnostics.rules import env_lints as rules
from specgen.expr import Expr
from specgen.expr.tree import Binary, Call, Name, children, free_names


def lint_instance(instance: Instance, span: Callable[..., Span], sink: Sink) -> None:
    """Warn of a transform that works on no key, and of scales of 0.

    `span` is where an argument stands; the transform itself without one.
    """
    if not instance.rows and not instance.inverse_rows:
        wanted = sorted({role.pattern for role in instance.transform.roles})
        sink.add(
            rules.NO_KEYS.at(
                span(),
                f"`{instance.transform.name}` works on no key here: none is {' or '.join(wanted)}[...]",
                help="leave it out, or say with `in_keys` what it is for",
            )
        )
        return
    flags = {param.name: instance.params[param.name] for param in instance.transform.params}
    called = dict(instance.given)  # a buffer that is given is its parameter
    flags |= {name: flags[param] for name, param in called.items()}
    zeros = {name: place for name, value in flags.items() if (place := _zero(value)) is not None}
    said: set[str] = set()
    for phase in PHASES:
        if phase == "inverse" and not instance.inverse_rows:
            continue
        for statement in instance.transform.phase(phase):
            for name, verb in _scales(statement.expr, flags):
                if name not in zeros or name in said:
                    continue
                param = called.get(name, name)
                said.add(name)
                sink.add(
                    rules.SCALE_OF_ZERO.at(
                        span(param, *zeros[name]),
                        f"`{param}` is 0 here, and `{instance.transform.name}` {verb} by it",
                        help="leave the transform out if that is meant" if verb == "multiplies" else None,
                    )
                )


def _zero(value: Any) -> tuple[int, ...] | None:
    """Where the first 0 of an argument stands."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            if (place := _zero(item)) is not None:
                return index, *place
        return None
    return () if isinstance(value, (int, float)) and not isinstance(value, bool) and value == 0 else None


def _scales(expr: Expr, params: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The parameters by which something that is no parameter is multiplied or divided."""
    if isinstance(expr, Call) and expr.function.path == "where" and len(expr.args) == 3:
        condition, chosen, other = expr.args
        if isinstance(condition, Name) and isinstance(params.get(condition.path), bool):
            yield from _scales(chosen if params[condition.path] else other, params)
            return
    if isinstance(expr, Binary) and expr.op in ("*", "/"):
        sides = (
            [(expr.right, expr.left)]
            if expr.op == "/"
            else [(expr.right, expr.left), (expr.left, expr.right)]
        )
        for factor, scaled in sides:
            if isinstance(factor, Name) and factor.path in params and not free_names(scaled) <= params.keys():
                yield factor.path, "multiplies" if expr.op == "*" else "divides"
    for child in children(expr):
        yield from _scales(child, params)
