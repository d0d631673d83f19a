"""The final text of an expression as it stands on the right of an assignment."""

from __future__ import annotations

import re
from typing import Final

from specgen.expr.builtins.site import convert
from specgen.expr.dtypes import is_abstract
from specgen.expr.printer import Printer, method
from specgen.expr.types import Binding, Dims, Typed

_MODULES: Final = re.compile(r"(?<![\w.\"])(math|torch|rk4|euler|vector_norm|index_in_range|partial)(?=[.(])")


def to_torch(
    typed: Typed,
    *,
    cast: str | None = None,
    dims: Dims | None = None,
    col: bool = False,
    like: Binding | None = None,
) -> str:
    """The expression as torch code that is right for any leading batch dimensions.

    Args:
        typed: The typed tree.
        cast: The dtype of the target; None or a pattern leaves the expression's own.
        dims: The feature dimensions of the target. With them the text is always a tensor of batch
            and dims: a number becomes a full tensor, a constant is expanded. Without them the
            expression keeps its shape and layout, and a number stays a number of Python.
        col: Whether the target is stored with an extra trailing 1; without `dims` it only adds one.
        like: A batched tensor in whose shape and on whose device numbers become tensors, for
            expressions that read no batched name.

    """
    printer = Printer(typed, like)
    wanted = cast if cast is not None and not is_abstract(cast) else None
    node = convert(typed, wanted) if wanted is not None and not typed.type.python else typed
    kind = node.type
    if kind.dims is None:
        return printer.text(node)
    if dims is not None:
        return printer.filled(node, wanted or kind.dtype, dims, col).text
    if kind.python:
        return printer.number(node, wanted or kind.dtype).text
    if col and not kind.col:
        return method(printer.show(node), "unsqueeze", "-1").text
    return printer.text(node)


def modules_of(text: str) -> frozenset[str]:
    """What printed text needs imported: `math`, `torch`, `partial`, and names of `specgen_runtime.functional`.

    The latter are `rk4`, `euler`, `vector_norm` and `index_in_range`; `partial` comes from `functools`.
    """
    names = {match.group(1) for match in _MODULES.finditer(text)}
    return frozenset(names)
