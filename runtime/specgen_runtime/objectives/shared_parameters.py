"""Finds parameters that two networks of a loss share, so that only one of them trains them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tensordict import TensorDictParams
from torch import nn

from specgen_runtime.objectives.parameters import common_parameters
from specgen_runtime.typing import NestedKey


@dataclass(frozen=True)
class SharedParameter:
    """Entry ``key`` of network ``name`` is a detached view of entry ``source_key`` of network ``source``."""

    name: str
    key: NestedKey
    source: str
    source_key: NestedKey

    def link(self, params: TensorDictParams, source: TensorDictParams) -> None:
        """Make the entry such a view again, after the source was replaced by another tensor."""
        detached = source.get(self.source_key).data
        params.set(self.key, detached.expand(params.batch_size + detached.shape))


def shared_parameters(
    name: str,
    module: nn.Module | Sequence[nn.Module],
    compare_against: Iterable[nn.Parameter],
    others: Mapping[str, TensorDictParams],
) -> list[SharedParameter]:
    """The parameters of ``module`` that are in ``compare_against`` and belong to a network already in the loss."""
    compared = {id(parameter) for parameter in compare_against}
    if not compared:
        return []
    modules = [module] if isinstance(module, nn.Module) else module
    owners = {
        id(tensor): (other, key)
        for other, params in others.items()
        for key, tensor in params.items(True, True)
    }
    return [
        SharedParameter(name, key, *owners[id(tensor)])
        for key, tensor in common_parameters(modules).items()
        if id(tensor) in compared and id(tensor) in owners
    ]
