"""Tensordict modules that know the specs of what they write, and can keep their outputs inside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import torch
from tensordict import TensorDictBase, unravel_key
from tensordict.nn import (
    TensorDictModule,
    TensorDictModuleBase,
)
from torch import Tensor, nn

from specgen_runtime.interop.torchrl_specs import own_spec
from specgen_runtime.plain_calls import TensorFunction, in_place, is_ordinary_call, of_tensors
from specgen_runtime.specs import Composite, TensorSpec
from specgen_runtime.typing import NestedKey


def output_specs(spec: TensorSpec | None, out_keys: Iterable[NestedKey]) -> Composite:
    """The specs of what a module writes, by key; None for those that are not known.

    Args:
        spec: of the only output, or a composite; it is not changed.
        out_keys: what the module writes.

    Raises:
        TypeError: if ``spec`` is no spec.
        ValueError: if one spec is given for several outputs, or a composite has a key that is neither written nor
            inside of what is written, as the parts of an action that is a tensordict are.
    """
    keys = [unravel_key(key) for key in out_keys]
    spec = own_spec(spec)
    if spec is None:
        specs = Composite()
    elif not isinstance(spec, TensorSpec):
        raise TypeError(f"spec must be a spec, got {type(spec).__name__}")
    elif isinstance(spec, Composite):
        specs = spec.clone()
    elif len(keys) == 1:
        specs = Composite({keys[0]: spec.clone()})
    else:
        raise ValueError(f"one spec is given for the outputs {keys}; give a Composite that has them by key")
    unknown = [key for key in specs.keys(True, True) if not _is_inside(key, keys) and key != "_"]
    if unknown:
        raise ValueError(f"the spec has {unknown}, which the module does not write; it writes {keys}")
    for key in keys:
        if key not in specs.keys(True):
            specs[key] = None
    return specs


def _is_inside(key: NestedKey, keys: Sequence[NestedKey]) -> bool:
    """Whether a key is one of ``keys``, or an entry of one of them."""
    path = (key,) if isinstance(key, str) else key
    return any(unravel_key(path[:length]) in keys for length in range(1, len(path) + 1))


class OutputSpecs(TensorDictModuleBase):  # type: ignore[misc]
    """Part of a tensordict module that knows the specs of its outputs."""

    out_keys: Sequence[NestedKey]
    safe: bool

    def register_spec(self, safe: bool, spec: TensorSpec | None) -> None:
        """Take the specs of the outputs.

        Args:
            safe: project outputs into their specs after each call.
            spec: of the only output, or a composite of some of them.

        Raises:
            TypeError: if ``spec`` is no spec.
            ValueError: if it does not fit the outputs, or ``safe`` is set and none of them has a spec.
        """
        self._spec = output_specs(spec, self._spec_keys())
        self.safe = safe
        if safe:
            if all(leaf is None for leaf in self._spec.values(True, True)):
                raise ValueError(
                    f"safe=True needs the spec of an output, but none of {list(self.out_keys)} has one"
                )
            self.register_forward_hook(_project_outputs)

    def _spec_keys(self) -> Iterable[NestedKey]:
        return self.out_keys

    @property
    def spec(self) -> Composite:
        """The specs of the outputs by key, None where one is not known."""
        return self._spec

    @spec.setter
    def spec(self, spec: Composite) -> None:
        spec = own_spec(spec)
        if not isinstance(spec, Composite):
            raise TypeError(f"spec must be a Composite of the outputs by key, got {type(spec).__name__}")
        self._spec = spec

    def random(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write a random value of its spec for the first output, whatever the inputs.

        Raises:
            ValueError: if the first output has no spec.
        """
        key = self.out_keys[0]
        leaf = self._spec[key]
        if leaf is None:
            raise ValueError(f"the output {key!r} has no spec to draw from")
        tensordict.set(key, leaf.rand(tensordict.batch_size))
        return tensordict

    def random_sample(self, tensordict: TensorDictBase) -> TensorDictBase:
        """As `random`."""
        return self.random(tensordict)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move or cast the module; the specs are moved along."""
        place = kwargs.get("device", args[0] if args else None)
        if isinstance(place, Tensor):
            place = place.device
        if isinstance(place, (str, int, torch.device)):
            self._spec = self._spec.to(place)
        moved: Self = super().to(*args, **kwargs)
        return moved


def _project_outputs(module: OutputSpecs, _inputs: object, outputs: Any) -> None:
    if not isinstance(outputs, TensorDictBase):
        return
    for key, leaf in module.spec.items(True, True):
        value = None if leaf is None else outputs.get(key, None)
        if value is not None:
            outputs.set(key, leaf.project(value))


class SafeModule(OutputSpecs, TensorDictModule):  # type: ignore[misc]
    """A `tensordict.nn.TensorDictModule` with the specs of its outputs.

    Args:
        module: what is called.
        in_keys: what it is given.
        out_keys: what it writes.
        spec: of the only output, or a composite of some of them.
        safe: project outputs into their specs after each call.
        inplace: write into the tensordict that is read; ``"empty"`` gives an empty one of its kind.

    Raises:
        TypeError: if ``spec`` is no spec.
        ValueError: if it does not fit the outputs, or ``safe`` is set and none of them has a spec.
    """

    def __init__(
        self,
        module: nn.Module,
        in_keys: Any,
        out_keys: Any,
        spec: TensorSpec | None = None,
        safe: bool = False,
        inplace: bool | str = True,
    ) -> None:
        TensorDictModule.__init__(self, module, in_keys, out_keys, inplace=inplace)
        self.register_spec(safe=safe, spec=spec)

    def forward(self, tensordict: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Write what the module gives for the inputs."""
        if is_ordinary_call(tensordict, args or kwargs):
            return in_place(self, tensordict)
        return super().forward(*given_first(tensordict), *args, **kwargs)

    def tensor_function(self) -> TensorFunction | None:
        """What the module makes of tensors; None where it is called with more, or hooks see the tensordict."""
        return of_tensors(self) if type(self).forward is SafeModule.forward else None


def given_first(tensordict: Any) -> tuple[Any, ...]:
    """The first argument of a call as there may be one: tensordict's `forward` takes tensors by keyword without it."""
    return () if tensordict is None else (tensordict,)
