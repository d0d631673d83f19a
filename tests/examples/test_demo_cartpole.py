"""The demo: a short training through the printed `train`, and the same policy in both environments."""

from __future__ import annotations

from pathlib import Path

import pytest
from specgen_runtime.training import evaluate, read_log
from specgen_std.chains.cartpole import CartPoleTrain
from specgen_std.pipelines.ppo_cartpole import PPOCartPole, PPOCartPoleConfig

from examples import demo_cartpole as demo


def short(seed: int) -> PPOCartPoleConfig:
    return PPOCartPoleConfig(seed=seed, total_frames=1_024, evaluate_every=512, stop_return=490.0)


def test_a_short_run_says_that_it_is_not_solved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "PPOCartPoleConfig", short)
    monkeypatch.setattr(demo, "FOLDER", tmp_path / "run")
    monkeypatch.setattr("sys.argv", ["demo", "--seed", "1"])
    for _ in range(2):  # what an earlier call left is no obstacle
        assert demo.main() == 1
        said = capsys.readouterr().out
        assert "training until a mean return of 490 of 500, at most 1,024 steps" in said
        assert "trained for 1,024 environment steps" in said
        assert said.count("NOT SOLVED") == 2
    assert [row["frames"] for row in read_log(tmp_path / "run" / "log.csv")] == [512, 1_024]
    assert (tmp_path / "run" / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_the_demo_is_solved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "FOLDER", tmp_path / "run")
    monkeypatch.setattr("sys.argv", ["demo"])
    assert demo.main() == 0, capsys.readouterr().out
    assert read_log(tmp_path / "run" / "log.csv")[-1]["frames"] < PPOCartPoleConfig().total_frames


def test_both_environments_are_judged_alike() -> None:
    policy = PPOCartPole(PPOCartPoleConfig(seed=1)).policy
    native = evaluate(CartPoleTrain(batch_size=[demo.EPISODES]), policy, seed=0)
    assert native == pytest.approx(demo.gymnasium_return(policy, seed=0), rel=0.15)
