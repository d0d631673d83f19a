"""The order of the transforms of a chain: what accumulates before it is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specgen.check.chain_model import Instance
from specgen.check.model import Entry
from specgen.diagnostics import Note, Sink, Span
from specgen.diagnostics.rules import flow as rules


def warn_order(instances: Sequence[Instance], spans: Mapping[int, Span], sink: Sink) -> None:
    """An accumulated value that a later transform changes at its source."""
    for earlier in instances:
        carried = {o.name for o in earlier.transform.outputs if o.carry and not o.hidden}
        for row in earlier.rows:
            replaced = {entry.dotted for entry in row.inputs.values()}
            kept = [entry.dotted for name, entry in row.outputs.items() if name in carried]
            sums = [
                key for key in kept if key not in replaced
            ]  # who takes its input's place is changed with it
            for source in row.inputs.values() if sums else ():
                laters = [
                    later
                    for later in instances
                    if later.position > earlier.position and source.role != "done" and _writes(later, source)
                ]
                if not laters:
                    continue
                first, behind = laters[0].transform.name, laters[-1].transform.name
                sink.add(
                    rules.ORDER.at(
                        spans[earlier.position],
                        f"`{', '.join(sums)}` follows `{source.dotted}` as it is before `{first}`",
                        notes=[
                            Note(f"`{later.transform.name}` comes later", spans[later.position])
                            for later in laters
                        ],
                        help=f"move `{earlier.transform.name}` behind `{behind}`, "
                        f"or set `allow: [{rules.ORDER.code}]`",
                    )
                )


def _writes(instance: Instance, key: Entry) -> bool:
    """Whether a transform writes `key`."""
    return any(entry.dotted == key.dotted for row in instance.rows for entry in row.outputs.values())
