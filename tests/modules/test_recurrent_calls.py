"""Calls of recurrent modules with tensors, as programs of `torch.export` make them."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

from tests.modules.test_recurrent import KINDS, SIZES, keys, make


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_with_tensors_is_a_step_of_each_row(kind: str) -> None:
    policy = TensorDictSequential(
        TensorDictModule(nn.Linear(4, SIZES[0]), in_keys=["observation"], out_keys=["x"]),
        make(kind),
        TensorDictModule(nn.Linear(SIZES[1], 2), in_keys=["y"], out_keys=["logits"]),
    )
    states = keys(kind)["in_keys"][1:]
    inputs = {"observation": torch.randn(3, 4), "is_init": torch.tensor([[True], [False], [False]])}
    inputs |= {state: torch.randn(3, 1, SIZES[1]) for state in states}
    expected = policy(TensorDict(dict(inputs), [3]))
    given = dict(zip(policy.out_keys, policy(**inputs), strict=True))
    exported = torch.export.export(policy, (), inputs).module()(**inputs)
    for key, alone in zip(policy.out_keys, exported, strict=True):
        torch.testing.assert_close(given[key], expected[key])
        torch.testing.assert_close(alone, expected[key])
