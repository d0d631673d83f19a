"""Comparing data bit by bit."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.keys import as_tuple, show_key

__all__ = ["assert_identical"]

_AS_INTEGERS = {
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float32: torch.int32,
    torch.float64: torch.int64,
}


def assert_identical(found: TensorDictBase, expected: TensorDictBase, what: str = "") -> None:
    """Compare two tensordicts: the same keys, and behind each the same shape, dtype and bits.

    NaN equals NaN of the same bits, and 0.0 differs from -0.0.

    Args:
        found: what was made.
        expected: what should have been made.
        what: said in front of the message.

    Raises:
        AssertionError: naming the first key that differs and, for values, where and how.
    """
    prefix = f"{what}: " if what else ""
    assert found.batch_size == expected.batch_size, (
        f"{prefix}batch size {list(found.batch_size)}, expected {list(expected.batch_size)}"
    )
    keys = [{as_tuple(key) for key in data.keys(True, True)} for data in (found, expected)]
    missing, extra = sorted(keys[1] - keys[0]), sorted(keys[0] - keys[1])
    assert not missing, f"{prefix}no {', '.join(map(show_key, missing))}"
    assert not extra, f"{prefix}unexpected {', '.join(map(show_key, extra))}"
    for key in sorted(keys[0]):
        _compare(found.get(key), expected.get(key), f"{prefix}{show_key(key)}")


def _compare(found: Any, expected: Any, where: str) -> None:
    if not isinstance(found, Tensor) or not isinstance(expected, Tensor):
        assert found == expected, f"{where}: {found!r}, expected {expected!r}"
        return
    kinds = [f"{each.dtype} {list(each.shape)}" for each in (found, expected)]
    assert kinds[0] == kinds[1], f"{where}: {kinds[0]}, expected {kinds[1]}"
    differs = _bits(found) != _bits(expected)
    if bool(differs.any()):
        place = tuple(differs.nonzero()[0].tolist())
        raise AssertionError(
            f"{where}{list(place)}: {found[place].item()!r}, expected {expected[place].item()!r}"
            f" ({int(differs.sum())} of {differs.numel()} elements differ)"
        )


def _bits(values: Tensor) -> Tensor:
    integers = _AS_INTEGERS.get(values.dtype)
    return values if integers is None else values.detach().contiguous().view(integers)
