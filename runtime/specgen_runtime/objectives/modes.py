"""The modes in which losses compute: how distributions are read, recurrent networks, and where draws come from."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from tensordict.nn import set_interaction_type

from specgen_runtime.interop.torchrl_recurrent import torchrl_recurrent_mode
from specgen_runtime.modules.recurrent.mode import set_recurrent_mode
from specgen_runtime.random_state import drawing_from

L = TypeVar("L")
P = ParamSpec("P")
R = TypeVar("R")


class over_sequences:  # noqa: N801
    """Within it, recurrent networks read sequences whose last batch dimension is time: ours, and TorchRL's if loaded."""

    __slots__ = ("_ours", "_torchrls")

    def __init__(self) -> None:
        self._ours = set_recurrent_mode(True)
        self._torchrls = torchrl_recurrent_mode()

    def __enter__(self) -> None:
        self._ours.__enter__()
        # torch.compile can't enter a context of no effect that is not in a `with` statement
        if self._torchrls is not None:
            self._torchrls.__enter__()

    def __exit__(self, *error: object) -> None:
        if self._torchrls is not None:
            self._torchrls.__exit__(None, None, None)
        self._ours.__exit__(None, None, None)


def in_loss_modes(method: Callable[Concatenate[L, P], R]) -> Callable[Concatenate[L, P], R]:
    """The method in the modes of a loss: its `deterministic_sampling_mode`, its ``generator``, networks over sequences."""

    @functools.wraps(method)
    def run(self: L, /, *args: P.args, **kwargs: P.kwargs) -> R:
        loss: Any = self
        mode = set_interaction_type(loss.deterministic_sampling_mode)
        with mode, over_sequences(), drawing_from(loss.generator):
            return method(self, *args, **kwargs)

    return run


def run_in_loss_modes(cls: type) -> None:
    """Make `forward` and the public methods of ``cls`` whose names end in ``loss`` run in the modes of losses.

    Methods that other classes define are left alone: those of losses are wrapped there.
    """
    for name, method in list(vars(cls).items()):
        named = name == "forward" or (name.endswith("loss") and not name.startswith("_"))
        if named and inspect.isfunction(method):
            setattr(cls, name, in_loss_modes(method))
