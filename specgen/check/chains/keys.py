"""Finding the keys that a role stands for at its position of a chain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from specgen.check.chains.args import Arguments
from specgen.check.chains.position import Position
from specgen.check.model import Entry, dotted
from specgen.check.transforms.entries import Role
from specgen.check.transforms.model import CheckedTransform
from specgen.check.transforms.types import taken_by
from specgen.diagnostics import Note, Sink, Span, suggestion
from specgen.diagnostics.rules import flow as rules
from specgen.diagnostics.rules import pipeline_networks as image_rules
from specgen.diagnostics.rules import transform_language as language_rules
from specgen.expr import SpecType
from specgen.expr.dtypes import INT_RANGES
from specgen.expr.patterns import Match, NoMatch, match
from specgen.expr.sizes import Dims, Rest, Sym
from specgen.expr.symbols import Key
from specgen.values import dataclass, replace

_SIDES = (Sym.named("H"), Sym.named("W"))
"""The last dimensions in the pattern of a role that is an image, its channels in front of them."""
_LAST = (*_SIDES, Sym.named("C"))
"""Those of an image with its channels behind them."""


@dataclass(frozen=True)
class _Missing:
    """A key that a transform reads and that is not there at its position, where `known` ones are.

    It `follows` where a transform before it would have written the key, and can't for a mistake of its own; `choose`
    says how to name another one, where this one was nobody's choice.
    """

    transform: CheckedTransform
    key: str
    place: Span
    known: tuple[str, ...]
    follows: bool
    dropped: str | None
    choose: str | None


@dataclass
class KeyFinder:
    """Finds keys, and remembers those that are missing until all that write keys are known.

    Attributes:
        state: the keys at the present position.
        missing: keys that were read and are not there.
        done_without: keys of optional roles that are not there.
        unwritten: keys that would be there if a transform were right.
    """

    state: Position
    sink: Sink
    missing: list[_Missing] = field(default_factory=list)
    done_without: list[_Missing] = field(default_factory=list)
    unwritten: set[str] = field(default_factory=set)

    def inputs(
        self,
        transform: CheckedTransform,
        role: Role,
        chosen: list[Key] | None,
        argument: str | None,
        arguments: Arguments,
        known: Mapping[str, Entry],
        row: Mapping[str, Entry] | None = None,
    ) -> list[Entry]:
        """The entries that a role stands for.

        Args:
            transform: whose role it is.
            role: the role.
            chosen: the keys that it is given, or None for its default.
            argument: the argument that gives them, if one does.
            arguments: what the transform is given.
            known: the entries at this position; an action that is read is one of its actions.
            row: what other roles stand for, whose dimensions it may have.
        """
        known = self.state.actions if role.acted else known
        shapes = shapes_of(row or {})
        others = [one.list_argument for one in transform.roles if one.listed and one.inverse]
        inverse_only = transform.may_have_inverse_keys_only(role) and any(
            one in arguments.lists for one in others
        )
        pattern = role.spec if role.dtype is None else replace(role.spec, dtype=arguments.params[role.dtype])
        if role.shaped_as is not None and role.shaped_as not in shapes:
            # It goes along with that role, each of its keys with another one: `check_shape` compares them.
            pattern = replace(pattern, shape=(Rest(), *pattern.shape[1:]))
        if chosen is None and transform.needs_keys(role) and not inverse_only:
            self.sink.add(
                rules.KEYS_NEEDED.at(
                    arguments.span(),
                    f"`{transform.name}` needs `{argument}`",
                    help="say which keys it works on",
                )
            )
            return []
        found: list[Entry] = []
        for index, selector in enumerate(
            [dotted(key) for key in chosen] if chosen is not None else role.default
        ):
            listed = chosen is not None and argument in arguments.lists
            place = arguments.span(argument, index) if argument and listed else arguments.span()
            named = argument in (*arguments.names, *arguments.places)
            if argument and not listed and named:
                place = arguments.span(argument)
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
                    e
                    for e in self.state.group(selector)
                    if role.structural or isinstance(match(pattern, e.spec, None, shapes), Match)
                ]
                continue
            entry = known.get(selector)
            if entry is not None:
                entry = _as_read(transform, role, entry, lambda spec: match(pattern, spec, None, shapes))
            if entry is None:
                needed = named or listed or not role.optional
                choose = f"say which: `{argument}: […]`" if chosen is None and argument else None
                if role.form == "key" and role.keyword is not None and not named:
                    fitting = _fitting(known, pattern, shapes)
                    choose = f"say which: `{role.keyword}: {fitting[0]}`" if fitting else None
                if selector in self.state.actions:
                    choose = f"it is what the policy writes: say `written_by: policy` of `{role.name}`"
                (self.missing if needed else self.done_without).append(
                    _Missing(
                        transform,
                        selector,
                        place,
                        tuple(known),
                        selector in self.unwritten,
                        self.state.dropped.get(selector),
                        choose,
                    )
                )
            elif isinstance(match(pattern, entry.spec, None, shapes), NoMatch):
                message = f"`{transform.name}` needs {pattern}, `{selector}` is {entry.spec}"
                fitting = _fitting(known, pattern, shapes)
                help = f"what fits here: {', '.join(f'`{key}`' for key in fitting)}" if fitting else None
                if not fitting and (converts := _converting(entry, pattern, shapes)):
                    help = f"put {converts} in front of it"
                self.sink.add(rules.WRONG_INPUT.at(place, message, help=help))
            else:
                found.append(entry)
                if pattern.shape[-2:] == _SIDES and is_channels_last(entry.spec.dims):
                    message = f"`{selector}`, {entry.spec}, has its channels last, and `{transform.name}` reads them first"
                    help = f"put {_channels_first(entry)} in front of it"
                    self.sink.add(image_rules.CHANNELS_LAST.at(place, message, help=help))
                elif pattern.shape[-3:] == _LAST and is_channels_first(entry.spec.dims):
                    message = f"`{selector}`, {entry.spec}, has its channels first, and `{transform.name}` reads them last"
                    help = f"leave `{selector}` out of it: they are where convolutions read them"
                    self.sink.add(image_rules.CHANNELS_LAST.at(place, message, help=help))
        return list({entry.dotted: entry for entry in found}.values())

    def check_shape(
        self,
        transform: CheckedTransform,
        role: Role,
        row: Mapping[str, Entry],
        index: int,
        arguments: Arguments,
    ) -> None:
        """Report a key that goes along with another one and lacks the dimensions of that."""
        entry, other = row[role.name], row[role.shaped_as or ""]
        if isinstance(match(role.spec, entry.spec, None, shapes_of(row)), NoMatch):
            message = f"`{entry.dotted}` is {entry.spec}, `{other.dotted}` is {other.spec}"
            place = arguments.span()
            if role.keyword is not None and role.keyword in arguments.lists:
                place = arguments.span(role.keyword, index)
            message = f"`{transform.name}` needs keys of the same dimensions: {message}"
            self.sink.add(rules.WRONG_INPUT.at(place, message))

    def sizes(
        self, transform: CheckedTransform, row: Mapping[str, Entry], arguments: Arguments
    ) -> Mapping[str, int] | None:
        """What the named sizes of a repetition's patterns are; None after reporting two numbers for one."""
        sizes: Mapping[str, int] = {}
        keys: dict[str, str] = {}
        for name, entry in row.items():
            role = transform.role(name.partition(".")[0])
            found = match(role.spec, entry.spec, sizes, shapes_of(row))
            if isinstance(found, NoMatch):
                if found.numbers is None:
                    continue  # what follows done sets has any shape
                here, other = found.numbers[1], found.numbers[0]
                message = f"`{found.size}` is {other} for `{keys[found.size]}`, {here} for `{entry.dotted}`"
                self.sink.add(language_rules.SIZES_DIFFER.at(arguments.span(), message))
                return None
            keys |= dict.fromkeys(found.sizes.keys() - sizes.keys(), entry.dotted)
            sizes = found.sizes
        return sizes

    def check_alike(
        self, transform: CheckedTransform, inputs: list[dict[str, Entry]], arguments: Arguments
    ) -> None:
        """Report keys of different dimensions that are read together, element by element."""
        for role in (role for role in transform.forward if role.form == "all"):
            if taken_by(transform, role) <= {"concat"}:
                continue
            for row in inputs:
                entries = [entry for name, entry in row.items() if name.partition(".")[0] == role.name]
                other = next((one for one in entries if one.type.dims != entries[0].type.dims), None)
                if other is not None:
                    message = (
                        f"`{transform.name}` reads keys of one shape together: `{entries[0].dotted}` is "
                        f"{entries[0].spec}, `{other.dotted}` is {other.spec}"
                    )
                    help = "name keys of one shape in `in_keys`"
                    self.sink.add(
                        language_rules.SIZES_DIFFER.at(arguments.span("in_keys"), message, help=help)
                    )

    def warn_of_order(self) -> None:
        """Warn of transforms that do without a key which one behind them writes, once all writers are known."""
        writers = self.state.written_keys.last_writers
        for one in self.done_without:
            if (writer := writers.get(one.key)) is not None and one.dropped is None:
                message = (
                    f"`{one.transform.name}` does without `{one.key}`, which `{writer[0]}` writes behind it"
                )
                help = f"move `{one.transform.name}` behind `{writer[0]}`"
                notes = [Note(f"`{writer[0]}` comes later", writer[1])]
                self.sink.add(language_rules.WRITTEN_LATER.at(one.place, message, help=help, notes=notes))

    def report_missing_keys(self) -> None:
        """Report the keys that a transform reads and nothing before it writes, once all writers are known."""
        writers = self.state.written_keys.last_writers
        for one in self.missing:
            if one.follows:
                continue
            if one.dropped is not None:
                message = f"`{one.key}` was dropped by {one.dropped}"
                help = f"put `{one.transform.name}` in front of it"
                self.sink.add(language_rules.DROPPED_KEY.at(one.place, message, help=help))
                continue
            last = one.key.rsplit(".", 1)[-1]
            nested = [key for key in one.known if "." in key and key.rsplit(".", 1)[-1] == last]
            where = f"; the environment writes `{nested[0]}`" if nested else ""
            help_ = (
                f"write `in_keys: [{nested[0]}]`" if nested else suggestion(one.key, {*one.known, *writers})
            )
            notes: list[str | Note] = []
            if (writer := writers.get(one.key)) is not None:
                where = f" yet: `{writer[0]}` writes it, behind this one"
                help_ = f"move `{one.transform.name}` behind `{writer[0]}`"
                notes = [Note(f"`{writer[0]}` comes later", writer[1])]
            elif not nested:
                notes = [f"the keys here are {', '.join(sorted(one.known))}"]
                in_group = next((key for key in one.known if key.startswith(f"{one.key}.")), None)
                several = f"it holds several: name those that are meant, `{in_group}`" if in_group else None
                help_ = help_ or one.choose or several
            message = f"no key `{one.key}` for `{one.transform.name}`{where}"
            self.sink.add(rules.NO_SUCH_KEY.at(one.place, message, help=help_, notes=notes))


def _fitting(
    known: Mapping[str, Entry], pattern: SpecType, shapes: Mapping[str, tuple[int, ...]]
) -> list[str]:
    """The keys of entries that a pattern takes, but for done flags."""
    return [
        key
        for key, other in known.items()
        if other.role != "done" and isinstance(match(pattern, other.spec, None, shapes), Match)
    ]


def _converting(entry: Entry, pattern: SpecType, shapes: Mapping[str, tuple[int, ...]]) -> str | None:
    """The transform of the library that makes of an entry what a pattern takes: truth values, or an image."""
    spec, key = entry.spec, entry.dotted
    if pattern.dtype == "bool" and spec.dtype in INT_RANGES:
        arguments = f"{{dtype_in: {spec.dtype}, dtype_out: bool, in_keys: [{key}]}}"
        return f"`{{DTypeCastTransform: {arguments}}}`, of specgen_std/transforms/dtype_cast,"
    *front, height, width, channels = (0, 0, 0, *spec.dims)
    dtype = "float32" if spec.dtype in INT_RANGES else spec.dtype
    first = SpecType("unbounded", dtype, (*front[3:], channels, height, width))
    unfit = isinstance(match(pattern, first, None, shapes), NoMatch)
    if not height or unfit or spec.kind not in ("bounded", "unbounded"):
        return None
    return _channels_first(entry)


def _channels_first(image: Entry) -> str:
    """The transform of the library that brings the channels of an image to the front."""
    key = image.dotted
    if image.spec.dtype in INT_RANGES:
        called = "ToTensorImage" if key == "pixels" else f"{{ToTensorImage: {{in_keys: [{key}]}}}}"
        return f"`{called}`, of specgen_std/transforms/images,"
    arguments = f"{{dims: [-1, -3, -2], in_keys: [{key}]}}"
    return f"`{{PermuteTransform: {arguments}}}`, of specgen_std/transforms/shapes,"


def is_channels_last(shape: Dims) -> bool:
    """Whether the last size of what has three or more is most likely that of an image's channels."""
    sides = shape[-3:-1]
    return len(sides) == 2 and shape[-1] in (1, 3, 4) and all(isinstance(n, int) and n > 4 for n in sides)


def is_channels_first(shape: Dims) -> bool:
    """Whether the third size from the end is most likely that of an image's channels."""
    sides = shape[-2:]
    return len(shape) > 2 and shape[-3] in (1, 3, 4) and all(isinstance(n, int) and n > 4 for n in sides)


def _as_read(
    transform: CheckedTransform, role: Role, entry: Entry, fits: Callable[[SpecType], Match | NoMatch]
) -> Entry:
    """The entry as a role reads it: a column without a dimension that its pattern names as it is stored, as one of one."""
    computed = transform.python is None and transform.around is None and not transform.update
    if not (entry.type.col and computed and role.form in ("each", "key")):
        return entry
    dims = (*entry.type.shape, 1)
    named = sum(not isinstance(size, Rest) for size in role.dims)
    spec = replace(entry.spec, shape=dims)
    if named != len(dims) or isinstance(fits(entry.spec), Match) or isinstance(fits(spec), NoMatch):
        return entry
    return replace(entry, spec=spec, type=replace(entry.type, dims=dims, col=False))


def shapes_of(row: Mapping[str, Entry]) -> dict[str, tuple[int, ...]]:
    """The dimensions of what each role stands for."""
    return {name: entry.type.shape for name, entry in row.items()}
