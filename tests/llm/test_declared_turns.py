"""A pipeline around conversations of two answers, whose reward is of the second one: built by the command, then trained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.llm import chats_of, group_advantage
from specgen_runtime.training import minibatches, read_log

from tests.llm.letters import FUNCTIONS, SCHEMA, trained_and_resumed, training_module

PIPELINE = """
pipelines:
  ChatGRPO:
    doc: Second answers in lower-case letters.
    env: LettersTrain
    networks: {actor_network: {causal_lm: policy}}
    loss: {GRPOLoss: {clip_epsilon: 0.2, aggregation: prompt_mean}}
    data: {on_policy: {num_envs: 16, epochs: 2, minibatch_size: 32, accumulate: 2}}
    optimizer: {adamw: {lr: 2.0e-2}, max_grad_norm: 1.0}
    evaluate: {every: 100, episodes: 4}
    stop: {frames: 700}
    checkpoint: {every: 32}
    allow: [SG418]
"""
TOOLS = '''

def again(answers: Sequence[Message], row: LettersRow) -> Sequence[Message] | None:
    """A second question; a first answer that begins with a capital letter ends the conversation."""
    said = str(answers[-1]["content"])
    if len(answers) > 3 or "A" <= said[:1] <= "Z":
        return None
    return [{"role": "user", "content": "Again."}]


def second(answers: Sequence[Sequence[Message]], rows: Sequence[LettersRewardRow]) -> Scores:
    """The share of the second answer that is a lower-case letter; 0 without one."""
    said = [str(chat[4]["content"]) if len(chat) > 4 else "" for chat in answers]
    found = [sum("a" <= one <= "z" for one in text) / max(5, len(text)) for text in said]
    return Scores(found, share=found)
'''


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The module, in the folder of its project."""
    schema = SCHEMA.replace("import: [", "import: [specgen_std/losses/grpo, ").replace(
        "coeff: 0.05", "coeff: 0.01"
    )
    schema = schema.replace("letters_user:letters", "letters_user:second").replace(
        "reward: letters}", 'reward: letters, tools: "letters_user:again", max_turns: 2}'
    )
    project = tmp_path_factory.mktemp("turns")
    with training_module(project, schema + PIPELINE, FUNCTIONS + TOOLS) as module:
        yield module


@pytest.fixture(autouse=True)
def no_curve(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "draw_curve", lambda folder, **_: None)


@pytest.fixture
def parts(made: Any) -> Any:
    return made.ChatGRPO(made.ChatGRPOConfig(seed=1))


def test_a_batch_has_one_whole_conversation_of_each_environment(parts: Any) -> None:
    for _ in range(2):
        batch = next(iter(parts.collector))
        given = batch["collector", "mask"]
        assert batch.shape == given.shape == (16, 2)
        full = [chats_of(batch[:, turn].get(("history", "full"))) for turn in range(2)]
        for row, (first, second) in enumerate(zip(*full, strict=True)):
            assert given[row, 0]
            assert len(first) == 3
            ended = "A" <= str(first[2]["content"])[:1] <= "Z"
            assert bool(given[row, 1]) is not ended
            assert len(second) == (3 if ended else 5)
            assert second[:3] == first
        assert 0 < int(given[:, 1].sum()) < 16, "some conversations end early, and some don't"
        assert batch["next", "done"].squeeze(-1)[given].sum() == 16
        numbers = batch["collector", "traj_ids"]
        assert (numbers[:, 0] == numbers[:, 1]).all()
        assert numbers[:, 0].unique().numel() == 16
        assert batch["group"][:, 0].flatten().unique(return_counts=True)[1].tolist() == [4] * 4


def test_each_answer_is_scored_alone_and_has_the_advantage_of_the_whole_conversation(
    made: Any, parts: Any
) -> None:
    batch = next(iter(parts.collector))
    given = batch["collector", "mask"]
    answers, prompts = batch["masks", "all_assistant_mask"], batch["turn"].squeeze(-1)
    assert prompts.tolist() == [[0, 1] if both else [0, 0] for both in given[:, 1].tolist()]
    counts = answers.sum(-1)[given]
    assert int(counts.min()) >= 1
    assert int(counts.max()) <= 5, "an answer has five tokens at most, and the first is no part of the second"
    penalty = batch["next", "kl_penalty"]
    assert not penalty[~answers].any(), "the penalty of a turn is of its own tokens"
    ratio = batch["next", "log_probs", "full"] - batch["log_probs", "full"]
    torch.testing.assert_close(ratio[answers], torch.zeros_like(ratio[answers]), rtol=0, atol=1e-5)
    rewards = batch["next", "reward"].squeeze(-1)
    share = batch["next", "metrics", "share"].squeeze(-1)
    torch.testing.assert_close(rewards[given], (share - 0.01 * penalty.sum(-1))[given])
    returns = torch.where(given, rewards, 0.0).sum(-1)
    expected = group_advantage(returns, batch["group"][:, 0].flatten())
    advantage = made.conversation_advantage(
        batch["next", "reward"], batch["group"], batch["collector", "traj_ids"], given
    )
    torch.testing.assert_close(advantage[:, 0, 0], expected)
    torch.testing.assert_close(advantage[:, 1, 0], torch.where(given[:, 1], expected, 0.0))


def test_gradients_in_parts_are_those_of_the_answers_that_were_given(made: Any) -> None:
    parts = made.ChatGRPO(made.ChatGRPOConfig(accumulate=1, max_grad_norm=1e9))
    batch = next(iter(parts.collector))
    given = batch["collector", "mask"]
    batch["advantage"] = made.conversation_advantage(
        batch["next", "reward"], batch["group"], batch["collector", "traj_ids"], given
    )
    chosen = batch.select(*parts.stored)
    made.update(parts, chosen)
    found = [one.grad.clone() for one in parts.loss.parameters()]
    parts.loss.load_state_dict(made.ChatGRPO(made.ChatGRPOConfig()).loss.state_dict())
    parts.optimizer.zero_grad()
    (alone,) = minibatches(chosen[given], int(given.sum()), generator=None)
    losses = parts.loss(alone.exclude("collector"))
    (losses["loss_objective"] + losses["loss_entropy"]).backward()
    for one, other in zip(found, parts.loss.parameters(), strict=True):
        torch.testing.assert_close(one, other.grad, rtol=1e-4, atol=1e-6)


def test_the_reward_of_second_answers_rises(made: Any, tmp_path: Path) -> None:
    made.train(made.ChatGRPOConfig(seed=2), folder=tmp_path / "run")
    log = read_log(tmp_path / "run" / "log.csv")
    assert log[-1]["share"] > log[0]["share"] + 0.25
    assert all(16 * row["updates"] / 2 <= row["frames"] <= 32 * row["updates"] / 2 for row in log)
    for row in log:
        assert row["episodes"] % 16 == 0
        assert row["return"] < row["share"]


def test_a_stopped_training_goes_on_bit_by_bit(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = 16 * 6 + 1
    config = made.ChatGRPOConfig(total_frames=frames, evaluate_every=32, checkpoint_every=16)
    trained_and_resumed(made, config, tmp_path, monkeypatch)


def test_a_batch_that_would_cut_conversations_is_refused(made: Any) -> None:
    with pytest.raises(ValueError, match="num_steps must be 2"):
        made.ChatGRPOConfig(num_steps=3)
    with pytest.raises(ValueError, match="minibatch_size must be a multiple of num_steps"):
        made.ChatGRPOConfig(minibatch_size=15)
