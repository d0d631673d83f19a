"""Binding the inverse of a transform in a chain: which actions it gives the environment, and what the policy writes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from specgen.check.chains.args import Arguments
from specgen.check.chains.bound_tables import bound_tables, table_symbols, tables_scope
from specgen.check.chains.inverse_bounds import tensor_values
from specgen.check.chains.keys import KeyFinder
from specgen.check.chains.model import Instance, Row
from specgen.check.chains.position import Position
from specgen.check.chains.scope import base_scope
from specgen.check.chains.types import first_actions, typed_row
from specgen.check.chains.writes import sizes_of, written_entry
from specgen.check.model import Entry, Statement, identifier
from specgen.check.outer_specs import ClassesJoinedError, KindsDifferError, Way, followed
from specgen.check.transforms.entries import Output, Role, chosen_by_out_keys
from specgen.check.transforms.inverse import classes_name
from specgen.check.transforms.model import CheckedTransform, driver_of
from specgen.check.transforms.per_env import rows_of_their_own
from specgen.check.transforms.several_given import several_given
from specgen.diagnostics import Note, Sink, Span
from specgen.diagnostics.rules import flow as rules
from specgen.diagnostics.rules import transform_language as language_rules
from specgen.diagnostics.rules import transforms as transform_rules
from specgen.diagnostics.rules import transforms_policy as policy_rules
from specgen.expr import ANYTHING, Binding, Interval, SpecType, Symbol, Type, infer
from specgen.expr.sizes import Dim, Rest
from specgen.expr.symbols import Key
from specgen.values import dataclass, replace


@dataclass
class InverseBinder:
    """Binds the inverse of one transform to the actions at its position.

    Attributes:
        instance: the transform with its parameters.
        arguments: what the chain gives it.
        state: the keys at the present position.
        keys: finds the keys that roles stand for.
        changed: the keys that it, or a transform before it, writes or drops.
        span: where the transform stands.
        sink: takes every mistake.
        present: the actions behind it, as far as they are known.
    """

    instance: Instance
    arguments: Arguments
    state: Position
    keys: KeyFinder
    changed: Collection[str]
    span: Span
    sink: Sink
    present: set[str] = field(default_factory=set)

    def rows(self, faults: int) -> list[Row]:
        """The repetitions, typed and with the specs of what the policy writes; none after a mistake.

        Args:
            faults: how many mistakes there were before this transform.
        """
        found: list[Row] = []
        for inputs in self._repetitions():
            states = [entry for entry in inputs.values() if entry.role != "action"]
            if (shown := next((one for one in states if one.dotted not in self.changed), None)) is not None:
                self._shown_as_it_is(shown)
            elif 0 < len(states) < len(inputs):
                self._with_an_action(states[0])
            else:
                found.append(Row(inputs, {}))
        outputs = [o for o in self.transform.written(inverse=True) if o.exists(self.instance.params)]
        if self.sink.errors + len(self.keys.missing) > faults or not self._keys_fit(found, outputs):
            return []
        names = iter(self.arguments.lists.get("out_keys_inv") or ())
        self.present = self.state.actions.keys() - {e.dotted for row in found for e in row.inputs.values()}
        made: list[Row | None] = []
        for row in found:
            first = next(iter(row.inputs.values()))
            if first.role == "action":
                made.append(self._row(row, outputs, names))
                continue
            for output in outputs:  # the environment reads its own state, which is kept beside what is shown
                self._key(output, first, names)
        return [row for row in made if row is not None]

    @property
    def transform(self) -> CheckedTransform:
        """The transform."""
        return self.instance.transform

    # -------------------------------------------------------------------- keys

    def _repetitions(self) -> list[dict[str, Entry]]:
        transform, arguments = self.transform, self.arguments
        driver = driver_of(transform.backward, inverse=True)
        known = self.state.actions | self.state.entries
        if (several := several_given(transform.roles)) is not None:
            return self._parts(several, known)
        rows: list[dict[str, Entry]] = [{}] if transform.backward else []
        if driver is not None:
            chosen = arguments.lists.get("in_keys_inv")
            if chosen is None and "in_keys" in arguments.lists:
                chosen = []  # who chooses keys wants no others
            found = self.keys.inputs(transform, driver, chosen, "in_keys_inv", arguments, known)
            rows = [{driver.name: entry} for entry in found]
        for role in transform.backward:
            if role is driver:
                continue
            keyword = role.keyword or ""
            if role.form == "each":
                found = self.keys.inputs(
                    transform, role, arguments.lists.get(keyword), keyword, arguments, known
                )
                if len(found) != len(rows):
                    message = (
                        f"`{transform.name}` takes {len(rows)} keys of `{role.paired}` and {len(found)} of"
                    )
                    self.sink.add(
                        rules.PAIRED_KEYS.at(arguments.span(), f"{message} `{role.name}`, which go together")
                    )
                    return []
                for row, entry in zip(rows, found, strict=True):
                    row[role.name] = entry
                continue
            given = keyword in arguments.names or keyword in arguments.places
            for row in rows:
                key = arguments.places.get(keyword, tuple(role.default[0].split(".")))
                if role.beside is not None and role.beside in row:
                    last = arguments.names.get(keyword, role.default[0])
                    key = (*row[role.beside].key[:-1], last)
                found = self.keys.inputs(
                    transform, role, [key], keyword if given else None, arguments, known, row
                )
                row |= dict(zip((role.name,), found, strict=False))
        return rows

    def _parts(self, role: Role, known: Mapping[str, Entry]) -> list[dict[str, Entry]]:
        """The one repetition of an inverse of several keys, which are numbered: `parts.0`; none where there are no keys."""
        argument = role.list_argument
        chosen = self.arguments.lists.get(argument)
        if chosen is None and "in_keys" in self.arguments.lists:
            chosen = []  # who chooses keys wants no others
        found = self.keys.inputs(self.transform, role, chosen, argument, self.arguments, known)
        differing = next((one for one in found if one.type.dims != found[0].type.dims), None)
        if differing is not None:
            message = (
                f"`{self.transform.name}` gives keys of one shape together: `{found[0].dotted}` is {found[0].spec}, "
                f"`{differing.dotted}` is {differing.spec}"
            )
            self.sink.add(language_rules.SIZES_DIFFER.at(self.arguments.span(argument), message))
        named = [output.keyword for output in self.transform.written(inverse=True)]
        if not found and role.required and (unused := [one for one in named if one in self.arguments.places]):
            message = f"`{unused[0]}` is what the policy writes in place of `{argument}`, which are not given"
            self.sink.add(rules.KEYS_NEEDED.at(self.arguments.span(unused[0]), message))
        return [{f"{role.name}.{number}": entry for number, entry in enumerate(found)}] if found else []

    def _shown_as_it_is(self, entry: Entry) -> None:
        """Report the inverse of a state that nothing shows otherwise; of others the environment keeps its own."""
        self.sink.add(
            transform_rules.STATE_INVERTED.at(
                self.span,
                f"`{self.transform.name}` inverts the state `{entry.dotted}`, which is shown as it is",
                help=f"let it, or a transform before it, write `{entry.dotted}` or drop it; or leave it out of `in_keys_inv`",
            )
        )

    def _with_an_action(self, entry: Entry) -> None:
        """Report an inverse of actions that computes a state, too."""
        self.sink.add(
            transform_rules.STATE_INVERTED.at(
                self.span,
                f"`{self.transform.name}` computes the state `{entry.dotted}` together with an action",
                help="declare an inverse of the action alone",
            )
        )

    def _keys_fit(self, rows: Sequence[Row], outputs: Sequence[Output]) -> bool:
        several = several_given(self.transform.roles)
        out_keys = None if several is not None else self.arguments.lists.get("out_keys_inv")
        wanted = len(rows) * sum(chosen_by_out_keys(output, self.transform.roles) for output in outputs)
        if out_keys is not None and len(out_keys) != wanted:
            message = f"`{self.transform.name}` takes {wanted} keys here, out_keys_inv has {len(out_keys)}"
            self.sink.add(rules.KEY_COUNT.at(self.arguments.span("out_keys_inv"), message))
            return False
        if rows and not outputs:
            replaced = next(iter(rows[0].inputs.values()))
            message = f"with these arguments nothing takes the place of `{replaced.dotted}`"
            self.sink.add(rules.WRONG_INPUT.at(self.span, f"`{self.transform.name}`: {message}"))
            return False
        return True

    def _key(self, output: Output, entry: Entry, names: Iterator[Key]) -> Key:
        if chosen_by_out_keys(output, self.transform.roles) and "out_keys_inv" in self.arguments.lists:
            return next(names)
        keyword = output.keyword or ""
        if keyword in self.arguments.places:
            return self.arguments.places[keyword]
        if output.each is None:
            return tuple(output.key.split("."))
        last = self.arguments.names.get(keyword, output.key)
        return (*entry.key[:-1], last.replace("{}", entry.key[-1]))

    # -------------------------------------------------------------------- rows

    def _row(self, row: Row, outputs: Sequence[Output], names: Iterator[Key]) -> Row | None:
        sizes = self.keys.sizes(self.transform, row.inputs, self.arguments)
        if sizes is None:
            return None
        before = self.sink.errors
        params = self.instance.params.items()
        numbers = {**{name: value for name, value in params if isinstance(value, int)}, **sizes}
        tables = dict(bound_tables(self.instance, self.transform.backward, row.inputs))
        scope = base_scope(self.instance) | _sizes_scope(sizes) | tables_scope(self.instance, tables)
        likes: dict[str, Statement] = {}
        written: dict[str, Entry] = {}
        facts = dict(tables_scope(self.instance, tables))
        for output in outputs:
            entry = row.inputs[output.each] if output.each else next(iter(row.inputs.values()))
            key = self._key(output, entry, names)
            made = self._entry(output, entry, row, key, numbers, scope, likes)
            if made is None:
                return None
            where = self.arguments.span()
            self.state.written_keys.note_action(made, where, self.present)
            self.present.add(made.dotted)
            written[output.name] = made
            if (named := classes_name(output)) is not None:
                counts = made.spec.nvec
                list_ = Type("list", (len(counts),), "lit")
                facts[named[0]] = Binding(list_, ANYTHING, what="classes", items=made.spec.counts)
        used = {symbol.path: table for symbol, table in table_symbols(self.instance, tables)}
        bound = replace(row, outputs=written, sizes=sizes, facts=facts, tables=used)
        typed = typed_row(self.instance, bound, self.arguments.span, self.sink, inverse=True)
        return self._with_specs(typed, likes) if self.sink.errors == before else None

    def _entry(
        self,
        output: Output,
        entry: Entry,
        row: Row,
        key: Key,
        numbers: Mapping[str, int],
        scope: Mapping[str, Binding],
        likes: dict[str, Statement],
    ) -> Entry | None:
        """The entry that the policy writes, as its declaration says; None after a mistake."""
        if output.kind is not None:
            spec = self._choices(output, entry, numbers)
            return None if spec is None else replace(entry, key=key, spec=spec, type=spec.type())
        statement = next((one for one in self.transform.outer if one.target == output.name), None)
        if statement is None:
            made = written_entry(self.transform, output, entry, row.inputs, key, numbers)
            return replace(made, role="action")
        roles = {
            name: Binding(one.type, one.spec.interval, what="role", symbol=_symbol(self.instance, name, one))
            for name, one in row.inputs.items()
        }
        if (several := several_given(self.transform.roles)) is not None:
            roles[several.name] = Binding(
                Type("any"), ANYTHING, what="several keys", several=tuple(row.inputs)
            )
        found = Sink()
        typed = infer(
            statement.expr, {**scope, **roles}, statement.source, found, functions=self.transform.functions
        )
        if typed is None:
            first = next(item for item in found.items if item.severity == "error")
            message = f"`{self.transform.name}` can't be applied to `{entry.dotted}` ({entry.spec})"
            self.sink.add(
                rules.WRONG_INPUT.at(
                    self.span,
                    f"{message}: {first.message}",
                    notes=[Note(f"in `{statement.path}`", first.span)],
                    help=first.help,
                )
            )
            return None
        likes[output.name] = replace(statement, typed=typed)
        type_ = replace(typed.type, level="batch", broadcastable=frozenset())
        return replace(
            entry, key=key, spec=SpecType("unbounded", type_.dtype, type_.dims), type=type_, doc=output.doc
        )

    def _choices(self, output: Output, entry: Entry, numbers: Mapping[str, int]) -> SpecType | None:
        """The type of choices among classes, whose numbers are known here."""
        kind = output.kind
        assert kind is not None
        role = self.transform.role(output.each or "")
        named = sum(not isinstance(size, Rest) for size in role.dims)
        shape = entry.type.shape
        rest = shape[: len(shape) - named]
        dims = tuple(
            size
            for dim in kind.shape
            for size in (rest if isinstance(dim, Rest) else (sizes_of(dim, numbers),))
        )
        if kind.n is not None:
            return replace(kind, shape=dims, n=sizes_of(kind.n, numbers))
        counts = tuple(self._count(count, numbers) for count in kind.nvec)
        widths = tuple(number for count in counts for number in count)
        if named and len(widths) == 1:
            widths = widths * shape[-1]
        if named and len(widths) != shape[-1]:
            message = f"there are {len(widths)} numbers of classes for {shape[-1]} choices: `{entry.dotted}` is {entry.spec}"
            self.sink.add(rules.WRONG_INPUT.at(self.span, f"`{self.transform.name}`: {message}"))
            return None
        return replace(kind, shape=dims, nvec=widths)

    def _count(self, count: Dim, numbers: Mapping[str, int]) -> tuple[int, ...]:
        given: Any = self.instance.params.get(str(count))
        return tuple(given) if isinstance(given, tuple | list) else (sizes_of(count, numbers),)

    def _with_specs(self, row: Row, likes: Mapping[str, Statement]) -> Row:
        """The row with what follows of the values that the policy may write."""
        constants = tensor_values(self.instance, row)
        if self.transform.python is not None:
            return row  # nobody knows what a class makes of it
        statements = row.bound["inverse"]
        repeated = not statements and self.transform.phase("action")
        if repeated:
            statements = first_actions(self.instance, row, self.arguments.span)
        per_env = rows_of_their_own(self.transform.params)
        if any(per_env & statement.reads for statement in self.transform.inverse):
            return row  # no one value tells the bounds
        made = dict(row.outputs)
        for name, entry in row.outputs.items():
            output = self.transform.output(name)
            parts = row.inputs if output.each is None else {output.each: row.inputs[output.each]}
            places = {one.target: i for i, one in enumerate(statements) if one.target in parts}
            read = {one for statement in statements for one in statement.reads if one in row.outputs}
            if output.kind is not None or output.interval is not None or output.dims is not None:
                continue
            if read != {name} or sum(name in one.reads for one in statements) > max(places.values()) + 1:
                continue
            inwards = [
                Way(statements[places[part]], tuple(statements[: places[part]]), inwards=True)
                for part in parts
            ]
            outwards = Way(likes[name], ()) if name in likes else None
            if repeated and "monotone" in {way.image for way in (outwards, *inwards) if way is not None}:
                continue
            taken = next(iter(parts.values()))
            try:
                specs = {part: one.spec for part, one in parts.items()}
                spec = followed(specs, entry.type, outwards, inwards, constants)
            except KindsDifferError:
                said = ", ".join(f"`{one.dotted}` is {_said(one.spec)}" for one in parts.values())
                message = f"`{self.transform.name}` puts actions of different kinds together: {said}"
                self.sink.add(policy_rules.PARTS_DIFFER.at(self.span, message))
                return row
            except ClassesJoinedError:
                self.sink.add(
                    language_rules.CLASSES_JOINED.at(
                        self.span,
                        f"`{self.transform.name}` tears apart or joins the classes of `{taken.dotted}`, "
                        f"{_said(taken.spec)}",
                    )
                )
                return row
            made[name] = replace(entry, spec=spec)
        return replace(row, outputs=made)


def _sizes_scope(sizes: Mapping[str, int]) -> dict[str, Binding]:
    kind = Type("int64", (), "lit")
    return {
        name: Binding(kind, Interval(size, size), static=size, what="size") for name, size in sizes.items()
    }


def _symbol(instance: Instance, name: str, entry: Entry) -> Symbol:
    return Symbol(f"{instance.path}.outer.in.{name}", identifier(name), entry.type, entry.spec.interval)


def _said(spec: SpecType) -> str:
    counts = spec.nvec or (spec.n,)
    shape = f"[{', '.join(map(str, spec.shape))}]" if spec.shape else ""
    return f"{spec.kind}({', '.join(map(str, counts))}){shape}"
