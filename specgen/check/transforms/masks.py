"""The masks of a transform: which of its roles says what of an action is allowed."""

from __future__ import annotations

from collections.abc import Iterable

from specgen.check.transforms.entries import Output, Role
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import devices as done_rules
from specgen.diagnostics.rules import schema as rules
from specgen.diagnostics.rules import transform_language as language_rules
from specgen.schema.load import SchemaFile
from specgen.schema.transform import Transform


def _apart(action: Role, mask: Role) -> tuple[str, str] | None:
    """Why the keys of an action and of its mask don't go together one to one, and what to write."""
    for role in (action, mask):
        if role.form not in ("key", "each"):
            return (
                f"`{role.name}` stands for several keys at once",
                f"write `key:` or `each:` for `{role.name}`",
            )
        if role.paired is not None:
            return (
                f"`{role.name}` goes along with `{role.paired}`",
                f"leave `with: {role.paired}` out: masks and actions go together by their places",
            )
    if action.form == "key" and mask.form == "each":
        return (
            f"`{mask.name}` stands for one key after another, and `{action.name}` for one",
            f"write `key:` for `{mask.name}`, or `each:` for `{action.name}`",
        )
    return None


def check_transform_masks(
    file: SchemaFile,
    path: tuple[str, ...],
    transform: Transform,
    roles: Iterable[Role],
    outputs: Iterable[Output],
    sink: Sink,
) -> dict[str, str]:
    """Check the `masks:` of the transform at `path`: actions as the policy writes them, each with a role of one key."""
    by_name = {role.name: role for role in roles}
    forward = [name for name, role in by_name.items() if not role.inverse]
    written = {one.name: by_name[one.each] for one in outputs if one.inverse and one.each in by_name}
    replaced = {role.name: name for name, role in written.items()}
    chosen = {role.name: role for role in by_name.values() if role.inverse and role.name not in replaced}
    actions = {**chosen, **written}
    found: dict[str, str] = {}
    for target, mask in transform.masks.items():
        here = (*path, "masks", target)
        if target in replaced or target in transform.inverse:
            other = replaced.get(target)
            message = f"`inverse` computes `{target}`: the policy writes " + (
                f"`{other}`" if other else "another"
            )
            help = (
                f"write `{other}: {mask}`" if other else f"declare under `out` what it writes for `{target}`"
            )
            sink.add(language_rules.MASK_ENDS.at(file.key_span(*here), message, help=help))
        elif target not in actions:
            help = suggestion(target, actions) or "name an inverse role, or the output in its place"
            message = f"no action `{target}` that could have a mask"
            sink.add(rules.UNKNOWN_DECLARATION.at(file.key_span(*here), message, help=help))
        elif mask not in forward:
            help = suggestion(mask, forward) or "name a role of what the environment returns"
            sink.add(rules.UNKNOWN_DECLARATION.at(file.span(*here), f"no role `{mask}`", help=help))
        elif by_name[mask].pattern != "bool":
            message = f"mask `{mask}` is {by_name[mask].spec}, and a mask is bool"
            sink.add(done_rules.MASK_SHAPE.at(file.span(*here), message, help='write `type: "bool[...]"`'))
        elif (fault := _apart(actions[target], by_name[mask])) is not None:
            message, help = fault
            sink.add(language_rules.MASKS_OF_SEVERAL.at(file.key_span(*here), message, help=help))
        else:
            found[target] = mask
    return found
