"""Draws of whole numbers by the inverse of their distribution function: one uniform number for each."""

from __future__ import annotations

import math
from typing import Any

from specgen.diagnostics.rules import expressions as rules
from specgen.expr.builtins.axes import written_dims
from specgen.expr.builtins.draws import SHAPE, drawn_dims, drawn_site
from specgen.expr.builtins.outcome import values_of
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.site import Site
from specgen.expr.conversions import convert
from specgen.expr.dtypes import COMPUTE, is_float, is_number
from specgen.expr.interval import Interval
from specgen.expr.printer import Printed, Printer, method
from specgen.expr.sizes import Dim, limits
from specgen.expr.types import Type, Typed
from specgen.precedence import ATOM

LARGEST_COUNT = 2**53
"""No Poisson draw is larger, whatever its rate."""


def _not_negative(site: Site, value: Typed, what: str, help: str) -> bool:
    """Whether `value` is a number of at least 0, whatever the values are; reports when it is not."""
    text = site.written(value)
    if not is_number(value.type.dtype):
        site.fail(rules.WRONG_DTYPE, f"`{text}` is {value.type}; {what}s are numbers", at=value)
        return False
    low, high = value.interval.low, value.interval.high
    if low >= 0:
        return True
    said = (
        values_of(value.interval) if high < 0 else "can be anything" if math.isinf(low) else f"can be {low:g}"
    )
    site.fail(rules.NEGATIVE_WEIGHT, f"`{text}` {said}; a {what} is at least 0", at=value, help=help)
    return False


def _infer_categorical(site: Site) -> Typed | None:
    (weights,) = site.values
    text = site.written(weights)
    if not weights.type.dims:
        kind = "of unknown rank" if weights.type.open else "one number"
        message = f"`{text}` is {kind}; `categorical` takes a vector with a weight for each class"
        help = "one of n classes, all as likely, is randint(0, n)"
        site.fail(rules.SHAPE_MISMATCH, message, at=weights, help=help)
        return None
    logits = f"of logits write softmax({text})"
    if not _not_negative(site, weights, "weight", f"{logits}, of weights max({text}, 0)"):
        return None
    if weights.interval.high <= 0:
        site.fail(rules.WRONG_ARGUMENTS, f"no weight of `{text}` is above 0", at=weights)
        return None
    rows, given = weights.type.dims[:-1], site.options["shape"]
    dims = rows if given is None else written_dims(given)
    if rows not in ((), dims):
        message = f"shape={list(dims)} does not fit weights of shape {list(weights.type.dims)}: the last are the classes"
        site.fail(rules.SHAPE_MISMATCH, message)
        return None
    dtype = weights.type.dtype if is_float(weights.type.dtype) else COMPUTE
    drawn = drawn_site(site, "uniform", dims, dtype)
    return site.node(Type("int64", dims, "batch"), (convert(weights, dtype), drawn))


def _classes(node: Typed) -> Dim:
    return node.args[0].type.sizes[-1]


def _show_categorical(node: Typed, printer: Printer) -> Printed:
    weights, drawn = node.args
    table, missing = printer.logical(weights), node.type.rank + 1 - weights.type.rank
    if weights.type.level == "batch" and missing:
        # The same weights for each draw of an environment.
        table = Printed(f"{table.at(ATOM)}[..., {'None, ' * missing}:]")
    return printer.call("categorical_quantile", table.text, printer.text(drawn))


def _categorical_reference(np: Any, weights: Any, drawn: Any, **_: Any) -> Any:
    bounds = np.cumsum(weights, axis=-1)
    passed = np.sum(drawn[..., None] * bounds[..., -1:] >= bounds, axis=-1)
    return np.minimum(passed, weights.shape[-1] - 1)


def _infer_poisson(site: Site) -> Typed | None:
    (rate,) = site.values
    if not _not_negative(site, rate, "rate", f"write max({site.written(rate)}, 0)"):
        return None
    dims = drawn_dims(site, site.values)
    if dims is None:
        return None
    # The tail of large counts needs more digits than float32 has.
    drawn = drawn_site(site, "uniform", dims, "float64")
    return site.node(
        Type("int64", dims, "batch"), (*site.cast(site.values, "float64"), drawn), operand_dtype="float64"
    )


def _show_poisson(node: Typed, printer: Printer) -> Printed:
    rate, drawn = node.args
    return printer.call(
        "poisson_quantile", printer.tensor(rate, "float64", node.type.rank).text, printer.text(drawn)
    )


def _poisson_reference(np: Any, rate: Any, drawn: Any, **_: Any) -> Any:
    def count(rate: float, drawn: float) -> int:
        if rate == 0:
            return 0
        found, total = 0, math.exp(-rate)
        while total <= drawn:
            found += 1
            more = math.exp(found * math.log(rate) - rate - math.lgamma(found + 1))
            if found > rate and total + more == total:
                break
            total += more
        return found

    return np.vectorize(count, otypes=[np.int64])(rate, drawn)


def _infer_permutation(site: Site) -> Typed | None:
    count, shape = site.options["n"], site.options["shape"]
    assert isinstance(count, Typed)
    size = count.interval.known_size
    if size is None or limits(size)[0] < 1:
        message = "how many are put into an order must be a whole number from 1, known at build"
        site.fail(rules.WRONG_ARGUMENTS, message, at=count)
        return None
    dims = (*(() if shape is None else written_dims(shape)), size)
    # In float64 no two numbers are the same: every order is as likely.
    drawn = drawn_site(site, "uniform", dims, "float64")
    return site.node(Type("int64", dims, "batch"), (drawn,))


def _show_permutation(node: Typed, printer: Printer) -> Printed:
    return method(printer.show(node.args[0]), "argsort", "dim=-1", "stable=True")


DISCRETE_DRAWS: tuple[Builtin, ...] = (
    Builtin(
        name="categorical",
        form="categorical(weights, shape=())",
        family="draw",
        doc="One of the classes 0, 1, …, n - 1, each as likely as its weight among the `n` along the last axis of "
        "`weights`. They are proven not to be negative, and need not add up to 1; one at least is above 0.",
        params=(Param("weights"), SHAPE),
        infer=_infer_categorical,
        interval=lambda args, node: Interval.indices(_classes(node)),
        torch=_show_categorical,
        reference=_categorical_reference,
        agreement="ulp",
    ),
    Builtin(
        name="poisson",
        form="poisson(rate, shape=())",
        family="draw",
        doc="How many events happen where `rate` are expected: an int64 of the Poisson distribution. The rate is "
        "proven not to be negative.",
        params=(Param("rate"), SHAPE),
        infer=_infer_poisson,
        interval=lambda args, node: Interval(0, 0 if args[0].high == 0 else LARGEST_COUNT),
        torch=_show_poisson,
        reference=_poisson_reference,
        agreement="ulp",
    ),
    Builtin(
        name="permutation",
        form="permutation(n, shape=())",
        family="draw",
        doc="The numbers 0, 1, …, n - 1 in an order drawn at random, each as likely: `x[permutation(n)]` shuffles "
        "the first axis of `x`.",
        params=(Param("n", "int"), SHAPE),
        infer=_infer_permutation,
        interval=lambda args, node: Interval.indices(node.type.sizes[-1]),
        torch=_show_permutation,
        reference=lambda np, drawn: np.argsort(drawn, axis=-1, kind="stable"),
    ),
)
