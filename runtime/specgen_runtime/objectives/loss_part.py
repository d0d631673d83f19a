"""`LossPart`: entries of a loss that are computed together, and which networks those that were selected need."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple


class LossPart(NamedTuple):
    """Entries that share runs of networks, draws or estimates; `select_out_keys` leaves out whole parts.

    Attributes:
        outputs: the names of the entries.
        now: the networks that read the data for them.
        next: those that read the next record.
    """

    outputs: tuple[str, ...]
    now: tuple[str, ...] = ()
    next: tuple[str, ...] = ()


def networks_read(
    parts: Mapping[str, LossPart], returned: Collection[str], selected: Collection[str], names: Iterable[str]
) -> tuple[list[str], list[str]]:
    """The networks that read the data, and those that read the next record.

    Args:
        parts: the parts of the loss.
        returned: the entries that it returns where none were selected.
        selected: the entries that it does return.
        names: all its networks; each reads both records, as far as is known, until a part is left out.
    """
    there = [part for part in parts.values() if not set(part.outputs).isdisjoint(returned)]
    wanted = [part for part in there if not set(part.outputs).isdisjoint(selected)]
    if len(wanted) == len(there):
        return list(names), list(names)
    return (
        [name for name in names if any(name in part.now for part in wanted)],
        [name for name in names if any(name in part.next for part in wanted)],
    )
