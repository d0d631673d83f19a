"""`python:` in YAML and as objects is one declaration; it is built without the class."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from specgen import Env, Module, Python
from specgen.settings import Config
from specgen.source import PythonSchema
from tests.support import compile_sources

CONFIG = Config("schemas", "out", "out")
YAML = """
specgen: 1
envs:
  Lift:
    python: {class: "lift:Lift", stateful: true}
    action: {action: categorical(2)}
    observation: {height: "float32 in [0, 10]"}
  Walk:
    python: walk:Walk
    state: {x: float32}
    action: {action: "float32[1]"}
"""


def objects() -> Module:
    return Module(
        envs={
            "Lift": Env(
                python=Python(class_="lift:Lift", stateful=True),
                action={"action": "categorical(2)"},
                observation={"height": "float32 in [0, 10]"},
            ),
            "Walk": Env(python="walk:Walk", state={"x": "float32"}, action={"action": "float32[1]"}),
        }
    )


def test_objects_are_the_same_declaration() -> None:
    data = objects().model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
    made = compile_sources({"schemas/all.py": PythonSchema(data)}, CONFIG)
    assert not made.diagnostics
    assert made.files == compile_sources({"schemas/all.yaml": YAML}, CONFIG).files


@pytest.mark.parametrize(
    "field",
    ["python: walk:Walk", "python: {class: walk:Walk}", 'python: {class: "walk:Walk", stateful: false}'],
)
def test_both_forms_are_one(field: str) -> None:
    other = YAML.replace("python: walk:Walk", field)
    assert (
        compile_sources({"schemas/all.yaml": other}, CONFIG).files
        == compile_sources({"schemas/all.yaml": YAML}, CONFIG).files
    )


def test_a_class_that_is_called_like_what_surrounds_it() -> None:
    text = YAML.replace("walk:Walk", "walk:WalkSetup")
    made = compile_sources({"schemas/all.yaml": text}, CONFIG)
    assert "from walk import WalkSetup as Dynamics" in made.files["out/all.py"]


def test_a_build_needs_no_class_and_a_check_neither(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "all.yaml").write_text(YAML, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(
        '[tool.specgen]\nschemas = "schemas"\noutput = "out"\npackage = "out"\n', encoding="utf-8"
    )
    (tmp_path / "walk.py").write_text("raise AssertionError('imported')", encoding="utf-8")
    for command in ("build", "check"):
        done = subprocess.run(
            [sys.executable, "-m", "specgen", command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "out" / "all.py").is_file()
