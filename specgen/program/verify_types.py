"""The operands of a node: whether a typed tree could have been inferred as it stands."""

from __future__ import annotations

from typing import Final

from specgen.expr import Type, Typed
from specgen.expr.dtypes import is_abstract
from specgen.expr.relayout import relayout
from specgen.expr.sizes import Rest
from specgen.expr.types import LEVELS, At

_LOGIC: Final = ("and", "or", "not", "any", "all")
_SAME_DTYPE: Final = ("stack", "concat", "zeros_like", "ones_like")


def matches(one: Type, other: Type) -> bool:
    """Whether two types are the same, in level and layout too."""
    return one == other


def fits(value: Type, wanted: Type) -> bool:
    """Whether a value can be called, or handed over as, a symbol: a number known at build is one of Python, too."""
    if is_abstract(wanted.dtype) or wanted.open:
        return True
    same = (value.dtype, value.dims, value.col) == (wanted.dtype, wanted.dims, wanted.col)
    return same and (value.level == wanted.level or (value.python and wanted.python))


def fault_of(node: Typed, *, witnesses: bool = False) -> str | None:
    """What is wrong with the operands of one node, not with those below it; None where nothing is.

    Args:
        node: the node.
        witnesses: whether a stored value that no row has needs a tensor that tells the rows.
    """
    match node.op:
        case "literal":
            return "it has no value" if node.static is None else None
        case "name":
            return "it is no symbol" if node.symbol is None and node.static is None else None
        case "site":
            return "a draw is an input of a program"
        case "store":
            return _store(node, witnesses)
        case "copy" | "given_or":
            kinds = [(one.type.dtype, one.type.dims) for one in node.args]
            same = all(kind == (node.type.dtype, node.type.dims) for kind in kinds)
            return None if same and kinds else "it is not of the type of its operands"
        case "record" | "spread" | "among":
            return None
        case "when":
            one = len(node.args) == 2 and node.args[1].type == node.type
            return None if one and node.args[0].type.dtype == "bool" else "it is no value with its condition"
        case "place":
            return None if _is_witness(node.args[1:]) else "no tensor tells the device"
        case "cast" if "dtype" not in node.options:
            return _cast(node)
        case _:
            return _operands(node) or _layout(node)


def _store(node: Typed, witnesses: bool) -> str | None:
    value, *like = node.args
    kind = node.type
    if kind.python:
        return f"a tensor is stored, not {kind}, {kind.level}"
    if like and not _is_witness(node.args[1:]):
        return "what tells the rows is no tensor"
    if value.type.level == "batch" and kind.level != "batch":
        return "a value of each row is kept as one for all"
    rests = [size for size in (*kind.dims, *value.type.dims) if isinstance(size, Rest)]
    alike = len(rests) == 2 and len(kind.dims) == len(value.type.dims)
    unknown = alike and not all(size.exact for size in rests)
    if not unknown and value.type.dims not in ((), kind.dims):
        return f"{value.type} is stored as {kind}"
    if not is_abstract(kind.dtype) and (value.type.dtype == "bool") != (kind.dtype == "bool"):
        return f"{value.type} is stored as {kind}"
    rows = any(one.type.level == "batch" for one in value.nodes)
    if witnesses and kind.level == "batch" and not kind.open and not rows and not like:
        return "nothing tells the rows of what is stored"
    return None


def _is_witness(args: tuple[Typed, ...]) -> bool:
    return len(args) == 1 and args[0].op == "name" and not args[0].type.python


def _cast(node: Typed) -> str | None:
    if len(node.args) != 1:
        return f"{len(node.args)} operands"
    value = node.args[0].type
    if (value.dims, value.level, value.col) != (node.type.dims, node.type.level, node.type.col):
        return f"{value} becomes {node.type}: only the dtype may change"
    return None


def _operands(node: Typed) -> str | None:
    if node.op == "in_range":
        return None if len(node.args) == 1 else f"{len(node.args)} operands"
    if node.builtin is None or node.builtin.name != node.op:
        return f"it is no built-in, but {node.builtin.name if node.builtin else 'nothing'}"
    if node.op == "call" and node.function is None:
        return "it calls nothing"
    if node.builtin.family == "operator" and len(node.args) != len(node.builtin.params):
        return f"{len(node.args)} operands"
    wanted = node.options.get("operand_dtype")
    values = node.args[1:] if node.op == "where" else node.args
    if node.op == "where" and (len(node.args) != 3 or node.args[0].type.dtype != "bool"):
        return "its condition is no truth value"
    if wanted is not None and not is_abstract(str(wanted)):
        for value in values:
            if not value.type.python and value.type.dtype != wanted:
                return f"an operand is {value.type}, not {wanted}"
    if node.op in _LOGIC and any(value.type.dtype != "bool" for value in node.args):
        return "an operand is no truth value"
    if node.op in _SAME_DTYPE and "dtype" not in node.options:
        for value in node.args:
            if not value.type.python and value.type.dtype != node.type.dtype:
                return f"an operand is {value.type}, and it is {node.type}"
    for item in node.items:
        if isinstance(item, At) and not item.index.type.dtype.startswith(("int", "uint")):
            return f"an index is {item.index.type}"
    if wanted is not None and node.builtin.family != "draw":
        return _pointwise(node)
    if node.function is not None and node.op == "call" and len(node.function.params) != len(node.args):
        return f"{len(node.args)} arguments for the {len(node.function.params)} of {node.function.name}"
    return None


def _pointwise(node: Typed) -> str | None:
    """An operation element by element: the shapes of the operands fit, its own is theirs."""
    kind = node.type
    level = max((value.type.level for value in node.args), key=LEVELS.index, default="lit")
    chosen = node.op == "where" and isinstance(node.args[0].static, bool)
    if kind.level != level and not chosen:
        return f"it is {kind.level}, its operands {level}"
    for value in node.args:
        dims = value.type.dims
        if dims == () or kind.open:
            continue
        last = kind.dims[len(kind.dims) - len(dims) :]
        short = value.type.level == "batch" or len(dims) > len(kind.dims)
        if (short and len(dims) != len(kind.dims)) or any(
            here not in (there, 1) for here, there in zip(dims, last, strict=True)
        ):
            return f"an operand is {value.type}, and it is {kind}"
    ranked = [value for value in node.args if value.type.dims != ()]
    if kind.dims != () and not ranked and not chosen:
        return f"it is {kind}, and its operands are numbers"
    if kind.dims == () and ranked:
        return f"an operand is {ranked[0].type}, and it is {kind}"
    return None


def _layout(node: Typed) -> str | None:
    if node.op == "where" and isinstance(node.args[0].static, bool):
        return None
    if relayout(node).type.col != node.type.col:
        return f"it is laid out {'with' if node.type.col else 'without'} a trailing 1, its operands are not"
    return None
