"""`Bounded`: tensors between a low and a high value."""

from __future__ import annotations

import math
from typing import ClassVar, Literal, NamedTuple, Self, TypeAlias, cast

import torch

from specgen_runtime.specs.arguments import as_domain_dtype, as_size, integer_range
from specgen_runtime.specs.bounds import distinct, range_text, read_bounds, widths
from specgen_runtime.specs.boxes import ContinuousBox
from specgen_runtime.specs.leaf import LeafSpec
from specgen_runtime.specs.values import first_false, saturate
from specgen_runtime.specs.variable_dims import Remap
from specgen_runtime.typing import DEVICE_TYPING, ArrayLike, ShapeLike

__all__ = ["Bounded", "BoundedContinuous", "BoundedDiscrete"]

# Integers up to here are exact in float64, and so are draws among them.
_EXACT_SPAN = 2.0**53

_Way: TypeAlias = Literal["uniform", "open", "integer", "long"]


class _Drawing(NamedTuple):
    way: _Way
    width: torch.Tensor
    """high - low, or the number of integers, broadcasting with the bounds."""
    span: torch.Tensor
    """high - low, as a float."""
    whole: torch.dtype
    """The dtype in which whole numbers up to the span are added to the lower bounds."""


class Bounded(LeafSpec):
    """Tensors between `low` and `high`, both included, element by element.

    `rand` draws uniformly; an element that is unbounded on both sides is standard normal, and one that is
    unbounded on one side lies at the absolute value of a standard normal from its bound.

    Args:
        low: the smallest allowed values: one number, or an array of the spec's shape.
        high: the largest allowed values: one number, or an array of the spec's shape.
        shape: the shape; may be left out if `low` or `high` is an array.
        device: the device; torch's default device if None.
        dtype: the dtype; torch's default dtype (float32) if None, even for float64 bounds.

    Raises:
        RuntimeError: if no shape is given, or the shapes differ.
        ValueError: if a bound is NaN or not representable in `dtype`, or if low is above high.
    """

    _tensors = ("_low", "_high")

    _shown = False
    """Whether somebody was given the bounds, and may write to them: they are in no memory of other specs then."""

    _versions: tuple[int, ...] = ()
    """How often the bounds had been written to when the way to draw was chosen."""

    _only: ClassVar[str | None] = None
    """The domain whose dtypes alone the class takes."""

    def __new__(cls, *args: object, **kwargs: object) -> Self:  # noqa: D102
        # No docstring: editors would show it in place of the class's.
        if cls is not Bounded:
            return super().__new__(cls)
        dtype = kwargs.get("dtype", args[4] if len(args) > 4 else None)
        whole = isinstance(dtype, torch.dtype) and not dtype.is_floating_point
        return super().__new__(BoundedDiscrete if whole else BoundedContinuous)  # type: ignore[return-value]

    def __init__(
        self,
        low: ArrayLike,
        high: ArrayLike,
        shape: ShapeLike | None = None,
        device: DEVICE_TYPING | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        dtype = as_domain_dtype(dtype, self._only, type(self).__name__)
        bounds = read_bounds(low, high, None if shape is None else as_size(shape, variable=True), dtype)
        super().__init__(bounds.shape, device, dtype)
        self._low, self._high = self._spread(bounds.low), self._spread(bounds.high)
        self._drawing: _Drawing | None = None

    def _spread(self, bound: torch.Tensor) -> torch.Tensor:
        if bound.device != self._device:
            bound = bound.to(self._device)
        return bound if bound.shape == self._size else bound.expand(self._size)

    @property
    def low(self) -> torch.Tensor:
        """The smallest allowed values; what is written to them is drawn from."""
        return self.space.low

    @property
    def high(self) -> torch.Tensor:
        """The largest allowed values; what is written to them is drawn from."""
        return self.space.high

    @property
    def space(self) -> ContinuousBox:
        """The bounds."""
        if not self._shown:
            self._own_bounds()
        return ContinuousBox(self._low, self._high)

    def _own_bounds(self) -> None:
        """Put the bounds into memory of their own, with a place for each element."""
        self._low, self._high = (
            bound.clone(memory_format=torch.contiguous_format) for bound in (self._low, self._high)
        )
        self._shown = True
        self._refresh()

    def _replaced(self, change: Remap, shape: torch.Size, device: torch.device) -> Self:
        new = super()._replaced(change, shape, device)
        if self._shown:
            new._own_bounds()
        return new

    # Drawing. What can be decided once is, at the first draw: the widths, and which way applies.

    def _refresh(self) -> None:
        self._drawing = None

    def _written(self) -> tuple[int, ...]:
        """How often the bounds were written to, where anybody can have."""
        if not self._shown or self._low.is_inference():
            return ()
        return self._low._version, self._high._version

    def _way(self) -> _Drawing:
        """How to draw, chosen anew if the bounds were written to."""
        found = self._drawing
        if found is not None and (torch.compiler.is_compiling() or self._written() == self._versions):
            return found
        return self._prepared()

    def _prepared(self) -> _Drawing:
        self._versions = self._written()
        width = widths(distinct(self._low), distinct(self._high))
        widest = 0.0 if width.is_meta or not width.numel() else float(width.max())  # NaN if one is
        way: _Way
        if self._dtype.is_floating_point:
            way = "uniform" if math.isfinite(widest) else "open"
            self._drawing = _Drawing(way, width, width, self._dtype)
        else:
            way = "long" if widest > _EXACT_SPAN else "integer"
            # A fraction becomes True as a bool, and the span of all int8 does not fit into one.
            held = self._dtype != torch.bool and widest - 1 <= integer_range(self._dtype)[1]
            self._drawing = _Drawing(way, width, width - 1, self._dtype if held else torch.int64)
        return self._drawing

    def rand(self, shape: ShapeLike | None = None) -> torch.Tensor:
        """Draw a tensor from torch's global generator.

        Args:
            shape: dimensions to put in front of the spec's own.
        """
        size = self._sized(shape)
        way, width, span, whole = self._way()
        if way == "uniform":
            # bfloat16 has too few values between 0 and 1 to draw from.
            dtype = torch.get_default_dtype() if self._dtype == torch.bfloat16 else self._dtype
            out = torch.rand(size, dtype=dtype, device=self._device).mul_(width).add_(self._low)
            if dtype != self._dtype:
                out = out.to(self._dtype)
            return out.clamp_max_(self._high)  # the sum may have been rounded above
        if way == "open":
            return self._rand_open(size)
        offset = torch.rand(size, dtype=width.dtype, device=self._device).mul_(width)
        if way == "long":
            return self._rand_long(offset, span)
        # The product may have been rounded up to the width.
        return offset.clamp_max_(span).to(whole).add_(self._low).to(self._dtype)

    def _rand_open(self, size: torch.Size) -> torch.Tensor:
        """Draw floats where a bound is infinite, or so far from the other that the width overflows."""
        low, high = self._low, self._high
        normal = torch.randn(size, dtype=self._dtype, device=self._device)
        uniform = torch.rand(size, dtype=self._dtype, device=self._device)
        between = low * (1 - uniform) + high * uniform
        below = torch.where(high.isfinite(), high - normal.abs(), normal)
        above = torch.where(high.isfinite(), between, low + normal.abs())
        return torch.where(low.isfinite(), above, below).clamp(low, high)

    def _rand_long(self, offset: torch.Tensor, span: torch.Tensor) -> torch.Tensor:
        """Draw int64 over ranges that float64 cannot count: measured from the nearer end."""
        offset = torch.minimum(offset.floor(), span)
        lower = offset <= span / 2
        # A distance is at most half of 2**64; the largest float64 below 2**63 keeps it inside int64.
        distance = torch.where(lower, offset, span - offset).clamp(max=2.0**63 - 2.0**10).long()
        return torch.where(lower, self._low + distance, self._high - distance)

    @property
    def _draws_in_order(self) -> bool:
        return self._way().way != "open"

    # Membership

    def _contains(self, value: torch.Tensor) -> bool:
        if self._dtype == torch.bool:  # which can't be clamped
            return self._outside(value) is None
        return torch.equal(torch.clamp(value, self._low, self._high), value)  # false for NaN

    def _outside(self, value: torch.Tensor) -> str | None:
        inside = (value >= self._low) & (value <= self._high)  # false for NaN
        place = first_false(inside)
        if place is None:
            return None
        low = self._low.expand(value.shape)[place].item()
        high = self._high.expand(value.shape)[place].item()
        return self._first_outside(value, inside, f"values in [{low}, {high}]")

    def _project(self, val: torch.Tensor) -> torch.Tensor:
        return saturate(val, self._low, self._high, self._dtype)

    # Copies

    def _to_dtype(self, dtype: torch.dtype) -> Self:
        """Return the spec in another dtype, with the bounds of the values that it shares with this one.

        From floats to integers, the bounds move inwards to whole numbers. Bounds beyond the dtype's range
        stop at its limits; infinite bounds stay infinite among floats.
        """
        low, high = self._low, self._high
        if dtype.is_floating_point:
            info = torch.finfo(dtype)
            low, high = (
                torch.where(bound.isfinite(), bound.double().clamp(info.min, info.max), bound.double()).to(
                    dtype
                )
                for bound in (low, high)
            )
        else:
            smallest, largest = integer_range(dtype)
            if self._dtype.is_floating_point:
                low, high = low.ceil(), high.floor()
            low = saturate(low, smallest, largest, dtype)
            high = saturate(high, smallest, largest, dtype)
        return cast("Self", Bounded(low, high, self._shape, self._device, dtype))

    def _name(self) -> str:
        return "Bounded"

    def _domain_text(self) -> str:
        return f"low={range_text(self._low)}, high={range_text(self._high)}"


class BoundedContinuous(Bounded):
    """What `Bounded` makes for floats; takes the same arguments.

    Raises:
        TypeError: if `dtype` is not a floating-point dtype; otherwise as `Bounded`.
    """

    _only = "continuous"


class BoundedDiscrete(Bounded):
    """What `Bounded` makes for integers and bools; takes the same arguments, with int64 as the default dtype.

    Raises:
        TypeError: if `dtype` is a floating-point dtype; otherwise as `Bounded`.
    """

    _only = "discrete"

    def cardinality(self) -> int:
        """The number of members, over all elements."""
        bounds = zip(self._low.flatten().tolist(), self._high.flatten().tolist(), strict=True)
        return math.prod(int(high) - int(low) + 1 for low, high in bounds)
