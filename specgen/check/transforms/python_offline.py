"""Classes behind transforms that are given recorded data: which entries, and what goes with them."""

from __future__ import annotations

from collections.abc import Iterable

from specgen.check.transforms.entries import Output, Role
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import python_env as python_rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.diagnostics.rules import transform_networks as rules
from specgen.schema.load import SchemaFile
from specgen.schema.transform import Transform
from specgen.schema.transform_offline import Recursion

_SAID_BY_CLASS = ("direction", "start", "step", "open")


def check_recorded_reads(
    file: SchemaFile,
    path: tuple[str, ...],
    transform: Transform,
    roles: Iterable[Role],
    outputs: Iterable[Output],
    source: str,
    sink: Sink,
) -> None:
    """Check what the class behind the transform at `path` is given of recorded data, and what it can't be.

    Args:
        file: where it stands.
        path: the transform.
        transform: the transform.
        roles: its roles.
        outputs: its outputs.
        source: the name of its class.
        sink: takes every mistake.
    """
    declared, roles = transform.offline, [role for role in roles if not role.inverse]
    if "offline" not in transform.phases:
        if isinstance(declared, Recursion):
            message = (
                f"`offline` says what `{source}` is given of recorded data, and it has no method for them"
            )
            help = "write `phases: [offline]`, or leave `offline` out: recorded data are given to the other phases"
            sink.add(rules.PYTHON_PHASES.at(file.key_span(*path, "offline"), message, help=help))
        return
    if transform.reads_env:
        message = f"there is no environment where `{source}` is given recorded data"
        sink.add(rules.PYTHON_PHASES.at(file.key_span(*path, "reads_env"), message))
    for output in outputs:
        if output.carry and not output.policy:
            hidden = output.hidden
            span = file.key_span(*path, "out", output.name, "hidden") if hidden else file.span(*path, "carry")
            message = f"`{output.name}` would be carried, and `{source}` is given all moments at once"
            help = f"leave `{'hidden' if hidden else 'carry'}` out"
            sink.add(rules.PYTHON_PHASES.at(span, message, help=help))
    if not transform.in_:
        return  # it reads nothing, which is reported where all classes are checked
    known = [role.name for role in roles]
    known += [f"next.{name}" for name in known]
    if not isinstance(declared, Recursion) or not declared.reads:
        place = "offline" if isinstance(declared, Recursion) else "phases"
        message = f"nothing says what `{source}` reads of recorded data"
        listed = ", ".join(role.name for role in roles) or "x"
        help = f"write `offline: {{reads: [{listed}]}}`: `x` stands at the root, `next.x` under `next`"
        sink.add(rules.PYTHON_PHASES.at(file.key_span(*path, place), message, help=help))
        return
    for field in _SAID_BY_CLASS:
        if field in declared.model_fields_set:
            message = f"`{field}` has no place beside `python`"
            help = f"`{source}` is given all moments at once, and where episodes end"
            span = file.key_span(*path, "offline", field)
            sink.add(python_rules.SAID_BY_CLASS.at(span, message, help=help))
    for index, name in enumerate(declared.reads):
        span = file.span(*path, "offline", "reads", index)
        if name in declared.reads[:index]:
            sink.add(rules.PYTHON_PHASES.at(span, f"`{name}` is listed twice"))
        elif name not in known and name.removeprefix("next.") not in transform.in_:
            help = suggestion(name, known) or f"the roles are {', '.join(transform.in_)}"
            sink.add(schema_rules.UNKNOWN_DECLARATION.at(span, f"no role `{name}` to read", help=help))
    if {*declared.reads} - {*known}:
        return  # one of them may be meant by that
    for role in roles:
        if not {role.name, f"next.{role.name}"} & {*declared.reads}:
            message = f"`{source}` is not given `{role.name}`"
            help = f"add `{role.name}`, which stands at the root, or `next.{role.name}` to `reads`"
            sink.add(rules.PYTHON_PHASES.at(file.key_span(*path, "in", role.name), message, help=help))
