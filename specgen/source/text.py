"""`FileText`: the text of a file, which turns offsets into lines and columns."""

from __future__ import annotations

from bisect import bisect_right

from specgen.diagnostics import Span


class FileText:
    """A file's path and text, with offsets turned into spans.

    Offsets count characters from 0. Lines end at a line feed; a carriage return before it is a
    character of the line.
    """

    __slots__ = ("_starts", "path", "text")

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self._starts = [0]
        at = text.find("\n")
        while at >= 0:
            self._starts.append(at + 1)
            at = text.find("\n", at + 1)

    def span(self, start: int, end: int) -> Span:
        """The span of the characters from `start` up to, not including, `end`."""
        starts = self._starts
        line = bisect_right(starts, start)
        begins = starts[line - 1]
        behind = starts[line] if line < len(starts) else len(self.text) + 1
        if begins <= start <= end < behind:  # most stand in one line
            return Span(self.path, line, start + 1 - begins, line, end + 1 - begins)
        return Span(self.path, *self.position(start), *self.position(max(start, end)))

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1, of the character at `offset`."""
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """The offset of a line and column, both from 0 (as YAML marks count them)."""
        if line >= len(self._starts):
            return len(self.text)
        return min(self._starts[line] + column, len(self.text))
