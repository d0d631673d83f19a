"""The bounds of what a transform writes in a chain, element by element, as its class finds them: by runs on the ends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from specgen.check.chains.model import Instance, Row
from specgen.check.elements import Elements, elements_of, evaluated, rounded
from specgen.check.model import Entry, Statement
from specgen.check.outer_specs import ends_of, nested_bound
from specgen.check.transforms.images import image_of
from specgen.check.transforms.model import Phase
from specgen.expr import SpecType, Symbol, Typed, full
from specgen.expr.dtypes import is_int
from specgen.values import replace

_ROUNDS = 64
"""So often bounds of what is carried are widened; what has none by then is unbounded. As in the runtime."""
_MOST = 6
"""Of so many inputs each combination of ends is tried."""
_ELEMENTS = 2**13
"""Of larger entries the bounds of all elements together are known only."""

Box = tuple[Elements, Elements]


def with_bounds(instance: Instance, row: Row) -> Row:
    """The row with the bounds of its outputs, where they follow from those of its inputs, element by element."""
    found = _Images(instance, row).specs()
    outputs = {
        name: replace(entry, spec=found[name]) if name in found else entry
        for name, entry in row.outputs.items()
    }
    return replace(row, outputs=outputs)


class _Images:
    """The runs of one repetition on what its inputs may be."""

    def __init__(self, instance: Instance, row: Row) -> None:
        self.row = row
        self.transform = instance.transform
        self.params = {
            f"{instance.path}.params.{param.name}": elements_of(instance.params[param.name])
            for param in instance.transform.params
            if param.kind == "tensor" and isinstance(instance.params[param.name], float | int | list)
        }
        for buffer, param in instance.given.items():
            if (symbol := row.symbols.get(f"buffers.{buffer}")) is not None:
                self.params[symbol.path] = elements_of(instance.params[param])
        images = {} if instance.learns else {name: self._image(name) for name in row.outputs}
        self.images = {name: image for name, image in images.items() if image is not None}
        self.names = [name for name, image in self.images.items() if image in ("structural", "monotone")]
        self.lost: set[str] = set()

    def specs(self) -> dict[str, SpecType]:
        """The specs of the outputs whose bounds are known so."""
        names = self.names
        entries = [*self.row.inputs.values(), *self.row.outputs.values()]
        few = all(math.prod(entry.type.shape) <= _ELEMENTS for entry in entries)
        boxes = self._boxes() if names and few else {}
        found = {name: _spec(self.row.outputs[name], boxes[name]) for name in names if name in boxes}
        for name, image in self.images.items():
            output = self.transform.output(name)
            entry = self.row.outputs[name]
            if image == "interval" and output.declared and name in self.transform.mapped:
                values = self._statement("map", name).typed.interval
                if not values.nan and values.bounded and values != full(entry.type.dtype):
                    found[name] = SpecType(
                        "bounded", entry.type.dtype, entry.type.shape, values.low, values.high
                    )
        return found

    def _image(self, name: str) -> str | None:
        """How the values of an output follow from those of the inputs; None where nothing is asked."""
        output, entry = self.transform.output(name), self.row.outputs[name]
        if output.image is None or output.interval is not None or entry.type.dtype == "bool":
            return None
        found = [
            image_of(statement.typed, self.row.bound[phase][:index])
            for phase in ("reset", "step", "map")
            if phase == "map" or not output.declared
            for index, statement in enumerate(self.row.bound.get(phase, ()))
            if statement.target.removeprefix("next.") == name
        ]
        if "interval" in found or not found:
            return "interval" if found else None
        if found == ["same"] and not output.declared:
            return None  # it has the spec of the input
        return "monotone" if "monotone" in found else "structural"

    def _statement(self, phase: Phase, target: str) -> Statement:
        return next(one for one in self.row.bound[phase] if one.target == target)

    def _boxes(self) -> dict[str, Box]:
        """The bounds of the outputs; nothing where they never settle."""
        inputs = {name: _ends(entry) for name, entry in self.row.inputs.items()}
        fixed = {name: _ends(entry) for name, entry in self.row.outputs.items() if name not in self.names}
        mixed = "monotone" in self.images.values()
        fields = list(dict.fromkeys([*(name.partition(".")[0] for name in inputs), *self.row.outputs]))
        if mixed and len(fields) > _MOST:
            return {}
        found: dict[str, Box] = {}
        stepped = bool(self.row.bound.get("step"))
        for round_ in range(_ROUNDS + 1 if stepped else 1):
            before = dict(found)
            for at in _choices(fields, mixed):
                now = {name: box[at[name.partition(".")[0]]] for name, box in inputs.items()}
                held = {name: box[at[name]] for name, box in {**fixed, **before}.items()}
                _widen(found, self._moment(now, held, "step" if round_ else "reset"))
            if found == before or not stepped:
                return {name: box for name, box in found.items() if name not in self.lost}
        return {}

    def _moment(
        self, now: Mapping[str, Elements], held: Mapping[str, Elements], first: Phase
    ) -> dict[str, Elements]:
        """The outputs of a reset or of a step, and of the map behind it."""
        made: dict[str, Elements] = {}
        phases: tuple[Phase, ...] = (first, "map")
        for phase in phases:
            known = dict(self._constants())
            for name, value in now.items():
                self._know(known, phase, (name, f"next.{name}"), value)
            for name, value in {**held, **(made if phase == "map" else {})}.items():
                self._know(known, phase, (name,), value)
            for statement in self.row.bound.get(phase, ()):
                bare = statement.target.removeprefix("next.")
                entry = self.row.outputs.get(bare)
                result = evaluated(statement.typed, known)
                if entry is not None and bare not in self.names:
                    result = held[bare]
                elif entry is not None and result is not None:
                    result = made[bare] = _stored(result, entry)
                elif entry is not None:
                    self.lost.add(bare)
                if result is not None:
                    known[statement.symbol] = result
        return made

    def _know(self, known: dict[Symbol, Elements], phase: str, names: Sequence[str], value: Elements) -> None:
        for name in names:
            symbol = self.row.symbols.get(f"{phase}.in.{name}")
            if symbol is not None:
                known[symbol] = value

    def _constants(self) -> Iterator[tuple[Symbol, Elements]]:
        """What expressions read of parameters that are tensors."""
        for statements in self.row.bound.values():
            for statement in statements:
                for node in statement.typed.nodes:
                    if node.op == "name" and node.symbol is not None and node.symbol.path in self.params:
                        yield node.symbol, _of_dtype(self.params[node.symbol.path], node)


def _of_dtype(value: Elements, node: Typed) -> Elements:
    numbers = [rounded(number) for number in value.numbers] if node.type.dtype == "float32" else value.numbers
    return Elements(value.shape, numbers)


def _choices(fields: Sequence[str], mixed: bool) -> Iterator[Mapping[str, int]]:
    """Which end each input is at; all are at the same one for what only takes elements."""
    several = product((0, 1), repeat=len(fields)) if mixed else ((end,) * len(fields) for end in (0, 1))
    for choice in several:
        yield dict(zip(fields, choice, strict=True))


def _ends(entry: Entry) -> Box:
    """The bounds of an entry, element by element; infinite ones of floats without bounds."""
    low, high = ends_of(entry.spec)
    if entry.type.dtype == "float32":
        low, high = ([rounded(end) for end in ends] for ends in (low, high))
    return Elements(entry.type.shape, low), Elements(entry.type.shape, high)


def _stored(value: Elements, entry: Entry) -> Elements:
    value = value.spread_to(entry.type.shape)
    if entry.type.dtype != "float32":
        return value
    return Elements(value.shape, [rounded(number) for number in value.numbers])


def _widen(found: dict[str, Box], made: Mapping[str, Elements]) -> None:
    """Let `found` hold what a run made, too."""
    for name, value in made.items():
        low, high = (
            [end if math.isnan(number) else number for number in value.numbers]
            for end in (-math.inf, math.inf)
        )
        if name in found:
            low = list(map(min, found[name][0].numbers, low))
            high = list(map(max, found[name][1].numbers, high))
        found[name] = Elements(value.shape, low), Elements(value.shape, high)


def _spec(entry: Entry, box: Box) -> SpecType:
    """The spec of values between two ends; unbounded where both are those of the dtype everywhere."""
    dtype, shape = entry.type.dtype, entry.type.shape
    low, high = box[0].numbers, box[1].numbers
    if is_int(dtype):
        low, high = [int(end) for end in low], [int(end) for end in high]
    values = full(dtype)
    if all(end <= values.low for end in low) and all(end >= values.high for end in high):
        return SpecType("unbounded", dtype, shape)
    return SpecType("bounded", dtype, shape, nested_bound(low, shape), nested_bound(high, shape))
