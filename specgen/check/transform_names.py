"""Names that a transform can't give: those of its generated class, and keys that are no names."""

from __future__ import annotations

from specgen.check import names

TAKEN_VARIABLES = frozenset(
    {
        "env",
        "held",
        "key",
        "keys",
        "moment",
        "new_rows",
        "outer_tensordict",
        "recorded",
        "specs",
        "spec",
        "tensordict",
        "tensordict_reset",
        "tolerant",
        "next_tensordict",
    }
)
"""Variables of the generated methods, where roles and outputs are variables too."""


def transform_key_refusal(part: str) -> str | None:
    """Why a text can't be one part of a key, or ``None``; keys that only transforms see may start with `_`."""
    return names.key_refusal(part.removeprefix("_"), foreign=True)
