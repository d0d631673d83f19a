"""`assert_identical`: compares tensordicts bit by bit."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import LazyStackedTensorDict, TensorDictBase, is_non_tensor
from torch import Tensor

from specgen_runtime.envs.keys import show_key
from specgen_runtime.specs.non_tensors.data import data_text, plain, same_data

__all__ = ["assert_identical"]

_AS_INTEGERS = {
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float32: torch.int32,
    torch.float64: torch.int64,
}


def assert_identical(found: TensorDictBase, expected: TensorDictBase, what: str = "") -> None:
    """Compare two tensordicts: the same keys, and behind each the same shape, dtype, device and bits.

    NaN equals NaN of the same bits, and 0.0 differs from -0.0. Data that are not tensors are compared by `==`.
    Lazy stacks are compared item by item.

    Args:
        found: what was made.
        expected: what should have been made.
        what: said in front of the message.

    Raises:
        AssertionError: naming the first key that differs and, for values, where and how.
    """
    _compare_tensordicts(found, expected, f"{what}: " if what else "", ())


def _compare_tensordicts(found: Any, expected: Any, prefix: str, path: tuple[str, ...]) -> None:
    below = f"{show_key(path)}: " if path else ""
    assert found.batch_size == expected.batch_size, (
        f"{prefix}{below}batch size {list(found.batch_size)}, expected {list(expected.batch_size)}"
    )
    for each in (expected, found):
        if isinstance(each, LazyStackedTensorDict):
            pairs = zip(found.unbind(each.stack_dim), expected.unbind(each.stack_dim), strict=True)
            for place, (left, right) in enumerate(pairs):
                where = f"{prefix}item {place} along dimension {each.stack_dim}: "
                _compare_tensordicts(left, right, where, path)
            return
    names = [set(each.keys()) for each in (found, expected)]
    missing, extra = (
        ", ".join(show_key((*path, name)) for name in sorted(left - right))
        for left, right in ((names[1], names[0]), (names[0], names[1]))
    )
    assert not missing, f"{prefix}no {missing}"
    assert not extra, f"{prefix}unexpected {extra}"
    for name in sorted(names[0]):
        inner = (*path, name)
        left, right = found.get(name), expected.get(name)
        nested = [isinstance(each, TensorDictBase) and not is_non_tensor(each) for each in (left, right)]
        if all(nested):
            _compare_tensordicts(left, right, prefix, inner)
        else:
            _compare_values(left, right, f"{prefix}{show_key(inner)}")


def _compare_values(found: Any, expected: Any, where: str) -> None:
    if not isinstance(found, Tensor) or not isinstance(expected, Tensor):
        left, right = (plain(each, 0) if is_non_tensor(each) else each for each in (found, expected))
        assert same_data(left, right), f"{where}: {data_text(left)}, expected {data_text(right)}"
        return
    if found.is_nested or expected.is_nested:  # without a shape: part by part
        assert found.is_nested == expected.is_nested, f"{where}: only one of the two is a nested tensor"
        parts = [each.unbind(0) for each in (found, expected)]
        assert len(parts[0]) == len(parts[1]), f"{where}: {len(parts[0])} parts, expected {len(parts[1])}"
        for part, (left, right) in enumerate(zip(*parts, strict=True)):
            _compare_values(left, right, f"{where}, part {part}")
        return
    if (found.dtype, found.shape, found.device) != (expected.dtype, expected.shape, expected.device):
        kinds = [f"{each.dtype} {list(each.shape)} on {each.device}" for each in (found, expected)]
        raise AssertionError(f"{where}: {kinds[0]}, expected {kinds[1]}")
    if found.device.type == "meta":
        return
    left, right = _bits(found), _bits(expected)
    if not torch.equal(left, right):
        differs = left != right
        place = tuple(differs.nonzero()[0].tolist())
        raise AssertionError(
            f"{where}{list(place)}: {found[place].item()!r}, expected {expected[place].item()!r}"
            f" ({int(differs.sum())} of {differs.numel()} elements differ)"
        )


def _bits(values: Tensor) -> Tensor:
    integers = _AS_INTEGERS.get(values.dtype)
    return values if integers is None else values.detach().contiguous().view(integers)
