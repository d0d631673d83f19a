"""`ReportedError`: mistakes of whoever runs a command, which need no traceback."""

from __future__ import annotations

__all__ = ["ReportedError"]


class ReportedError(Exception):
    """An error whose message says all there is to say: a command prints it alone, and ends with exit code 1."""
