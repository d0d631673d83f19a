"""Turns an internal error of specgen into one diagnostic that says what to report, instead of a traceback."""

from __future__ import annotations

import os
import traceback
from contextvars import ContextVar

from specgen.diagnostics.diagnostic import Diagnostic
from specgen.diagnostics.rules.internal import INTERNAL
from specgen.diagnostics.span import Span

TRACEBACK = "SPECGEN_TRACEBACK"
"""The environment variable that asks for tracebacks, for those who debug specgen."""

_LONGEST = 200

_file: ContextVar[str] = ContextVar("file", default="pyproject.toml")


def working_on(path: str) -> None:
    """Note which schema file is being worked on; an internal error is reported there."""
    _file.set(path)


def internal_error(error: Exception) -> Diagnostic:
    """The diagnostic of an exception that nothing has caught.

    Raises:
        Exception: `error` itself, where `SPECGEN_TRACEBACK` is set.
    """
    if os.environ.get(TRACEBACK):
        raise error
    text = " ".join(str(error).split())
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    place = frames[-1] if frames else None
    where = f"{os.path.basename(place.filename)}:{place.lineno}, in `{place.name}`" if place else ""
    return INTERNAL.at(
        Span(_file.get(), 1, 1, 1, 1),
        f"specgen is at fault, not the schema: {what[:_LONGEST]}{'…' if len(what) > _LONGEST else ''}",
        notes=[f"it happened in {where}"] if where else [],
        help="please report it with this file and what `specgen --traceback check` prints; "
        "what was changed last in the file is most likely what brings it out",
    )
