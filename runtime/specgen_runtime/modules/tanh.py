"""`TanhModule`: any numbers to numbers between bounds."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase, dispatch
from torch import Tensor

from specgen_runtime.envs.keys import MissingKeyError, show_key
from specgen_runtime.interop.torchrl_specs import own_spec
from specgen_runtime.specs import Bounded, Composite, TensorSpec
from specgen_runtime.typing import NestedKey


class TanhModule(TensorDictModuleBase):  # type: ignore[misc]
    """Maps entries between bounds by the hyperbolic tangent, for policies that are certain of their action.

    Args:
        in_keys: what it reads, a key or several.
        out_keys: where it writes each of them; None: where it was.
        spec: bounded, of all outputs, or a composite with one for each; its bounds count.
        low: the lower bound, in place of a spec; -1 by default.
        high: the upper bound; 1 by default.
        clamp: whether values stay away from the bounds by the resolution of their dtype, so that they can be inverted.

    Raises:
        ValueError: more or fewer `out_keys` than `in_keys`, or two of one name; bounds that contradict the spec, are not
            finite, or a lower one above the upper one.
        TypeError: a spec without bounds.
        KeyError: a composite spec lacks an output; at a call: an input is missing.
    """

    def __init__(
        self,
        in_keys: str | Sequence[NestedKey],
        out_keys: str | Sequence[NestedKey] | None = None,
        *,
        spec: TensorSpec | None = None,
        low: float | Tensor | None = None,
        high: float | Tensor | None = None,
        clamp: bool = False,
    ) -> None:
        super().__init__()
        self.in_keys = [in_keys] if isinstance(in_keys, str) else list(in_keys)
        outputs = self.in_keys if out_keys is None else out_keys
        self.out_keys = [outputs] if isinstance(outputs, str) else list(outputs)
        if len(self.in_keys) != len(self.out_keys):
            raise ValueError(f"as many out_keys as in_keys, got {self.out_keys} for {self.in_keys}")
        if len({_name(key) for key in self.out_keys}) < len(self.out_keys):
            raise ValueError(f"out_keys have names of their own in the state dict, got {self.out_keys}")
        self.clamp = clamp
        given = own_spec(spec)
        for key in self.out_keys:
            leaf = given
            if isinstance(given, Composite):
                if key not in given.keys(True, True):
                    raise MissingKeyError(f"the spec has no {show_key(key)}")
                leaf = given[key]
            least, most = _bounds(leaf, low, high)
            self.register_buffer(f"{_name(key)}_low", least)
            self.register_buffer(f"{_name(key)}_high", most)

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the entries, between their bounds."""
        read = [tensordict.get(key, None) for key in self.in_keys]
        for number, (key, value) in enumerate(zip(self.out_keys, read, strict=True)):
            if value is None:
                raise MissingKeyError(f"TanhModule reads {show_key(self.in_keys[number])}, which is missing")
            value = value.tanh()
            if self.clamp:
                margin = torch.finfo(value.dtype).resolution
                value = value.clamp(margin - 1, 1 - margin)
            low, high = (self.get_buffer(f"{_name(key)}_{end}") for end in ("low", "high"))
            tensordict.set(key, low + (high - low) * (value + 1) / 2)
        return tensordict


def _bounds(
    spec: TensorSpec | None, low: float | Tensor | None, high: float | Tensor | None
) -> tuple[Tensor, Tensor]:
    """The bounds of a spec, or those that are given."""
    dtype = torch.get_default_dtype()
    if spec is not None and not isinstance(spec, Bounded):
        raise TypeError(
            f"TanhModule maps between bounds, and the spec is {type(spec).__name__}: give a Bounded"
        )
    found = []
    for name, value, usual in (("low", low, -1.0), ("high", high, 1.0)):
        bound = torch.tensor(usual, dtype=dtype) if spec is None else getattr(spec.space, name).clone()
        if value is not None:
            one = torch.as_tensor(value, dtype=bound.dtype, device=bound.device)
            if spec is not None and (one.shape not in ((), bound.shape) or not (one == bound).all()):
                raise ValueError(f"{name}={value} contradicts the spec, whose bound is {bound.tolist()}")
            bound = one.clone()
        if not bound.isfinite().all():
            raise ValueError(f"TanhModule maps between finite bounds, got {name}={bound.tolist()}")
        found.append(bound)
    if (found[0] > found[1]).any():
        raise ValueError(f"the lower bound {found[0].tolist()} is above the upper one {found[1].tolist()}")
    return found[0], found[1]


def _name(key: NestedKey) -> str:
    """What the bounds of an output are called in the state dict."""
    name = key if isinstance(key, str) else "_".join(key)
    return name.replace(".", "_")  # torch has no dots in names of buffers
