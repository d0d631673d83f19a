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


@pytest.mark.parametrize(("dtype", "digits"), [(torch.bfloat16, 8), (torch.float16, 11)])
def test_steps_of_adam_leave_larger_parameters_as_they_are(dtype: torch.dtype, digits: int) -> None:
    lr = 2.0**-14
    sizes = torch.linspace(0.5, 2.5, 41) * lr * 2**digits
    layer = nn.Linear(1, len(sizes), bias=False, dtype=dtype)
    layer.weight.data = sizes.to(dtype).unsqueeze(-1)
    before = layer.weight.detach().clone()
    with pytest.warns(
        UserWarning, match=r"leave \d+% of the parameters of Linear as they are, which are b?float16"
    ):
        warn_of_coarse_parameters(layer, lr)
    optimizer = torch.optim.Adam(layer.parameters(), lr=lr)
    layer(torch.ones(1, 1, dtype=dtype)).sum().backward()
    optimizer.step()
    stayed = (layer.weight == before).flatten()
    large = (before.abs() > lr * 2**digits).flatten()
    assert not (stayed & ~large).any(), "nothing below the threshold stays"
    assert stayed[before.flatten() > 2 * lr * 2**digits].all(), "all far above it do"


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
