"""Compare tensordicts with an environment's specs; messages name the key, what is expected and what was found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase

from specgen_runtime.envs.in_place import is_borrowed
from specgen_runtime.envs.keys import MissingKeyError, show_key
from specgen_runtime.envs.packing import peek, put_checked
from specgen_runtime.envs.traced import is_traced

if TYPE_CHECKING:
    from specgen_runtime.envs.layout import Entry, Layout

__all__ = [
    "WrongDtypeError",
    "cast_actions",
    "check_entries",
    "check_flag_types",
    "check_tensordict",
    "fit_batch",
]


class WrongDtypeError(RuntimeError, TypeError):
    """An entry has another dtype than its spec says."""


def check_tensordict(layout: Layout, tensordict: TensorDictBase, method: str) -> None:
    """Refuse an argument that is no tensordict, or of another batch size.

    Raises:
        TypeError: not a tensordict.
        RuntimeError: the batch size is not the environment's.
    """
    if not isinstance(tensordict, TensorDictBase):
        name = f"{layout.env}.{method}"
        raise TypeError(f"{name} needs a tensordict, found {type(tensordict).__name__}")
    size, own = tensordict.batch_size, layout.batch_size
    if size != own and (own or layout.batch_locked):
        raise RuntimeError(
            f"{layout.env}.{method}: the tensordict has batch size {list(size)}, the environment {list(own)}"
        )


def fit_batch(layout: Layout, result: TensorDictBase, size: torch.Size, method: str) -> None:
    """Give what a hook returned without batch size the one that its entries should start with.

    Raises:
        RuntimeError: it has another one, or its entries do not start so.
    """
    try:
        if not result.batch_size:
            result.batch_size = size
            return
    except RuntimeError:
        pass
    found = ", ".join(f"{show_key(key)} {list(value.shape)}" for key, value in result.items(True, True))
    raise RuntimeError(
        f"{layout.env}.{method} returned a tensordict of batch size {list(result.batch_size)},"
        f" expected {list(size)}; found {found}"
    )


def check_entries(
    layout: Layout,
    tensordict: TensorDictBase,
    expected: Iterable[Entry],
    method: str,
    *,
    own: bool = False,
) -> None:
    """Compare entries with their specs: presence, shape, dtype and device, but not the domain.

    A reward or done flag of shape `(*batch)` where `(*batch, 1)` is declared is given its last dimension, and an
    action of integers, truth values or whole numbers the declared dtype, where that holds the same numbers.

    Args:
        layout: of the environment, for messages.
        tensordict: the entries.
        expected: what they must be.
        method: where they come from, for messages.
        own: copy those that stand in borrowed memory, such as arrays of NumPy, which may change in later steps.

    Raises:
        KeyError: an entry is missing.
        RuntimeError: an entry differs; for another dtype a TypeError, too.
    """
    usual = tensordict.batch_size == layout.batch_size
    own = own and not torch.compiler.is_compiling()
    for e in expected:
        value = peek(tensordict, e.leaf.key) if usual and e.whole is not None else None
        if not (
            isinstance(value, torch.Tensor)
            and value.dtype is e.dtype
            and not value.is_nested
            and value.shape == e.whole
            and (e.device is None or value.device == e.device)
        ):
            _check_entry(layout, tensordict, e, method)  # which may have written it in another shape or dtype
            value = peek(tensordict, e.leaf.key) if own and not e.leaf.items else None
        if own and isinstance(value, torch.Tensor) and is_borrowed(value):
            put_checked(tensordict, e.leaf.key, value.clone())


def check_flag_types(layout: Layout, tensordict: TensorDictBase) -> None:
    """Refuse done flags that are no booleans.

    Raises:
        WrongDtypeError: naming the flag and its dtype.
    """
    for e in layout.done.entries:
        value = e.leaf.find(tensordict)
        if isinstance(value, torch.Tensor) and value.dtype is not torch.bool:
            raise WrongDtypeError(
                f"{layout.env}: {e.leaf} must be torch.bool ({e.source}), found {value.dtype}"
            )


def _check_entry(layout: Layout, tensordict: TensorDictBase, e: Entry, method: str) -> None:
    value: Any = e.leaf.find(tensordict)
    name = f"{layout.env}.{method}"
    if value is None:
        wanted = "the tensordict has no" if method == "step" else "the result has no"
        found = sorted(show_key(key) for key in tensordict.keys(True, True))
        raise MissingKeyError(
            f"{name}: {wanted} {e.leaf} ({e.source}); found {', '.join(found) or 'nothing'}"
        )
    size = e.leaf.batch_of(tensordict.batch_size) if e.leaf.items else tensordict.batch_size
    error: type[RuntimeError] = RuntimeError
    if not isinstance(value, torch.Tensor):
        if e.dtype is None:
            return
        found_text = type(value).__name__
    elif value.is_nested:
        return  # it has no shape to compare
    else:
        fits = e.fits(value.shape, size)
        same = e.device is None or value.device == e.device
        if fits and same and value.dtype is e.dtype:
            return
        if same and value.dtype is e.dtype and _lacks_last(value, size, e):
            tensordict.set(e.leaf.key, value.unsqueeze(-1))
            return
        if fits and same and e.source == "action_spec" and _cast_exactly(tensordict, value, e):
            return
        if value.dtype is not e.dtype and e.dtype is not None:
            error = WrongDtypeError
        found_text = f"{value.dtype} {list(value.shape)}" + (
            "" if e.device is None else f" on {value.device}"
        )
        if e.source == "action_spec" and value.requires_grad and value.dtype is not e.dtype:
            found_text += ", whose gradient would be lost: act under torch.no_grad()"
    expected_text = "no tensor" if e.dtype is None else f"{e.dtype} {[*size, *e.shape]}"
    if e.dtype is not None and e.device is not None:
        expected_text += f" on {e.device}"
    raise error(f"{name}: {e.leaf} must be {expected_text} ({e.source}), found {found_text}")


def _lacks_last(value: torch.Tensor, size: torch.Size, e: Entry) -> bool:
    """Whether a reward or a done flag has everything but the last dimension of 1."""
    return (
        e.source in ("reward_spec", "done_spec")
        and not e.leaf.items
        and e.shape[-1:] == (1,)
        and e.fits(torch.Size((*value.shape, 1)), size)
    )


def cast_actions(layout: Layout, tensordict: TensorDictBase) -> None:
    """Give actions of whole numbers the declared dtype where that holds the same numbers; refuses nothing.

    `check_entries` does the same; this is for batches, which leave its errors to their environments.
    """
    for e in layout.action.entries:
        value = None if e.leaf.items else peek(tensordict, e.leaf.key)
        if isinstance(value, torch.Tensor) and value.dtype is not e.dtype:
            _cast_exactly(tensordict, value, e)


def _cast_exactly(tensordict: TensorDictBase, value: torch.Tensor, e: Entry) -> bool:
    """Write an action as the same numbers of the declared dtype; False if that would make other numbers.

    A floating-point action becomes integers or truth values if it is whole, and no gradient would be lost; it does
    not become another floating-point dtype: whether that holds the same numbers would differ from step to step.
    """
    if e.dtype is None or e.leaf.items or value.is_complex() or value.is_nested:
        return False
    if is_traced():  # no values to look at
        return False
    fractional = value.is_floating_point()
    if fractional and (value.requires_grad or e.dtype.is_floating_point or e.dtype.is_complex):
        return False
    cast = value.to(e.dtype)
    same = cast.to(value.dtype) == value if fractional else cast.long() == value.long()
    if not bool(same.all()):
        return False
    tensordict.set(e.leaf.key, cast)
    return True
