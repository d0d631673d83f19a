"""Diagnostics: what is wrong, where, why, and what to write instead."""

from specgen.diagnostics.diagnostic import Diagnostic, Note, Rule, Severity
from specgen.diagnostics.render import render_human, summary
from specgen.diagnostics.similar import asked, did_you_mean, suggestion
from specgen.diagnostics.sink import Sink, tidy
from specgen.diagnostics.span import Span

__all__ = [
    "Diagnostic",
    "Note",
    "Rule",
    "Severity",
    "Sink",
    "Span",
    "asked",
    "did_you_mean",
    "render_human",
    "suggestion",
    "summary",
    "tidy",
]
