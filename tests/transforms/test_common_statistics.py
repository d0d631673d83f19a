"""`CommonStatistics`: environments that learn one set of statistics, and those that read it."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, SerialEnv
from specgen_runtime.transforms import CommonStatistics, TransformedEnv
from specgen_std.envs.pendulum import Pendulum
from specgen_std.transforms.vec_norm import VecNorm


def normalised(**kwargs: object) -> TransformedEnv:
    return TransformedEnv(Pendulum(**kwargs), VecNorm(in_keys=["observation"], decay=1.0))  # type: ignore[arg-type]


def count(env: TransformedEnv) -> float:
    return float(env.transform._statistics.values["count|observation"])


def test_all_that_are_made_learn_together() -> None:
    """Of two environments, what one has seen the other has counted."""
    statistics = CommonStatistics(normalised)
    first, second = statistics(batch_size=[3]), statistics(batch_size=[5])
    raw = []
    for env in (first, second):
        env.set_seed(7)
        raw.append(env.base_env.reset()["observation"])
        env.set_seed(7)
        env.reset()
    assert count(first) == count(second) == 8
    learned = second.transform._statistics.values
    torch.testing.assert_close(learned["loc|observation"], torch.cat(raw).double().mean(0))


def test_loading_into_a_frozen_environment_leaves_what_others_learn() -> None:
    """What was learned elsewhere goes into an environment that learns; the others read it."""
    statistics = CommonStatistics(normalised)
    learning = statistics(batch_size=[3])
    learning.reset()
    reading, other = statistics.frozen(batch_size=[2]), normalised(batch_size=[3])
    other.rollout(4)
    before = learning.transform._statistics.values["loc|observation"].clone()
    with pytest.raises(RuntimeError, match="other values than those that this environment reads"):
        reading.transform.load_state_dict(other.transform.state_dict())
    assert torch.equal(learning.transform._statistics.values["loc|observation"], before)
    reading.transform.load_state_dict(learning.transform.state_dict())  # they are the same
    learning.transform.load_state_dict(other.transform.state_dict())
    assert count(learning) == count(reading) == count(other)


def test_a_frozen_environment_does_not_begin_to_learn() -> None:
    """What it would learn would go into what the others normalise with."""
    statistics = CommonStatistics(normalised)
    learning = statistics(batch_size=[3])
    learning.reset()
    reading = statistics.frozen(batch_size=[2])
    with pytest.raises(RuntimeError, match="VecNorm reads the statistics that other environments learn"):
        reading.transform.unfreeze()
    reading.rollout(4)
    assert reading.transform.frozen
    assert count(learning) == 3
    own = reading.transform.frozen_copy().unfreeze()
    TransformedEnv(Pendulum(batch_size=[2]), own).rollout(4)
    assert float(own._statistics.values["count|observation"]) == 3 + 2 * 5
    assert count(learning) == 3


def test_the_environments_of_a_batch_count_what_all_have_seen() -> None:
    env = SerialEnv(4, CommonStatistics(normalised))
    env.reset()
    state = env.state_dict()
    found = {float(value) for name, value in _leaves(state) if name.endswith("count|observation")}
    assert found == {4.0}


def _leaves(state: object, name: str = "") -> list[tuple[str, torch.Tensor]]:
    if isinstance(state, dict):
        return [leaf for key, value in state.items() for leaf in _leaves(value, f"{name}.{key}")]
    return [(name, state)] if isinstance(state, torch.Tensor) else []


def test_frozen_environments_read_and_do_not_learn() -> None:
    statistics = CommonStatistics(normalised)
    learning = statistics(batch_size=[3])
    reading = statistics.frozen(batch_size=[2])
    learning.reset()
    reading.reset()
    assert count(reading) == count(learning) == 3
    learning.rollout(4)
    assert count(reading) == count(learning) == 3 + 3 + 4 * 3
    assert reading.transform.frozen
    assert not learning.transform.frozen


def test_the_first_one_learns() -> None:
    with pytest.raises(RuntimeError, match="make that one first"):
        CommonStatistics(normalised).frozen(batch_size=[2])


def test_environments_that_learn_something_else_are_refused() -> None:
    kinds: list[Callable[[], EnvBase[Any, Any]]] = [normalised, Pendulum, normalised]
    statistics = CommonStatistics(lambda: kinds.pop()())
    statistics()
    with pytest.raises(ValueError, match=r"statistics in \['VecNorm'\], this one in \[\]"):
        statistics()
    assert statistics.frozen() is not None


def test_another_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is learned there would not come back."""
    statistics = CommonStatistics(normalised)
    here = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: here + 1)
    with pytest.raises(RuntimeError, match="another process would learn statistics of their own"):
        statistics()


def test_what_others_of_this_process_read_is_not_shared_with_other_processes() -> None:
    """They would go on reading what was known before that."""
    statistics = CommonStatistics(normalised)
    learning = statistics(batch_size=[3])
    learning.reset()
    reading = statistics.frozen(batch_size=[2])
    for env in (learning, reading):
        with pytest.raises(RuntimeError, match="others read them"):
            env.transform.share_memory()
    del reading, env
    gc.collect()
    learning.transform.share_memory()
    with pytest.raises(RuntimeError, match="processes share these statistics"):
        statistics.frozen(batch_size=[2])
