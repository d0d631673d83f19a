"""Language models under `torch.autocast`: the body in a lower precision, the head in that of its parameters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

__all__ = ["autocasting", "states_as_stored"]


@contextmanager
def autocasting(model: nn.Module, head: nn.Module | None, dtype: torch.dtype | None) -> Iterator[None]:
    """Have the matrix products of a model in a lower precision, but for its head.

    Logits of 8 binary digits would make log-probabilities that are off by hundredths, and other ones when tokens are
    drawn than when they are scored.

    Args:
        model: the causal model, whose parameters stay as they are.
        head: what makes its logits of hidden states; None if it does not say so, then the logits are as the rest.
        dtype: of the products; None to run the model as it is.
    """
    if dtype is None:
        yield
        return
    with torch.autocast(next(model.parameters()).device.type, dtype=dtype):
        if head is None:
            yield
            return
        with _as_stored(model, head):
            yield


def states_as_stored(model: nn.Module, states: Tensor) -> Tensor:
    """Hidden states in the dtype that they have where nothing is in a lower precision: that of embeddings."""
    embeddings: nn.Module = model.get_input_embeddings()  # type: ignore[operator]
    return states.to(next(embeddings.parameters()).dtype)


_lock = threading.Lock()
_inside: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()
"""How many calls, of several threads, have a head run outside of the lower precision."""


@contextmanager
def _as_stored(model: nn.Module, head: nn.Module) -> Iterator[None]:
    """Have a head run outside of the lower precision, until the last one that asked for it has ended."""
    with _lock:
        _inside[head] = _inside.get(head, 0) + 1
        if _inside[head] == 1:
            own = vars(head).get("forward")
            head.__dict__["forward"] = _Outside(model, head.forward, own)
    try:
        yield
    finally:
        with _lock:
            _inside[head] -= 1
            if not _inside[head]:
                outside: _Outside = head.__dict__.pop("forward")
                if outside.own is not None:
                    head.__dict__["forward"] = outside.own


class _Outside:
    """The forward of a head outside of autocast, and the one that it had of its own."""

    def __init__(self, model: nn.Module, forward: Callable[..., Any], own: Callable[..., Any] | None) -> None:
        self.model, self.forward, self.own = model, forward, own

    def __call__(self, states: Tensor, *further: Any, **keywords: Any) -> Any:
        with torch.autocast(states.device.type, enabled=False):
            return self.forward(states_as_stored(self.model, states), *further, **keywords)
