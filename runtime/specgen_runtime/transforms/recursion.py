"""Recursions over recorded data, from one end of each episode to the other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NoReturn

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.keys import next_key, show_key
from specgen_runtime.transforms.bound import Row
from specgen_runtime.transforms.columns import Columns
from specgen_runtime.transforms.generated import GeneratedTransform
from specgen_runtime.transforms.keys import as_tuple, normal_key, without_next
from specgen_runtime.transforms.offline import time_dimension
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.specs import Composite

__all__ = ["RecordedTimes", "RecursionTransform"]


class RecordedTimes:
    """Recorded data with time in front, and where their episodes end.

    Args:
        tensordict: transitions.
        time: the dimension that is time.
        done_key: the flag that ends an episode. Plain text is looked up from the root to the level of each key.
        backward: whether the recursion begins at the end.
        columns: the entries that are read without their trailing 1.

    Attributes:
        rows: the batch size of one moment.
    """

    def __init__(
        self,
        tensordict: TensorDictBase,
        time: int,
        done_key: NestedKey,
        backward: bool,
        columns: Collection[NestedKey] = (),
    ) -> None:
        self._tensordict = tensordict
        self._time = time
        self.rows = torch.Size([*tensordict.shape[:time], *tensordict.shape[time + 1 :]])
        self._done_key = done_key
        self._backward = backward
        self._columns = columns

    def now(self, key: NestedKey) -> Tensor:
        """An entry at the root.

        Raises:
            KeyError: if it is missing.
        """
        return self._as_read(key, self._entry(as_tuple(key)))

    def following(self, key: NestedKey) -> Tensor:
        """An entry under ``"next"``.

        Raises:
            KeyError: if it is missing.
        """
        return self._as_read(key, self._entry(next_key(key)))

    def _as_read(self, key: NestedKey, value: Tensor) -> Tensor:
        return value.squeeze(-1) if key in self._columns else value

    def done(self, key: NestedKey) -> Tensor:
        """Where the episode that an entry belongs to ends.

        Raises:
            KeyError: if no flag says so.
        """
        levels = range(len(as_tuple(key))) if isinstance(self._done_key, str) else (0,)
        for depth in levels:
            place = ("next", *as_tuple(key)[:depth], *as_tuple(self._done_key))
            if self._tensordict.get(place, None) is not None:
                return self._entry(place)
        return self._entry(next_key(self._done_key))

    def ends(self, key: NestedKey, shape: torch.Size) -> Tensor:
        """As `done`, with as many dimensions as an entry of this shape, time in front.

        Raises:
            ValueError: the flags are of other rows than the entry, such as those of agents for what is the team's.
        """
        done = self.done(key)
        aligned = done
        while aligned.ndim > len(shape) and aligned.shape[-1] == 1:
            aligned = aligned.squeeze(-1)
        while aligned.ndim < len(shape):
            aligned = aligned.unsqueeze(-1)
        fits = (size in (1, wanted) for size, wanted in zip(aligned.shape, shape, strict=False))
        if aligned.ndim > len(shape) or not all(fits):
            raise ValueError(
                f"{show_key(key)} {list(shape)} has no end of its own for each {self._done_key!r} {list(done.shape)}, time"
                " first: give the done_key of its level"
            )
        return aligned

    def restarts(self, key: NestedKey, like: Tensor, dims: int | None = None) -> Tensor:
        """Where the recursion begins anew, with the number of dimensions of `like`, an entry, or `dims` behind the rows."""
        done = self.ends(key, like.shape if dims is None else like.shape[: 1 + len(self.rows) + dims])
        if self._backward:
            return done
        return torch.cat([torch.ones_like(done[:1]), done[:-1]])

    def _entry(self, place: tuple[str, ...]) -> Tensor:
        value: Tensor | None = self._tensordict.get(place, None)
        if value is None:
            present = ", ".join(sorted(str(normal_key(key)) for key in self._tensordict.keys(True, True)))
            raise KeyError(f"{normal_key(place)!r} is not in the recorded data (they hold {present})")
        return value.movedim(self._time, 0)


class RecursionTransform(GeneratedTransform[Row]):
    """A transform of recorded data only; it can't be part of an environment.

    Args:
        in_keys: the keys that it works on, as at one moment; a leading ``"next"`` is dropped.
        out_keys: where its outputs go, at the root or under ``"next"``; by default beside what they follow, where
            the declaration says.
        done_key: the flag that ends an episode.

    Attributes:
        _at: where outputs are written.
        _backward: whether it begins at the end.
        _may_end_open: whether data may end without done.
    """

    _at: Literal["next", "root", "both"] = "next"
    _backward: bool = True
    _may_end_open: bool = False

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        done_key: NestedKey = "done",
    ) -> None:
        super().__init__(in_keys=in_keys, out_keys=out_keys)
        if self._in_keys is not None:
            self._in_keys = [without_next(key) for key in self._in_keys]
        self.done_key = normal_key(done_key)

    def _recur(self, recorded: RecordedTimes, key: Row) -> Mapping[str, Tensor]:
        """The outputs of one repetition that exist, by their fields, with time in front."""
        raise NotImplementedError

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        time = time_dimension(type(self).__name__, tensordict)
        bound = self._bound_to(tensordict)
        columns = bound._columns if bound._logical else Columns(frozenset(), frozenset())
        recorded = RecordedTimes(tensordict, time, self.done_key, self._backward, columns.read)
        places = [moment for moment in ("root", "next") if self._at in (moment, "both")]
        for row in bound.keys:
            if not tensordict.shape[time]:
                break
            if self._backward and not self._may_end_open:
                self._refuse_open_ends(recorded, row[0])
            for output, value in bound._recur(recorded, row).items():
                key = as_tuple(getattr(row, output))
                if getattr(row, output) in columns.written:
                    value = value.unsqueeze(-1)
                for place in places if self._out_keys is None else ("root",):
                    where = ("next", *key) if place == "next" else key
                    tensordict.set(where, value.movedim(0, time))
        return tensordict

    def _refuse_open_ends(self, recorded: RecordedTimes, key: NestedKey) -> None:
        ends = recorded.done(key)[-1]
        if bool(ends.all()):
            return
        first = tuple((~ends).nonzero()[0].tolist())
        raise ValueError(
            f"{type(self).__name__} needs the end of each episode, but {int((~ends).sum())} of {ends.numel()} rows "
            f"end without {self.done_key!r}, the first at {first}: cut the data behind the last end, or collect more"
        )

    def set_container(self, container: object) -> None:
        """Say which `Compose` holds this transform.

        Raises:
            ValueError: if it is an environment, or part of one.
        """
        super().set_container(container)  # type: ignore[arg-type]
        if self.container is not None:
            self.reset_parent()
            self._refuse_environment()

    def transform_input_spec(self, input_spec: Composite) -> NoReturn:
        """Refuse to be part of an environment."""
        self._refuse_environment()

    def transform_output_spec(self, output_spec: Composite) -> NoReturn:
        """Refuse to be part of an environment."""
        self._refuse_environment()

    def _refuse_environment(self) -> NoReturn:
        raise ValueError(
            f"{type(self).__name__} needs whole episodes, so it can't be part of an environment: call it on recorded data"
        )
