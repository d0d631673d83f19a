"""Integrators of ordinary differential equations: they take a declared function by its name."""

from __future__ import annotations

from typing import Any

from specgen.diagnostics.rules import expressions as rules
from specgen.expr.builtins.calls import fitted
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.site import Site, highest
from specgen.expr.conversions import convert
from specgen.expr.interval import ANYTHING
from specgen.expr.printer import Printed, Printer, method
from specgen.expr.types import Function, Type, Typed
from specgen.values import replace


def _infer(site: Site) -> Typed | None:
    function = site.function
    assert function is not None
    y, dt, *others = site.values
    if any(kind.python for _, kind in function.params):
        message = f"`{function.name}` takes numbers by keyword, which integrators can't give"
        site.fail(rules.WRONG_ARGUMENTS, message)
        return None
    found = fitted(site, function, (y, *others))
    if found is None:
        return None
    function, fitting = found
    state = function.params[0][1]
    if function.result.dtype != state.dtype or function.result.dims != state.dims:
        message = f"`{function.name}` gives {function.result} for a state of {state}; a derivative has the type of the state"
        site.fail(rules.SHAPE_MISMATCH, message)
        return None
    if not state.dtype.startswith("float"):
        site.fail(rules.WRONG_DTYPE, f"a state that is integrated is a float, not {state}", at=y)
        return None
    if dt.type.dims != () or dt.type.dtype in ("bool", "str"):
        site.fail(
            rules.WRONG_ARGUMENTS, f"the time step `{site.written(dt)}` is {dt.type}, not one number", at=dt
        )
        return None
    step = dt if dt.type.python else convert(dt, state.dtype)
    level = highest(site.values)
    kind = Type(state.dtype, state.dims, "const" if level in ("lit", "ctor") else level)
    return replace(site.node(kind, (fitting[0], step, *fitting[1:])), function=function)


def arguments(node: Typed, args: tuple[Typed, ...], printer: Printer) -> list[str]:
    """The texts of arguments of a declared function: tensors, each of the full batch shape, then numbers by keyword."""
    function = node.function
    assert function is not None
    batch = node.type.level == "batch"
    count = len(function.params) - len(function.defaults)
    texts: list[str] = []
    for place, ((name, wanted), arg) in enumerate(zip(function.params, args, strict=True)):
        if not wanted.python:
            texts.append(printer.filled(arg, wanted.dtype, wanted.dims or (), batch=batch).text)
        elif place < count or arg.static is None or arg.static != function.defaults[place - count]:
            texts.append(f"{name}={printer.number(arg, wanted.dtype).text}")
    return texts


def _show(node: Typed, printer: Printer) -> Printed:
    function = node.function
    assert function is not None
    y, dt, *others = node.args
    state, *rest = arguments(node, (y, *others), printer)
    derivative = _derivative(function, printer)
    rank = function.params[0][1].rank
    return printer.call(node.op, derivative, state, printer.aligned(dt, rank).text, *rest)


def _derivative(function: Function, printer: Printer) -> str:
    """The function that is integrated, with its first arguments filled in."""
    printer.texts.uses.add(function.used)
    if not function.prefix:
        return function.text
    return printer.call("partial", function.text, *function.prefix).text


def show_call(node: Typed, printer: Printer) -> Printed:
    """Prints the call of a declared function."""
    function = node.function
    assert function is not None
    printer.texts.uses.add(function.used)
    printed = printer.call(function.text, *function.prefix, *arguments(node, node.args, printer))
    device = printer.device()
    if function.params or "consts" in function.prefix or not node.type.dims or not device:
        return printed
    # it is given no tensor that says where its result belongs
    return method(printed, "to", device)


def infer_call(site: Site) -> Typed | None:
    """The typed node of a call of a declared function."""
    function = site.function
    assert function is not None
    found = fitted(site, function, site.values)
    if found is None:
        return None
    function, fitting = found
    level = highest(site.values)
    kind = Type(function.result.dtype, function.result.dims, "const" if level in ("lit", "ctor") else level)
    return replace(site.node(kind, fitting), function=function)


def _rk4_reference(np: Any, f: Any, y: Any, dt: Any, *args: Any) -> Any:
    k1 = f(y, *args)
    k2 = f(y + dt / 2 * k1, *args)
    k3 = f(y + dt / 2 * k2, *args)
    k4 = f(y + dt * k3, *args)
    return y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


_PARAMS = (Param("f", "function"), Param("values", variadic=True))

CALL = Builtin(
    name="call",
    form="f(…)",
    family="integrator",
    doc="A function that the declaration defines under `functions:`.",
    params=(Param("values", variadic=True),),
    infer=infer_call,
    interval=lambda args, node: node.function.interval if node.function else ANYTHING,
    torch=show_call,
    reference=lambda np, f, *args: f(*args),
)

INTEGRATORS: tuple[Builtin, ...] = (
    Builtin(
        name="rk4",
        form="rk4(f, y, dt, …)",
        family="integrator",
        doc="`y` after one Runge-Kutta step of the fourth order and length `dt`, where `f(y, …)` is its derivative.",
        params=_PARAMS,
        infer=_infer,
        interval=lambda args, node: ANYTHING,
        torch=_show,
        reference=_rk4_reference,
        agreement="ulp",
    ),
    Builtin(
        name="euler",
        form="euler(f, y, dt, …)",
        family="integrator",
        doc="`y + dt * f(y, …)`: one step of Euler's method.",
        params=_PARAMS,
        infer=_infer,
        interval=lambda args, node: ANYTHING,
        torch=_show,
        reference=lambda np, f, y, dt, *args: y + dt * f(y, *args),
        agreement="ulp",
    ),
)
