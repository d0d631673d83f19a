"""Gymnasium's environments behind our interface."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.interop import from_gymnasium, to_gymnasium
from specgen_runtime.specs import Categorical

from tests.envs.counting import Counting
from tests.interop.envs import Walk

gymnasium = pytest.importorskip("gymnasium", reason="the extra `gym`")


def test_single() -> None:
    env = from_gymnasium(gymnasium.make("CartPole-v1"), categorical_action_encoding=True, device="cpu")
    assert env.action_spec == Categorical(2)
    assert env.device == torch.device("cpu")
    assert env.rollout(3).shape == (3,)


def test_vector() -> None:
    make = partial(gymnasium.make, "CartPole-v1")
    vector = gymnasium.vector.SyncVectorEnv(
        [make, make], autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED
    )
    env = from_gymnasium(vector)
    assert env.batch_size == (2,)
    torch.manual_seed(0)
    env.set_seed(0)
    assert env.rollout(40, break_when_any_done=False)["next", "done"].any()


def test_there_and_back() -> None:
    env = from_gymnasium(to_gymnasium(Walk()))
    env.set_seed(2)
    mine = Walk()
    mine.set_seed(2)
    torch.manual_seed(0)
    found = env.rollout(5)
    torch.manual_seed(0)
    expected = mine.rollout(5)
    for key in ("observation", "action", ("next", "reward"), ("next", "done")):
        assert torch.equal(found[key].float(), expected[key].float()), key


@pytest.mark.parametrize("given", [3, None, Counting], ids=str)
def test_others_are_refused(given: Any) -> None:
    with pytest.raises(TypeError, match=r"from_gymnasium needs a gymnasium.Env"):
        from_gymnasium(given)


def test_our_own_are_refused() -> None:
    with pytest.raises(TypeError, match="found Counting"):
        from_gymnasium(Counting())
