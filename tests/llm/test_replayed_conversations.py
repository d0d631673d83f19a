"""Conversations in replay buffers: advantages of groups, KL penalties, several epochs of a loss, saving."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.data import (
    LazyStackStorage,
    ListStorage,
    ReplayBuffer,
    SamplerWithoutReplacement,
    TensorDictReplayBuffer,
)
from specgen_runtime.llm import (
    ChatEnv,
    MCAdvantage,
    RetrieveKL,
    TransformersWrapper,
    chats_of,
    group_advantage,
)
from specgen_runtime.ragged import rows_at
from specgen_std.losses.grpo import GRPOLoss
from tensordict import TensorDict

from tests.llm.conversations import CHATS, conversations, model, pair, tokenizer
from tests.llm.models import tiny_model

QUESTIONS = ["Hello", "What's the weather? The answer is 42", "how are you", "I'm well"]


def answered(policy: TransformersWrapper, seed: int) -> TensorDict:
    """Eight conversations of four groups; the reward is the length of the answer."""

    def reward(answers: Any, rows: Any) -> list[float]:
        return [float(len(chat[-1]["content"])) for chat in answers]

    env = ChatEnv([{"query": each} for each in QUESTIONS], reward=reward, group=2, batch_size=(8,), seed=seed)
    torch.manual_seed(seed)
    with torch.no_grad():
        return env.rollout(1, policy)


def sampling_policy(*, pad_output: bool) -> TransformersWrapper:
    return TransformersWrapper(
        tiny_model("llama", tokenizer(), seed=0),
        tokenizer=tokenizer(),
        generate_kwargs={"max_new_tokens": 5, "do_sample": True},
        pad_output=pad_output,
        pad_to=40 if pad_output else None,
        return_log_probs=True,
    )


def replayed(storage: type, seed: int = 0, **options: Any) -> TensorDictReplayBuffer:
    return TensorDictReplayBuffer(
        storage=storage(32),
        sampler=SamplerWithoutReplacement(),
        transform=MCAdvantage(2, prompt_key="query"),
        batch_size=4,
        generator=torch.Generator().manual_seed(seed),
        **options,
    )


@pytest.mark.parametrize("storage", [ListStorage, LazyStackStorage])
@pytest.mark.parametrize("pad_output", [True, False])
def test_several_epochs_of_what_was_said(storage: type, pad_output: bool) -> None:
    """Each conversation comes once in an epoch, with the advantage that it has in its batch, and trains the policy."""
    policy = sampling_policy(pad_output=pad_output)
    scorer = policy.get_new_version(generate=False)
    buffer = replayed(storage)
    batches = [answered(policy, seed) for seed in range(2)]
    for batch in batches:
        assert len(buffer.extend(batch)) == 8
    wanted = {}
    for batch in batches:
        advantage = group_advantage(batch["next", "reward"], batch["group"])
        for row, value in zip(batch[:, 0].unbind(0), advantage.flatten().tolist(), strict=True):
            (chat,) = chats_of([row.get(("history", "full"))])
            wanted.setdefault(str(chat), []).append(value)
    optimizer = torch.optim.SGD(scorer.parameters(), lr=1e-2)
    loss_module = GRPOLoss(scorer)
    before = [parameter.detach().clone() for parameter in scorer.parameters()]
    for _ in range(3):
        seen: dict[str, list[float]] = {}
        for sample in buffer:
            for row in sample.unbind(0):
                (chat,) = chats_of([row.get(("history", "full"))])
                seen.setdefault(str(chat), []).append(float(row["advantage"]))
            if not pad_output:  # the loss reads tensors
                continue
            losses = loss_module(sample)
            optimizer.zero_grad()
            (losses["loss_objective"] + losses["loss_entropy"]).backward()
            optimizer.step()
        assert seen.keys() == wanted.keys()
        for chat, values in seen.items():
            assert sorted(values) == pytest.approx(sorted(wanted[chat]))
    changed = any(not torch.equal(*each) for each in zip(before, scorer.parameters(), strict=True))
    assert changed == pad_output


@pytest.mark.parametrize("how", ["dumps", "state_dict"])
def test_goes_on_with_what_is_held_back(how: str, tmp_path: Path) -> None:
    policy = sampling_policy(pad_output=False)
    buffer, other = replayed(LazyStackStorage, 0, prefetch=2), replayed(LazyStackStorage, 1, prefetch=2)
    data = answered(policy, 0)
    assert len(buffer.extend(data[:5])) == 4
    buffer.sample()
    if how == "dumps":
        buffer.dumps(tmp_path)
        other.loads(tmp_path)
    else:
        other.load_state_dict(buffer.state_dict())
    for each in (buffer, other):
        assert len(each.extend(data[5:6])) == 2, "the other one of the group was held back"
        assert each.transform[0].get_stats()["completed_trajectories"] == 6
    for _ in range(4):
        samples = buffer.sample(), other.sample()
        assert samples[0]["index"].tolist() == samples[1]["index"].tolist()
        for one, two in zip(*(sample.unbind(0) for sample in samples), strict=True):
            assert chats_of([one.get(("history", "full"))]) == chats_of([two.get(("history", "full"))])
            assert torch.equal(one["log_probs", "full"], two["log_probs", "full"])
            assert torch.equal(one["advantage"], two["advantage"])


@pytest.mark.parametrize("storage", [ListStorage, LazyStackStorage])
@pytest.mark.parametrize("invert", [False, True])
def test_penalties_of_rows_of_different_lengths(storage: Callable[[int], Any], invert: bool) -> None:
    """Of what is sampled, and of what comes in: rewards less the penalties of each row alone."""
    assert len(CHATS) == 2
    assert model(0) is not model(1)
    buffer = ReplayBuffer(storage=storage(4), batch_size=8, generator=torch.Generator().manual_seed(0))
    buffer.append_transform(RetrieveKL(**pair(pad_output=False)), invert=invert)
    buffer.extend(conversations(torch.ones(2, 1)))
    wanted = rows_at(RetrieveKL(**pair(pad_output=False))(conversations())["next"], "kl_penalty")
    assert isinstance(wanted, list)
    sample = buffer.sample()
    chats = chats_of(sample.get(("history", "full")))
    for row, chat in zip(sample["next"].unbind(0), chats, strict=True):
        penalty = wanted[CHATS.index(chat)]
        torch.testing.assert_close(row["kl_penalty"].flatten(), penalty.flatten())
        torch.testing.assert_close(row["reward"], 1 - penalty.sum().reshape(1))
