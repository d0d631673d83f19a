"""Calls a function of a tensordict with a tensordict, with tensors in order, or with tensors by keyword."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase, is_tensor_collection
from torch import Tensor, nn

from specgen_runtime.transforms.keys import as_tuple
from specgen_runtime.typing import NestedKey

__all__ = ["call_with"]


def call_with(
    transform: nn.Module,
    run: Callable[[TensorDictBase], TensorDictBase],
    keys: Callable[[], tuple[Sequence[NestedKey], Sequence[NestedKey]]],
    data: tuple[Any, ...],
    tensors: dict[str, Any],
) -> Any:
    """Call `run`, which draws from the generator that is given as `generator`, by default from torch's.

    Args:
        transform: what is called; what it consists of draws from the generator, too.
        run: from a tensordict to a tensordict.
        keys: tells what it reads and what it writes; asked only where there are tensors.
        data: a tensordict, or tensors in the order of the keys that are read.
        tensors: instead, the inputs under their key's name (nested keys joined by ``_``), or ``tensordict``; and
            ``generator``.

    Returns:
        What `run` returns; for tensors the entries that are written (one tensor, or a tuple).

    Raises:
        TypeError: for what is no tensordict, keywords that are no input's name, or an input that is given twice.
    """
    generator = tensors.get("generator")
    if isinstance(generator, torch.Generator):
        given = {name: value for name, value in tensors.items() if name != "generator"}
        with _drawing_from(transform, generator):
            return call_with(transform, run, keys, data, given)
    whole = [tensors["tensordict"]] if not data and tensors.keys() == {"tensordict"} else list(data)
    if len(whole) == 1 and (not data or (not tensors and not isinstance(data[0], Tensor))):
        if not is_tensor_collection(whole[0]):
            raise TypeError(
                f"{type(transform).__name__} takes a tensordict or tensors, got {type(whole[0]).__name__}"
            )
        return run(whole[0])
    in_keys, out_keys = keys()
    names = {"_".join(as_tuple(key)): key for key in in_keys}
    given = {**dict(zip(names, data, strict=False)), **tensors}
    unknown = [each for each in given if each not in names]
    if unknown or not given or len(given) < len(data) + len(tensors):
        found = (
            ", ".join(map(repr, unknown)) or f"{len(data)} tensors and {', '.join(tensors) or 'no keywords'}"
        )
        raise TypeError(
            f"{type(transform).__name__} takes a tensordict or the keywords {', '.join(names) or '(none)'}, got {found}"
        )
    result = run(TensorDict({names[each]: value for each, value in given.items()}, []))
    outputs = tuple(result.get(key) for key in out_keys)
    return outputs[0] if len(outputs) == 1 else outputs


@contextmanager
def _drawing_from(transform: nn.Module, generator: torch.Generator) -> Iterator[None]:
    parts = list(transform.modules())
    for part in parts:
        part.__dict__["_generator"] = generator
    try:
        yield
    finally:
        for part in parts:
            del part.__dict__["_generator"]
