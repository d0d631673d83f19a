"""The draws of `Bounded` integers: `low + floor(u * n)` for uniform `u`, whatever dtype holds them."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.specs import Bounded

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("bounds", [(0, 1), (-3, 5), (7, 7), "whole"], ids=str)
def test_integers(dtype: torch.dtype, bounds: tuple[int, int] | str) -> None:
    info = torch.iinfo(dtype)
    low, high = (info.min, info.max) if isinstance(bounds, str) else bounds
    if low < info.min or (dtype == torch.int64 and isinstance(bounds, str)):
        pytest.skip("there is no such spec, or float64 does not count its values")
    count = high - low + 1
    wide = dtype in (torch.int32, torch.int64)
    torch.manual_seed(0)
    uniform = torch.rand((500, 3), dtype=torch.float64 if wide else torch.float32)
    torch.manual_seed(0)
    drawn = Bounded(low, high, (3,), dtype=dtype).rand((500,))
    assert drawn.dtype == dtype
    assert torch.equal(drawn.long(), low + (uniform * count).long().clamp(max=count - 1))


def test_bools_are_fair() -> None:
    torch.manual_seed(0)
    drawn = Bounded(0, 1, (4000,), dtype=torch.bool).rand()
    assert 1850 < int(drawn.sum()) < 2150
    assert Bounded(1, 1, (9,), dtype=torch.bool).rand().all()


def test_each_element_has_its_own_bounds() -> None:
    low = torch.tensor([-128, 0, 5, -100], dtype=torch.int8)
    high = torch.tensor([127, 3, 5, -90], dtype=torch.int8)
    spec = Bounded(low, high, dtype=torch.int8)
    torch.manual_seed(0)
    drawn = spec.rand((3000,))
    assert spec.is_in(drawn)
    assert torch.equal(drawn.amin(0), low)
    assert torch.equal(drawn.amax(0), high)
