"""`update`: what the coefficients of a loss become after a batch, where it is trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from specgen.check.losses.numbers import Coefficient
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import losses as rules
from specgen.expr import Typed
from specgen.expr.dtypes import is_float
from specgen.source import Scalar

NEXT: Final = "next."
"""How an update begins: what is behind it is the buffer that becomes another number."""


def updates_buffer(name: str, coefficients: Mapping[str, Coefficient], key: Scalar, sink: Sink) -> bool:
    """Whether an entry of `update` says what a buffer becomes; reported where it does not."""
    bare = name.removeprefix(NEXT)
    kept = coefficients.get(bare)
    if name.startswith(NEXT) and kept is not None and not kept.parts and not kept.of_domain:
        return True
    known = [f"{NEXT}{one.name}" for one in coefficients.values() if not one.parts and not one.of_domain]
    message = (
        f"`update` says what a buffer becomes, `next.{bare}`; `{bare}` is no parameter with `buffer: true`"
    )
    help: str | None = (
        suggestion(name, known) or f"declare it: `params: {{{bare}: {{default: 1.0, buffer: true}}}}`"
    )
    if kept is not None:
        message = f"`update` says what a buffer becomes, `next.{bare}`"
        help = f"write `next.{bare}`"
        if kept.parts or kept.of_domain:
            message, help = f"`{bare}` is no buffer of one number that is known from the start", None
    sink.add(rules.UPDATE.at(key.span, message, help=help))
    return False


def is_number(name: str, typed: Typed, source: Scalar, sink: Sink) -> bool:
    """Whether an update is one number for the whole batch; reported where it is not."""
    kind = typed.type
    one = kind.dims == () and not kind.axes and kind.level != "batch"
    if one and (is_float(kind.dtype) or kind.python) and kind.dtype not in ("bool", "str"):
        return True
    what = f"{kind}, one for each sample" if kind.level == "batch" else str(kind)
    help = f"write batch_mean({source.text})" if kind.level == "batch" and kind.dims == () else None
    sink.add(rules.UPDATE.at(source.span, f"`{name}` is one number for the batch, this is {what}", help=help))
    return False
