"""Members of an ensemble that are chosen before they run, where nothing else reads what the others give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from specgen.check.losses.forward import Alias, Chosen, Forward, NetworkCall, parts_of
from specgen.check.model import Statement
from specgen.values import replace


def chosen_first(forward: tuple[Forward, ...], statements: Iterable[Statement | None]) -> tuple[Forward, ...]:
    """The values of a loss, in which a run that only a choice of members reads is part of that choice.

    Args:
        forward: the values, in order.
        statements: what reads them.
    """
    read = {symbol.path for one in statements if one is not None for symbol in one.typed.symbols_read}
    aliases = Counter(
        part.name for made in forward for part in parts_of(made.value) if isinstance(part, Alias)
    )
    runs = {
        made.name: made
        for made in forward
        if isinstance(made.value, NetworkCall)
        and not made.replaced
        and aliases[made.name] == 1
        and made.symbol.path not in read
    }
    return tuple(_joined(forward, runs))


def _joined(forward: tuple[Forward, ...], runs: dict[str, Forward]) -> Iterator[Forward]:
    chosen = {
        made.value.value.name
        for made in forward
        if isinstance(made.value, Chosen) and isinstance(made.value.value, Alias)
    }
    for made in forward:
        value = made.value
        if isinstance(value, Chosen) and isinstance(value.value, Alias) and value.value.name in runs:
            run = runs[value.value.name]
            yield replace(made, value=replace(value, value=run.value), network=run.network)
        elif made.name not in runs or made.name not in chosen:
            yield made
