"""Whether a class reads rewards and done flags as they are stored: what depends on no axis is the same either way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from specgen.check.transforms.entries import Role
from specgen.check.transforms.inverse import COUNTED
from specgen.check.transforms.model import AROUND_PHASES, CheckedTransform
from specgen.expr import Typed
from specgen.expr.sizes import Rest
from specgen.literals import literal
from specgen.plan.transforms.text import has_own_dims
from specgen.values import dataclass

_POINTWISE: Final = ("operator", "elementwise", "condition", "cast", "batch")
"""Families of built-ins that no axis matters to."""


@dataclass(frozen=True)
class ColumnsPlan:
    """What a class does with the trailing 1 of rewards, done flags and what is made of them.

    Attributes:
        maps: outputs of maps, each with the role whose group is its own, as the text of a class attribute.
        beside: outputs that no map makes, and roles that say so, each with the role whose dimensions it has, as the text
            of a class attribute.
        logical: whether entries are read without it.
        shapes: the dimensions of roles that can't have any, as the text of a class attribute.
        inverse_shapes: those of inverse roles.
    """

    maps: str
    beside: str
    logical: bool
    shapes: str
    inverse_shapes: str


def plan_columns(transform: CheckedTransform) -> ColumnsPlan:
    """What the class of a transform does with trailing 1s."""
    beside, logical = dict(_beside(transform)), _reads_logical(transform)
    shapes = {role.name: ", ".join(map(str, role.dims)) for role in transform.forward if not _free(role)}
    inverse = {role.name: ", ".join(map(str, role.dims)) for role in transform.backward if _sized(role)}
    maps = {
        output.name: output.each
        for output in transform.written(inverse=False)
        if output.name in transform.mapped and output.each is not None and not output.reward
    }
    return ColumnsPlan(
        literal(maps) if maps else "",
        literal(beside) if beside else "",
        logical,
        literal(shapes) if logical and shapes else "",
        literal(inverse) if inverse else "",
    )


def _reads_logical(transform: CheckedTransform) -> bool:
    """Whether rewards and done flags are read without their trailing 1."""
    if transform.recursion is not None:
        return _sizes_moments(transform)
    if transform.python is not None:
        return True  # a class is given, and gives, rows
    statements = [
        one
        for phase in ("reset", "step", "map", "update", "buffer_types")
        for one in getattr(transform, phase)
    ]
    statements += [one for phase in AROUND_PHASES if phase != "action" for one in transform.phase(phase)]
    if not statements:
        return False
    read = {name.removeprefix("next.").removeprefix("acc.") for one in statements for name in one.reads}
    roles = [role for role in transform.forward if transform.around is None or role.name in read]
    if transform.around is not None and not roles:
        return False
    return not _of_one_shape(transform, roles) or any(
        counts_axes(node) for one in statements for node in one.typed.nodes
    )


def _sizes_moments(transform: CheckedTransform) -> bool:
    """Whether a pattern of a recursion says dimensions; otherwise all entries are alike as they are recorded."""
    assert transform.recursion is not None
    if transform.python is not None:
        return True  # a class is given, and gives, rows
    statements = (*transform.recursion.step, *transform.recursion.open)
    read = {name.removeprefix("next.") for one in statements for name in one.reads}
    outputs = any(has_own_dims(output) for output in transform.written(inverse=False))
    return outputs or any(role.name in read and not _free(role) for role in transform.forward)


def _of_one_shape(transform: CheckedTransform, roles: Iterable[Role]) -> bool:
    """Whether all that is read, of `roles`, and written has the dimensions of one role, whatever these are."""
    driver = transform.driver(inverse=False)
    if driver is None:
        return False
    read = [
        role is driver or (role.form == "key" and role.beside == role.shaped_as == driver.name)
        for role in roles
    ]
    of_rewards = driver.default == ("env.reward",)  # a reward of theirs is stored as they are
    written = [
        output.each == driver.name and (of_rewards or not output.reward) and not has_own_dims(output)
        for output in transform.written(inverse=False)
        if output.name not in transform.stacked
    ]
    return all(read) and all(written) and _free(driver)


def _free(role: Role) -> bool:
    return len(role.dims) == 1 and isinstance(role.dims[0], Rest)


def _sized(role: Role) -> bool:
    """Whether a pattern says dimensions; those of choices are checked with their classes."""
    return role.spec.kind not in COUNTED and not _free(role)


def counts_axes(node: Typed) -> bool:
    """Whether an axis matters to a part of an expression."""
    builtin = node.builtin
    if builtin is None:
        return node.op == "call"
    if builtin.family == "constant":
        return not builtin.name.endswith("_like")
    if builtin.name in ("max", "min") and len(node.args) > 1:
        return False
    if builtin.family == "fact":
        return builtin.name in ("size", "dims")
    return builtin.family not in _POINTWISE


def _beside(transform: CheckedTransform) -> Iterator[tuple[str, str]]:
    """Outputs that no map makes, and roles beside others, with the role whose dimensions each has; folded roles."""
    if transform.recursion is not None and not _sizes_moments(transform):
        return
    for output in transform.written(inverse=False):
        mapped = output.name in transform.mapped and not output.reward
        if output.name in transform.stacked:
            continue
        if output.each is not None and not output.flag and not mapped and not has_own_dims(output):
            yield output.name, output.each
    for role in transform.folded:
        yield role.name, role.name
    for role in transform.forward:
        if role.beside is not None and role.shaped_as is not None and _reads_logical(transform):
            yield role.name, role.shaped_as
