"""Printed expressions as texts."""

from __future__ import annotations

from typing import Any

from specgen import expr
from specgen.expr import Typed


def to_torch(typed: Typed, **given: Any) -> str:
    """The text of an expression; see `specgen.expr.to_torch`."""
    return expr.to_torch(typed, **given).text
