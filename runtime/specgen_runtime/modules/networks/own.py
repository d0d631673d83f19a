"""Layers and mixers of one's own in networks of pipelines: what a class has to be, and what is checked of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from specgen_runtime.typing import NestedKey

__all__ = ["MakesLayers", "MakesMixer", "own_layers", "own_mixer"]


class MakesLayers(Protocol):
    """What `python: package.module:Class` of a network names: a class of modules, or a function that makes one.

    The module is called with a float32 tensor for each entry that the network reads, `[*batch, *shape]`, and gives float32
    `[*batch, out_features]`; `*batch` are any leading dimensions, at least one.
    """

    def __call__(self, *, in_shapes: Sequence[tuple[int, ...]], out_features: int) -> nn.Module:
        """Make the layers, with new weights.

        Args:
            in_shapes: the shape of each entry without the batch.
            out_features: how many numbers the layers give.
        """
        ...


def own_layers(
    make: MakesLayers,
    *,
    in_shapes: Sequence[tuple[int, ...]],
    out_features: int,
    network: str = "",
    in_keys: Sequence[NestedKey] = (),
) -> nn.Module:
    """The layers that a class or function makes, called once with zeros to see what they give.

    Args:
        make: makes them.
        in_shapes: the shape of each entry that they read, without the batch.
        out_features: how many numbers they give.
        network: the network that they are of, for messages.
        in_keys: the entries, for messages.

    Raises:
        TypeError: what is made is no module, or gives no tensor.
        ValueError: it fails for these inputs, or gives another shape or dtype.
    """
    layers = make(in_shapes=in_shapes, out_features=out_features)
    shapes = [(2, *shape) for shape in in_shapes]
    _look_at("layers", make, layers, shapes, out_features, network=network, in_keys=in_keys)
    return layers


class MakesMixer(Protocol):
    """What `mixer: {python: package.module:Class}` of a network names: a class of modules, or a function that makes one.

    The module is called with the values of the actions of all agents, float32 `[*batch, n_agents, 1]`, and with the state, if
    it has one, `[*batch, *state_shape]`; it gives float32 `[*batch, 1]`, the value of the team. What is best for each agent by
    itself is best for the team if that never falls where the value of an agent grows. A `Mixer` is such a module.
    """

    def __call__(self, *, n_agents: int, state_shape: tuple[int, ...] | None) -> nn.Module:
        """Make the mixer, with new weights.

        Args:
            n_agents: how many agents there are.
            state_shape: the shape of the state without the batch; None where it reads none.
        """
        ...


def own_mixer(make: MakesMixer, *, n_agents: int, state_shape: tuple[int, ...] | None) -> nn.Module:
    """The mixer that a class or function makes, called once with zeros to see what it gives.

    Args:
        make: makes it.
        n_agents: how many agents there are.
        state_shape: the shape of the state without the batch; None where it reads none.

    Raises:
        TypeError: what is made is no module, or gives no tensor.
        ValueError: it fails for these inputs, or gives another shape or dtype.
    """
    mixer = make(n_agents=n_agents, state_shape=state_shape)
    state = [] if state_shape is None else [(2, *state_shape)]
    _look_at("a mixer", make, mixer, [(2, n_agents, 1), *state], 1)
    return mixer


def _look_at(
    what: str,
    make: object,
    module: object,
    shapes: Sequence[tuple[int, ...]],
    features: int,
    *,
    network: str = "",
    in_keys: Sequence[NestedKey] = (),
) -> None:
    """Refuse a module that gives something else than `features` numbers for inputs of these shapes, a batch of 2."""
    name = getattr(make, "__qualname__", type(make).__name__) + (f" in {network}" if network else "")
    is_what, of_what = ("layers are", "layers of") if what == "layers" else (f"{what} is", f"{what} of")
    if not isinstance(module, nn.Module):
        raise TypeError(f"{name} makes a {type(module).__name__}, and {is_what} an nn.Module")
    modes = [(one, one.training) for one in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            given = module(*(torch.zeros(shape) for shape in shapes))
    except Exception as error:
        keys = [f"{key!r} " for key in in_keys] or [""] * len(shapes)
        inputs = ", ".join(f"{key}{list(shape)}" for key, shape in zip(keys, shapes, strict=True))
        raise ValueError(
            f"{of_what} {name} can't be called with float32 of a batch of 2, {inputs}: {type(error).__name__}: {error}"
        ) from error
    for one, training in modes:
        one.training = training
    gives = "give" if what == "layers" else "gives"
    if not isinstance(given, Tensor):
        raise TypeError(f"{of_what} {name} {gives} a {type(given).__name__}, expected a tensor")
    if given.shape != (2, features) or given.dtype != torch.float32:
        raise ValueError(
            f"{of_what} {name} {gives} {given.dtype} of shape {list(given.shape)} for a batch of 2, expected torch.float32 of"
            f" shape {[2, features]}"
        )
