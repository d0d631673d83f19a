"""Derives the spec of what a policy writes from the spec of what the environment is given in its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from specgen_runtime.specs import (
    Binary,
    Bounded,
    Categorical,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    TensorSpec,
    Unbounded,
)
from specgen_runtime.specs.classes.spec import ClassSpec
from specgen_runtime.specs.classes.vectors import VectorSpec
from specgen_runtime.transforms.like import box_of, boxed, unbounded_like

__all__ = ["Joining", "TensorMap", "choices_like", "followed", "is_bounded"]

TensorMap = Callable[[Tensor], Tensor]
Joining = Callable[[list[Tensor]], Tensor]
Parting = Callable[[Tensor], list[Tensor]]


def is_bounded(spec: TensorSpec) -> bool:
    """Whether every element has finite bounds on both sides; the numbers of those on the meta device are not known."""
    if not isinstance(spec, Bounded):
        return False
    low, high = box_of(spec)
    if low.is_meta:
        return True
    return bool(low.isfinite().all()) and bool(high.isfinite().all())


def choices_like(
    spec: TensorSpec,
    kind: Literal["categorical", "onehot", "multi_categorical", "multi_onehot"],
    counts: int | Sequence[int],
    *,
    drop: int,
    more: tuple[int, ...] = (),
    dtype: torch.dtype,
) -> TensorSpec:
    """Choices among classes, for each row of `spec`.

    Args:
        spec: what tells the rows, and where several choices have one number of classes, how many they are: its last
            dimension.
        kind: how they are written.
        counts: how many classes there are; for several choices of each, or of all.
        drop: how many of the last dimensions of `spec` are not those of the choices.
        more: dimensions behind those.
        dtype: that of the choices.

    Raises:
        ValueError: if there are another number of choices than `spec` has values along its last dimension.
    """
    shape = (*spec.shape[: len(spec.shape) - drop], *more)
    if not kind.startswith("multi"):
        assert isinstance(counts, int)
        if kind == "categorical":
            return Categorical(counts, shape=shape, dtype=dtype, device=spec.device)
        return OneHot(counts, shape=(*shape, counts), dtype=dtype, device=spec.device)
    choices = spec.shape[-1] if drop and spec.shape else 1
    given = (counts,) if isinstance(counts, int) else tuple(counts)
    widths = given * choices if len(given) == 1 else given
    if drop and len(widths) != choices:
        raise ValueError(
            f"there are {len(widths)} numbers of classes, {list(widths)}, for {choices} choices: the last dimension of "
            f"{list(spec.shape)}"
        )
    if kind == "multi_categorical":
        return MultiCategorical(widths, shape=(*shape, len(widths)), dtype=dtype, device=spec.device)
    return MultiOneHot(widths, shape=(*shape, sum(widths)), dtype=dtype, device=spec.device)


def followed(
    specs: Sequence[TensorSpec],
    outwards: Joining,
    inwards: Parting,
    image: Literal["structural", "monotone", "interval"],
    dtype: torch.dtype | None,
) -> TensorSpec:
    """The spec of what a policy writes where the environment takes `specs`: one value, or several in whose place it stands.

    Args:
        specs: what the environment takes.
        outwards: computes something of the shape and dtype of what the policy writes.
        inwards: computes what the environment takes of what the policy writes.
        image: whether both only take elements, rise or fall in each, or do anything else; without bounds then.
        dtype: that of what the policy writes, where it is not that of `outwards`.

    Returns:
        The values of which `inwards` makes those of `specs`, where the two functions undo each other; else any.

    Raises:
        ValueError: if one-hot vectors are torn apart or joined, or choices among different classes are put together.
    """
    blank = outwards([spec.zero() for spec in specs])
    blank = blank if dtype is None else blank.to(dtype)
    free = Unbounded(shape=blank.shape, dtype=blank.dtype, device=blank.device)
    if image == "interval" or blank.is_meta:
        return unbounded_like(free)
    if image == "structural":
        places = _numbered(specs, blank.device)
        moved = outwards(places).to(torch.int64)
        found = [part.to(torch.int64) for part in inwards(moved)]
        if all(map(torch.equal, found, places)):
            return _moved(specs, places, moved, blank.dtype)
        return unbounded_like(free)
    boxes = [box_of(spec) for spec in specs]
    ends = [outwards([box[side] for box in boxes]).to(blank.dtype) for side in (0, 1)]
    least, most = torch.minimum(*ends), torch.maximum(*ends)
    pairs = zip(inwards(least), inwards(most), boxes, strict=True)
    fits = all(
        _close(torch.minimum(one, other), box[0]) and _close(torch.maximum(one, other), box[1])
        for one, other, box in pairs
    )
    return boxed(least, most) if fits else unbounded_like(free)


def _numbered(specs: Sequence[TensorSpec], device: torch.device) -> list[Tensor]:
    """A number for each element of some specs, counted on from one to the next."""
    counts = [spec.shape.numel() for spec in specs]
    numbers = torch.split(torch.arange(sum(counts), device=device), counts)
    return [part.reshape(spec.shape) for part, spec in zip(numbers, specs, strict=True)]


def _close(value: Tensor, wanted: Tensor) -> bool:
    if not value.is_floating_point():
        return torch.equal(value, wanted)
    return torch.allclose(value, wanted.to(value.dtype), rtol=1e-5, atol=1e-6)


def _moved(
    specs: Sequence[TensorSpec], places: Sequence[Tensor], moved: Tensor, dtype: torch.dtype
) -> TensorSpec:
    """The spec of the elements of `specs` at other places."""
    spec = specs[0]
    if len(specs) == 1 and torch.equal(places[0], moved) and dtype == spec.dtype:
        return spec.clone()
    if any(isinstance(one, ClassSpec) for one in specs) and dtype == spec.dtype:
        if len({_classes_of(one) for one in specs}) > 1:
            raise ValueError(f"these are no choices among as many classes: {', '.join(map(repr, specs))}")
        return _moved_classes(specs, moved, dtype)
    if all(isinstance(one, Unbounded) for one in specs):
        return Unbounded(shape=moved.shape, dtype=dtype, device=spec.device)
    ends = zip(*(box_of(one) for one in specs), strict=True)
    low, high = (torch.cat([part.reshape(-1) for part in end])[moved].to(dtype) for end in ends)
    return boxed(low, high)


def _classes_of(spec: Any) -> tuple[object, ...]:
    """How the choices of a spec are written, and among how many classes they are."""
    if isinstance(spec, MultiCategorical):
        return MultiCategorical, spec.nvec.ndim, spec.dtype
    if isinstance(spec, MultiOneHot):
        return MultiOneHot, tuple(torch.as_tensor(spec.nvec).reshape(-1).tolist()), spec.dtype
    return (
        type(spec),
        getattr(spec, "n", None) if isinstance(spec, Categorical | OneHot) else None,
        spec.dtype,
    )


def _moved_classes(specs: Sequence[Any], moved: Tensor, dtype: torch.dtype) -> TensorSpec:
    spec = specs[0]
    known = {"shape": moved.shape, "dtype": dtype, "device": spec.device}
    if isinstance(spec, Binary):
        return Binary(**known)
    if isinstance(spec, Categorical):
        return Categorical(spec.n, **known)
    width = spec.shape[-1]
    rows = moved.reshape(-1, moved.shape[-1]) if moved.ndim else moved.reshape(1, 1)
    if rows.shape[-1] != width or bool((rows - rows[:, :1] != torch.arange(width, device=rows.device)).any()):
        what = "the classes of a one-hot" if isinstance(spec, VectorSpec) else "the choices"
        raise ValueError(
            f"{list(spec.shape)} to {list(moved.shape)} tears apart or joins {what}, which stand along the last"
            f" dimension of {spec}"
        )
    if isinstance(spec, OneHot):
        return OneHot(spec.n, **known)
    if isinstance(spec, MultiOneHot):
        return MultiOneHot(spec.nvec, **known)
    counts = torch.cat([one.nvec.expand(one.shape).reshape(-1) for one in specs])[moved]
    same = spec.nvec.ndim == 1 and all(torch.equal(one.nvec, spec.nvec) for one in specs)
    return MultiCategorical(spec.nvec if same else counts, **known)
