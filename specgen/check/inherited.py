"""Where a mistake is shown that follows from what a declaration takes over from another one."""

from __future__ import annotations

from specgen.diagnostics import Diagnostic, Note, Span
from specgen.values import replace


def in_sight(item: Diagnostic, own: Span, otherwise: Span) -> Diagnostic:
    """A finding on a declaration, where it is mended, or allowed: at what the declaration says itself.

    What is taken over may be right, and not go together with what a note tells of.

    Args:
        item: the finding.
        own: the whole declaration.
        otherwise: where it names the other one.
    """
    if item.span.begins_in(own):
        return item
    said = next((note for note in item.notes if note.span is not None and note.span.begins_in(own)), None)
    at = otherwise if said is None or said.span is None else said.span
    notes = (Note("inherited from here", item.span), *(note for note in item.notes if note is not said))
    return replace(item, span=at, notes=notes)
