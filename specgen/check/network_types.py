"""Types whose sizes only the user's networks know: of what networks of losses and of transforms read and write."""

from __future__ import annotations

import re

from specgen.check.names import refusal, refused
from specgen.diagnostics import Sink
from specgen.expr import SpecType, parse_type
from specgen.expr.sizes import Sym
from specgen.schema.load import SchemaFile

_SIZE = re.compile(r"[A-Za-z_]\w*")


def network_type(file: SchemaFile, here: tuple[str, ...], sink: Sink) -> SpecType | None:
    """The type at a place, where names are sizes; None after reporting a mistake."""
    source = file.scalar(*here)
    _, _, inside = source.text.partition("[")
    sizes = {name: Sym.named(name) for name in _SIZE.findall(inside)}
    if wrong := next((size for size in sizes if refusal(size, foreign=True)), None):
        sink.add(refused(wrong, refusal(wrong, foreign=True) or "", "size", source.span))
        return None
    return parse_type(source, sink, sizes)
