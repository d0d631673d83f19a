"""`VectorSource`: a vectorised Gymnasium environment whose transitions are those of its single environments.

Gymnasium's vector environments reset what is over in three ways. `DISABLED`: when told to. `SAME_STEP`: at once, so
that `step` returns the first observation of the next episode and hides the last one in the info. `NEXT_STEP`: at
the following step, which then ignores the action. Here all three give the last observation as `"next"`, and start
the next episode where `reset` asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specgen_runtime.envs.gym.info import LAST_STEP
from specgen_runtime.specs.gymnasium import import_gymnasium
from specgen_runtime.specs.stacks.values import join

__all__ = ["VectorSource", "is_vector"]

Entries = dict[str, Any]


def is_vector(env: Any) -> bool:
    """Whether an environment is one of Gymnasium's vector environments."""
    if not hasattr(env, "num_envs"):
        return False
    return isinstance(env, import_gymnasium().vector.VectorEnv)


class VectorSource:
    """A vectorised environment: seeds for its resets, and what its automatic resets mixed up put right.

    Args:
        env: a `gymnasium.vector.VectorEnv`.
        encode: from its observations to entries `(n, ...)`.
        encode_one: from an observation of a single environment to its entries.
        missing: what stands for a last observation that the environment does not tell.

    Raises:
        RuntimeError: the environment is known to mix up its automatic resets.
    """

    def __init__(
        self, env: Any, encode: Callable[[Any], Entries], encode_one: Callable[[Any], Entries], missing: Any
    ) -> None:
        self.env = env
        self.count: int = env.num_envs
        self._encode, self._encode_one, self._missing = encode, encode_one, missing
        inner = env.unwrapped
        mode = getattr(inner, "autoreset_mode", None) or env.metadata.get("autoreset_mode")
        self.mode: str = getattr(mode, "name", "") or str(mode)
        vector = import_gymnasium().vector
        self._masks = (
            self.mode == "DISABLED"
            or isinstance(inner, vector.SyncVectorEnv | vector.AsyncVectorEnv)
            or bool(env.metadata.get("reset_mask"))  # as `to_gymnasium` says of its vectors
        )
        if self.mode == "NEXT_STEP" and not getattr(inner, "shared_memory", True):
            raise RuntimeError(
                "AsyncVectorEnv without shared memory resets twice what is reset by hand, if its autoreset mode is"
                " NEXT_STEP; make it with autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED"
            )
        self.seeds: list[int | None] = [None] * self.count
        self._over = np.zeros(self.count, dtype=np.bool_)
        self._waiting: tuple[Entries, Any] | None = None
        self._waits = np.zeros(self.count, dtype=np.bool_)

    @property
    def over(self) -> Any:
        """Which environments ended and were not reset: bool `(n,)`. Until then they stay where they are."""
        return self._over.copy()

    def check_left_out(self, rows: Any) -> None:
        """Refuse to leave out of a step what would take it all the same.

        Args:
            rows: which environments are left out, bool `(n,)`.

        Raises:
            NotImplementedError: one of them is not over.
        """
        going = rows & ~self._over
        if going.any():
            raise NotImplementedError(
                f"'_step' leaves out the environments {np.flatnonzero(going).tolist()}, but a vector environment of"
                " Gymnasium steps all that are not done; SerialEnv and ParallelEnv can step some of theirs"
            )

    def reset(self, rows: Any, kwargs: dict[str, Any]) -> tuple[Entries, Any]:
        """Start episodes.

        Args:
            rows: in which environments, bool `(n,)`; None is all of them.
            kwargs: for the environment's `reset`.

        Returns:
            Entries `(n, ...)` and the info; only the chosen rows mean something.

        Raises:
            RuntimeError: the environment cannot reset these rows alone.
        """
        if rows is None:
            result = self._reset_all(kwargs)
            rows = np.ones(self.count, dtype=np.bool_)
        else:
            ready = rows & self._waits & np.array([seed is None for seed in self.seeds])
            if kwargs or self._waiting is None:
                ready[:] = False
            if (ready == rows).all():
                assert self._waiting is not None
                result = self._waiting
            else:
                result = self._reset_rows(rows & ~ready, kwargs)
                if ready.any():
                    assert self._waiting is not None
                    result = _mixed(result, self._waiting, ready)
        self._over &= ~rows
        self._waits &= ~rows
        return result

    def _reset_all(self, kwargs: dict[str, Any]) -> tuple[Entries, Any]:
        kwargs = self._seeded(np.ones(self.count, dtype=np.bool_), kwargs)
        observation, info = self.env.reset(**kwargs)
        return self._encode(observation), info

    def _reset_rows(self, rows: Any, kwargs: dict[str, Any]) -> tuple[Entries, Any]:
        if rows.all():
            return self._reset_all(kwargs)
        if not self._masks:
            raise RuntimeError(
                f"{self.env} cannot reset {np.flatnonzero(rows).tolist()} alone: it is a"
                f" {type(self.env.unwrapped).__name__} whose autoreset mode is {self.mode}; make it with"
                " autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED, or SAME_STEP and reset what is done"
            )
        kwargs = self._seeded(rows, kwargs)
        kwargs["options"] = {**(kwargs.get("options") or {}), "reset_mask": rows.copy()}
        observation, info = self.env.reset(**kwargs)
        return self._encode(observation), info

    def _seeded(self, rows: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments of a reset with the seeds that were set, once."""
        seeds = [seed if row else None for seed, row in zip(self.seeds, rows, strict=True)]
        self.seeds = [None if row else seed for seed, row in zip(self.seeds, rows, strict=True)]
        if kwargs.get("seed") is not None or all(seed is None for seed in seeds):
            return dict(kwargs)
        return {**kwargs, "seed": seeds}

    def step(self, action: Any) -> tuple[Entries, Any, Any, Any, Any]:
        """Take a step in all environments.

        Returns:
            Entries `(n, ...)`, rewards, both flags `(n,)`, and the info. What they say of an environment that was
            over already means nothing.
        """
        if self._over.any() and self.mode == "DISABLED":
            # It may not be stepped; what it does now is not looked at.
            self.env.reset(options={"reset_mask": self._over.copy()})
        observation, reward, terminated, truncated, info = self.env.step(action)
        entries = self._encode(observation)
        ended = np.asarray(terminated, dtype=np.bool_) | np.asarray(truncated, dtype=np.bool_)
        if self.mode == "SAME_STEP":
            first, first_info = entries, info
            if ended.any():
                last = info.get("final_obs", [None] * self.count)
                entries = self._with_last(entries, {at: last[at] for at in np.flatnonzero(ended).tolist()})
                info = {**_with_last_info(info, ended), **_last(info)}
                self._waiting = first, _without_last(first_info)
            self._waits = ended & ~self._over
        self._over = self._over | ended
        return entries, reward, terminated, truncated, info

    def _with_last(self, entries: Entries, last: dict[int, Any]) -> Entries:
        """Entries with the last observation of some environments in their rows."""
        rows = {
            at: None if observation is None else self._encode_one(observation)
            for at, observation in last.items()
        }
        return _with_rows(entries, rows, self._missing)


def _with_rows(entries: Entries, rows: dict[int, Any], missing: Any) -> Entries:
    """Entries `(n, ...)` with other values in some rows; a row of None is filled with `missing`."""
    result: Entries = {}
    for name, column in entries.items():
        parts = {at: None if row is None else row[name] for at, row in rows.items()}
        if isinstance(column, dict):
            result[name] = _with_rows(column, parts, missing)
        elif isinstance(column, Tensor) and not column.is_nested:
            column = column.clone()
            for at, part in parts.items():
                column[at] = _filler(column, missing) if part is None else part
            result[name] = column
        else:
            values = list(column.unbind(0))
            for at, part in parts.items():
                values[at] = values[at] if part is None else part
            result[name] = join(values, 0)
    return result


def _filler(column: Tensor, missing: Any) -> Tensor:
    """What stands for a value that is not known; NaN has no place among integers."""
    value = torch.as_tensor(missing)
    if not column.is_floating_point() and value.is_floating_point() and bool(value.isnan().any()):
        value = torch.zeros(())
    return value.to(column.device, column.dtype)


def _with_last_info(info: Mapping[str, Any], rows: Any) -> dict[str, Any]:
    """The info of a step, with that of the last step in the rows whose own is that of a reset."""
    return _mixed_info(_without_last(info), info.get("final_info") or {}, rows)


def _without_last(info: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in info.items() if name not in LAST_STEP}


def _last(info: Mapping[str, Any]) -> dict[str, Any]:
    """What the info says of last steps, for readers that ask for it by name."""
    return {name: value for name, value in info.items() if name in LAST_STEP}


def _mixed(one: tuple[Entries, Any], other: tuple[Entries, Any], rows: Any) -> tuple[Entries, Any]:
    """`other` in the given rows, `one` elsewhere."""
    places = np.flatnonzero(rows).tolist()
    picked = {at: _row(other[0], at) for at in places}
    return _with_rows(one[0], picked, 0), _mixed_info(one[1], other[1], rows)


def _row(entries: Entries, at: int) -> Entries:
    return {
        name: _row(column, at) if isinstance(column, dict) else column[at] for name, column in entries.items()
    }


def _mixed_info(one: Mapping[str, Any], other: Mapping[str, Any], rows: Any) -> dict[str, Any]:
    """Infos row by row; rows that one of them does not tell are zeros."""
    result: dict[str, Any] = {}
    for name in [*one, *(name for name in other if name not in one)]:
        first, second = one.get(name), other.get(name)
        if isinstance(first, Mapping) or isinstance(second, Mapping):
            result[name] = _mixed_info(first or {}, second or {}, rows)
            continue
        example = np.asarray(second if first is None else first)
        column = np.zeros_like(example) if first is None else np.array(first)
        column[rows] = np.zeros_like(example)[rows] if second is None else np.asarray(second)[rows]
        result[name] = column
    return result
