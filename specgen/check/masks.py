"""Masks: which observation says what of a discrete action is allowed."""

from __future__ import annotations

from collections.abc import Iterable

from specgen.check.groups import Groups
from specgen.check.model import Entry
from specgen.diagnostics import Sink, as_question, suggestion
from specgen.diagnostics.rules import devices as done_rules
from specgen.diagnostics.rules import schema as rules
from specgen.expr import SpecType
from specgen.expr.sizes import Dims
from specgen.schema.env import Env
from specgen.schema.load import SchemaFile

_DISCRETE = ("categorical", "onehot", "multi_categorical", "multi_onehot")


def check_masks(
    file: SchemaFile,
    path: tuple[str, ...],
    env: Env,
    observation: Iterable[Entry],
    action: Iterable[Entry],
    groups: Groups,
    sink: Sink,
) -> None:
    """Check the `masks:` of the declaration at `path`: their keys, and a truth value for each class."""
    masks = {entry.dotted: entry for entry in observation}
    actions = {entry.dotted: entry for entry in action}
    for target, mask in env.masks.items():
        here = (*path, "masks", target)
        if target not in actions:
            sink.add(
                rules.UNKNOWN_DECLARATION.at(
                    file.key_span(*here), f"no action `{target}`", help=_suggested(target, actions)
                )
            )
            continue
        if mask not in masks:
            sink.add(
                rules.UNKNOWN_DECLARATION.at(
                    file.span(*here), f"no observation `{mask}`", help=_suggested(mask, masks)
                )
            )
            continue
        spec = actions[target].spec
        wanted = mask_dims(spec)
        fault = mask_fault(actions[target], masks[mask])
        if wanted is None:
            help = "declare it as categorical, onehot, multi_categorical or multi_onehot"
            sink.add(done_rules.MASK_SHAPE.at(file.key_span(*here), str(fault), help=help))
        elif fault is not None:
            group = groups.around(mask)
            both = group is not None and group is groups.around(target)
            sink.add(
                done_rules.MASK_SHAPE.at(
                    file.span(*here),
                    fault,
                    help=f"for one agent, as it is declared under `{group.name}`: bool{list(wanted[1:])}"
                    if both and group is not None
                    else None,
                )
            )


def mask_dims(action: SpecType) -> Dims | None:
    """The dimensions of a mask of an action: a truth value for each class; None for what is no choice among classes."""
    if action.kind not in _DISCRETE:
        return None
    return (*action.sizes, action.classes or sum(action.counts))


def mask_fault(action: Entry, mask: Entry) -> str | None:
    """Why one entry is no mask of another; None where it is."""
    wanted = mask_dims(action.spec)
    if wanted is None:
        return f"action `{action.dotted}` is {action.spec}: only choices among classes have a mask"
    found = mask.type
    if found.dtype == "bool" and found.dims == wanted:
        return None
    return f"mask `{mask.dotted}` is {found}, action `{action.dotted}` needs bool{list(wanted)}"


def _suggested(name: str, keys: Iterable[str]) -> str | None:
    """The key that may be meant: one that is called so in a group, or nearly so."""
    known = tuple(keys)
    nested = next((one for one in known if one.rpartition(".")[2] == name), None)
    return suggestion(name, known) if nested is None else as_question(nested)
