"""Functions of a name that ask what it is bound to: its dtype, its bounds, its classes, whether it was given."""

from __future__ import annotations

from typing import Any, Final

from specgen.diagnostics.rules import expressions as rules
from specgen.diagnostics.rules.transform_language import NOT_BOUNDED
from specgen.expr import ranges
from specgen.expr.builtins.constants import CASTS, cast_range
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.shapes import SHAPES
from specgen.expr.builtins.site import Site
from specgen.expr.dtypes import CONCRETE, is_abstract, is_float, is_int, is_number
from specgen.expr.interval import ANYTHING, BOOLS, Interval, point
from specgen.expr.printer import Printed, Printer, method
from specgen.expr.sizes import ANY_DIMS, Dims, Sym
from specgen.expr.types import Type, Typed
from specgen.precedence import AND, ATOM, COMPARE, NOT
from specgen.values import replace

_STACK: Final = next(builtin for builtin in SHAPES if builtin.name == "stack")

OF_NAMES: Final = ("low", "high", "classes", "given")
"""Functions whose value for a name is bound as `low(x)` in the scope, where it is known."""


def _infer_cast(site: Site) -> Typed | None:
    (x,) = site.values
    wanted = site.options["dtype"]
    if x.type.dtype == "str":
        site.fail(rules.WRONG_DTYPE, f"`{site.written(x)}` is a word, not a number", at=x)
        return None
    if isinstance(wanted, str):
        return CASTS[wanted].infer(replace(site, builtin=CASTS[wanted], options={}))
    assert isinstance(wanted, Typed)
    dtype = wanted.type.dtype
    if x.type.dtype == "list":
        return _infer_numbers(site, x, wanted)
    if dtype in CONCRETE and not wanted.type.python:
        return CASTS[dtype].infer(replace(site, builtin=CASTS[dtype], options={}))
    if isinstance(wanted.static, str) and wanted.static in CASTS:  # a chain knows the word
        return CASTS[wanted.static].infer(replace(site, builtin=CASTS[wanted.static], options={}))
    if dtype == "str":
        choices = wanted.options.get("choices")
        floats = isinstance(choices, tuple) and all(map(is_float, choices))
        return site.node(replace(x.type, dtype="float" if floats else "number"), dtype=wanted)
    if wanted.type.python or not is_abstract(dtype):
        message = f"`{site.written(wanted)}` says no dtype"
        site.fail(rules.WRONG_ARGUMENTS, message, at=wanted, help=f"one of {', '.join(CONCRETE)}, or a role")
        return None
    if x.type.python:
        message = f"`{site.written(x)}` is a number, which takes the dtype of what it meets"
        site.fail(rules.WRONG_ARGUMENTS, message, at=x)
        return None
    return x if x == wanted else site.node(replace(x.type, dtype=dtype), dtype=wanted)


def _infer_numbers(site: Site, x: Typed, wanted: Typed) -> Typed | None:
    """The numbers of a list parameter as a constant, which meets the last dimension of the value that it is like."""
    if wanted.type.python or not is_number(wanted.type.dtype):
        message = f"`{site.written(wanted)}` is no value that the numbers of a list could meet"
        site.fail(rules.WRONG_ARGUMENTS, message, at=wanted, help="write a role")
        return None
    items = x.options.get("items")
    dtype = wanted.type.dtype
    if not isinstance(items, tuple) or wanted.type.open:
        return site.node(Type(dtype, ANY_DIMS, "const"), dtype=wanted)
    ahead = max(wanted.type.rank - 1, 0)
    kind = Type(dtype, (*[1] * ahead, len(items)), "const", broadcastable=frozenset(range(ahead)))
    numbers = [
        Typed("literal", Type("int64", (), "lit"), point(one), text=str(one), static=one) for one in items
    ]
    stack = replace(site, builtin=_STACK, values=tuple(numbers), options={})
    return stack.node(kind, axis=ahead)


def _cast_interval(args: tuple[Interval, ...], node: Typed) -> Interval:
    return cast_range(args[0], "float32") if is_float(node.type.dtype) else ANYTHING


def _show_cast(node: Typed, printer: Printer) -> Printed:
    wanted = node.options["dtype"]
    assert isinstance(wanted, Typed)
    if node.args[0].type.dtype == "list":
        return method(printer.show(wanted), "new_tensor", printer.text(node.args[0]))
    text = (
        f"getattr(torch, {printer.text(wanted)})"
        if wanted.type.dtype == "str"
        else f"{printer.text(wanted, ATOM)}.dtype"
    )
    if wanted.type.dtype == "str":
        printer.texts.uses.add("torch")
    return method(printer.show(node.args[0]), "to", text)


def _cast_reference(np: Any, x: Any, dtype: Any) -> Any:
    return np.asarray(x).astype(dtype if isinstance(dtype, str) else dtype.dtype)


def _asks(name: str, doc: str) -> Builtin:
    """`is_int`, `is_float`: known at build where the dtype is."""
    wanted = is_int if name == "is_int" else is_float

    def infer(site: Site) -> Typed | None:
        (x,) = site.values
        dtype = x.type.dtype
        known = None if dtype in ("number", "any") else wanted(dtype)
        return site.node(Type("bool", (), "lit" if known is not None else "ctor"), static=known)

    def show(node: Typed, printer: Printer) -> Printed:
        x = node.args[0]
        floating = method(printer.show(x), "is_floating_point")
        if name == "is_float":
            return floating
        if x.type.dtype == "number":
            return Printed(f"not {floating.text}", NOT)
        bools = f"{printer.text(x, ATOM)}.dtype != {printer.texts.dtype('bool')}"
        return Printed(f"not {floating.text} and {bools}", AND)

    def reference(np: Any, x: Any) -> Any:
        return np.asarray(x).dtype.kind in ("iu" if name == "is_int" else "f")

    return Builtin(
        name=name,
        family="fact",
        doc=doc,
        params=(Param("x"),),
        infer=infer,
        interval=ranges.truth,
        torch=show,
        reference=reference,
    )


def _bound(name: str, doc: str) -> Builtin:
    """`low`, `high`: tensors that the name's spec gives, found in the scope before this is reached."""

    def infer(site: Site) -> Typed | None:
        (x,) = site.values
        message = f"nothing says that `{site.written(x)}` has bounds"
        help = "declare its pattern with them: float[...] in bounded"
        site.fail(NOT_BOUNDED, message, at=x, help=help)
        return None

    return Builtin(
        name=name,
        family="fact",
        doc=doc,
        params=(Param("x"),),
        infer=infer,
        interval=ranges.same,
        torch=lambda node, printer: printer.show(node.args[0]),
        reference=lambda np, x: x,
    )


def _infer_given(site: Site) -> Typed | None:
    (x,) = site.values
    if x.type.python and x.static is None:
        return site.node(Type("bool", (), "ctor"))
    if x.op == "name" and (x.type.level == "const" or x.options.get("optional")):
        return site.node(Type("bool", (), "ctor"))
    message = f"`given` asks for an optional parameter, or for a role that may be missing; `{site.written(x)}` is neither"
    site.fail(rules.WRONG_ARGUMENTS, message, at=x)
    return None


def _show_given(node: Typed, printer: Printer) -> Printed:
    return Printed(f"{printer.text(node.args[0], COMPARE + 1)} is not None", COMPARE)


def _infer_classes(site: Site) -> Typed | None:
    x, *counts = site.values
    if not counts:
        message = f"nothing says how many classes each choice of `{site.written(x)}` has"
        help = "declare it as multi_onehot; the class of one one-hot vector is argmax(x, axis=-1)"
        site.fail(rules.WRONG_ARGUMENTS, message, at=x, help=help)
        return None
    dims: Dims = (*x.type.dims[:-1], counts[0].type.sizes[0])
    items = counts[0].options.get("items")
    known = items if isinstance(items, tuple) else counts[0]
    return site.node(Type("int64", dims, x.type.level), (x,), counts=known)


def _show_classes(node: Typed, printer: Printer) -> Printed:
    counts = node.options["counts"]
    assert isinstance(counts, tuple | Typed)
    text = f"({', '.join(map(str, counts))},)" if isinstance(counts, tuple) else printer.text(counts)
    return printer.call("class_indices", printer.logical(node.args[0]).text, text)


def _classes_interval(args: tuple[Interval, ...], node: Typed) -> Interval:
    counts = node.options["counts"]
    if isinstance(counts, tuple):
        return Interval(0, max(counts) - 1)
    assert isinstance(counts, Typed)
    below = counts.interval.size
    return Interval.indices(below) if isinstance(below, Sym) else Interval(0, 2**63 - 1)


def _classes_reference(np: Any, x: Any, counts: Any) -> Any:
    ends = np.cumsum(counts)
    parts = np.split(np.asarray(x), ends[:-1], axis=-1)
    return np.stack([np.argmax(part, axis=-1) for part in parts], axis=-1)


FACTS: tuple[Builtin, ...] = (
    Builtin(
        name="cast",
        family="fact",
        doc="`x` in a dtype, or in that of another value: `cast(sum(image), image)`. Fractions are cut off by integers. Of a list parameter it is a constant that meets the last dimension.",
        params=(Param("x"), Param("dtype", "dtype_of")),
        infer=_infer_cast,
        interval=_cast_interval,
        torch=_show_cast,
        reference=_cast_reference,
        layout=lambda args: args,
    ),
    _asks("is_int", "Whether the dtype of `x` is an integer's; bool is none."),
    _asks("is_float", "Whether the dtype of `x` is a float's."),
    _bound("low", "The lower bound of `x`, element by element; its pattern is `in bounded`."),
    _bound("high", "The upper bound of `x`, element by element; its pattern is `in bounded`."),
    Builtin(
        name="classes",
        family="fact",
        doc="The class of each choice of a `multi_onehot` value, along its last axis.",
        params=(Param("x"),),
        infer=_infer_classes,
        interval=_classes_interval,
        torch=_show_classes,
        reference=_classes_reference,
    ),
    Builtin(
        name="given",
        family="fact",
        doc="Whether an optional parameter was given, or an optional role has a key.",
        params=(Param("p"),),
        infer=_infer_given,
        interval=lambda args, node: BOOLS,
        torch=_show_given,
        reference=lambda np, p: p is not None,
    ),
)
