"""Takes the parameters of a network as tensordicts: expanded for ensembles, detached, copied for targets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from numbers import Real
from typing import cast

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase, TensorDictParams
from torch import Tensor, nn

from specgen_runtime.envs.keys import as_tuple
from specgen_runtime.params import (
    Limits,
    NumberRange,
    check_range,
    element,
    float_param,
    int_param,
    wrong_type,
)
from specgen_runtime.typing import NestedKey


def take_parameters(
    module: nn.Module | Sequence[nn.Module],
    *,
    name: str,
    expand_dim: int | None,
    compare_against: Iterable[nn.Parameter] | None,
) -> TensorDictParams:
    """The parameters and buffers of ``module``, as `LossModule.convert_to_functional` documents.

    Args:
        module: one module, or ``expand_dim`` modules of the same structure, whose parameters are stacked.
        name: the name of the network, for messages.
        expand_dim: number of copies along a new first dimension; parameters are drawn anew, uniformly between the
            minimum and the maximum of the original, buffers are repeated.
        compare_against: parameters that belong to another network: those are detached instead.

    Raises:
        TypeError: if ``module`` is not an `nn.Module` (or a list of them).
        ValueError: if ``expand_dim`` is not a positive integer, or if a parameter has not been initialised.
        RuntimeError: if a list of modules does not have ``expand_dim`` of them.
        KeyError: if the name of a parameter holds a dot.
    """
    if expand_dim is not None and (
        isinstance(expand_dim, bool) or not isinstance(expand_dim, int) or expand_dim < 1
    ):
        raise ValueError(f"{name}: expand_dim must be a positive integer or None, got {expand_dim!r}")
    foreign = {id(parameter) for parameter in compare_against or ()}
    if isinstance(module, (list, tuple)):
        return _stacked(module, foreign, name=name, expand_dim=expand_dim)
    if not isinstance(module, nn.Module):
        raise TypeError(f"{name} must be an nn.Module, got {type(module).__name__}")
    for path, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if nn.parameter.is_lazy(tensor):
            raise ValueError(f"{name}: '{path}' is not initialised yet; call the module once on data before")
    params = TensorDict.from_module(module)
    for key in params.keys(True):
        if any("." in part for part in as_tuple(key)):
            raise KeyError(f"{name}: the parameter {key!r} has a dot in its name, rename it")

    def taken(tensor: Tensor) -> Tensor:
        if id(tensor) in foreign:
            return tensor.data if expand_dim is None else tensor.data.expand(expand_dim, *tensor.shape)
        if expand_dim is None:
            return tensor
        expanded = tensor.data.expand(expand_dim, *tensor.shape).clone()
        if not isinstance(tensor, nn.Parameter):
            return expanded
        low, high = tensor.data.min().item(), tensor.data.max().item()
        return nn.Parameter(expanded.uniform_(low, high), requires_grad=tensor.requires_grad)

    batch_size = [] if expand_dim is None else [expand_dim]
    return TensorDictParams(
        params.apply(taken, batch_size=batch_size, filter_empty=False),
        no_convert=True,
    )


def target_parameters(params: TensorDictParams) -> TensorDictParams:
    """A copy of ``params`` as buffers: part of the state dict, not of the parameters, without gradients."""
    return TensorDictParams(
        params.apply(lambda tensor: tensor.data.clone(), filter_empty=False), no_convert=True
    )


def bind(module: nn.Module, params: TensorDictBase) -> None:
    """Put the tensors of ``params`` in the place of the parameters and buffers of ``module``.

    The module computes with these very tensors from then on, so that updating them in place is seen.
    """
    recurrent: set[nn.RNNBase] = set()
    for key, tensor in params.items(True, True):
        path = as_tuple(key)
        owner = module.get_submodule(".".join(path[:-1]))
        if path[-1] in owner._parameters:
            owner._parameters[path[-1]] = tensor
        else:
            owner._buffers[path[-1]] = tensor
        if isinstance(owner, nn.RNNBase):
            recurrent.add(owner)
    for rnn in recurrent:
        # Recurrent modules keep a second list of their weights, and compute with that one.
        rnn._flat_weights = [getattr(rnn, weight, None) for weight in rnn._flat_weights_names]


def without_gradients(params: TensorDictBase) -> TensorDictBase:
    """The same tensors without gradients, which `params` may change between a forward and its backward pass."""
    try:
        return params.data
    except RuntimeError:  # inside torch.vmap
        return params.detach()


def own_tensors(module: nn.Module) -> dict[int, Tensor]:
    """The parameters and buffers of ``module`` by identity: a `copy.deepcopy` memo that shares them."""
    return {
        id(tensor): tensor
        for owner in module.modules()
        for tensor in [*owner._parameters.values(), *owner._buffers.values()]
        if tensor is not None
    }


def meta_tensors(module: nn.Module) -> dict[int, Tensor]:
    """A `copy.deepcopy` memo that replaces the parameters and buffers of ``module`` by ones without storage."""
    return {
        key: nn.Parameter(tensor.detach().to("meta"), requires_grad=tensor.requires_grad)
        if isinstance(tensor, nn.Parameter)
        else tensor.detach().to("meta")
        for key, tensor in own_tensors(module).items()
    }


def _stacked(
    modules: Sequence[nn.Module], foreign: Collection[int], *, name: str, expand_dim: int | None
) -> TensorDictParams:
    if len(modules) != expand_dim:
        raise RuntimeError(
            f"{name}: {len(modules)} modules were given, and expand_dim={expand_dim}; they must be as many"
        )
    for module in modules:
        if not isinstance(module, nn.Module):
            raise TypeError(f"{name} must be a list of nn.Module, found {type(module).__name__} in it")
    stacked = TensorDictParams(
        TensorDict.from_modules(*modules, as_module=True, expand_identical=len(modules) > 1), no_convert=True
    )
    for key, tensor in common_parameters(modules).items():
        if id(tensor) in foreign:
            stacked.set(key, tensor.data.expand(len(modules), *tensor.shape))
    return stacked


def common_parameters(modules: Sequence[nn.Module]) -> dict[NestedKey, Tensor]:
    """The parameters that are one and the same in all of ``modules``, by their keys."""
    first, *others = [dict(TensorDict.from_module(module).items(True, True)) for module in modules]
    return {key: tensor for key, tensor in first.items() if all(other[key] is tensor for other in others)}


def device_of(tensors: Iterable[Tensor]) -> torch.device | None:
    """The device that all ``tensors`` share; None if there is none, or several."""
    devices = {tensor.device for tensor in tensors}
    return devices.pop() if len(devices) == 1 else None


def copy_values(mine: TensorDictBase, theirs: TensorDictBase, *, name: str) -> None:
    """Copy the values of ``theirs`` into the tensors of ``mine``, in place.

    Raises:
        RuntimeError: if names, shapes or dtypes differ; nothing is copied then.
    """
    here = dict(mine.items(True, True))
    there = dict(theirs.items(True, True))
    if here.keys() != there.keys():
        raise RuntimeError(
            f"{name}: the parameters differ: only the loss has {sorted(map(str, here.keys() - there.keys()))}, "
            f"only the module has {sorted(map(str, there.keys() - here.keys()))}"
        )
    for key, tensor in here.items():
        other = there[key]
        if tensor.shape != other.shape or tensor.dtype != other.dtype:
            raise RuntimeError(
                f"{name}: {key!r} is {tensor.dtype} {tuple(tensor.shape)} in the loss and "
                f"{other.dtype} {tuple(other.shape)} in the module"
            )
    with torch.no_grad():
        for key, tensor in here.items():
            tensor.copy_(there[key])


def network_buffer(loss: nn.Module, network: str, name: str) -> Tensor:
    """The buffer ``name`` of the module that a loss was given for a network.

    Raises:
        RuntimeError: if it has none.
    """
    params = getattr(loss, f"{network}_params")
    held = params if params is not None else getattr(loss, network)
    value = held.get(name, None) if params is not None else getattr(held, name, None)
    if not isinstance(value, Tensor):
        raise RuntimeError(
            f"{type(loss).__name__}: {network} has no buffer {name!r}, which this loss reads; a module with one is made by "
            f"register_buffer({name!r}, ...)"
        )
    return value


def coefficient(
    name: str, value: object, *, device: torch.device | str | None, dtype: torch.dtype | None
) -> Tensor:
    """A coefficient as a tensor of one element.

    Raises:
        ValueError: if it is not one number.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, Tensor)):
        raise ValueError(f"{name} must be a number or a scalar tensor, got {value!r}")
    tensor = torch.as_tensor(value, device=device, dtype=dtype)
    if tensor.numel() != 1:
        raise ValueError(f"{name} must be one number, got a tensor of shape {tuple(tensor.shape)}")
    return tensor


def network_of_target(name: str) -> str | None:
    """The network of target parameters that are called ``name``, in either way; None if that is no name of such."""
    if name.startswith("target_") and name.endswith("_params"):
        return name.removeprefix("target_").removesuffix("_params")
    return name.removesuffix("_target_params") if name.endswith("_target_params") else None


def assigned_number(
    name: str, held: object, buffer: Tensor | None, value: object, given: NumberRange
) -> object:
    """What an attribute that is a number of a loss becomes.

    Args:
        name: of the attribute, for messages.
        held: what it is now, where it is no buffer; None if there is nothing.
        buffer: what it is now, where it is a buffer.
        value: what is assigned; a tensor is left to buffers and parameters.
        given: its range.

    Raises:
        TypeError: if it is no number, or None where a number has to be, or a fraction where a whole number is held.
        ValueError: if it is outside its range, or has another shape than the buffer and more than one number.
    """
    if value is None and given.get("optional", False):
        return None
    limits = cast("Limits", {key: bound for key, bound in given.items() if key != "optional"})
    if isinstance(held, (int, float)) and not isinstance(held, bool):
        read = int_param if isinstance(held, int) else float_param
        return read(name, value, **limits)
    if not isinstance(value, Tensor):
        value = element(name, value)
        if isinstance(value, bool) or not isinstance(value, Real):
            raise wrong_type(name, "a real number", value)
        value = element(name, np.asarray(value))  # a buffer takes none of NumPy's
    elif value.dtype is torch.bool or value.is_complex():
        raise TypeError(f"{name} must be a real number, got a tensor of dtype {value.dtype}")
    elif buffer is not None and value.numel() != 1 and value.shape != buffer.shape:
        raise ValueError(
            f"{name} must be one number, or of the shape {list(buffer.shape)}, got {list(value.shape)}"
        )
    check_range(name, value, value, limits)
    if (
        isinstance(value, Tensor) and not value.is_floating_point()
    ):  # which would round what it is filled with later
        return value.to(torch.get_default_dtype() if buffer is None else buffer.dtype)
    return value
