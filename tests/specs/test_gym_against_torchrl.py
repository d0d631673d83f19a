"""Gymnasium's spaces and specs, as TorchRL converts them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from specgen_runtime import specs
from specgen_runtime.specs.gymnasium import space_to_spec, spec_to_space

from tests.specs.peer import Differs, Returns, disagreement, outcome

pytestmark = pytest.mark.peers

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
INF = np.inf

PEER_SPACES: list[tuple[Any, Differs | None]] = [
    (BOX, None),
    (spaces.Box(-1.0, 1.0, ()), Differs("TorchRL adds a dimension to a Box of shape ()", Returns)),
    (spaces.Box(-INF, INF, (2,), np.float64), None),
    (spaces.Box(np.array([-INF, 0.0]), np.array([1.0, INF]), (2,), np.float64), None),
    (spaces.Box(0, 255, (2, 2), np.uint8), None),
    (spaces.Box(0, 254, (2, 2), np.uint8), None),
    (spaces.Box(-(2**31), 2**31 - 1, (2,), np.int32), None),
    (
        spaces.Box(-(2**31) + 1000, 2**31 - 1, (2,), np.int32),
        Differs("TorchRL compares bounds with the dtype's only nearly", Returns),
    ),
    (spaces.Box(0, 1, (2,), np.bool_), None),
    (spaces.Discrete(3), None),
    (spaces.Discrete(3, dtype=np.int32), None),
    (spaces.Discrete(3, start=2), None),
    (spaces.MultiBinary(4), None),
    (spaces.MultiBinary((2, 3)), Differs("TorchRL: TypeError", Returns)),
    (spaces.MultiDiscrete([3, 3]), None),
    (spaces.MultiDiscrete([3]), None),
    (spaces.MultiDiscrete([3, 5]), None),
    (spaces.MultiDiscrete([3, 5], dtype=np.int32), None),
    (spaces.MultiDiscrete([[2, 3], [4, 5]]), None),
    (spaces.MultiDiscrete([[2, 2], [3, 3]]), None),
    (spaces.MultiDiscrete([[2, 2], [2, 2]]), None),
    (spaces.MultiDiscrete([[2, 3], [3, 3]]), Differs("TorchRL stacks rows of one class only", Returns)),
    (spaces.Dict(a=BOX, b=spaces.Dict(c=spaces.Discrete(2))), None),
    (spaces.Dict({}), None),
    (spaces.Dict(state=BOX), Differs("TorchRL renames state to observation", Returns)),
    (spaces.Tuple([BOX, BOX]), None),
    (spaces.Tuple([BOX, spaces.Box(-1.0, 2.0, (3,))]), None),
    (spaces.Tuple([BOX, spaces.Box(-1.0, 1.0, (4,))]), None),
    (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]), None),
    (spaces.Tuple([spaces.Discrete(3), spaces.Discrete(3)]), None),
    (spaces.Tuple([spaces.Dict(a=BOX), spaces.Dict(a=BOX)]), None),
    (spaces.Tuple([spaces.Dict(a=BOX), spaces.Dict(b=BOX)]), None),
    (spaces.Tuple([BOX, spaces.Discrete(3)]), None),
    (spaces.Tuple([]), None),
    (spaces.Text(4), Differs("TorchRL's example is no text of the space", Returns)),
    (spaces.Sequence(BOX, stack=True), None),
    (spaces.Sequence(BOX), None),
    (
        spaces.Sequence(spaces.Dict(a=BOX), stack=True),
        Differs("TorchRL: ValueError, a Composite has no variable dimension", Returns),
    ),
    (spaces.Graph(BOX, None), None),
    (spaces.OneOf([BOX, BOX]), None),
]


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize(("space", "differs"), PEER_SPACES, ids=str)
def test_torchrl_reads_spaces_alike(space: Any, differs: Differs | None, categorical: bool) -> None:
    gym = pytest.importorskip("torchrl.envs.libs.gym")
    theirs = outcome(
        lambda _: gym._gym_to_torchrl_spec_transform(space, categorical_action_encoding=categorical), None
    )
    mine = outcome(lambda _: space_to_spec(space, categorical_action_encoding=categorical), None)
    assert disagreement(theirs, mine, differs) is None


def test_torchrl_forgets_the_flag_in_sequences() -> None:
    gym = pytest.importorskip("torchrl.envs.libs.gym")
    space = spaces.Sequence(spaces.Discrete(3), stack=True)
    theirs = gym._gym_to_torchrl_spec_transform(space, categorical_action_encoding=True)
    assert theirs.shape == (-1, 3)
    assert space_to_spec(space, categorical_action_encoding=True).shape == (-1,)


PEER_SPECS: dict[str, tuple[Any, bool]] = {
    "Bounded": (lambda lib: lib.Bounded(-1.0, 1.0, (3,)), True),
    "Bounded of no dimensions": (lambda lib: lib.Bounded(-1.0, 1.0, ()), True),
    "Categorical": (lambda lib: lib.Categorical(3), True),
    "OneHot": (lambda lib: lib.OneHot(3), True),
    "MultiCategorical": (lambda lib: lib.MultiCategorical([2, 3]), True),
    "MultiOneHot": (lambda lib: lib.MultiOneHot([2, 3]), True),
    "Binary": (lambda lib: lib.Binary(3), True),
    "Unbounded of integers": (lambda lib: lib.Unbounded((2,), dtype=torch.int32), True),
    "Composite": (
        lambda lib: lib.Composite(a=lib.Bounded(-1.0, 1.0, (3,)), b=lib.Composite(c=lib.Binary(2))),
        True,
    ),
    "Stacked of several sizes": (
        lambda lib: torch.stack([lib.Bounded(-1.0, 1.0, (3,)), lib.Bounded(-1.0, 1.0, (4,))], 0),
        True,
    ),
    "variable": (lambda lib: lib.Unbounded((-1, 3), dtype=torch.int64), True),
    # TorchRL forgets the shape, the dtype or the rest of the stack.
    "several Categorical": (lambda lib: lib.Categorical(3, shape=(2,)), False),
    "Categorical of int32": (lambda lib: lib.Categorical(3, dtype=torch.int32), False),
    "several OneHot": (lambda lib: lib.OneHot(3, shape=(2, 3)), False),
    "Binary of two dimensions": (lambda lib: lib.Binary(shape=(2, 3)), False),
    "Bounded of float64": (lambda lib: lib.Bounded(-1.0, 1.0, (3,), dtype=torch.float64), False),
    "Bounded of integers": (lambda lib: lib.Bounded(-1, 1, (3,), dtype=torch.int32), False),
    "StackedComposite": (
        lambda lib: torch.stack([lib.Composite(a=lib.Binary(2)), lib.Composite(b=lib.Binary(2))], 0),
        False,
    ),
    "batch of Composite": (lambda lib: lib.Composite(a=lib.Binary(shape=(4, 2)), shape=(4,)), False),
    # TorchRL's has the largest finite numbers as bounds: its samples are infinite.
    "Unbounded": (lambda lib: lib.Unbounded((2,)), False),
    # TorchRL has none.
    "Unbounded of bool": (lambda lib: lib.Unbounded((2,), dtype=torch.bool), False),
    "Stacked of one size": (
        lambda lib: torch.stack([lib.Categorical(2), lib.Categorical(3)], 0),
        False,
    ),
    "NonTensor": (lambda lib: lib.NonTensor(shape=(), example_data="text"), False),
}


@pytest.mark.parametrize("name", PEER_SPECS)
def test_torchrl_makes_the_same_spaces(name: str) -> None:
    gym = pytest.importorskip("torchrl.envs.libs.gym")
    data = pytest.importorskip("torchrl.data")
    make, agrees = PEER_SPECS[name]
    mine = spec_to_space(make(specs))
    try:
        theirs = gym._torchrl_to_gym_spec_transform(make(data))
    except (ValueError, NotImplementedError):
        theirs = None
    assert (mine == theirs) is agrees


def test_torchrl_has_no_space_for_what_we_have_none() -> None:
    gym = pytest.importorskip("torchrl.envs.libs.gym")
    data = pytest.importorskip("torchrl.data")
    for transform, library in ((gym._torchrl_to_gym_spec_transform, data), (spec_to_space, specs)):
        with pytest.raises(NotImplementedError):
            transform(library.NonTensor(shape=(), example_data=3))
