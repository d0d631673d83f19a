"""GRPO, DAPO, CISPO, SFT and distillation losses over a wrapped model: values and gradients against full logits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.llm import RetrieveLogProb, TransformersWrapper
from specgen_std.losses import DistillationLoss, SFTLoss
from specgen_std.losses.grpo import DAPO, CISPOLoss, GRPOLoss
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn

from tests.llm.models import tiny_model, tiny_tokenizer
from tests.llm.test_wrapper import CHATS, PROMPTS, of_chats
from tests.llm.test_wrapper_against_torchrl import SHORT, peer, run

TEMPERATURE = 0.8


def sampled(**given: Any) -> tuple[TransformersWrapper, TensorDict]:
    """A wrapper that scores, and answers that it sampled a while ago; one of them empty, some prompts padded."""
    tokenizer = tiny_tokenizer()
    how = {"max_new_tokens": 5, "temperature": TEMPERATURE}
    policy = TransformersWrapper(
        tiny_model("qwen2", tokenizer),
        tokenizer=tokenizer,
        generate_kwargs=how,
        return_log_probs=True,
        pad_output=True,
    )
    torch.manual_seed(0)
    data = policy(of_chats(PROMPTS, "prompt"))
    noise = torch.Generator().manual_seed(1)
    said = data["masks", "all_assistant_mask"]
    said[2] = False
    old = data["log_probs", "full"] + 0.3 * torch.randn(said.shape, generator=noise)
    data["log_probs", "full"] = torch.where(said, old, torch.nan)
    data["advantage"] = torch.randn(3, 1, generator=noise)
    reference = old + 0.3 * torch.randn(said.shape, generator=noise)
    data["next"] = TensorDict({"ref_log_probs": {"full": torch.where(said, reference, torch.nan)}}, [3])
    return policy.get_new_version(generate=False, **given), data


class FullLogits(nn.Module):
    """What stands for the wrapper: the plain model, and a distribution over each token by all of its logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        masks = [("masks", "all_attention_mask"), ("masks", "all_assistant_mask")]
        self.in_keys, self.out_keys = [("tokens", "full"), *masks], [("log_probs", "full")]

    def get_dist(self, data: TensorDictBase, **_given: Any) -> torch.distributions.Distribution:
        ids, mask = data["tokens", "full"], data["masks", "all_attention_mask"]
        places = (mask.long().cumsum(-1) - 1).clamp_min(0)
        logits = (
            self.model(input_ids=ids, attention_mask=mask.long(), position_ids=places).logits / TEMPERATURE
        )
        before = torch.cat([torch.zeros_like(logits[:, :1]), logits[:, :-1]], 1)
        return torch.distributions.Categorical(logits=before)

    def forward(self, data: TensorDictBase) -> TensorDictBase:
        data["log_probs", "full"] = self.get_dist(data).log_prob(data["tokens", "full"])
        return data


def compare(wrapped: TransformersWrapper, data: TensorDict, make: Any, names: list[str]) -> None:
    mine, plain = make(wrapped), make(FullLogits(wrapped.model))
    parameters = list(wrapped.model.parameters())
    found, expected = mine(data.clone()), plain(data.clone())
    assert set(found.keys()) == set(expected.keys()) >= set(names)
    for key in found.keys():  # noqa: SIM118
        torch.testing.assert_close(found[key], expected[key], rtol=1e-5, atol=1e-5, msg=key)
    for name in names:
        one = torch.autograd.grad(found[name], parameters, retain_graph=True)
        other = torch.autograd.grad(expected[name], parameters, retain_graph=True)
        scale = max(gradient.abs().max().item() for gradient in other)
        assert scale > 0
        for got, wanted in zip(one, other, strict=True):
            torch.testing.assert_close(got, wanted, rtol=0, atol=1e-5 * scale, msg=name)


@pytest.mark.parametrize("mode", ["history", "tokens"])
@pytest.mark.parametrize("kind", [GRPOLoss, DAPO, CISPOLoss])
def test_group_losses_equal_those_of_full_logits(kind: Any, mode: str) -> None:
    """Of a policy that reads conversations, too: the tokens that it sampled are scored."""
    wrapped, data = sampled(input_mode=mode)
    names = ["loss_objective", "loss_entropy", "loss_kl_to_ref", "loss_kl_to_inference"]
    compare(wrapped, data, lambda actor: kind(actor, kl_to_ref_coeff=0.1, kl_to_inference_coeff=0.2), names)


@pytest.mark.parametrize("given", [{"kl_to_ref_coeff": 0.1}, {"loss_function": "minor_sft"}])
def test_sft_equals_that_of_full_logits(given: dict[str, Any]) -> None:
    wrapped, data = sampled()
    names = ["loss_sft", *(["loss_kl_to_ref"] if "kl_to_ref_coeff" in given else [])]
    compare(wrapped, data, lambda actor: SFTLoss(actor, **given), names)


def test_losses_hold_the_parameters() -> None:
    """With parameters of its own, a loss copies the structure of the model, tied weights included."""
    wrapped, data = sampled()
    functional, plain = GRPOLoss(wrapped, functional=True), GRPOLoss(wrapped)
    expected = plain(data.clone())["loss_objective"]
    found = functional(data.clone())["loss_objective"]
    torch.testing.assert_close(found, expected)
    found.backward()
    grads = [one.grad.clone() for one in wrapped.model.parameters() if one.grad is not None]
    wrapped.model.zero_grad()
    expected.backward()
    assert len(grads) == len(list(wrapped.model.parameters()))
    for one, other in zip(grads, wrapped.model.parameters(), strict=True):
        torch.testing.assert_close(one, other.grad)


def test_the_model_runs_once() -> None:
    wrapped, data = sampled()
    runs = 0

    def count(*_: Any) -> None:
        nonlocal runs
        runs += 1

    wrapped.model.base_model.register_forward_hook(count)  # type: ignore[union-attr, operator]
    wrapped.scorer  # noqa: B018  # the probe runs it, too
    runs = 0
    distribution = wrapped.get_dist(data)
    assert runs == 0
    ids = data["tokens", "full"]
    log_probs, entropy = distribution.log_prob(ids), distribution.entropy()
    assert runs == 1
    said = data["masks", "all_assistant_mask"]
    assert torch.equal(distribution.mask, said)
    assert torch.equal(log_probs != 0, said)
    assert torch.equal(entropy != 0, said)


def test_entropies_in_a_run_of_their_own() -> None:
    wrapped, data = sampled(with_entropy=False)
    asked: list[bool] = []
    score = wrapped.score
    wrapped.__dict__["score"] = lambda *tokens, entropy: (
        asked.append(entropy),
        score(*tokens, entropy=entropy),
    )[1]
    ids = data["tokens", "full"]
    without, whole = wrapped.get_dist(data), wrapped.get_new_version(with_entropy=True).get_dist(data)
    torch.testing.assert_close(without.log_prob(ids), whole.log_prob(ids))
    assert asked == [False]
    torch.testing.assert_close(without.entropy(), whole.entropy())
    assert asked == [False, True]
    other = wrapped.get_dist(data)
    other.entropy()
    assert torch.equal(other.log_prob(ids), other.log_prob(ids))
    assert asked == [False, True, True], "a run for entropies gives log-probabilities, too"


def test_distributions_are_over_the_tokens_that_they_were_made_with() -> None:
    wrapped, data = sampled()
    distribution = wrapped.get_dist(data)
    ids = data["tokens", "full"]
    padding = ~data["masks", "all_attention_mask"]
    assert padding.any()
    distribution.log_prob(torch.where(padding, 1, ids))
    for other in (ids + 1, ids[:, :-1]):
        with pytest.raises(ValueError, match="can't be scored"):
            distribution.log_prob(other)
    with pytest.raises(NotImplementedError, match="generate=True"):
        distribution.sample()


def test_conversations_without_tokens_have_distributions() -> None:
    wrapped, _ = sampled()
    data = of_chats(CHATS)
    distribution = wrapped.get_dist(data)
    with torch.no_grad():
        written = wrapped(data.clone())
    assert torch.equal(distribution.mask, written["masks", "all_assistant_mask"])
    expected: Tensor = torch.where(distribution.mask, written["log_probs", "full"], 0.0)
    torch.testing.assert_close(distribution.log_prob(written["tokens", "full"]), expected)


@pytest.mark.parametrize("functional", [False, True])
def test_sft_of_conversations_without_a_mask(functional: bool) -> None:
    """The model tells what the assistant said as it renders the conversations, and is run once."""
    tokenizer = tiny_tokenizer()
    model: Any = tiny_model("qwen2", tokenizer)
    actor = TransformersWrapper(model, tokenizer=tokenizer, generate=False, pad_output=True)
    written = actor(of_chats(CHATS))
    said, log_probs = written["masks", "all_assistant_mask"], written["log_probs", "full"]
    assert said.any(-1).all()
    assert not said.all(-1).any()
    loss = SFTLoss(actor, functional=functional)
    found = loss(of_chats(CHATS))["loss_sft"]
    means = [row[kept].mean() for row, kept in zip(log_probs, said, strict=True)]
    torch.testing.assert_close(found, -torch.stack(means).mean())
    found.backward()
    assert any(parameter.grad is not None for parameter in loss.parameters())

    held = of_chats(CHATS)
    mask = said.clone()
    mask[:2] &= said[:2].cumsum(-1) > 1
    held["masks"] = {"all_assistant_mask": mask}
    means = [row[kept].mean() for row, kept in zip(log_probs, mask, strict=True)]
    torch.testing.assert_close(loss(held)["loss_sft"], -torch.stack(means).mean())


@pytest.mark.peers
def test_sft_of_conversations_equals_torchrls() -> None:
    """Which renders them once more for the mask, by a tokenizer of its own; here that is the actor's."""
    llm = pytest.importorskip("torchrl.objectives.llm")
    tokenizer = tiny_tokenizer()
    model: Any = tiny_model("qwen2", tokenizer)
    theirs = llm.SFTLoss(peer(model, tokenizer, pad_output=False), tokenizer=tokenizer)
    actor = TransformersWrapper(model, tokenizer=tokenizer, generate=False, pad_output=True)
    mine = SFTLoss(actor)
    found = mine(of_chats(SHORT))["loss_sft"]
    wanted = run(theirs, SHORT, gradients=True).loss_sft
    torch.testing.assert_close(found, wanted)
    for keyword, instead in (("tokenizer", "tokenizer=..."), ("tokenizer_kwargs", "chat_template_name=...")):
        with pytest.raises(TypeError, match=f"SFTLoss takes no {keyword}: use the actor's, .*{instead}"):
            SFTLoss(actor, **{keyword: tokenizer})


def test_sft_of_rows_of_different_lengths() -> None:
    tokenizer = tiny_tokenizer()
    actor = TransformersWrapper(tiny_model("qwen2", tokenizer), tokenizer=tokenizer, generate=False)
    padded = SFTLoss(actor.get_new_version(pad_output=True))
    expected = padded(of_chats(CHATS))["loss_sft"]
    assert expected > 0
    torch.testing.assert_close(padded(actor(of_chats(CHATS)))["loss_sft"], expected)
    torch.testing.assert_close(SFTLoss(actor)(of_chats(CHATS))["loss_sft"], expected)


@pytest.mark.peers
@pytest.mark.parametrize("assistant_only", [True, False])
def test_distillation_of_conversations_equals_torchrls(assistant_only: bool) -> None:
    """The teacher's log-probabilities are those of `RetrieveLogProb`; all of them, or the peer refuses to compare all."""
    llm = pytest.importorskip("torchrl.objectives.llm")
    tokenizer = tiny_tokenizer()
    model, teacher = tiny_model("qwen2", tokenizer), tiny_model("qwen2", tokenizer, seed=1)
    given: dict[str, Any] = {"assistant_only": assistant_only}
    key = ("teacher_log_probs", "full")
    scores = TransformersWrapper(teacher, tokenizer=tokenizer, generate=False, pad_output=True)
    data = RetrieveLogProb(scores, log_probs_full_key=("next", *key), **given)(of_chats(SHORT))
    actor = TransformersWrapper(model, tokenizer=tokenizer, generate=False, pad_output=True)
    found = DistillationLoss(actor, **given)(data)

    theirs = llm.DistillationLoss(peer(model, tokenizer, pad_output=False), tokenizer=tokenizer, **given)
    attended = scores(of_chats(SHORT))["masks", "all_attention_mask"]
    rows = [row[kept] for row, kept in zip(data["next", *key], attended, strict=True)]
    wanted = run(theirs, SHORT, gradients=True, teacher=rows)
    torch.testing.assert_close(found["loss_distill"], wanted.loss_distill)
    torch.testing.assert_close(found["kl_to_teacher"], wanted.kl_to_teacher)
    if not assistant_only:
        answers = RetrieveLogProb(scores, log_probs_full_key=("next", *key))(of_chats(SHORT))
        assert torch.isfinite(DistillationLoss(actor, **given)(answers)["loss_distill"])
        rows = [row[kept] for row, kept in zip(answers["next", *key], attended, strict=True)]
        with pytest.raises(RuntimeError, match="exactly 0"):
            run(theirs, SHORT, gradients=True, teacher=rows)
