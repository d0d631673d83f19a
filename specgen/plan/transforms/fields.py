"""What the base class has to know of the fields of a record of keys: which are written, recalled, carried, dropped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from specgen.check.conditions import Condition
from specgen.check.transforms.model import CheckedTransform
from specgen.plan.transforms.inverse import key_groups
from specgen.plan.transforms.text import KEY_LISTS

Groups = Iterable[tuple[str, list[str]]]
"""Class attributes, each with the fields that it names."""


def always_fields(transform: CheckedTransform, around: Groups) -> Iterator[tuple[str, bool, tuple[str, ...]]]:
    """The groups with the fields that always exist, and whether the constructor adds some.

    Args:
        transform: the transform.
        around: the groups that `around` needs.
    """
    for attribute, names in _groups(transform, around):
        always = tuple(name for name in names if _when(transform, attribute, name) is None)
        if always:
            yield attribute, len(always) < len(names), always
    outputs = transform.written(inverse=False)
    optional = tuple(output.name for output in outputs if output.when is not None and output.declared)
    if optional:
        yield "_optional", False, optional


def conditional_fields(
    transform: CheckedTransform, around: Groups
) -> Iterator[tuple[str, tuple[tuple[str, tuple[str, ...]], ...]]]:
    """The fields that exist under a condition, by it; `around` as for `always_fields`."""
    groups = list(_groups(transform, around))
    whens = dict.fromkeys(
        when
        for attribute, names in groups
        for name in names
        if (when := _when(transform, attribute, name)) is not None
    )
    for when in whens:
        added = [
            (attribute, tuple(name for name in names if _when(transform, attribute, name) == when))
            for attribute, names in groups
        ]
        yield when.python, tuple((attribute, names) for attribute, names in added if names)


def _groups(transform: CheckedTransform, around: Groups) -> Iterator[tuple[str, list[str]]]:
    outputs = [output for output in transform.outputs if not output.inverse]
    named = {output.name for output in transform.outputs}
    roles = {role.name for role in transform.roles if not role.acted}
    folded = [role.name for role in transform.folded]
    yield "_writes", [*folded, *(output.name for output in outputs if not output.hidden)]
    yield "_recalls", [name for name in transform.recalls if name in named]
    yield "_recalls_inputs", [name for name in transform.recalls if name in roles]
    yield "_acted", [role.name for role in transform.roles if role.acted]
    yield "_carries", [output.name for output in outputs if output.carry]
    yield "_flags", [output.name for output in outputs if output.flag]
    yield "_rewards", [output.name for output in outputs if output.reward]
    yield "_policy", [output.name for output in outputs if output.policy]
    yield "_drops", [drop.role for drop in transform.drops]
    yield "_drops_inverse", [drop.role for drop in transform.drops_inverse]
    yield from key_groups(transform)
    yield from around


def _when(transform: CheckedTransform, attribute: str, name: str) -> Condition | None:
    if attribute in ("_drops", "_drops_inverse"):
        drops = transform.drops if attribute == "_drops" else transform.drops_inverse
        return next(drop.when for drop in drops if drop.role == name)
    when = next((output.when for output in transform.outputs if output.name == name), None)
    # What is missing for want of a key has none in the record.
    return None if when is None else when.at_construction


def chosen_names(transform: CheckedTransform) -> Iterator[tuple[str, str]]:
    """The outputs of each key whose name a keyword says: `step_count_key` gives the property `step_count_keys`."""
    taken = {*transform.signature, *KEY_LISTS, "carry_keys", "dropped_keys"}
    for output in transform.outputs:
        name = f"{output.keyword}s"
        if output.each is not None and not output.inverse and name.endswith("_keys") and name not in taken:
            yield name, output.name
