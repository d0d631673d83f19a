"""`RetrieveKL`: each row of its contract."""

from __future__ import annotations

import pickle
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from specgen_runtime.llm import (
    ChatHistory,
    KLComputation,
    KLRewardTransform,
    RetrieveKL,
    Text,
    Tokens,
    TransformersWrapper,
    as_rows,
    render_batch,
)
from specgen_runtime.llm.kl_estimators import kl_estimate
from specgen_runtime.ragged import rows_at
from tensordict import TensorDict
from torch import Tensor

from tests.llm.conversations import CHATS, conversations, left, pair, plain, tokenizer, wrapped
from tests.llm.models import tiny_model, tiny_tokenizer


def penalty_of(transform: RetrieveKL, data: TensorDict | None = None) -> Tensor:
    result: Tensor = transform(conversations() if data is None else data)["next", "kl_penalty"]
    return result


def expected(masked: bool = True) -> Tensor:
    return left(plain(0, masked)) - left(plain(1, masked))


# ------------------------------------------------------------ which models


def test_models_that_are_missing() -> None:
    with pytest.raises(ValueError, match="gen_model is missing"):
        RetrieveKL(gen_model=None, ref_model=wrapped(1))
    with pytest.raises(ValueError, match="ref_model is missing"):
        RetrieveKL(gen_model=wrapped(0))


def test_model_and_factory_both_given() -> None:
    with pytest.raises(ValueError, match="gen_model and gen_model_factory are both"):
        RetrieveKL(**pair(), gen_model_factory=lambda: wrapped(0))
    with pytest.raises(ValueError, match="ref_model and ref_model_factory are both"):
        RetrieveKL(**pair(), ref_model_factory=lambda: wrapped(1))


def test_factories() -> None:
    calls = []

    def make(seed: int) -> TransformersWrapper:
        calls.append(seed)
        return wrapped(seed)

    transform = RetrieveKL(gen_model_factory=lambda: make(0), ref_model_factory=lambda: make(1))
    found = [penalty_of(transform) for _ in range(2)]
    assert calls == [0, 1]
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], penalty_of(RetrieveKL(**pair())))


@pytest.mark.parametrize(
    ("gen", "ref", "text"),
    [
        ({"pad_output": False}, {}, "pad_output mismatch: gen_model has False, ref_model True"),
        ({}, {"padding_side": "right"}, "padding_side mismatch: gen_model has 'left', ref_model 'right'"),
        ({"generate": True}, {}, "gen_model generates"),
        ({}, {"generate": True}, "ref_model generates"),
        ({"log_probs_key": "log_probs_1"}, {}, "both write 'log_probs_1'"),
        ({"input_mode": "text"}, {}, "must have `input_mode='history'`.*gen_model has 'text'"),
        ({}, {"input_mode": "tokens"}, "must have `input_mode='history'`.*ref_model has 'tokens'"),
        ({}, {"tokenizer": tiny_tokenizer(eos="</s>")}, "different tokenizers"),
        ({"chat_template_name": "llama"}, {}, "templates of gen_model and ref_model differ"),
    ],
)
def test_models_that_do_not_fit(gen: dict[str, Any], ref: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        RetrieveKL(gen_model=wrapped(0, **gen), ref_model=wrapped(1, **ref))


def test_modules_that_are_no_wrappers() -> None:
    bare: Any = wrapped(0).model
    with pytest.raises(
        TypeError, match=r"ref_model is a TransformersWrapper, got transformers\..*LlamaForCausalLM"
    ):
        RetrieveKL(gen_model=wrapped(0), ref_model=bare)
    for made in (bare, None):
        with pytest.raises(TypeError, match="gen_model is a TransformersWrapper, got"):
            RetrieveKL(
                gen_model_factory=partial(getattr, SimpleNamespace(made=made), "made"), ref_model=wrapped(1)
            )


def test_models_without_log_probs() -> None:
    silent = wrapped(0, generate=True, return_log_probs=False)
    silent.generate = False
    with pytest.raises(ValueError, match="gen_model returns no log-probabilities"):
        RetrieveKL(gen_model=silent, ref_model=wrapped(1))


def test_further_arguments() -> None:
    for keywords, text in (
        ({"coeff": -0.1}, "rewards distance"),
        ({"coeff": float("nan")}, "rewards would not be finite"),
        ({"bound": 0.0}, "bound is above 0, got 0.0"),
        ({"target_kl": 0.1, "horizon": 0.0}, "horizon is above 0, got 0.0"),
        ({"estimator": "k4"}, "estimator is one of"),
        ({"spread": "all"}, "spread is"),
        ({"kl_key": ("log_probs", "full")}, "keys of their own"),
        ({"tokenizer_kwargs": {"add_generation_prompt": True}}, "whole conversations"),
        ({"tokenizer_kwargs": {"tokenize": False}}, "tokenize is True here"),
    ):
        with pytest.raises(ValueError, match=text):
            RetrieveKL(**pair(), **keywords)


# ------------------------------------------------------------------- values


@pytest.mark.parametrize("prefer", [None, False])
def test_assistant_zeroing(prefer: bool | None) -> None:
    """Exactly 0 outside the mask, equal to a hand computation inside."""
    kl = penalty_of(RetrieveKL(**pair(prefer_tokens=prefer)))
    assert torch.equal(kl == 0, left(plain(0)) == 0)
    torch.testing.assert_close(kl, expected(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["history", "text", "tokens"])
def test_all_tokens_in_each_mode(mode: Any) -> None:
    data = conversations()
    rendered = render_batch(CHATS, tokenizer())
    data["text"] = Text(full=as_rows(rendered.text, (2,)), batch_size=(2,))
    data["tokens"] = Tokens(full=rendered.ids.padded(0, "left"), batch_size=(2,))
    data["masks", "all_attention_mask"] = rendered.ids.mask("left")
    transform = RetrieveKL(**pair(input_mode=mode), assistant_only=False)
    torch.testing.assert_close(penalty_of(transform, data), expected(masked=False), rtol=1e-5, atol=1e-5)


def test_log_prob_keys() -> None:
    after = RetrieveKL(**pair())(conversations())["next"]
    torch.testing.assert_close(after["log_probs", "full"], left(plain(0)), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(after["ref_log_probs", "full"], left(plain(1)), rtol=1e-5, atol=1e-5)
    own = RetrieveKL(
        **pair(), gen_log_probs_full_key="p", ref_log_probs_full_key=("a", "q"), kl_key=("a", "kl")
    )
    data = own(conversations())["next"]
    assert torch.equal(data["p"], after["log_probs", "full"])
    assert torch.equal(data["a", "q"], after["ref_log_probs", "full"])
    assert torch.equal(data["a", "kl"], after["kl_penalty"])


def test_fault_3_ragged_samples_with_default_keys() -> None:
    after = RetrieveKL(**pair(pad_output=False))(conversations(torch.zeros(2, 1)))["next"]
    for key, wanted in (
        (("log_probs", "full"), plain(0)),
        (("ref_log_probs", "full"), plain(1)),
        ("kl_penalty", [p - q for p, q in zip(plain(0), plain(1), strict=True)]),
    ):
        rows = rows_at(after, key)
        assert isinstance(rows, list)
        for row, want in zip(rows, wanted, strict=True):
            torch.testing.assert_close(row, want, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(after["reward"], -expected().sum(-1, keepdim=True), rtol=1e-5, atol=1e-5)


def test_fault_4_keywords_have_an_effect() -> None:
    data = conversations()
    data["chat"] = data["history"]
    del data["history"]
    torch.testing.assert_close(
        penalty_of(RetrieveKL(**pair(), history_key="chat"), data), expected(), rtol=1e-5, atol=1e-5
    )
    right = penalty_of(RetrieveKL(**pair(), padding_side="right"))
    rows = [p - q for p, q in zip(plain(0), plain(1), strict=True)]
    for k, row in enumerate(rows):
        torch.testing.assert_close(right[k, : len(row)], row, rtol=1e-5, atol=1e-5)
    keywords = {"max_length": 12, "truncation_side": "left", "return_tensors": "pt", "padding": True}
    before = dict(keywords)
    cut = penalty_of(RetrieveKL(**pair(), tokenizer_kwargs=keywords))
    assert keywords == before
    assert cut.shape == (2, 12)
    named = penalty_of(RetrieveKL(**pair(), tokenizer_kwargs={"chat_template_name": "llama"}))
    assert named.shape != expected().shape
    other = tiny_tokenizer()
    other.add_tokens(["the weather"])
    swapped = penalty_of(RetrieveKL(**pair(), tokenizer=other))
    assert swapped.shape[1] != expected().shape[1]


def test_fault_1_detach() -> None:
    assert not penalty_of(RetrieveKL(**pair())).requires_grad
    policy, reference = wrapped(0), wrapped(1)
    for each in (policy, reference):
        each.model.zero_grad()
    transform = RetrieveKL(policy, reference, detach=False, estimator="k2")
    penalty_of(transform).sum().backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is None for parameter in reference.model.parameters())
    assert any(
        parameter.grad is not None and bool(parameter.grad.any()) for parameter in policy.model.parameters()
    )
    policy.model.zero_grad()


def test_fault_12_models_in_train_mode() -> None:
    noisy = tiny_model("gpt2", tokenizer(), resid_pdrop=0.5, embd_pdrop=0.5).train()

    def of(key: str) -> TransformersWrapper:
        return TransformersWrapper(
            noisy, tokenizer=tokenizer(), generate=False, pad_output=True, log_probs_key=key
        )

    with pytest.warns(UserWarning, match="ref_model has the weights of gen_model"):
        transform = RetrieveKL(of("p"), of("q"))
    assert not penalty_of(transform).any()
    assert noisy.training


def test_device() -> None:
    assert penalty_of(RetrieveKL(**pair(), device="cpu")).device.type == "cpu"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_device_of_models_and_of_results() -> None:
    policy, reference = (
        TransformersWrapper(
            tiny_model("llama", tokenizer(), seed=seed),
            tokenizer=tokenizer(),
            generate=False,
            pad_output=True,
            log_probs_key=f"log_probs_{seed}",
        )
        for seed in (0, 1)
    )
    kl = penalty_of(RetrieveKL(policy, reference, device="cuda"))
    assert next(policy.model.parameters()).is_cuda
    assert kl.device.type == "cpu"
    torch.testing.assert_close(kl, expected(), rtol=1e-4, atol=1e-4)


def test_tokens_that_were_sampled_are_not_made_again_from_text() -> None:
    data = conversations()
    letters = [[i for c in "Hello" for i in tokenizer()(c)["input_ids"]] for _ in CHATS]
    ids = torch.tensor(letters)
    data["tokens"] = Tokens(full=ids, batch_size=(2,))
    data["masks", "all_attention_mask"] = torch.ones_like(ids, dtype=torch.bool)
    data["masks", "all_assistant_mask"] = torch.tensor([[False, True, True, False, True]] * 2)
    kl = penalty_of(RetrieveKL(**pair()), data)
    assert kl.shape == ids.shape
    assert torch.equal(kl != 0, data["masks", "all_assistant_mask"])


def test_rendering_happens_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(*args: Any, **keywords: Any) -> Any:
        calls.append(args)
        return render_batch(*args, **keywords)

    monkeypatch.setattr("specgen_runtime.llm.models.inputs.render_batch", counted)
    RetrieveKL(**pair())(conversations())
    assert len(calls) == 1


def test_a_row_without_an_answer() -> None:
    data = conversations()
    data["history"] = ChatHistory(full=[CHATS[0], CHATS[1][:1]], batch_size=(2,))
    with pytest.raises(ValueError, match=r"row 1 \(\d+ tokens\) has no token of the assistant"):
        penalty_of(RetrieveKL(**pair()), data)
    kl = penalty_of(RetrieveKL(**pair(), empty="zero"), data)
    assert kl[0].any()
    assert not kl[1].any()


# ------------------------------------------------------------------- reward


@pytest.mark.parametrize("coeff", [1.0, 0.3])
@pytest.mark.parametrize("level", ["conversation", "token"])
def test_fault_2_add_to_reward(level: str, coeff: float) -> None:
    width = expected().shape[1]
    shape = (2, 1) if level == "conversation" else (2, width, 1)
    reward = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    after = RetrieveKL(**pair(), coeff=coeff)(conversations(reward.clone()))["next"]
    kl = after["kl_penalty"]
    wanted = reward - coeff * (kl.sum(-1, keepdim=True) if level == "conversation" else kl[..., None])
    torch.testing.assert_close(after["reward"], wanted)
    kept = RetrieveKL(**pair(), coeff=coeff, add_to_reward=False)(conversations(reward.clone()))[
        "next", "reward"
    ]
    assert torch.equal(kept, reward)


def test_one_reward_becomes_one_for_each_token() -> None:
    after = RetrieveKL(**pair(), coeff=0.5, spread="tokens")(conversations(torch.tensor([[3.0], [5.0]])))[
        "next"
    ]
    kl, reward = after["kl_penalty"], after["reward"][..., 0]
    bare = reward + 0.5 * kl
    for row, value in enumerate((3.0, 5.0)):
        last = int(left(plain(0))[row].nonzero().max())
        assert bare[row, last].item() == pytest.approx(value)
        assert bare[row].sum().item() == pytest.approx(value)


def test_rewards_of_another_shape_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"the reward is \[2, 3\]: neither .* \[2, 1\] or \[2, 1, 1\], nor .* \[2, \d+, 1\]"
    ):
        RetrieveKL(**pair())(conversations(torch.zeros(2, 3)))


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3", "k3+", "abs", "k3_is"])
def test_estimators(estimator: Any) -> None:
    kl = penalty_of(RetrieveKL(**pair(), estimator=estimator))
    wanted = kl_estimate(expected(), estimator, log_probs=left(plain(0)))
    torch.testing.assert_close(kl, wanted, rtol=1e-4, atol=1e-5)


def test_metrics_and_an_adaptive_coefficient() -> None:
    transform = RetrieveKL(**pair(), target_kl=1e-3, horizon=10.0, estimator="k3", bound=1.0)
    kl = penalty_of(transform)
    scored = left(plain(0)) != 0
    metrics = transform.penalty.metrics
    torch.testing.assert_close(metrics["kl"], kl[scored].mean())
    torch.testing.assert_close(metrics["kl_max"], kl[scored].max())
    torch.testing.assert_close(metrics["kl_clipped"], (expected()[scored].abs() > 1).float().mean())
    assert float(transform.penalty.coeff) == pytest.approx(1 + 0.2 * 2 / 10)  # far above its target
    assert "coeff" in transform.penalty.state_dict()
    assert len(transform.state_dict()) == 1  # and nothing of the models


def test_log_probs_that_are_not_finite() -> None:
    broken = tiny_model("llama", tokenizer())
    broken.get_input_embeddings().weight.data[tokenizer()("42")["input_ids"][0]] = float("nan")  # type: ignore[operator]
    reference = TransformersWrapper(
        broken, tokenizer=tokenizer(), generate=False, pad_output=True, log_probs_key="r"
    )
    with pytest.raises(ValueError, match=r"the reference gives row 1, token \d+ a log-probability of nan"):
        RetrieveKL(wrapped(0), reference)(conversations())


# ------------------------------------------------------------ further forms


def test_data_without_next() -> None:
    data = RetrieveKL(**pair(), coeff=2.0)(conversations(torch.zeros(2, 1), after=False))
    torch.testing.assert_close(data["kl_penalty"], expected(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(data["reward"], -2.0 * data["kl_penalty"].sum(-1, keepdim=True))


def test_the_documented_example() -> None:
    data = conversations()
    result = RetrieveKL(**pair(), assistant_only=True, tokenizer=tokenizer())(data)
    assert result is data
    assert result["next"].get("kl_penalty").shape == torch.Size([2, 21])


def test_it_is_a_chain() -> None:
    transform = RetrieveKL(**pair())
    transform.append(lambda data: data)
    assert len(transform) == 2
    transform.pop()
    assert transform.container is None
    again = pickle.loads(pickle.dumps(transform))
    assert torch.equal(penalty_of(again), penalty_of(transform))


@pytest.mark.parametrize(
    ("create", "given", "meant"),
    [
        (lambda **given: RetrieveKL(**pair(), **given), "coef", "coeff"),
        (lambda **given: RetrieveKL(**pair(), **given), "estimater", "estimator"),
        (lambda **given: KLRewardTransform(wrapped(1), **given), "coeff", "coef"),
        (lambda **given: KLRewardTransform(wrapped(1), **given), "num_gpu", "num_gpus"),
        (KLComputation, "coef", "coeff"),
    ],
)
def test_keywords_that_are_none(create: Any, given: str, meant: str) -> None:
    with pytest.raises(
        TypeError,
        match=rf"^(RetrieveKL|KLRewardTransform|KLComputation) has no keyword '{given}'.*'{meant}'\?$",
    ):
        create(**{given: 1})
