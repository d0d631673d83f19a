"""The example of `python:` environments: its generated code is up to date, and its environments keep the contract."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
import torch
from specgen_runtime.testing import check_env

from tests.support import generate

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "warehouse"
MODULES = ("warehouse_rl", "warehouse_dynamics", "depot")


@pytest.fixture(scope="module")
def package() -> Iterator[ModuleType]:
    sys.path.insert(0, str(EXAMPLE))
    try:
        yield importlib.import_module("warehouse_rl")
    finally:
        sys.path.remove(str(EXAMPLE))
        for name in [name for name in sys.modules if name.split(".")[0] in MODULES]:
            del sys.modules[name]


def test_it_is_up_to_date() -> None:
    schema = (EXAMPLE / "schemas" / "warehouse.yaml").read_text(encoding="utf-8")
    made = generate({"warehouse.yaml": schema}, "warehouse_rl")
    found = {
        path.relative_to(EXAMPLE / "warehouse_rl").as_posix(): path.read_text(encoding="utf-8")
        for path in (EXAMPLE / "warehouse_rl").rglob("*.py")
    }
    assert found == made, "run `specgen build` in examples/warehouse"


@pytest.mark.parametrize("name", ["Warehouse", "WarehouseTrain"])
def test_the_vectorised_one(package: ModuleType, name: str) -> None:
    check_env(partial(getattr(package, name), batch_size=(3,), check_domains=True), steps=20)


@pytest.mark.parametrize("name", ["Depot", "DepotTrain"])
def test_the_simulation(package: ModuleType, name: str) -> None:
    check_env(partial(getattr(package, name), check_domains=True), steps=40)


def test_random_robots_arrive(package: ModuleType) -> None:
    torch.manual_seed(0)
    data = package.WarehouseTrain(batch_size=(64,), size=3).rollout(50, break_when_any_done=False)
    assert data["next", "terminated"].any()
    allowed = data["allowed"].gather(-1, data["action"][..., None])
    assert allowed.all()
