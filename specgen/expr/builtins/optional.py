"""What conditions ask of parameters and other inputs: whether they are given, and whether a number is not 0."""

from __future__ import annotations

from typing import Any, Final

from specgen.diagnostics.rules import loss_conditions as rules
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.site import Site
from specgen.expr.interval import full
from specgen.expr.printer import Printed, Printer
from specgen.expr.types import Type, Typed
from specgen.precedence import ATOM, COMPARE

_TRUTH: Final = Type("bool", (), "ctor")


def _infer_given(site: Site) -> Typed | None:
    (value,) = site.values
    if value.op == "name" and value.options.get("optional"):
        return site.node(_TRUTH)
    text = site.written(value)
    message = f"`{text}` is always there: only what is declared with `optional: true` may be missing"
    site.fail(rules.WRONG_CONDITION, message, at=value)
    return None


def _show_given(node: Typed, printer: Printer) -> Printed:
    return Printed(f"{printer.text(node.args[0], ATOM)} is not None", COMPARE)


def _given_reference(np: Any, x: Any) -> bool:
    return x is not None


GIVEN: Final = Builtin(
    name="given",
    family="fact",
    doc="Whether an optional parameter, key or network is there.",
    params=(Param("x"),),
    infer=_infer_given,
    interval=lambda args, node: full("bool"),
    torch=_show_given,
    reference=_given_reference,
    layout=lambda args: (),
)

NONZERO: Final = Builtin(
    name="nonzero",
    family="fact",
    doc="Whether a number is there and not 0: what a condition that is a number says.",
    params=(Param("x"),),
    infer=lambda site: site.node(_TRUTH),
    interval=lambda args, node: full("bool"),
    torch=lambda node, printer: printer.show(node.args[0]),
    reference=lambda np, x: bool(x),
    layout=lambda args: (),
)
