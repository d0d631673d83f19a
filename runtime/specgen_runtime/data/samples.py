"""The samples of a replay buffer: what was drawn is read and transformed, some of it ahead of time by a thread."""

from __future__ import annotations

import copy
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from threading import RLock
from typing import Any, NamedTuple

import torch
from tensordict import is_tensor_collection

from specgen_runtime.data.parts import positive
from specgen_runtime.data.plain_values import from_plain, to_plain
from specgen_runtime.data.rows import RowData
from specgen_runtime.random_state import generator_of, load_generator, plain_generator
from specgen_runtime.transforms import Compose

__all__ = ["Drawing", "Sample", "Samples"]


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
        read: gives its rows, before the transforms.
        info: what is known of it.
        last: whether the sampler ran out with it.
    """

    read: Callable[[], RowData]
    info: dict[Any, Any]
    last: bool


class _Begun(NamedTuple):
    """A sample that is made ahead.

    Attributes:
        sample: what comes of it.
        last: whether the sampler ran out with it.
        make: makes it.
    """

    sample: Future[Sample]
    last: bool
    make: Callable[[], Sample]


class Samples:
    """Makes samples of what is drawn, in this order; so many of them ahead of time.

    Elements are drawn by the caller, read and transformed by one thread: what is sampled does not depend on which is faster.

    Args:
        transform: of samples, and with `inv` of what comes in.
        batch_size: how many elements a sample has; None: `next` is told.
        ahead: how many samples are made ahead; 0: none, and no thread.
        pin_memory: whether samples are copied to pinned memory.

    Attributes:
        generator: what transforms draw from; None: torch's own.
        pass_ended: whether whoever asks for one sample after the other was given the last one of a pass.
    """

    def __init__(self, transform: Compose, batch_size: int | None, ahead: int, pin_memory: bool) -> None:
        if ahead < 0:
            raise ValueError(f"prefetch is a number of samples, got {ahead}")
        self.transform = transform
        self.batch_size = None if batch_size is None else positive("batch_size", batch_size)
        self.ahead = ahead
        self.pin_memory = pin_memory
        self.generator: torch.Generator | None = None
        self.pass_ended = False
        self._begun: deque[_Begun] = deque()
        self._start()

    def _start(self) -> None:
        """Begin in this process, with a lock and a thread of its own; behind a fork with what the other one has begun."""
        self._process = os.getpid()
        self._held = RLock()
        self._thread = thread = ThreadPoolExecutor(1, "replay_buffer") if self.ahead else None
        if thread is not None:
            self._begun = deque(
                one if one.sample.done() else one._replace(sample=thread.submit(one.make))
                for one in self._begun
            )

    @property
    def _lock(self) -> RLock:
        if self._process != os.getpid():
            self._start()
        return self._held

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Nothing is drawn, read or transformed meanwhile: for whoever changes what is sampled from."""
        with self._lock:
            if self._begun:
                wait([one.sample for one in self._begun])
            yield

    # ------------------------------------------------------------------ samples

    def next(self, draw: Callable[[int], Drawing], batch_size: int | None = None) -> Sample:
        """The next sample; those behind it are drawn and begun.

        Args:
            draw: draws so many elements.
            batch_size: how many; None: as many as all samples have.

        Raises:
            RuntimeError: there is no number.
            TypeError, ValueError: it is no positive number; samples of another number are made ahead.
        """
        size = self.batch_size if batch_size is None else positive("batch_size", batch_size)
        if size is None:
            raise RuntimeError("give `sample`, or the replay buffer, a batch_size")
        if self.ahead and size != self.batch_size:
            raise ValueError(
                f"samples of {self.batch_size} are prefetched, one of {size} was asked for: leave out batch_size"
            )
        if self.batch_size not in (None, size):
            warnings.warn(
                f"the replay buffer's batch_size is {self.batch_size}, this sample's is {size}", stacklevel=3
            )
        with self._lock:
            if self._thread is None and not (self._begun and size == self.batch_size):
                return self._making(draw(size))()
            if not self._begun:
                self._begin(draw(size))
            first = self._begun.popleft()
            # Behind the last sample of a pass nothing is drawn before it is asked for: rows may change between passes.
            while len(self._begun) < self.ahead and not (self._begun[-1] if self._begun else first).last:
                self._begin(draw(size))
            return first.sample.result()

    def _begin(self, drawing: Drawing) -> None:
        assert self._thread is not None  # there is something to make ahead
        make = self._making(drawing)
        self._begun.append(_Begun(self._thread.submit(make), drawing.last, make))

    def _making(self, drawing: Drawing) -> Callable[[], Sample]:
        make = self.transforming(drawing.read, ahead=bool(self.ahead))
        return lambda: Sample(make(), drawing.info, drawing.last)

    def clear(self) -> None:
        """Forget the samples that were made ahead, and the pass."""
        with self.idle():
            self._begun.clear()
            self.pass_ended = False

    # --------------------------------------------------------------- transforms

    def transforming(self, read: Callable[[], RowData], *, ahead: bool) -> Callable[[], RowData]:
        """What transforms, and pins, the rows that `read` gives; `ahead`: in a thread."""
        generator, seed = self.generator, None
        if ahead and generator is not None and len(self.transform):
            # The thread has a generator of its own: it must not draw from one while a sampler does.
            seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))

        def made() -> RowData:
            data = read()
            if len(self.transform):
                own = generator
                if generator is not None and seed is not None:
                    own = torch.Generator(generator.device).manual_seed(seed)
                data = _applied(self.transform, data, own)
                if data is None:
                    raise TypeError(
                        f"a transform of samples gave None, and not a tensordict: {self.transform}"
                    )
            return data.pin_memory() if self.pin_memory else data

        return made

    def transformed(self, data: RowData) -> RowData:
        """Rows after the transforms; those that are given stay as they are."""
        if not len(self.transform):
            return data
        with self.idle():  # the thread runs the same transforms
            return _applied(self.transform, copy.copy(data), self.generator)

    def inverted(self, data: RowData) -> RowData:
        """What comes in after the transforms' `inv`; None if they hold it back."""
        if not len(self.transform):
            return data
        with self.idle():
            return _applied(self.transform.inv, data, self.generator)

    # -------------------------------------------------------------------- state

    def state_dict(self) -> dict[str, Any]:
        """The state of the transforms and of the generator, and the samples that were made ahead, as plain values.

        Raises:
            TypeError: samples hold objects that can't be saved; see `to_plain`.
        """
        generator = self.generator
        with self.idle():
            return {
                "_transforms": self.transform.state_dict(),
                "_batch_size": self.batch_size,
                "_pass_ended": self.pass_ended,
                "_prefetched": [_as_dict(one.sample.result()) for one in self._begun],
                "_rng": None if generator is None else (generator.get_state(), str(generator.device)),
            }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on with a `state_dict`; there is a generator then if there was one."""
        with self.idle():
            self.transform.load_state_dict(state_dict["_transforms"])
            if self.batch_size is None:
                self.batch_size = state_dict["_batch_size"]
            same = self.batch_size == state_dict["_batch_size"]
            self._begun = _done(state_dict["_prefetched"]) if same else deque()
            self.pass_ended = state_dict["_pass_ended"]
            if state_dict["_rng"] is not None:
                state, device = state_dict["_rng"]
                self.generator = torch.Generator(device) if self.generator is None else self.generator
                load_generator(self.generator, state)

    @contextmanager
    def kept_on_error(self) -> Iterator[None]:
        """Let transforms, samples that were made ahead and the generator be as they were, where something raises."""
        transforms = copy.deepcopy(self.transform.state_dict())
        others = self.batch_size, self._begun, self.pass_ended, self.generator
        drawn = None if self.generator is None else self.generator.get_state()
        try:
            yield
        except BaseException:
            self.transform.load_state_dict(transforms)
            self.batch_size, self._begun, self.pass_ended, self.generator = others
            if self.generator is not None and drawn is not None:
                self.generator.set_state(drawn)
            raise

    def __getstate__(self) -> dict[str, Any]:
        with self.idle():
            return {
                "made": (self.transform, self.batch_size, self.ahead, self.pin_memory),
                "begun": [_as_dict(one.sample.result()) for one in self._begun],
                "generator": plain_generator(self.generator),
                "pass_ended": self.pass_ended,
            }

    def __setstate__(self, state: dict[str, Any]) -> None:
        Samples.__init__(self, *state["made"])
        self._begun = _done(state["begun"])
        self.generator = generator_of(state["generator"])
        self.pass_ended = state["pass_ended"]


def _applied(apply: Callable[..., Any], data: RowData, generator: torch.Generator | None) -> RowData:
    """Data after a transform's `forward` or `inv`, which draws from a generator."""
    if not is_tensor_collection(data):
        raise TypeError(
            f"transforms read entries by their key, and this replay buffer holds {type(data).__name__}s: use tensordicts"
        )
    return apply(data) if generator is None else apply(data, generator=generator)


def _as_dict(sample: Sample) -> dict[str, Any]:
    return {"data": to_plain(sample.data), "info": sample.info, "last": sample.last}


def _done(saved: list[dict[str, Any]]) -> deque[_Begun]:
    """Samples of their dicts, as if a thread had made them."""
    begun: deque[_Begun] = deque()
    for each in saved:
        future: Future[Sample] = Future()
        future.set_result(Sample(from_plain(each["data"]), each["info"], each["last"]))
        begun.append(_Begun(future, each["last"], future.result))
    return begun
