"""The loop of random rollouts of Gymnasium environments: nothing but Gymnasium, and one array for all observations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Any

import numpy as np

from specgen_runtime.envs.gym.row_format import RowFormat
from specgen_runtime.envs.gym.source import GymSource

__all__ = ["StepRecorder"]

_NEVER = sys.maxsize


class StepRecorder:
    """Steps Gymnasium environments side by side; each step of each of them is a row.

    Rows are in the order of stepping: the first step of all environments, then the second of all, and so on.

    Args:
        sources: the environments.
        form: how observations are kept.
        max_steps: the most steps.
        stops: whether the recording stops when an episode ends, after the other environments' steps. Otherwise a new
            episode begins at once, unless there are no more steps.
        first_end: after how many steps the episodes end that have begun already, whatever Gymnasium says; None is never.
        named: whether notes of exceptions tell which environment they are from.

    Attributes:
        steps: how many were taken.
        over: whether the last one ended an episode, and the recording with it.
        rewards: as Gymnasium gave them.
    """

    def __init__(
        self,
        sources: Sequence[GymSource],
        form: RowFormat,
        max_steps: int,
        *,
        stops: bool,
        first_end: int | None = None,
        named: bool = False,
    ) -> None:
        count = len(sources)
        self._sources, self._form, self._stops = sources, form, stops
        self._most = max_steps * count
        self._rows = form.rows(self._most)
        self._named = named
        self._at = 0
        self._ends: list[tuple[int, bool, bool]] = []
        # By environment: what takes a step; whether the time limit's steps are counted here; the last row until the
        # time limit, and until another end.
        self._steps: list[Any] = [None] * count
        self._counts = [False] * count
        self._limits = [_NEVER] * count
        self._given_ends = [
            _NEVER if first_end is None else place + (first_end - 1) * count for place in range(count)
        ]
        self._counted = [0] * count
        self.steps, self.over = 0, False
        self.rewards: list[Any] = []

    @property
    def rows(self) -> Any:
        """The observations, as `form` keeps them."""
        return self._rows[: self._at]

    def flags(self) -> tuple[Any, Any]:
        """`terminated` and `truncated` of all rows: bool `(rows, 1)`."""
        terminated, truncated = np.zeros((self._at, 1), np.bool_), np.zeros((self._at, 1), np.bool_)
        for row, ended, cut in self._ends:
            terminated[row], truncated[row] = ended, cut
        return terminated, truncated

    def take(self, actions: Sequence[Any], begin: Callable[[int, int], int | None]) -> None:
        """Take Gymnasium's actions, those of all environments for each step.

        Args:
            actions: of several steps.
            begin: called with the place of an environment and the row of its next step when an episode is to begin:
                resets, and returns what `first_end` is for it.

        Raises:
            ValueError: an observation is not in its space.
            Exception: what an environment raises.
        """
        form, rows, rewards, count = self._form, self._rows, self.rewards, len(self._sources)
        written, width = form.written(rows)
        admit, keep = form.admit, rewards.append
        at, end = self._at, self._at + len(actions)
        queue = iter(actions)
        for place in range(count):
            self._enter(place, at)
        pairs = zip(cycle(self._steps), queue, strict=False)
        resets = -1
        try:
            while at < end:
                if at == len(rows):
                    rows = self._rows = form.more(rows, self._most)
                    written, width = form.written(rows)
                last = min(map(min, self._limits, self._given_ends))
                for step, action in islice(pairs, min(end, len(rows), last + 1) - at):
                    observation, reward, terminated, truncated, _info = step(action)
                    try:
                        written[at * width : at * width + width] = observation
                    except (TypeError, ValueError, BufferError):
                        rows[at] = admit(observation)
                    keep(reward)
                    at += 1
                    if terminated or truncated:
                        break
                row = at - 1
                place = row % count
                if not (terminated or truncated or row == last):
                    continue
                if terminated or truncated or row == self._limits[place]:
                    self._ends.append((row, bool(terminated), bool(truncated) or row == self._limits[place]))
                self._leave(place, at)
                self._given_ends[place] = _NEVER
                if self._stops:
                    self.over, end = True, row - place + count
                elif row - place + count < self._most:
                    resets = place
                    following = begin(place, row + count)
                    resets = -1
                    if following is not None:
                        self._given_ends[place] = row + following * count
                    if self._enter(place, at):
                        pairs = zip(
                            cycle([*self._steps[place + 1 :], *self._steps[: place + 1]]), queue, strict=False
                        )
        except Exception as error:
            if self._named:
                error.add_note(f"in environment {at % count if resets < 0 else resets} of {count}")
            raise
        finally:
            self._at, self.steps = at, at // count
            for place in range(count):
                self._leave(place, at)

    def _enter(self, place: int, at: int) -> bool:
        """Step an environment past its time limit from here on; whether by another function than before."""
        count, source, known = len(self._sources), self._sources[place], self._counts[place]
        if known:  # the wrappers are those of the episode before
            left: int | None = source.steps_left()
        else:
            self._steps[place], left = source.inner_stepper()
            self._counts[place] = left is not None
        taken = (at - place + count - 1) // count
        self._counted[place] = taken
        self._limits[place] = _NEVER if left is None else place + (taken + left - 1) * count
        return not known

    def _leave(self, place: int, at: int) -> None:
        """Tell an environment's time limit what was counted here."""
        count = len(self._sources)
        if self._limits[place] != _NEVER:
            taken = (at - place + count - 1) // count
            self._sources[place].count(taken - self._counted[place])
            self._counted[place], self._limits[place] = taken, _NEVER
