"""Statistics over the rows of a batch that are new: what `update` of a transform learns from."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NoReturn

from specgen.diagnostics.rules import transforms_buffers as rules
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.reduced import refuse_dtype
from specgen.expr.builtins.site import Site
from specgen.expr.dtypes import is_number
from specgen.expr.interval import Interval
from specgen.expr.printer import Printed, Printer
from specgen.expr.types import Type, Typed
from specgen.values import replace

NEW_ROWS = "new_rows"
"""The argument that says which rows are new, in what is generated."""

_MEANS = Interval(-math.inf, math.inf, True)
_COUNTS = Interval(0, 2**53)


def _count(site: Site) -> Typed | None:
    return site.node(Type("float64", (), "const"))


def _reduce(site: Site) -> Typed | None:
    (x,) = site.values
    if not is_number(x.type.dtype) and x.type.dtype not in ("float", "number", "bool"):
        refuse_dtype(site, x)
        return None
    if x.type.level != "batch":
        message = f"`{site.written(x)}` is the same for all rows"
        site.fail(
            rules.BATCH_MISPLACED, message, at=x, help="take what differs from row to row, such as a role"
        )
        return None
    return site.node(Type("float64", x.type.dims, "const"))


def _rank(site: Site) -> Typed | None:
    (x,) = site.values
    if x.type.level != "batch":
        message = f"`{site.written(x)}` is the same for all rows"
        site.fail(rules.BATCH_MISPLACED, message, at=x, help="take what each row has, such as a role")
        return None
    return site.node(Type("int64", x.type.dims, "batch"))


def _misplaced(site: Site) -> Typed | None:
    name = site.builtin.name
    where = "`update` and `reset`" if name == "batch_rank" else "`update`"
    message = f"`{name}` is known under {where} only, where there is a batch of new rows"
    site.fail(rules.BATCH_MISPLACED, message, help="keep it in a buffer that `update` assigns, and read that")
    return None


def _show(node: Typed, printer: Printer) -> Printed:
    # Programs add the flag of the new rows as the last operand.
    return printer.call(node.op, *(printer.logical(arg).text for arg in node.args))


def _no_reference(np: Any, *args: object, **options: object) -> NoReturn:
    raise NotImplementedError("a statistic over the rows of a batch means nothing for one environment")


def _statistic(
    name: str,
    form: str,
    doc: str,
    params: tuple[Param, ...],
    infer: Callable[[Site], Typed | None],
    values: Interval,
) -> Builtin:
    return Builtin(
        name=name,
        form=form,
        family="batch",
        doc=doc,
        params=params,
        infer=infer,
        interval=lambda args, node: values,
        torch=_show,
        reference=_no_reference,
        layout=lambda args: (),
    )


BATCH: Final[dict[str, Builtin]] = {
    builtin.name: builtin
    for builtin in (
        _statistic("batch_count", "batch_count()", "How many rows are new, as float64.", (), _count, _COUNTS),
        _statistic(
            "batch_sum",
            "batch_sum(x)",
            "The sum over the rows that are new, in float64.",
            (Param("x"),),
            _reduce,
            _MEANS,
        ),
        _statistic(
            "batch_mean",
            "batch_mean(x)",
            "The mean over the rows that are new, in float64; NaN where none is.",
            (Param("x"),),
            _reduce,
            _MEANS,
        ),
        _statistic(
            "batch_rank",
            "batch_rank(x)",
            "The position of each row among those that are new, from 0, as int64 of the dimensions of `x`; under `reset`, too.",
            (Param("x"),),
            _rank,
            _COUNTS,
        ),
    )
}
"""The statistics, by name; only `update` of a transform knows them, and `reset` the position of each row."""

BATCH_ELSEWHERE: Final[dict[str, Builtin]] = {
    name: replace(builtin, infer=_misplaced) for name, builtin in BATCH.items()
}
"""The same names elsewhere: a mistake with an explanation."""

BATCH_AT_RESET: Final[dict[str, Builtin]] = BATCH_ELSEWHERE | {"batch_rank": BATCH["batch_rank"]}
"""What `reset` knows of them."""
