"""Parameters of a transform that differ between the environments of a batch: where they can be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from specgen.check.model import Parameter
from specgen.check.statements import SectionResult
from specgen.check.transforms.entries import Output
from specgen.check.transforms.flow import computed_of
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import schema as rules
from specgen.schema.load import SchemaFile
from specgen.schema.transform import Transform

_UNREAD = {
    "outer": "the type of what the policy writes",
    "buffer_types": "the type of a buffer",
    "count": "how many steps there are",
}
"""The sections that know no rows, and what they are about."""


def rows_of_their_own(params: Iterable[Parameter]) -> frozenset[str]:
    """The parameters of which each row has its own."""
    return frozenset(param.name for param in params if param.per_env)


def check_per_env_params(
    file: SchemaFile,
    path: tuple[str, ...],
    transform: Transform,
    params: Iterable[Parameter],
    outputs: Iterable[Output],
    sections: Mapping[str, SectionResult],
    sink: Sink,
) -> None:
    """Report parameters that differ between environments where they can't be read, and outputs without a type."""
    params = list(params)
    names = rows_of_their_own(params)
    if not names:
        return

    def refuse(name: str, where: str) -> None:
        message = f"`{name}` differs between environments, which is not available yet for {where}"
        sink.add(rules.NOT_AVAILABLE.at(file.key_span(*path, "params", name), message))

    for section, where in _UNREAD.items():
        for statement in sections[section].statements if section in sections else ():
            for name in sorted(names & statement.reads):
                refuse(name, where)
    known = {"derive_done": transform.derive_done} if isinstance(transform.derive_done, str) else {}
    known |= {name: buffer.init for name, buffer in transform.buffers.items() if isinstance(buffer.init, str)}
    for about, name in known.items():
        if name in names:
            refuse(name, f"`{about}`")
    computed = computed_of(names, sections.values())
    for output in outputs:
        if output.name in computed and not output.declared and not output.inverse:
            sink.add(
                rules.MISSING_FIELD.at(
                    file.key_span(*path, "out", output.name),
                    f"`{output.name}` is computed of what differs between environments, and has no type",
                    help=f"declare it, `type: like({output.each})`: its bounds do not follow from one value",
                )
            )
