"""Converts specs to TorchRL's and back."""

from __future__ import annotations

import sys
from typing import Any, TypeVar, cast

import torch

from specgen_runtime import specs as ours
from specgen_runtime.interop.imports import import_torchrl
from specgen_runtime.specs import TensorSpec

__all__ = ["own_spec", "spec_from_torchrl", "spec_to_torchrl"]

T = TypeVar("T")


def spec_to_torchrl(spec: TensorSpec) -> Any:
    """Return TorchRL's spec with the same shape, dtype, device, domain and mask.

    Outcomes that a one-hot spec with `use_register` has seen are not taken over.

    Raises:
        ImportError: TorchRL is not installed (extra `peers`).
        TypeError: it is not a spec, or TorchRL has no class for it.
    """
    lib = import_torchrl("torchrl.data")
    if not isinstance(spec, TensorSpec):
        raise TypeError(f"spec_to_torchrl needs a spec, found {type(spec).__name__}")
    found = _converted(spec, ours, lib, spec_to_torchrl)
    if found is None:
        raise TypeError(f"TorchRL has no spec like {type(spec).__name__}")
    return found


def spec_from_torchrl(spec: Any) -> TensorSpec:
    """Return the spec with the same shape, dtype, device, domain and mask as one of TorchRL's.

    A `domain` that was chosen against the dtype is not kept: here integers are discrete and floats continuous.
    Neither are outcomes that a one-hot spec with `use_register` has seen.

    Raises:
        ImportError: TorchRL is not installed (extra `peers`).
        TypeError: it is not a TorchRL spec, or of a class that is not known here.
        ValueError: it contradicts itself, as bounds that are NaN or in the wrong order do.
    """
    lib = import_torchrl("torchrl.data")
    if not isinstance(spec, lib.TensorSpec):
        raise TypeError(f"spec_from_torchrl needs a TorchRL spec, found {type(spec).__name__}")
    found: TensorSpec | None = _converted(spec, lib, ours, spec_from_torchrl)
    if found is None:
        raise TypeError(f"there is no spec here like TorchRL's {type(spec).__name__}")
    return found


def own_spec(spec: T) -> T:
    """A spec of TorchRL's as the one here that is like it; anything else as it is.

    Whatever takes a spec from users takes TorchRL's by it, too. TorchRL is not imported: where it is not loaded,
    nothing is its.

    Raises:
        TypeError: it is a TorchRL spec of a class that is not known here.
        ValueError: it is one that contradicts itself.
    """
    theirs = getattr(sys.modules.get("torchrl.data"), "TensorSpec", None)
    if theirs is None or not isinstance(spec, theirs):
        return spec
    return cast("T", spec_from_torchrl(spec))


def _converted(spec: Any, source: Any, target: Any, convert: Any) -> Any:
    """A spec of the library `source` in terms of `target`: the classes and their arguments are called alike.

    None if no class of `source` fits. Special classes stand before those that they derive from, in either library.
    """
    if isinstance(spec, source.StackedComposite):
        return target.StackedComposite(*map(convert, _items(spec)), dim=_dim(spec))
    if isinstance(spec, source.Stacked):
        return target.Stacked(*map(convert, _items(spec)), dim=_dim(spec))
    if isinstance(spec, source.Composite):
        return _composite(spec, target, convert)
    if isinstance(spec, source.Choice):
        choices = spec.choices if hasattr(spec, "choices") else spec._choices
        return target.Choice(
            [convert(each) if isinstance(each, source.TensorSpec) else each for each in choices]
        )
    if isinstance(spec, source.NonTensor):
        dims = {"batched": True} if spec.batched else {"feature_dims": spec.feature_dims}
        return target.NonTensor(
            shape=spec.shape, device=spec.device, dtype=spec.dtype, example_data=spec.example_data, **dims
        )
    common = {"shape": spec.shape, "device": spec.device, "dtype": spec.dtype}
    if isinstance(spec, source.Bounded):
        return target.Bounded(low=spec.space.low.clone(), high=spec.space.high.clone(), **common)
    if isinstance(spec, source.Unbounded):
        return target.Unbounded(**common)
    return _classes(spec, source, target, common)


def _classes(spec: Any, source: Any, target: Any, common: dict[str, Any]) -> Any:
    """The specs of classes, which may have masks."""
    masked = {**common, "mask": None if getattr(spec, "mask", None) is None else spec.mask.clone()}
    if isinstance(spec, source.MultiOneHot):
        return target.MultiOneHot([int(n) for n in spec.nvec], use_register=bool(spec.use_register), **masked)
    if isinstance(spec, source.OneHot):
        return target.OneHot(int(spec.space.n), use_register=bool(spec.use_register), **masked)
    if isinstance(spec, source.MultiCategorical):
        return target.MultiCategorical(
            spec.nvec.cpu().clone(), remove_singleton=bool(spec.remove_singleton), **masked
        )
    if isinstance(spec, source.Binary):
        binary = target.Binary(**common)
        if masked["mask"] is not None:
            binary.update_mask(masked["mask"])
        return binary
    if isinstance(spec, source.Categorical):
        classes = target.Categorical(int(spec.space.n), **masked)
        provisional = getattr(spec, "_provisional_n", None)
        if provisional is not None:
            classes.set_provisional_n(provisional)
        return classes
    return None


def _composite(spec: Any, target: Any, convert: Any) -> Any:
    entries = {name: None if entry is None else convert(entry) for name, entry in spec.items()}
    names = getattr(spec, "names", None)
    return target.Composite(
        entries,
        shape=torch.Size(spec.shape),
        device=spec.device,
        data_cls=spec.data_cls,
        step_mdp_static=spec.step_mdp_static,
        names=list(names) if names is not None and any(names) else None,
    )


def _items(stack: Any) -> list[Any]:
    return list(stack.unbind(_dim(stack)))


def _dim(stack: Any) -> int:
    dim: int = stack.dim
    return dim
