"""A pipeline whose language model answers on another device than it learns on, with copies of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.llm.letters import FUNCTIONS, SCHEMA, trained_and_resumed, training_module
from tests.llm.test_declared_pipeline import ASKED, OTHERS, PIPELINE
from tests.llm.test_declared_workers import scored
from tests.pipelines.small import differing

APART = PIPELINE.replace("    stop:", "    device: {policy: cpu, loss: cpu, env: cpu, data: cpu}\n    stop:")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The module, in the folder of its project."""
    schema = SCHEMA.replace("import: [", "import: [specgen_std/losses/grpo, ").replace("\nchains:", ASKED)
    with training_module(tmp_path_factory.mktemp("apart"), schema + APART, FUNCTIONS + OTHERS) as module:
        yield module


def test_it_learns_and_answers_with_the_same_weights(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(made, "draw_curve", lambda folder, **_: None)
    config = made.ChatGRPOConfig(total_frames=96, evaluate_every=32)
    parts = trained_and_resumed(made, config, tmp_path, monkeypatch)
    learning, acting = parts.actor_network, parts.acting_actor_network
    assert parts.policy is acting
    assert acting.model is not learning.model
    assert differing(dict(acting.state_dict()), dict(learning.state_dict())) == []
    fresh = made.policy_model().model.parameters()
    assert not any(map(torch.equal, fresh, acting.model.parameters()))
    batch = next(iter(parts.collector))
    answers = batch["masks", "all_assistant_mask"]
    for key in (batch["log_probs", "full"], batch["next", "log_probs", "full"]):
        torch.testing.assert_close(
            key[answers], scored(learning, batch)[answers].detach(), rtol=1e-4, atol=1e-5
        )


def test_devices_that_are_not_there(made: Any) -> None:
    with pytest.raises(ValueError, match="loss_device"):
        made.ChatGRPOConfig(loss_device="meta")
    with pytest.raises(ValueError, match="policy_device is 'cuda:63'"):
        made.ChatGRPO(made.ChatGRPOConfig(policy_device="cuda:63"))
