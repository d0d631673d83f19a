"""The masks of a chain: which observation says what of an action is allowed, as far as the policy writes that action."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from specgen.check.chains.args import Arguments
from specgen.check.chains.keys import KeyFinder
from specgen.check.chains.model import Row
from specgen.check.chains.position import Position
from specgen.check.masks import mask_dims, mask_fault
from specgen.check.model import Entry
from specgen.check.transforms.model import CheckedTransform
from specgen.diagnostics import Sink, Span
from specgen.diagnostics.rules import devices as done_rules
from specgen.diagnostics.rules import env_lints as lint_rules
from specgen.diagnostics.rules import flow as flow_rules


def own_masks(
    transform: CheckedTransform,
    rows: Sequence[Row],
    inverse_rows: Sequence[Row],
    arguments: Arguments,
    keys: KeyFinder,
    sink: Sink,
) -> dict[str, str]:
    """The actions that a transform has a mask for, each with the key of that.

    Args:
        transform: the transform.
        rows: its repetitions.
        inverse_rows: those of its inverse.
        arguments: what the chain gives it.
        keys: finds the keys that roles stand for.
        sink: takes the mistakes.
    """
    found: dict[str, str] = {}
    for name, role in transform.masks.items():
        actions = [row.outputs[name] for row in inverse_rows if name in row.outputs]
        if any(passed.name == name for passed in transform.passed):
            actions = _passed(transform, name, arguments, keys)
        if not actions or not rows:
            continue  # what is missing is reported with the keys, or it does not exist
        masks = [keys.state.entries.get(row.inputs[role].dotted, row.inputs[role]) for row in rows]
        masks = masks * len(actions) if transform.role(role).form == "key" else masks
        if len(masks) != len(actions):
            message = (
                f"`{transform.name}` reads {len(masks)} masks of {len(actions)} actions, which go together"
            )
            sink.add(flow_rules.PAIRED_KEYS.at(arguments.span(), message))
            continue
        for action, mask in zip(actions, masks, strict=True):
            if (fault := mask_fault(action, mask)) is not None:
                help = (
                    "leave it out: what is no choice is drawn without a mask"
                    if mask_dims(action.spec) is None
                    else None
                )
                sink.add(
                    done_rules.MASK_SHAPE.at(arguments.span(), f"`{transform.name}`: {fault}", help=help)
                )
            else:
                found[action.dotted] = mask.dotted
    return found


def _passed(transform: CheckedTransform, name: str, arguments: Arguments, keys: KeyFinder) -> list[Entry]:
    """The actions that a role stands for which go to the environment as they are."""
    role, actions = transform.role(name), keys.state.actions
    if role.form == "each":
        chosen = arguments.lists.get("in_keys_inv")
        return keys.inputs(transform, role, chosen, "in_keys_inv", arguments, actions)
    keyword = role.keyword or ""
    given = keyword in arguments.places
    key = arguments.places.get(keyword, tuple(role.default[0].split(".")))
    return keys.inputs(transform, role, [key], keyword if given else None, arguments, actions)


def end_masks(
    transform: CheckedTransform,
    rows: Sequence[Row],
    inverse_rows: Sequence[Row],
    dropped: Collection[str],
    masks: Collection[str],
    state: Position,
    span: Span,
    sink: Sink,
) -> None:
    """Forget the masks of actions that a transform changes, and those that it drops or gives another shape; it is warned of.

    What has another key behind it, and is the same, is followed.

    Args:
        transform: the transform.
        rows: its repetitions.
        inverse_rows: the repetitions of its inverse.
        dropped: the keys that it drops.
        masks: the actions that it has masks for itself.
        state: the keys behind it, and the masks in front of it.
        span: where it stands.
        sink: takes the warnings.
    """
    changed = {entry.dotted for row in inverse_rows for entry in row.inputs.values()}
    written = {entry.dotted for row in rows for entry in row.outputs.values()}
    moved = _moved(rows, transform.renamed.items())
    actions = _moved(inverse_rows, ((output, role) for role, output in transform.renamed_inverse.items()))
    kept: dict[str, str] = {}
    for action, mask in state.masks.items():
        outer = actions.get(action, action)
        shown = moved.get(mask, mask) if mask in dropped or mask in written else mask
        if action in changed and action not in actions:
            message = (
                f"`{transform.name}` changes `{action}`: random actions keep to its mask `{mask}` no longer"
            )
            help = "put a transform with `masks` behind it"
        elif shown in dropped:
            message = f"`{transform.name}` drops `{mask}`, the mask of `{action}`: random actions keep to it no longer"
            help = f"keep `{mask}`"
        elif mask_fault(state.actions[outer], state.entries[shown]) is not None:
            entry = state.entries[shown]
            message = f"`{transform.name}` makes `{mask}`, the mask of `{action}`, {entry.type}: random actions keep to it no longer"
            help = "give what it makes another key"
        else:
            kept[outer] = shown
            continue
        if action not in masks:
            sink.add(lint_rules.MASK_LOST.at(span, message, help=help))
    state.masks = kept


def _moved(rows: Iterable[Row], renamed: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The keys that some rows read and show under another key, each with that; `renamed` are outputs with their inputs."""
    pairs = list(renamed)
    return {
        row.inputs[read].dotted: row.outputs[made].dotted
        for row in rows
        for made, read in pairs
        if made in row.outputs and read in row.inputs
    }
