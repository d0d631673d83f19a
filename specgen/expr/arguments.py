"""The arguments of a call, brought to the parameters of what is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from specgen.diagnostics import Rule, suggestion
from specgen.diagnostics.rules import expressions as rules
from specgen.expr import tree
from specgen.expr.builtins.axes import either_end, from_end
from specgen.expr.builtins.record import REQUIRED, Builtin, Param
from specgen.expr.builtins.site import Site
from specgen.expr.dtypes import CONCRETE
from specgen.expr.interval import point
from specgen.expr.sizes import AXES, Dims, NamedAxis, limits
from specgen.expr.tree import Expr
from specgen.expr.types import Function, Type, Typed


class Visitor(Protocol):
    """The inference around the call."""

    float_dtype: str
    prove: bool
    for_any_key: bool
    functions: Mapping[str, Function | Builtin]

    def visit(self, expr: Expr) -> Typed | None:
        """The typed node of an argument."""
        ...

    def error(self, rule: Rule, start: int, end: int, message: str, help: str | None = None) -> None:
        """Report a mistake."""
        ...

    def written(self, node: Typed) -> str:
        """The source text of a node."""
        ...

    def next_draw(self) -> str:
        """The name of the next draw."""
        ...

    def members(self, expr: tree.Spread) -> list[Expr] | None:
        """What `*xs` stands for."""
        ...


class _Missing(Exception):  # noqa: N818 - control flow: the mistake is already reported
    """An argument has no value."""


def bind(visitor: Visitor, builtin: Builtin, call: tree.Call) -> Site | None:
    """The call with its operands inferred and its settings known, or None after reporting."""
    function: Function | None = None
    given = _assigned(visitor, builtin, call)
    values: list[Typed] = []
    settings: list[tuple[Param, Expr | None]] = []
    sound = given is not None
    for param, exprs in (given or {}).items():
        if param.kind != "value":
            settings.append((param, exprs[0] if exprs else None))
            continue
        for expr in exprs:
            value = visitor.visit(expr)
            sound &= value is not None
            if value is not None:
                values.append(value)
    options: dict[str, object] = {}
    for param, setting in settings:
        if param.kind == "function":
            function = _function(visitor, setting)
            sound &= function is not None
            continue
        try:
            options[param.name] = _option(visitor, param, setting, values if sound else [])
        except _Missing:
            sound = False
    if not sound:
        return None
    return Site(builtin, visitor, tuple(values), options, function, call.start, call.end)


def _assigned(visitor: Visitor, builtin: Builtin, call: tree.Call) -> dict[Param, list[Expr]] | None:
    name, shown = builtin.name, builtin.signature
    found: dict[Param, list[Expr]] = {param: [] for param in builtin.params}
    sound = True
    places = iter(builtin.params)
    here = next(places, None)
    args = spread_args(visitor, call, name, here)
    if args is None:
        return None
    for arg in args:
        if here is None:
            message = f"too many arguments for `{name}`"
            visitor.error(rules.WRONG_ARGUMENTS, arg.start, arg.end, message, f"it is {shown}")
            return None
        found[here].append(arg)
        here = here if here.variadic else next(places, None)
    names = {param.name: param for param in builtin.params if not param.variadic}
    for keyword in call.keywords:
        param = names.get(keyword.name)
        if param is None or found[param]:
            what = "is given twice" if param is not None else "is no argument"
            help = suggestion(keyword.name, names) if param is None else None
            message = f"`{keyword.name}` {what} of `{name}`" if param is None else f"`{keyword.name}` {what}"
            end = keyword.start + len(keyword.name)
            visitor.error(rules.WRONG_ARGUMENTS, keyword.start, end, message, help or f"it is {shown}")
            sound = False
        else:
            found[param].append(keyword.value)
    lacking = [p.name for p, exprs in found.items() if not exprs and p.default is REQUIRED]
    if lacking and sound:
        message = f"`{name}` needs `{lacking[0]}`"
        visitor.error(rules.WRONG_ARGUMENTS, call.start, call.end, message, f"it is {shown}")
        sound = False
    return found if sound else None


_SPREAD: Final = ("concat", "stack", "min", "max", "sum")
"""The functions that take `*xs`."""


def spread_args(visitor: Visitor, call: tree.Call, name: str, first: Param | None) -> list[Expr] | None:
    """The arguments of the call of `name` with the values that `*xs` stands for; None after reporting."""
    found: list[Expr] = []
    for arg in call.args:
        if not isinstance(arg, tree.Spread):
            found.append(arg)
            continue
        if name not in _SPREAD or first is None:
            message = f"`{name}` does not take several values"
            visitor.error(rules.WRONG_ARGUMENTS, arg.start, arg.end, message, f"{', '.join(_SPREAD)} do")
            return None
        members = visitor.members(arg)
        if members is None:
            return None
        if name == "concat":  # of single numbers as vectors of one
            members = [
                tree.Index(one, (tree.Axis(one.start, one.end),), one.start, one.end)
                if isinstance(one, tree.Name) and (typed := visitor.visit(one)) and typed.type.dims == ()
                else one
                for one in members
            ]
        found += members
    if len(found) == len(call.args) == 1 and (one := found[0]) is not call.args[0]:
        # A single value of several is itself, and not what is taken along its axes.
        if name in ("min", "max"):
            found.append(one)
        elif name == "sum":
            found.append(tree.Literal(0, "0", one.start, one.end))
    return found


def _function(visitor: Visitor, expr: Expr | None) -> Function | None:
    if isinstance(expr, tree.Name):
        function = visitor.functions.get(expr.path)
        if isinstance(function, Function):
            return function
        message = f"`{expr.path}` is not a function that the declaration defines"
        visitor.error(
            rules.UNKNOWN_FUNCTION, expr.start, expr.end, message, suggestion(expr.path, visitor.functions)
        )
    elif expr is not None:
        message = "a function is passed by its name"
        visitor.error(rules.WRONG_ARGUMENTS, expr.start, expr.end, message)
    return None


def _option(visitor: Visitor, param: Param, expr: Expr | None, values: list[Typed]) -> object:
    if expr is None:
        default = param.default
        if param.kind in ("axis", "new_axis") and isinstance(default, int) and values:
            return _axis_default(visitor, default, param, values)
        return default
    match param.kind:
        case "dtype":
            return _dtype(visitor, expr)
        case "dtype_of":
            named = isinstance(expr, tree.Name) and expr.path in CONCRETE
            return _dtype(visitor, expr) if named else _visited(visitor, expr)
        case "like":
            return _visited(visitor, expr)
        case "sizes" if not isinstance(expr, tree.Tuple):
            return _sizes(visitor, expr, param)
        case "shape" | "new_shape" | "sizes":
            return _shape(visitor, expr, open=param.kind == "new_shape")
        case "int":
            return _integer(visitor, expr, param)
        case "flag":
            return _flag(visitor, expr, param)
        case "word":
            return _word(visitor, expr, param)
        case "axes" | "order":
            return _axes(visitor, expr, param, values)
        case _:
            return _axis(visitor, expr, param, values)


def _dtype(visitor: Visitor, expr: Expr) -> str:
    if isinstance(expr, tree.Name) and expr.path in CONCRETE:
        return expr.path
    name = expr.path if isinstance(expr, tree.Name) else ""
    help = suggestion(name, CONCRETE) or f"one of {', '.join(CONCRETE)}"
    visitor.error(rules.WRONG_ARGUMENTS, expr.start, expr.end, "not a dtype", help)
    raise _Missing


def _shape(visitor: Visitor, expr: Expr, *, open: bool) -> tuple[int | Typed, ...]:
    items = expr.items if isinstance(expr, tree.Tuple) else (expr,)
    dims: list[int | Typed] = []
    for item in items:
        size = visitor.visit(item)
        if size is None:
            raise _Missing
        if open and size.static == -1 and -1 not in dims:
            dims.append(-1)
            continue
        known = size.interval.known_size if size.type.python and size.type.dtype == "int64" else None
        if known is None or limits(known)[0] < 1:
            message = (
                f"`{visitor.written(size)}` is no positive whole number known at build, as a dimension is"
            )
            visitor.error(rules.WRONG_ARGUMENTS, size.start, size.end, message)
            raise _Missing
        dims.append(known if isinstance(known, int) else size)
    return tuple(dims)


def _integer(visitor: Visitor, expr: Expr, param: Param) -> Typed:
    if isinstance(expr, tree.Tuple):
        message = f"`{param.name}` is one whole number, and here are {len(expr.items)}"
        help = "write one call for each axis, `tile(x, n, axis=0)`" if param.name == "count" else None
        visitor.error(rules.WRONG_ARGUMENTS, expr.start, expr.end, message, help)
        raise _Missing
    return _whole_number(visitor, _visited(visitor, expr), param)


def _whole_number(visitor: Visitor, value: Typed, param: Param) -> Typed:
    if not value.type.python or value.type.dtype != "int64":
        message = f"`{param.name}` is a whole number; `{visitor.written(value)}` is {value.type}"
        if not value.type.python:
            message += " computed at run time"
        visitor.error(rules.WRONG_ARGUMENTS, value.start, value.end, message)
        raise _Missing
    return value


def _axis_default(visitor: Visitor, default: int, param: Param, values: list[Typed]) -> int | Typed:
    rank = _rank(values, param)
    if rank is None:
        literal: Expr = tree.Literal(abs(default), str(abs(default)), 0, 0)
        typed = visitor.visit(literal if default >= 0 else tree.Unary("-", literal, 0, 0))
        assert typed is not None
        return _open_axis(visitor, typed, param, next(one.type.dims for one in values if one.type.open))
    return default + rank if default < 0 else default


def _rank(values: list[Typed], param: Param) -> int | None:
    """How many axes there are to choose from; None when it is not known."""
    if any(value.type.open for value in values):
        return None
    return max((value.type.rank for value in values), default=0) + (param.kind == "new_axis")


def _open_axis(visitor: Visitor, value: Typed, param: Param, dims: Dims) -> Typed:
    """An axis among dimensions that nobody knows, counted from the end."""
    if value.interval.high < 0:
        return value
    counted = (1, *dims) if param.kind == "new_axis" else dims
    axis = value.static
    found = from_end(counted, axis) if isinstance(axis, int) else either_end(counted, value)
    if found is None:
        message = "an axis of an array of unknown rank counts from the end: at most -1"
        visitor.error(rules.WRONG_ARGUMENTS, value.start, value.end, message)
        raise _Missing
    return found


def _sizes(visitor: Visitor, expr: Expr, param: Param) -> object:
    """A list of sizes: a parameter, or what `dims` gives."""
    value = _visited(visitor, expr)
    if value.type.dtype != "list":
        message = f"`{param.name}` are sizes, such as (2, 3) or dims(x, -2, -1)"
        visitor.error(rules.WRONG_ARGUMENTS, value.start, value.end, message)
        raise _Missing
    items = value.options.get("items")
    return tuple(map(int, items)) if isinstance(items, tuple) else value


def _visited(visitor: Visitor, expr: Expr) -> Typed:
    value = visitor.visit(expr)
    if value is None:
        raise _Missing
    return value


def _flag(visitor: Visitor, expr: Expr, param: Param) -> bool:
    value = _visited(visitor, expr)
    if not isinstance(value.static, bool):
        message = f"`{param.name}` is true or false, known at build"
        visitor.error(rules.WRONG_ARGUMENTS, value.start, value.end, message)
        raise _Missing
    return value.static


def _word(visitor: Visitor, expr: Expr, param: Param) -> str | Typed:
    """One of the words of a parameter; or an enum parameter, where its value is not known at build."""
    if isinstance(expr, tree.Name) and expr.path in param.words:
        return expr.path
    value = _visited(visitor, expr)
    if value.static in param.words:
        return str(value.static)
    choices = value.options.get("choices", ())
    fitting = isinstance(choices, tuple) and set(choices) <= set(param.words)
    if value.type.dtype != "str" or value.static is not None or not fitting:
        message = f"`{visitor.written(value)}` is none of {', '.join(param.words)}"
        visitor.error(rules.WRONG_ARGUMENTS, value.start, value.end, message)
        raise _Missing
    return value


def _axes(visitor: Visitor, expr: Expr, param: Param, values: list[Typed]) -> object:
    """Several axes, each once, or in the order in which they are written; a list that is no constant is kept."""
    if isinstance(expr, tree.Name):
        if expr.path in AXES:
            return _named_axis(visitor, expr, values)
        near = suggestion(expr.path, [axis.name for value in values for axis in value.type.axes])
        if near is not None:
            visitor.error(rules.UNDEFINED, expr.start, expr.end, f"there is no axis `{expr.path}`", near)
            raise _Missing
    if isinstance(expr, tree.Tuple):
        found = [
            _named_axis(visitor, item, values)
            if isinstance(item, tree.Name) and item.path in AXES and param.kind == "axes"
            else _axis(visitor, item, param, values)
            for item in expr.items
        ]
    else:
        given = _visited(visitor, expr)
        items = given.options.get("items")
        if given.type.dtype == "list" and not isinstance(items, tuple):
            return given
        if isinstance(items, tuple):
            found = [_placed(visitor, _whole(given, axis), param, values) for axis in items]
        else:
            found = [_placed(visitor, _whole_number(visitor, given, param), param, values)]
    if param.kind != "axes" or not all(isinstance(axis, int) for axis in found):
        return tuple(found)
    named = sorted({axis for axis in found if isinstance(axis, NamedAxis)})
    places = sorted({axis for axis in found if isinstance(axis, int) and not isinstance(axis, NamedAxis)})
    return named[0] if len(named) == 1 and not places else (*named, *places)


def _named_axis(visitor: Visitor, expr: tree.Name, values: list[Typed]) -> NamedAxis:
    if not values:
        raise _Missing
    names = [axis.name for axis in values[0].type.axes]
    if len(values) > 1 or expr.path not in names:
        message = f"`{visitor.written(values[0])}` is {values[0].type}: it has no axis `{expr.path}`"
        visitor.error(rules.SHAPE_MISMATCH, expr.start, expr.end, message)
        raise _Missing
    return NamedAxis(names.index(expr.path))


def _whole(given: Typed, value: float) -> Typed:
    """A number of a list that is known at build."""
    whole = int(value)
    return Typed(
        "literal", Type("int64", (), "lit"), point(whole), start=given.start, end=given.end, static=whole
    )


def _axis(visitor: Visitor, expr: Expr, param: Param, values: list[Typed]) -> int | Typed:
    return _placed(visitor, _integer(visitor, expr, param), param, values)


def _placed(visitor: Visitor, value: Typed, param: Param, values: list[Typed]) -> int | Typed:
    """The axis that a number is: its place where it is known, else counted from the end."""
    if not values:
        raise _Missing
    rank = _rank(values, param)
    if rank is None:
        return _open_axis(visitor, value, param, next(one.type.dims for one in values if one.type.open))
    axis = value.static
    if not isinstance(axis, int):
        message = f"the axis `{visitor.written(value)}` must be known at build"
        visitor.error(rules.WRONG_ARGUMENTS, value.start, value.end, message)
        raise _Missing
    if not -rank <= axis < rank:
        has = f"{rank} dimension{'s' if rank != 1 else ''}"
        message = f"axis {axis} of an array with {has}"
        visitor.error(rules.WRONG_ARGUMENTS, value.start, value.end, message)
        raise _Missing
    return axis % rank
