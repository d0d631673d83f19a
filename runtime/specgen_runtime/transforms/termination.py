"""`TerminateTransform`: ends episodes where a function says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.keys import leaf_name
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.keys import root_most
from specgen_runtime.typing import NestedKey

__all__ = ["TerminateTransform"]


class TerminateTransform(Transform):
    """Raises `terminated` after each step where a function of what it returned is true.

    Args:
        stop: takes what a step returned; a truth value, or a tensor of them: one for each row, or with more dimensions,
            as one for each agent of a row. A flag is raised where any of those that it stands for is true.
        write_done: raise `done` too.

    Raises:
        TypeError: `stop` can't be called.
        ValueError: at a step: what it returns does not fit the flags.
    """

    def __init__(self, stop: Callable[[TensorDictBase], Any], *, write_done: bool = True) -> None:
        if not callable(stop):
            raise TypeError(f"stop is a function of a tensordict, got {stop!r}")
        super().__init__(in_keys=[])
        self.stop = stop
        self.write_done = write_done

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        said = self.stop(next_tensordict)
        raised = torch.as_tensor(said, device=next_tensordict.device).bool()
        for key in self._keys():
            flag: Tensor | None = next_tensordict.get(key, None)
            if flag is not None:
                next_tensordict.set(key, flag | _fitted(raised, flag, next_tensordict.batch_dims))
        return next_tensordict

    def _keys(self) -> list[NestedKey]:
        env = self.parent
        keys: list[NestedKey] = ["terminated"] if env is None else env.done_keys
        return root_most([key for key in keys if leaf_name(key) == "terminated"])

    def _derives_done(self) -> bool:
        return self.write_done

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        raise NotImplementedError(
            "TerminateTransform ends episodes of an environment: recorded ones have ended already"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({getattr(self.stop, '__name__', self.stop)})"


def _fitted(raised: Tensor, flag: Tensor, batch_dims: int) -> Tensor:
    """What was said, in the shape of a flag: repeated where it has fewer dimensions, joined where it has more."""
    while batch_dims <= raised.ndim < flag.ndim:
        raised = raised.unsqueeze(-1)
    while raised.ndim > flag.ndim:
        raised = raised.any(-1)
    for dim in range(-1, -raised.ndim - 1, -1):
        if flag.shape[dim] == 1 and raised.shape[dim] != 1:
            raised = raised.any(dim, keepdim=True)
    try:
        return raised.expand(flag.shape)
    except RuntimeError:
        raise ValueError(
            f"TerminateTransform: stop returned the shape {list(raised.shape)}, and the flags are {list(flag.shape)}"
        ) from None
