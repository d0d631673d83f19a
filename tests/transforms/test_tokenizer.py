"""`Tokenizer`, with a tokenizer of words that is called as those of `transformers` are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.specs import Bounded, Composite, NonTensor
from specgen_runtime.transforms import Tokenizer, TransformedEnv
from tensordict import NonTensorStack, TensorDict

from tests.transforms.test_unary import Talk


class Words:
    """Numbers words; 0 is padding."""

    def __init__(self) -> None:
        self.words = ["", "at", "stay", "on", "back", "hello", "world"]

    def __len__(self) -> int:
        return len(self.words)

    def add_tokens(self, words: list[str]) -> None:
        self.words += words

    def __call__(
        self,
        texts: list[str],
        *,
        padding: Any = True,
        max_length: int | None = None,
        truncation: bool = False,
        **_: Any,
    ) -> dict[str, torch.Tensor]:
        rows = [
            [self.words.index(word) if word in self.words else 1 for word in text.split()] for text in texts
        ]
        length = max(map(len, rows)) if max_length is None else max_length
        rows = [row[:length] if truncation else row for row in rows]
        ids = torch.tensor([row + [0] * (length - len(row)) for row in rows])
        return {"input_ids": ids, "attention_mask": (ids > 0).long()}

    def decode(self, ids: torch.Tensor, *, skip_special_tokens: bool) -> str:
        return " ".join(self.words[i] for i in ids.tolist() if i or not skip_special_tokens)

    def batch_decode(self, ids: torch.Tensor, *, skip_special_tokens: bool) -> list[str]:
        return [self.decode(row, skip_special_tokens=skip_special_tokens) for row in ids]


def test_texts() -> None:
    tokens = Tokenizer(["text"], ["tokens"], tokenizer=Words())
    one = tokens(TensorDict(text="hello world"))
    assert one["tokens"].tolist() == [5, 6]
    assert one["attention_mask"].tolist() == [1, 1]
    several = tokens(TensorDict(text=NonTensorStack("hello world", "hello"), batch_size=[2]))
    assert several["tokens"].tolist() == [[5, 6], [5, 0]]
    assert several["attention_mask"].tolist() == [[1, 1], [1, 0]]
    rows = TensorDict(text=NonTensorStack.from_list([["hello", "world"], ["on", "back"]]), batch_size=[2, 2])
    assert tokens(rows)["tokens"].tolist() == [[[5], [6]], [[3], [4]]]
    fixed = Tokenizer(["text"], [("t", "ids")], tokenizer=Words(), max_length=3, return_attention_mask=False)
    cut = fixed(TensorDict(text="hello world hello world"))
    assert cut["t", "ids"].tolist() == [5, 6, 5]
    assert ("t", "attention_mask") not in cut.keys(True)
    transitions = tokens(TensorDict(text="hello", next=TensorDict(text="world")))
    assert transitions["next", "tokens"].tolist() == [6]
    assert tokens(TensorDict(a=torch.zeros(1))).keys() == {"a"}
    strict = Tokenizer(["text"], ["tokens"], tokenizer=Words(), missing_tolerance=False)
    with pytest.raises(KeyError, match="Tokenizer reads 'text'"):
        strict(TensorDict(a=torch.zeros(1)))


def test_in_an_environment() -> None:
    both = Tokenizer(["text"], ["tokens"], ["action"], ["action"], tokenizer=Words(), max_length=2)
    env = TransformedEnv(Talk(), both)
    assert env.observation_spec["tokens"] == Bounded(0, 6, (2,), dtype=torch.int64)
    assert env.full_action_spec["action"] == Bounded(0, 6, (2,), dtype=torch.int64)
    root = env.reset().set("action", torch.tensor([3, 0]))
    assert root["tokens"].tolist() == [1, 1]
    assert root["attention_mask"].tolist() == [1, 1]
    after = env.step(root)["next"]
    assert after["text"] == "at 1.50"
    assert after["tokens"].tolist() == [1, 1]
    check_env_specs(TransformedEnv(Talk(), Tokenizer(["text"], ["tokens"], tokenizer=Words(), max_length=2)))


def test_the_way_back() -> None:
    back = Tokenizer([], [], ["text"], ["tokens"], tokenizer=Words())
    assert back.inv(TensorDict(tokens=torch.tensor([5, 6, 0])))["text"] == "hello world"
    rows = back.inv(TensorDict(tokens=torch.tensor([[5, 0], [6, 5]]), batch_size=[2]))
    assert rows.get("text").tolist() == ["hello", "world hello"]
    specs = back.transform_action_spec(Composite(text=NonTensor((), example_data="")))
    assert specs["tokens"].shape == (-1,)


def test_arguments() -> None:
    words = Words()
    Tokenizer(["a"], ["b"], tokenizer=words, additional_tokens=["new"])
    assert words.words[-1] == "new"
    with pytest.raises(ValueError, match="needs a tokenizer, or the name"):
        Tokenizer(["a"], ["b"])
    with pytest.raises(ValueError, match="writes 'attention_mask' twice"):
        Tokenizer(["a", "b"], ["c", "d"], tokenizer=words)
