"""The constructor's parameters of a transform, in their order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specgen.check.model import Parameter
from specgen.check.names import Names
from specgen.check.transforms.entries import Output, Role
from specgen.check.transforms.roles import claim_keyword
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import transforms as transform_rules
from specgen.schema.load import SchemaFile
from specgen.schema.transform import Transform


def check_signature(
    file: SchemaFile,
    path: tuple[str, ...],
    transform: Transform,
    params: Iterable[Parameter],
    roles: Iterable[Role],
    outputs: Iterable[Output],
    networks: Sequence[str],
    sink: Sink,
) -> tuple[str, ...]:
    """The parameters in the order of `signature`, or the usual one where the transform at `path` declares none."""
    usual = usual_signature(
        params, roles, outputs, bool(transform.offline), networks, transform.reset_keyword
    )
    given = transform.signature
    if given and sorted(given) != sorted(usual):
        missing, extra = sorted(set(usual) - set(given)), sorted(set(given) - set(usual))
        notes = [f"missing: {', '.join(missing)}"] if missing else []
        notes += [f"not a parameter: {', '.join(extra)}"] if extra else []
        sink.add(
            transform_rules.WRONG_SIGNATURE.at(
                file.span(*path, "signature"),
                "`signature` has to list each parameter of the constructor once",
                notes=notes,
            )
        )
    return tuple(given or usual)


def check_reset_keyword(
    file: SchemaFile, path: tuple[str, ...], transform: Transform, names: Names, sink: Sink
) -> None:
    """Check that `reset_keyword` of the transform at `path` names something that a reset begins anew."""
    keyword = transform.reset_keyword
    if keyword is None or not claim_keyword(keyword, file.span(*path, "reset_keyword"), names, sink):
        return
    if not transform.reset:
        sink.add(
            transform_rules.NOTHING_BEGINS_ANEW.at(
                file.key_span(*path, "reset_keyword"),
                f"`{keyword}` would name masks, and there is no `reset`",
            )
        )


def usual_signature(
    params: Iterable[Parameter],
    roles: Iterable[Role],
    outputs: Iterable[Output],
    recursion: bool = False,
    networks: Sequence[str] = (),
    reset_keyword: str | None = None,
) -> tuple[str, ...]:
    """The constructor's parameters in their usual order: networks, what else must be given, keys, options."""
    params, roles, outputs = list(params), list(roles), list(outputs)
    names = [*networks, *(param.name for param in params if param.required)]
    for suffix, inverse in (("", False), ("_inv", True)):
        mine = [role for role in roles if role.inverse == inverse]
        listed = next((role for role in mine if role.listed), None)
        if listed is not None:
            names.append(f"in_keys{suffix}")
        names += [role.keyword for role in mine if role.form == "each" and role.keyword is not None]
        if any(_named_by_users(output, roles) and output.inverse is inverse for output in outputs):
            names.append(f"out_keys{suffix}")
    names += [role.keyword for role in roles if role.form == "key" and role.keyword is not None]
    names += [output.keyword for output in outputs if output.keyword is not None]
    names += ["done_key"] if recursion else []
    names += [reset_keyword] if reset_keyword is not None else []
    return tuple(dict.fromkeys((*names, *(param.name for param in params if not param.required))))


def _named_by_users(output: Output, roles: Iterable[Role]) -> bool:
    """Whether the keys of an output are chosen with `out_keys`."""
    role = next((role for role in roles if role.name == output.each), None)
    chosen = role is not None and role.form == "each" and not role.structural
    return chosen and output.keyword is None and not output.flag and not output.hidden
