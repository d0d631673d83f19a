"""Environments of conversations, models that answer, and losses on what comes out, together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from specgen_runtime.llm import (
    ChatEnv,
    MCAdvantage,
    Message,
    RetrieveKL,
    TransformersWrapper,
    chats_of,
    group_advantage,
)
from specgen_runtime.testing import check_env
from specgen_runtime.transforms import TransformedEnv
from specgen_std.losses.grpo import DAPO, CISPOLoss, GRPOLoss

from tests.llm.models import tiny_model, tiny_tokenizer

DATA = ["Hello", "What's the weather?", "How are you?", "42"]


def length(answers: Any, rows: Any) -> list[float]:
    return [float(len(chat[-1]["content"])) for chat in answers]


def twice(chat: list[Message], row: Mapping[str, Any]) -> list[Message] | None:
    return None if len(chat) > 3 else [{"role": "tool", "content": "the answer is 42"}]


def policy_of(tokenizer: Any, **keywords: Any) -> TransformersWrapper:
    torch.manual_seed(0)
    return TransformersWrapper(
        tiny_model("llama", tokenizer),
        tokenizer=tokenizer,
        generate_kwargs={"max_new_tokens": 5, "do_sample": True},
        pad_output=True,
        return_log_probs=True,
        **keywords,
    )


@pytest.mark.parametrize("make", [GRPOLoss, DAPO, CISPOLoss])
def test_a_step_of_training(make: Any) -> None:
    tokenizer = tiny_tokenizer()
    policy = policy_of(tokenizer)
    env = ChatEnv(DATA, reward=length, group=4, batch_size=(8,))
    with torch.no_grad():
        data = env.rollout(1, policy)[:, 0]
    data["advantage"] = group_advantage(data["next", "reward"], data["group"])
    scorer = policy.get_new_version(generate=False)
    loss_module = make(scorer)
    losses = loss_module(data)
    assert losses["kl_approx"].item() == pytest.approx(0.0, abs=1e-5), "what was sampled is what is scored"
    assert losses["ESS"].item() == pytest.approx(1.0, abs=1e-4)
    scored = scorer.get_dist(data).mask
    assert torch.equal(scored, data["masks", "all_assistant_mask"])
    assert scored.sum(-1).min() >= 1
    assert scored.sum(-1).max() == 5
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    before = scorer.get_dist(data).log_prob(data["tokens", "full"]).sum(-1).detach()
    losses["loss_objective"].backward()
    optimizer.step()
    after = scorer.get_dist(data).log_prob(data["tokens", "full"]).sum(-1).detach()
    gain = ((after - before) * data["advantage"].squeeze(-1)).sum()
    assert gain > 0, "better answers became likelier"


def test_several_turns() -> None:
    tokenizer = tiny_tokenizer()
    policy = policy_of(tokenizer, pad_to=96)
    env = ChatEnv(DATA, reward=length, tools=twice, max_turns=None, group=2, batch_size=(4,))
    with torch.no_grad():
        data = env.rollout(4, policy, break_when_any_done=False)
    assert data["next", "done"].squeeze(-1).tolist() == [[False, True, False, True]] * 4
    assert data["tokens", "full"].shape == (4, 4, 96)
    assert data["turn"].squeeze(-1).tolist() == [[0, 1, 0, 1]] * 4
    for row in data:
        for step in (0, 2):
            first, second = (chats_of(row[k].get(("history", "full")))[0] for k in (step, step + 1))
            assert second[: len(first)] == first
            assert [message["role"] for message in second] == ["user", "assistant", "tool", "assistant"]
            sampled, longer = (
                row[k]["tokens", "full"][row[k]["masks", "all_attention_mask"]] for k in (step, step + 1)
            )
            assert torch.equal(longer[: len(sampled)], sampled), "sampled tokens are not made again from text"
    out = MCAdvantage(2, prompt_key="group", trajectory_return="sum").inv(data)
    assert out.batch_size == (16,)
    wanted = group_advantage(data["next", "reward"][:, [1, 3]], data["group"][:, [1, 3]])
    ends = out["next", "done"].squeeze(-1)
    for group, advantage in zip(data["group"][:, [1, 3]].flatten(), wanted.flatten(), strict=True):
        found = out["advantage"][ends & (out["group"].squeeze(-1) == group)]
        assert torch.isclose(found, advantage, atol=1e-5).any()
    loss = GRPOLoss(policy.get_new_version(generate=False))(out)
    assert loss["ESS"].item() == pytest.approx(1.0, abs=1e-4)
    assert loss["loss_objective"].isfinite()


@pytest.mark.parametrize("template", ["chatml_format", "llama"])
def test_texts(template: str) -> None:
    tokenizer = tiny_tokenizer(None)
    policy = policy_of(tokenizer, input_mode="text")
    options = {"chat_template_name": template}
    env = ChatEnv(
        DATA,
        reward=length,
        tools=twice,
        max_turns=3,
        input_mode="text",
        tokenizer=tokenizer,
        template_kwargs=options,
    )
    with torch.no_grad():
        data = env.rollout(3, policy)[0]
    assert len(data) == 2
    first, second = (data[k].get(("text", "full")).data for k in (0, 1))
    assert "the answer is 42" in second
    assert second.startswith(data[0].get(("text", "prompt")).data)
    chat = chats_of(data[0]["next"].get(("history", "prompt")))[0]
    assert str(chat[1]["content"]) in first


def chain(batch_size: tuple[int, ...], coeff: float = 0.1, **keywords: Any) -> TransformedEnv:
    tokenizer = tiny_tokenizer()
    gen, ref = (
        TransformersWrapper(
            tiny_model("llama", tokenizer, seed=seed),
            tokenizer=tokenizer,
            generate=False,
            pad_output=True,
            pad_to=96,
        )
        for seed in (0, 1)
    )
    env = ChatEnv(DATA, reward=length, batch_size=batch_size, **keywords)
    return TransformedEnv(env, RetrieveKL(gen_model=gen, ref_model=ref, coeff=coeff))


def test_policy_reward_and_kl_make_one_environment() -> None:
    check_env(lambda: chain((2,), tools=twice, max_turns=2, group=2), steps=2, devices=())


def test_the_kl_is_subtracted_from_the_reward() -> None:
    tokenizer = tiny_tokenizer()
    policy = policy_of(tokenizer, pad_to=96)
    env = chain((4,), tools=twice, max_turns=3, group=2)
    with torch.no_grad():
        data = env.rollout(2, policy, break_when_any_done=False)
    kl = data["next", "kl_penalty"]
    assert kl.shape == (4, 2, 96)
    scored = data["masks", "all_assistant_mask"]
    assert kl[scored].abs().min() > 0
    assert not kl[~scored].any(), "exactly 0 elsewhere"
    plain = torch.tensor(
        [[0.0, float(len(chats_of(row[1].get(("history", "full")))[0][-1]["content"]))] for row in data]
    )
    wanted = plain - 0.1 * kl.sum(-1)
    torch.testing.assert_close(data["next", "reward"].squeeze(-1), wanted, rtol=1e-5, atol=1e-5)
