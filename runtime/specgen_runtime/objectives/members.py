"""`Members`: calls all members of an ensemble at once, or one after another, with their stacked parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import cast

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn

from specgen_runtime.envs.keys import as_tuple
from specgen_runtime.objectives.randomness import is_random
from specgen_runtime.objectives.stacked import NotStackableError, Stacked
from specgen_runtime.objectives.steps import Steps
from specgen_runtime.typing import NestedKey

_MOST = 4
"""More members than these, if not all at once, are faster under `torch.vmap` than one after another."""


class Members:
    """An ensemble whose members give what they do under `torch.vmap`, without its cost.

    Members made of layers that `Stacked` knows are called together, their layers as batched products; few members
    of other modules are called one by one.

    Args:
        module: the structure of a member, which is used for nothing else; see `can_be_called_apart`.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self._keys = list(cast("TensorDictBase", TensorDict.from_module(module)).keys(True, True))
        paths = [as_tuple(key) for key in self._keys]
        self._places = [(module.get_submodule(".".join(path[:-1])), path[-1]) for path in paths]
        self._parameters: dict[str, list[Tensor]] = {}
        self._stackable: dict[NestedKey, bool] = {}

    def bind(self, which: str, parameters: TensorDictBase) -> None:
        """Compute with these parameters, ``[members, ...]`` each, for the copy called ``which``."""
        self._parameters[which] = [parameters.get(key) for key in self._keys]

    def can_call(self, which: str, key: NestedKey) -> bool:
        """Whether to call them here: together, or few; not in a compiled graph, where that is no cheaper."""
        few = self._parameters[which][0].shape[0] <= _MOST
        return not torch.compiler.is_compiling() and (few or self._stackable.get(key, True))

    def __call__(
        self,
        which: str,
        steps: Steps,
        inputs: Mapping[NestedKey, Tensor],
        key: NestedKey,
        chosen: Tensor | None = None,
    ) -> Tensor | None:
        """Entry ``key`` of what the members write, or those of ``chosen`` numbers, ``[members, ...]``.

        None as with `Steps`, and for `torch.vmap`.
        """
        parameters = self._parameters[which]
        if chosen is not None:
            parameters = [parameter.index_select(0, chosen) for parameter in parameters]
        if self._stackable.get(key, True):
            value = self._together(parameters, steps, inputs, key)
            if value is not None:
                return value
        return self._apart(parameters, steps, inputs, key) if self.can_call(which, key) else None

    def _together(
        self, parameters: Sequence[Tensor], steps: Steps, inputs: Mapping[NestedKey, Tensor], key: NestedKey
    ) -> Tensor | None:
        """The entry of all members at once; None if a member does what is not known for all, or raises."""
        value = None
        with self._holding([Stacked(tensor) for tensor in parameters]):
            try:
                outputs = steps(inputs)
                value = None if outputs is None else outputs[key]
            except (NotStackableError, AttributeError, TypeError):
                pass
            except Exception:  # of shapes, for example: called alone, a member says it of its own
                return None
        self._stackable[key] = isinstance(value, Stacked)
        return value.each if isinstance(value, Stacked) else None

    def _apart(
        self, parameters: Sequence[Tensor], steps: Steps, inputs: Mapping[NestedKey, Tensor], key: NestedKey
    ) -> Tensor | None:
        """The entry of one member after another."""
        found: list[Tensor] = []
        for member in zip(*[tensor.unbind(0) for tensor in parameters], strict=True):
            with self._holding(member):
                outputs = steps(inputs)
            if outputs is None:
                return None
            found.append(cast("Tensor", outputs[key]))
        return torch.stack(found)

    @contextmanager
    def _holding(self, tensors: Sequence[Tensor | Stacked]) -> Iterator[None]:
        """Within it, the module has these parameters."""
        own = [owner._parameters[name] for owner, name in self._places]
        try:
            for (owner, name), tensor in zip(self._places, tensors, strict=True):
                owner._parameters[name] = cast("nn.Parameter", tensor)
            yield
        finally:
            for (owner, name), parameter in zip(self._places, own, strict=True):
                owner._parameters[name] = parameter


def can_be_called_apart(module: nn.Module) -> bool:
    """Whether calls of the members don't meet: no buffers that they change, no draws, parameters held once."""
    recurrent = any(isinstance(part, nn.RNNBase) for part in module.modules())
    parameters = any(True for _ in module.parameters())
    return parameters and not recurrent and not is_random(module) and not any(True for _ in module.buffers())
