"""Refuse NaN and infinity in what an environment gives, where `check_finite` is set; errors say what and where."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from tensordict import LazyStackedTensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.envs.spec_leaves import Leaf

if TYPE_CHECKING:
    from specgen_runtime.envs.layout import Entry, Layout

__all__ = ["NotFiniteError", "refuse_not_finite", "refuse_not_finite_rollout"]


class NotFiniteError(FloatingPointError):
    """An observation or a reward is NaN or infinite.

    Attributes:
        key: which.
        step: of the rollout, from 0; None outside rollouts.
        index: which environment of the batch; `()` for a single one.
    """

    def __init__(
        self, where: str, leaf: Leaf, index: tuple[int, ...], value: float, step: int | None
    ) -> None:
        super().__init__(where, leaf, index, value, step)
        self.where = where
        self.leaf = leaf
        self.key = leaf.key
        self.index = index
        self.value = value
        self.step = step

    def __str__(self) -> str:
        step = "" if self.step is None else f" at step {self.step}"
        environment = f" of environment {list(self.index)}" if self.index else ""
        return f"{self.where}: {self.leaf}{environment}{step} must be finite, found {self.value}"

    def at(self, step: int) -> NotFiniteError:
        """The same, at a step of a rollout."""
        return NotFiniteError(self.where, self.leaf, self.index, self.value, step)


def refuse_not_finite(
    layout: Layout, tensordict: TensorDictBase, entries: Iterable[Entry], method: str
) -> None:
    """Look for NaN and infinity in floating-point entries.

    Args:
        layout: of the environment, for the message.
        tensordict: its batch dimensions may be followed by others, such as time.
        entries: where to look.
        method: where the data are from, for the message.

    Raises:
        NotFiniteError: naming the first key, and the environment.
    """
    for e in entries:
        if e.dtype is None or not e.dtype.is_floating_point:
            continue
        value = e.leaf.find(tensordict)
        if isinstance(value, Tensor) and not value.is_nested and not bool(torch.isfinite(value).all()):
            index, found = _first(value, len(e.leaf.batch_of(tensordict.batch_size)))
            raise NotFiniteError(f"{layout.env}.{method}", e.leaf, index, found, None)


def refuse_not_finite_rollout(layout: Layout, rollout: TensorDictBase) -> None:
    """Look for NaN and infinity in a rollout `[*batch, T]`: once over all steps, step by step if something is found.

    Raises:
        NotFiniteError: naming the first step, the key and the environment.
    """
    time = rollout.batch_dims - 1
    observed = layout.observation.entries
    following = observed + layout.reward.entries
    stacked = isinstance(rollout, LazyStackedTensorDict) or any(e.leaf.items for e in following)
    if not stacked:
        try:
            refuse_not_finite(layout, rollout, observed, "rollout")
            refuse_not_finite(layout, rollout.get("next"), following, "rollout")
        except NotFiniteError:
            pass
        else:
            return
    for t, step in enumerate(rollout.unbind(time)):
        try:
            refuse_not_finite(layout, step, observed, "_reset")
            refuse_not_finite(layout, step.get("next"), following, "_step")
        except NotFiniteError as error:
            raise error.at(t) from None


def _first(value: Tensor, batch_ndim: int) -> tuple[tuple[int, ...], float]:
    """The first element that is not finite: which environment it is of, and what it is."""
    place = torch.nonzero(~torch.isfinite(value))[0]
    return tuple(place[:batch_ndim].tolist()), float(value[tuple(place)])
