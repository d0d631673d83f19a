"""Bounds that are written to: the spec follows, and no other spec does."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime import specs
from specgen_runtime.specs import Bounded, Composite

MADE: dict[str, Callable[[], Any]] = {
    "of numbers": lambda: Bounded(0, 4, (2, 1)),
    "of tensors": lambda: Bounded(torch.zeros(2, 1), torch.full((2, 1), 4.0)),
    "integers": lambda: Bounded(0, 4, (2, 1), dtype=torch.int64),
    "looked at": lambda: looked_at(Bounded(0, 4, (2, 1))),
    "drawn from": lambda: drawn_from(Bounded(0, 4, (2, 1))),
}

DERIVED: dict[str, Callable[[Any], Any]] = {
    "expand": lambda spec: spec.expand(3, 2, 4),
    "expand a dimension": lambda spec: spec.expand(2, 5),
    "index": lambda spec: spec[0],
    "slice": lambda spec: spec[:1],
    "unsqueeze": lambda spec: spec.unsqueeze(0),
    "squeeze": lambda spec: spec.squeeze(-1),
    "reshape": lambda spec: spec.reshape(1, 2),
    "flatten": lambda spec: spec.flatten(0, 1),
    "unbind": lambda spec: spec.unbind(0)[0],
    "clone": lambda spec: spec.clone(),
    "stack": lambda spec: torch.stack([spec, spec], 0),
    "copy": copy.deepcopy,
    "pickle": lambda spec: pickle.loads(pickle.dumps(spec)),
    "in a composite": lambda spec: Composite(a=spec.expand(3, 2, 1), shape=(3,))["a"],
    "of a composite": lambda spec: Composite(a=spec, shape=(2,)).expand(3, 2)["a"],
}


def looked_at(spec: Any) -> Any:
    assert spec.space.low.shape == spec.shape
    return spec


def drawn_from(spec: Any) -> Any:
    looked_at(spec).rand()
    return spec


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("derive", DERIVED)
def test_each_spec_has_bounds_of_its_own(made: str, derive: str) -> None:
    for look_first in (True, False):
        spec = MADE[made]()
        other = DERIVED[derive](spec)
        if look_first:
            looked_at(other)
        before = other.clone()
        spec.space.low.fill_(3)
        spec.space.high.fill_(3)
        assert other == before
        assert spec.rand((50,)).unique().tolist() == [3]
        other = DERIVED[derive](spec)
        before = spec.clone()
        other.space.low.fill_(1)
        other.space.high.fill_(1)
        assert spec == before
        assert other.rand((50,)).unique().tolist() == [1]


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("derive", DERIVED)
def test_one_element_can_be_written_to(made: str, derive: str) -> None:
    spec = DERIVED[derive](MADE[made]())
    first = (0,) * spec.ndim
    spec.rand()
    spec.space.low[first] = 4
    assert spec.low.sum() == 4
    drawn = spec.rand((200,))
    assert (drawn[:, *first] == 4).all()
    assert spec.is_in(drawn)
    assert not spec.is_in(spec.zero())
    assert spec.project(spec.zero())[first] == 4
    if drawn[0].numel() > 1:
        assert drawn.reshape(200, -1)[:, 1:].min() < 2


def test_the_peer_does_so() -> None:
    peer = pytest.importorskip("torchrl.data")
    for lib in (peer, specs):
        spec = lib.Bounded(-1, 1, (1,))
        wide = spec.expand(3, 1)
        wide.space.low[0] = -0.5
        assert wide.space.low.tolist() == [[-0.5], [-1.0], [-1.0]]
        assert spec.space.low.tolist() == [-1.0]


def test_draws_are_compiled() -> None:
    spec = drawn_from(Bounded(-1, 1, (3,)))
    drawn = torch.compile(lambda: spec.rand(), fullgraph=True, backend="eager")()
    assert spec.is_in(drawn)
    torch.compiler.reset()


def test_expanded_bounds_take_no_memory_until_somebody_asks_for_them() -> None:
    spec = Bounded(0, 1, (3,)).expand(1000, 3)
    spec.assert_is_in(spec.rand())
    assert spec._low.untyped_storage().nbytes() <= 12
    assert spec.low.untyped_storage().nbytes() == 12000
