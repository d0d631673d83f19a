"""Every operation on every sample spec, in TorchRL and here: the same outcome, or a listed difference."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from fnmatch import fnmatch
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime import specs

from tests.specs.peer import Differs, compare, disagreement, outcome
from tests.specs.samples import PLAIN

pytestmark = pytest.mark.peers

Operation = Callable[[Any], Any]

FIELDS: dict[str, Operation] = {
    "itself": lambda spec: spec,
    "ndim": lambda spec: (spec.ndim, spec.ndimension()),
    "domain": lambda spec: spec.domain,
    "n": lambda spec: spec.n,
    "nvec": lambda spec: spec.nvec,
    "mask": lambda spec: spec.mask,
    "low": lambda spec: spec.low,
    "cardinality": lambda spec: float(spec.cardinality()),
    "batch_size": lambda spec: spec.batch_size,
    "clone": lambda spec: (spec.clone(), bool(spec.clone() == spec), spec.clone() is spec),
    "deepcopy": lambda spec: bool(copy.deepcopy(spec) == spec),
    "pickle": lambda spec: bool(pickle.loads(pickle.dumps(spec)) == spec),
    "equals another": lambda spec: (bool(spec == spec.clone()), bool(spec != spec.clone()), spec == 1),
    "hash": lambda spec: isinstance(hash(spec), int),
    "device": lambda spec: (spec.to("cpu").device, spec.cpu().device),
    "clear_device_": lambda spec: spec.clear_device_().device,
    "to same": lambda spec: (spec.to("cpu") is spec) if spec.device else None,
    "to float64": lambda spec: spec.to(torch.float64),
    "to int32": lambda spec: spec.to(torch.int32),
    "to nothing": lambda spec: spec.to(3.5),
    "len": lambda spec: len(spec),
}
VALUES: dict[str, Operation] = {
    "zero": lambda spec: spec.zero(),
    "zeros": lambda spec: spec.zeros(torch.Size([2])),
    "zero of a list": lambda spec: spec.zero([2, 1]),
    "one": lambda spec: spec.one((3,)),
    "ones": lambda spec: spec.ones(),
    "rand": lambda spec: (spec.rand().shape, spec.sample([2, 3]).shape),
    "rand is in": lambda spec: bool(spec.is_in(spec.rand((2,)))),
    "contains": lambda spec: bool(spec.contains(spec.rand())),
    "assert_is_in": lambda spec: spec.assert_is_in(spec.rand()),
    "assert_is_in wrong": lambda spec: spec.assert_is_in(spec.zero().to(torch.complex64)),
    "project a member": lambda spec: (lambda drawn: spec.project(drawn) is drawn)(spec.rand((2,))),
    "type_check": lambda spec: spec.type_check(spec.rand()),
    "type_check wrong": lambda spec: spec.type_check(spec.zero().to(torch.complex64)),
    "to_numpy": lambda spec: spec.to_numpy(spec.zero()),
    "to_numpy of a batch": lambda spec: spec.to_numpy(spec.zero((2,))),
    "to_numpy safe": lambda spec: type(spec.to_numpy(spec.rand(), safe=True)).__name__,
    "encode a member": lambda spec: (lambda drawn: told_equal(spec.encode(drawn), drawn))(spec.rand()),
    "round trip": lambda spec: (lambda drawn: told_equal(spec.encode(spec.to_numpy(drawn)), drawn))(
        spec.rand()
    ),
    "memoize": lambda spec: (spec.memoize_encode(), spec.erase_memoize_cache()),
    "enumerate": lambda spec: spec.enumerate(),
    "index": lambda spec: spec.index(0, spec.rand()),
    "to_categorical_spec": lambda spec: spec.to_categorical_spec(),
    "to_one_hot_spec": lambda spec: spec.to_one_hot_spec(),
    "to_categorical": lambda spec: spec.to_categorical(spec.rand()),
    "to_one_hot": lambda spec: spec.to_one_hot(spec.zero()),
    "update_mask(None)": lambda spec: (spec.update_mask(None), spec.mask),
}
SHAPES: dict[str, Operation] = {
    "expand same": lambda spec: spec.expand(spec.shape),
    "expand in front": lambda spec: spec.expand(5, *spec.shape),
    "expand by a list": lambda spec: spec.expand([2, 3, *spec.shape]),
    "expand to less": lambda spec: spec.expand(spec.shape[1:]),
    "expand a larger": lambda spec: spec.expand(*(size + 1 for size in spec.shape)),
    "expand -1 in front": lambda spec: spec.expand(-1, 2, *spec.shape),
    "expand text": lambda spec: spec.expand("x"),
    "unsqueeze 0": lambda spec: spec.unsqueeze(0),
    "unsqueeze first": lambda spec: spec.unsqueeze(-spec.ndim - 1),
    "unsqueeze last": lambda spec: spec.unsqueeze(-1),
    "unsqueeze too far": lambda spec: spec.unsqueeze(spec.ndim + 1),
    "unsqueeze too low": lambda spec: spec.unsqueeze(-spec.ndim - 2),
    "squeeze": lambda spec: spec.squeeze(),
    "squeeze back": lambda spec: spec.unsqueeze(0).squeeze(0),
    "squeeze a larger": lambda spec: spec.expand(2, *spec.shape).squeeze(0),
    "squeeze too far": lambda spec: spec.squeeze(spec.ndim + 1),
    "reshape same": lambda spec: spec.reshape(spec.shape),
    "reshape in front": lambda spec: spec.expand(6, *spec.shape).reshape(2, 3, *spec.shape),
    "reshape a tuple": lambda spec: spec.expand(6, *spec.shape).reshape((2, 3, *spec.shape)),
    "view": lambda spec: spec.view(1, *spec.shape),
    "flatten front": lambda spec: spec.expand(2, 3, *spec.shape).flatten(0, 1),
    "flatten needs both": lambda spec: spec.flatten(),
    "unflatten front": lambda spec: spec.expand(6, *spec.shape).unflatten(0, (2, 3)),
    "unflatten wrong": lambda spec: spec.expand(6, *spec.shape).unflatten(0, (4, 3)),
    "unbind front": lambda spec: spec.expand(2, *spec.shape).unbind(0),
    "unbind default": lambda spec: spec.expand(2, *spec.shape).unbind(),
    "unbind last": lambda spec: spec.unbind(-1),
    "unbind too far": lambda spec: spec.unbind(spec.ndim + 1),
    "torch.stack": lambda spec: torch.stack([spec, spec.clone()]),
    "torch.stack 1": lambda spec: torch.stack([spec.unsqueeze(0), spec.unsqueeze(0)], dim=1),
    "torch.stack -1": lambda spec: torch.stack([spec, spec.clone()], -1),
    "torch.stack one": lambda spec: torch.stack((spec,), 0),
    "torch.squeeze": lambda spec: torch.squeeze(spec.unsqueeze(0), 0),
    "torch.unsqueeze": lambda spec: torch.unsqueeze(spec, 0),
    "torch.index_select": lambda spec: torch.index_select(
        spec.expand(3, *spec.shape), 0, torch.tensor([2, 0])
    ),
    "torch.index_select last": lambda spec: torch.index_select(spec, -1, torch.tensor([0])),
    "torch.cat": lambda spec: torch.cat([spec, spec]),
}
# Applied with two dimensions in front, 3 and 4.
INDICES: dict[str, Any] = {
    "int": 1,
    "negative int": -1,
    "int out of range": 3,
    "numpy int": np.int64(1),
    "slice": slice(1, 3),
    "empty slice": slice(5, None),
    "reversed": slice(2, 0, -1),
    "two ints": (0, 1),
    "slice, int": (slice(None), 1),
    "...": ...,
    "..., nothing more": (..., slice(None)),
    "int, ...": (0, ...),
    "None": None,
    "None, int": (None, 0),
    "int, None": (0, None),
    "list": [0, 2],
    "nested list": [[0, 1]],
    "list out of range": [0, 9],
    "empty list": [],
    "range": range(2),
    "two lists": ([0, 1], [1, 2]),
    "slice, list": (slice(None, 2), [0, 1]),
    "array": np.array([[1, 2]]),
    "tensor": torch.tensor([2, 0]),
    "0-d tensor": torch.tensor(1),
    "2-d tensor": torch.tensor([[0], [1]]),
    "int, tensor": (0, torch.tensor([0, 1])),
    "mask": torch.tensor([True, False, True]),
    "bool array": np.array([True, False, True]),
    "bool list": [True, False, True],
    "2-d mask": torch.ones(3, 4, dtype=torch.bool),
    "mask too short": torch.tensor([True, False]),
    "empty tuple": (),
    "two ellipses": (..., 0, ...),
    "text": "no such key",
    "float": 1.5,
}

# TorchRL's masks are lost or break as soon as a shape changes, its choices can't be indexed, and entries that are
# None fail. Each has a case elsewhere; that ours go with every shape is a law (test_properties.py).
KEPT = [name for name in PLAIN if "_mask" not in name and "choice" not in name and name != "composite_none"]

INDEXED: dict[str, Operation] = {
    f"[{name}]": partial(lambda spec, index: spec.expand(3, 4, *spec.shape)[index], index=index)
    for name, index in INDICES.items()
}
OPERATIONS = FIELDS | VALUES | SHAPES | INDEXED

FLOATS = "bounded_float32 bounded_float64 bounded_float16 bounded_bfloat16 bounded_rows bounded_scalar"
INTEGERS = "bounded_int* bounded_uint8 bounded_int8 bounded_bool"
MASKED = "categorical_mask categorical_mask_batch"
MULTI = "multi multi_batch multi_deep multi_rows_differ"
TEXTS = "nontensor nontensor_cpu choice_data"

COUNTED = Differs("the number of members, of all elements together")
ENUMERATED = Differs("all members, in the spec's dtype, whatever the shape")
BFLOAT16 = Differs("NumPy has no bfloat16: given as float32")
KEPT_MASK = Differs("the mask is kept")
PLAIN_DATA = Differs("plain Python data, as `encode` takes them")
CHOICE_SIZES = Differs("every member can be made larger")
FEWER = Differs("the new shape must be at least as long", ValueError)
NO_INDEX = Differs("not an index", IndexError)
WRONG_INDEX = Differs("says what it expects instead", ValueError)
WHOLE = Differs("the whole of a MultiCategorical can be reshaped, as every other class")

DIFFERENCES: dict[str, dict[str, Differs | None]] = {
    "domain": {
        "nontensor nontensor_cpu choice_data": Differs("a text in every case", ""),
        "choice_bounded": Differs("that of the choices", "continuous"),
        "choice_classes": Differs("that of the choices", "discrete"),
    },
    "cardinality": {
        INTEGERS: COUNTED,
        "unbounded_*": Differs("infinite, or counted"),
        "composite composite_none": Differs("infinite", float("inf")),
        f"categorical_batch {MASKED} onehot_batch onehot_mask multi_batch multi_deep multi_mask": COUNTED,
        "binary* multi_onehot_batch multi_onehot_mask composite_classes choice_classes": COUNTED,
    },
    "to same": {"choice_bounded choice_classes": Differs("documented: itself if nothing changes", True)},
    "to float64": {MASKED: KEPT_MASK, "multi_mask multi_onehot_mask": KEPT_MASK},
    "to int32": {
        MASKED: KEPT_MASK,
        "multi_mask multi_onehot_mask": KEPT_MASK,
        "bounded_rows": Differs("the bounds move inwards: 0.001 … becomes 1 …"),
        "bounded_int64_wide bounded_int64_full": Differs(
            "the bounds stop at the dtype's limits, they don't wrap"
        ),
    },
    "to nothing": {"choice_data": Differs("neither a device nor a dtype", TypeError)},
    "zeros": {"choice_data": CHOICE_SIZES},
    "zero of a list": {"choice_data": CHOICE_SIZES},
    "rand": {"choice_data": CHOICE_SIZES},
    "one": {"composite_classes": Differs("in the spec's dtype"), "choice_*": Differs("works")},
    "ones": {"composite_classes": Differs("in the spec's dtype"), "choice_*": Differs("works")},
    "assert_is_in wrong": {
        f"{MASKED} multi_mask onehot_mask multi_onehot_mask": Differs("another dtype", AssertionError),
    },
    "to_numpy": {"bounded_bfloat16": BFLOAT16, TEXTS: PLAIN_DATA},
    "to_numpy of a batch": {"bounded_bfloat16": BFLOAT16, TEXTS: PLAIN_DATA},
    "to_numpy safe": {"bounded_bfloat16": BFLOAT16, TEXTS: PLAIN_DATA},
    "encode a member": {
        "onehot* multi_onehot* composite_classes": Differs("it is encoded already", True),
        "choice_data": Differs("it is encoded already", True),
    },
    "round trip": {
        "bounded_bfloat16": Differs("NumPy has no bfloat16: by way of float32", True),
        "choice_data": Differs("works", True),
    },
    "enumerate": {
        f"categorical_batch categorical_bool {MASKED} onehot_batch onehot_mask multi_batch binary*": ENUMERATED,
        "multi_onehot_batch composite_classes composite_empty choice_classes": ENUMERATED,
        "multi_deep": Differs("too many to be made", NotImplementedError),
        "multi_rows_differ multi_mask multi_onehot_mask choice_data": ENUMERATED,
    },
    "index": {"categorical* multi multi_* binary*": WRONG_INDEX, "multi_onehot*": None},
    "to_one_hot_spec": {MASKED: KEPT_MASK},
    "to_one_hot": {"categorical_batch categorical_bool binary*": Differs("for every dtype")},
    "expand to less": {
        f"{FLOATS} {INTEGERS} unbounded_float32 unbounded_float32_long unbounded_default unbounded_bool": FEWER,
        "bounded_float64 bounded_scalar": None,
        "unbounded_uint8 categorical_bool binary composite_empty nontensor_cpu onehot multi multi_onehot": FEWER,
    },
    "expand -1 in front": {"*": Differs("a dimension of unknown size is not made by expanding", ValueError)},
    "expand text": {"*": Differs("the wrong type", TypeError)},
    "unsqueeze too low": {"composite_empty": Differs("out of range", ValueError)},
    "squeeze": {"unbounded_default categorical_bool": Differs("documented: every singleton is removed")},
    "reshape in front": {MULTI: WHOLE},
    "reshape a tuple": {MULTI: WHOLE},
    "flatten front": {MULTI: WHOLE},
    "unflatten front": {MULTI: WHOLE},
    "unbind last": {
        f"{FLOATS} {INTEGERS} binary*": Differs("the last dimension holds no columns"),
        "bounded_scalar categorical": Differs("there is no dimension", IndexError),
    },
    "unbind too far": {"composite_classes": Differs("out of range", IndexError)},
    "torch.index_select last": {
        "bounded_scalar categorical": Differs("there is no dimension", IndexError),
        "binary*": Differs("the last dimension holds no columns"),
    },
    "[numpy int]": {"*": Differs("an integer is an index"), MULTI: None},
    "[empty slice]": {"composite": Differs("works")},
    "[empty list]": {"composite": Differs("works")},
    "[reversed]": {f"{FLOATS} {INTEGERS} {MULTI} composite": Differs("works for every class")},
    "[nested list]": {f"{FLOATS} {INTEGERS} {MULTI} composite": Differs("works for every class")},
    "[bool list]": {"*": Differs("a mask, as for tensors"), MULTI: None},
    "[mask too short]": {
        "*": Differs("the sizes differ", IndexError),
        f"{FLOATS} {INTEGERS} {MULTI} composite": None,
    },
    "[two ellipses]": {MULTI: Differs("one at most", IndexError)},
    "[text]": {"*": NO_INDEX, f"{MULTI} composite*": None},
    "[float]": {"*": NO_INDEX, MULTI: None},
}
"""By operation, then by sample: names, with `*` for any ending; the longest counts, and None means that they agree."""


def told_equal(left: Any, right: Any) -> bool:
    return bool((left == right).all()) and left.shape == right.shape


def listed(operation: str, sample: str) -> Differs | None:
    found: dict[str, Differs | None] = {
        pattern: differs
        for names, differs in DIFFERENCES.get(operation, {}).items()
        for pattern in names.split()
        if fnmatch(sample, pattern)
    }
    return found[max(found, key=len)] if found else None


def samples_for(operation: str) -> list[str]:
    return KEPT if operation in SHAPES or operation in INDEXED else list(PLAIN)


def run(operation: Operation, sample: str, library: Any) -> Any:
    torch.manual_seed(0)
    return outcome(lambda lib: operation(PLAIN[sample](lib)), library)


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation(name: str) -> None:
    torchrl = pytest.importorskip("torchrl.data")
    wrong = []
    for sample in samples_for(name):
        theirs, mine = run(OPERATIONS[name], sample, torchrl), run(OPERATIONS[name], sample, specs)
        problem = disagreement(theirs, mine, listed(name, sample))
        if problem is not None:
            wrong.append(f"{sample}\n      {problem}")
    assert not wrong, f"{name}:\n  " + "\n  ".join(wrong)


# Applied to a shape of five dimensions.
MIXED: list[Any] = [
    ((0, 1), (0, 1)),
    (slice(None, 2), (0, 1)),
    (slice(None, 2), range(3)),
    (slice(None, 2), np.array([[1, 2]])),
    ([[[[0, 1]]]], [[0]]),
    (0, [[[[0, 1]]]]),
    (slice(2, None), [[[0, 1]]], slice(None, 3)),
    (slice(2, None), [[[0, 1]]], [[0, 1]], slice(None, 3)),
    (slice(2, None), [[[0, 1]]], 0, slice(None, 3)),
    (slice(2, None), [[[0, 1]]], slice(None, 3), 0),
    (None, 1, ..., None),
    (1, ..., 2),
    (..., slice(None, 2), None, None),
    (..., [0, 1], [0]),
    (slice(None), None, ..., None, slice(None)),
    (slice(-5, -1), slice(10, 1, -1)),
    range(10),
    np.array([[2, 10]]),
    (1, ..., 2, ..., 3),
    (1,) * 6,
    (slice(None), 5),
]


@pytest.mark.parametrize("index", MIXED, ids=str)
@pytest.mark.parametrize(
    "make",
    [
        lambda lib: lib.Unbounded((5, 3, 4, 6, 7)),
        lambda lib: lib.Categorical(7, (5, 3, 4, 6, 7)),
        lambda lib: lib.OneHot(8, (5, 3, 4, 6, 7, 8)),
        lambda lib: lib.Composite(a=lib.Unbounded((5, 3, 4, 6, 7, 2)), shape=(5, 3, 4, 6, 7)),
    ],
    ids=["unbounded", "categorical", "one hot", "composite"],
)
def test_mixed_indices(make: Operation, index: Any) -> None:
    problem = compare(lambda lib: make(lib)[index].shape, pytest.importorskip("torchrl.data"))
    assert problem is None, problem


def test_every_listed_difference_is_a_case() -> None:
    for operation, found in DIFFERENCES.items():
        for pattern in " ".join(found).split():
            assert any(fnmatch(sample, pattern) for sample in samples_for(operation)), (operation, pattern)
