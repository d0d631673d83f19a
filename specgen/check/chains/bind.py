"""Binding a transform to the keys at its position of a chain: one row for each of its repetitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from specgen.check.chains.args import Arguments
from specgen.check.chains.around import can_step, collected_rows, folded_entries, folded_rows
from specgen.check.chains.bounds import with_bounds
from specgen.check.chains.inverse import InverseBinder
from specgen.check.chains.keys import KeyFinder
from specgen.check.chains.masks import end_masks, own_masks
from specgen.check.chains.model import Instance, Row
from specgen.check.chains.policy import check_actions_read, check_policy_states
from specgen.check.chains.position import Position
from specgen.check.chains.python import check_rewards_read
from specgen.check.chains.types import typed_row
from specgen.check.chains.writes import cast_bounds, hidden_entry, written_entry, written_once
from specgen.check.model import Entry, dotted
from specgen.check.transforms.entries import Output, Role, chosen_by_out_keys
from specgen.check.transforms.model import CheckedTransform
from specgen.diagnostics import Sink, Span
from specgen.diagnostics.rules import flow as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.diagnostics.rules import transform_language as language_rules
from specgen.expr.symbols import Key
from specgen.schema.load import SchemaFile
from specgen.values import dataclass, replace


@dataclass
class Binder:
    """Binds the transforms of a chain one after another.

    Attributes:
        file: where the chain stands.
        path: its declaration path.
        state: the keys at the present position; each transform changes them.
        spans: where each transform stands.
        keys: finds the keys that roles stand for.
        learning: a transform so far that learns; None where there is none.
        refused: whether one so far can't stand in a chain like this: nobody knows what is behind it.
        acted: the actions that transforms so far read as the policy wrote them, with these.
        policy_states: the keys that the policy writes under `next`, with the transforms that reset them.
    """

    file: SchemaFile
    path: tuple[str, ...]
    state: Position
    sink: Sink
    spans: dict[int, Span] = field(default_factory=dict)
    keys: KeyFinder = field(init=False)
    policy_states: dict[str, str] = field(default_factory=dict)
    learning: str | None = None
    refused: bool = False
    acted: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.keys = KeyFinder(self.state, self.sink)

    def bind(
        self, position: int, transform: CheckedTransform, arguments: Arguments, span: Span
    ) -> Instance | None:
        """Bind a transform to the keys at this position, and apply what it writes."""
        self.spans[position] = span
        before = self._faults()
        path = f"{'.'.join(self.path)}.transforms[{position}]"
        entries = dict(self.state.entries)
        instance = Instance(
            path,
            position,
            transform,
            entries,
            arguments.params,
            (),
            networks=arguments.networks,
            arguments=arguments.values,
        )
        if not can_step(instance, self.state, self.learning, span, self.sink):
            self.refused = True
            return None
        if any(one.when is None or one.when.decide(arguments.params) for one in transform.drops_inverse):
            message = f"`{transform.name}` leaves keys out on the way to the environment, which a chain reads itself"
            help = "leave it out here: it is for replay buffers"
            self.sink.add(schema_rules.NOT_AVAILABLE.at(span, message, help=help))
            return None
        dropped = self._dropped_roles(instance)
        rows = self._rows(instance, arguments, dropped)
        check_policy_states(instance, rows, dropped, self.policy_states, span, self.sink)
        going = {
            entry.dotted
            for row in rows
            for name, entry in row.inputs.items()
            if name.partition(".")[0] in dropped
        }
        changed = going | self.state.written_keys.last_writers.keys()
        inverse = InverseBinder(instance, arguments, self.state, self.keys, changed, span, self.sink)
        inverse_rows = inverse.rows(before)
        check_actions_read(transform, rows, inverse_rows, self.acted, span, self.sink)
        check_rewards_read(instance, rows, span, self.sink)
        if self._faults() == before:
            rows = folded_rows(instance, rows)
            rows = [typed_row(instance, row, arguments.span, self.sink, inverse=False) for row in rows]
            if self._faults() == before:
                rows = collected_rows(instance, [with_bounds(instance, row) for row in rows])
            for row in rows:
                for name, entry in row.outputs.items():
                    if not transform.output(name).hidden:
                        where = self._span_of(transform.output(name), arguments, None)
                        collected = transform.output(name) in transform.collected
                        self.state.written_keys.check_group(entry, where, collected=collected)
        if instance.learns:
            self.learning = self.learning or transform.name
        sound = self._faults() == before
        if sound and transform.around is not None:
            self.state.entries |= folded_entries(replace(instance, rows=tuple(rows)))
        hidden = {output.name for output in transform.outputs if output.hidden}
        written: set[str] = set()
        for row in rows:
            for name, entry in row.outputs.items():
                if name in hidden:
                    continue
                written.add(entry.dotted)
                # a new key is there for the transforms behind even if it is a mistake, so that it is reported once
                if sound or entry.dotted not in self.state.entries:
                    self.state.entries[entry.dotted] = entry
                    self.state.dropped.pop(entry.dotted, None)
        masks = own_masks(transform, rows, inverse_rows, arguments, self.keys, self.sink)
        sound = self._faults() == before
        self.state.take_actions(inverse_rows)
        gone = tuple(
            dict.fromkeys(
                entry.dotted
                for row in rows
                for name, entry in row.inputs.items()
                if name.partition(".")[0] in dropped and entry.dotted not in written
            )
        )
        for key in gone:
            if self.state.entries[key].role == "done":
                message = f"`{key}` is a done flag, which can't be dropped"
                self.sink.add(language_rules.DROPPED_FLAG.at(arguments.span(), message))
                return None
            del self.state.entries[key]
            self.state.dropped[key] = f"`{transform.name}`, transform {position + 1} of this chain"
        if sound:
            end_masks(transform, rows, inverse_rows, gone, masks, self.state, span, self.sink)
            self.state.masks |= {action: mask for action, mask in masks.items() if mask not in gone}
        return (
            replace(instance, rows=tuple(rows), inverse_rows=tuple(inverse_rows), dropped=gone)
            if sound
            else None
        )

    def _faults(self) -> int:
        """How many mistakes have been found."""
        return self.sink.errors + len(self.keys.missing)

    def _dropped_roles(self, instance: Instance) -> frozenset[str]:
        """The roles whose keys go, for the parameters that the transform is given."""
        drops = instance.transform.drops
        return frozenset(d.role for d in drops if d.when is None or d.when.decide(instance.params))

    # ----------------------------------------------------------------- forward

    def _rows(self, instance: Instance, arguments: Arguments, dropped: frozenset[str]) -> list[Row]:
        transform = instance.transform
        before = self._faults()
        inputs = self._repetitions(transform, arguments)
        self.keys.check_alike(transform, inputs, arguments)
        out_keys = arguments.lists.get("out_keys")
        if self._faults() > before:
            self.keys.unwritten |= {dotted(key) for key in out_keys or ()}
            return []
        declared = transform.written(inverse=False)
        free = [
            output
            for output in declared
            if chosen_by_out_keys(output, transform.roles) and output.exists(arguments.params)
        ]
        if out_keys is not None and len(out_keys) != len(inputs) * len(free):
            self.sink.add(
                rules.KEY_COUNT.at(
                    arguments.span("out_keys"),
                    f"`{transform.name}` writes {len(inputs) * len(free)} keys here, out_keys has {len(out_keys)}",
                )
            )
            return []
        going = {
            entry.dotted for row in inputs for name, entry in row.items() if name.partition(".")[0] in dropped
        }
        names = iter(enumerate(out_keys or ()))
        static = {p.name: arguments.params[p.name] for p in transform.params if p.static and p.kind == "int"}
        rows: list[Row] = []
        for row in inputs:
            sizes = self.keys.sizes(transform, row, arguments)
            if sizes is None:
                return []
            named = {**static, **sizes}
            written: dict[str, Entry] = {}
            for output in declared:
                if not output.exists({**arguments.params, **row, **arguments.asked(declared)}):
                    continue
                together = output.name in transform.stacked  # the same in all repetitions
                if rows and (together or (output.each is None and written_once(transform, output))):
                    continue
                for name, followed in _followed(output, row):
                    if output.hidden:
                        written[name] = hidden_entry(instance, output, followed, named)
                        continue
                    chosen, key = (
                        next(names)
                        if out_keys is not None and output in free
                        else (None, self._key(output, followed, arguments))
                    )
                    made = written_entry(transform, output, followed, row, key, named)
                    where = self._span_of(output, arguments, chosen)
                    self.state.written_keys.note_output(
                        made,
                        row.values(),
                        output,
                        transform,
                        where,
                        written.values(),
                        going | self._replaced(output),
                    )
                    if followed is not None:
                        made = cast_bounds(transform, output, followed, made)
                    written[name] = made
            rows.append(Row(row, written, sizes=sizes))
        return rows

    def _replaced(self, output: Output) -> set[str]:
        """The keys that an output may take although they are there: a new reward takes the place of another."""
        rewards = [key for key, entry in self.state.entries.items() if entry.role == "reward"]
        return set(rewards) if output.reward else set()

    def _repetitions(self, transform: CheckedTransform, arguments: Arguments) -> list[dict[str, Entry]]:
        """What each role stands for, for each repetition; a role of several keys is numbered: `xs.0`."""
        driver = transform.driver(inverse=False)
        known = self.state.entries
        if driver is not None:
            listed = arguments.lists.get("in_keys") if driver.listed else None
            found = self.keys.inputs(transform, driver, listed, "in_keys", arguments, known)
            rows: list[dict[str, Entry]] = [{driver.name: entry} for entry in found]
        else:
            steps = transform.phase("reset_steps")  # how many there are may follow from parameters alone
            rows = [{}] if transform.forward or transform.written(inverse=False) or steps else []
        for role in sorted(transform.forward, key=lambda role: (_RANKS[role.form], role.but is not None)):
            if role is driver:
                continue
            if role.form == "each":
                self._pair(transform, role, rows, self._of_each(transform, role, rows, arguments), arguments)
            elif role.form == "all":
                rows = self._together(transform, role, rows, arguments)
            else:
                find = self._flag if role.form == "flag" else self._one
                for row in rows:
                    entry = find(transform, role, row, arguments, known)
                    if entry is not None:
                        row[role.name] = entry
        # a flag is that of several repetitions, which the keys in front of it tell apart
        order = [role.name for role in sorted(transform.forward, key=lambda role: role.form == "flag")]
        return [
            dict(sorted(row.items(), key=lambda item: order.index(item[0].partition(".")[0]))) for row in rows
        ]

    def _of_each(
        self, transform: CheckedTransform, role: Role, rows: list[dict[str, Entry]], arguments: Arguments
    ) -> list[Entry | None]:
        """What a role stands for that goes along with another: None where it may be missing and is."""
        chosen, known = arguments.lists.get(role.keyword or ""), self.state.entries
        if chosen is not None or not role.optional:
            return [*self.keys.inputs(transform, role, chosen, role.keyword, arguments, known)]
        keys: list[Key] = [tuple(entry.split(".")) for entry in role.default]
        found = [self.keys.inputs(transform, role, [key], None, arguments, known) for key in keys]
        return [one[0] if one else None for one in found] or [None] * len(rows)

    def _pair(
        self,
        transform: CheckedTransform,
        role: Role,
        rows: list[dict[str, Entry]],
        found: Sequence[Entry | None],
        arguments: Arguments,
    ) -> None:
        if len(found) != len(rows):
            self.sink.add(
                rules.PAIRED_KEYS.at(
                    arguments.span(role.keyword) if role.keyword in arguments.lists else arguments.span(),
                    f"`{transform.name}` reads {len(rows)} keys of `{role.paired}` and {len(found)} of "
                    f"`{role.name}`, which go together",
                )
            )
            return
        for index, (row, entry) in enumerate(zip(rows, found, strict=True)):
            row |= {} if entry is None else {role.name: entry}
            if entry is not None and role.shaped_as in row:
                self.keys.check_shape(transform, role, row, index, arguments)

    def _together(
        self, transform: CheckedTransform, role: Role, rows: list[dict[str, Entry]], arguments: Arguments
    ) -> list[dict[str, Entry]]:
        chosen = arguments.lists.get("in_keys") if role.listed or role.varargs else None
        if role.varargs and chosen is None:
            chosen = []
        found = self.keys.inputs(transform, role, chosen, "in_keys", arguments, self.state.entries)
        if role.but is not None:
            left_out = {
                entry.dotted
                for row in rows
                for name, entry in row.items()
                if name.partition(".")[0] == role.but
            }
            found = [entry for entry in found if entry.dotted not in left_out]
        if role.sorted is not None and role.sorted.decide(arguments.params):
            found = sorted(found, key=lambda entry: _JOINT.join(entry.key))  # as the classes do
        if not found and role.required and transform.may_have_inverse_keys_only(role):
            return []  # its users pass those of the inverse alone
        numbered = {f"{role.name}.{index}": entry for index, entry in enumerate(found)}
        return [{**row, **numbered} for row in rows]

    def _one(
        self,
        transform: CheckedTransform,
        role: Role,
        row: Mapping[str, Entry],
        arguments: Arguments,
        known: Mapping[str, Entry],
    ) -> Entry | None:
        """The entry of a role with `key:`."""
        keyword = role.keyword or ""
        if role.beside is not None:
            beside = row.get(role.beside)
            if beside is None:
                return None
            key = (*beside.key[:-1], arguments.names.get(keyword, role.default[0]))
        else:
            key = arguments.places.get(keyword, tuple(role.default[0].split(".")))
        given = keyword in arguments.names or keyword in arguments.places
        found = self.keys.inputs(transform, role, [key], keyword if given else None, arguments, known, row)
        return found[0] if found else None

    def _flag(
        self,
        transform: CheckedTransform,
        role: Role,
        row: Mapping[str, Entry],
        arguments: Arguments,
        known: Mapping[str, Entry],
    ) -> Entry | None:
        """A flag of the done set at the root, which every environment has, in the dimensions of another role."""
        of = row.get(role.beside or "")
        flag = known[role.default[0]]
        return (
            None if of is None else replace(flag, type=replace(flag.type, dims=of.type.dims, col=of.type.col))
        )

    # -------------------------------------------------------------------- keys

    def _span_of(self, output: Output, arguments: Arguments, chosen: int | None) -> Span:
        """Where the key of an output was chosen: in `out_keys`, by its keyword, or nowhere."""
        if chosen is not None:
            return arguments.span("out_keys", chosen)
        named = output.keyword in arguments.names or output.keyword in arguments.places
        return arguments.span(output.keyword) if named else arguments.span()

    def _key(self, output: Output, entry: Entry | None, arguments: Arguments) -> Key:
        keyword = output.keyword or ""
        if entry is None:
            return arguments.places.get(keyword, tuple(output.key.split(".")))
        if keyword in arguments.places:
            return arguments.places[keyword]
        return (*entry.key[:-1], arguments.names.get(keyword, output.key).replace("{}", entry.key[-1]))


_JOINT = "_-|-_"
"""What keys are joined with before they are sorted, as the runtime does: TorchRL's order."""

_RANKS = {"each": 0, "all": 0, "key": 1, "flag": 2}
"""Roles are found behind those that they name."""


def _followed(output: Output, row: Mapping[str, Entry]) -> list[tuple[str, Entry | None]]:
    """What an output follows in a repetition, each with its name there; those of a role of several keys are numbered."""
    if output.each is None or output.each in row:
        return [(output.name, row.get(output.each or ""))]
    several = [entry for name, entry in row.items() if name.partition(".")[0] == output.each]
    return [(f"{output.name}.{number}", entry) for number, entry in enumerate(several)]
