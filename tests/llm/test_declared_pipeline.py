"""One file with models, a reward, conversations, a chain and a pipeline: built by the command, then trained by its module."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.envs import set_exploration_type
from specgen_runtime.llm import chats_of
from specgen_runtime.training import minibatches, read_log

from tests.llm.letters import FUNCTIONS, SCHEMA, trained_and_resumed, training_module

PIPELINE = """
pipelines:
  ChatGRPO:
    doc: Answers in lower-case letters, by group relative policy optimization.
    env: LettersTrain
    networks: {actor_network: {causal_lm: policy}}
    loss: {GRPOLoss: {clip_epsilon: 0.2, aggregation: prompt_mean}}
    value_estimator: {mc_advantage: {group_size: 4}}
    data: {on_policy: {num_envs: 16, epochs: 2, minibatch_size: 16, accumulate: 2}}
    optimizer: {adamw: {lr: 1.0e-2}, max_grad_norm: 1.0}
    evaluate: {every: 96, episodes: 4, env: Asked}
    stop: {frames: 192}
    checkpoint: {every: 32}
    allow: [SG418]
"""
ASKED = """
  Asked:
    chat: {source: "letters_user:others", system: Repeat., reward: letters}
chains:"""
OTHERS = """

def others() -> list[LettersRow]:
    return [{"query": letter} for letter in "wxyz"]
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The module, in the folder of its project."""
    schema = SCHEMA.replace("import: [", "import: [specgen_std/losses/grpo, ").replace("\nchains:", ASKED)
    project = tmp_path_factory.mktemp("letters")
    with training_module(project, schema + PIPELINE, FUNCTIONS + OTHERS) as module:
        yield module


@pytest.fixture(autouse=True)
def no_curve(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "draw_curve", lambda folder, **_: None)


def test_the_command_trains_and_the_reward_rises(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--seed", "2", "--lr", "2e-2", "--total-frames", "288", "--folder", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", ["chat_grpo", *words])
    made.main()
    log = read_log(tmp_path / "run" / "log.csv")
    assert [row["frames"] for row in log] == [96, 192, 288]
    assert log[-1]["share"] > log[0]["share"] + 0.1
    assert all(
        row["return"] == pytest.approx(row["share"] - 0.05 * row["kl_penalty"], abs=1e-5) for row in log
    )
    assert log[-1]["kl_penalty"] > log[0]["kl_penalty"] > 0
    assert log[-1]["evaluation"] > 0
    kept = {path.name for path in (tmp_path / "run").glob("checkpoint-*")}
    assert kept == {"checkpoint-256", "checkpoint-288"}


def test_a_stopped_training_goes_on_bit_by_bit(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = made.ChatGRPOConfig(total_frames=96, evaluate_every=32)
    whole = trained_and_resumed(made, config, tmp_path, monkeypatch)
    fresh = made.ChatGRPO(config).actor_network.model
    pairs = list(zip(fresh.parameters(), whole.actor_network.model.parameters(), strict=True))
    assert not any(torch.equal(one, moved) for one, moved in pairs)
    reference = zip(fresh.parameters(), whole.reference_model.model.parameters(), strict=True)
    assert all(torch.equal(one, kept) and not kept.requires_grad for one, kept in reference)


def test_gradients_in_parts_are_those_of_the_whole(made: Any) -> None:
    moved = []
    for accumulate in (1, 4):
        parts = made.ChatGRPO(made.ChatGRPOConfig(accumulate=accumulate, max_grad_norm=1e9))
        batch = next(iter(parts.collector))
        batch["advantage"] = made.group_advantage(batch["next", "reward"], batch["group"])
        (whole,) = minibatches(batch.select(*parts.stored), 16, generator=parts.shuffling)
        metrics = made.update(parts, whole)
        moved.append([one.grad for one in parts.loss.parameters()])
        assert metrics.loss_objective.shape == ()
    for one, other in zip(*moved, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_evaluations_have_prompts_of_their_own_and_the_likeliest_answers(made: Any) -> None:
    parts = made.ChatGRPO(replace(made.ChatGRPOConfig(), seed=3))
    asked = {chat[-1]["content"] for chat in chats_of(parts.eval_env.reset().get(("history", "prompt")))}
    assert asked == set("wxyz")
    root = parts.eval_env.reset()
    with set_exploration_type("deterministic"):
        once, again = (parts.policy(root.clone())["tokens", "response"] for _ in range(2))
    assert torch.equal(once, again)
    drawn = parts.collector.rollout()
    assert len({*map(tuple, drawn["tokens", "response"].flatten(0, 1).tolist())}) > 4


def test_numbers_that_do_not_fit_are_refused(made: Any) -> None:
    for name, number in (("num_envs", 18), ("accumulate", 3), ("minibatch_size", 12)):
        with pytest.raises(ValueError, match=name):
            made.ChatGRPOConfig(**{name: number})


def test_mistakes_on_the_command_line_are_told_in_one_line(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    used = tmp_path / "run"
    used.mkdir()
    (used / "log.csv").touch()
    monkeypatch.setattr(sys, "argv", ["chat_grpo", "--folder", str(used)])
    with pytest.raises(SystemExit) as ended:
        made.main()
    assert ended.value.code == 1
    assert (
        capsys.readouterr().err.splitlines()[-1].startswith(f"error: {used} holds a run already: resume it")
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["chat_grpo"])
    with pytest.raises(SystemExit) as ended:
        made.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith("error: there is no folder 'checkpoints/first' in ")
