"""Small trainings with short evaluations."""

from __future__ import annotations

import pytest
from specgen_runtime.training import evaluate


@pytest.fixture(autouse=True)
def short_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes count after ten steps, if no number is given: whole ones would take most of the time of a training."""
    monkeypatch.setitem(evaluate.__wrapped__.__kwdefaults__, "max_steps", 10)  # type: ignore[attr-defined]
