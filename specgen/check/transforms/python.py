"""Transforms whose behaviour is a Python class: what it is given and returns; the class itself is never imported here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specgen.check.python_source import python_source
from specgen.check.sources import PythonSource
from specgen.check.transforms.entries import Output, Role
from specgen.check.transforms.model import PythonPhases
from specgen.check.transforms.python_offline import check_recorded_reads
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import python_env as python_rules
from specgen.diagnostics.rules import transform_networks as rules
from specgen.expr.dtypes import is_abstract
from specgen.expr.sizes import Rest
from specgen.schema.load import SchemaFile
from specgen.schema.transform import Transform

_SAID_BY_CLASS = ("reset", "step", "map", "inverse", "update", "around", "networks", "buffers")
_TOGETHER = ({"map"}, {"reset", "step"}, {"offline"}, set[str]())
"""The phases that go together; `inverse` goes with each of them but `offline`."""


def check_python_phases(
    file: SchemaFile,
    path: tuple[str, ...],
    transform: Transform,
    module: str,
    roles: Iterable[Role],
    outputs: Iterable[Output],
    sink: Sink,
) -> PythonPhases | None:
    """The class behind the transform at `path`; None where it has none, or after reporting what is wrong with it."""
    if transform.python is None:
        for field in ("phases", "reads_env"):
            if getattr(transform, field):
                sink.add(
                    rules.PYTHON_PHASES.at(
                        file.key_span(*path, field),
                        f"`{field}` says something of a Python class, and there is none",
                        help="name it: `python: package.module:Class`",
                    )
                )
        return None
    before = sink.errors
    source = python_source(file.scalar(*path, "python"), module, sink)
    for field in _SAID_BY_CLASS:
        if getattr(transform, field):
            sink.add(
                python_rules.SAID_BY_CLASS.at(
                    file.key_span(*path, field),
                    f"`{field}` has no place beside `python`",
                    help=f"`{source.name}` says what happens; leave one of the two out",
                )
            )
    outputs, roles = list(outputs), list(roles)
    _check_phases(file, path, transform, outputs, sink)
    check_recorded_reads(file, path, transform, roles, outputs, source.name or "the class", sink)
    read = [role for role in roles if not role.inverse]
    known = any(not role.may_be_missing or (role.form == "each" and role.paired is None) for role in read)
    if {*transform.phases} - {"inverse"} and not known:
        owner = f"`{source.name}`" if source.name else "the class"
        what = "all that it reads may be missing" if read else "it reads nothing"
        message = f"nobody knows how many rows there are for {owner}: {what}"
        help = 'let it read a key that is always there, `x: {key: observation, type: "float32[n]"}`'
        sink.add(
            rules.NETWORK_DECLARED.at(file.key_span(*path, "in" if read else "python"), message, help=help)
        )
    offline = "offline" in transform.phases
    for role in (role for role in roles if not (offline and role.inverse)):  # reported by itself
        if role.form not in ("each", "key") or role.dims == (Rest(),) or role.shaped_as:
            owner = f"`{source.name}`" if source.name else "the class"
            message = f"nobody knows what one row of `{role.name}` is for {owner}"
            help = f'name the dimensions of a row: `{role.name}: {{type: "{role.pattern}[..., n]"}}`'
            sink.add(rules.NETWORK_DECLARED.at(file.key_span(*path, "in", role.name), message, help=help))
        elif role.inverse and is_abstract(role.pattern):
            message = f"nobody knows which dtype `{source.name}` gives `{role.name}`"
            help = f'write one: `{role.name}: {{type: "float32[..., n]", inverse: true}}`'
            sink.add(rules.NETWORK_DECLARED.at(file.key_span(*path, "in", role.name), message, help=help))
    for output in outputs:
        span = file.key_span(*path, "out", output.name)
        if output.flag and "step" not in transform.phases:
            message = f"`{output.name}` is a done flag, which only a step raises"
            sink.add(rules.PYTHON_PHASES.at(span, message, help="write `phases: [reset, step]`"))
        elif output.flag and output.each is None:
            message = f"`{output.name}` is a done flag, and nothing says beside which others it stands"
            help = (
                f'follow a role, `done: {{each: env.done, type: "bool[]"}}`: `{output.name}: {{each: done}}`'
            )
            sink.add(rules.NETWORK_DECLARED.at(span, message, help=help))
        elif output.dtype is None and (not output.inverse or output.like is None):
            what = "given to" if output.inverse else "computed by"
            message = f"`{output.name}` is {what} a class, and has no type of its own"
            sink.add(rules.NETWORK_DECLARED.at(span, message, help="declare it, as in `type: float32[64]`"))
    if sink.errors > before:
        return None
    return PythonPhases(source, tuple(transform.phases), transform.reads_env)


def gives(output: Output, phase: str) -> bool:
    """Whether a method of a class returns an output: a reset no rewards and done flags, a step nothing of the policy's."""
    return not (output.reward or output.flag) if phase == "reset" else not (phase == "step" and output.policy)


def check_methods(
    file: SchemaFile, path: tuple[str, ...], transform: Transform, module: str, sink: Sink
) -> PythonSource | None:
    """The class whose methods the transform at `path` has besides its own; a mistake in its name goes to the sink."""
    if transform.methods is None:
        return None
    return python_source(file.scalar(*path, "methods"), module, sink)


def _check_phases(
    file: SchemaFile, path: tuple[str, ...], transform: Transform, outputs: Sequence[Output], sink: Sink
) -> None:
    phases: set[str] = set(transform.phases)
    forward = [output for output in outputs if not output.inverse]
    left = next((output for output in forward if output.policy), None)
    begins_only = left is not None and all(output.policy for output in forward)
    may_begin = begins_only or len(outputs) < len(transform.out)  # of those with mistakes it is not known
    span = file.span(*path, "phases") if transform.phases else file.key_span(*path, "python")
    inverse = next((name for name, role in transform.in_.items() if role.inverse), None)
    if "offline" in phases and phases != {"offline"}:
        at = file.span(*path, "phases", transform.phases.index("offline"))
        message = "`offline` is of recorded data alone, and the other phases of environments, too"
        help = "write `phases: [offline]`, or leave it out: recorded data are given to the other phases"
        sink.add(rules.PYTHON_PHASES.at(at, message, help=help))
    elif "offline" in phases and left is not None:
        at = file.key_span(*path, "out", left.name, "written_by")
        message = f"no policy writes `{left.name}` into recorded data"
        sink.add(rules.PYTHON_PHASES.at(at, message, help="leave `written_by` out"))
    elif "offline" in phases and inverse is not None:
        at = file.key_span(*path, "in", inverse, "inverse")
        message = f"`{inverse}` is what an environment is given, and the class is given recorded data alone"
        sink.add(rules.PYTHON_PHASES.at(at, message, help="leave `inverse` out"))
    elif begins_only and phases - {"inverse"} == {"reset", "step"}:
        message = "`step` gives nothing: all that the class writes is left to the policy"
        sink.add(rules.PYTHON_PHASES.at(span, message, help="write `phases: [reset]`"))
    elif left is not None and "reset" not in phases:
        message = f"the policy writes `{left.name}` under `next`, and nothing begins it"
        told = "`phases: [reset]`" if begins_only else "`phases: [reset, step]`"
        sink.add(rules.PYTHON_PHASES.at(span, message, help=f"write {told}"))
    elif (
        not phases
        or len(phases) != len(transform.phases)
        or (phases - {"inverse"} not in _TOGETHER and not (may_begin and phases - {"inverse"} == {"reset"}))
    ):
        message = "the phases of a class are `map`, or `reset` and `step`; and `inverse`; or `offline` alone"
        help = "write `phases: [map]` for what depends on nothing but the same moment, else `phases: [reset, step]`"
        sink.add(rules.PYTHON_PHASES.at(span, message, help=help))
    elif "inverse" in phases and inverse is None:
        message = "`inverse` computes what the environment is given, and no role is that"
        help = 'declare it: `u: {each: [action], type: "float32[n]", inverse: true}`'
        sink.add(rules.PYTHON_PHASES.at(span, message, help=help))
    elif "inverse" not in phases and inverse is not None:
        message = f"`{inverse}` is what the environment is given, and no phase computes it"
        sink.add(rules.PYTHON_PHASES.at(span, message, help="add `inverse` to the phases"))
