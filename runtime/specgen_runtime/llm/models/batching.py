"""Calls of several threads, run together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Any, NamedTuple

from tensordict import TensorDictBase, lazy_stack

__all__ = ["CallBatcher"]

Run = Callable[[TensorDictBase], TensorDictBase]


class _Call(NamedTuple):
    """A call: its rows, and what becomes of them."""

    rows: Sequence[TensorDictBase]
    results: Future[Sequence[TensorDictBase]]


class CallBatcher:
    """Runs the rows of calls that threads make at the same time as one batch.

    A call waits while a batch is run, and until there are enough rows; the thread that finds both runs all that wait.

    Args:
        least: how many rows are waited for.
        most: how many rows are run together at most, but for a call that has more; None for all that wait.
        timeout: how many seconds rows are waited for; then those that are there are run.

    Raises:
        ValueError: `least` is not from 1 to `most`, or the timeout is negative.
    """

    def __init__(self, least: int = 1, most: int | None = None, timeout: float = 10.0) -> None:
        if least < 1 or (most is not None and most < least):
            raise ValueError(f"1 <= min_batch_size <= max_batch_size, got {least} and {most}")
        if not timeout >= 0:
            raise ValueError(f"batching_timeout is a number of seconds from 0 on, got {timeout}")
        self.least, self.most, self.timeout = least, most, timeout
        self._changed = threading.Condition()
        self._waiting: list[_Call] = []
        self._is_running = False

    def __reduce__(self) -> Any:
        return CallBatcher, (self.least, self.most, self.timeout)  # threads are of one process

    def __call__(self, run: Run, rows: Sequence[TensorDictBase]) -> Sequence[TensorDictBase]:
        """The results of some rows.

        Args:
            run: gives the result of a stack of rows, along its first dimension.
            rows: of this call.

        Raises:
            Exception: what `run` raised, in all calls of the batch.
        """
        call, end = _Call(rows, Future()), time.monotonic() + self.timeout
        with self._changed:
            self._waiting.append(call)
            self._changed.notify_all()
        while batch := self._next_batch(call, end):
            self._run(run, batch)
        return call.results.result()

    def _next_batch(self, call: _Call, end: float) -> list[_Call]:
        """The calls that this thread is to run; none when its own is done."""
        with self._changed:
            while not call.results.done():
                left = end - time.monotonic()
                enough = left <= 0 or sum(len(each.rows) for each in self._waiting) >= self.least
                if enough and self._waiting and not self._is_running:
                    self._is_running = True
                    return self._taken()
                self._changed.wait(None if left <= 0 else left)
        return []

    def _taken(self) -> list[_Call]:
        """The first calls that wait, with as many rows as are run together."""
        taken = [self._waiting.pop(0)]
        count = len(taken[0].rows)
        while self._waiting and (self.most is None or count + len(self._waiting[0].rows) <= self.most):
            count += len(self._waiting[0].rows)
            taken.append(self._waiting.pop(0))
        return taken

    def _run(self, run: Run, batch: Sequence[_Call]) -> None:
        try:
            made = iter(run(lazy_stack([row for call in batch for row in call.rows])).unbind(0))
            for call in batch:
                call.results.set_result(list(islice(made, len(call.rows))))
        except BaseException as error:
            for call in batch:
                call.results.set_exception(error)
        with self._changed:
            self._is_running = False
            self._changed.notify_all()
