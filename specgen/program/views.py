"""Parts of values: what is computed element by element is computed of those that are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final

from specgen.expr import Symbol, Type, Typed
from specgen.expr.sizes import Dims
from specgen.program.program import Assign, Program
from specgen.program.verify import verified
from specgen.program.walk import expressions, rebuilt, unstored, with_body, with_parts
from specgen.values import replace

_OF_EACH: Final = frozenset({"*", "+", "-", "/", "cast", "neg"})


@verified()
def parts_first(program: Program) -> Program:
    """`narrow(x / 255)` is `narrow(x) / 255`, where nothing reads the whole, and its parts are no more than it.

    Channels of an image are then converted and scaled one by one, in memory that the processor has at hand.
    """
    body = list(program.body)
    if not all(isinstance(statement, Assign) for statement in body):
        return program
    given = {output.symbol for output in program.outputs}
    for statement in reversed(program.body):
        assert isinstance(statement, Assign)
        made = _made(statement.value)
        if made is None or statement.target in given:
            continue
        others = [one for one in body if one is not statement]
        if _read_in_parts(statement.target, others):
            body = [_taken_before(one, statement.target, made) for one in others]
    return with_body(program, body) if len(body) < len(program.body) else program


def _made(value: Typed) -> Typed | None:
    """What a part of is computed of a part: of one array, element by element or in another order; None of all else."""
    value = unstored(value)
    if value.type.open or value.type.col or not all(isinstance(size, int) for size in value.type.sizes):
        return None
    arrays = [arg for arg in value.args if not arg.type.python]
    if len(arrays) != 1 or value.items:
        return None
    if value.op == "permute":
        return value
    return value if value.op in _OF_EACH and _alike(arrays[0].type, value.type) else None


def _alike(one: Type, other: Type) -> bool:
    return (one.dims, one.col, one.level, one.axes) == (other.dims, other.col, other.level, other.axes)


def _read_in_parts(symbol: Symbol, body: Sequence[object]) -> bool:
    """Whether everything that reads a value takes a part of it along one axis, and no more of it in all than there is."""
    whole, parts, taken = 0, 0, 0
    for statement in body:
        assert isinstance(statement, Assign)
        for expr in expressions(statement):
            for node in expr.nodes:
                whole += node.op == "name" and node.symbol is symbol
                if _is_part(node, symbol):
                    parts += 1
                    taken += prod(node.type.shape)
    return whole == parts > 0 and taken <= prod(symbol.type.shape)


def _is_part(node: Typed, symbol: Symbol) -> bool:
    return (
        node.op == "narrow"
        and isinstance(node.options["axis"], int)
        and node.args[0].op == "name"
        and node.args[0].symbol is symbol
        and all(isinstance(size, int) for size in node.type.sizes)
    )


def _taken_before(statement: object, symbol: Symbol, made: Typed) -> Assign:
    """A statement that takes parts of what a value is made of."""
    assert isinstance(statement, Assign)

    def change(expr: Typed) -> Typed:
        if _is_part(expr, symbol):
            return _part(expr, made)
        changed = with_parts(expr, change)
        return changed if changed is expr else _in_order_first(changed)

    value = change(statement.value)
    return statement if value is statement.value else replace(statement, value=value)


def _part(narrow: Typed, made: Typed) -> Typed:
    """The part of what `made` is, computed of a part of its operand."""
    axis = narrow.options["axis"]
    assert isinstance(axis, int)
    place = axis
    if made.op == "permute":
        axes = made.options["axes"]
        assert isinstance(axes, tuple)
        place = axes[axis]
    size = narrow.type.dims[axis]

    def cut(arg: Typed) -> Typed:
        dims = (*arg.type.dims[:place], size, *arg.type.dims[place + 1 :])
        options = {**narrow.options, "axis": place}
        kind = replace(arg.type, dims=dims)
        return replace(rebuilt(narrow, (arg,), (), kind, options), interval=arg.interval)

    return _of_operands(made, cut, narrow.type.dims)


def _of_operands(made: Typed, change: Callable[[Typed], Typed], dims: Dims) -> Typed:
    """What is computed of changed operands, and has these dimensions; numbers of Python stay."""
    args = tuple([arg if arg.type.python else change(arg) for arg in made.args])
    return rebuilt(made, args, (), replace(made.type, dims=dims), made.options)


def _in_order_first(expr: Typed) -> Typed:
    """The order of axes is changed before anything is computed of the elements."""
    if expr.op != "permute" or expr.args[0].op not in _OF_EACH:
        return expr
    made, dims = expr.args[0], expr.type.dims

    def ordered(arg: Typed) -> Typed:
        one = rebuilt(expr, (arg,), (), replace(arg.type, dims=dims), expr.options)
        return _in_order_first(replace(one, interval=arg.interval))

    return _of_operands(made, ordered, dims)
