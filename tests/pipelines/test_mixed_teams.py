"""Trainings of teams whose values are mixed: what they learn, from what, and that they go on."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from specgen_runtime.envs import ExplorationType, set_exploration_type
from specgen_runtime.training import read_log

from specgen.settings import Config
from tests.compiled_cases import compiled_case
from tests.pipelines.small import differing
from tests.support import LIBRARY, compile_sources, imported, library_records

CASE = Path(__file__).parents[1] / "cases" / "good" / "pipeline_of_a_mixed_team"

NUMBERS = {"evaluate_every": 4_000, "evaluate_episodes": 4, "total_frames": 4_000, "eps": 1.0}


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The package of the game of two steps."""
    with imported(compiled_case(CASE).files, "generated", tmp_path_factory.mktemp("made")):
        names = ("main", "summed")
        yield SimpleNamespace(**{name: importlib.import_module(f"generated.{name}") for name in names})


def printed(tmp_path: Path, lines: str) -> AbstractContextManager[ModuleType]:
    """The package of a pipeline that extends that of the game by these lines."""
    sources = {f"schemas/{one.stem}.yaml": one.read_text() for one in CASE.glob("*.yaml")}
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    sources["schemas/other.yaml"] = (
        f"specgen: 1\nimport: [main]\npipelines:\n  Other:\n    extends: TwoSteps\n{body}"
    )
    made = compile_sources(
        sources, Config("schemas", "made", "made"), gymnasium=library_records(), library=LIBRARY
    )
    assert not made.diagnostics, [str(one) for one in made.diagnostics]
    files = {path.removeprefix("made/"): text for path, text in made.files.items()}
    return imported(files, "made", tmp_path)


def evaluated(module: Any, name: str, folder: Path, **numbers: Any) -> float:
    """The return of the best actions after a training."""
    module.train(getattr(module, f"{name}Config")(**{**NUMBERS, **numbers}), folder=folder)
    return read_log(folder / "log.csv")[-1]["robot_evaluation"]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_mixer_finds_what_pays_if_all_take_the_risk(modules: Any, tmp_path: Path, seed: int) -> None:
    assert evaluated(modules.main, "TwoSteps", tmp_path, seed=seed) == 8


def test_a_sum_stays_with_what_is_safe(modules: Any, tmp_path: Path) -> None:
    """Rashid et al. 2018, table 2: value decomposition values the second matrix by 6.5 at most."""
    assert evaluated(modules.summed, "SummedTwoSteps", tmp_path) == 7


def test_each_agent_tries_by_itself(modules: Any) -> None:
    parts = modules.main.TwoSteps(modules.main.TwoStepsConfig(num_envs=400))
    with set_exploration_type(ExplorationType.RANDOM):
        tried = parts.policy(parts.env.reset())["robot", "action"].float()
    assert tried.shape == (400, 2)
    assert torch.corrcoef(tried.T)[0, 1].abs() < 0.2
    assert ((tried.mean(0) - 0.5).abs() < 0.15).all()


def test_both_networks_learn_and_have_targets(modules: Any) -> None:
    parts = modules.main.TwoSteps(modules.main.TwoStepsConfig(num_envs=64, interval=1))
    parts.buffer.extend(next(iter(parts.collector)).select(*parts.stored).reshape(-1))
    before = [one.clone() for one in parts.robot_loss.parameters()]
    modules.main.update(parts, parts.buffer.sample())
    moved = [bool((one != old).any()) for one, old in zip(parts.robot_loss.parameters(), before, strict=True)]
    assert (
        len(moved) == 4 * 2 + 10 - 4
    )  # two layers of the agents, and five of the mixer, with weights and biases
    assert all(moved)
    for name in ("local_value_network", "mixer_network"):
        live = getattr(parts.robot_loss, f"{name}_params")
        target = getattr(parts.robot_loss, f"target_{name}_params")
        assert all(
            (a == b).all() for a, b in zip(live.values(True, True), target.values(True, True), strict=True)
        )


def test_a_stopped_training_goes_on_as_if_it_had_not(modules: Any, tmp_path: Path) -> None:
    numbers = {"evaluate_every": 5_000, "checkpoint_every": 64, "warm_up_frames": 64, "batch_size": 16}
    whole = modules.main.train(
        modules.main.TwoStepsConfig(total_frames=512, **numbers), folder=tmp_path / "whole"
    )
    modules.main.train(modules.main.TwoStepsConfig(total_frames=256, **numbers), folder=tmp_path / "cut")
    config = modules.main.TwoStepsConfig(total_frames=512, **numbers)
    resumed = modules.main.train(config, folder=tmp_path / "cut", resume=True)
    assert not differing(whole.state_dict(), resumed.state_dict())


@pytest.mark.parametrize(
    "lines",
    [
        "data: {replay: {sampler: {prioritized: {alpha: 0.6, beta: 0.4}}}}",
        "data: {replay: {n_step: 2}}",
        "precision: bfloat16\nnetworks: {mixer_network: {in: [robot.observation]}}",
        "networks: {local_value_network: {per: group, gru: 16}}\n"
        "data: {replay: {num_steps: 4, sampler: {slices: {length: 2}}}}\n"
        "value_estimator: {td_lambda: {gamma: 0.99, lmbda: 0.8}}",
    ],
    ids=["priorities", "several steps", "precision and what agents see", "a memory"],
)
def test_it_goes_with_the_rest_of_the_language(tmp_path: Path, lines: str) -> None:
    with printed(tmp_path, lines):
        other: Any = importlib.import_module("made.other")
        config = other.OtherConfig(**{**NUMBERS, "total_frames": 512})
        parts = other.train(config, folder=tmp_path / "run")
        sample = parts.buffer.sample()
        if "slices" in lines:
            sample = sample.reshape(-1, config.slice_length)
        terms = parts.robot_loss(sample)
        assert terms["loss"].isfinite()
        assert sample["td_error"].shape == (*sample.shape, 1)
        assert read_log(tmp_path / "run" / "log.csv")[-1]["robot_loss"] > 0
        if "prioritized" in lines:
            assert parts.buffer.sample()["priority_weight"].unique().numel() > 1
