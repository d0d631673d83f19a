"""The constructor's parameters of a transform, in their order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specgen.check.model import Parameter
from specgen.check.names import Names
from specgen.check.transforms.entries import Output, Role, chosen_by_out_keys
from specgen.check.transforms.roles import claim_keyword
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import schema as rules
from specgen.diagnostics.rules import transforms as transform_rules
from specgen.diagnostics.rules import transforms_offline as offline_rules
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
        params,
        roles,
        outputs,
        bool(transform.offline),
        networks,
        (transform.reset_keyword, transform.done_keyword, transform.inverse_keyword),
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


def check_episode_keywords(
    file: SchemaFile, path: tuple[str, ...], transform: Transform, names: Names, sink: Sink
) -> None:
    """Check the keywords by which users of the transform at `path` name masks and flags, and say where data are transformed."""
    for field, names_what in (
        ("reset_keyword", "would name masks, and there is no `reset`"),
        ("done_keyword", "would name the flag of episodes, and there is no `reset`"),
        ("inverse_keyword", "would say where recorded data are replayed, and there is no `reset`"),
    ):
        keyword = getattr(transform, field)
        if keyword is None:
            continue
        span = file.span(*path, field)
        free = (
            field == "done_keyword" and keyword == "done_key"
        )  # what recursions have has no other meaning here
        claimed = names.claim(keyword, "keyword", span) if free else claim_keyword(keyword, span, names, sink)
        if claimed and not (transform.reset and transform.offline is None):
            why = names_what if transform.offline is None else "is of recorded data, which are refused here"
            sink.add(
                transform_rules.NOTHING_BEGINS_ANEW.at(file.key_span(*path, field), f"`{keyword}` {why}")
            )


def check_backward(
    file: SchemaFile,
    path: tuple[str, ...],
    transform: Transform,
    params: Iterable[Parameter],
    outputs: Iterable[Output],
    sink: Sink,
) -> bool:
    """Check the parameter with which recorded data are replayed from the end of each episode; whether nothing is wrong."""
    name = transform.backward
    if name is None:
        return True
    span = file.span(*path, "backward")
    fitting = [param.name for param in params if param.kind == "bool" and param.static]
    if name not in fitting:
        message = f"no `bool` parameter `{name}` that is `static: true`"
        changing = name in transform.params
        help = f"declare `{name}` with `static: true`" if changing else suggestion(name, fitting)
        sink.add(rules.UNKNOWN_DECLARATION.at(span, message, help=help))
        return False
    why = None if transform.reset and transform.step else "there is no `reset` and `step`"
    if transform.offline is not None:
        why = "`offline` says otherwise"
    for output in outputs:
        if output.flag or output.reward or output.policy:
            what = "a done flag" if output.flag else "a reward" if output.reward else "left to the policy"
            why = f"`{output.name}` is {what}, which follows what was before"
    if why is not None:
        sink.add(offline_rules.NOT_BACKWARD.at(span, f"this can't be replayed from the end: {why}"))
    return why is None


def usual_signature(
    params: Iterable[Parameter],
    roles: Iterable[Role],
    outputs: Iterable[Output],
    recursion: bool = False,
    networks: Sequence[str] = (),
    keywords: Iterable[str | None] = (),
) -> tuple[str, ...]:
    """The constructor's parameters in their usual order: networks, what else must be given, keys, options."""
    params, roles, outputs = list(params), list(roles), list(outputs)
    names = [*networks, *(param.name for param in params if param.required)]
    for suffix, inverse in (("", False), ("_inv", True)):
        mine = [role for role in roles if role.inverse == inverse]
        listed = next((role for role in mine if role.listed), None)
        if listed is not None:
            names.append(listed.list_argument)
        names += [role.keyword for role in mine if role.form == "each" and role.keyword is not None]
        if any(chosen_by_out_keys(output, roles) and output.inverse is inverse for output in outputs):
            names.append(f"out_keys{suffix}")
    names += [role.keyword for role in roles if role.form == "key" and role.keyword is not None]
    names += [output.keyword for output in outputs if output.keyword is not None]
    names += ["done_key"] if recursion else []
    names += [keyword for keyword in keywords if keyword is not None]
    return tuple(dict.fromkeys((*names, *(param.name for param in params if not param.required))))
