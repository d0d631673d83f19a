"""`RetrieveKL` of whole distributions: against logits of plain models, in value and gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.llm import KLComputation, RetrieveKL, TransformersWrapper, kl_estimate
from torch import Tensor, nn

from tests.llm.conversations import CHATS, conversations, left, pair, tokenizer, wrapped
from tests.llm.models import tiny_model


def full(policy: Any, reference: Any, temperature: float = 1.0) -> Tensor:
    """The KL of each token's distribution by all logits, 0 for what the assistant did not say."""
    rows = []
    for chat in CHATS:
        encoded = tokenizer().apply_chat_template(chat, return_dict=True, return_assistant_tokens_mask=True)
        ids, said = torch.tensor([encoded["input_ids"]]), torch.tensor(encoded["assistant_masks"]).bool()
        log_p, log_q = (
            (m(input_ids=ids).logits[0, :-1] / temperature).log_softmax(-1) for m in (policy, reference)
        )
        kl = (log_p.exp() * (log_p - log_q.detach())).sum(-1)
        rows.append(torch.cat([torch.zeros(1), kl]).where(said, 0.0))
    return left(rows)


def models() -> tuple[nn.Module, nn.Module]:
    return tiny_model("llama", tokenizer(), seed=3), tiny_model("llama", tokenizer(), seed=4)


def wrappers(policy: nn.Module, reference: nn.Module, **keywords: Any) -> dict[str, TransformersWrapper]:
    options: dict[str, Any] = {"tokenizer": tokenizer(), "generate": False, "pad_output": True, **keywords}
    return {
        "gen_model": TransformersWrapper(policy, **options),
        "ref_model": TransformersWrapper(reference, **options, log_probs_key="ref_log_probs"),
    }


@pytest.mark.parametrize(
    "keywords",
    [{}, {"max_tokens": 18}, {"pad_model_input": False}, {"generate_kwargs": {"temperature": 0.7}}],
)
def test_values_and_rewards(keywords: dict[str, Any]) -> None:
    policy, reference = models()
    transform = RetrieveKL(**wrappers(policy, reference, **keywords), estimator="full", coeff=0.5)
    data = transform(conversations(torch.ones(2, 1)))["next"]
    with torch.no_grad():
        wanted = full(policy, reference, keywords.get("generate_kwargs", {}).get("temperature", 1.0))
    torch.testing.assert_close(data["kl_penalty"], wanted, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(data["reward"], 1 - 0.5 * wanted.sum(-1, keepdim=True))
    sampled = RetrieveKL(**wrappers(policy, reference, **keywords))(conversations())["next"]
    for key in ("log_probs", "ref_log_probs"):
        torch.testing.assert_close(data[key, "full"], sampled[key, "full"])
    ragged = RetrieveKL(**wrappers(policy, reference, **keywords | {"pad_output": False}), estimator="full")
    rows = ragged(conversations().to_lazystack(0))["next"].get("kl_penalty", as_list=True)
    torch.testing.assert_close(left(rows), wanted, atol=1e-5, rtol=1e-5)


def test_gradients() -> None:
    policy, reference = models()
    transform = RetrieveKL(**wrappers(policy, reference), estimator="full", detach=False)
    transform(conversations())["next", "kl_penalty"].sum().backward()
    found = {name: p.grad.clone() for name, p in policy.named_parameters() if p.grad is not None}
    assert all(p.grad is None for p in reference.parameters())
    policy.zero_grad()
    full(policy, reference).sum().backward()
    assert found.keys() == {name for name, p in policy.named_parameters() if p.grad is not None}
    for name, p in policy.named_parameters():
        assert p.grad is not None
        torch.testing.assert_close(found[name], p.grad, atol=1e-5, rtol=1e-4, msg=name)


def test_models_whose_head_is_not_found(recwarn: pytest.WarningsRecorder) -> None:
    policy, reference = models()
    wanted = RetrieveKL(**wrappers(policy, reference), estimator="full")(conversations())[
        "next", "kl_penalty"
    ]
    policy.register_forward_hook(lambda *_: None)
    found = RetrieveKL(**wrappers(policy, reference), estimator="full")(conversations())["next", "kl_penalty"]
    torch.testing.assert_close(found, wanted)
    assert any("all logits of scored columns" in str(each.message) for each in recwarn)


def test_nothing_to_score() -> None:
    transform = RetrieveKL(**pair(), estimator="full", roles=["tool"], empty="zero")
    assert not transform(conversations())["next", "kl_penalty"].any()


def test_what_is_refused() -> None:
    truncated = wrapped(0, generate_kwargs={"top_k": 5})
    with pytest.raises(ValueError, match="gen_model draws with top-k or top-p"):
        RetrieveKL(gen_model=truncated, ref_model=wrapped(1), estimator="full")(conversations())
    other = TransformersWrapper(
        tiny_model("llama", tokenizer(), vocab_size=400),
        tokenizer=tokenizer(),
        generate=False,
        pad_output=True,
    )
    with pytest.raises(ValueError, match="vocabularies of 323 and 400 tokens"):
        RetrieveKL(gen_model=wrapped(0), ref_model=other, estimator="full")(conversations())
    with pytest.raises(ValueError, match="'full' needs both models"):
        KLComputation(estimator="full")
    with pytest.raises(ValueError, match="'full' needs both models"):
        kl_estimate(torch.zeros(2), "full")
    with pytest.raises(ValueError, match="of the distribution of each token"):
        RetrieveKL(**pair(), estimator="full", level="sequence")
