"""Pipelines of language models whose conversations are held by workers, each with copies of the models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.collectors import MultiSyncCollector
from specgen_runtime.llm import chats_of, group_advantage

from tests.llm import test_declared_turns as turns
from tests.llm.letters import FUNCTIONS, SCHEMA, trained_and_resumed, training_module

PIPELINE = turns.PIPELINE.replace("    stop:", "    workers: {processes: 2}\n    stop:")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The module, of conversations of up to two answers, in the folder of its project."""
    schema = SCHEMA.replace("import: [", "import: [specgen_std/losses/grpo, ")
    schema = schema.replace("letters_user:letters", "letters_user:second").replace(
        "reward: letters}", 'reward: letters, tools: "letters_user:again", max_turns: 2}'
    )
    project = tmp_path_factory.mktemp("workers")
    with training_module(project, schema + PIPELINE, FUNCTIONS + turns.TOOLS) as module:
        yield module


def scored(model: Any, batch: Any) -> torch.Tensor:
    """What a model of the training says of the tokens of a batch, which a worker's copy said before."""
    read = batch.select("tokens", "masks")
    made = model.get_new_version(generate=False, input_mode="tokens", log_probs_key="log_probs")
    return made(read.clone())["log_probs", "full"]  # type: ignore[no-any-return]


def test_workers_draw_for_themselves_with_the_weights_of_the_training(made: Any) -> None:
    """What they say is what the training's models say, before an update and behind it."""
    parts = made.ChatGRPO(made.ChatGRPOConfig())
    assert type(parts.collector) is MultiSyncCollector
    try:
        policy, reference = parts.actor_network, parts.reference_model
        said = []
        for version in (1, 2):
            batch = next(iter(parts.collector))
            given = batch["collector", "mask"]
            assert batch.shape == (16, 2)
            assert (batch["policy_version"] == version).all()
            answers = batch["masks", "all_assistant_mask"] & given.unsqueeze(-1)
            for key, model in ((("log_probs", "full"), policy), (("ref_log_probs", "full"), reference)):
                found = batch["next", key] if key[0] == "ref_log_probs" else batch[key]
                expected = scored(model, batch)
                torch.testing.assert_close(found[answers], expected[answers], rtol=1e-4, atol=1e-5)
            said.append([str(chat[2]["content"]) for chat in chats_of(batch[:, 0].get(("history", "full")))])
            with torch.no_grad():
                policy.model.lm_head.weight.mul_(1.5)
        assert len({*said[0]}) > 4
        assert said[0][:8] != said[0][8:]
        kept = parts.collector.state_dict()
        assert "policy_state_dict" in kept
        assert not any("policy_state_dict" in kept[f"worker{place}"] for place in range(2)), (
            "one copy is enough"
        )
        whole = batch["next", "kl_penalty"].sum()
        assert float(whole) != 0, "the policy is no longer the reference, which has the weights that it had"
    finally:
        parts.collector.shutdown()


def test_groups_are_those_of_one_worker(made: Any) -> None:
    """Each numbers its prompts from 0; answers to those of two workers are not compared."""
    parts = made.ChatGRPO(made.ChatGRPOConfig())
    batch = next(iter(parts.collector))
    parts.collector.shutdown()
    given, number = batch["collector", "mask"], batch["group"][:, 0].flatten()
    assert number.tolist() == [0] * 4 + [1] * 4 + [0] * 4 + [1] * 4
    queries = [row["query"] for row in batch[:, 0].get("query").tolist()]
    assert all(len({*queries[start : start + 4]}) == 1 for start in range(0, 16, 4))
    rewards = torch.where(given, batch["next", "reward"].squeeze(-1), 0.0).sum(-1)
    apart = torch.arange(16) // 4
    groups = made.groups_of_workers(batch["group"], 2)
    assert len(groups.unique()) == 4
    conversations = batch["collector", "traj_ids"]
    assert len(conversations.unique()) == 16
    found = made.conversation_advantage(batch["next", "reward"], groups, conversations, given)
    torch.testing.assert_close(found[:, 0, 0], group_advantage(rewards, apart))


def test_a_stopped_training_goes_on_bit_by_bit(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(made, "draw_curve", lambda folder, **_: None)
    config = made.ChatGRPOConfig(total_frames=150, evaluate_every=50)
    fresh = made.policy_model().model.parameters()
    whole = trained_and_resumed(made, config, tmp_path, monkeypatch)
    assert not any(map(torch.equal, fresh, whole.actor_network.model.parameters()))


def test_numbers_that_do_not_fit_are_refused(made: Any) -> None:
    with pytest.raises(ValueError, match="workers must divide the groups of 4 in num_envs, got 3"):
        made.ChatGRPOConfig(workers=3)
