"""Recursions with keys that may be missing, and outputs under conditions: those of `good/recursion_with_optional_keys`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from itertools import product
from types import ModuleType

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor

from tests.compiled_cases import ROOT
from tests.support import generate, imported

NAME = "recursion_with_optional_keys"
SCHEMA = (ROOT / "good" / NAME / "transforms.yaml").read_text(encoding="utf-8")
TIMES = 9
GAMMA = 0.5


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    with imported(generate({"transforms.yaml": SCHEMA}, NAME), NAME, tmp_path_factory.mktemp("generated")):
        yield importlib.import_module(f"{NAME}.transforms")


def recorded(*batch: int, keys: tuple[str, ...] = ()) -> TensorDict:
    """Moments with ends drawn at random, and without one at the last moment of half of the rows."""
    torch.manual_seed(3)
    shape = (*batch, TIMES)
    root = {
        "observation": torch.randn(*shape, 3),
        "goal": torch.randn(*shape, 3),
        "aim": torch.randn(*shape, 3),
    }
    following = {name: torch.randn_like(value) for name, value in root.items()}
    following |= {
        "reward": torch.randn(*shape, 1),
        "weight": torch.rand(*shape),
        "done": torch.rand(*shape, 1) < 0.3,
    }
    dropped = {"goal", "weight", "aim"} - set(keys)
    for data in (root, following):
        for name in dropped & data.keys():
            del data[name]
    return TensorDict({**root, "next": following}, shape, names=[*([None] * len(batch)), "time"])


def expected(data: TensorDict) -> dict[str, Tensor]:
    """What `Togo` gives, one row and moment after the other."""
    flat = data.reshape(-1, TIMES)
    following = flat["next"]
    reward, done = following["reward"].squeeze(-1), following["done"].squeeze(-1)
    weight, goal = following.get("weight", None), following.get("goal", None)
    names = ["togo", *(["closest"] if goal is not None else [])]
    names += ["gained"] if goal is not None and weight is not None else []
    found = {name: torch.zeros_like(reward) for name in names}
    for row in range(len(flat)):
        zero = torch.zeros(())
        later = {"togo": weight[row, -1] if weight is not None else zero}
        later["closest"] = goal[row, -1].sum() if goal is not None else zero
        later["gained"] = weight[row, -1] if weight is not None else zero
        for t in reversed(range(TIMES)):
            if done[row, t]:
                later = {"togo": zero, "closest": torch.tensor(1.0e6), "gained": zero}
            mine = reward[row, t] if weight is None else weight[row, t] * reward[row, t]
            now = {"togo": mine + GAMMA * later["togo"]}
            if goal is not None:
                distance = (goal[row, t] - flat["goal"][row, t]).abs().sum()
                now["closest"] = torch.minimum(later["closest"], distance)
            if "gained" in found:
                now["gained"] = later["gained"] + weight[row, t] * now["togo"] - later["closest"]
            later = now
            for name in names:
                found[name][row, t] = now[name]
    return {name: value.reshape(data.shape) for name, value in found.items()}


SUBSETS = [
    tuple(k for k, there in zip(("weight", "goal"), chosen, strict=True) if there)
    for chosen in product((0, 1), repeat=2)
]


@pytest.mark.parametrize("batch", [(), (3,), (2, 4)], ids=str)
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("keys", SUBSETS, ids=lambda keys: "_".join(keys) or "none")
def test_what_is_there_is_read(
    made: ModuleType, keys: tuple[str, ...], twice: bool, batch: tuple[int, ...]
) -> None:
    data = recorded(*batch, keys=keys)
    found, wanted = made.Togo(twice=twice)(data)["next"], expected(data)
    places = {"togo": "to_go", "closest": "closest", "gained": "gained"}
    assert {name for name, place in places.items() if place in found} == wanted.keys()
    for name, value in wanted.items():
        assert torch.equal(found[places[name]].reshape(value.shape), value), name
    assert ("double" in found) is twice
    if twice:
        assert torch.equal(found["double"], 2 * found["to_go"])


@pytest.mark.parametrize("batch", [(), (3,), (2, 4)], ids=str)
@pytest.mark.parametrize("keys", [(), ("aim",)], ids=str)
def test_what_is_accumulated_has_fewer_dimensions_than_what_is_read(
    made: ModuleType, keys: tuple[str, ...], batch: tuple[int, ...]
) -> None:
    data = recorded(*batch, keys=keys)
    found = made.Farthest()(data)["far"]
    flat = data.reshape(-1, TIMES)
    away = (flat["observation"] - flat["aim"] if keys else flat["observation"]).abs().sum(-1)
    for row in range(len(flat)):
        far = torch.zeros(())
        for t in range(TIMES):
            far = torch.zeros(()) if t and flat["next", "done"][row, t - 1] else far
            far = torch.maximum(far, away[row, t])
            assert found.reshape(-1, TIMES)[row, t] == far


def test_a_key_that_is_named_has_to_be_there(made: ModuleType) -> None:
    with pytest.raises(KeyError, match="weight"):
        made.Togo(weight_key="weight")(recorded(2))
    with pytest.raises(KeyError, match="'goal' is not in the recorded data"):
        made.Togo()(recorded(2, keys=("goal",)).exclude("goal"))  # it stands under `next` alone
