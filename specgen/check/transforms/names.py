"""Names that a transform can't give: what its generated functions call otherwise, and keys that are no names."""

from __future__ import annotations

from typing import Final

from specgen.check import names
from specgen.expr.builtins.batch import NEW_ROWS

NTH: Final = "nth"
"""The number of a repetition of `around`, or of a key of several that `inverse` computes, from 0."""

RESERVED_IN_TRANSFORM: Final = {NEW_ROWS: "generated code calls the rows that are new so"}
"""What nothing of a transform can be called, and why."""


def transform_key_refusal(part: str) -> str | None:
    """Why a text can't be one part of a key, or ``None``; keys that only transforms see may start with `_`."""
    return names.key_refusal(part.removeprefix("_"), foreign=True)
