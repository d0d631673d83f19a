"""Printed trainings from the command line: what `--help` says, what runs, what is refused."""

import json
import re
from pathlib import Path

import pytest
from specgen_runtime.training import read_log

from tests.python_processes import run_python

MODULE = "specgen_std.pipelines.ppo_cartpole"
RECORDED = "specgen_std.pipelines.iql_pendulum"


def test_help_says_what_a_training_can_be_told(tmp_path: Path) -> None:
    done = run_python("-m", MODULE, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = " ".join(re.sub(r"[│╭╮╰╯─]", " ", done.stdout).split())
    assert f"usage: python -m {MODULE} [-h] [OPTIONS]" in text
    assert "Train until `total_frames` are over, or an evaluation reaches `stop_return`." in text
    assert "--resume, --no-resume go on from the last checkpoint in `folder`, if there is one." in text
    assert "--seed INT all random numbers follow from it (default: 0)" in text
    assert re.search(r"--num-envs INT environments side by side \(>= 1\) \(default: \d+\)", text)
    assert re.search(r"--gamma FLOAT discount of one step \(>= 0, <= 1\) \(default: 0\.\d+\)", text)
    assert list(tmp_path.iterdir()) == []


def test_a_training_from_the_command_line(tmp_path: Path) -> None:
    given = [
        "--folder",
        "run",
        "--seed",
        "2",
        "--num-envs",
        "4",
        "--num-steps",
        "16",
        "--minibatch-size",
        "32",
    ]
    few = ["--epochs", "1", "--evaluate-every", "64", "--evaluate-episodes", "2"]
    done = run_python("-m", MODULE, *given, *few, "--total-frames", "128", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    config = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert (config["seed"], config["num_envs"], config["total_frames"]) == (2, 4, 128)
    assert [row["frames"] for row in read_log(tmp_path / "run" / "log.csv")] == [64, 128]
    assert (tmp_path / "run" / "curve.png").stat().st_size > 0
    again = run_python("-m", MODULE, *given, *few, "--total-frames", "192", "--resume", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert [row["frames"] for row in read_log(tmp_path / "run" / "log.csv")] == [64, 128, 192]


@pytest.mark.parametrize(
    ("module", "wrong", "said"),
    [
        (MODULE, ["--num-envs", "0"], "num_envs must be >= 1, got 0"),
        (MODULE, ["--gamma", "1.5"], "gamma must be <= 1, got 1.5"),
        (MODULE, ["--num-env", "3"], "Perhaps you meant: --num-envs INT"),
        (MODULE, ["--device", "xpu:77"], "error: device is 'xpu:77', and "),
        (RECORDED, ["--recorded", "nothing"], "error: nothing is not there: save some with "),
    ],
)
def test_what_is_wrong_is_said_and_nothing_begins(
    tmp_path: Path, module: str, wrong: list[str], said: str
) -> None:
    done = run_python("-m", module, *wrong, cwd=tmp_path)
    assert done.returncode != 0
    assert said in " ".join(re.sub(r"[│╭╮╰╯─]", " ", done.stdout + done.stderr).split())
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
