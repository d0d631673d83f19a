"""What a training shows on stderr: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from collections.abc import Mapping
from typing import Any

__all__ = ["Progress"]

SECONDS_BETWEEN_LINES = 10.0
SHOWN = ("return", "evaluation")


class Progress:
    """Shows how far a training is.

    Args:
        total: how many frames (or updates) there will be; None is not known.
        unit: what is counted.
        shown: whether anything is shown. None: yes.
    """

    def __init__(self, total: int | None, unit: str, begun: int, shown: bool | None) -> None:
        self._total, self._unit, self._count = total, unit, begun
        self._shown = shown is not False
        self._last_line = float("-inf")
        self._waiting: str | None = None  # the line of the last row, if it was not shown
        self._bar: Any = None
        if self._shown and sys.stderr.isatty() and importlib.util.find_spec("tqdm") is not None:
            self._bar = importlib.import_module("tqdm").tqdm(
                total=total, initial=begun, unit=f" {unit}", dynamic_ncols=True, smoothing=0.05
            )

    def update(self, count: int) -> None:
        """So many more are done."""
        self._count += count
        if self._bar is not None:
            self._bar.update(count)

    def show(self, numbers: Mapping[str, float]) -> None:
        """Show the numbers of a row of the log."""
        if self._bar is not None:
            self._bar.set_postfix_str(_listed(numbers))
            return
        now = time.monotonic()
        total = "" if self._total is None else f"/{self._total}"
        self._waiting = f"{self._count}{total} {self._unit}  {_listed(numbers)}"
        if self._shown and now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = now
            self._print_waiting()

    def note(self, text: str) -> None:
        """Show a line."""
        if self._bar is not None:
            self._bar.write(text, file=sys.stderr)
        elif self._shown:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the bar as it is; elsewhere show the last row, if that was not shown."""
        if self._bar is not None:
            self._bar.close()
        elif self._shown:
            self._print_waiting()

    def _print_waiting(self) -> None:
        if self._waiting is not None:
            print(self._waiting, file=sys.stderr, flush=True)
            self._waiting = None


def _listed(numbers: Mapping[str, float]) -> str:
    first = [name for shown in SHOWN for name in numbers if name == shown or name.endswith(f"_{shown}")]
    names = [*first, *(name for name in numbers if name not in first)]
    return "  ".join(f"{name} {numbers[name]:.4g}" for name in names)
