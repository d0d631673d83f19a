"""A source text for tests: offsets become columns of line 1."""

from __future__ import annotations

from dataclasses import dataclass

from specgen.diagnostics import Sink, Span
from specgen.expr import Typed, infer, parse
from specgen.expr.types import Binding, Function


@dataclass(frozen=True)
class Text:
    """One line of `f.yaml`."""

    text: str

    def span_of(self, start: int, end: int) -> Span:
        assert 0 <= start <= end <= len(self.text) + 1, (start, end, self.text)
        return Span("f.yaml", 1, start + 1, 1, end + 1)


def typed(
    text: str, scope: dict[str, Binding], functions: dict[str, Function] | None = None, **options: str
) -> Typed:
    """The typed tree of an expression that must be right."""
    sink = Sink()
    source = Text(text)
    expr = parse(source, sink)
    assert expr is not None, [str(item) for item in sink.items]
    node = infer(expr, scope, source, sink, functions=functions, **options)
    assert node is not None, [text, *(f"{item} {item.help}" for item in sink.items)]
    return node


def mistakes(text: str, scope: dict[str, Binding], functions: dict[str, Function] | None = None) -> list[str]:
    """`code column-column message` of each mistake of an expression."""
    sink = Sink()
    source = Text(text)
    expr = parse(source, sink)
    if expr is not None:
        infer(expr, scope, source, sink, functions=functions)
    return [f"{d.code} {d.span.column}-{d.span.end_column} {d.message}" for d in sink.items]
