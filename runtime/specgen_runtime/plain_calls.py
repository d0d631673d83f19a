"""Calls of tensordict modules past what is wrapped around their `forward`, where that does nothing.

Around each `forward`, `torch.nn` looks for hooks, and tensordict for tensors in place of a tensordict and for outputs that
need not be computed again. For networks of the usual size and batches of some rows that takes as long as the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule
from tensordict.nn.utils import skip_existing
from torch import Tensor, nn
from torch.nn import functional

__all__ = [
    "TensorFunction",
    "flat_call",
    "in_place",
    "is_ordinary_call",
    "is_plain",
    "of_tensors",
    "passes_tensors",
    "run",
]

_PLAIN = (
    nn.ELU, nn.GELU, nn.Hardtanh, nn.Identity, nn.LayerNorm, nn.LeakyReLU, nn.ReLU, nn.SiLU, nn.Sigmoid, nn.Softmax,
    nn.Softplus, nn.Tanh,
)  # fmt: skip
"""Modules whose `forward` can be called by itself."""


@dataclass(frozen=True, slots=True)
class TensorFunction:
    """A tensordict module as a function of tensors.

    Attributes:
        in_keys: what it reads.
        out_keys: what it writes.
        call: from what stands under `in_keys` to what it writes, a tuple in the order of `out_keys`.
    """

    in_keys: tuple[Any, ...]
    out_keys: tuple[Any, ...]
    call: Callable[..., tuple[Any, ...]]


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


def of_tensors(module: Any) -> TensorFunction | None:
    """What `in_place` does, as a function of tensors; None where calling the module is more than that."""
    keys = tuple(module.out_keys_source)
    if not is_plain(module) or not passes_tensors(module) or module.inplace is not True or "_" in keys:
        return None
    network, in_keys = module.module, tuple(module.in_keys)
    called = flat_call(network) if len(in_keys) == 1 else network

    def call(*values: Any) -> tuple[Any, ...]:
        result = called(*values)
        if type(result) is Tensor:
            result = (result,)
        if type(result) is tuple and len(result) == len(keys):
            return result
        outputs = module(TensorDict(dict(zip(in_keys, values, strict=True)), []))
        return tuple([outputs.get(key) for key in keys])

    return TensorFunction(in_keys, keys, call)


def flat_call(module: Any) -> Callable[..., Any]:
    """The function that a module computes, past what `nn.Module` does around `forward`, where that is nothing."""
    if not isinstance(module, nn.Module) or not is_plain(module):
        called: Callable[..., Any] = module
        return called
    parts = list(_parts(module))
    if not parts:
        return module
    first, *further = parts
    if not further:
        return first

    def call(*values: Any) -> Any:
        result = first(*values)
        for part in further:
            result = part(result)
        return result

    return call


def _parts(module: nn.Module) -> Iterable[Callable[..., Any]]:
    """The functions that a module calls one after the other."""
    if not is_plain(module):
        yield module
    elif type(module) is nn.Sequential or getattr(module, "calls_layers_in_order", False):
        for part in module.children():
            yield from _parts(part)
    elif type(module) is nn.Linear:
        yield _linear(module.weight, module.bias)
    elif type(module) in _PLAIN:
        yield module.forward
    else:
        yield module


def _linear(weight: torch.Tensor, bias: torch.Tensor | None) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: functional.linear(x, weight, bias)
