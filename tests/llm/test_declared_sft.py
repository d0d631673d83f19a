"""A pipeline that learns from recorded conversations: built by the command, trained by its module, resumed bit by bit."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.training import read_log

from tests.llm.letters import FUNCTIONS, SCHEMA, write_project
from tests.pipelines.small import differing, rows

PIPELINE = """
pipelines:
  ChatSFT:
    doc: Answers as they were recorded.
    networks: {actor_network: {causal_lm: policy}}
    loss: {SFTLoss: {kl_to_ref_coeff: 0.01}}
    data: {recorded: {conversations: "letters_user:recorded", ref_model: reference, batch_size: 8}}
    optimizer: {adamw: {lr: 1.0e-2}, max_grad_norm: 1.0}
    evaluate: {every: 20, episodes: 8, env: Letters}
    stop: {updates: 40}
    checkpoint: {every: 5}
"""
RECORDED = """

def recorded() -> list[list[Message]]:
    return [
        [
            {"role": "system", "content": "Repeat."},
            {"role": "user", "content": letter},
            {"role": "assistant", "content": letter * 4},
        ]
        for letter in "abcdefgh"
    ]
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The module, in the folder of its project."""
    project, before = tmp_path_factory.mktemp("letters"), Path.cwd()
    schema = SCHEMA.replace("import: [", "import: [specgen_std/losses/sft, ")
    functions = FUNCTIONS.replace("from letters_rl import", "from letters_rl.letters import")
    write_project(project, schema + PIPELINE, functions + RECORDED)
    os.chdir(project)
    sys.path.insert(0, str(project))
    try:
        yield importlib.import_module("letters_rl.letters")
    finally:
        os.chdir(before)
        sys.path.remove(str(project))
        for name in [name for name in sys.modules if name.split(".")[0] in ("letters_rl", "letters_user")]:
            del sys.modules[name]


@pytest.fixture(autouse=True)
def no_curve(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "draw_curve", lambda folder, **_: None)


def test_recorded_answers_become_likelier_and_evaluations_better(made: Any, tmp_path: Path) -> None:
    before = made.evaluate(made.ChatSFT().eval_env, made.ChatSFT().policy, seed=1, episodes=8)
    parts = made.train(made.ChatSFTConfig(), folder=tmp_path / "run")
    log = read_log(tmp_path / "run" / "log.csv")
    assert [row["updates"] for row in log] == [20, 40]
    assert log[-1]["loss_sft"] < 0.5 * log[0]["loss_sft"]
    assert log[-1]["kl_to_ref"] > log[0]["kl_to_ref"] > 0
    assert log[-1]["evaluation"] > before + 0.3
    first = made.reference_model().model.parameters()
    kept = zip(first, parts.reference_model.model.parameters(), strict=True)
    assert all(torch.equal(one, other) and not other.requires_grad for one, other in kept)


def test_only_recorded_answers_are_learned(made: Any) -> None:
    parts = made.ChatSFT()
    batch = parts.buffer.sample()
    ids, said = batch["tokens", "full"], batch["masks", "all_assistant_mask"]
    texts = [parts.actor_network.tokenizer.decode(row[mask]) for row, mask in zip(ids, said, strict=True)]
    assert all(len(set(text[:4])) == 1 and text[0] in "abcdefgh" for text in texts)
    reference = batch["next", "ref_log_probs", "full"]
    assert (reference[~said] == 0).all()
    assert (reference[said] < 0).all()
    losses = parts.loss(batch)
    expected = -(reference.sum(-1) / said.sum(-1)).mean()  # the policy begins as the reference
    torch.testing.assert_close(losses["loss_sft"].detach(), expected)
    assert losses["kl_to_ref"].abs() < 1e-5


def test_a_stopped_training_goes_on_bit_by_bit(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = made.ChatSFTConfig(total_updates=12, evaluate_every=4)
    whole = made.train(config, folder=tmp_path / "whole")
    update, count = made.update, 0

    def stopping(*args: Any) -> Any:
        nonlocal count
        count += 1
        if count == 8:
            raise InterruptedError
        return update(*args)

    monkeypatch.setattr(made, "update", stopping)
    with pytest.raises(InterruptedError):
        made.train(config, folder=tmp_path / "stopped")
    count = 100
    torch.manual_seed(12345)
    resumed = made.train(config, folder=tmp_path / "stopped", resume=True)
    assert 100 < count < 112, "it began anew"
    assert differing(whole.state_dict(), resumed.state_dict()) == []
    assert rows(tmp_path / "whole") == rows(tmp_path / "stopped")
