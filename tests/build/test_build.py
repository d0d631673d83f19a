"""`specgen build` and `specgen check` as commands, on projects on disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner

from specgen.cli import main
from tests.support import assert_names_resolve

ROOT = Path(__file__).resolve().parents[2]
GRID = ROOT / "tests" / "agreement" / "schemas" / "grid_world.yaml"
OK, FOUND, REFUSED = 0, 1, 3

CONFIG = '[tool.specgen]\nschemas = "schemas"\noutput = "made"\npackage = "made"\n'

CHAIN = """\
specgen: 1
doc: A chain over the grid.
import: [grid_world, specgen_std/transforms/step_counter, specgen_std/envs/cartpole]

chains:
  Walk:
    env: GridWorld
    transforms: [{StepCounter: {max_steps: 30}}]
  Balance:
    env: CartPole
    transforms: [StepCounter]
"""

TINY_YAML = """\
specgen: 1
doc: A point.
specs:
  Push: float32[1] in [-1, 1]
envs:
  Point:
    doc: A point on a line.
    dims: {n: 2}
    params:
      dt: {default: 0.1, above: 0}
      wind: false
    consts:
      pull: {type: "float32[2]", value: [0.5, -1.5]}
    state:
      x: float32[n] in [-10, 10]
    action:
      action: Push
    observation:
      observation: {kind: bounded, shape: [n], dtype: float32, low: -10, high: 10}
    reset:
      x: uniform(-1, 1, shape=n)
    step:
      blown: where(wind, 1.0, 0.0)
      next.x: clip(x + (action[0] + pull + blown) * dt, -10, 10)
      terminated: any(abs(next.x) > 9)
      reward: -sum(abs(next.x))
    observe:
      observation: x
"""

TINY_PYTHON = """\
from specgen import Const, Env, Module, Param, Spec

schema = Module(
    doc="A point.",
    specs={"Push": "float32[1] in [-1, 1]"},
    envs={
        "Point": Env(
            doc="A point on a line.",
            dims={"n": 2},
            params={"dt": Param(default=0.1, above=0), "wind": False},
            consts={"pull": Const(type="float32[2]", value=[0.5, -1.5])},
            state={"x": "float32[n] in [-10, 10]"},
            action={"action": "Push"},
            observation={"observation": Spec(kind="bounded", shape=["n"], dtype="float32", low=-10, high=10)},
            reset={"x": "uniform(-1, 1, shape=n)"},
            step={
                "blown": "where(wind, 1.0, 0.0)",
                "next.x": "clip(x + (action[0] + pull + blown) * dt, -10, 10)",
                "terminated": "any(abs(next.x) > 9)",
                "reward": "-sum(abs(next.x))",
            },
            observe={"observation": "x"},
        )
    },
)
"""


def specgen(folder: Path, *arguments: str, seed: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder: in a process of its own with a seed of hashes, else in this one, which starts at once."""
    # a memory of its own: what one test has compiled, another compiles again
    environment = {"SPECGEN_CACHE_DIR": str(folder / ".cache")}
    if seed is None:
        with chdir(folder):
            found = CliRunner().invoke(main, arguments, env=environment)
        assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
        done = subprocess.CompletedProcess(arguments, found.exit_code, found.stdout, found.stderr)
    else:
        done = subprocess.run(
            [sys.executable, "-m", "specgen", *arguments],
            cwd=folder,
            env={**os.environ, **environment, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=False,
        )
    if "build" in arguments and done.returncode == OK:
        assert_names_resolve({path: text.decode("utf-8") for path, text in files(folder).items()})
    return done


def make(folder: Path, schemas: dict[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(CONFIG, encoding="utf-8")
    for path, text in schemas.items():
        file = folder / "schemas" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


def grid(folder: Path) -> Path:
    return make(folder, {"grid_world.yaml": GRID.read_text(encoding="utf-8"), "walk.yaml": CHAIN})


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted((folder / "made").rglob("*.py"))
    }


@pytest.fixture(scope="module")
def built_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = grid(tmp_path_factory.mktemp("built"))
    done = specgen(folder, "build")
    assert done.returncode == OK, done.stdout + done.stderr
    assert "made/walk.py" in files(folder)
    return folder


@pytest.fixture
def built(built_once: Path, tmp_path: Path) -> Path:
    """A project that was built: a copy, with the compiler's memory, that a test may change."""
    return Path(shutil.copytree(built_once, tmp_path, dirs_exist_ok=True))


def test_the_second_build_writes_nothing(built: Path) -> None:
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in built.rglob("made/**/*")}
    done = specgen(built, "build")
    assert done.returncode == OK
    assert "0 files written, 0 removed" in done.stdout
    assert {
        path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in built.rglob("made/**/*")
    } == before
    assert specgen(built, "check").returncode == OK


def test_the_bytes_do_not_depend_on_hashes(tmp_path: Path) -> None:
    made = []
    for seed in ("0", "1", "2"):
        folder = grid(tmp_path / seed)
        assert specgen(folder, "build", seed=seed).returncode == OK
        made.append(files(folder))
    assert made[0] == made[1] == made[2]


def test_the_bytes_do_not_depend_on_the_place(tmp_path: Path) -> None:
    for name in ("here", "a folder/with spaces/and more"):
        assert specgen(grid(tmp_path / name), "build").returncode == OK
    assert files(tmp_path / "here") == files(tmp_path / "a folder/with spaces/and more")
    assert not any(str(tmp_path).encode() in text for text in files(tmp_path / "here").values())


@pytest.mark.parametrize("edit", ["\n# mine\n", "\nBONUS = 2.0\n"])
def test_files_edited_by_hand_are_not_overwritten(built: Path, edit: str) -> None:
    file = built / "made" / "grid_world.py"
    text = file.read_text(encoding="utf-8") + edit
    file.write_text(text, encoding="utf-8")
    schema = built / "schemas" / "grid_world.yaml"
    schema.write_text(
        schema.read_text(encoding="utf-8").replace("bonus: 1.0", "bonus: 2.0"), encoding="utf-8"
    )
    other = (built / "made" / "walk.py").read_bytes()

    checked = specgen(built, "check")
    assert checked.returncode == FOUND
    assert "made/grid_world.py (by hand)" in checked.stdout

    refused = specgen(built, "build")
    assert refused.returncode == REFUSED
    assert "made/grid_world.py" in refused.stderr
    assert file.read_text(encoding="utf-8") == text
    assert (built / "made" / "walk.py").read_bytes() == other

    assert specgen(built, "build", "--force").returncode == OK
    assert "bonus: float = 2.0" in file.read_text(encoding="utf-8")


def test_a_file_that_was_not_generated_is_not_overwritten(tmp_path: Path) -> None:
    folder = grid(tmp_path)
    (folder / "made").mkdir()
    (folder / "made" / "walk.py").write_text("print('mine')\n", encoding="utf-8")
    for arguments in (("build",), ("build", "--force")):
        refused = specgen(folder, *arguments)
        assert refused.returncode == REFUSED
        assert "made/walk.py" in refused.stderr
    assert sorted(files(folder)) == ["made/walk.py"]


def test_check_finds_missing_changed_and_extra_files(built: Path) -> None:
    (built / "made" / "walk.py").unlink()
    checked = specgen(built, "check")
    assert (checked.returncode, "missing  made/walk.py" in checked.stdout) == (FOUND, True)
    assert specgen(built, "build").returncode == OK

    (built / "schemas" / "later.yaml").write_text(TINY_YAML, encoding="utf-8")
    checked = specgen(built, "check")
    assert checked.returncode == FOUND
    assert "missing  made/later.py" in checked.stdout
    assert "changed  made/__init__.py" in checked.stdout
    assert specgen(built, "build").returncode == OK
    assert specgen(built, "check").returncode == OK

    (built / "schemas" / "later.yaml").unlink()
    checked = specgen(built, "check")
    assert checked.returncode == FOUND
    assert "extra    made/later.py" in checked.stdout
    assert specgen(built, "build").returncode == OK
    assert not (built / "made" / "later.py").exists()
    assert specgen(built, "check").returncode == OK


def test_files_that_nobody_generated_are_left_alone(built: Path) -> None:
    mine = built / "made" / "helpers.py"
    mine.write_text("X = 1\n", encoding="utf-8")
    assert specgen(built, "check").returncode == OK
    assert specgen(built, "build").returncode == OK
    assert mine.read_text(encoding="utf-8") == "X = 1\n"


def test_mistakes_write_nothing_and_say_where(built: Path) -> None:
    before = files(built)
    (built / "schemas" / "later.yaml").write_text(
        TINY_YAML.replace("action[0]", "acton[0]"), encoding="utf-8"
    )
    for command in ("build", "check"):
        done = specgen(built, command)
        assert done.returncode == FOUND
        assert "error[SG803]: undefined name `acton`" in done.stdout
        assert "--> schemas/later.yaml:24:25" in done.stdout
        assert "Traceback" not in done.stdout + done.stderr
    assert files(built) == before


def test_unknown_gymnasium_environments_are_named(tmp_path: Path) -> None:
    text = "specgen: 1\nenvs:\n  Swing:\n    gymnasium: {id: Pendulm-v1}\n"
    folder = make(tmp_path, {"swing.yaml": text})
    done = specgen(folder, "build")
    assert done.returncode == FOUND
    assert "error[SG701]: no Gymnasium environment 'Pendulm-v1'" in done.stdout
    assert "--> schemas/swing.yaml:4:21" in done.stdout
    assert "did you mean 'Pendulum-v1'?" in done.stdout
    assert not (folder / "made").exists() or not files(folder)
    assert not (folder / "schemas" / "gymnasium.lock.json").exists()


def test_gymnasium_is_asked_once(tmp_path: Path) -> None:
    text = "specgen: 1\nenvs:\n  Swing:\n    gymnasium: {id: Pendulum-v1, kwargs: {g: 9.0}}\n"
    folder = make(tmp_path, {"swing.yaml": text})
    assert specgen(folder, "check").returncode == FOUND
    first = specgen(folder, "build")
    assert first.returncode == OK, first.stdout
    assert 'recorded Pendulum-v1 {"g": 9.0}' in first.stdout
    assert "recorded" not in specgen(folder, "build").stdout
    assert specgen(folder, "check").returncode == OK


def test_a_declaration_in_python_gives_the_bytes_of_yaml(tmp_path: Path) -> None:
    yaml = make(tmp_path / "yaml", {"point.yaml": TINY_YAML})
    python = make(tmp_path / "python", {"point.py": TINY_PYTHON})
    for folder in (yaml, python):
        done = specgen(folder, "build")
        assert done.returncode == OK, done.stdout + done.stderr
    assert files(yaml) == files(python)


def test_mistakes_in_python_declarations(tmp_path: Path) -> None:
    folder = make(tmp_path, {"point.py": TINY_PYTHON.replace("action[0]", "acton[0]")})
    done = specgen(folder, "build")
    assert done.returncode == FOUND
    assert "error[SG803]: undefined name `acton`" in done.stdout
    assert "schemas/point.py (as YAML)" in done.stdout
    assert not files(folder)
