"""What a policy generates where some conversations are over: nothing for those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from specgen_runtime.collectors import Collector
from specgen_runtime.llm import ChatEnv, Message, TransformersWrapper

from tests.llm.models import tiny_model, tiny_tokenizer
from tests.llm.test_wrapper import PROMPTS, of_chats


@pytest.mark.parametrize("pad_output", [True, False])
@pytest.mark.parametrize("samples", [None, 2])
def test_rows_that_do_not_step_are_not_generated_for(
    samples: int | None, pad_output: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others have the answers that they have alone."""
    tokenizer = tiny_tokenizer()
    model: Any = tiny_model("llama", tokenizer)
    policy = TransformersWrapper(
        model,
        tokenizer=tokenizer,
        generate_kwargs={"max_new_tokens": 5, "do_sample": True},
        num_samples=samples,
        return_log_probs=True,
        pad_output=pad_output,
    )
    seen: list[int] = []
    generate = model.generate
    monkeypatch.setattr(
        model, "generate", lambda **given: (seen.append(len(given["input_ids"])), generate(**given))[1]
    )
    data = of_chats(PROMPTS, "prompt")
    steps = torch.tensor([True, False, True])
    torch.manual_seed(0)
    found = policy(data.clone().set("_step", steps))
    torch.manual_seed(0)
    alone = policy(of_chats([PROMPTS[0], PROMPTS[2]], "prompt"))
    assert seen == [2 * (samples or 1)] * 2
    waiting = found[1]
    assert (waiting.get(("log_probs", "full")) == 0).all()
    assert waiting.get(("masks", "all_assistant_mask")).sum() == (samples or 1)
    if pad_output:
        width = alone["tokens", "response"].shape[-1]
        assert torch.equal(found["tokens", "response"][steps][..., :width], alone["tokens", "response"])
        kept = found["log_probs", "response"][steps][..., :width]
        torch.testing.assert_close(kept, alone["log_probs", "response"])


def test_conversations_that_are_over_are_not_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four environments, two are over after an answer; their rows repeat that one."""
    tokenizer = tiny_tokenizer()
    model: Any = tiny_model("llama", tokenizer)
    policy = TransformersWrapper(
        model,
        tokenizer=tokenizer,
        generate_kwargs={"max_new_tokens": 4},
        pad_output=True,
        pad_to=80,
        return_log_probs=True,
    )
    seen: list[int] = []
    generate = model.generate
    monkeypatch.setattr(
        model, "generate", lambda **given: (seen.append(len(given["input_ids"])), generate(**given))[1]
    )

    def again(chat: Sequence[Message], row: Any) -> Sequence[Message] | None:
        return [{"role": "user", "content": "Again."}] if row["query"] in "bd" else None

    env = ChatEnv([{"query": letter} for letter in "abcd"], batch_size=(4,), tools=again, max_turns=3)
    batch = next(iter(Collector(env, policy, frames_per_batch=12, total_frames=12, whole_episodes=True)))
    assert seen == [4, 2, 2]
    mask = batch["collector", "mask"]
    assert sorted(mask.sum(1).tolist()) == [1, 1, 3, 3]
    over = ~mask[:, 1]
    first, second = batch["tokens", "full"][:, 0], batch["tokens", "full"][:, 1]
    assert torch.equal(first[over], second[over])
    assert not torch.equal(first[~over], second[~over])
