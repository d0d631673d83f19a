"""The pieces of the example on language models, and a run that begins to learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from examples import grpo_tiny as demo


def chat(text: str) -> list[Any]:
    return [{"role": "user", "content": "b"}, {"role": "assistant", "content": text}]


def test_scores() -> None:
    answers = ["bbbb", "bb", "abab", "bbbbbb", "", "cccc"]
    scores = demo.repeated([chat(text) for text in answers], [{"query": "b"}] * len(answers))
    assert scores.reward == [1.0, 0.5, 0.5, 4 / 6, 0.0, 0.0]
    assert scores.metrics == {"score": scores.reward}


def test_tokenizer() -> None:
    tokenizer = demo.make_tokenizer()
    ids = tokenizer.apply_chat_template(chat("ab"), tokenize=True, return_dict=True)["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == ["<user>", "b", "<end>", "<assistant>", "a", "b", "<end>"]
    assert tokenizer.decode(ids[4:]) == "ab<end>"


def test_a_short_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "ITERATIONS", 8)
    monkeypatch.setattr(demo, "QUESTIONS", 2)
    curve = demo.train(seed=0)
    assert len(curve) == 8
    assert all(0 <= point.score <= 1 for point in curve)
    assert curve[0].kl == pytest.approx(0.0, abs=1e-4), "both models are the same at first"
    assert curve[-1].kl > 0.02
    demo.draw(curve, tmp_path / "runs" / "curve.png")
    assert (tmp_path / "runs" / "curve.png").read_bytes().startswith(b"\x89PNG")
