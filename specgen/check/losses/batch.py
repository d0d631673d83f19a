"""`batch_mean`, `batch_std` and their like in losses: one number for all samples that no mask leaves out."""

from __future__ import annotations

import math
from typing import Any, Final, NoReturn

from specgen.diagnostics.rules import loss_conditions as rules
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.site import Site
from specgen.expr.dtypes import is_float
from specgen.expr.interval import Interval, full
from specgen.expr.printer import Printed, Printer
from specgen.expr.types import Binding, Type, Typed
from specgen.precedence import ATOM
from specgen.values import replace

MASK: Final = "mask"
"""The setting of a node that programs add: the mask of the samples that count."""

_OF: Final = {
    "batch_mean": "The mean over the samples.",
    "batch_std": "The standard deviation over the samples, as they estimate it (unbiased); 0 of one sample.",
    "batch_var": "The variance of the samples: their mean squared distance from the mean.",
    "batch_max": "The largest number of the samples.",
    "batch_sum": "The sum over the samples.",
    "batch_logsumexp": "The logarithm of the sum of the exponentials of the samples.",
    "batch_count": "How many samples there are, a whole number.",
    "batch_standardized": (
        "The distance of each sample from the mean, in standard deviations (of 1e-6 at least); one sample alone as it is."
    ),
    "batch_effective_fraction": (
        "How many samples of equal weight tell as much as these do, of which `x` is the logarithm of the weight, "
        "as a fraction of their number."
    ),
}


def _infer(site: Site) -> Typed | None:
    if not site.values:
        message = f"`{site.builtin.name}` does not know what a sample is here"
        site.fail(rules.BATCH_OF, message, help="say a value that each sample has: batch_count(x)")
        return None
    x, *keep = site.values
    text, name = site.written(x), site.builtin.name
    if x.type.level != "batch" or x.type.dims != () or x.type.axes:
        shown = "the same for all samples" if x.type.level != "batch" else str(x.type)
        message = f"`{name}` takes one number of each sample, `{text}` is {shown}"
        help = f"make it one number first: {name}(sum({text}))" if x.type.dims else None
        site.fail(rules.BATCH_OF, message, at=x, help=help)
        return None
    if name != "batch_count" and not is_float(x.type.dtype):
        help = f"write {name}(where({text}, 1.0, 0.0))" if x.type.dtype == "bool" else None
        message = f"`{name}` takes floating-point numbers, `{text}` is {x.type}"
        site.fail(rules.BATCH_OF, message, at=x, help=help)
        return None
    if keep and not (keep[0].type.dtype == "list" or isinstance(keep[0].static, int)):
        message = f"`keep` is a dimension, as in keep=-2, or a parameter of type list[int]; `{site.written(keep[0])}` is neither"
        site.fail(rules.BATCH_OF, message, at=keep[0])
        return None
    dtype = "int64" if name == "batch_count" else x.type.dtype
    # Of each agent, say: then every sample has a value.
    return site.node(Type(dtype, (), "batch" if keep or name == "batch_standardized" else "const"))


def _show(node: Typed, printer: Printer) -> Printed:
    x, *keep = node.args
    args = [printer.logical(x).text]
    mask = node.options.get(MASK)
    if isinstance(mask, Typed):
        args.append(printer.text(mask))
    if keep:
        text = printer.text(keep[0])
        args.append(f"keep={text}" if keep[0].type.dtype == "list" else f"keep=({text},)")
    return printer.call(node.op.replace("batch", "sample"), *args)


def _no_reference(np: Any, *args: object, **options: object) -> NoReturn:
    raise NotImplementedError("a statistic over a batch means nothing for one sample")


def _interval(name: str, dtype: str) -> Interval:
    if name == "batch_count":
        return Interval(0, 2**53)
    positive = name in ("batch_std", "batch_var", "batch_effective_fraction")
    return Interval(0.0, math.inf, True) if positive else full(dtype)


def _batch_function(name: str, doc: str) -> Builtin:
    return Builtin(
        name=name,
        form=f"{name}(x, keep=dims)",
        family="batch",
        doc=doc,
        params=(
            Param("x", default=None) if name == "batch_count" else Param("x"),
            Param("keep", default=None),
        ),
        infer=_infer,
        interval=lambda args, node: _interval(name, node.type.dtype),
        torch=_show,
        reference=_no_reference,
        layout=lambda args: (),
        agreement="ulp",
    )


LOSS_BATCH: Final[dict[str, Builtin]] = {name: _batch_function(name, doc) for name, doc in _OF.items()}
"""The statistics over the samples, by name."""


def batch_functions(sample: Binding | None) -> dict[str, Builtin]:
    """The statistics of a loss; `batch_count()` counts the samples by `sample`, one number of each."""
    if sample is None:
        return LOSS_BATCH
    read = Typed("name", sample.type, sample.interval, symbol=sample.symbol)
    count = LOSS_BATCH["batch_count"]

    def infer(site: Site) -> Typed | None:
        return _infer(site if site.values else replace(site, values=(read,)))

    return LOSS_BATCH | {count.name: replace(count, infer=infer)}


def with_mask(node: Typed, mask: Typed) -> Typed:
    """A statistic of the samples that a mask lets count."""
    return replace(node, options={**node.options, MASK: mask})


def _infer_eps(site: Site) -> Typed | None:
    (x,) = site.values
    if not is_float(x.type.dtype) or x.type.python:
        message = f"`eps` takes a floating-point tensor, `{site.written(x)}` is {x.type}"
        site.fail(rules.BATCH_OF, message, at=x)
        return None
    return site.node(Type("float32", (), "ctor"))


def _show_eps(node: Typed, printer: Printer) -> Printed:
    dtype = f"{printer.text(node.args[0], ATOM)}.dtype"
    return Printed(f"{printer.call('torch.finfo', dtype).text}.eps")


EPS: Final = Builtin(
    name="eps",
    family="fact",
    doc="The distance from 1 to the next larger number of the dtype of `x`.",
    params=(Param("x"),),
    infer=_infer_eps,
    interval=lambda args, node: Interval(0.0, 1.0),
    torch=_show_eps,
    reference=lambda np, x: np.finfo(np.asarray(x).dtype).eps,
    layout=lambda args: (),
)
