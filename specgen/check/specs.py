"""Declared specs: short form, long form or a name from `specs:`; all three are the same object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specgen.diagnostics import Sink, Span, suggestion
from specgen.diagnostics.rules import schema as rules
from specgen.expr import SourceText, SpecType, parse_type
from specgen.schema.fields import Spec, SpecField
from specgen.schema.load import SchemaFile


@dataclass(frozen=True)
class NamedSpec:
    """An entry of a `specs:` section, with the file that it stands in."""

    file: SchemaFile
    field: SpecField


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
        return parse_type(source, sink, dims) if source is not None else None
    text = field.strip()
    if text.isidentifier() and text in named:
        found = named[text]
        return check_spec(found.file, ("specs", text), found.field, dims, {}, sink)
    if text.isidentifier() and (help := suggestion(text, named)):
        sink.add(rules.UNKNOWN_DECLARATION.at(file.span(*path), f"unknown spec `{text}`", help=help))
        return None
    return parse_type(file.scalar(*path), sink, dims)


def doc_of(field: SpecField) -> str:
    """The one-line documentation that the long form may carry."""
    return field.doc if isinstance(field, Spec) else ""


_WANTED = {
    "bounded": ("dtype", "low", "high"),
    "unbounded": ("dtype",),
    "categorical": ("n",),
    "onehot": ("n",),
    "multi_categorical": ("nvec",),
    "binary": (),
}
_ALLOWED = {
    "bounded": ("dtype", "low", "high"),
    "unbounded": ("dtype",),
    "categorical": ("n", "dtype"),
    "onehot": ("n", "dtype"),
    "multi_categorical": ("nvec", "dtype"),
    "binary": ("dtype",),
}


def _short_form(file: SchemaFile, path: tuple[str, ...], spec: Spec, sink: Sink) -> SourceText | None:
    """`{kind: bounded, shape: [3], dtype: float32, low: -1, high: 1}` as `float32[3] in [-1, 1]`."""
    given = {name for name in ("dtype", "low", "high", "n", "nvec") if getattr(spec, name) is not None}
    wanted, allowed = _WANTED[spec.kind], _ALLOWED[spec.kind]
    for name in wanted:
        if name not in given and name != "dtype":
            sink.add(rules.MISSING_FIELD.at(file.span(*path), f"a spec of kind `{spec.kind}` needs `{name}`"))
    for name in sorted(given - set(allowed)):
        sink.add(
            rules.UNKNOWN_FIELD.at(
                file.key_span(*path, name),
                f"a spec of kind `{spec.kind}` has no `{name}`",
                help=f"it has {', '.join(('shape', *allowed))}",
            )
        )
    if not set(wanted) - {"dtype"} <= given or given - set(allowed):
        return None
    pieces: list[tuple[str, str | None]] = []
    dtype = spec.dtype or "float32"
    if spec.kind in ("bounded", "unbounded"):
        pieces.append((dtype, "dtype"))
    elif spec.kind == "binary":
        pieces.append(("bool" if spec.dtype == "bool" else "binary", "dtype"))
    else:
        counts = str(spec.n) if spec.n is not None else ", ".join(map(str, spec.nvec or ()))
        pieces += [(f"{spec.kind}(", "kind"), (counts, "nvec" if spec.nvec else "n")]
        pieces.append((f", dtype={spec.dtype})" if spec.dtype else ")", "dtype"))
    if spec.shape:
        pieces.append((f"[{', '.join(map(str, spec.shape))}]", "shape"))
    if spec.kind == "bounded":
        pieces += [
            (" in [", None),
            (_bound(spec.low), "low"),
            (", ", None),
            (_bound(spec.high), "high"),
            ("]", None),
        ]
    text, parts = "", []
    for piece, origin in pieces:
        if origin is not None and origin in spec.model_fields_set:
            parts.append((len(text), len(text) + len(piece), file.span(*path, origin)))
        text += piece
    return _ShortForm(text, tuple(parts), file.span(*path))


def _bound(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_bound, value))}]"
    return str(value) if isinstance(value, str) else repr(value)
