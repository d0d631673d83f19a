"""The environments of `schemas/randomised.yaml`, generated once for a module of tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import generate, imported

SCHEMA = Path(__file__).parent / "schemas" / "randomised.yaml"
BATCHES: list[tuple[int, ...]] = [(), (1,), (2,), (3,), (5,), (7,), (4, 3)]
"""2 and 5 are feature sizes there: wrong broadcasting would go unnoticed."""


@pytest.fixture(scope="session")
def envs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    files = generate({"randomised.yaml": SCHEMA.read_text(encoding="utf-8")}, "randomised_package")
    with imported(files, "randomised_package", tmp_path_factory.mktemp("randomised")):
        yield __import__("randomised_package.randomised", fromlist=["Cart"])
