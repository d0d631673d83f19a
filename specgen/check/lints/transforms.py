"""Transforms: what they declare in vain, and rewards of the step before where those of this step are meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from specgen.check.lints.declared import warn_unread
from specgen.check.lints.numbers import warn_whole_numbers
from specgen.check.model import Statement
from specgen.check.statements import SectionResult
from specgen.check.transforms.entries import Drop, Output, Role
from specgen.check.transforms.flow import value_reads
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import env_lints as rules
from specgen.expr.sizes import Sym, names_in
from specgen.expr.tree import names_read
from specgen.program.program import DONE_FLAGS
from specgen.schema.fields import Param
from specgen.schema.load import SchemaFile
from specgen.schema.transform import Transform

_RETURNED = ("reward", *DONE_FLAGS)
"""The last parts of keys that only a step returns."""


def lint_transform(
    file: SchemaFile,
    path: tuple[str, ...],
    transform: Transform,
    roles: Iterable[Role],
    outputs: Iterable[Output],
    drops: Iterable[Drop],
    sections: Mapping[str, SectionResult],
    sink: Sink,
) -> None:
    """Warn of what is legal in a transform without mistakes and rarely meant."""
    roles, outputs, drops = list(roles), list(outputs), list(drops)
    statements = [statement for section in sections.values() for statement in section.statements]
    reads = frozenset[str]().union(*(statement.reads for statement in statements))
    reads |= {transform.derive_done} if isinstance(transform.derive_done, str) else set()
    reads |= {transform.backward} if transform.backward is not None else set()
    conditions = [output.when for output in outputs] + [drop.when for drop in drops]
    conditions += [role.sorted for role in roles]
    reads = reads.union(*(condition.names for condition in conditions if condition is not None))
    reads |= {name for pair in transform.masks.items() for name in pair}
    reads |= {buffer.init for buffer in transform.buffers.values() if isinstance(buffer.init, str)}
    params = [param for param in transform.params.values() if isinstance(param, Param)]
    reads |= {
        name for param in params for name in (param.unless, param.at_least, param.with_) if name is not None
    }
    reads |= {role.dtype for role in roles if role.dtype is not None}
    sizes = [size for output in outputs for size in output.dims or () if isinstance(size, Sym)]
    reads = reads.union(*map(names_in, sizes))
    for name in transform.params:
        if name not in reads:
            warn_unread(file.key_span(*path, "params", name), "parameter", name, sink)
    for role in roles:
        followed = any(output.each == role.name or output.like == role.name for output in outputs)
        followed = followed or any(drop.role == role.name for drop in drops)
        followed = followed or any(role.name in (other.but, other.beside) for other in roles)
        followed = followed or any(isinstance(size, Sym) and size.name in reads for size in role.dims)
        if not followed and not {role.name, f"next.{role.name}"} & reads:
            warn_unread(file.key_span(*path, "in", role.name), "role", role.name, sink)
    for name, network in transform.networks.items():
        if name not in reads:
            help = f"call it, `{name}({', '.join(network.in_)})`, or leave it out"
            warn_unread(file.key_span(*path, "networks", name), "network", name, sink, help)
    step = sections["step"].statements
    recalled = frozenset[str]().union(*(value_reads(statement.expr) for statement in step))
    for index, name in enumerate(transform.carry):
        if name not in recalled:
            help = f"read `{name}` under `step`, where it is the value before the step, or carry nothing"
            warn_unread(file.span(*path, "carry", index), "carried output", name, sink, help)
    _read_too_late(roles, step, recalled, sink)
    assigned = [one for section in sections.values() for one in section.assigned]
    warn_whole_numbers(file, path, transform.params, assigned, sink)


def _read_too_late(
    roles: Iterable[Role], step: Iterable[Statement], recalled: frozenset[str], sink: Sink
) -> None:
    """Warn where `step` reads rewards or done flags of the step before, and never those of this one."""
    for role in roles:
        returned = role.default and all(key.rsplit(".", 1)[-1] in _RETURNED for key in role.default)
        if not returned or role.name not in recalled:
            continue
        if any(f"next.{role.name}" in statement.reads for statement in step):
            continue
        statement = next(each for each in step if role.name in value_reads(each.expr))
        place = next(name for name in names_read(statement.expr) if name.path == role.name)
        sink.add(
            rules.OLD_REWARD.at(
                statement.source.span_of(place.start, place.end),
                f"`{role.name}` is what the step before returned; before the first step there is none",
                help=f"write `next.{role.name}`, what this step returned",
            )
        )
