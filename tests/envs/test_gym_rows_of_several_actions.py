"""Steps and rollouts of NumPy's with a Dict or a Tuple of actions give what the general ways give, bit by bit."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import SerialEnv
from specgen_runtime.envs.gym.rollout_steps import LiftedGymBlocks
from specgen_runtime.testing import assert_identical
from tensordict import TensorDict

from tests.build.test_gymnasium_actions import SPACES, made, records
from tests.envs.test_gym_rows import generally, transitions

__all__ = ["made", "records"]  # fixtures

NAMES = [f"{form.capitalize()}{chain}" for form in SPACES for chain in ("", "Scaled")]


def env_of(made: ModuleType, name: str) -> Any:
    torch.manual_seed(1)
    env = getattr(made, name)()
    env.set_seed(3)
    return env


@pytest.mark.parametrize("name", NAMES)
class TestEach:
    def test_steps_and_resets(self, made: ModuleType, name: str) -> None:
        env = env_of(made, name)
        assert env._row_steps() is not None
        found = transitions(env, 30)
        assert found["next", "done"].any()
        assert_identical(found, transitions(generally(env_of(made, name)), 30))

    @pytest.mark.parametrize("stops", [True, False])
    def test_rollouts(self, made: ModuleType, name: str, stops: bool) -> None:
        env, other = env_of(made, name), env_of(made, name)
        for _ in range(2):
            torch.manual_seed(5)
            found = env.rollout(23, break_when_any_done=stops)
            torch.manual_seed(5)
            # who asks for single transitions gets them: the general way
            expected = generally(other).rollout(23, None, lambda *_: None, break_when_any_done=stops)
            assert len(found) == (5 if stops else 23)
            assert_identical(found, expected)
            assert found.names == expected.names

    def test_rollouts_of_rows(self, made: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Those of chains that nothing lifts over time."""
        env, other = env_of(made, name), env_of(made, name)
        monkeypatch.setattr(type(env), "_gym_lifts", False)
        monkeypatch.setattr(LiftedGymBlocks, "take", None)
        root = env.reset()
        assert_identical(root, other.reset())
        torch.manual_seed(5)
        found = env.rollout(12, break_when_any_done=False, auto_reset=False, tensordict=root)
        torch.manual_seed(5)
        expected = generally(other).rollout(
            12, None, lambda *_: None, break_when_any_done=False, auto_reset=False, tensordict=root
        )
        assert_identical(found, expected)

    def test_roots_share_no_containers(self, made: ModuleType, name: str) -> None:
        env = env_of(made, name)
        root = env.rand_action(env.reset())
        transition, following = env.step_and_maybe_reset(root)
        before = transition["action"].clone()
        following["action"].apply_(torch.zeros_like)
        following["action"].set("more", torch.zeros(()))
        assert "more" not in transition["action"].keys()  # noqa: SIM118 - of a tensordict
        assert transition["action"].keys() == before.keys()

    def test_side_by_side(self, made: ModuleType, name: str) -> None:
        def batch(general: bool) -> Any:
            def one() -> Any:
                env = getattr(made, name)()
                return generally(env) if general else env

            env: Any = SerialEnv(2, one)
            env.set_seed(3)
            return transitions(env, 12)

        assert_identical(batch(False), batch(True))


def test_an_action_that_is_not_there_is_missed(made: ModuleType) -> None:
    env = env_of(made, "Dict")
    root = env.reset()
    root["action"] = TensorDict({"move": torch.tensor(1)})
    with pytest.raises(KeyError, match="force"):
        env.step(root)
    with pytest.raises(KeyError, match="action"):
        env.step(env.reset())
    root["action", "force"] = torch.tensor([2.0])
    with pytest.raises(ValueError, match="force"):
        env.step(root)
    root["action", "force"] = torch.tensor([0.5], dtype=torch.float64)
    with pytest.raises(RuntimeError, match="float64"):
        env.step(root)
