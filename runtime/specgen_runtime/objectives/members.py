"""`Members`: calls the members of a small ensemble one after another, with slices of their stacked parameters."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn

from specgen_runtime.objectives.randomness import is_random
from specgen_runtime.objectives.steps import Steps
from specgen_runtime.typing import NestedKey

_MOST = 4
"""More members than these are faster together, under `torch.vmap`."""


class Members:
    """An ensemble whose members are called one by one: that is what `torch.vmap` gives, without its cost.

    Args:
        module: the structure of a member, which is used for nothing else; see `can_be_called_apart`.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self._keys = list(TensorDict.from_module(module).keys(True, True))
        paths = [(key,) if isinstance(key, str) else key for key in self._keys]
        self._places = [(module.get_submodule(".".join(path[:-1])), path[-1]) for path in paths]
        self._parameters: dict[str, list[Tensor]] = {}

    def bind(self, which: str, parameters: TensorDictBase) -> None:
        """Compute with these parameters, ``[members, ...]`` each, for the copy called ``which``."""
        self._parameters[which] = [parameters.get(key) for key in self._keys]

    def can_call(self, which: str) -> bool:
        """Whether to call them one by one: few, and not in a compiled graph, where that is no cheaper."""
        return not torch.compiler.is_compiling() and self._parameters[which][0].shape[0] <= _MOST

    def __call__(
        self, which: str, steps: Steps, inputs: Mapping[NestedKey, Tensor], key: NestedKey
    ) -> Tensor | None:
        """Entry ``key`` of what the members write, ``[members, ...]``; None as with `Steps`."""
        own = [owner._parameters[name] for owner, name in self._places]
        found: list[Tensor] = []
        try:
            for member in zip(*[tensor.unbind(0) for tensor in self._parameters[which]], strict=True):
                for (owner, name), tensor in zip(self._places, member, strict=True):
                    owner._parameters[name] = tensor
                outputs = steps(inputs)
                if outputs is None:
                    return None
                found.append(outputs[key])
        finally:
            for (owner, name), parameter in zip(self._places, own, strict=True):
                owner._parameters[name] = parameter
        return torch.stack(found)


def can_be_called_apart(module: nn.Module) -> bool:
    """Whether calls of the members don't meet: no buffers that they change, no draws, parameters held once."""
    recurrent = any(isinstance(part, nn.RNNBase) for part in module.modules())
    parameters = any(True for _ in module.parameters())
    return parameters and not recurrent and not is_random(module) and not any(True for _ in module.buffers())
