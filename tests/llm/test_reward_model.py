"""`RewardModel`: a classifier of conversations as a reward function."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.llm import ChatEnv, RewardModel
from torch import nn

from tests.llm.models import tiny_tokenizer
from tests.llm.test_chat_env import say

transformers = pytest.importorskip("transformers")

CHATS: list[Any] = [
    [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello, how are you?"}],
    [{"role": "user", "content": "What's the weather?"}, {"role": "assistant", "content": ""}],
    [{"role": "assistant", "content": "42 " * 9}],
]


def classifier(tokenizer: Any, labels: int = 1) -> nn.Module:
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        initializer_range=0.4,
        pad_token_id=tokenizer.pad_token_id,
        num_labels=labels,
        attention_dropout=0.5,
    )
    torch.manual_seed(0)
    model: nn.Module = transformers.LlamaForSequenceClassification(config).train()
    return model


@pytest.mark.parametrize("batch_size", [1, 2, 32])
def test_equals_one_conversation_at_a_time(batch_size: int) -> None:
    tokenizer = tiny_tokenizer()
    model = classifier(tokenizer)
    found = RewardModel(model, tokenizer, batch_size=batch_size)(CHATS, [{}] * 3)
    assert model.training, "it gets back its mode"
    model.eval()
    for chat, value in zip(CHATS, found, strict=True):
        ids = tokenizer.apply_chat_template(chat, tokenize=True, return_tensors="pt", return_dict=True)[
            "input_ids"
        ]
        with torch.no_grad():
            expected = model(input_ids=ids).logits[0, 0]
        torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-5)
    assert not found.requires_grad
    assert found.shape == (3,)


class Lengths(nn.Module):
    """A model of one's own, without a configuration."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.scale * attention_mask.sum(-1)


def test_padding_is_that_of_the_model() -> None:
    """Classifiers find the last token by their own id of padding, whatever the tokenizer's is."""
    tokenizer = tiny_tokenizer()
    model: Any = classifier(tokenizer)
    alone = torch.cat([RewardModel(model, tokenizer)([chat], [{}]) for chat in CHATS])
    for pad in (0, 1, 2):
        model.config.pad_token_id = pad
        torch.testing.assert_close(
            RewardModel(model, tokenizer)(CHATS, [{}] * 3), alone, rtol=1e-5, atol=1e-5
        )
    model.config.pad_token_id = 1
    assert RewardModel(model, tiny_tokenizer(pad=None))(CHATS, [{}] * 3).shape == (3,)
    lengths = RewardModel(Lengths(), tokenizer)(CHATS, [{}] * 3)
    assert lengths.tolist() == [len(tokenizer.apply_chat_template(chat, return_dict=False)) for chat in CHATS]
    assert RewardModel(model, tokenizer)([], []).shape == (0,)


def test_layers_in_a_lower_precision() -> None:
    """The layers run in bfloat16, and what makes the number of them in the dtype of its parameters."""
    tokenizer = tiny_tokenizer()
    model: Any = classifier(tokenizer)
    exact = RewardModel(model, tokenizer)(CHATS, [{}] * 3)
    seen: list[tuple[str, torch.dtype]] = []
    for name, module in (("layer", model.model.layers[1].mlp.down_proj), ("score", model.score)):
        module.register_forward_hook(lambda module, inputs, made, name=name: seen.append((name, made.dtype)))
    found = RewardModel(model, tokenizer, autocast=torch.bfloat16)(CHATS, [{}] * 3)
    assert seen == [("layer", torch.bfloat16), ("score", torch.float32)]
    assert found.dtype == torch.float32
    assert not torch.equal(found, found.bfloat16().float()), "no number of 8 binary digits"
    torch.testing.assert_close(found, exact, rtol=0.05, atol=0.05 * float(exact.abs().max()))
    assert {one.dtype for one in model.parameters()} == {torch.float32}
    assert not hasattr(model.score.forward, "own"), "the model is as it was"
    seen.clear()
    assert torch.equal(RewardModel(model, tokenizer)(CHATS, [{}] * 3), exact)
    assert {dtype for _, dtype in seen} == {torch.float32}


def test_long_conversations_lose_their_beginning() -> None:
    tokenizer = tiny_tokenizer()
    model = classifier(tokenizer).eval()
    found = RewardModel(model, tokenizer, max_length=7)(CHATS[:1], [{}])
    ids = tokenizer.apply_chat_template(CHATS[0], tokenize=True, return_dict=True)["input_ids"][-7:]
    with torch.no_grad():
        expected = model(input_ids=torch.tensor([ids])).logits[0]
    torch.testing.assert_close(found, expected)


def test_in_an_environment() -> None:
    tokenizer = tiny_tokenizer()
    reward = RewardModel(classifier(tokenizer), tokenizer)
    env = ChatEnv(["Hello", "What's the weather?"], reward=reward, group=2)
    step = env.step(say("42")(env.reset()))
    chats = step.get(("history", "full")).tolist()
    torch.testing.assert_close(step["next", "reward"].flatten(), reward(chats, [{}] * 2))
    assert not list(env.parameters()), "the model is not a part of the environment"


def test_refusals() -> None:
    tokenizer = tiny_tokenizer()
    with pytest.raises(TypeError, match="a reward model reads input_ids; Linear does not"):
        RewardModel(nn.Linear(1, 1), tokenizer)
    with pytest.raises(ValueError, match=r"need a token for padding: tokenizer.pad_token = "):
        RewardModel(Lengths(), tiny_tokenizer(pad=None))
    silent: Any = classifier(tokenizer)
    silent.config.pad_token_id = None
    with pytest.raises(ValueError, match=r"need a token for padding: model.config.pad_token_id = "):
        RewardModel(silent, tokenizer)
    with pytest.raises(ValueError, match="batch_size is at least 1, got 0"):
        RewardModel(classifier(tokenizer), tokenizer, batch_size=0)
    with pytest.raises(ValueError, match=r"one number for each of 3 conversations, got logits \[3, 2\]"):
        RewardModel(classifier(tokenizer, 2), tokenizer)(CHATS, [{}] * 3)
