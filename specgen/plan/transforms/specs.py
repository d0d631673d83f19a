"""The specs of what a transform writes, where its declaration says them."""

from __future__ import annotations

from collections.abc import Callable

from specgen.check.transforms.entries import Output, by_condition
from specgen.check.transforms.model import CheckedTransform
from specgen.plan.model import CallPlan
from specgen.plan.transforms.model import AddedSpecsPlan
from specgen.plan.transforms.text import (
    exists,
    keyless,
    shape_source,
    spec_like,
    variable,
    with_declared_specs,
)


def plan_added_specs(transform: CheckedTransform, size: Callable[[str], str]) -> AddedSpecsPlan | None:
    """The specs that the declaration says; those of maps that say no bounds follow from what they compute.

    Args:
        transform: the transform.
        size: the text of a size that has a name.
    """
    declared = [one for one in with_declared_specs(transform) if one.name not in transform.stacked]
    if not declared:
        return None
    missing = keyless(transform)
    roles = {role.name: role for role in transform.roles}
    followed = dict.fromkeys(shape_source(output) for output in declared)

    def spec(output: Output) -> CallPlan:
        source = shape_source(output)
        like = None if source is None else variable(source)
        like = f"self._spec(key.{source})" if source in missing else like
        return spec_like(output, like, roles.get(output.each or ""), size)

    return AddedSpecsPlan(
        tuple((variable(role), role) for role in followed if role is not None and role not in missing),
        tuple(
            (exists(condition, [o.name for o in outputs]), tuple((o.name, spec(o)) for o in outputs))
            for condition, outputs in by_condition(declared)
        ),
    )
