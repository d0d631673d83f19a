"""`Run`: the folder of a training — its counters, its log, its checkpoints."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from tensordict import TensorDictBase

from specgen_runtime.collectors.trajectories import frames_in
from specgen_runtime.training.checkpoints import Checkpoints, SavesItself
from specgen_runtime.training.episode_returns import EpisodeReturns
from specgen_runtime.training.folder_lock import FolderLock, FolderUsedError, made_folder
from specgen_runtime.training.interrupts import Interrupts
from specgen_runtime.training.loggers import Logger, make_loggers
from specgen_runtime.training.metric_means import MetricMeans, lost_losses, read_numbers
from specgen_runtime.training.progress import Progress
from specgen_runtime.training.run_config import (
    ConfigChangedError,
    changed_fields,
    plain_config,
    read_config,
    write_config,
)
from specgen_runtime.training.run_log import RunLog
from specgen_runtime.training.state import global_random_state, set_global_random_state
from specgen_runtime.typing import NestedKey

__all__ = ["Run", "Stateful"]

_CONFIG, _LOG = "config.json", "log.csv"
_ALWAYS_FREE = frozenset({"total_frames", "total_updates"})
_NO_NUMBER = (
    ": what is learned from here on is lost. Smaller step sizes may help, or gradients that are clipped"
)


class Stateful(Protocol):
    """What has a state that a checkpoint holds: the parts of a training, together."""

    def state_dict(self) -> dict[str, Any]:
        """All that the training goes on from."""

    def load_state_dict(self, state: Mapping[str, Any], /) -> Any:
        """Restore what `state_dict` gave."""


class Run:
    """A training in a folder: it counts, logs, saves and resumes.

    ```python
    with Run(folder, config, parts, total_frames=200_000, resume=resume) as run:
        while run.frames < 200_000:
            run.count(batch)
            run.add(metrics)
            if run.due("evaluate", 4_000):
                run.log(evaluation=evaluation)
            if run.due("checkpoint", 20_000):
                run.save()
        run.save()
    ```

    The folder holds `config.json`, `log.csv` and the last checkpoints. A resumed training goes on from the last one bit
    by bit: from `parts.state_dict()`, the buffers, the counters and torch's global generators. Rows of the log behind it
    are cut.

    Ctrl-C is answered at the next `due("checkpoint", ...)`, which is then true, and by the `save` after it, which ends
    the process with exit code 130. A second Ctrl-C ends it at once, with the last checkpoint as it is.

    Args:
        folder: where everything is kept; it is made.
        config: the hyper-parameters: a dataclass, a NamedTuple or a mapping, of numbers, text and lists of them.
        parts: what the training consists of.
        total_frames: how many frames there will be, for `progress` and the bar; None if updates are counted.
        total_updates: how many updates there will be.
        resume: go on from the last checkpoint in `folder`, if there is one; if not, begin.
        buffers: replay buffers, by name: each is saved in a folder of the checkpoint and is not in `parts.state_dict()`.
        may_change: fields of `config` that a resumed training may change, such as rates and intervals. `total_frames` and
            `total_updates` may always change. Changes are noted in `config.json`.
        keep: how many checkpoints stay.
        returns: columns of the log with the mean return of the episodes that ended, and the key in `"next"` of each; where
            data lack it, the `reward` beside it is summed.
        done: the key in `"next"` that says that an episode is over.
        loggers: where rows go besides the CSV file: `"tensorboard"`, `"wandb"`.
        progress: whether a bar (in a terminal) or lines are shown on stderr.

    Attributes:
        frames: frames that were counted.
        updates: how often `add` was called.
        best: the best evaluation so far, which the loop sets; -inf at first. It is kept in checkpoints.

    Raises:
        FolderUsedError: on entering, if the folder holds a run, and `resume` is False, or where a file is in its place.
        FolderInUseError: on entering, if another training writes to the folder. One that was killed does not.
        ConfigChangedError: on entering, if a field that may not change differs from the run's.
    """

    def __init__(
        self,
        folder: str | Path,
        config: Any,
        parts: Stateful,
        *,
        total_frames: int | None = None,
        total_updates: int | None = None,
        resume: bool = False,
        buffers: Mapping[str, SavesItself] | None = None,
        may_change: Collection[str] = (),
        keep: int = 2,
        returns: Mapping[str, NestedKey] | None = None,
        done: NestedKey = "done",
        loggers: Sequence[str] = (),
        progress: bool = True,
    ) -> None:
        if total_frames is None and total_updates is None:
            raise ValueError("Run needs total_frames or total_updates")
        self.folder = Path(folder)
        self.frames = 0
        self.updates = 0
        self.best = float("-inf")
        self.total_frames = total_frames
        self.total_updates = total_updates
        self._parts = parts
        self._buffers = dict(buffers or {})
        self._config = plain_config(config)
        self._may_change = _ALWAYS_FREE | frozenset(may_change)
        self._resume = resume
        self._keep = keep
        self._logger_names = tuple(loggers)
        self._shows_progress = progress
        self._returns = EpisodeReturns({"return": "episode_reward"} if returns is None else returns, done)
        self._metrics = MetricMeans()
        self._last_due: dict[str, int] = {}
        self._saved_counters: tuple[int, int, int, float] | None = None
        self._interrupts = Interrupts()
        self._loggers: list[Logger] = []
        self._lost = False

    # begin and end

    def __enter__(self) -> Self:
        self._lock = FolderLock(made_folder(self.folder))
        try:
            self._begin()
        except BaseException:
            self._lock.release()
            raise
        self._interrupts.install()
        return self

    def _begin(self) -> None:
        """Begin, or go on from the last checkpoint."""
        if not self._resume and ((self.folder / _CONFIG).exists() or (self.folder / _LOG).exists()):
            raise FolderUsedError(
                f"{self.folder} holds a run already: resume it (resume=True, --resume), or choose another folder"
            )
        self._checkpoints = Checkpoints(self.folder, self._keep)
        resumed = self._checkpoints.last is not None
        changed = self._changed_config() if resumed else {}
        rows = self._load() if resumed else 0
        begun_anew = self._resume and not resumed and (self.folder / _LOG).exists()
        self._loggers = make_loggers(self._logger_names, self.folder, self._config, self._counted, resumed)
        self._store_config(changed, resumed)
        self._log = RunLog(self.folder / _LOG, rows)
        self._seconds_before = self._log.last.get("seconds", 0.0)
        self._began = time.monotonic()
        self._last_log = (self._counted, self._began)
        total = self.total_updates if self.total_frames is None else self.total_frames
        unit = "updates" if self.total_frames is None else "frames"
        self._progress = Progress(total, unit, self._counted, self._shows_progress)
        if begun_anew:
            self._progress.note(f"no checkpoint was written in {self.folder}: it begins anew")
        if resumed:
            self._progress.note(f"resumed {self.folder} at {self._counted} {unit}")
            for name, (old, new) in changed.items():
                self._progress.note(f"{name} was {old!r}, is {new!r} from here on")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._interrupts.remove()
        self._progress.close()
        if kind is None:
            unit = "updates" if self.total_frames is None else "frames"
            learned = "" if self.updates else ", without an update: nothing was learned"
            self._progress.note(f"ended at {self._counted} {unit}, in {self.folder}{learned}")
        for logger in self._loggers:
            logger.close()
        self._lock.release()

    def _changed_config(self) -> dict[str, tuple[Any, Any]]:
        """The fields that differ from the run's, with both values; those that may not are refused."""
        stored = read_config(self.folder / _CONFIG)["config"]
        changed = changed_fields(stored, self._config)
        refused = {name: pair for name, pair in changed.items() if name not in self._may_change}
        if refused:
            raise ConfigChangedError(self.folder, refused, stored, self._config)
        return changed

    def _store_config(self, changed: Mapping[str, tuple[Any, Any]], resumed: bool) -> None:
        changes = read_config(self.folder / _CONFIG)["changes"] if resumed else []
        if changed:
            changes.append({"frames": self.frames, "updates": self.updates, "fields": dict(changed)})
        if changed or not resumed:
            write_config(self.folder / _CONFIG, self._config, changes)

    # counters

    @property
    def seconds(self) -> float:
        """Seconds of training so far, those before a resume included (up to the last row of the log)."""
        return self._seconds_before + time.monotonic() - self._began

    @property
    def fraction(self) -> float:
        """How much of the training is behind, in [0, 1]: of the frames or the updates, whichever is further."""
        of_frames = 0.0 if self.total_frames is None else self.frames / self.total_frames
        of_updates = 0.0 if self.total_updates is None else self.updates / self.total_updates
        return min(max(of_frames, of_updates), 1.0)

    @property
    def _counted(self) -> int:
        return self.updates if self.total_frames is None else self.frames

    def count(self, batch: TensorDictBase) -> None:
        """Count the frames of a batch of transitions and the returns of the episodes that end in it.

        Args:
            batch: of any batch size; each of its elements is a frame, but those that ``("collector", "mask")`` leaves
                out. Where it holds several steps of each environment and no returns, its dimension of time is named
                `"time"`.

        Raises:
            KeyError: it lacks the done flags, or both returns and rewards.
        """
        frames = frames_in(batch)
        self.frames += frames
        self._returns.add(batch)
        if self.total_frames is not None:
            self._progress.update(frames)

    def note(self, name: str, number: Any) -> None:
        """Keep a number for the next row of the log, which has the mean of those of this name.

        Args:
            name: the column.
            number: a number, or a tensor of one element, which is not read before it is logged.
        """
        self._metrics.add({name: number})

    def add(self, metrics: Any) -> None:
        """Count an update, and keep its metrics for the next row of the log, which has their means.

        Args:
            metrics: a NamedTuple, a mapping or a tensordict of tensors or numbers. They are not read before they are
                logged, so that nothing waits for a device.

        Raises:
            TypeError: it is none of these.
        """
        self.updates += 1
        self._metrics.add(metrics)
        if self.total_frames is None:
            self._progress.update(1)

    def due(self, name: str, every: int, *, count: int | None = None) -> bool:
        """Whether something that is done every so many frames is to be done now.

        Args:
            name: what it is. `"checkpoint"` is due after Ctrl-C as well.
            every: the frames between two times (> 0). It is due where a multiple of it was reached since the last time,
                and when the training is over.
            count: what is counted in place of frames, such as `run.updates`; the end of the training does not count.

        Raises:
            ValueError: `every` is not positive.
        """
        if every < 1:
            raise ValueError(f"due({name!r}): every must be at least 1, found {every}")
        now = self._counted if count is None else count
        last = self._last_due.get(name, 0)
        ends = count is None and self.fraction >= 1 and now > last
        if ends or now // every > last // every:
            self._last_due[name] = now
            return True
        return name == "checkpoint" and self._interrupts.caught

    # log

    def log(self, **numbers: Any) -> dict[str, float]:
        """Write a row: counters, these numbers, and means since the last row of returns and metrics.

        Args:
            **numbers: numbers, or tensors of one element. All tensors are read at once.

        Returns:
            The row: `frames`, `updates`, `seconds`, `frames_per_second` (or `updates_per_second`), `episodes` and
            `return` if episodes ended, the metrics' means, and `numbers`.

        Raises:
            TypeError: a value is no number.
        """
        returns, metrics = self._returns.take(), self._metrics.take()
        read = read_numbers(
            {
                **{f"returns/{name}": value for name, value in returns.items()},
                **{f"metrics/{name}": value for name, (value, _) in metrics.items()},
                **{f"numbers/{name}": value for name, value in numbers.items()},
            }
        )
        now = time.monotonic()
        counted, then = self._last_log
        rate = (self._counted - counted) / max(now - then, 1e-9)
        self._last_log = (self._counted, now)
        unit = "updates" if self.total_frames is None else "frames"
        row: dict[str, float] = {
            "frames": self.frames,
            "updates": self.updates,
            "seconds": round(self.seconds, 3),
            f"{unit}_per_second": round(rate, 1),
        }
        if returns:
            episodes = row["episodes"] = read["returns/episodes"]
            if episodes:
                row.update({name: read[f"returns/{name}"] / episodes for name in self._returns.keys})
        row.update({name: read[f"metrics/{name}"] / count for name, (_, count) in metrics.items()})
        row.update({name: read[f"numbers/{name}"] for name in numbers})
        self._log.add(row)
        shown = {name: value for name, value in row.items() if name not in ("frames", "updates", "seconds")}
        self._progress.show(shown)
        if not self._lost and (lost := lost_losses(row, metrics)):
            self._lost = True
            self._progress.note(f"{lost} at {self._counted} {unit}{_NO_NUMBER}")
        for logger in self._loggers:
            logger.log(row, self._counted)
        return row

    # checkpoints

    def save(self) -> Path:
        """Write a checkpoint; see `Checkpoints`. After Ctrl-C the process ends behind it.

        Nothing is written where nothing was counted, added or logged since the last one.

        Returns:
            Its folder.

        Raises:
            OSError: it can't be written. The one before stays.
            TypeError: the state of the parts holds what can't be saved; the message says where.
        """
        self._log.sync()
        counters = (self.frames, self.updates, self._log.rows, self.best)
        if counters == self._saved_counters and self._counted:
            assert self._checkpoints.last is not None
            self._interrupts.exit()
            return self._checkpoints.last
        state = {
            "parts": self._parts.state_dict(),
            "random": global_random_state(),
            "frames": self.frames,
            "updates": self.updates,
            "best": float(self.best),
            "due": dict(self._last_due),
            "returns": self._returns.state_dict(),
            "metrics": self._metrics.state_dict(),
            "rows": self._log.rows,
        }
        saved = self._checkpoints.save(self._counted, state, self._buffers)
        self._saved_counters = counters
        self._interrupts.exit()
        return saved

    def _load(self) -> int:
        """Go on from the last checkpoint; returns how many rows of the log are before it."""
        state = self._checkpoints.load(self._buffers)
        self._parts.load_state_dict(state["parts"])
        self.frames, self.updates, self.best = state["frames"], state["updates"], state["best"]
        self._last_due = dict(state["due"])
        self._returns.load_state_dict(state["returns"])
        self._metrics.load_state_dict(state["metrics"])
        set_global_random_state(state["random"])
        return int(state["rows"])
