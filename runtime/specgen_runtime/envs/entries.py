"""Reading and writing single entries on the hot path, where tensordict's own ways look everything up again."""

from __future__ import annotations

from typing import Any

from tensordict import TensorDict, TensorDictBase

from specgen_runtime.typing import NestedKey

__all__ = ["holds", "peek", "put"]


def holds(tensordict: Any, name: str) -> bool:
    """Whether a plain tensordict has an entry; False of anything else."""
    return type(tensordict) is TensorDict and name in tensordict._tensordict


def peek(tensordict: TensorDictBase, key: NestedKey) -> Any:
    """An entry as `get` gives it, or None if there is none; several times cheaper for plain tensordicts."""
    if type(tensordict) is not TensorDict:
        return tensordict.get(key, None)
    if isinstance(key, str):
        return tensordict._tensordict.get(key)
    found: Any = tensordict
    for name in key:
        if type(found) is not TensorDict:
            return None if found is None else tensordict.get(key, None)
        found = found._tensordict.get(name)
    return found


def put(tensordict: TensorDictBase, key: NestedKey, value: Any) -> None:
    """Write an entry that is a tensor of the right batch size and device, or is compared with its spec later."""
    if isinstance(key, str) and type(tensordict) is TensorDict and not tensordict.is_locked:
        tensordict._tensordict[key] = value
    else:
        tensordict.set(key, value)
