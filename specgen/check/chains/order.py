"""The order of the transforms of a chain: what accumulates before it is changed, or before steps are repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specgen.check.chains.model import Instance
from specgen.check.language_models.transforms import ModelInstance
from specgen.check.model import Entry
from specgen.diagnostics import Note, Sink, Span
from specgen.diagnostics.rules import around as around_rules
from specgen.diagnostics.rules import flow as rules


def warn_order(
    instances: Sequence[Instance],
    model_instances: Sequence[ModelInstance],
    spans: Mapping[int, Span],
    sink: Sink,
) -> None:
    """An accumulated value that a later transform changes at its source, or whose steps it repeats."""
    every: list[Instance | ModelInstance] = [*instances, *model_instances]
    every.sort(key=lambda one: one.position)
    for earlier in instances:
        _warn_of_repetitions(earlier, instances, spans, sink)
        carried = {o.name for o in earlier.transform.outputs if o.carry and not o.hidden}
        for row in earlier.rows:
            replaced = {entry.dotted for entry in row.inputs.values()}
            kept = [entry.dotted for name, entry in row.outputs.items() if name in carried]
            # What takes its input's place is changed with it.
            sums = [key for key in kept if key not in replaced]
            for source in row.inputs.values() if sums else ():
                laters = [
                    later
                    for later in every
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
                        help=_order_help(earlier, source, behind),
                    )
                )


def _order_help(earlier: Instance, source: Entry, behind: str) -> str:
    allow, name = f"`allow: [{rules.ORDER.code}]`", earlier.transform.name
    if source.role == "reward":
        return f"set {allow} for returns of the environment's rewards, as logs want them; or move `{name}` behind `{behind}`"
    return f"move `{name}` behind `{behind}`, or set {allow}"


def _warn_of_repetitions(
    earlier: Instance, instances: Sequence[Instance], spans: Mapping[int, Span], sink: Sink
) -> None:
    """A count or sum of steps that a later transform takes several of as one."""
    carried = [output.name for output in earlier.transform.outputs if output.carry]
    counted = list(
        dict.fromkeys(
            row.outputs[name].dotted for row in earlier.rows for name in carried if name in row.outputs
        )
    )
    loops = [
        later
        for later in instances
        if later.position > earlier.position
        and later.transform.around is not None
        and later.transform.around.kind == "repeat"
    ]
    if counted and loops:
        first, behind = loops[0].transform.name, loops[-1].transform.name
        sink.add(
            around_rules.COUNTED_REPETITIONS.at(
                spans[earlier.position],
                f"`{', '.join(counted)}` follows each step that `{first}` repeats",
                notes=[
                    Note(f"`{later.transform.name}` comes later", spans[later.position]) for later in loops
                ],
                help=f"move `{earlier.transform.name}` behind `{behind}`, "
                f"or set `allow: [{around_rules.COUNTED_REPETITIONS.code}]`",
            )
        )


def _writes(instance: Instance | ModelInstance, key: Entry) -> bool:
    """Whether a transform writes `key`."""
    if isinstance(instance, ModelInstance):
        return key.dotted in instance.written
    return any(entry.dotted == key.dotted for row in instance.rows for entry in row.outputs.values())
