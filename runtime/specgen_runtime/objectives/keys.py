"""The renamable tensordict keys of a loss, and reading entries with errors that say what is missing."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, cast

from tensordict import NonTensorData, NonTensorStack, TensorDictBase, is_tensor_collection
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn

from specgen_runtime.envs.packing import peek
from specgen_runtime.typing import NestedKey


def accepted_names(accepted: type) -> tuple[str, ...]:
    """The names that ``set_keys`` takes for an ``_AcceptedKeys`` class, in the order of declaration.

    Both dataclass fields and plain class attributes count: ``action = "action"`` without an annotation is not a
    dataclass field, yet whoever writes it means it as one.
    """
    names: dict[str, None] = {}
    for cls in reversed(accepted.__mro__[:-1]):
        for name in [*inspect.get_annotations(cls), *vars(cls)]:
            if not name.startswith("_") and not callable(vars(cls).get(name)):
                names[name] = None
    return tuple(names)


def checked_key(value: object, *, owner: str) -> NestedKey:
    """``value`` if it is a tensordict key: a non-empty string, or a non-empty tuple of them. A list of one key is that key.

    Raises:
        ValueError: if it is anything else; ``owner`` says whose key it is.
    """
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, str) and value:
        return value
    if isinstance(value, tuple) and value and all(isinstance(part, str) and part for part in value):
        return value if len(value) > 1 else value[0]
    raise ValueError(f"{owner} must be a string or a tuple of strings, got {value!r}")


def checked_updates(
    accepted: type,
    updates: Mapping[str, Any],
    *,
    owner: str,
    unknown_error: type[Exception] = ValueError,
    defaults: object = None,
) -> dict[str, Any]:
    """The attributes to set for ``set_keys(**updates)``; nothing is set if one of them is wrong.

    Args:
        accepted: the ``_AcceptedKeys`` class.
        updates: role to key; ``None`` restores the default.
        owner: the name of the class whose keys they are, for messages.
        unknown_error: what is raised for a role that is not accepted.
        defaults: what holds the defaults, if they are not those of the class.

    Raises:
        ValueError: if a key is not a tensordict key.
        unknown_error: if a role is not accepted.
    """
    names = accepted_names(accepted)
    unknown = [name for name in updates if name not in names]
    if unknown:
        raise unknown_error(
            f"{owner}.set_keys does not accept {', '.join(map(repr, unknown))}. Accepted keys are: {', '.join(names)}"
        )
    defaults = accepted() if defaults is None else defaults
    return {
        name: getattr(defaults, name)
        if value is None
        else checked_key(value, owner=f"{owner}.set_keys({name}=...)")
        for name, value in updates.items()
    }


def flat_name(key: NestedKey) -> str:
    """The keyword under which a key is passed when a loss is called with tensors: ``next_observation``."""
    return key if isinstance(key, str) else "_".join(key)


def language_wrapping(module: object, *, scores: bool = True) -> str:
    """How a language model of `transformers` becomes one that reads and writes tensordicts; empty for other things.

    Args:
        module: what may be one.
        scores: whether it is to score, or as it acts.
    """
    if not hasattr(module, "generation_config"):
        return ""
    words = ", generate=False" if scores else ""
    return f"wrap it, specgen_runtime.llm.TransformersWrapper(model, tokenizer=tokenizer{words})"


def with_keys(module: nn.Module, name: str) -> TensorDictModuleBase:
    """The network, if it is one that reads and writes tensordicts.

    Raises:
        TypeError: if it has no ``in_keys`` or ``out_keys``.
    """
    if not (hasattr(module, "in_keys") and hasattr(module, "out_keys")):
        raise TypeError(
            f"{name} must be a module that reads and writes tensordicts, got {type(module).__name__}, which has no "
            f"in_keys and out_keys: {language_wrapping(module) or 'wrap it in a TensorDictModule'}"
        )
    return cast("TensorDictModuleBase", module)


def required(tensordict: TensorDictBase, key: NestedKey, *, owner: str, role: str) -> Tensor:
    """The tensor under ``key``.

    Raises:
        KeyError: if there is none, naming ``owner``, the ``role`` of the key and the keys that are there.
        ValueError: if its rows are of different lengths.
    """
    value = entry_if_there(tensordict, key, owner=owner, role=role)
    if isinstance(value, Tensor):
        return value
    if value is not None:
        raise KeyError(f"{owner}: {role} {key!r} should be a tensor, found {type(value).__name__}")
    raise KeyError(f"{owner}: {role} {key!r} is not in the tensordict; it holds {listed(tensordict)}")


def entry_if_there(tensordict: TensorDictBase, key: NestedKey, *, owner: str, role: str) -> object:
    """The entry under ``key``; None if there is none.

    Raises:
        ValueError: if its rows are of different lengths, naming ``owner`` and the ``role`` of the key.
    """
    try:
        return cast("object", peek(tensordict, key))
    except RuntimeError as error:  # of rows that do not stack
        raise ValueError(
            f"{owner}: {role} {key!r} has rows of different lengths; losses read one tensor: pad them"
        ) from error


def listed(tensordict: TensorDictBase) -> str:
    """The leaf keys of a tensordict, for messages."""
    keys: Iterable[NestedKey] = tensordict.keys(True, True, is_leaf=_is_leaf)
    return ", ".join(sorted((repr(key) for key in keys), key=str)) or "nothing"


def _is_leaf(kind: type) -> bool:
    return issubclass(kind, NonTensorData | NonTensorStack) or not is_tensor_collection(kind)


def agents_of(keys: object) -> NestedKey | None:
    """The group of agents in which the values of actions stand, by the keys of a loss; None at the root."""
    for role in ("state_action_value", "action_value"):
        key = getattr(keys, role, None)
        if isinstance(key, tuple) and len(key) > 1:
            return key[:-1] if len(key) > 2 else key[0]
    return None


def agent_dims(tensordict: TensorDictBase, agents: NestedKey) -> int:
    """How many dimensions the batch size of a group has beyond that of the data.

    Raises:
        KeyError: if the data hold no such group.
    """
    group = tensordict.get(agents, None)
    if not isinstance(group, TensorDictBase):
        raise KeyError(f"the group {agents!r} is not in the tensordict; it holds {listed(tensordict)}")
    return int(group.batch_dims - tensordict.batch_dims)
