"""torch's functions on specs: the same as the methods; and what users register themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.specs import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    OneHot,
    TensorSpec,
    Unbounded,
)

# For torch's types a spec is no tensor.
stack: Any = torch.stack
neg: Any = torch.neg

FRONT = (2, 1, 3)
SPECS: dict[str, Any] = {
    "bounded": Bounded(torch.arange(6.0).reshape(FRONT), 9, FRONT),
    "unbounded": Unbounded(FRONT, dtype=torch.int64),
    "categorical": Categorical(4, FRONT, mask=torch.tensor([True, False, True, True])),
    "one-hot": OneHot(4, (*FRONT, 4)),
    "multi": MultiCategorical([3, 4], (*FRONT, 2)),
    "binary": Binary(shape=(*FRONT, 5)),
    "composite": Composite(a=Unbounded((*FRONT, 7)), b=OneHot(3, (*FRONT, 3)), shape=FRONT),
    "stacked": stack([Bounded(0, size, (2, 1)) for size in (1, 2, 3)], 2),
    "stacked composite": stack(
        [Composite({"a": Unbounded((2, 1)), key: Unbounded((2, 1))}, shape=(2, 1)) for key in "xyz"],
        2,
    ),
}
PLACES = torch.tensor([2, 0, 2])
# The function, and the method that does the same.
PAIRS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "squeeze": (lambda spec: torch.squeeze(spec, 1), lambda spec: spec.squeeze(1)),
    "squeeze all": (lambda spec: torch.squeeze(spec), lambda spec: spec.squeeze()),
    "unsqueeze": (lambda spec: torch.unsqueeze(spec, 0), lambda spec: spec.unsqueeze(0)),
    "unsqueeze by name": (lambda spec: torch.unsqueeze(input=spec, dim=2), lambda spec: spec.unsqueeze(2)),
    "index_select": (lambda spec: torch.index_select(spec, 2, PLACES), lambda spec: spec[:, :, PLACES]),
    "index_select one": (
        lambda spec: torch.index_select(spec, 0, torch.tensor(1)),
        lambda spec: spec[1:],
    ),
    "flatten": (lambda spec: torch.flatten(spec, 0, 2), lambda spec: spec.flatten(0, 2)),
    "unflatten": (lambda spec: torch.unflatten(spec, 0, (2, 1)), lambda spec: spec.unflatten(0, (2, 1))),
    "reshape": (
        lambda spec: torch.reshape(spec, (6, *spec.shape[3:])),
        lambda spec: spec.reshape(6, *spec.shape[3:]),
    ),
    "unbind": (lambda spec: torch.unbind(spec, 2), lambda spec: spec.unbind(2)),
    "clone": (lambda spec: torch.clone(spec), lambda spec: spec.clone()),
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize(("function", "method"), PAIRS.values(), ids=PAIRS)
def test_functions_do_what_methods_do(
    spec: Any, function: Callable[[Any], Any], method: Callable[[Any], Any]
) -> None:
    assert function(spec) == method(spec)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_stack_and_unbind(spec: Any) -> None:
    for dim in (0, 1, 2):
        parts = torch.unbind(spec, dim)
        assert torch.unbind(stack(parts, dim), dim) == parts
    made = stack((spec, spec), dim=1)
    assert type(made) is type(spec)
    assert made.shape == (2, 2, 1, 3, *spec.shape[3:])
    assert made == stack([spec] * 2, -1 - spec.ndim + 1)


def test_wrong_calls() -> None:
    spec = SPECS["bounded"]
    with pytest.raises(NotImplementedError, match="out="):
        stack([spec, spec], out=spec)
    with pytest.raises(RuntimeError):
        stack([])
    for function in (torch.cat, torch.hstack):
        with pytest.raises(TypeError):
            function([spec, spec])
    with pytest.raises(TypeError):
        neg(spec)
    with pytest.raises(IndexError):
        torch.index_select(spec, 0, torch.tensor([2]))
    with pytest.raises(IndexError):
        torch.index_select(spec, 7, PLACES)
    with pytest.raises(IndexError, match="one dimension"):
        torch.index_select(spec, 0, torch.zeros(2, 2, dtype=torch.int64))


class Interval(Bounded):
    """A class of the user's."""


class Positive(Interval):
    """A subclass of it."""


def test_registered_functions() -> None:
    @Interval.implements_for_spec(torch.neg)
    def negate(spec: Interval) -> Interval:
        return Interval(-spec.high, -spec.low, spec.shape, spec.device, spec.dtype)

    assert neg(Interval(0, 1, (2,))) == Interval(-1, 0, (2,))
    assert neg(Positive(0, 1, (2,))) == Interval(-1, 0, (2,))

    @Positive.implements_for_spec(torch.neg)
    def refuse(spec: Positive) -> TensorSpec:
        raise ValueError("never negative")

    assert neg(Interval(0, 1, (2,))) == Interval(-1, 0, (2,))
    with pytest.raises(ValueError, match="never negative"):
        neg(Positive(0, 1, (2,)))
    for other in (Bounded(0, 1, (2,)), Unbounded((2,))):
        with pytest.raises(TypeError):
            neg(other)
    assert callable(negate)
    assert callable(refuse)
