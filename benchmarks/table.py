"""The table of results, as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.harness import Row

HEADER = ("what", "ours", "peer", "peer is", "times faster", "least-most", "limit", "")


def render(rows: Iterable[Row]) -> str:
    """The rows in columns; a row that breaks its limit is marked."""
    table = [HEADER, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(HEADER))]
    return "\n".join(_line(line, widths) for line in (table[0], tuple("-" * w for w in widths), *table[1:]))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    left = (0, 3)
    return "  ".join(
        cell.ljust(width) if column in left else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ).rstrip()


def _cells(row: Row) -> tuple[str, ...]:
    show = _memory if row.memory else _rate if row.rate else _time
    verdict = "" if row.holds else "BELOW" if row.ratio is not None else "ABOVE"
    if row.ratio is None or row.peer is None or row.spread is None:
        limit = "" if row.limit is None else f"<= {_time(row.limit)}"
        return (row.name, show(row.ours), "", "", "", "", limit, verdict)
    limit = "" if row.limit is None else f">= {row.limit:g}"
    spread = f"{row.spread[0]:.1f}-{row.spread[1]:.1f}"
    return (
        row.name,
        show(row.ours),
        show(row.peer),
        row.peer_name,
        f"{row.ratio:.2f}",
        spread,
        limit,
        verdict,
    )


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _memory(mebibytes: float) -> str:
    return f"{mebibytes:.3g} MiB"


def _rate(seconds: float) -> str:
    rate = 1 / seconds
    for prefix, size in (("M", 1e6), ("k", 1e3)):
        if rate >= size:
            return f"{rate / size:.3g}{prefix}/s"
    return f"{rate:.3g}/s"
