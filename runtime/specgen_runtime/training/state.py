"""The state of a training as values that `torch.load(weights_only=True)` reads, and back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from tensordict import is_tensor_collection
from torch import Tensor

from specgen_runtime.data.plain_values import from_plain, to_plain

__all__ = ["global_random_state", "plain_state", "restored_state", "set_global_random_state"]

_TENSORDICT = "__tensordict__"
_PLAIN = (type(None), bool, int, float, str, torch.Size, torch.dtype, torch.device)


def plain_state(state: Any, path: str = "") -> Any:
    """A state as tensors, numbers, text, and dicts, lists and tuples of them; tensordicts are described.

    NumPy's numbers become Python's.

    Args:
        state: what a `state_dict` gave.
        path: where it is in the whole state, for messages.

    Raises:
        TypeError: it holds something else; the message says where.
    """
    if isinstance(state, Tensor):
        whole = state.detach()
        # torch saves all of the memory that a tensor is a part of
        return whole.clone() if whole.untyped_storage().nbytes() > whole.nbytes else whole
    if is_tensor_collection(state):
        return {_TENSORDICT: to_plain(state.detach())}
    if isinstance(state, Mapping):
        entries = [(key, plain_state(value, f"{path}.{key}".lstrip("."))) for key, value in state.items()]
        if isinstance(state, OrderedDict):  # a module's, which has the versions of its layers beside it
            plain: OrderedDict[Any, Any] = OrderedDict(entries)
            plain.__dict__.update(state.__dict__)
            return plain
        return dict(entries)
    if type(state) in (list, tuple):
        return type(state)(plain_state(value, f"{path}[{place}]") for place, value in enumerate(state))
    if isinstance(state, np.bool_ | np.number):
        return state.item()
    if type(state) in _PLAIN:
        return state
    raise TypeError(
        f"the state of the training holds an object of class {type(state).__name__} at {path or 'its root'}, which"
        " can't be saved: tensors, tensordicts, numbers, text, and lists, tuples and dicts of them can"
    )


def restored_state(plain: Any) -> Any:
    """The state that `plain_state` was given."""
    if isinstance(plain, dict):
        if plain.keys() == {_TENSORDICT}:
            return from_plain(plain[_TENSORDICT])
        restored = type(plain)((key, restored_state(value)) for key, value in plain.items())
        if isinstance(plain, OrderedDict):
            restored.__dict__.update(plain.__dict__)
        return restored
    if type(plain) in (list, tuple):
        return type(plain)(restored_state(value) for value in plain)
    return plain


def global_random_state() -> dict[str, Any]:
    """The states of torch's global generators: of the CPU, and of all CUDA devices that were used."""
    used: Any = torch.cuda.is_initialized
    return {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all() if used() else []}


def set_global_random_state(state: Mapping[str, Any]) -> None:
    """Set what `global_random_state` gave; the states of devices that are not here are left out."""
    torch.set_rng_state(state["cpu"])
    for index, device in enumerate(state["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(device, index)
