"""Every generated environment and loss gives the dtypes of its specs, and the same bits, whatever torch's default is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.envs.keys import as_tuple
from tensordict import TensorDict

from tests.conformance.test_generated import GYM, NATIVE

DTYPES = (torch.float64, torch.float16)
each_env = pytest.mark.parametrize("env", [*NATIVE, *GYM], ids=lambda env: env.__name__)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def rollout(env: type[Any], dtype: torch.dtype) -> TensorDict:
    with default_dtype(dtype):
        made = env(batch_size=(3,)) if env in NATIVE else env()
        made.set_seed(0)
        torch.manual_seed(0)
        result: TensorDict = made.rollout(30, break_when_any_done=False)
        return result


@each_env
def test_rollouts_are_the_same_bits(env: type[Any]) -> None:
    usual = rollout(env, torch.float32)
    for dtype in DTYPES:
        other = rollout(env, dtype)
        for key, value in usual.items(include_nested=True, leaves_only=True):
            assert other[key].dtype == value.dtype, (key, dtype)
            assert torch.equal(other[key].nan_to_num(), value.nan_to_num()), (key, dtype)


@each_env
def test_the_specs_hold(env: type[Any]) -> None:
    with default_dtype(torch.float64):
        made = env()
        check_env_specs(made)
        data = made.step(made.rand_action(made.reset()))
        for key, spec in made.full_action_spec.items(True, True):
            assert data[as_tuple(key)].dtype == spec.dtype
