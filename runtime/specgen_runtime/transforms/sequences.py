"""Transforms of recorded sequences: `RandomCropTensorDict`, `BurnInTransform`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from specgen_runtime.envs.keys import next_key, show_key
from specgen_runtime.transforms.keys import as_tuple, normal_key, normal_keys, without_next
from specgen_runtime.transforms.replay import ReplayTransform
from specgen_runtime.typing import NestedKey

__all__ = ["BurnInTransform", "RandomCropTensorDict"]


class RandomCropTensorDict(ReplayTransform):
    """Takes a random part of each sequence; every place of the part is as likely.

    Args:
        sub_seq_len: the length of the part.
        sample_dim: the batch dimension of time.
        mask_key: says which moments are data: the first ones of each sequence, of shape `[*batch]`. A part holds
            no others. Without such an entry all are.

    Raises:
        ValueError: the length is not positive.
        RuntimeError: at a call: a sequence is shorter than the part.
    """

    _generator: torch.Generator | None = None  # that `forward` is given

    def __init__(self, sub_seq_len: int, sample_dim: int = -1, mask_key: NestedKey | None = None) -> None:
        super().__init__()
        if sub_seq_len < 1:
            raise ValueError(f"sub_seq_len is at least 1, got {sub_seq_len}")
        self.sub_seq_len = sub_seq_len
        self.sample_dim = sample_dim
        self.mask_key = None if mask_key is None else normal_key(mask_key)

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        dim = self.sample_dim + tensordict.ndim if self.sample_dim < 0 else self.sample_dim
        if not 0 <= dim < tensordict.ndim:
            raise RuntimeError(
                f"RandomCropTensorDict cuts dimension {self.sample_dim}, and the data have the batch size"
                f" {list(tensordict.batch_size)}"
            )
        rows = list(tensordict.batch_size)
        length, rows[dim] = rows[dim], 1
        mask = None if self.mask_key is None else tensordict.get(self.mask_key, None)
        lengths = torch.full(rows, length) if mask is None else mask.sum(dim, keepdim=True)
        shortest = int(lengths.min())
        if shortest < self.sub_seq_len:
            raise RuntimeError(
                f"Cannot sample trajectories of length {self.sub_seq_len} along dimension {self.sample_dim}: data of the"
                f" batch size {list(tensordict.batch_size)} have one of length {shortest}"
            )
        choices = (lengths - self.sub_seq_len + 1).to(tensordict.device or "cpu")
        drawn = torch.rand(rows, device=choices.device, generator=self._generator)
        start = (drawn * choices).long().minimum(choices - 1)
        offsets = torch.arange(self.sub_seq_len, device=choices.device)
        index = start + offsets.reshape([-1 if place == dim else 1 for place in range(tensordict.ndim)])
        return tensordict.gather(dim, index)


class BurnInTransform(ReplayTransform):
    """Runs recurrent modules without gradients over the first moments, and hands their state to the rest.

    The first moments are cut off. Time is the last batch dimension.

    Args:
        modules: run in this order on the first moments, with all their time steps.
        burn_in: how many moments.
        out_keys: the entries of the state. None: what the modules write under ``"next"``. They are taken from there.

    Raises:
        TypeError: a module has no keys.
        KeyError: at a call: no module has written one of `out_keys`.
        ValueError: at a call: there are no more moments than are cut off.
    """

    def __init__(
        self,
        modules: Sequence[nn.Module] | nn.Module,
        burn_in: int,
        out_keys: Sequence[NestedKey] | None = None,
    ) -> None:
        listed: list[Any] = list(modules) if isinstance(modules, Sequence) else [modules]
        wrong = [module for module in listed if not hasattr(module, "out_keys")]
        if wrong:
            raise TypeError(f"BurnInTransform runs TensorDictModules, got {type(wrong[0]).__name__}")
        if burn_in < 0:
            raise ValueError(f"burn_in is a number of moments, got {burn_in}")
        in_keys = dict.fromkeys(key for module in listed for key in normal_keys(module.in_keys))
        if out_keys is None:
            out_keys = [
                key for module in listed for key in normal_keys(module.out_keys) if as_tuple(key)[0] == "next"
            ]
        states = dict.fromkeys(without_next(key) for key in normal_keys(out_keys))
        super().__init__(in_keys=list(in_keys), out_keys=list(states))
        self.modules_list = nn.ModuleList(listed)
        self.burn_in = burn_in

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self.burn_in == 0:
            return tensordict
        time = tensordict.batch_size[-1] if tensordict.ndim else 0
        if time <= self.burn_in:
            raise ValueError(f"BurnInTransform cuts off {self.burn_in} moments, and the data have {time}")
        first = tensordict[..., : self.burn_in].copy()
        rest = tensordict[..., self.burn_in :].copy()
        with torch.no_grad():
            for module in self.modules_list:
                parameter = next(module.parameters(), None)
                first = module(first if parameter is None else first.to(parameter.device))
        for key in self.out_keys:
            state: Tensor | None = first.get(next_key(key), None)
            if state is None:
                raise KeyError(f"no module of the BurnInTransform has written ('next', {show_key(key)})")
            last = state.select(tensordict.ndim - 1, -1).to(tensordict.device or state.device)
            kept = rest.get(key, None)
            whole = (
                last.new_zeros((*rest.batch_size, *last.shape[rest.ndim - 1 :]))
                if kept is None
                else kept.clone()
            )
            whole.select(rest.ndim - 1, 0).copy_(last)
            rest.set(key, whole)
        return rest

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(burn_in={self.burn_in}, in_keys={self.in_keys}, out_keys={self.out_keys})"
        )
