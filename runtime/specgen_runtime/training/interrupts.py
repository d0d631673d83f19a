"""`Interrupts`: Ctrl-C as a question that a loop asks when it is ready to answer."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any

__all__ = ["Interrupts"]

EXIT_CODE = 130
"""What shells report of a process that Ctrl-C ended."""


class Interrupts:
    """Catches the first Ctrl-C; the second one ends the process.

    Only the main thread gets signals: elsewhere nothing is caught.
    """

    def __init__(self) -> None:
        self.caught = False
        self._before: Any = None
        self._installed = False

    def install(self) -> None:
        """Catch from now on."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._catch)
            self._installed = True

    def remove(self) -> None:
        """Leave Ctrl-C to whoever had it before."""
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler if self._before is None else self._before)
            self._installed = False

    def _catch(self, number: int, frame: FrameType | None) -> None:
        if self.caught:
            raise SystemExit(EXIT_CODE)
        self.caught = True
        os.write(
            2, b"\ninterrupted: saving at the next checkpoint; Ctrl-C again ends at once\n"
        )  # print is not reentrant

    def exit(self) -> None:
        """End the process, if there was one."""
        if self.caught:
            raise SystemExit(EXIT_CODE)
