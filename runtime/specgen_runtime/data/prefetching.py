"""Samples of a replay buffer that a thread gathers and transforms ahead of time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from specgen_runtime.data.plain_values import from_plain, to_plain

__all__ = ["Drawing", "Prefetcher", "Sample"]


class Sample(NamedTuple):
    """A sample.

    Attributes:
        data: its rows, after the transforms.
        info: what is known of it: `"index"`, and what the sampler says.
        last: whether the sampler ran out with it.
    """

    data: Any
    info: dict[Any, Any]
    last: bool


class Drawing(NamedTuple):
    """A sample whose elements are drawn.

    Attributes:
        gather: reads and transforms them.
        last: whether the sampler ran out with it.
    """

    gather: Callable[[], Sample]
    last: bool


class Prefetcher:
    """Samples ahead of time, in the order in which they were drawn.

    Elements are drawn by the caller and gathered by one thread, so what is sampled does not depend on which is faster.

    Args:
        count: how many; 0: none, and no thread.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._begun: deque[tuple[Future[Sample], bool]] = deque()
        self._thread = ThreadPoolExecutor(1, "replay_buffer") if count else None

    def next(self, draw: Callable[[], Drawing]) -> Sample:
        """The next sample; those behind it are drawn and begun."""
        if not self._begun:
            if self._thread is None:
                return draw().gather()
            self._begin(draw)
        sample, last = self._begun.popleft()
        # Behind the last sample of a pass nothing is drawn before it is asked for: rows may change between passes.
        while len(self._begun) < self.count and not (self._begun[-1][1] if self._begun else last):
            self._begin(draw)
        return sample.result()

    def _begin(self, draw: Callable[[], Drawing]) -> None:
        assert self._thread is not None  # there is something to make ready
        drawing = draw()
        self._begun.append((self._thread.submit(drawing.gather), drawing.last))

    def wait(self) -> None:
        """Let the thread finish what was begun."""
        wait([sample for sample, _ in self._begun])

    def clear(self) -> None:
        """Forget the samples."""
        self.wait()
        self._begun.clear()

    def state(self) -> list[dict[str, Any]]:
        """The samples, as plain dicts.

        Raises:
            TypeError: they hold objects that can't be saved; see `to_plain`.
        """
        return [_as_dict(sample.result()) for sample, _ in self._begun]

    def __getstate__(self) -> dict[str, Any]:
        return {"count": self.count, "begun": self.state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Prefetcher.__init__(self, state["count"])
        self.load(state["begun"])

    def load(self, state: list[dict[str, Any]]) -> None:
        """Have the samples of a `state`."""
        self.clear()
        for saved in state:
            done: Future[Sample] = Future()
            done.set_result(_from_dict(saved))
            self._begun.append((done, saved["last"]))


def _as_dict(sample: Sample) -> dict[str, Any]:
    return {"data": to_plain(sample.data), "info": sample.info, "last": sample.last}


def _from_dict(saved: dict[str, Any]) -> Sample:
    return Sample(from_plain(saved["data"]), saved["info"], saved["last"])
