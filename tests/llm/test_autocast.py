"""Language models in bfloat16 around parameters in float32: sampled, scored and trained, by hand and declared."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.llm import RetrieveKL, TransformersWrapper
from specgen_runtime.llm.models.autocast import autocasting
from specgen_runtime.llm.models.head import HeadScorer, LogitsScorer
from specgen_runtime.training import read_log
from tensordict import TensorDict
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.llm.conversations import conversations, tokenizer
from tests.llm.letters import FUNCTIONS, SCHEMA, training_module
from tests.llm.models import FAMILIES, tiny_model
from tests.llm.test_declared_pipeline import ASKED, OTHERS, PIPELINE

LOW = torch.bfloat16
ROUNDING = 2**-7
"""By how much log-probabilities of one token may differ, as a part of the largest one: twice the rounding of bfloat16."""


def policy(model: Any, **given: Any) -> TransformersWrapper:
    options = {"max_new_tokens": 24, "do_sample": True, "temperature": 0.8}
    given = {"autocast": LOW, "input_mode": "text", "return_log_probs": True, "pad_output": True, **given}
    return TransformersWrapper(model, tokenizer=tokenizer(), generate_kwargs=options, **given)


def answered(acting: TransformersWrapper) -> tuple[TensorDict, Tensor]:
    """Answers to prompts of several lengths, and which of the tokens are theirs."""
    prompts = ["Hello", "What's the weather?", "the answer is", "I'm well! How are you?"] * 4
    data = TensorDict({"text": TensorDict({}, [16])}, [16])
    data["text", "prompt"] = prompts
    torch.manual_seed(0)
    made = acting(data)
    return made, made["masks", "all_assistant_mask"]


@pytest.mark.parametrize(
    ("family", "attention"),
    [*((family, "eager") for family in FAMILIES), *((family, "sdpa") for family in FAMILIES[:-1])],
)
def test_tokens_are_scored_as_they_were_sampled(family: str, attention: str) -> None:
    """The order of sums differs, which attention alone can tell; float32 would be off by several times as much."""
    acting = policy(tiny_model(family, tokenizer(), attention=attention))
    data, said = answered(acting)
    sampled = data["log_probs", "full"][said]
    assert sampled.dtype == torch.float32

    def off(**given: Any) -> Tensor:
        scoring = acting.get_new_version(generate=False, input_mode="tokens", **given)
        with torch.no_grad():
            found = scoring(data.copy())["log_probs", "full"]
        assert found.dtype == torch.float32
        off_by: Tensor = (found[said] - sampled).abs()
        return off_by

    exact = off(autocast=None)
    for given in ({}, {"pad_model_input": False}, {"max_tokens": 64}):
        found = off(**given)
        assert found.max() <= ROUNDING * sampled.abs().max(), given
        assert found.mean() < exact.mean() / 4, given


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_the_head_is_in_float32_and_layers_are_in_bfloat16(family: str) -> None:
    model: Any = tiny_model(family, tokenizer())
    acting = policy(model)
    with Products(model.config.vocab_size) as sampling:
        data, _ = answered(acting)
    scoring = acting.get_new_version(generate=False, input_mode="tokens")
    _ = scoring.scorer  # whose probe is in float32
    with Products(model.config.vocab_size) as scored:
        scoring(data)
    for products in (sampling, scored):
        assert products.of_head == {torch.float32}
        assert products.of_layers == {LOW}


@pytest.mark.parametrize("checkpointing", [False, True])
def test_gradients_are_of_float32_parameters(checkpointing: bool) -> None:
    model: Any = tiny_model("llama", tokenizer())
    data, said = answered(policy(model))
    if checkpointing:
        model.gradient_checkpointing_enable()
    gradients = []
    for autocast in (LOW, None):
        model.zero_grad()
        scoring = policy(model, generate=False, input_mode="tokens", autocast=autocast)
        scoring(data.copy())["log_probs", "full"][said].mean().backward()
        assert {one.grad.dtype for one in model.parameters()} == {torch.float32}
        gradients.append(torch.cat([one.grad.flatten() for one in model.parameters()]))
    low, exact = gradients
    assert not torch.equal(low, exact)
    assert torch.cosine_similarity(low, exact, 0) > 0.995
    torch.testing.assert_close(low.norm(), exact.norm(), rtol=0.05, atol=0)


def test_models_that_are_called_as_a_whole_score_the_same() -> None:
    model = tiny_model("llama", tokenizer())
    acting = policy(model)
    data, _ = answered(acting)
    scoring = acting.get_new_version(generate=False, input_mode="tokens")
    with torch.no_grad():
        expected = scoring(data.copy())["log_probs", "full"]
        assert isinstance(scoring.scorer, HeadScorer)
        model.register_forward_hook(lambda *_: None)
        scoring = policy(model, generate=False, input_mode="tokens")
        with pytest.warns(UserWarning, match="all logits of scored columns"):
            found = scoring(data.copy())["log_probs", "full"]
    assert isinstance(scoring.scorer, LogitsScorer)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_a_policy_has_no_distance_to_a_reference_of_its_weights() -> None:
    options: dict[str, Any] = {"generate": False, "input_mode": "history"}
    gen, ref = (
        policy(tiny_model("llama", tokenizer()), **options, log_probs_key=key)
        for key in ("log_probs", "ref_log_probs")
    )
    for estimator in ("k3", "full"):
        data = RetrieveKL(gen_model=gen, ref_model=ref, estimator=estimator)(conversations())
        assert not data["next", "kl_penalty"].any()
        assert data["next", "ref_log_probs", "full"].any()


def test_heads_are_as_before_when_the_last_call_has_ended() -> None:
    model: Any = tiny_model("gpt2", tokenizer())
    head = model.lm_head
    states = torch.randn(2, 16, dtype=LOW)
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with autocasting(model, head, LOW):
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    with autocasting(model, head, LOW):
        thread.start()
        assert entered.wait(60)
        assert head(states).dtype == torch.float32
    with torch.autocast("cpu", dtype=LOW):
        assert head(states).dtype == torch.float32
    with pytest.raises(RuntimeError), autocasting(model, head, LOW):
        head(states[:, :3])
    leave.set()
    thread.join()
    with torch.autocast("cpu", dtype=LOW):
        assert head(states).dtype == LOW
    assert "forward" not in vars(head)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The module of a pipeline in bfloat16, in the folder of its project."""
    schema = SCHEMA.replace("import: [", "import: [specgen_std/losses/grpo, ").replace("\nchains:", ASKED)
    project = tmp_path_factory.mktemp("letters")
    with training_module(
        project, f"{schema}{PIPELINE}    precision: bfloat16\n", FUNCTIONS + OTHERS
    ) as module:
        yield module


def test_a_declared_training_whose_reward_rises(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(made, "draw_curve", lambda folder, **_: None)
    config = made.ChatGRPOConfig(seed=2, lr=2e-2, total_frames=288)
    parts = made.ChatGRPO(config)
    assert parts.actor_network.autocast == parts.reference_model.autocast == LOW
    batch = next(iter(parts.collector))
    assert not batch["next", "kl_penalty"].any(), "the policy begins as the reference"
    batch["advantage"] = made.group_advantage(batch["next", "reward"], batch["group"])
    said = batch["masks", "all_assistant_mask"]
    found = parts.loss(batch.reshape(-1))
    with Products(parts.actor_network.model.config.vocab_size) as products:  # its probe, in float32, is over
        parts.loss(batch.reshape(-1))
    assert (products.of_head, products.of_layers) == ({torch.float32}, {LOW})
    assert {value.dtype for value in found.values()} == {torch.float32}
    assert abs(float(found["kl_approx"])) <= ROUNDING * float(batch["log_probs", "full"][said].abs().max())
    trained = made.train(config, folder=tmp_path / "run")
    assert {one.dtype for one in trained.actor_network.model.parameters()} == {torch.float32}
    log = read_log(tmp_path / "run" / "log.csv")
    assert log[-1]["share"] > log[0]["share"] + 0.1
    assert log[-1]["kl_penalty"] > log[0]["kl_penalty"] > 0


class Products(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Takes down the dtypes of products of layers, and of those that give logits.

    Args:
        vocabulary: how many logits there are.
    """

    def __init__(self, vocabulary: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.vocabulary = vocabulary
        self.of_head: set[torch.dtype] = set()
        self.of_layers: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in ("mm", "addmm", "linear"):
            (self.of_head if made.shape[-1] == self.vocabulary else self.of_layers).add(made.dtype)
        return made
