"""A pipeline that learns from recorded conversations: built by the command, trained by its module, resumed bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.training import read_log

from tests.llm.letters import FUNCTIONS, SCHEMA, trained_and_resumed, training_module

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
    schema = SCHEMA.replace("import: [", "import: [specgen_std/losses/sft, ")
    project = tmp_path_factory.mktemp("letters")
    with training_module(project, schema + PIPELINE, FUNCTIONS + RECORDED) as module:
        yield module


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
    scored = parts.loss.actor_network(batch.copy())["log_probs", "full"]
    assert (scored[~said] == 0).all()
    keywords = {"generate": False, "input_mode": "tokens", "pad_output": True}
    everything = parts.actor_network.get_new_version(**keywords)(batch.copy())["log_probs", "full"]
    assert (everything[~said & batch["masks", "all_attention_mask"]][1:] != 0).any()
    torch.testing.assert_close(scored[said], everything[said])
    losses = parts.loss(batch)
    expected = -(reference.sum(-1) / said.sum(-1)).mean()  # the policy begins as the reference
    torch.testing.assert_close(losses["loss_sft"].detach(), expected)
    assert losses["kl_to_ref"].abs() < 1e-5


def test_a_stopped_training_goes_on_bit_by_bit(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = made.ChatSFTConfig(total_updates=12, evaluate_every=4)
    trained_and_resumed(made, config, tmp_path, monkeypatch)
