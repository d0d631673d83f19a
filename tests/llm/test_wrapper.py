"""`TransformersWrapper`: what it reads and writes, scoring and generating, padded and not."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from specgen_runtime.llm import ChatHistory, History, Text, Tokens, TransformersWrapper, as_rows
from tensordict import TensorDict, TensorDictBase, is_leaf_nontensor
from torch import Tensor

from tests.llm.models import FAMILIES, tiny_model, tiny_tokenizer

CHATS: list[list[dict[str, str]]] = [
    [{"role": "user", "content": "Hello, how are you?"}, {"role": "assistant", "content": "I'm well"}],
    [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "the answer"},
        {"role": "assistant", "content": "is 42"},
    ],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}],
]
PROMPTS = [chat[:-1] for chat in CHATS]


def of_chats(chats: list[Any], part: str = "full") -> TensorDict:
    history = ChatHistory(**{part: as_rows(chats, [len(chats)])}, batch_size=[len(chats)])
    return TensorDict({"history": history}, [len(chats)])


def wrapper(family: str = "llama", **given: Any) -> TransformersWrapper:
    tokenizer = tiny_tokenizer()
    given = {"tokenizer": tokenizer, "generate": False, "pad_output": True, **given}
    return TransformersWrapper(tiny_model(family, tokenizer), **given)


def expected_log_probs(
    model: Any, tokenizer: Any, chats: list[Any], temperature: float = 1.0
) -> list[Tensor]:
    """Of the rendered conversations, by transformers' own template code and the plain model."""
    rows = []
    for chat in chats:
        ids = torch.tensor(tokenizer.apply_chat_template(chat, return_dict=False))
        logits = model(input_ids=ids[None]).logits[0, :-1].float() / temperature
        picked = logits.log_softmax(-1).gather(-1, ids[1:, None])[:, 0]
        rows.append(torch.cat([torch.zeros(1), picked]))
    return rows


def placed(rows: list[Tensor], side: str = "left") -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_side=side)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", FAMILIES)
def test_scores_equal_transformers(family: str, side: Any) -> None:
    wrapped = wrapper(family, padding_side=side)
    with torch.no_grad():
        expected = expected_log_probs(wrapped.model, wrapped.tokenizer, CHATS)
        data = wrapped(of_chats(CHATS))
        found = data["log_probs", "full"]
        torch.testing.assert_close(found, placed(expected, side), rtol=1e-5, atol=1e-5)
        packed = wrapper(family, pad_model_input=False, padding_side=side)(of_chats(CHATS))
        torch.testing.assert_close(packed["log_probs", "full"], found, rtol=1e-5, atol=1e-5)
        few = wrapper(family, max_batch_size=1, padding_side=side)(of_chats(CHATS))
        torch.testing.assert_close(few["log_probs", "full"], found, rtol=1e-5, atol=1e-5)
    mask = data["masks", "all_attention_mask"]
    assert mask.sum(-1).tolist() == [len(row) for row in expected]
    assert not found[~mask].any()
    for row, chat in enumerate(CHATS):
        rendered = wrapped.tokenizer.apply_chat_template(
            chat, return_dict=True, return_assistant_tokens_mask=True
        )
        assert data["tokens", "full"][row][mask[row]].tolist() == rendered["input_ids"]
        assert (
            data["masks", "all_assistant_mask"][row][mask[row]].int().tolist() == rendered["assistant_masks"]
        )
    assert set(wrapped.out_keys) <= set(data.keys(True, True))


def test_modes_agree() -> None:
    """Conversations, their texts and their tokens have the same log-probabilities, padded or not."""
    tokenizer = tiny_tokenizer()
    texts = [tokenizer.apply_chat_template(chat, tokenize=False) for chat in CHATS]
    encoded = tokenizer(texts, padding=True, return_tensors="pt")
    of_text = TensorDict({"text": Text(full=as_rows(texts, [3]), batch_size=[3])}, [3])
    tokens = Tokens(full=encoded["input_ids"], batch_size=[3])
    of_tokens = TensorDict({"tokens": tokens, "attention_mask": encoded["attention_mask"]}, [3])
    rows = [ids[mask.bool()] for ids, mask in zip(*encoded.values(), strict=True)]
    expected = expected_log_probs(wrapper().model, tokenizer, CHATS)
    for mode, data in (("history", of_chats(CHATS)), ("text", of_text), ("tokens", of_tokens)):
        with torch.no_grad():
            dense = wrapper(input_mode=mode)(data.clone())
            ragged = wrapper(input_mode=mode, pad_output=False)(data.clone())
        torch.testing.assert_close(
            dense["log_probs", "full"], placed(expected), rtol=1e-5, atol=1e-5, msg=mode
        )
        for key, wanted in ((("tokens", "full"), rows), (("log_probs", "full"), expected)):
            got = ragged.get(key, as_list=True)
            for one, other in zip(got, wanted, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
        padded = wrapper(input_mode="tokens")(ragged.select("tokens", "masks"))
        torch.testing.assert_close(padded["log_probs", "full"], placed(expected), rtol=1e-5, atol=1e-5)
        again = wrapper(input_mode="tokens", pad_output=False)(ragged.select("tokens"))
        for one, other in zip(again.get(("log_probs", "full"), as_list=True), expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_batches_of_any_shape() -> None:
    wrapped = wrapper()
    with torch.no_grad():
        flat = wrapped(of_chats(CHATS[:2] * 2))
        square = TensorDict(
            {"history": ChatHistory(full=as_rows(CHATS[:2] * 2, [2, 2]), batch_size=[2, 2])}, [2, 2]
        )
        found = wrapped(square)["log_probs", "full"]
        assert torch.equal(found.flatten(0, 1), flat["log_probs", "full"])
        ragged = wrapper(pad_output=False)(square.select("history"))
        assert torch.equal(ragged[1, 0]["log_probs", "full"], found[1, 0][found[1, 0].nonzero().min() - 1 :])
        single = wrapped(TensorDict({"history": ChatHistory(full=as_rows(CHATS[:1], []), batch_size=[])}, []))
        assert torch.equal(single["log_probs", "full"], expected_row(flat, 0))
        from_history = wrapped(TensorDict({"history": {"full": History.from_chats(CHATS[:2])}}, [2]))
        assert torch.equal(from_history["log_probs", "full"], flat["log_probs", "full"][:2])


def expected_row(data: TensorDictBase, row: int) -> Tensor:
    return data["log_probs", "full"][row][data["masks", "all_attention_mask"][row]]


@pytest.mark.parametrize("mode", ["history", "text", "tokens"])
@pytest.mark.parametrize("pad_output", [True, False])
def test_generated_answers_are_scored_the_same(mode: str, pad_output: bool) -> None:
    """Their log-probabilities, the first token's too, are those of the sampled distribution."""
    how = {"max_new_tokens": 6, "do_sample": True, "temperature": 0.7, "top_k": 50}
    policy = wrapper(
        input_mode=mode, generate=True, generate_kwargs=how, return_log_probs=True, pad_output=pad_output
    )
    data = prompts_for(mode, policy.tokenizer)
    torch.manual_seed(0)
    out = policy(data)
    assert set(policy.out_keys) <= set(out.keys(True, True, is_leaf=is_leaf_nontensor))
    rows = {
        key: out.get(key, as_list=True)
        for key in (
            ("tokens", "prompt"),
            ("tokens", "response"),
            ("tokens", "full"),
            ("log_probs", "response"),
        )
    }
    scorer = policy.get_new_version(generate=False, input_mode="tokens", log_probs_key=("again", "here"))
    with torch.no_grad():
        again = scorer(out.select("tokens", "masks"))
    for row in range(3):
        full = out["masks", "all_attention_mask"][row] if pad_output else slice(None)
        ids, told = rows["tokens", "full"][row][full], rows["log_probs", "response"][row]
        length = int(out[row]["masks", "all_assistant_mask"].sum())
        new = rows["tokens", "response"][row][:length]
        assert torch.equal(ids[-length:], new)
        scored = again.get(("again", "here", "full"), as_list=True)[row][full][-length:]
        torch.testing.assert_close(told[:length], scored, rtol=1e-5, atol=1e-5)
        assert told[0] < 0
        both = out.get(("log_probs", "full"), as_list=True)[row][full]
        assert torch.equal(both[-length:], told[:length])
        assert not both[:-length].any()
    with torch.no_grad():
        plain = wrapper(input_mode="tokens", pad_output=pad_output)(out.select("tokens", "masks"))
    differs = [
        (one[-3:] - other[-3:]).abs().max() > 1e-3
        for one, other in zip(
            plain.get(("log_probs", "full"), as_list=True),
            again.get(("again", "here", "full"), as_list=True),
            strict=True,
        )
    ]
    assert any(differs), "the temperature must matter"


def prompts_for(mode: str, tokenizer: Any) -> TensorDict:
    if mode == "history":
        return of_chats(PROMPTS, "prompt")
    texts = [
        tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) for chat in PROMPTS
    ]
    if mode == "text":
        return TensorDict({"text": Text(prompt=as_rows(texts, [3]), batch_size=[3])}, [3])
    encoded = tokenizer(texts, padding=True, return_tensors="pt")
    tokens = Tokens(prompt=encoded["input_ids"], batch_size=[3])
    return TensorDict({"tokens": tokens, "attention_mask": encoded["attention_mask"]}, [3])


def test_answers_become_messages() -> None:
    policy = wrapper(
        generate=True, generate_kwargs={"max_new_tokens": 8, "temperature": 2.0, "num_return_sequences": 6}
    )
    torch.manual_seed(0)
    out = policy(of_chats(PROMPTS, "prompt"))
    assert out.batch_size == (3, 6)
    endings = set()
    for row in range(3):
        for answer in range(6):
            one = out[row, answer]
            full = one.get(("history", "full")).tolist()
            assert full[:-1] == PROMPTS[row]
            message = full[-1]
            said = one["tokens", "response"][: int(one["masks", "all_assistant_mask"].sum())]
            complete = int(said[-1]) == policy.tokenizer.eos_token_id
            endings.add(complete)
            assert message.get("is_complete", True) is complete
            assert message["role"] == "assistant"
            assert message["content"] == policy.tokenizer.decode(said[:-1] if complete else said)
            assert one["text", "full"] == one["text", "prompt"] + one["text", "response"]
            assert one.get(("history", "response")).tolist() == [message]
    assert endings == {True, False}
    assert out["history"].full[0, 0].content[-1] == out[0, 0].get(("history", "full")).tolist()[-1]["content"]


def test_what_templates_write_before_contents_is_no_content() -> None:
    """Otherwise it would be there twice in the next prompt."""
    spaced = (
        "{%- for m in messages %}{%- if m['role'] == 'user' %}{{ '[' + m['content'] + ']' }}"
        "{%- else %}{{ ' ' + m['content'] + eos_token }}{%- endif %}{%- endfor %}"
    )
    tokenizer = tiny_tokenizer(spaced)
    policy = wrapper(tokenizer=tokenizer, generate=True)
    from specgen_runtime.llm.conversations.answers import message_of

    ids = torch.tensor(tokenizer.encode(" I'm well<|im_end|>"))
    assert message_of(ids, True, tokenizer) == {"role": "assistant", "content": "I'm well"}
    assert policy.tokenizer is tokenizer


def test_sampled_tokens_are_not_made_again_from_text() -> None:
    """An answer drawn letter by letter has other tokens than its text."""
    wrapped = wrapper()
    tokenizer = wrapped.tokenizer
    ids = [one for letter in "I'm well" for one in tokenizer.encode(letter)]
    prompt = tokenizer.apply_chat_template(PROMPTS[0], add_generation_prompt=True, return_dict=False)
    full = torch.tensor([prompt + ids])
    said = torch.arange(full.shape[1])[None] >= len(prompt)
    data = of_chats(CHATS[:1])
    data["tokens"] = {"full": full}
    data["masks"] = {"all_assistant_mask": said, "all_attention_mask": torch.ones_like(said)}
    with torch.no_grad():
        assert torch.equal(wrapped(data.clone())["tokens", "full"], full)
        rendered = wrapper(prefer_tokens=False)(data.clone())["tokens", "full"]
        assert rendered.shape[1] < full.shape[1]
        with pytest.raises(KeyError, match="prefer_tokens=True"):
            wrapper(prefer_tokens=True)(of_chats(CHATS))


@pytest.mark.parametrize("complete", [True, False])
def test_next_prompts_keep_sampled_tokens(complete: bool) -> None:
    """Turn after turn the tokens of before begin the prompt; those of another conversation don't."""
    policy = wrapper(generate=True, generate_kwargs={"max_new_tokens": 1})
    tokenizer = policy.tokenizer
    letters = [one for letter in "I'm well" for one in tokenizer.encode(letter)]
    prompt = tokenizer.apply_chat_template(PROMPTS[0], add_generation_prompt=True, return_dict=False)
    before = torch.tensor([prompt + letters + [tokenizer.eos_token_id] * complete])
    said = {"role": "assistant", "content": "I'm well"}
    more = [*PROMPTS[0], said, {"role": "user", "content": "the answer"}]
    data = of_chats([more], "prompt")
    data["tokens"] = {"full": torch.cat([torch.zeros(1, 2).long(), before], 1)}
    data["masks"] = {"all_attention_mask": torch.arange(before.shape[1] + 2)[None] >= 2}
    tail = "\n" if complete else "<|im_end|>\n"
    rest = tokenizer.encode(tail + "<|im_start|>user\nthe answer<|im_end|>\n<|im_start|>assistant\n")
    found = policy(data.clone())["tokens", "prompt"]
    assert found[0].tolist() == before[0].tolist() + rest
    rendered = policy.get_new_version(prefer_tokens=False)(data.clone())["tokens", "prompt"]
    assert rendered[0].tolist() == tokenizer.apply_chat_template(
        more, add_generation_prompt=True, return_dict=False
    )
    other = of_chats([PROMPTS[2]], "prompt").update(data.select("tokens", "masks"))
    assert policy(other)["tokens", "prompt"].shape[1] < before.shape[1]


def test_widths() -> None:
    with torch.no_grad():
        data = wrapper(pad_to=60)(of_chats(CHATS))
        assert data["log_probs", "full"].shape == data["masks", "all_assistant_mask"].shape == (3, 60)
        with pytest.raises(ValueError, match=r"row 1 has \d+ tokens"):
            wrapper(pad_to=20)(of_chats(CHATS))
        cut = wrapper(max_length=12)(of_chats(CHATS))
        whole = wrapper(padding_side="right")(of_chats(CHATS))
    assert cut["tokens", "full"].shape == (3, 12)
    for row in range(3):
        kept = cut["masks", "all_attention_mask"][row]
        torch.testing.assert_close(
            cut["log_probs", "full"][row][kept],
            whole["log_probs", "full"][row, : int(kept.sum())],
            rtol=1e-5,
            atol=1e-5,
        )


def test_new_versions_share_the_model() -> None:
    policy = wrapper(generate=True, generate_kwargs={"temperature": 0.5}, pad_output=False)
    scorer = policy.get_new_version(generate=False, return_log_probs=True, log_probs_key="x", pad_output=True)
    assert scorer.model is policy.model
    assert scorer.warp.temperature == 0.5
    assert (scorer.generate, scorer.pad_output, policy.generate) == (False, True, True)
    assert ("x", "full") in scorer.out_keys
    with torch.no_grad():
        found = scorer(of_chats(CHATS))
        expected = expected_log_probs(policy.model, policy.tokenizer, CHATS, 0.5)
    torch.testing.assert_close(found["x", "full"], placed(expected), rtol=1e-5, atol=1e-5)
    assert policy.state_dict().keys() == scorer.state_dict().keys()
    with torch.no_grad():
        for made in (copy.deepcopy(scorer), pickle.loads(pickle.dumps(scorer))):
            assert made.model is not scorer.model
            assert torch.equal(made(of_chats(CHATS))["x", "full"], found["x", "full"])


def test_where_it_writes() -> None:
    for inplace, same, kept in (
        (None, True, True),
        (True, True, True),
        (False, False, True),
        ("empty", False, False),
    ):
        data = of_chats(CHATS)
        with torch.no_grad():
            out = wrapper(inplace=inplace)(data)
        assert (out is data) is same
        assert ("history" in out) is kept
        assert ("log_probs" in data) is same
    data, target = of_chats(CHATS), TensorDict(batch_size=[3])
    with torch.no_grad():
        assert wrapper()(data, tensordict_out=target) is target
    assert "log_probs" not in data
    out = wrapper()(of_chats(CHATS))
    assert out["log_probs", "full"].requires_grad
    with torch.no_grad():
        assert torch.equal(wrapper().log_prob(of_chats(CHATS)), out["log_probs", "full"].detach())


BAD: list[tuple[dict[str, Any], str]] = [
    ({"input_mode": "words"}, "input_mode must be one of"),
    ({"tokenizer": None}, "needs a tokenizer"),
    ({"padding_side": "both"}, "padding_side"),
    ({"return_log_probs": False}, "return_log_probs must be True"),
    ({"pad_to": 5, "pad_output": False}, "pad_output=True"),
    ({"layout": torch.jagged}, "layout"),
    ({"generate": True, "pad_model_input": False}, "for scoring"),
    ({"generate": True, "num_samples": 2}, "do_sample=True"),
    ({"log_probs_of": "some"}, "log_probs_of"),
    ({"autocast": torch.float32}, "autocast is torch.bfloat16 or torch.float16"),
]


@pytest.mark.parametrize(("given", "message"), BAD)
def test_keywords_that_make_no_sense(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrapper(**given)


def test_what_is_no_model() -> None:
    what: Any = 5
    with pytest.raises(TypeError, match="model is a module of transformers, or a path, got int"):
        TransformersWrapper(what, tokenizer=tiny_tokenizer())


def test_data_that_make_no_sense() -> None:
    with pytest.raises(KeyError, match=r"\('history', 'full'\).*holds 'a'"):
        wrapper()(TensorDict({"a": torch.zeros(3)}, [3]))
    of_tokens = wrapper(input_mode="tokens")
    with pytest.raises(TypeError, match="whole numbers"):
        of_tokens(TensorDict({"tokens": {"full": torch.zeros(3, 4)}}, [3]))
    bad = TensorDict({"tokens": {"full": torch.ones(3, 4).long()}, "attention_mask": torch.ones(3, 5)}, [3])
    with pytest.raises(ValueError, match=r"\[3, 4\], their mask \[3, 5\]"):
        of_tokens(bad)
    with pytest.raises(ValueError, match="generate=False"):
        wrapper(generate=True).get_dist(of_chats(CHATS))
    nothing = TensorDict({"tokens": {"prompt": torch.zeros(2, 0).long()}}, [2])
    with pytest.raises(ValueError, match=r"prompts of the rows \[0, 1\] have no token"):
        wrapper(input_mode="tokens", generate=True)(nothing)


@pytest.mark.parametrize("generate", [False, True])
@pytest.mark.parametrize("wrong", [-1, 10_000])
def test_tokens_of_another_tokenizer(generate: bool, wrong: int) -> None:
    """They are named; what is no padding alone is looked at."""
    ids = torch.ones(3, 4).long()
    ids[1, 0], ids[1, 2] = wrong, wrong
    attended = torch.ones(3, 4).bool()
    attended[1, 0] = False
    data = TensorDict({"tokens": {"prompt" if generate else "full": ids}, "attention_mask": attended}, [3])
    made = wrapper(input_mode="tokens", generate=generate)
    place = 1 if generate else 2  # of a prompt its own tokens are counted
    with pytest.raises(ValueError, match=f"row 1, token {place} is {wrong}, but LlamaForCausalLM has a voc"):
        made(data)
    ids[1, 2] = 1
    made(data)
