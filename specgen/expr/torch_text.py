"""The final text of an expression as it stands on the right of an assignment."""

from __future__ import annotations

from typing import Final

from specgen.expr.conversions import convert
from specgen.expr.dtypes import is_abstract
from specgen.expr.printer import FunctionTexts, Printed, Printer, method
from specgen.expr.sizes import Dims
from specgen.expr.types import Typed


def to_torch(
    typed: Typed,
    *,
    cast: str | None = None,
    dims: Dims | None = None,
    col: bool = False,
    like: Typed | None = None,
    texts: FunctionTexts | None = None,
) -> Printed:
    """The expression as torch code that is right for any leading batch dimensions.

    Args:
        typed: The typed tree.
        cast: The dtype of the target; None or a pattern leaves the expression's own.
        dims: The feature dimensions of the target. With them the text is always a tensor of batch
            and dims, each row in memory of its own: a number becomes a full tensor, a constant is copied
            for each row. Without them the
            expression keeps its shape and layout, and a number stays a number of Python.
        col: Whether the target is stored with an extra trailing 1; without `dims` it only adds one.
        like: The name of a batched tensor in whose shape and on whose device numbers become tensors, for
            expressions that read no batched name.
        texts: What it shares with the other expressions of its function; the names that it reads are added.

    """
    wanted = cast if cast is not None and not is_abstract(cast) else None
    node = convert(typed, wanted) if wanted is not None and not typed.type.python else typed
    printed = _printed(node, Printer(typed, like, texts), wanted or node.type.dtype, dims, col)
    if printed.expanded or (_views_constant(node) and dims in (None, node.type.dims)):
        printed = method(printed, "clone")
    return printed


def _printed(node: Typed, printer: Printer, dtype: str, dims: Dims | None, col: bool) -> Printed:
    kind = node.type
    if kind.open:
        return printer.show(node)
    if dims is not None:
        return printer.filled(node, dtype, dims, col)
    if kind.python:
        return printer.number(node, dtype)
    if col and not kind.col:
        return method(printer.show(node), "unsqueeze", "-1")
    return printer.show(node)


VIEWS: Final = (
    "reshape", "permute", "flatten", "unflatten", "squeeze", "unsqueeze", "narrow", "select", "crop", "stop_grad",
)  # fmt: skip
"""Functions whose result shares the memory of their operand."""


def _views_constant(node: Typed) -> bool:
    """Whether the result shares memory with a constant of all environments: whoever writes to it would change that.

    One index into a table gives a copy for a batch of them, but a view for the index of one environment.
    """
    if node.op == "where" and node.args[0].type.python:
        return any(map(_views_constant, node.args[1:]))
    if node.op in VIEWS or (
        node.op == "[]" and not any(item.type.level == "batch" for item in node.parts[1:])
    ):
        return _views_constant(node.args[0])
    if (
        node.op != "[]"
        or node.args[0].type.level == "batch"
        or any(item.type.rank for item in node.parts[1:])
    ):
        return False
    table = node.args[0]
    while table.op in (*VIEWS, "[]"):
        table = table.args[0]
    return table.op == "name"
