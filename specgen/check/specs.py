"""Declared specs: short form, long form or a name from `specs:`; all three are the same object."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from specgen.check.model import snake
from specgen.diagnostics import Sink, Span, suggestion
from specgen.diagnostics.rules import schema as rules
from specgen.diagnostics.rules import specs as spec_rules
from specgen.diagnostics.rules.expressions import UNDEFINED
from specgen.expr import CONCRETE, SourceText, SpecType, parse_type
from specgen.expr.type_hints import concrete_form, meant_dtype
from specgen.schema.fields import Spec, SpecField
from specgen.schema.load import SchemaFile, describe
from specgen.values import dataclass


@dataclass(frozen=True)
class NamedSpec:
    """An entry of a `specs:` section, with the file that it stands in."""

    file: SchemaFile
    field: SpecField


@dataclass(frozen=True)
class CheckedSpec:
    """A named spec that stands by itself.

    Attributes:
        name: its name under `specs:`.
        function: the generated function that makes the spec object.
        spec: what it says.
        doc: one line.
    """

    name: str
    function: str
    spec: SpecType
    doc: str = ""


@dataclass(frozen=True)
class _ShortForm:
    """The short form of a long one; its mistakes point at the field that a part came from."""

    text: str
    parts: tuple[tuple[int, int, Span], ...]
    span: Span

    def span_of(self, start: int, end: int) -> Span:
        for first, last, span in self.parts:
            if first <= start < last:
                return span
        return self.span


def check_spec(
    file: SchemaFile,
    path: tuple[str, ...],
    field: SpecField,
    dims: Mapping[str, int],
    named: Mapping[str, NamedSpec],
    sink: Sink,
) -> SpecType | None:
    """The spec declared at `path`; its faults go to `sink`."""
    if isinstance(field, Spec):
        source = _short_form(file, path, field, sink)
        return parse_spec(source, sink, dims) if source is not None else None
    text = field.strip()
    if text.isidentifier() and text in named:
        found = named[text]
        return check_spec(found.file, ("specs", text), found.field, dims, {}, sink)
    if text.isidentifier() and (help := suggestion(text, named)):
        sink.add(rules.UNKNOWN_DECLARATION.at(file.span(*path), f"unknown spec `{text}`", help=help))
        return None
    return parse_spec(file.scalar(*path), sink, dims)


def function_of(name: str) -> str:
    """The generated function that makes a named spec: `joint_spec()` for `joint` and for `Joint`."""
    return f"{snake(name).removesuffix('_spec')}_spec"


def check_named(file: SchemaFile, sink: Sink) -> dict[str, CheckedSpec]:
    """The specs of a `specs:` section that say all there is to say.

    One that reads names of `dims:` is as many specs as there are declarations that use it, and is checked
    with each of them.
    """
    checked: dict[str, CheckedSpec] = {}
    for name, field in file.module.specs.items():
        mine = Sink()
        spec = check_spec(file, ("specs", name), field, {}, {}, mine)
        if spec is not None:
            checked[name] = CheckedSpec(name, function_of(name), spec, doc_of(field))
        elif any(item.rule is not UNDEFINED for item in mine.items):
            sink.extend(mine.items)
    return checked


def parse_spec(source: SourceText, sink: Sink, dims: Mapping[str, int]) -> SpecType | None:
    """The short form of a spec: a type that says all there is to say of a tensor, unlike a pattern."""
    spec = parse_type(source, sink, dims, patterns=False)
    if spec is None or spec.kind not in ("pattern", "like", "text"):
        return spec
    text = source.text
    message = f"`{text.strip()}` is not a spec: a key has a dtype and all of its dimensions"
    help = concrete_form(text.strip())
    if spec.kind == "text":
        message, help = "`text` is not a spec: a key holds a tensor", None
    sink.add(spec_rules.NO_TENSOR.at(source.span_of(0, len(text)), message, help=help))
    return None


def doc_of(field: SpecField) -> str:
    """The one-line documentation that the long form may carry."""
    return field.doc if isinstance(field, Spec) else ""


_WANTED = {
    "bounded": ("low", "high"),
    "unbounded": (),
    "categorical": ("n",),
    "onehot": ("n",),
    "multi_categorical": ("nvec",),
    "multi_onehot": ("nvec",),
    "binary": (),
}
"""What a kind needs, besides the `shape` and the `dtype` that every kind may have."""

_SIZE = re.compile(r"[\w\s+\-*/%().]+\Z")


def is_size(text: str) -> bool:
    """Whether a text may be one size: a number, a name, or what is computed of them."""
    return _SIZE.match(text) is not None and bool(text.strip(". "))


def _short_form(file: SchemaFile, path: tuple[str, ...], spec: Spec, sink: Sink) -> SourceText | None:
    """`{kind: bounded, shape: [3], dtype: float32, low: -1, high: 1}` as `float32[3] in [-1, 1]`."""
    given = {name for name in ("low", "high", "n", "nvec") if getattr(spec, name) is not None}
    wanted = _WANTED[spec.kind]
    for name in wanted:
        if name not in given:
            sink.add(rules.MISSING_FIELD.at(file.span(*path), f"a spec of kind `{spec.kind}` needs `{name}`"))
    for name in sorted(given - set(wanted)):
        sink.add(
            rules.UNKNOWN_FIELD.at(
                file.key_span(*path, name),
                f"a spec of kind `{spec.kind}` has no `{name}`",
                help=f"it has {', '.join(('shape', 'dtype', *wanted))}",
            )
        )
    if set(wanted) != given or not _parts_are_sound(file, path, spec, sink):
        return None
    pieces: list[tuple[str, str | None]] = []
    dtype = f"dtype={spec.dtype}" if spec.dtype else ""
    if spec.kind in ("bounded", "unbounded"):
        pieces.append((spec.dtype or "float32", "dtype"))
    elif spec.kind == "binary":
        pieces.append((f"binary({dtype})" if dtype else "binary", "dtype"))
    else:
        counts = str(spec.n) if spec.n is not None else ", ".join(map(str, spec.nvec or ()))
        pieces += [(f"{spec.kind}(", "kind"), (counts, "nvec" if spec.nvec else "n")]
        pieces.append((f", {dtype})" if dtype else ")", "dtype"))
    if spec.shape:
        pieces.append((f"[{', '.join(map(str, spec.shape))}]", "shape"))
    if spec.kind == "bounded":
        pieces += [
            (" in [", None),
            (_bound(spec.low) or "", "low"),
            (", ", None),
            (_bound(spec.high) or "", "high"),
            ("]", None),
        ]
    text, parts = "", []
    for piece, origin in pieces:
        if origin is not None and origin in spec.model_fields_set:
            parts.append((len(text), len(text) + len(piece), file.span(*path, origin)))
        text += piece
    return _ShortForm(text, tuple(parts), file.span(*path))


def _parts_are_sound(file: SchemaFile, path: tuple[str, ...], spec: Spec, sink: Sink) -> bool:
    """Whether each field is what the short form has in its place: one part can't stand for several."""
    sound = True
    if spec.dtype is not None and spec.dtype not in CONCRETE:
        help = meant_dtype(spec.dtype) or f"the dtypes are {', '.join(CONCRETE)}"
        message = f"`{spec.dtype}` is not a dtype"
        sink.add(spec_rules.NOT_A_TYPE.at(file.span(*path, "dtype"), message, help=help))
        sound = False
    sizes: list[tuple[tuple[str | int, ...], int | str]]
    sizes = [(("shape", index), size) for index, size in enumerate(spec.shape)]
    sizes += [(("nvec", index), size) for index, size in enumerate(spec.nvec or ())]
    sizes += [(("n",), spec.n)] if spec.n is not None else []
    for place, size in sizes:
        if isinstance(size, str) and not is_size(size):
            sink.add(spec_rules.BAD_SHAPE.at(file.span(*path, *place), f"`{size}` is not a whole number"))
            sound = False
    for name in ("low", "high"):
        value = getattr(spec, name)
        if value is not None and _bound(value) is None:
            node = file.node(*path, name)
            sink.add(
                rules.WRONG_TYPE.at(
                    node.span, f"`{name}` should be a number or lists of numbers, got {describe(node, value)}"
                )
            )
            sound = False
    return sound


def _bound(value: Any) -> str | None:
    """A bound as the short form writes it; None when it is no number."""
    if isinstance(value, (list, tuple)):
        items = [_bound(item) for item in value]
        return f"[{', '.join(filter(None, items))}]" if items and None not in items else None
    if isinstance(value, str):
        return value if _SIZE.match(value) else None
    return (
        None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value
        else repr(value)
    )
