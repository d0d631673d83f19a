"""`Span`: a range of characters in a source file."""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """A range of characters in a file.

    Lines and columns count from 1, in characters (not bytes); the end is exclusive. Spans sort by
    file, then position, which is the order in which diagnostics are shown.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of `other`, in the same file."""
        return Span(self.file, self.line, self.column, other.end_line, other.end_column)

    def begins_in(self, other: Span) -> bool:
        """Whether this one begins within the other."""
        start, end = (other.line, other.column), (other.end_line, other.end_column)
        return self.file == other.file and start <= (self.line, self.column) <= end
