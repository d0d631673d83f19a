"""Calls of tensordict modules past what is wrapped around their `forward`, where that does nothing.

Around each `forward`, `torch.nn` looks for hooks, and tensordict for tensors in place of a tensordict and for outputs that
need not be computed again. For networks of the usual size and batches of some rows that takes as long as the network.
"""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from tensordict.nn.utils import skip_existing
from torch import Tensor, nn

__all__ = ["in_place", "is_ordinary_call", "is_plain", "passes_tensors", "run"]


def is_plain(module: nn.Module) -> bool:
    """Whether calling a module is calling its `forward`: it has no hooks, and nobody has set anything in its place."""
    own = vars(module)
    hooked_everywhere: Any = nn.modules.module._has_any_global_hook
    return not (
        own.get("_forward_hooks")
        or own.get("_forward_pre_hooks")
        or own.get("_backward_hooks")
        or own.get("_backward_pre_hooks")
        or own.get("_compiled_call_impl") is not None
        or "forward" in own
        or hooked_everywhere()
    )


def passes_tensors(module: TensorDictModule) -> bool:
    """Whether a module calls the one inside with its entries, in their order, and no more."""
    own = vars(module)
    return not (own.get("_kwargs") or own.get("method") or own.get("method_kwargs") or own.get("_get_kwargs"))


def is_ordinary_call(tensordict: Any, further: Any = ()) -> bool:
    """Whether `forward` was called with a tensordict and no more, and all its outputs are to be computed.

    Args:
        tensordict: its first argument.
        further: all others.
    """
    return (
        not further
        and isinstance(tensordict, TensorDictBase)
        and not torch.compiler.is_compiling()
        and not skip_existing()
    )


def run(module: Any, tensordict: TensorDictBase) -> Any:
    """What a module makes of a tensordict, in a call for which `is_ordinary_call` holds."""
    if type(module) is TensorDictModule and is_plain(module):
        return in_place(module, tensordict)
    return module(tensordict)


def in_place(module: TensorDictModule, tensordict: TensorDictBase) -> Any:
    """What `TensorDictModule.forward` does in a call for which `is_ordinary_call` holds."""
    values = [tensordict.get(key, None) for key in module.in_keys]
    for value in values:
        if type(value) is not Tensor:  # none, or of a class that means more
            return TensorDictModule.forward(module, tensordict)
    if module.inplace is not True or not passes_tensors(module):
        return TensorDictModule.forward(module, tensordict)
    try:
        result = module.module(*values)
    except Exception as error:
        error.add_note(f"{type(module).__name__} from {module.in_keys} to {module.out_keys}")
        raise
    keys = module.out_keys_source
    if type(result) is Tensor and len(keys) == 1:
        if keys[0] != "_":
            tensordict.set(keys[0], result)
        return tensordict
    if isinstance(result, (dict, TensorDictBase)) and all(key in result for key in module.out_keys):
        result = tuple(result.get(key) for key in module.out_keys)
    outputs = result if isinstance(result, tuple) else () if result is None else (result,)
    return module._write_to_tensordict(tensordict, outputs)
