"""Axes that have names, in front of the batch: which a node has, and how its operands meet by them."""

from __future__ import annotations

from collections.abc import Sequence

from specgen.expr.sizes import Axis, NamedAxis, merged_axes
from specgen.expr.types import Type, Typed
from specgen.values import replace


def axes_of_node(own: Type, operands: Sequence[Typed]) -> tuple[Axis, ...]:
    """The named axes of a node, before it reduces any: its own and those of its operands."""
    return merged_axes(own.axes, *(arg.type.axes for arg in operands))


def axes_that_differ(one: Axis, other: Axis) -> str:
    """What is wrong where two axes of one name meet that are not equally long."""
    return f"axes `{one.name}` of different lengths meet here: {one.size} and {other.size}"


def left_of(axes: tuple[Axis, ...], operand: tuple[Axis, ...], reduced: object) -> tuple[Axis, ...]:
    """The named axes that are left when some of the first operand's are reduced."""
    given = reduced if isinstance(reduced, tuple) else (reduced,)
    gone = {operand[axis] for axis in given if isinstance(axis, NamedAxis)}
    return tuple(axis for axis in axes if axis not in gone)


def among(value: Typed, axes: tuple[Axis, ...]) -> Typed:
    """`value`, ready to meet values that have these named axes: with a new one where it lacks one behind its own.

    In front of its own axes tensors broadcast by themselves.
    """
    for place, axis in enumerate(axes):
        own = value.type.axes
        if not own or axis in own or place < axes.index(own[0]):
            continue
        behind = place - axes.index(own[0])
        kind = replace(value.type, axes=(*own[:behind], axis, *own[behind:]))
        value = Typed("among", kind, value.interval, (value,), {"place": behind}, value.start, value.end)
    return value
