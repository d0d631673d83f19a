"""Keywords of tokenizers, as users of TorchRL and transformers give them to wrappers: each has an effect, or is an error."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.llm import ChatHistory, RetrieveKL, Text, TransformersWrapper, as_rows
from tensordict import TensorDict
from torch import Tensor

from tests.llm.conversations import CHATS, conversations, model, pair, tokenizer, wrapped
from tests.llm.models import CHATML, tiny_tokenizer

USUAL = {"padding": True, "padding_side": "left", "return_tensors": "pt"}
"""What TorchRL's examples and tests give."""

THINKS = CHATML + "{% if enable_thinking is defined and enable_thinking is false %}{{ '42' }}{% endif %}"


def texts() -> TensorDict:
    return TensorDict(
        text=Text(full=as_rows(["Hello, how are you?", "a"], [2]), batch_size=[2]), batch_size=[2]
    )


def scores(data: TensorDict, **given: Any) -> Tensor:
    with torch.no_grad():
        found: Tensor = wrapped(0, **given)(data)["log_probs_0", "full"]
    return found


def test_padding_is_no_token() -> None:
    """A tokenizer that is told to pad makes tokens of padding, which was scored in texts."""
    plain = scores(texts(), input_mode="text")
    assert plain.shape == (2, 8)
    assert not plain[1].any(), "one token alone has no log-probability"
    assert torch.equal(scores(texts(), input_mode="text", tokenizer_kwargs=USUAL), plain)
    of_chats = scores(conversations(after=False))
    assert torch.equal(scores(conversations(after=False), tokenizer_kwargs=USUAL), of_chats)
    right = scores(conversations(after=False), tokenizer_kwargs={**USUAL, "padding_side": "right"})
    assert torch.equal(right, scores(conversations(after=False), padding_side="right"))
    wide = scores(texts(), input_mode="text", tokenizer_kwargs={"padding": "max_length", "max_length": 9})
    assert torch.equal(wide[:, 1:], plain)


@pytest.mark.parametrize("mode", ["text", "history"])
def test_cut(mode: Any) -> None:
    data = texts() if mode == "text" else conversations(after=False)
    width = scores(data.copy(), input_mode=mode).shape[1]
    cut = {"max_length": 5, "truncation": True}
    assert scores(data.copy(), input_mode=mode, tokenizer_kwargs=cut).shape == (2, 5)
    whole = {"max_length": 5, "truncation": False}
    assert scores(data.copy(), input_mode=mode, tokenizer_kwargs=whole).shape == (2, width)
    ends = {"max_length": 5, "truncation_side": "left"}
    scored = wrapped(0, input_mode=mode, tokenizer_kwargs=ends)
    longer = scored.get_new_version(max_length=6)(data.copy())["tokens", "full"]
    assert torch.equal(longer[:, 1:][0], scored(data.copy())["tokens", "full"][0])


def test_variables_of_the_template() -> None:
    tokens = tiny_tokenizer(THINKS)
    options: dict[str, Any] = {"tokenizer": tokens, "generate": False, "pad_output": True}

    def made(**given: Any) -> list[int]:
        wrapper = TransformersWrapper(model(0), tokenizer_kwargs=given, **options)
        row: Tensor = wrapper(conversations(after=False))["tokens", "full"][0]
        return row.tolist()

    said = made(enable_thinking=False)
    assert said[-len(made()) :] != made()
    assert tokens.decode(said).endswith("42")
    assert made(variables={"enable_thinking": False}) == said
    kl = RetrieveKL(
        TransformersWrapper(model(0), **options),
        TransformersWrapper(model(1), log_probs_key="ref", **options),
        tokenizer_kwargs={"enable_thinking": False},
    )
    assert kl(conversations())["next", "kl_penalty"].shape == (2, len(said))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_lenght": 5}, "the chat template reads no 'max_lenght'; did you mean 'max_length'"),
        ({"enable_thinking": False}, "the chat template reads no 'enable_thinking'"),
        ({"return_tensors": "np"}, "return_tensors is 'pt' here, got 'np'"),
        ({"tokenize": False}, "tokenize is True here, got False"),
        ({"add_generation_prompt": True}, "add_generation_prompt is False here, where whole conversations"),
    ],
)
def test_what_has_no_effect_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        wrapped(0, tokenizer_kwargs=given)
    if "add_generation_prompt" in given:
        with pytest.raises(ValueError, match="add_generation_prompt is True here, where prompts are read"):
            wrapped(0, generate=True, tokenizer_kwargs={"add_generation_prompt": False})


def test_the_side_of_a_penalty_beside_keywords() -> None:
    """Keywords that say nothing of the side leave it."""
    right = RetrieveKL(**pair(), padding_side="right")(conversations())["next", "kl_penalty"]
    beside = RetrieveKL(**pair(), padding_side="right", tokenizer_kwargs={"max_length": 64})
    assert torch.equal(beside(conversations())["next", "kl_penalty"], right)
    assert len(tokenizer().apply_chat_template(CHATS[1], return_dict=False)) == right.shape[1]


@pytest.mark.parametrize("mode", ["text", "history"])
def test_prompts_keep_their_end(mode: Any) -> None:
    """An answer follows it; without it the model would not know that it is to answer."""
    chat = [{"role": "user", "content": "Hello, how are you? " * 9}]
    prompt = tokenizer().apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    data = TensorDict(
        history=ChatHistory(prompt=[chat]),
        text=Text(prompt=as_rows([prompt], [1]), batch_size=[1]),
        batch_size=[1],
    )
    options: dict[str, Any] = {"generate": True, "input_mode": mode, "generate_kwargs": {"max_new_tokens": 1}}
    whole = wrapped(0, **options)(data.copy())["tokens", "prompt"]
    cut = wrapped(0, max_length=7, **options)(data.copy())["tokens", "prompt"]
    assert torch.equal(cut, whole[:, -7:])
    asked = wrapped(0, tokenizer_kwargs={"max_length": 7, "truncation_side": "right"}, **options)
    assert torch.equal(asked(data.copy())["tokens", "prompt"], whole[:, :7])


@pytest.mark.parametrize("side", ["left", "right"])
def test_prompts_that_go_on_from_sampled_tokens_are_cut(side: str) -> None:
    """The tokens of the turns before are in the data, and longer than what the model is to read."""
    asked = [{"role": "user", "content": "Hello"}]
    answer = {"role": "assistant", "content": "the answer"}
    text = tokenizer().apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    before = torch.tensor([tokenizer().encode(text + "the answer<|im_end|>")])
    history = ChatHistory(prompt=[[*asked, answer, *asked]])
    data = TensorDict(history=history, tokens=TensorDict(full=before, batch_size=[1]), batch_size=[1])
    options: dict[str, Any] = {"generate": True, "generate_kwargs": {"max_new_tokens": 1}}
    options["tokenizer_kwargs"] = {"truncation_side": side}
    whole = wrapped(0, **options)(data.copy())["tokens", "prompt"]
    assert torch.equal(whole[:, : before.shape[1]], before)
    cut = wrapped(0, max_length=9, **options)(data.copy())["tokens", "prompt"]
    assert torch.equal(cut, whole[:, -9:] if side == "left" else whole[:, :9])
