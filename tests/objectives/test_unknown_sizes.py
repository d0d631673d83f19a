"""Sizes that only the networks of a loss know: what is generated holds for any of them."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor, nn

from tests.support import compile_texts, generate, imported

SCHEMA = """\
specgen: 1
losses:
  Sized:
    networks:
      values: {{qvalue: action, in: [observation], out: {{action_value: "float32[n]"}}}}
    keys:
      action: action
      number: {{key: number, type: int64}}
    let: {{v: values(now)}}
    terms: {{loss: "{}"}}
    metrics: {{given_on_average: "float32(number) + float32(action)"}}
"""


def at(v: Tensor, index: Tensor) -> Tensor:
    return v.gather(-1, index[:, None])[:, 0]


RIGHT: dict[str, Any] = {
    "sum(v) / size(v)": lambda v, a, g: v.mean(-1),
    "logsumexp(v) - log(float32(size(v)))": lambda v, a, g: (
        v.logsumexp(-1) - torch.log(torch.tensor(v.shape[-1]))
    ),
    "v[size(v) - 1]": lambda v, a, g: v[:, -1],
    "v[-1]": lambda v, a, g: v[:, -1],
    "gather(v, clip(number, 0, size(v) - 1))": lambda v, a, g: v.gather(
        -1, g[:, None].clamp(0, v.shape[-1] - 1)
    )[:, 0],
    "v[int64(sum(v > 0.0)) % size(v)]": lambda v, a, g: v.gather(
        -1, ((v > 0).sum(-1) % v.shape[-1])[:, None]
    )[:, 0],
    "sum(concat(v, v)) / size(concat(v, v))": lambda v, a, g: v.mean(-1),
    "sum(reshape(outer(v, v), -1))": lambda v, a, g: v.sum(-1) ** 2,
    "sum(v[1:] * narrow(v, 1)) + sum(v[::2])": lambda v, a, g: (v[:, 1:] ** 2).sum(-1) + v[:, ::2].sum(-1),
    "v[action] - var(v, correction=1)": lambda v, a, g: v.gather(-1, a[:, None])[:, 0] - v.var(-1),
    "sum(zeros_like(v) + full_like(v, 2.0) * v)": lambda v, a, g: 2 * v.sum(-1),
    "max(v[:-1])": lambda v, a, g: v[:, :-1].amax(-1),
    "sum(v[-2:])": lambda v, a, g: v[:, -2:].sum(-1),
    "sum(reshape(v, (1, -1)))": lambda v, a, g: v.sum(-1),
    "sum(arange(size(v)) * v)": lambda v, a, g: (torch.arange(v.shape[-1]) * v).sum(-1),
    "sum(one_hot(action, size(v)) * v)": lambda v, a, g: v.gather(-1, a[:, None])[:, 0],
    "sum(stack(v, 1.0))": lambda v, a, g: v.sum(-1) + v.shape[-1],
    "sum(flip(concat(v, zeros(size(v) + 1))) * arange(2 * size(v) + 1))": lambda v, a, g: (
        v * torch.arange(2 * v.shape[-1], v.shape[-1], -1)
    ).sum(-1),
    "v[max(argmax(v) - 1, 0)]": lambda v, a, g: at(v, (v.argmax(-1) - 1).clamp(min=0)),
    "v[where(number > 0, action, 0)]": lambda v, a, g: at(v, torch.where(g > 0, a, 0)),
    "v[size(v) - 1 - argmin(v)]": lambda v, a, g: at(v, v.shape[-1] - 1 - v.argmin(-1)),
    "v[(argmax(v) + action) // 2]": lambda v, a, g: at(v, (v.argmax(-1) + a) // 2),
    "v[min(action + 1, size(v) - 1)] + v[abs(action)] + v[action % 2] + v[1 * action + 0]": lambda v, a, g: (
        at(v, (a + 1).clamp(max=v.shape[-1] - 1)) + 2 * at(v, a) + at(v, a % 2)
    ),
    "where(size(v) > 4, v[0], v[1])": lambda v, a, g: v[:, 0 if v.shape[-1] > 4 else 1],
}


@pytest.mark.parametrize("expression", RIGHT)
def test_values_for_networks_of_any_size(expression: str, tmp_path: Path) -> None:
    files = generate({"sized": SCHEMA.format(expression)}, "sized_loss")
    with imported(files, "sized_loss", tmp_path):
        made = importlib.import_module("sized_loss.sized").Sized
        for actions in (3, 6):
            network = nn.Linear(4, actions)
            data = TensorDict(
                {
                    "observation": torch.randn(5, 4),
                    "action": torch.randint(0, actions, (5,)),
                    "number": torch.randint(-2, 9, (5,)),
                },
                [5],
            )
            values: Tensor = network(data["observation"])
            loss = made(network, action_space="categorical", reduction="none")(data)["loss"]
            torch.testing.assert_close(
                loss.reshape(5), RIGHT[expression](values, data["action"], data["number"])
            )


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("gather(v, number)", "outside 0 to n - 1 of axis 0"),
        ("gather(v, number)", "wrap it: clip(number, 0, size(v) - 1)"),
        ("gather(v, int64(sum(v > 0.0)))", "outside 0 to n - 1 of axis 0"),
        ("sum(narrow(v, size(v) + 1))", "elements n + 1 up to n are not in a dimension of n"),
        ("max(narrow(v, size(v)))", "no elements"),
        ("sum(reshape(v, (2, -1)))", "its n elements do not fit into [2, -1]"),
        ("sum(v + arange(size(v) + 1))", "`v` is float32[n] and `arange(size(v) + 1)` is int64[n + 1]"),
        ("sum(zeros(int64(number)))", "known at build"),
    ],
)
def test_numbers_that_nobody_knows_are_refused(expression: str, said: str) -> None:
    files, text, _ = compile_texts({"sized": SCHEMA.format(expression)}, "sized_loss")
    assert said in text
    assert text.count("error[") == 1
    assert "1000" not in text
    assert not files


def test_equal_names_are_one_size() -> None:
    schema = SCHEMA.replace("int64}}", 'float32[m]"}}').replace("type: float", 'type: "float')
    schema = schema.replace("float32(number)", "mean(v - number)")
    _, said, _ = compile_texts({"sized": schema.format("v[0]")}, "sized_loss")
    assert "`v` is float32[n] and `number` is float32[m]" in said
    _, said, _ = compile_texts({"sized": schema.replace("[m]", "[n]").format("v[0]")}, "sized_loss")
    assert "error[" not in said


@pytest.mark.parametrize(
    "index",
    [
        "argmax(v) + 1",
        "max(argmax(v), 1)",
        "size(v) - argmin(v)",
        "size(v) - 2 - argmin(v)",
        "argmax(v) + action",
        "2 * action",
        "argmax(v) // 2 + 1",
        "(action + 1) % 3",
        "where(number > 0, action, 1)",
        "min(argmax(v) + 1, size(v))",
    ],
)
def test_an_index_that_can_lie_outside_is_refused(index: str) -> None:
    files, said, _ = compile_texts({"sized.yaml": SCHEMA.format(f"v[{index}]")}, "sized")
    assert not files
    assert "SG808" in said
