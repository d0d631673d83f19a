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
    if found.batch_size != expected.batch_size:
        below = f"{show_key(path)}: " if path else ""
        raise AssertionError(
            f"{prefix}{below}batch size {list(found.batch_size)}, expected {list(expected.batch_size)}"
        )
    for each in (expected, found):
        if isinstance(each, LazyStackedTensorDict):
            pairs = zip(found.unbind(each.stack_dim), expected.unbind(each.stack_dim), strict=True)
            for place, (left, right) in enumerate(pairs):
                where = f"{prefix}item {place} along dimension {each.stack_dim}: "
                _compare_tensordicts(left, right, where, path)
            return
    names, others = set(found.keys()), set(expected.keys())
    if names != others:
        missing, extra = (
            ", ".join(show_key((*path, name)) for name in sorted(several))
            for several in (others - names, names - others)
        )
        raise AssertionError(f"{prefix}no {missing}" if missing else f"{prefix}unexpected {extra}")
    for name in sorted(names):
        left, right = found.get(name), expected.get(name)
        if isinstance(left, Tensor) and isinstance(right, Tensor) and _same_bits(left, right):
            continue
        nested = [isinstance(each, TensorDictBase) and not is_non_tensor(each) for each in (left, right)]
        if all(nested):
            _compare_tensordicts(left, right, prefix, (*path, name))
        else:
            _compare_values(left, right, f"{prefix}{show_key((*path, name))}")


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
    if not found.is_meta and not _same_bits(found, expected):
        differs = _bits(found) != _bits(expected)
        place = tuple(differs.nonzero()[0].tolist())
        raise AssertionError(
            f"{where}{list(place)}: {found[place].item()!r}, expected {expected[place].item()!r}"
            f" ({int(differs.sum())} of {differs.numel()} elements differ)"
        )


def _same_bits(found: Tensor, expected: Tensor) -> bool:
    """Whether two tensors have the same shape, dtype, device and bits; False of those that have no bits of their own."""
    if found.is_nested or expected.is_nested or found.is_meta:
        return False
    alike = (
        found.dtype == expected.dtype and found.shape == expected.shape and found.device == expected.device
    )
    return alike and torch.equal(_bits(found), _bits(expected))


def _bits(values: Tensor) -> Tensor:
    integers = _AS_INTEGERS.get(values.dtype)
    if integers is None:
        return values
    return (values.detach() if values.requires_grad else values).view(integers)
