"""The README's example is run as printed: from the YAML, through `specgen build`, to the training step."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.python_processes import STARTUP, run_python

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_example_runs(tmp_path: Path) -> None:
    code = dict(reversed(CODE.findall((ROOT / "README.md").read_text(encoding="utf-8"))))
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "point.yaml").write_text(code["yaml"], encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(code["toml"], encoding="utf-8")
    shown = (
        "print(env.batch_size, data.batch_size, reward.shape, actor.module[0].module.weight.grad is not None)"
    )
    (tmp_path / "train.py").write_text(f"{code['python']}\n{shown}\n", encoding="utf-8")

    built = _run(tmp_path, "-m", "specgen", "build")
    assert built.returncode == 0, built.stdout + built.stderr
    trained = _run(tmp_path, "-W", "always", "train.py")
    assert trained.returncode == 0, trained.stderr
    assert [line for line in trained.stderr.splitlines() if "Warning" in line] == []
    assert trained.stdout.split("torch.Size")[1:] == ["([64]) ", "([64, 100]) ", "([64, 100, 1]) True\n"]


@pytest.mark.slow
def test_the_pipeline_trains_and_goes_on(tmp_path: Path) -> None:
    blocks = CODE.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    point, pipeline = (text for language, text in blocks if language == "yaml")
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "point.yaml").write_text(point, encoding="utf-8")
    (tmp_path / "schemas" / "dqn_point.yaml").write_text(pipeline, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(dict(reversed(blocks))["toml"], encoding="utf-8")
    built = _run(tmp_path, "-m", "specgen", "build")
    assert built.returncode == 0, built.stdout + built.stderr
    first = _train(tmp_path, "--total-frames", "1000", "--evaluate-every", "500")
    assert first.returncode == 0, first.stderr
    again = _train(tmp_path, "--total-frames", "1200", "--evaluate-every", "500")
    assert again.returncode != 0
    assert "resume" in again.stderr
    resumed = _train(tmp_path, "--total-frames", "1200", "--evaluate-every", "500", "--resume")
    assert resumed.returncode == 0, resumed.stderr
    log = (tmp_path / "runs" / "seed_2" / "log.csv").read_text(encoding="utf-8").splitlines()
    assert "evaluation" in log[0]
    assert len(log) >= 3


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("next.x:", "next.y:"),
        ('"float32[1] in', '"float32[2] in'),
        ("    observe: {observation: stack(x)}\n", ""),
    ],
    ids=["misspelt", "shape", "left out"],
)
def test_the_mistakes_are_found(tmp_path: Path, right: str, wrong: str) -> None:
    code = dict(reversed(CODE.findall((ROOT / "README.md").read_text(encoding="utf-8"))))
    assert right in code["yaml"]
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "point.yaml").write_text(code["yaml"].replace(right, wrong), encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(code["toml"], encoding="utf-8")
    checked = _run(tmp_path, "-m", "specgen", "check")
    assert checked.returncode == 1
    assert "error[SG" in checked.stdout
    assert re.search(r"--> schemas/point\.yaml:\d+:\d+", checked.stdout)


def test_the_example_is_short() -> None:
    code = dict(reversed(CODE.findall((ROOT / "README.md").read_text(encoding="utf-8"))))
    assert len(code["yaml"].splitlines()) <= 20
    assert len(code["python"].splitlines()) <= 20


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{STARTUP}{os.pathsep}{folder}", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )


def _train(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ("-m", "my_rl.dqn_point", "--seed", "2", "--lr", "3e-4", "--folder", "runs/seed_2")
    return run_python(*command, *arguments, cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)})
