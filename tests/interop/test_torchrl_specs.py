"""Specs to TorchRL's and back: nothing is lost, and what TorchRL makes of them is what it makes of its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime import specs as ours
from specgen_runtime.interop import spec_from_torchrl, spec_to_torchrl
from tensordict import NonTensorData, NonTensorStack, TensorDict

from tests.specs.choice_samples import CHOICES
from tests.specs.peer import told
from tests.specs.samples import ALL, SPECS, make

pytestmark = pytest.mark.peers

theirs = pytest.importorskip("torchrl.data", reason="the extra `peers`")

MORE: dict[str, Any] = {
    "mask of a binary": lambda lib: masked(lib.Binary(3), torch.tensor([[True, False]] * 3)),
    "register": lambda lib: lib.OneHot(4, use_register=True),
    "register of several": lambda lib: lib.MultiOneHot([2, 3], use_register=True),
    "without the singleton": lambda lib: lib.MultiCategorical([3], remove_singleton=True),
    "with the singleton": lambda lib: lib.MultiCategorical([3], remove_singleton=False),
    "rows that differ": lambda lib: lib.MultiCategorical(torch.tensor([[3, 2], [7, 4]]), (5, 2, 2)),
    "unknown classes": lambda lib: lib.Categorical(-1, (2,)),
    "provisional classes": lambda lib: provisional(lib.Categorical(-1)),
    "no dimension": lambda lib: lib.Binary(shape=()),
    "infinite bounds": lambda lib: lib.Bounded(float("-inf"), 3.0, (2,)),
    "one-sided rows": lambda lib: lib.Bounded(
        torch.tensor([-torch.inf, 0.0]), torch.tensor([1.0, torch.inf])
    ),
    "meta": lambda lib: lib.Composite(a=lib.Categorical(3, (2,), device="meta"), device="meta"),
    "names": lambda lib: lib.Composite(a=lib.Unbounded((2, 3)), shape=(2,), names=["row"]),
    "static": lambda lib: lib.Composite(a=lib.Unbounded((2,)), step_mdp_static=True),
    "data class": lambda lib: lib.Composite(a=lib.Unbounded((2,)), data_cls=TensorDict),
    "batched data": lambda lib: lib.NonTensor((2, 3), example_data=[1], batched=True),
    "data dimensions": lambda lib: lib.NonTensor((2, 3), example_data="x", feature_dims=1),
    "choice of stacks": lambda lib: lib.Choice([NonTensorStack("a", "b"), NonTensorStack("c", "d")]),
    "choice of composites": lambda lib: lib.Choice(
        [lib.Composite(x=lib.Bounded(at, at + 1, (2,))) for at in (0, 4)]
    ),
    "stack in a composite": lambda lib: lib.Composite(
        agents=torch.stack([lib.Composite(a=lib.OneHot(2)), lib.Composite(a=lib.OneHot(3))])
    ),
}
EVERY = ALL | MORE


def masked(spec: Any, mask: torch.Tensor) -> Any:
    spec.update_mask(mask)
    return spec


def provisional(spec: Any) -> Any:
    spec.set_provisional_n(4)
    return spec


@pytest.mark.parametrize("name", EVERY)
def test_there_and_back(name: str) -> None:
    spec = EVERY[name](ours)
    there = spec_to_torchrl(spec)
    assert isinstance(there, theirs.TensorSpec)
    assert spec_from_torchrl(there) == spec


@pytest.mark.parametrize("name", EVERY)
def test_to_torchrl_is_what_torchrl_makes(name: str) -> None:
    expected = EVERY[name](theirs)
    found = spec_to_torchrl(EVERY[name](ours))
    assert type(found) is type(expected)
    assert told(found) == told(expected)
    if name not in ("rows that differ", "infinite bounds", "one-sided rows"):  # which TorchRL can't compare
        assert found == expected
    assert told(spec_from_torchrl(expected)) == told(EVERY[name](ours))


# TorchRL's Choice copies its choices, and copies of MultiCategorical forget `remove_singleton`.
@pytest.mark.parametrize("name", [name for name in CHOICES if name != "multi"])
def test_choices(name: str) -> None:
    spec = CHOICES[name]()
    assert spec_from_torchrl(spec_to_torchrl(spec)) == spec


@pytest.mark.parametrize("name", SPECS)
def test_the_same_numbers(name: str) -> None:
    spec = make(name, ours)
    torch.manual_seed(0)
    drawn = spec.rand()
    torch.manual_seed(0)
    assert told(spec_to_torchrl(spec).rand()) == told(drawn)


@pytest.mark.parametrize("name", ["bounded_rows", "categorical_mask", "multi_mask", "composite"])
def test_nothing_is_shared(name: str) -> None:
    spec = make(name, ours)
    there = spec_to_torchrl(spec)
    before = spec.clone()
    if name == "composite":
        there["more"] = theirs.Unbounded((3, 1))
    elif name == "bounded_rows":
        there.space.low.fill_(-9.0)
    else:
        there.mask.clone().fill_(False)
        there.update_mask(None)
    assert spec == before


def test_locks_are_not_taken_over() -> None:
    locked = ours.Composite(a=ours.Unbounded((2,))).lock_()
    there = spec_to_torchrl(locked)
    there["b"] = theirs.Unbounded((3,))
    assert not spec_from_torchrl(there.lock_()).is_locked


@pytest.mark.parametrize("convert", [spec_to_torchrl, spec_from_torchrl], ids=["to", "from"])
@pytest.mark.parametrize("given", [3, None, torch.zeros(2), NonTensorData("a")], ids=str)
def test_what_is_no_spec_is_refused(convert: Any, given: Any) -> None:
    with pytest.raises(TypeError, match="needs a"):
        convert(given)


def test_specs_of_the_wrong_library_are_refused() -> None:
    with pytest.raises(TypeError, match="found BoundedContinuous"):
        spec_to_torchrl(theirs.Bounded(0, 1, (2,)))
    with pytest.raises(TypeError, match="found BoundedContinuous"):
        spec_from_torchrl(ours.Bounded(0, 1, (2,)))


def test_unknown_classes_are_refused() -> None:
    class Other(ours.LeafSpec):
        __abstractmethods__ = frozenset()

    class Theirs(theirs.TensorSpec):
        __abstractmethods__ = frozenset()

    Other.__abstractmethods__ = Theirs.__abstractmethods__ = frozenset()
    other = Other((2,), None, None)  # type: ignore[abstract]
    with pytest.raises(TypeError, match="TorchRL has no spec like Other"):
        spec_to_torchrl(other)
    theirs_other = Theirs(torch.Size([2]), None, torch.device("cpu"), torch.float32, "continuous")
    with pytest.raises(TypeError, match="no spec here like TorchRL's Theirs"):
        spec_from_torchrl(theirs_other)


def test_faults_of_torchrls_specs_are_reported() -> None:
    with pytest.raises(ValueError, match="low"):
        spec_from_torchrl(theirs.Bounded(1, -1, (2,)))
    with pytest.raises(ValueError, match="low must not be NaN"):
        spec_from_torchrl(theirs.Bounded(float("nan"), 1, (2,)))
