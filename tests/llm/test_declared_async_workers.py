"""A pipeline of a language model whose batches are each of one worker, while the others go on answering."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.collectors import MultiAsyncCollector
from specgen_runtime.training import read_log

from tests.llm.letters import FUNCTIONS, SCHEMA, training_module

PIPELINE = """
pipelines:
  ChatGRPO:
    doc: Answers in lower-case letters, of policies that are some updates old.
    env: LettersTrain
    networks: {actor_network: {causal_lm: policy}}
    loss: {GRPOLoss: {clip_epsilon: 0.2}}
    data: {on_policy: {num_envs: 16, minibatch_size: 16}}
    optimizer: {adamw: {lr: 2.0e-2}, max_grad_norm: 1.0}
    evaluate: {every: 64, episodes: 4}
    stop: {frames: 64}
    checkpoint: {every: 32}
    workers: {processes: 2, sync: false}
    allow: [SG418, SG570]
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The module, in the folder of its project."""
    schema = SCHEMA.replace("import: [", "import: [specgen_std/losses/grpo, ")
    with training_module(tmp_path_factory.mktemp("workers"), schema + PIPELINE, FUNCTIONS) as module:
        yield module


def test_a_batch_is_of_one_worker_and_of_whole_groups(made: Any) -> None:
    parts = made.ChatGRPO(made.ChatGRPOConfig())
    assert type(parts.collector) is MultiAsyncCollector
    try:
        batches = iter(parts.collector)
        drawn = [next(batches) for _ in range(4)]
    finally:
        parts.collector.shutdown()
    for batch in drawn:
        assert batch.shape == (8, 2), "half of the conversations, with twice the answers"
        group = batch["group"].flatten()
        assert all(int((group == number).sum()) == 4 for number in group.unique())
        for number in group.unique():
            rows = (batch["group"] == number).squeeze(-1)
            assert len({row["query"] for row in batch[rows].get("query").tolist()}) == 1
        advantage = made.group_advantage(batch["next", "reward"], batch["group"])
        for number in group.unique():
            of_group = advantage[batch["group"] == number]
            torch.testing.assert_close(of_group.sum(), torch.tensor(0.0), atol=1e-4, rtol=0)


def test_it_trains_and_goes_on(made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "draw_curve", lambda folder, **_: None)
    fresh = list(made.policy_model().model.parameters())
    made.train(made.ChatGRPOConfig(), folder=tmp_path / "run").collector.shutdown()
    more = made.ChatGRPOConfig(total_frames=128)
    parts = made.train(more, folder=tmp_path / "run", resume=True)
    parts.collector.shutdown()
    assert not any(map(torch.equal, fresh, parts.actor_network.model.parameters()))
    rows = read_log(tmp_path / "run" / "log.csv")
    assert [int(row["frames"]) for row in rows] == [64, 128]
    assert all(float(row["clip_fraction"]) <= 1 for row in rows)
