"""Models of `models:`: the generated functions load what is declared, with its settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.llm import TransformersWrapper, chats_of

from tests.llm.models import CHATML, tiny_model, tiny_tokenizer
from tests.llm.test_wrapper import CHATS, PROMPTS, of_chats
from tests.support import generate, imported

SCHEMA = """
specgen: 1
models:
  policy:
    causal_lm: {{path: {folder}/policy, attention: eager}}
    generate: {{max_new_tokens: 3, temperature: 0.5, top_k: 20, stop: ["<s>"]}}
    pad_output: true
    pad_to: 64
  reference:
    like: policy
    causal_lm: {{path: {folder}/reference, dtype: bfloat16}}
    padding_side: right
    template: {folder}/plain.jinja
    log_probs_key: ref.log_probs
    frozen: true
  made:
    causal_lm: {{factory: "models_made_here:make"}}
    tokenizer: {folder}/policy
    template: chatml_format
    input: text
    frozen: true
"""

FACTORY = """
from tests.llm.models import tiny_model, tiny_tokenizer

def make():
    return tiny_model("gpt2", tiny_tokenizer(), seed=7)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for seed, name in enumerate(("policy", "reference")):
        model: Any = tiny_model("llama", tiny_tokenizer(), seed=seed)
        model.generation_config.update(do_sample=True, temperature=0.9, top_p=0.8, repetition_penalty=1.1)
        model.save_pretrained(folder / name)
    tiny_tokenizer().save_pretrained(folder / "policy")  # the reference has that of the model that it is like
    (folder / "plain.jinja").write_text(CHATML.replace("<|im_start|>", ""), encoding="utf-8")
    (folder / "models_made_here.py").write_text(FACTORY, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def made(folder: Path) -> Any:
    files = generate({"language.yaml": SCHEMA.format(folder=folder)}, "declared")
    with imported(files, "declared", folder):
        yield __import__("declared.language", fromlist=["policy_model"])


def test_a_model_scores_as_one_that_is_loaded_by_hand(made: Any, folder: Path) -> None:
    by_hand = TransformersWrapper.from_pretrained(
        str(folder / "policy"),
        attention="eager",
        generate=False,
        generate_kwargs={"temperature": 0.5, "top_k": 20},
        pad_output=True,
        pad_to=64,
    )
    policy = made.policy_model(generate=False)
    found = policy(of_chats(CHATS))["log_probs", "full"]
    assert found.shape == (3, 64)
    torch.testing.assert_close(found, by_hand(of_chats(CHATS))["log_probs", "full"])
    assert all(parameter.requires_grad for parameter in policy.parameters())


def test_a_policy_answers(made: Any) -> None:
    data = made.policy_model()(of_chats(PROMPTS, "prompt"))
    assert data["tokens", "full"].shape == (3, 64)
    assert bool((data["log_probs", "response"] <= 0).all())
    chats = chats_of(data.get(("history", "full")))
    assert [chat[:-1] for chat in chats] == PROMPTS
    assert made.policy_model().settings.stop == (
        4,
        1,
    )  # the end token of the model, and that of the declaration


def test_a_model_that_is_like_another_one(made: Any) -> None:
    reference = made.reference_model()
    assert next(reference.parameters()).dtype == torch.bfloat16
    assert not any(parameter.requires_grad for parameter in reference.parameters())
    assert reference.padding_side == "right"
    assert reference.settings.warp == made.policy_model().settings.warp
    found = reference(of_chats(CHATS))
    assert found["ref", "log_probs", "full"].shape == (3, 64)
    text = reference.tokenizer.decode(found["tokens", "full"][0])
    assert text.startswith("user\nHello, how are you?<|im_end|>")


def test_a_model_that_a_factory_makes(made: Any) -> None:
    wrapped = made.made_model()
    assert wrapped.input_mode == "text"
    assert wrapped.model.config.model_type == "gpt2"
    assert not any(parameter.requires_grad for parameter in wrapped.parameters())
