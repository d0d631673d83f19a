"""`TransformersWrapper` against TorchRL's: equal where that is right, and each fault of it that we don't have."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from specgen_runtime.llm import TransformersWrapper
from tensordict import TensorDict, lazy_stack, set_list_to_stack
from torch import Tensor

from tests.llm.models import tiny_model, tiny_tokenizer
from tests.llm.test_wrapper import CHATS, PROMPTS, expected_log_probs, of_chats, placed

pytestmark = pytest.mark.peers

MARGIN = 0.01
"""By how much a fault shows at least, in nats."""


def peer(model: Any, tokenizer: Any, **given: Any) -> Any:
    llm = pytest.importorskip("torchrl.modules.llm")
    given = {
        "input_mode": "history",
        "generate": False,
        "pad_output": True,
        "return_log_probs": True,
        **given,
    }
    return llm.TransformersWrapper(model, tokenizer=tokenizer, **given)


def run(
    wrapped: Any, chats: list[Any], *, gradients: bool = False, teacher: list[Tensor] | None = None
) -> Any:
    """Conversations through TorchRL's wrapper, or its loss, which may read log-probabilities of a teacher."""
    data = pytest.importorskip("torchrl.data.llm")
    policies = pytest.importorskip("torchrl.modules.llm.policies")
    with set_list_to_stack(True), torch.set_grad_enabled(gradients):
        rows = [data.History.from_chats([chat]) for chat in chats]
        history = torch.cat(rows) if len({row.shape[1] for row in rows}) == 1 else None
        assert history is not None, "all conversations have as many messages here"
        part = "prompt" if getattr(wrapped, "generate", False) else "full"
        size = (len(chats),)
        held = policies.ChatHistory._from_tensordict(TensorDict({part: history}, size))
        given = TensorDict(history=held, batch_size=size)
        if teacher is None:
            return wrapped(given)
        after = [TensorDict({"next": {"teacher_log_probs": {"full": row}}}) for row in teacher]
        return wrapped(
            lazy_stack([one.update(more) for one, more in zip(given.unbind(0), after, strict=True)])
        )


def pair(family: str, **given: Any) -> tuple[Any, Any, TransformersWrapper]:
    """A model with TorchRL's wrapper and ours."""
    tokenizer = tiny_tokenizer()
    model = tiny_model(family, tokenizer)
    mine = TransformersWrapper(model, tokenizer=tokenizer, **{"generate": False, "pad_output": True, **given})
    return model, peer(model, tokenizer, **given), mine


SHORT = [CHATS[0], CHATS[2]]


@pytest.mark.parametrize("family", ["llama", "opt", "qwen2"])
def test_scores_are_torchrls(family: str) -> None:
    """Where the place of padding does not matter to positions: keys, shapes and numbers are the same."""
    _, theirs, mine = pair(family)
    wanted = run(theirs, SHORT)
    with torch.no_grad():
        found = mine(of_chats(SHORT))
    kept = found["masks", "all_attention_mask"]
    for key in (("tokens", "full"), ("masks", "all_attention_mask"), ("masks", "all_assistant_mask")):
        other = wanted.get(key)
        assert found[key].shape == other.shape
        assert torch.equal(torch.where(kept, found[key], 0), torch.where(kept, other, 0).to(found[key].dtype))
    torch.testing.assert_close(
        found["log_probs", "full"], wanted.get(("log_probs", "full")), rtol=1e-4, atol=1e-4
    )


def apart(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max())


def test_fault_8_masks_are_passed_by_name() -> None:
    """The mask is in the place of the cache there, which GPT-2 has before it."""
    model, theirs, mine = pair("gpt2")
    expected = placed(expected_log_probs(model, mine.tokenizer, SHORT)).detach()
    with torch.no_grad():
        assert apart(mine(of_chats(SHORT))["log_probs", "full"], expected) < 1e-5
    with pytest.raises(AttributeError, match="get_seq_length"):
        run(theirs, SHORT)


def test_fault_7_packed_input_is_causal() -> None:
    model, theirs, mine = pair("llama", pad_model_input=False)
    expected = placed(expected_log_probs(model, mine.tokenizer, SHORT)).detach()
    assert apart(run(theirs, SHORT).get(("log_probs", "full")), expected) > MARGIN
    with torch.no_grad():
        assert apart(mine(of_chats(SHORT))["log_probs", "full"], expected) < 1e-5


def test_fault_9_the_first_token_has_a_log_probability() -> None:
    how = {"max_new_tokens": 4, "do_sample": True}
    _, theirs, mine = pair("llama", generate=True, return_log_probs=True, generate_kwargs=how)
    prompts = [PROMPTS[0], PROMPTS[2]]
    assert not run(theirs, prompts).get(("log_probs", "response"))[:, 0].any()
    found = mine(of_chats(prompts, "prompt"))["log_probs", "response"]
    assert (found[:, 0] < 0).all()


def test_fault_10_sampled_pad_ids_are_tokens() -> None:
    """A model that only says the pad id, and the end token never."""
    tokenizer = tiny_tokenizer()
    model: Any = tiny_model("llama", tokenizer)
    bias = torch.full((model.config.vocab_size,), -100.0)
    bias[tokenizer.pad_token_id] = 100.0
    model.lm_head.bias = torch.nn.Parameter(bias)
    how = {"max_new_tokens": 4, "do_sample": True}
    given = {"generate": True, "return_log_probs": True, "generate_kwargs": how, "pad_output": False}
    wrong = run(peer(model, tokenizer, **given), [PROMPTS[0]]).get(("tokens", "response"), as_list=True)[0]
    assert len(wrong) == 0
    mine = TransformersWrapper(model, tokenizer=tokenizer, **given)  # type: ignore[arg-type]
    found = mine(of_chats([PROMPTS[0]], "prompt"))
    assert found.get(("tokens", "response"), as_list=True)[0].tolist() == [tokenizer.pad_token_id] * 4


def test_fault_11_log_probs_know_the_temperature() -> None:
    how = {"max_new_tokens": 4, "do_sample": True, "temperature": 0.3}
    model, theirs, mine = pair("llama", generate=True, return_log_probs=True, generate_kwargs=how)
    prompts = [PROMPTS[0], PROMPTS[2]]
    torch.manual_seed(0)
    wanted = run(theirs, prompts)
    hot = TransformersWrapper(
        model, tokenizer=mine.tokenizer, input_mode="tokens", generate=False, pad_output=True
    )
    cold = mine.get_new_version(generate=False, input_mode="tokens")
    tokens = wanted.get(("tokens", "full"))
    told = wanted.get(("log_probs", "response"))[:, 1]
    attended = wanted.get(("masks", "all_attention_mask"))
    data = TensorDict({"tokens": {"full": tokens}, "masks": {"all_attention_mask": attended}}, [2])
    place = wanted.get(("tokens", "prompt")).shape[1] + 1
    with torch.no_grad():
        of_model, of_sampled = (one(data.clone())["log_probs", "full"][:, place] for one in (hot, cold))
    assert apart(told, of_model) < 1e-4
    assert apart(told, of_sampled) > MARGIN


def test_fault_12_models_in_train_mode() -> None:
    """Equal weights have the KL 0, whatever the mode of the models is."""
    tokenizer = tiny_tokenizer()
    model = tiny_model("opt", tokenizer, dropout=0.5)
    model.train()
    mine = TransformersWrapper(model, tokenizer=tokenizer, generate=False, pad_output=True)
    with torch.no_grad():
        one, other = (mine(of_chats(SHORT))["log_probs", "full"] for _ in range(2))
    assert torch.equal(one, other)
    assert model.training
    theirs = peer(model, tokenizer)
    one, other = (run(theirs, SHORT[:1]).get(("log_probs", "full")) for _ in range(2))
    assert apart(one, other) > MARGIN


def test_keywords_are_torchrls() -> None:
    llm = pytest.importorskip("torchrl.modules.llm")
    theirs = set(inspect.signature(llm.TransformersWrapper).parameters)
    assert theirs <= set(inspect.signature(TransformersWrapper).parameters)


def test_what_is_written_unasked() -> None:
    """Theirs writes log-probabilities of answers, and the texts of what it scores; ours where it is asked to."""
    model, tokenizer = tiny_model("llama", tiny_tokenizer()), tiny_tokenizer()
    answering = {"generate": True, "generate_kwargs": {"max_new_tokens": 2}, "return_log_probs": None}
    theirs = run(peer(model, tokenizer, **answering), [chat[:1] for chat in SHORT])
    ours = TransformersWrapper(model, tokenizer=tokenizer, pad_output=True, **answering)(
        of_chats(SHORT, "prompt")
    )
    assert "log_probs" in theirs
    assert "log_probs" not in ours
    assert "text" in theirs
    assert "text" in ours
    scored = TransformersWrapper(model, tokenizer=tokenizer, generate=False, pad_output=True)(of_chats(SHORT))
    assert "text" in run(peer(model, tokenizer), SHORT)
    assert "text" not in scored
