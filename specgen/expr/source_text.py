"""Texts that know where they stand in a file, and parts of them."""

from __future__ import annotations

from typing import Protocol

from specgen.diagnostics import Span
from specgen.values import dataclass


class SourceText(Protocol):
    """Text that knows where its characters stand in a file; `source.Scalar` is one."""

    @property
    def text(self) -> str:
        """The decoded text."""
        ...

    def span_of(self, start: int, end: int) -> Span:
        """The file span of the characters from `start` up to `end`."""
        ...


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a source text."""

    whole: SourceText
    start: int
    end: int

    @property
    def text(self) -> str:
        """The decoded text."""
        return self.whole.text[self.start : self.end]

    def span_of(self, start: int, end: int) -> Span:
        """The file span of the characters from `start` up to `end`."""
        return self.whole.span_of(self.start + start, self.start + end)
