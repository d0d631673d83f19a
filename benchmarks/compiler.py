"""Wall time of the commands on this repository, process start included."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness import Budget, Row, Work
from benchmarks.processes import beside_torch, bytecode, run_python


def rows(budget: Budget) -> Iterator[Row]:
    """``specgen check``, and a ``specgen build`` that finds nothing to do; against importing torch."""
    with bytecode():
        for command in ("check", "build"):
            name = f"specgen {command}" + (" (nothing to do)" if command == "build" else "")
            yield beside_torch(
                name, Work(lambda command=command: run_python("-m", "specgen", command)), budget
            )
