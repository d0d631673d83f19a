"""Diagnostics: what is wrong, where, why, and what to write instead."""

from specgen.diagnostics.diagnostic import Diagnostic, Note, Rule, Severity, Unseen
from specgen.diagnostics.internal import TRACEBACK, internal_error, working_on
from specgen.diagnostics.render import render_human, summary
from specgen.diagnostics.similar import as_question, did_you_mean, suggestion
from specgen.diagnostics.sink import Sink, tidy
from specgen.diagnostics.span import Span

__all__ = [
    "TRACEBACK",
    "Diagnostic",
    "Note",
    "Rule",
    "Severity",
    "Sink",
    "Span",
    "Unseen",
    "as_question",
    "did_you_mean",
    "internal_error",
    "render_human",
    "suggestion",
    "summary",
    "tidy",
    "working_on",
]
