"""`specgen init`: the project that it makes builds, checks and trains."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from specgen.cli import OK, REFUSED, main
from specgen.project.scaffold import package_name, project_files


def run(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=300,
    )
    assert done.returncode == OK, done.stdout + done.stderr
    return done.stdout


def test_a_new_project_builds_checks_and_trains(tmp_path: Path) -> None:
    folder = tmp_path / "My robot"
    out = run(tmp_path, "-m", "specgen", "init", "My robot")
    assert "next: cd 'My robot' && specgen build && python train.py" in out
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()) == [
        "README.md",
        "pyproject.toml",
        "schemas/rail.yaml",
        "train.py",
    ]
    assert "2 files written" in run(folder, "-m", "specgen", "build")
    assert "up to date" in run(folder, "-m", "specgen", "check")
    pytest.importorskip("torch")
    generations = [line for line in run(folder, "train.py").splitlines() if line.startswith("generation")]
    first, last = (
        float(line.split("mean return")[1].split()[0]) for line in (generations[0], generations[-1])
    )
    assert last > first / 5
    assert last > -60


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("mine\n")
    found = CliRunner().invoke(main, ["init", str(tmp_path)])
    assert found.exit_code == REFUSED
    assert "in the way:" in found.output
    assert os.listdir(tmp_path) == ["train.py"]
    assert (tmp_path / "train.py").read_text() == "mine\n"


def test_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(main, ["init"])
    assert found.exit_code == OK
    assert found.output.endswith("next: specgen build && python train.py\n")
    assert CliRunner().invoke(main, ["init"]).exit_code == REFUSED


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("robot", "robot_rl"),
        ("My robot!", "my_robot_rl"),
        ("2d", "my_2d_rl"),
        ("class", "my_class_rl"),
        ("…", "my_rl"),
    ],
)
def test_package_names(folder: str, name: str) -> None:
    assert package_name(folder) == name


def test_no_placeholder_is_left() -> None:
    files = project_files("robot_rl")
    assert len(files) == 4
    assert not any("@name@" in text for text in files.values())
    assert all(path.suffix != ".in" for path in files)
