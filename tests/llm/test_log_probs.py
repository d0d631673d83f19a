"""Log-probabilities of each family against plain `transformers` and `log_softmax`, with every padding and every form of a row."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import pytest
import torch
from specgen_runtime.llm import (
    ChatHistory,
    Masks,
    RetrieveLogProb,
    Tokens,
    TransformersWrapper,
    as_rows,
)
from tensordict import TensorDict
from torch import Tensor, nn

from tests.llm.models import FAMILIES, tiny_model, tiny_tokenizer

Side = Literal["left", "right"]

ROWS: dict[str, tuple[int, int]] = {
    "a prompt of one token": (1, 11),
    "an empty response": (9, 0),
    "a span that begins at token 0": (0, 7),
    "one token alone": (1, 0),
    "an answer of one token": (22, 1),
    "an answer longer than the window of some layers": (3, 19),
}
"""How many tokens are asked, and how many are answered."""

LONGEST = 12
"""Where conversations are cut."""

CHATS: list[list[dict[str, str]]] = [
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}],
    [{"role": "user", "content": "Hello, how are you?"}, {"role": "assistant", "content": "I'm well!"}],
    [
        {"role": "assistant", "content": "What's the weather?"},
        {"role": "user", "content": "42, 42, 42 and 42"},
    ],
]
"""An empty answer, one that is cut, and one that is cut where it begins."""

MASKED_FROM_THE_START = (
    "{% for message in messages %}{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{% endfor %}"
)
"""A template that writes nothing before an answer."""


@cache
def tokenizer(template: str | None = None) -> Any:
    return tiny_tokenizer() if template is None else tiny_tokenizer(template)


@cache
def model(family: str) -> nn.Module:
    return tiny_model(family, tokenizer())


def wrapped(family: str, **given: Any) -> TransformersWrapper:
    return TransformersWrapper(
        model(family), **{"tokenizer": tokenizer(), "generate": False, "pad_output": True, **given}
    )


@cache
def sequences() -> list[Tensor]:
    """The tokens of each row, the pad id among them, which is a token here."""
    generator = torch.Generator().manual_seed(5)
    made = [torch.randint(0, 300, (sum(each),), generator=generator) for each in ROWS.values()]
    made[0][3] = tokenizer().pad_token_id
    return made


def answered() -> list[Tensor]:
    return [torch.arange(asked + said) >= asked for asked, said in ROWS.values()]


@cache
def plainly(family: str) -> list[Tensor]:
    """The log-probability of each token, of one sequence at a time, by the plain model and `log_softmax`."""
    return [of_sequence(family, ids) for ids in sequences()]


@torch.no_grad()
def of_sequence(family: str, ids: Tensor) -> Tensor:
    logits = model(family)(input_ids=ids[None]).logits[0, :-1].float()
    return torch.cat([torch.zeros(1), logits.log_softmax(-1).gather(-1, ids[1:, None])[:, 0]])


def padded(rows: list[Tensor], side: Side, fill: float = 0) -> Tensor:
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=fill, padding_side=side)


def tokens(side: Side) -> TensorDict:
    """The sequences with what of them is no padding, and what was answered."""
    kept = padded([torch.ones_like(row, dtype=torch.bool) for row in sequences()], side)
    ids = padded(sequences(), side, tokenizer().pad_token_id)
    masks = Masks(
        all_attention_mask=kept, all_assistant_mask=padded(answered(), side), batch_size=[len(ROWS)]
    )
    return TensorDict(tokens=Tokens(full=ids, batch_size=[len(ROWS)]), masks=masks, batch_size=[len(ROWS)])


def rows_of(data: TensorDict, key: Any, kept: Any = ("masks", "all_attention_mask")) -> list[Tensor]:
    """The values of each row, without padding."""
    values, masks = data.get(key, as_list=True), data.get(kept, as_list=True)
    return [value[mask] for value, mask in zip(values, masks, strict=True)]


def assert_rows(found: list[Tensor], wanted: list[Tensor]) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("pad_output", [True, False], ids=["padded", "ragged"])
@pytest.mark.parametrize("packed", [False, True], ids=["apart", "packed"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", FAMILIES)
def test_tokens(family: str, side: Side, packed: bool, pad_output: bool) -> None:
    options: dict[str, Any] = {"padding_side": side, "pad_model_input": not packed, "pad_output": pad_output}
    scores = wrapped(family, input_mode="tokens", **options)
    assert scores.packs is packed, "packed is packed"
    wanted = plainly(family)
    with torch.no_grad():
        found = scores(tokens(side))
        masked = wrapped(family, assistant_only=True, input_mode="tokens", **options)(tokens(side))
    assert_rows(rows_of(found, ("log_probs", "full")), wanted)
    said = [row.where(mask, 0.0) for row, mask in zip(wanted, answered(), strict=True)]
    assert_rows(rows_of(masked, ("log_probs", "full")), said)
    if pad_output:
        whole = found["log_probs", "full"]
        torch.testing.assert_close(whole, padded(wanted, side), rtol=1e-5, atol=1e-5)
        assert not whole[~found["masks", "all_attention_mask"]].any()
    else:
        assert [len(row) for row in found.get(("log_probs", "full"), as_list=True)] == [
            sum(each) for each in ROWS.values()
        ]
    for row in found.get(("log_probs", "full"), as_list=True)[3:4]:
        assert not row.any(), "nothing precedes a token alone"


@pytest.mark.parametrize("packed", [False, True], ids=["apart", "packed"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", FAMILIES)
def test_distributions(family: str, side: Side, packed: bool) -> None:
    """What losses are given: of what was answered alone, with gradients."""
    data = tokens(side)
    dist = wrapped(family, input_mode="tokens", padding_side=side, pad_model_input=not packed).get_dist(data)
    found = dist.log_prob(data["tokens", "full"])
    said = [row.where(mask, 0.0) for row, mask in zip(plainly(family), answered(), strict=True)]
    torch.testing.assert_close(found, padded(said, side), rtol=1e-5, atol=1e-5)
    first = padded([torch.arange(sum(each)) == 0 for each in ROWS.values()], side)
    assert torch.equal(dist.mask, padded(answered(), side) & ~first), "the first token is in no mean"
    counts = [said - (asked == 0) for asked, said in ROWS.values()]
    assert dist.mask.sum(-1).tolist() == counts
    assert found.requires_grad


@pytest.mark.parametrize("packed", [False, True], ids=["apart", "packed"])
@pytest.mark.parametrize("pad_output", [True, False], ids=["padded", "ragged"])
@pytest.mark.parametrize("cut", ["left", "right"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", FAMILIES)
def test_conversations_that_are_cut(
    family: str, side: Side, cut: Side, pad_output: bool, packed: bool
) -> None:
    """By `max_length`, at either end: tokens, masks and log-probabilities are cut alike."""
    how = tokenizer(MASKED_FROM_THE_START)
    ids = [torch.tensor(how.apply_chat_template(chat, return_dict=False)) for chat in CHATS]
    keep = slice(LONGEST) if cut == "right" else slice(-LONGEST, None)
    wanted = [of_sequence(family, row[keep]) for row in ids]
    assert max(map(len, ids)) > LONGEST
    options: dict[str, Any] = {"max_length": LONGEST, "padding_side": side, "pad_output": pad_output}
    options |= {"pad_model_input": not packed, "tokenizer": how}
    scores = wrapped(family, tokenizer_kwargs={"truncation_side": cut}, **options)
    history = ChatHistory(full=as_rows(CHATS, [len(CHATS)]), batch_size=[len(CHATS)])
    data = TensorDict(history=history, batch_size=[len(CHATS)])
    with torch.no_grad():
        found = scores(data.copy())
    assert_rows(rows_of(found, ("tokens", "full")), [row[keep] for row in ids])
    assert_rows(rows_of(found, ("log_probs", "full")), wanted)
    with torch.no_grad():
        said = RetrieveLogProb(scores, empty="zero")(data.copy())
    masks = rows_of(found, ("masks", "all_assistant_mask"))
    assert masks[2][0], "a span begins at token 0, or is cut to one that does"
    expected = [row.where(mask, 0.0) for row, mask in zip(wanted, masks, strict=True)]
    kept = found.get(("masks", "all_attention_mask"), as_list=True)
    values = said.get(("log_probs", "full"), as_list=True)
    assert_rows([value[mask] for value, mask in zip(values, kept, strict=True)], expected)


@pytest.mark.parametrize("pad_output", [True, False], ids=["padded", "ragged"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("warp", [{}, {"temperature": 0.7, "top_k": 40}, {"temperature": 1.2, "top_p": 0.9}])
def test_sampled_log_probs_equal_scored_ones(
    family: str, side: Side, pad_output: bool, warp: dict[str, Any]
) -> None:
    """Of prompts of one token, too, and of the first token of each answer."""
    how = {"max_new_tokens": 7, "do_sample": True, **warp}
    policy = wrapped(
        family,
        input_mode="tokens",
        generate=True,
        generate_kwargs=how,
        return_log_probs=True,
        padding_side=side,
        pad_output=pad_output,
    )
    asked = [row[:size] for row, size in zip(sequences()[:3], (1, 9, 4), strict=True)]
    kept = padded([torch.ones_like(row, dtype=torch.bool) for row in asked], side)
    prompts = Tokens(prompt=padded(asked, side), batch_size=[3])
    torch.manual_seed(0)
    data = policy(TensorDict(tokens=prompts, attention_mask=kept, batch_size=[3]))
    sampled = rows_of(data, ("log_probs", "full"))
    said = rows_of(data, ("masks", "all_assistant_mask"))
    given = data.select(("tokens", "full"), "masks")
    for packed in (False, True):
        with torch.no_grad():
            scores = policy.get_new_version(generate=False, pad_model_input=not packed)
            found = rows_of(scores(given.copy()), ("log_probs", "full"))
        assert_rows([row.where(mask, 0.0) for row, mask in zip(found, said, strict=True)], sampled)
    firsts = [int(mask.nonzero()[0]) for mask in said]
    assert firsts == [len(row) for row in asked]
    assert all(float(row[first]) < 0 for row, first in zip(sampled, firsts, strict=True))


def test_the_mask_of_prompts() -> None:
    """It may be where masks are, as long as no whole sequences are there, whose mask it would be."""
    how: dict[str, Any] = {"input_mode": "tokens", "generate": True, "return_log_probs": True}
    policy = wrapped("llama", **how, generate_kwargs={"max_new_tokens": 3})
    asked = [row[:size] for row, size in zip(sequences()[:2], (2, 9), strict=True)]
    kept = padded([torch.ones_like(row, dtype=torch.bool) for row in asked], "left")
    prompts = Tokens(prompt=padded(asked, "left"), batch_size=[2])
    masks = Masks(all_attention_mask=kept, batch_size=[2])
    given = TensorDict(tokens=prompts, masks=masks, batch_size=[2])
    data = policy(given.copy())
    beside = policy(TensorDict(tokens=prompts, attention_mask=kept, batch_size=[2]))
    assert data["masks", "all_attention_mask"].sum(-1).tolist() == [5, 12]
    for key in (("tokens", "full"), ("log_probs", "full"), ("masks", "all_attention_mask")):
        assert torch.equal(data[key], beside[key])
    wrong = given.copy().set(("masks", "all_attention_mask"), kept[:, 1:])
    with pytest.raises(ValueError, match=r"are \[2, 9\], their mask \[2, 8\]"):
        policy(wrong)
