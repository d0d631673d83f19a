"""What the tests of specs share."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="session")
def torchrl() -> Any:
    """The peer's specs."""
    return pytest.importorskip("torchrl.data.tensor_specs")
