"""The declarations that the decisions speak of: what works is generated, what doesn't is refused by its name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from specgen.settings import Config
from tests.support import compile_sources

ADR = Path(__file__).resolve().parents[2] / "docs" / "adr"
CONFIG = Config(schemas="schemas", output="out", package="out")


def declaration(page: str, name: str) -> str:
    text = next(ADR.glob(f"{page}-*.md")).read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return "specgen: 1\n" + next(block for block in blocks if f"\n  {name}:\n" in block)


@pytest.mark.parametrize(
    ("page", "name"),
    [("0009", "GridWorld"), ("0009", "VecNorm"), ("0009", "FrameSkip"), ("0011", "RandomPendulum")],
)
def test_what_is_said_to_work_is_generated(page: str, name: str) -> None:
    made = compile_sources({"schemas/x.yaml": declaration(page, name)}, CONFIG)
    assert made.diagnostics == ()
    assert f"class {name}(" in made.files["out/x.py"]


@pytest.mark.parametrize(
    ("page", "name", "code"),
    [
        ("0009", "CatFrames", "SG101"),  # `scale` was withdrawn: types follow from what is computed
        ("0009", "SACLoss", "SG107"),
        ("0010", "ClipPPOLoss", "SG465"),  # estimators of advantages call a network that is named
        ("0009", "PendulumSAC", None),
    ],
)
def test_what_is_not_there_yet_is_refused(page: str, name: str, code: str | None) -> None:
    made = compile_sources({"schemas/x.yaml": declaration(page, name)}, CONFIG)
    codes = {item.code for item in made.diagnostics}
    assert made.files == {}
    assert codes
    assert code is None or code in codes
