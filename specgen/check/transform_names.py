"""Keys that a transform can't give: what is no name."""

from __future__ import annotations

from specgen.check import names


def transform_key_refusal(part: str) -> str | None:
    """Why a text can't be one part of a key, or ``None``; keys that only transforms see may start with `_`."""
    return names.key_refusal(part.removeprefix("_"), foreign=True)
