"""`Trunk`: layers that several networks stand on, run once for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn

from specgen_runtime.envs.traced import is_traced
from specgen_runtime.modules.recurrent.mode import recurrent_mode

__all__ = ["Trunk", "own_parameters"]


@dataclass(frozen=True, slots=True)
class _Run:
    """A run: what it read, which is kept so that no other tensor gets its identity meanwhile, and what it wrote."""

    read: Sequence[Tensor | None]
    written: Sequence[Any]


class _Runs:
    """The runs of a trunk and of all its copies within `Trunk.once`; none outside."""

    def __init__(self) -> None:
        self.found: dict[tuple[Any, ...], _Run] | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Losses copy the structure of networks, and the copies share what is run."""
        return self

    def __reduce__(self) -> tuple[type[_Runs], tuple[()]]:
        return _Runs, ()


class Trunk(TensorDictModuleBase):  # type: ignore[misc]
    """Layers that several networks stand on: each of them has this very module in front, and so the same parameters.

    By itself it is as its network, run again for each that stands on it. Within `once` it is run once for the same inputs
    and parameters, also where losses have copies of it, so that a batch goes through it once for policy and critic:

    Args:
        network: what reads the tensordict and writes the features into it.

    Example:
        >>> trunk = Trunk(TensorDictModule(nn.Linear(3, 8), in_keys=["observation"], out_keys=["features"]))
        >>> actor = SafeSequential(trunk, Actor(nn.Linear(8, 1), in_keys=["features"]))
        >>> critic = SafeSequential(trunk, ValueOperator(nn.Linear(8, 1), in_keys=["features"]))
        >>> with trunk.once():
        ...     critic(actor(TensorDict({"observation": torch.zeros(5, 3)}, [5])))
    """

    def __init__(self, network: TensorDictModuleBase) -> None:
        super().__init__()
        self.network = network
        self.in_keys = list(network.in_keys)
        self.out_keys = list(network.out_keys)
        self._runs = _Runs()

    @contextmanager
    def once(self) -> Iterator[None]:
        """Within it, what was run is not run again: for the same tensors, unchanged, with the same parameters.

        Gradients of all who read the features go back through the one run, so that one backward pass is taken of the sum of
        what was computed.
        """
        before = self._runs.found
        self._runs.found = {}
        try:
            yield
        finally:
            self._runs.found = before

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write what the network writes."""
        found = self._runs.found
        if found is None or is_traced():
            return self._run(tensordict)
        read = [tensordict.get(key, None) for key in self.in_keys]
        read += [*self.network.parameters(), *self.network.buffers()]
        if any(tensor is not None and tensor.is_inference() for tensor in read):
            return self._run(tensordict)  # these don't say when they were changed
        place = (
            torch.is_grad_enabled(),
            self.training,
            recurrent_mode(),
            tensordict.batch_size,
            *((id(one), one._version, one.requires_grad) for one in read if one is not None),
        )
        run = found.get(place)
        if run is None:
            self._run(tensordict)
            found[place] = _Run(read, [tensordict.get(key) for key in self.out_keys])
            return tensordict
        for key, value in zip(self.out_keys, run.written, strict=True):
            tensordict.set(key, value)
        return tensordict

    def _run(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.network(tensordict)
        return tensordict


def own_parameters(network: nn.Module) -> list[nn.Parameter]:
    """The parameters of a network, or of a trunk, but for those of the trunks in it, which others have, too."""
    below = {
        id(parameter)
        for module in network.modules()
        if isinstance(module, Trunk) and module is not network
        for parameter in module.parameters()
    }
    return [parameter for parameter in network.parameters() if id(parameter) not in below]
