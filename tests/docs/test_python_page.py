"""The manual's page on behaviour written in Python: its classes do what its schemas declare."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest
from specgen_runtime.testing import check_env

from tests.support import generate, imported

PAGE = Path(__file__).resolve().parents[2] / "docs" / "language" / "python.md"

SIMULATOR = """
import numpy as np
import torch
from torch import Tensor
from my_rl.all import ArmProtocol, ArmReset, ArmSetup, ArmStep

class Simulator:
    def __init__(self, gravity):
        self.random = np.random.default_rng(0)

    def restart(self, seed):
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.angle = self.random.uniform(-1, 1, 2)

    def advance(self, torque):
        self.angle += 0.1 * torque

    def render(self):
        return np.full((64, 64, 3), 7, np.uint8)

    @property
    def score(self):
        return -np.abs(self.angle).max()

    @property
    def fell(self):
        return self.score < -1

    def close(self):
        pass
"""


def blocks(language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


@pytest.mark.parametrize(
    ("index", "name", "module", "head"),
    [(0, "Warehouse", "warehouse", ""), (1, "Arm", "arm", SIMULATOR), (2, "Sled", "sled", "")],
)
def test_the_classes_of_the_page(tmp_path: Path, index: int, name: str, module: str, head: str) -> None:
    (tmp_path / "mypackage").mkdir()
    (tmp_path / "mypackage" / "__init__.py").touch()
    code = head + blocks("python")[index].replace(f"my_rl.{module}", "my_rl.all")
    (tmp_path / "mypackage" / f"{module}.py").write_text(code, encoding="utf-8")
    try:
        with imported(generate({"all.yaml": blocks("yaml")[index]}, "my_rl"), "my_rl", tmp_path):
            check_env(getattr(importlib.import_module("my_rl.all"), name), steps=20)
    finally:
        for loaded in [loaded for loaded in sys.modules if loaded.split(".")[0] == "mypackage"]:
            del sys.modules[loaded]
