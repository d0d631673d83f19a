"""Parameters that an optimizer's steps are too small for: the warning, and the training that gives it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.llm.models.coarse import warn_of_coarse_parameters
from torch import nn

from tests.llm.letters import FUNCTIONS, SCHEMA, training_module
from tests.llm.models import tiny_model, tiny_tokenizer
from tests.llm.test_declared_pipeline import PIPELINE


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("factor", [1.05, 1.4, 1.9])
def test_the_share_is_that_of_parameters_which_steps_of_adam_leave(dtype: torch.dtype, factor: float) -> None:
    lr = factor * 2.0**-14
    coarse = lr / torch.finfo(dtype).eps
    sizes = torch.linspace(1.2, 9.0, 41) * coarse
    for sign in (1, -1):
        layer = nn.Linear(1, len(sizes), bias=False, dtype=dtype)
        layer.weight.data = (sign * sizes).to(dtype).unsqueeze(-1)
        before = layer.weight.detach().clone()
        with pytest.warns(
            UserWarning, match=r"parameters of Linear as they are, which are b?float16"
        ) as said:
            warn_of_coarse_parameters(layer, lr)
        told = float(str(said[0].message).partition("%")[0].rpartition(" ")[2])
        optimizer = torch.optim.Adam(layer.parameters(), lr=lr)
        layer(torch.ones(1, 1, dtype=dtype)).sum().backward()
        optimizer.step()
        stayed = float((layer.weight == before).float().mean())
        assert told <= 100 * stayed + 0.5, "no parameter is counted that moves"
        assert told > 100 * stayed - 5, "but for those that only one of the two steps leaves"


def test_no_warning_where_most_parameters_move() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_coarse_parameters(nn.Linear(4, 4), 1e-9)
        warn_of_coarse_parameters(nn.Linear(4, 4, dtype=torch.bfloat16), 0.1)
        warn_of_coarse_parameters(nn.Linear(4, 4, dtype=torch.bfloat16).requires_grad_(False), 1e-9)


def test_a_folder_in_bfloat16(tmp_path: Path) -> None:
    schema = SCHEMA.replace("import: [", "import: [specgen_std/losses/grpo, ").replace(", dtype: float32", "")
    pipeline = PIPELINE.replace(", env: Asked", "")
    with training_module(tmp_path, schema + pipeline, FUNCTIONS) as made:
        model: Any = tiny_model("llama", tiny_tokenizer(), initializer_range=0.1)
        model.to(torch.bfloat16).save_pretrained(tmp_path / "checkpoints" / "first")
        with pytest.warns(UserWarning, match="of LlamaForCausalLM as they are, which are bfloat16"):
            made.ChatGRPO(made.ChatGRPOConfig(lr=1e-6))
