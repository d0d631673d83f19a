"""`PolicyVersion`: data tell which version of the policy answered."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.llm import ChatEnv, PolicyVersion
from specgen_runtime.testing import check_env
from specgen_runtime.transforms import TransformedEnv
from tensordict import TensorDictBase

from tests.llm.test_chat_env import DATA, say


def env_of(**keywords: Any) -> tuple[Any, PolicyVersion]:
    version = PolicyVersion(**keywords)
    return TransformedEnv(ChatEnv(DATA, batch_size=(2,), max_turns=None), version), version


def test_counts() -> None:
    env, version = env_of()
    answer = say("yes")

    def policy(tensordict: TensorDictBase) -> TensorDictBase:
        version.increment_version()
        return answer(tensordict)

    data = env.rollout(3, policy, break_when_any_done=False)
    assert data["policy_version"].tolist() == [[0, 1, 2]] * 2
    assert data["next", "policy_version"].tolist() == [[1, 2, 3]] * 2
    assert data["policy_version"].dtype == torch.int64
    assert [(one.old_version, one.new_version) for one in version.version_history] == [
        (None, 0),
        (0, 1),
        (1, 2),
        (2, 3),
    ]


def test_names_of_versions() -> None:
    env, version = env_of(version_type="uuid", version_key=("made", "by"))
    first = version.version
    assert env.reset()["made", "by"] == first
    version.increment_version()
    assert env.reset()["made", "by"] == version.version != first


@pytest.mark.parametrize(("version_type", "version"), [(int, 7), (str, "a name")])
def test_environments_are_whole(version_type: Any, version: int | str) -> None:
    def make() -> Any:
        env, numbered = env_of(version_type=version_type)
        numbered.version = version
        return env

    check_env(make, steps=2)


def test_goes_on_from_a_state() -> None:
    env, version = env_of()
    version.increment_version()
    other, resumed = env_of()
    other.load_state_dict(env.state_dict())
    assert resumed.version == 1


def test_types() -> None:
    with pytest.raises(ValueError, match="version_type is 'int' or 'uuid', got 'float'"):
        PolicyVersion("float")  # type: ignore[arg-type]
