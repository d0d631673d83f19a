"""Sampled answers: their log-probabilities are those that a scorer finds, and end where a stop token was drawn."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.llm.models.body import score_tokens
from specgen_runtime.llm.models.chosen import Warp
from specgen_runtime.llm.models.head import find_scorer
from specgen_runtime.llm.models.sampling import Answers, GenerationSettings, generate_answers
from torch import Tensor, nn

from tests.llm.models import FAMILIES, tiny_model, tiny_tokenizer

WARPS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.6},
    {"temperature": 1.3, "top_k": 6},
    {"temperature": 0.8, "top_p": 0.7},
    {"temperature": 1.1, "top_k": 9, "top_p": 0.9},
    {"do_sample": False},
]


def prompts() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(3, 20, (length,), generator=generator) for length in (1, 5, 9, 9)]


def settings(model: nn.Module, **given: Any) -> GenerationSettings:
    return GenerationSettings.of({"max_new_tokens": 12, "do_sample": True, **given}, model)


def scores(model: nn.Module, asked: list[Tensor], answers: Answers, warp: Warp) -> list[Tensor]:
    """The log-probabilities of answers, scored in one batch."""
    per_prompt = len(answers.tokens) // len(asked)
    rows = [torch.cat([asked[row // per_prompt], answer]) for row, answer in enumerate(answers.tokens)]
    ids = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    attention = torch.arange(ids.shape[1]) < lengths[:, None]
    found = score_tokens(find_scorer(model), ids, attention, attention, warp=warp).log_probs
    return [
        found[row, length - len(answer) : length]
        for row, (length, answer) in enumerate(zip(lengths.tolist(), answers.tokens, strict=True))
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_sampled_log_probs_equal_scored_ones(family: str) -> None:
    """Of the first token, too, and of ids of padding that were drawn; with several stop tokens, and pad = stop."""
    model = tiny_model(family, vocab_size=20)
    torch.manual_seed(0)
    padding_drawn = ended_early = 0
    for given in WARPS:
        for pad, stop in ((0, [2]), (2, [2]), (0, [2, 7, 8])):
            how = settings(model, eos_token_id=stop, **given)
            answers = generate_answers(model, prompts(), how, pad=pad)
            with torch.no_grad():
                expected = scores(model, prompts(), answers, how.warp)
            for tokens, found, wanted, complete in zip(
                answers.tokens, answers.log_probs, expected, answers.is_complete, strict=True
            ):
                torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
                ended = [int(one) in stop for one in tokens]
                assert not any(ended[:-1])
                assert complete is ended[-1]
                assert complete or len(tokens) == 12
                assert given or found[0] < 0, "the first token has a log-probability, too"
                padding_drawn += int(pad == 0 and (tokens == 0).any())
                ended_early += int(len(tokens) < 12)
    assert padding_drawn
    assert ended_early


def test_temperature_counts() -> None:
    """What is recorded depends on what tokens are drawn from, as `log_probs_of` says."""
    model = tiny_model("llama", vocab_size=20)
    how = settings(model, temperature=0.5, top_k=4)
    asked = prompts()
    for kind, warp in (("sampled", how.warp), ("tempered", Warp(0.5)), ("model", Warp())):
        torch.manual_seed(0)
        answers = generate_answers(model, asked, how, log_probs_of=kind)  # type: ignore[arg-type]
        with torch.no_grad():
            wanted = scores(model, asked, answers, warp)
        torch.testing.assert_close(torch.cat(answers.log_probs), torch.cat(wanted), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="log_probs_of"):
        how.warp_of("all")  # type: ignore[arg-type]


def test_frequencies_are_the_probabilities() -> None:
    """Tokens are drawn from the warped distribution, and not from one that transformers warps once more."""
    model = tiny_model("qwen2", vocab_size=12)
    prompt = [torch.tensor([3, 4, 5])]
    how = settings(model, temperature=0.7, top_k=5, max_new_tokens=1, num_return_sequences=4000)
    torch.manual_seed(0)
    drawn = torch.stack(generate_answers(model, prompt, how).tokens)[:, 0]
    with torch.no_grad():
        probs = how.warp(model(input_ids=prompt[0][None]).logits[:, -1])[0].softmax(-1)
    counts = torch.bincount(drawn, minlength=12) / 4000
    torch.testing.assert_close(counts, probs, rtol=0, atol=0.03)
    assert int((counts > 0).sum()) == 5


def test_num_samples_are_adjacent() -> None:
    model = tiny_model("gpt2")
    how = settings(model, do_sample=True, num_return_sequences=3)
    answers = generate_answers(model, prompts(), how, max_rows=5)
    assert len(answers.tokens) == 12
    with torch.no_grad():
        expected = scores(model, prompts(), answers, how.warp)
    torch.testing.assert_close(torch.cat(answers.log_probs), torch.cat(expected), rtol=1e-5, atol=1e-5)


def test_greedy_answers_are_the_likeliest_tokens() -> None:
    model = tiny_model("opt")
    how = settings(model, do_sample=False, eos_token_id=[])
    prompt = torch.tensor([3, 4, 5])
    answer = generate_answers(model, [prompt], how).tokens[0]
    whole = torch.cat([prompt, answer])
    assert torch.equal(model(input_ids=whole[None]).logits[0, 2:-1].argmax(-1), answer)
    assert torch.equal(
        generate_answers(model, [prompt], settings(model, temperature=0, eos_token_id=[])).tokens[0], answer
    )


def test_answers_end_where_they_have_a_stop_string() -> None:
    """Of several tokens; what was drawn behind it is no part of the answer, and its log-probabilities stay."""
    tokenizer = tiny_tokenizer()
    model = tiny_model("qwen2", tokenizer)
    given = {"max_new_tokens": 12, "do_sample": True, "eos_token_id": [4]}

    def answers(**more: Any) -> Answers:
        torch.manual_seed(3)
        how = GenerationSettings.of({**given, **more}, model, tokenizer=tokenizer)
        return generate_answers(model, prompts(), how, pad=0)

    free = answers()
    string = tokenizer.decode(free.tokens[1][3:6])
    assert len(tokenizer.encode(string, add_special_tokens=False)) > 1
    found = answers(stop_sequences=[string])
    assert torch.equal(found.tokens[1], free.tokens[1][:6])
    assert not found.is_complete[1], "it has no end of turn"
    for tokens, log_probs, whole, known in zip(
        found.tokens, found.log_probs, free.tokens, free.log_probs, strict=True
    ):
        text = tokenizer.decode(tokens)
        assert string not in tokenizer.decode(tokens[:-1])
        assert string in text or torch.equal(tokens, whole)
        torch.testing.assert_close(log_probs, known[: len(tokens)])


def test_words_for_settings() -> None:
    tokenizer = tiny_tokenizer()
    model = tiny_model("llama", tokenizer)
    of = GenerationSettings.of
    assert of(None, model, tokenizer=tokenizer) == GenerationSettings(stop=(4,))
    assert of({"temperature": 0.5}, model).do_sample
    assert not of({"temperature": 0.0, "do_sample": True}, model).do_sample
    assert of({"top_k": 0, "do_sample": True}, model).warp == Warp()
    assert of({"max_tokens": 3}, model).further == {"max_new_tokens": 3}
    assert of({"n": 2, "do_sample": True}, model).num_samples == 2
    assert of({"stop": ["</s>", 7]}, model, tokenizer=tokenizer).stop == (4, 2, 7)
    assert of({"eos_token_id": 9}, model, tokenizer=tokenizer).stop == (9,)
    bad: list[tuple[dict[str, Any], str]] = [
        ({"max_tokens": 3, "max_new_tokens": 3}, "mean the same"),
        ({"n": 2, "num_return_sequences": 2}, "mean the same"),
        ({"n": 2}, "do_sample=True"),
        ({"n": 0}, ">= 1"),
        ({"temperature": -1.0}, "temperature must be > 0"),
        ({"top_k": -1}, "top_k must be >= 0"),
        ({"top_p": 0.0}, "top_p must be in"),
        ({"stop": ["</s>", ""]}, "a stop string has a letter at least"),
    ]
    for given, message in bad:
        with pytest.raises(ValueError, match=message):
            of(given, model, tokenizer=tokenizer)
    assert of({"stop": "many tokens"}, model, tokenizer=tokenizer).strings == ("many tokens",)
    with pytest.raises(
        ValueError, match="one token here, got 'many tokens', which is none without a tokenizer"
    ):
        of({"stop": "many tokens"}, model)
    with pytest.raises(ValueError, match="give one of them"):
        of({"n": 2, "do_sample": True}, model, 3)


def test_what_a_scorer_cannot_repeat_is_refused() -> None:
    model = tiny_model("llama")
    with pytest.raises(ValueError, match="num_beams=2: a beam search draws no answers"):
        settings(model, num_beams=2).configuration(model, 0, scorable=False)
    how = settings(model, repetition_penalty=1.5)
    with pytest.raises(ValueError, match=r"repetition_penalty=1\.5.*switch it off"):
        generate_answers(model, prompts(), how)
    assert len(generate_answers(model, prompts(), how, scorable=False).tokens) == 4
    with pytest.raises(ValueError, match="does not know: 'max_new_tokns'"):
        generate_answers(model, prompts(), settings(model, max_new_tokns=3))
    with pytest.raises(ValueError, match=r"rows \[1\] have no token"):
        generate_answers(model, [torch.tensor([3]), torch.tensor([], dtype=torch.long)], how)
