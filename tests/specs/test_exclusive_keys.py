"""Stacks of composites whose keys differ: asking for it, and mending it, as TorchRL's functions of these names do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime import specs as own_data
from specgen_runtime.specs import (
    Binary,
    Categorical,
    Composite,
    OneHot,
    StackedComposite,
    Unbounded,
    check_no_exclusive_keys,
    consolidate_spec,
    contains_lazy_spec,
)

BUILDERS: dict[str, Any] = {
    "alike": lambda m: torch.stack([m.Composite(a=m.Unbounded((3,))), m.Composite(a=m.Unbounded((3,)))]),
    "sizes": lambda m: torch.stack([m.Composite(a=m.Unbounded((3,))), m.Composite(a=m.Unbounded((4,)))]),
    "keys": lambda m: torch.stack(
        [m.Composite(a=m.Unbounded((3,))), m.Composite(a=m.Unbounded((3,)), b=m.Unbounded((2, 5)))]
    ),
    "two of three": lambda m: torch.stack(
        [m.Composite(b=m.Unbounded((2, 5))), m.Composite(), m.Composite(b=m.Unbounded((2, 6)))]
    ),
    "scalars": lambda m: torch.stack([m.Composite(), m.Composite(c=m.Categorical(4))]),
    "nested": lambda m: torch.stack(
        [m.Composite(n=m.Composite(x=m.Unbounded((1,)))), m.Composite(n=m.Composite(y=m.Bounded(0, 1, (2,))))]
    ),
    "composite missing": lambda m: torch.stack(
        [m.Composite(a=m.Unbounded((1,))), m.Composite(n=m.Composite(x=m.Unbounded((1,))))]
    ),
    "batched": lambda m: torch.stack(
        [
            m.Composite(a=m.Unbounded((4, 3)), shape=(4,)),
            m.Composite(b=m.Bounded(0, 1, (4, 2)), shape=(4,)),
        ],
        1,
    ),
    "inside": lambda m: m.Composite(
        agents=torch.stack([m.Composite(a=m.Unbounded((3,))), m.Composite(b=m.Unbounded((2,)))])
    ),
    "leaf": lambda m: m.Unbounded((3,)),
    "plain": lambda m: m.Composite(a=m.Unbounded((3,)), n=m.Composite(x=m.Unbounded(()))),
}


def described(spec: Any, lib: Any) -> Any:
    """Keys, shapes and dtypes of a spec of a library, item by item."""
    if hasattr(spec, "stack_dim") and isinstance(spec, lib.Composite):
        return [
            described(spec[(slice(None),) * spec.stack_dim + (i,)], lib)
            for i in range(spec.shape[spec.stack_dim])
        ]
    if isinstance(spec, lib.Composite):
        return {key: described(value, lib) for key, value in sorted(spec.items())}
    return tuple(spec.shape), spec.dtype


@pytest.mark.peers
@pytest.mark.parametrize("name", BUILDERS)
def test_agrees_with_torchrl(name: str) -> None:
    peer_data, peer = pytest.importorskip("torchrl.data"), pytest.importorskip("torchrl.data.utils")
    own, theirs = BUILDERS[name](own_data), BUILDERS[name](peer_data)
    assert contains_lazy_spec(own) == peer.contains_lazy_spec(theirs)
    for recurse in (True, False):
        assert check_no_exclusive_keys(own, recurse) == peer.check_no_exclusive_keys(theirs, recurse)
    for entries in (True, False):
        for stack in (True, False):
            ours = consolidate_spec(own, entries, stack)
            expected = peer.consolidate_spec(theirs, entries, stack)
            assert described(ours, own_data) == described(expected, peer_data)
            assert check_no_exclusive_keys(ours) == peer.check_no_exclusive_keys(expected)


@pytest.mark.parametrize("name", BUILDERS)
def test_consolidated_specs_draw_members(name: str) -> None:
    spec = BUILDERS[name](own_data)
    before = repr(spec)
    whole = consolidate_spec(spec)
    assert check_no_exclusive_keys(whole)
    assert whole.is_in(whole.rand())
    assert repr(spec) == before  # the argument stays as it was


def test_bits_can_be_without_elements() -> None:
    spec = torch.stack([Composite(), Composite(b=Binary(2))])
    whole = consolidate_spec(spec)
    assert isinstance(whole, StackedComposite)
    assert [tuple(item["b"].shape) for item in whole.unbind(0)] == [(0,), (2,)]


def test_what_cannot_be_empty_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="key 'b': there is no OneHot without elements"):
        consolidate_spec(torch.stack([Composite(), Composite(b=OneHot(4))]))
    with pytest.raises(
        ValueError, match="key 'b': the items have specs of different classes: Categorical, Unbounded"
    ):
        consolidate_spec(torch.stack([Composite(), Composite(b=Categorical(4)), Composite(b=Unbounded(()))]))
