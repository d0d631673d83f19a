"""Importing libraries that not every installation has, at the moment that one is needed."""

from __future__ import annotations

import importlib
from typing import Any

from specgen_runtime.reported import ReportedError

__all__ = ["MissingExtraError", "import_extra"]


class MissingExtraError(ReportedError, ImportError):
    """A package that is not installed, and that an extra of this distribution brings."""


def import_extra(module: str, needs: str, extra: str) -> Any:
    """Return a module of an optional dependency.

    Args:
        module: its dotted name.
        needs: what needs which package, as the message says it.
        extra: the extra of this distribution that brings it.

    Raises:
        MissingExtraError: it is not installed; the message says which extra brings it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(f"{needs}: pip install 'specgen-rl[{extra}]'") from error
