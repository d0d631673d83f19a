"""Pipelines that learn what a teacher says: of recorded answers, of all recorded tokens, and of the student's own answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.training import read_log

from tests.llm.letters import FUNCTIONS, SCHEMA, training_module
from tests.llm.models import tiny_model, tiny_tokenizer
from tests.llm.test_declared_sft import RECORDED

TEACHER = """
  teacher:
    doc: Another model, of other weights.
    causal_lm: {path: checkpoints/teacher, dtype: float32}
    frozen: true
    pad_output: true
    max_length: 59
rewards:
"""
PIPELINE = """
pipelines:
  ChatDistill:
    doc: What the teacher says of recorded answers.
    networks: {actor_network: {causal_lm: policy}}
    loss: {DistillationLoss: {assistant_only: ASSISTANT_ONLY}}
    data: {recorded: {conversations: "letters_user:recorded", ref_model: teacher, batch_size: 8}}
    optimizer: {adamw: {lr: 1.0e-2}, max_grad_norm: 1.0}
    evaluate: {every: 10, episodes: 4, env: Letters}
    stop: {updates: 20}
"""


@pytest.fixture(params=[True, False], ids=["answers", "all tokens"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """The module, in the folder of its project."""
    tokenizer = tiny_tokenizer()
    teacher: Any = tiny_model("llama", tokenizer, seed=1, initializer_range=0.5)
    teacher.save_pretrained(tmp_path / "checkpoints" / "teacher")
    tokenizer.save_pretrained(tmp_path / "checkpoints" / "teacher")
    schema = SCHEMA.replace("import: [", "import: [specgen_std/losses/distillation, ")
    schema = schema.replace("\nrewards:\n", TEACHER)
    schema += PIPELINE.replace("ASSISTANT_ONLY", str(request.param).lower())
    with training_module(tmp_path, schema, FUNCTIONS + RECORDED) as module:
        yield module


def test_the_policy_comes_near_to_the_teacher(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(made, "draw_curve", lambda folder, **_: None)
    parts = made.ChatDistill()
    batch = parts.buffer.sample()
    masks = batch["masks"]
    counts = masks["all_assistant_mask" if parts.loss.assistant_only else "all_attention_mask"]
    keywords = {"generate": False, "input_mode": "tokens", "pad_output": True}
    with torch.no_grad():
        mine, other = (
            model.get_new_version(**keywords)(batch.copy())["log_probs", "full"]
            for model in (parts.actor_network, parts.teacher_model)
        )
    assert torch.equal(batch["next", "teacher_log_probs", "full"] != 0, counts & (other != 0))
    ahead = torch.where(counts, mine - other, 0.0)
    expected = ((-ahead).exp() - 1 + ahead).sum(-1) / counts.sum(-1)
    torch.testing.assert_close(parts.loss(batch)["loss_distill"].detach(), expected.mean())
    made.train(made.ChatDistillConfig(), folder=tmp_path / "run")
    log = read_log(tmp_path / "run" / "log.csv")
    assert log[-1]["kl_to_teacher"] < 0.7 * log[0]["kl_to_teacher"]


OWN_ANSWERS = """
  LettersTaught:
    env: Letters
    transforms: [{RetrieveLogProb: {model: teacher, log_probs_full_key: teacher_log_probs.full}}]
pipelines:
  ChatDistill:
    doc: What the teacher says of the student's answers.
    env: LettersTaught
    networks: {actor_network: {causal_lm: policy}}
    loss: {DistillationLoss: {}}
    data: {on_policy: {num_envs: 64, minibatch_size: 32, epochs: 1}}
    optimizer: {adamw: {lr: 2.0e-2}, max_grad_norm: 1.0}
    evaluate: {every: 320, episodes: 4, env: Letters}
    stop: {frames: 960}
"""


def test_a_student_learns_from_its_own_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The teacher scores them as they are drawn; the student comes near to it."""
    tokenizer = tiny_tokenizer()
    teacher: Any = tiny_model("llama", tokenizer, initializer_range=0.1)
    teacher.lm_head.weight.data.mul_(4)
    teacher.save_pretrained(tmp_path / "checkpoints" / "teacher")
    tokenizer.save_pretrained(tmp_path / "checkpoints" / "teacher")
    schema = SCHEMA.replace("import: [", "import: [specgen_std/losses/distillation, ")
    schema = schema.replace(
        "\nrewards:\n", TEACHER.replace("pad_output: true", "pad_output: true\n    pad_to: 64")
    )
    with training_module(tmp_path, schema + OWN_ANSWERS, FUNCTIONS) as made:
        monkeypatch.setattr(made, "draw_curve", lambda folder, **_: None)
        update, seen = made.update, []

        def watched(parts: Any, batch: Any) -> Any:
            said, answered = batch["next", "teacher_log_probs", "full"], batch["masks", "all_assistant_mask"]
            with torch.no_grad():
                mine = parts.actor_network.get_new_version(generate=False, input_mode="tokens")(batch.copy())
            ahead = torch.where(answered, mine["log_probs", "full"] - said, 0.0)
            wanted = ((-ahead).exp() - 1 + ahead).sum(-1) / answered.sum(-1)
            done = update(parts, batch)
            torch.testing.assert_close(done.loss_distill, wanted.mean())
            assert torch.equal(said != 0, answered)
            seen.append(len(batch))
            return done

        monkeypatch.setattr(made, "update", watched)
        made.train(made.ChatDistillConfig(), folder=tmp_path / "run")
        assert seen == [32] * 30
        log = read_log(tmp_path / "run" / "log.csv")
        assert log[-1]["kl_to_teacher"] < 0.8 * log[0]["kl_to_teacher"]
