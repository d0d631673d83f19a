"""What was compiled once is not compiled again, and is never believed against the files on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCHEMA = """\
specgen: 1
envs:
  Walk:
    state: {x: float32}
    action: {action: "float32[1] in [-1, 1]"}
    observation: {observation: "float32[1]"}
    reset: {x: 0.0}
    step:
      next.x: x + action[0]
      reward: -abs(x)
    observe:
      observation: stack(x)
"""
CODE = (
    "import sys; from specgen.cli import main; code = 0\n"
    "try: main()\n"
    "except SystemExit as end: code = end.code\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "schemas").mkdir(parents=True)
    (root / "schemas" / "walk.yaml").write_text(SCHEMA, encoding="utf-8")
    settings = '[tool.specgen]\nschemas = "schemas"\noutput = "made"\npackage = "made"\n'
    (root / "pyproject.toml").write_text(settings, encoding="utf-8")
    return root


def run(project: Path, command: str) -> tuple[int, bool]:
    """Exit code of a command, and whether it compiled anything."""
    cache = project.parent / "cache"
    code = f"sys.argv = ['specgen', {command!r}]\n"
    code = (
        CODE.replace("code = 0\n", f"code = 0\n{code}")
        + "print('compiled', 'specgen.compile_file' in sys.modules, code or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=project,
        env={**os.environ, "SPECGEN_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    _, compiled, exit_code = done.stdout.strip().splitlines()[-1].split()
    return int(exit_code), compiled == "True"


def test_nothing_is_compiled_twice(project: Path) -> None:
    assert run(project, "build") == (0, True)
    assert run(project, "check") == (0, False)
    assert run(project, "build") == (0, False)


def test_a_changed_schema_is_compiled(project: Path) -> None:
    run(project, "build")
    schema = project / "schemas" / "walk.yaml"
    schema.write_text(SCHEMA.replace("-abs(x)", "-abs(x) - 1"), encoding="utf-8")
    assert run(project, "check") == (1, True)
    assert run(project, "build") == (0, False)
    assert run(project, "check") == (0, False)


@pytest.mark.parametrize("damage", ["edited", "missing", "extra"])
def test_changed_files_are_noticed(project: Path, damage: str) -> None:
    run(project, "build")
    module = project / "made" / "walk.py"
    if damage == "edited":
        module.write_text(module.read_text(encoding="utf-8").replace("abs", "exp"), encoding="utf-8")
    elif damage == "missing":
        module.unlink()
    else:
        (project / "made" / "other.py").write_text(module.read_text(encoding="utf-8"), encoding="utf-8")
    assert run(project, "check") == (1, False)


def test_mistakes_are_said_every_time(project: Path) -> None:
    (project / "schemas" / "walk.yaml").write_text(SCHEMA.replace("abs(x)", "abs(y)"), encoding="utf-8")
    assert run(project, "check") == (1, True)
    assert run(project, "check") == (1, False)


def test_templates_are_compiled_once(project: Path) -> None:
    """Also by a process that compiles another schema, as Python's modules are; see `tests/build/test_format.py`."""
    schema = project / "schemas" / "walk.yaml"
    counted = (
        "import sys; from jinja2 import Environment; from specgen.cli import main\n"
        "class run: templates = 0\n"
        "plain = Environment._generate\n"
        "def generate(*given, **more):\n"
        "    run.templates += 1\n"
        "    return plain(*given, **more)\n"
        "Environment._generate = generate\n"
        "sys.argv = ['specgen', 'build']\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "print(run.templates)\n"
    )

    def templates(reward: str) -> int:
        schema.write_text(SCHEMA.replace("-abs(x)", reward), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-c", counted],
            cwd=project,
            env={
                **os.environ,
                "SPECGEN_CACHE_DIR": "",
                "PYTHONDONTWRITEBYTECODE": "",
                "PYTHONPYCACHEPREFIX": str(project.parent / "bytecode"),
            },
            capture_output=True,
            text=True,
            check=True,
        )
        assert reward in (project / "made" / "walk.py").read_text(encoding="utf-8")
        return int(done.stdout.strip().splitlines()[-1])

    assert templates("-x") > 5
    assert templates("x * 2") == 0
