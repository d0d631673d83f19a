"""What a wrapper draws its tokens from, and when it takes the likeliest ones."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.envs import ExplorationType, set_exploration_type
from specgen_runtime.llm import TransformersWrapper
from tensordict import TensorDict
from torch import Tensor

from tests.llm.models import tiny_model


@pytest.fixture
def policy() -> TransformersWrapper:
    return TransformersWrapper(
        tiny_model("llama"),
        input_mode="tokens",
        generate_kwargs={"max_new_tokens": 6, "do_sample": True, "temperature": 2.0},
        pad_output=True,
        return_log_probs=True,
    )


def answered(policy: TransformersWrapper) -> Tensor:
    """The answers to one prompt, 16 times."""
    data = TensorDict({"tokens": TensorDict({"prompt": torch.arange(3, 8).expand(16, 5)}, [16])}, [16])
    response: Tensor = policy(data)["tokens", "response"]
    return response


def test_it_draws_from_its_generator(policy: TransformersWrapper) -> None:
    policy.generator = torch.Generator().manual_seed(3)
    before = torch.get_rng_state()
    first, second = answered(policy), answered(policy)
    assert torch.equal(before, torch.get_rng_state())
    assert not torch.equal(first, second)
    policy.generator.manual_seed(3)
    torch.manual_seed(4)
    assert torch.equal(answered(policy), first)


def test_without_one_it_draws_from_that_of_torch(policy: TransformersWrapper) -> None:
    torch.manual_seed(3)
    first = answered(policy)
    torch.manual_seed(3)
    assert torch.equal(answered(policy), first)
    assert not torch.equal(answered(policy), first)


def test_the_likeliest_answers_where_exploration_is_deterministic(policy: TransformersWrapper) -> None:
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        likeliest = answered(policy)
    assert (likeliest == likeliest[0]).all()
    greedy = policy.get_new_version(generate_kwargs={"max_new_tokens": 6, "do_sample": False})
    assert torch.equal(answered(greedy), likeliest)
    with set_exploration_type(ExplorationType.RANDOM):
        assert len({*map(tuple, answered(policy).tolist())}) > 1
