"""`Sink`: collects the diagnostics of a stage."""

from __future__ import annotations

from collections.abc import Iterable

from specgen.diagnostics.diagnostic import Diagnostic


class Sink:
    """Collects diagnostics, so that a stage can go on after a mistake and report all of them."""

    def __init__(self, items: Iterable[Diagnostic] = ()) -> None:
        self._items: dict[Diagnostic, None] = dict.fromkeys(items)

    def add(self, diagnostic: Diagnostic) -> None:
        """Take one diagnostic; an equal one that is already there is kept once."""
        self._items[diagnostic] = None

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Take several diagnostics."""
        for diagnostic in diagnostics:
            self.add(diagnostic)

    def remove(self, diagnostic: Diagnostic) -> None:
        """Forget one diagnostic; one that says the same of the same place is the same."""
        self._items = {
            item: None
            for item in self._items
            if (item.span, item.code, item.message) != (diagnostic.span, diagnostic.code, diagnostic.message)
        }

    @property
    def items(self) -> tuple[Diagnostic, ...]:
        """Everything found, by file, line and column; one message a place and cause."""
        return tidy(self._items) if self._items else ()

    @property
    def has_errors(self) -> bool:
        """Whether anything found stops the build; warnings do not."""
        return any(item.severity == "error" for item in self._items)

    @property
    def errors(self) -> int:
        """How much of what was found stops the build: more than before behind a step that found a mistake, not a warning."""
        return sum(item.severity == "error" for item in self._items)


def tidy(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Sort by file, position and code; of those that say the same about the same place keep the first."""
    unique: dict[tuple[object, ...], Diagnostic] = {}
    for item in diagnostics:
        unique.setdefault((item.span, item.code, item.message), item)
    return tuple(sorted(unique.values(), key=lambda item: (item.span, item.code, item.message)))
