"""Chains: transforms bound to an environment's keys, in order, with every key and type checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from specgen.check.chain_args import Arguments, read_arguments
from specgen.check.chain_around import can_step, folded_entries
from specgen.check.chain_model import CheckedChain, Instance, Row
from specgen.check.chain_order import warn_order
from specgen.check.chain_types import cast_bounds, check_row
from specgen.check.chain_writes import WrittenKeys, written_entry
from specgen.check.lints.chains import lint_instance
from specgen.check.model import Checked, CheckedEnv, Entry, dotted
from specgen.check.transform_model import AROUND_PHASES, CheckedTransform, Output, Role
from specgen.diagnostics import Note, Sink, Span, suggestion
from specgen.diagnostics.rules import flow as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.diagnostics.rules import transforms_offline as offline_rules
from specgen.expr import SpecType
from specgen.expr.symbols import Key
from specgen.program.program import DONE_FLAGS
from specgen.schema.load import SchemaFile

__all__ = ["CheckedChain", "check_chain"]


def check_chain(
    file: SchemaFile,
    name: str,
    module: str,
    envs: Mapping[str, Checked[CheckedEnv]],
    transforms: Mapping[str, Checked[CheckedTransform]],
    *,
    declared: tuple[Collection[str], Collection[str]],
    sink: Sink,
) -> Checked[CheckedChain] | None:
    """Check a chain.

    Args:
        file: where it is declared.
        name: its name under `chains:`.
        module: the generated module that it goes to, dotted.
        envs: the checked environments that it may name.
        transforms: the checked transforms that it may name.
        declared: the names of all environments and transforms in sight, those with mistakes included.
        sink: takes every mistake.
    """
    chain = file.module.chains[name]
    path = ("chains", name)
    if chain.env not in envs:
        if chain.env not in declared[0]:
            sink.add(
                schema_rules.UNKNOWN_DECLARATION.at(
                    file.span(*path, "env"),
                    f"unknown environment `{chain.env}`",
                    help=suggestion(chain.env, declared[0])
                    or "declare it under `envs`, or `import` the file that does",
                )
            )
        return None
    mine = Sink()
    env = envs[chain.env]
    state = _Position(name, env.value, file.span(*path, "env"), mine)
    binder = _Binder(file, path, state, mine)
    instances: list[Instance] = []
    complete = True
    for index, entry in enumerate(chain.transforms):
        kind = entry if isinstance(entry, str) else next(iter(entry), "")
        if not isinstance(entry, str) and len(entry) != 1:
            complete = False
            named = " and ".join(f"`{name}`" for name in entry) or "none"
            mine.add(
                rules.CHAIN_ENTRY.at(
                    file.span(*path, "transforms", index),
                    f"an entry names one transform, this one names {named}",
                    help="write each as an entry of its own"
                    if entry
                    else "write a name, or leave the entry out",
                )
            )
            continue
        if kind not in transforms:
            complete = False
            if kind not in declared[1]:
                where = (
                    file.span(*path, "transforms", index)
                    if isinstance(entry, str)
                    else file.key_span(*path, "transforms", index, kind)
                )
                mine.add(
                    schema_rules.UNKNOWN_DECLARATION.at(
                        where,
                        f"unknown transform `{kind}`",
                        help=suggestion(kind, declared[1])
                        or "declare it under `transforms`, or `import` the file that does",
                    )
                )
            continue
        if transforms[kind].value.recursion is not None:
            complete = False
            place = ("transforms", index) if isinstance(entry, str) else ("transforms", index, kind)
            span = file.span if isinstance(entry, str) else file.key_span
            mine.add(
                offline_rules.ONLY_OFFLINE.at(
                    span(*path, *place),
                    f"`{kind}` computes something of recorded data only",
                    help="leave it out of the chain, and call it on rollouts",
                )
            )
            continue
        place = ("transforms", index) if isinstance(entry, str) else ("transforms", index, kind)
        arguments = read_arguments(file, (*path, *place), transforms[kind].value, mine)
        if arguments is None:
            complete = False
        elif complete:
            instance = binder.bind(index, transforms[kind].value, arguments, file.key_span(*path, *place))
            if instance is not None:
                instances.append(instance)
                if not mine.has_errors:
                    lint_instance(instance, arguments.span, mine)
    binder.report_missing_keys()
    warn_order(instances, binder.spans, mine)
    sink.extend(mine.items)
    if mine.has_errors or not complete:
        return None
    return Checked(
        CheckedChain(
            name,
            module,
            " ".join(chain.doc.split()),
            env,
            tuple(instances),
            dict(state.entries),
            tuple(state.actions.values()),
        )
    )


class _Position:
    """The entries at the present position of a chain."""

    def __init__(self, name: str, env: CheckedEnv, span: Span, sink: Sink) -> None:
        self.env = env
        self.written_keys = WrittenKeys(name, env, span, sink)
        self.entries: dict[str, Entry] = {}
        for entry in (*env.observation, *env.state, *env.reward):
            self.entries[entry.dotted] = entry
        for prefix in env.done:
            for flag in DONE_FLAGS:
                key = (*prefix, flag)
                spec = SpecType("unbounded", "bool", env.done_dims[prefix])
                self.entries[dotted(key)] = Entry(key, "done", spec, spec.type(col=True))
        self.actions = {entry.dotted: entry for entry in env.action}

    def group(self, selector: str) -> list[Entry]:
        """The keys of `env.observation`, `env.reward`, `env.done`, `env.state` or `env.action`."""
        group = selector.removeprefix("env.")
        if group == "done":
            return [
                entry
                for key, entry in self.entries.items()
                if entry.role == "done" and entry.key[-1] == "done" and self._root_most(entry.key)
            ]
        if group == "action":
            return list(self.actions.values())
        groups = ("observation", "state") if group == "observation" else (group,)
        return [entry for entry in self.entries.values() if entry.role in groups]

    def _root_most(self, key: Key) -> bool:
        prefix = key[:-1]
        return not any(other != prefix and prefix[: len(other)] == other for other in self.env.done)


@dataclass(frozen=True)
class _Missing:
    """A key that a transform reads and that is not there at its position, where `known` ones are.

    It `follows` where a transform before it would have written the key, and can't for a mistake of its own.
    """

    transform: CheckedTransform
    key: str
    place: Span
    known: tuple[str, ...]
    follows: bool


@dataclass
class _Binder:
    file: SchemaFile
    path: tuple[str, ...]
    state: _Position
    sink: Sink
    spans: dict[int, Span] = field(default_factory=dict)
    missing: list[_Missing] = field(default_factory=list)
    unwritten: set[str] = field(default_factory=set)

    def bind(
        self, position: int, transform: CheckedTransform, arguments: Arguments, span: Span
    ) -> Instance | None:
        """Bind a transform to the keys at this position, and apply what it writes."""
        self.spans[position] = span
        if not can_step(transform, self.state.env, span, self.sink):
            return None
        before = self._faults()
        rows = [row for role in transform.forward for row in self._rows(transform, role, arguments)]
        inverse_rows = [
            row for role in transform.backward for row in self._inverse_rows(transform, role, arguments, span)
        ]
        path = f"{'.'.join(self.path)}.transforms[{position}]"
        instance = Instance(path, position, transform, arguments.params, tuple(rows), tuple(inverse_rows))
        if self._faults() == before:
            check = partial(check_row, instance, span=arguments.span, sink=self.sink)
            instance = replace(
                instance,
                rows=tuple(check(row, phases=("reset", "step", "map", *AROUND_PHASES)) for row in rows),
                inverse_rows=tuple(check(row, phases=("inverse",)) for row in inverse_rows),
            )
        sound = self._faults() == before
        if sound and transform.around is not None:
            self.state.entries.update(folded_entries(instance, arguments.span(), self.sink))
        for row in rows:
            for entry in row.outputs.values():
                # a new key is there for the transforms behind even if it is a mistake, so that it is reported once
                if sound or entry.dotted not in self.state.entries:
                    self.state.entries[entry.dotted] = entry
        for row in inverse_rows:
            for entry in row.outputs.values():
                inner = next(iter(row.inputs.values()))
                self.state.actions = {
                    (entry.dotted if name == inner.dotted else name): (
                        entry if name == inner.dotted else action
                    )
                    for name, action in self.state.actions.items()
                }
        return instance if sound else None

    def _faults(self) -> int:
        """How many mistakes have been found."""
        return len(self.sink) + len(self.missing)

    def _rows(self, transform: CheckedTransform, role: Role, arguments: Arguments) -> list[Row]:
        before = self._faults()
        inputs = self._inputs(transform, role, arguments.in_keys, arguments, self.state.entries)
        if self._faults() > before:
            self.unwritten |= {dotted(key) for key in arguments.out_keys or ()}
            return []
        renamed = arguments.out_keys
        outputs = [output for output in transform.outputs_of(role) if not self._absent(output, arguments)]
        free = [output for output in outputs if output.keyword is None and not output.flag]
        if renamed is not None and len(renamed) != len(inputs) * len(free):
            self.sink.add(
                rules.KEY_COUNT.at(
                    arguments.span("out_keys"),
                    f"`{transform.name}` writes {len(inputs) * len(free)} keys here, out_keys has {len(renamed)}",
                )
            )
            return []
        names = iter(enumerate(renamed or ()))
        rows = []
        for entry in inputs:
            written: dict[str, Entry] = {}
            for output in outputs:
                chosen, key = (
                    next(names)
                    if renamed is not None and output in free
                    else (None, self._key(output, entry, arguments))
                )
                made = written_entry(transform, output, entry, key, written)
                where = self._span_of(output, arguments, chosen)
                self.state.written_keys.note_output(made, entry, output, transform, where, written.values())
                written[output.name] = cast_bounds(transform, output, entry, made)
            rows.append(Row({role.name: entry}, written))
        return rows

    def _inverse_rows(
        self, transform: CheckedTransform, role: Role, arguments: Arguments, span: Span
    ) -> list[Row]:
        chosen = arguments.in_keys_inv
        if chosen is None and arguments.in_keys is not None:
            chosen = []  # who chooses keys wants no others
        inputs = self._inputs(transform, role, chosen, arguments, self.state.actions | self.state.entries)
        rows = []
        for entry in inputs:
            if entry.role != "action":
                self.sink.add(
                    schema_rules.NOT_AVAILABLE.at(
                        span,
                        f"`{transform.name}` inverts the state `{entry.dotted}`; in a chain only actions can be inverted yet",
                        help="declare the state as float32, or use the dynamic class in a TransformedEnv",
                    )
                )
                continue
            written: dict[str, Entry] = {}
            for output in transform.outputs_of(role):
                made = written_entry(transform, output, entry, self._key(output, entry, arguments), {})
                self.state.written_keys.note_action(made, span)
                written[output.name] = cast_bounds(transform, output, entry, made)
            rows.append(Row({role.name: entry}, written))
        return rows

    def _inputs(
        self,
        transform: CheckedTransform,
        role: Role,
        chosen: list[Key] | None,
        arguments: Arguments,
        known: Mapping[str, Entry],
    ) -> list[Entry]:
        if chosen is None and role.required:
            self.sink.add(
                rules.KEYS_NEEDED.at(
                    arguments.span(), f"`{transform.name}` needs `in_keys`", help="say which keys it works on"
                )
            )
            return []
        found: list[Entry] = []
        for index, selector in enumerate(
            [dotted(key) for key in chosen] if chosen is not None else role.default
        ):
            place = arguments.span("in_keys", index) if chosen is not None else arguments.span()
            if chosen is not None and chosen.index(chosen[index]) < index:
                self.sink.add(
                    rules.KEY_COLLISION.at(
                        place,
                        f"`{transform.name}` is given `{selector}` twice",
                        help="list each key once; an entry of its own transforms it once more",
                    )
                )
                continue
            if selector.startswith("env."):
                found += [
                    e for e in self.state.group(selector) if role.structural or e.spec.dtype in role.dtypes
                ]
                continue
            entry = known.get(selector)
            if entry is None:
                follows = selector in self.unwritten
                self.missing.append(_Missing(transform, selector, place, tuple(known), follows))
            elif entry.spec.dtype not in role.dtypes:
                self.sink.add(
                    rules.WRONG_INPUT.at(
                        place,
                        f"`{transform.name}` needs {role.pattern}[...], `{selector}` is {entry.spec}",
                    )
                )
            else:
                found.append(entry)
        return list({entry.dotted: entry for entry in found}.values())

    def report_missing_keys(self) -> None:
        """Report the keys that a transform reads and nothing before it writes, once all writers are known."""
        writers = self.state.written_keys.last_writers
        for one in self.missing:
            if one.follows:
                continue
            last = one.key.rsplit(".", 1)[-1]
            nested = [key for key in one.known if "." in key and key.rsplit(".", 1)[-1] == last]
            where = f"; the environment writes `{nested[0]}`" if nested else ""
            help = (
                f"write `in_keys: [{nested[0]}]`" if nested else suggestion(one.key, {*one.known, *writers})
            )
            notes: list[str | Note] = []
            if (writer := writers.get(one.key)) is not None:
                where = f" yet: `{writer[0]}` writes it, behind this one"
                help = f"move `{one.transform.name}` behind `{writer[0]}`"
                notes = [Note(f"`{writer[0]}` comes later", writer[1])]
            elif not nested:
                notes = [f"the keys here are {', '.join(sorted(one.known))}"]
            message = f"no key `{one.key}` for `{one.transform.name}`{where}"
            self.sink.add(rules.NO_SUCH_KEY.at(one.place, message, help=help, notes=notes))

    def _span_of(self, output: Output, arguments: Arguments, chosen: int | None) -> Span:
        """Where the key of an output was chosen: in `out_keys`, by its keyword, or nowhere."""
        if chosen is not None:
            return arguments.span("out_keys", chosen)
        return arguments.span(output.keyword) if output.keyword in arguments.names else arguments.span()

    def _absent(self, output: Output, arguments: Arguments) -> bool:
        return output.when is not None and arguments.params.get(output.when) is None

    def _key(self, output: Output, entry: Entry, arguments: Arguments) -> Key:
        if output.keyword is not None and output.keyword in arguments.names:
            return (*entry.key[:-1], arguments.names[output.keyword])
        return (*entry.key[:-1], output.key.replace("{}", entry.key[-1]))
