"""The functions that only losses know: `distance`, `value_estimate`, and those of batches and of what is optional."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from specgen.check.losses.batch import EPS, LOSS_BATCH
from specgen.check.losses.calls import RECORDS
from specgen.check.losses.distributions import DISTRIBUTION_FUNCTIONS
from specgen.check.losses.draws import DRAW_FUNCTIONS
from specgen.check.losses.input_gradient import GRADIENT
from specgen.check.losses.members import FLATTEN_MEMBERS, TAKE
from specgen.check.losses.projection import PROJECT
from specgen.diagnostics.rules import expressions as rules
from specgen.expr import ANYTHING, Binding, Expr, Interval, Type, Typed, full
from specgen.expr.builtins.optional import GIVEN
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.site import Site
from specgen.expr.dtypes import is_float
from specgen.expr.printer import Printed, Printer, method
from specgen.expr.sizes import AXES
from specgen.expr.tree import names_read_or_called
from specgen.values import replace

DISTANCES = ("l1", "l2", "smooth_l1")

WORDS = {word: Binding(Type("str", (), "lit"), ANYTHING, static=word, what="word") for word in DISTANCES}
"""The names of the distances, as expressions read them."""


def _infer_distance(site: Site) -> Typed | None:
    prediction, target, kind = site.values
    if kind.type.dtype != "str" or (kind.static is not None and kind.static not in DISTANCES):
        message = f"`{site.written(kind)}` is no distance"
        help = f"it is one of {', '.join(DISTANCES)}, or a parameter of type enum({', '.join(DISTANCES)})"
        site.fail(rules.WRONG_ARGUMENTS, message, at=kind, help=help)
        return None
    if prediction.type.dims != target.type.dims:
        shapes = (
            f"`{site.written(prediction)}` is {prediction.type}, `{site.written(target)}` is {target.type}"
        )
        site.fail(rules.SHAPE_MISMATCH, f"a distance is taken between equals: {shapes}")
        return None
    dtype = site.joined((prediction, target))
    if dtype is None:
        return None
    if not is_float(dtype):
        site.fail(rules.WRONG_DTYPE, f"a distance is taken between floating-point numbers, not {dtype}")
        return None
    values = site.cast((prediction, target), dtype)
    return site.node(Type(dtype, prediction.type.dims, "batch"), (*values, kind))


def _show_distance(node: Typed, printer: Printer) -> Printed:
    prediction, target, kind = node.args
    shown = [printer.logical(prediction), printer.logical(target)]
    if prediction.type.axes != target.type.axes:
        # every member of an ensemble has the same target
        one, many = (1, 0) if prediction.type.axes else (0, 1)
        shown[one] = method(shown[one], "expand_as", shown[many].text)
    return printer.call("distance_loss", *(each.text for each in shown), printer.text(kind))


def _distance_reference(np: Any, prediction: Any, target: Any, kind: str) -> Any:
    difference = np.abs(prediction - target)
    if kind == "l1":
        return difference
    if kind == "l2":
        return difference**2
    return np.where(difference < 1, 0.5 * difference**2, difference - 0.5)


def _infer_value_estimate(site: Site, *, vectors: bool = False) -> Typed | None:
    (value,) = site.values
    if value.type.axes:
        message = f"the value of a state is one number, `{site.written(value)}` is {value.type}"
        site.fail(rules.SHAPE_MISMATCH, message, at=value, help=which_member(value))
        return None
    if vectors and not value.type.open and value.type.rank == 1 and is_float(value.type.dtype):
        return site.node(value.type)
    if value.type.dims != () or value.type.level != "batch" or not is_float(value.type.dtype):
        message = (
            f"the value of a state is one floating-point number, `{site.written(value)}` is {value.type}"
        )
        help = "choose among action values with gather(q, action)"
        if not vectors and value.type.rank == 1:
            help += "; numbers that are each the value of a state, as quantiles, need `value_estimator: {supports: [td0]}`"
        site.fail(rules.SHAPE_MISMATCH, message, at=value, help=help)
        return None
    return site.node(value.type)


def which_member(value: Typed) -> str:
    """How to make one number of what has a named axis."""
    axis = value.type.axes[0]
    return f"say what of `{axis}` is meant: sum, mean or min with axis={axis}"


VALUE_ESTIMATE = Builtin(
    name="value_estimate",
    family="loss",
    doc="The target of each sample's value, from the value of its next state, by the value estimator of the loss.",
    params=(Param("next_value"),),
    infer=_infer_value_estimate,
    interval=lambda args, node: full(node.type.dtype),
    torch=lambda node, printer: Printed(f"value_estimate({printer.logical(node.args[0]).text})"),
    reference=lambda np, next_value: next_value,
    layout=lambda args: (),
)


def _show_value_estimate(node: Typed, printer: Printer) -> Printed:
    value = printer.logical(node.args[0])
    if node.type.dims == ():
        return Printed(f"value_estimate({value.text})")
    return printer.call("estimate_each", "value_estimate", value.text)


VALUE_ESTIMATE_OF_EACH = replace(
    VALUE_ESTIMATE, infer=partial(_infer_value_estimate, vectors=True), torch=_show_value_estimate
)
"""The same of a loss whose only estimator is the one-step return: also of vectors, number by number."""

DISTANCE = Builtin(
    name="distance",
    family="loss",
    doc="How far a prediction is from its target: `l1` the absolute difference, `l2` its square, `smooth_l1` half "
    "the square below 1 and the absolute difference minus a half above.",
    params=(Param("prediction"), Param("target"), Param("loss_function")),
    infer=_infer_distance,
    interval=lambda args, node: Interval(0.0, math.inf, True),
    torch=_show_distance,
    reference=_distance_reference,
    layout=lambda args: (),
)

LOSS_BUILTINS: dict[str, Builtin] = {
    **{
        builtin.name: builtin
        for builtin in (DISTANCE, VALUE_ESTIMATE, GIVEN, EPS, TAKE, FLATTEN_MEMBERS, PROJECT)
    },
    **LOSS_BATCH,
}

OF_LOSSES = LOSS_BUILTINS.keys() | DISTRIBUTION_FUNCTIONS.keys() | DRAW_FUNCTIONS.keys() | {GRADIENT}
"""The names of all functions of losses: no value can be called so."""


def no_values(expr: Expr) -> frozenset[str]:
    """The names that mean something in any loss, or in what an expression calls, without being values.

    These are records, axes, functions of losses, and what has a dot: fields, and networks with other parameters.
    """
    dotted = {name.path for name in names_read_or_called(expr) if "." in name.path}
    return frozenset({*RECORDS, *AXES, *OF_LOSSES, *dotted})
