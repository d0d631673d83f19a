"""Names that nothing has yet, like the one that is wanted."""

from __future__ import annotations

from collections.abc import Container


def numbered(wanted: str, taken: Container[str]) -> str:
    """The name, or the first of `wanted_2`, `wanted_3`, … that is free: for values of a function."""
    name, count = wanted, 2
    while name in taken:
        name, count = f"{wanted}_{count}", count + 1
    return name


def underscored(wanted: str, taken: Container[str]) -> str:
    """The name with as many underscores behind it as make it free: for fields of records, which users read."""
    while wanted in taken:
        wanted += "_"
    return wanted
