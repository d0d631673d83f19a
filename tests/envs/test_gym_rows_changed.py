"""Steps of NumPy's take what has been changed in a root, in a class or in an object, as other steps do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_std.chains.cartpole import CartPoleGymTrain


class TestWhatIsChangedInTheRoot:
    def roots(self) -> tuple[Any, Any, Any]:
        env = CartPoleGymTrain()
        env.set_seed(3)
        _, root = env.step_and_maybe_reset(env.rand_action(env.reset()))
        return env, root, root["step_count"]

    def count(self, env: Any, root: Any) -> int:
        return int(env.step(env.rand_action(root))["next", "step_count"])

    def test_in_place(self) -> None:
        env, root, count = self.roots()
        count.fill_(40)
        assert self.count(env, root) == 41

    def test_replaced(self) -> None:
        env, root, _ = self.roots()
        assert self.count(env, root.set("step_count", torch.tensor([40]))) == 41

    def test_given_other_memory(self) -> None:
        env, root, count = self.roots()
        count.data = torch.tensor([40])
        assert self.count(env, root) == 41

    def test_shared_between_processes(self) -> None:
        env, root, count = self.roots()
        count.share_memory_()
        count.fill_(40)
        assert self.count(env, root) == 41

    def test_with_a_gradient(self) -> None:
        env, root, _ = self.roots()
        root["episode_reward"].requires_grad_()
        following = env.step(env.rand_action(root))
        assert following["next", "episode_reward"].requires_grad

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("step_count", torch.tensor([1.0])),
            ("step_count", torch.tensor([1, 2])),
            ("done", torch.tensor([0])),
        ],
    )
    def test_what_does_not_fit_is_refused(self, key: str, value: torch.Tensor) -> None:
        env, root, _ = self.roots()
        with pytest.raises(RuntimeError, match=key):
            env.step(env.rand_action(root).set(key, value))

    def test_what_is_missing_is_refused(self) -> None:
        env, root, _ = self.roots()
        with pytest.raises(KeyError, match="episode_reward"):
            env.step(env.rand_action(root).exclude("episode_reward"))

    def test_wrong_actions_are_refused(self) -> None:
        env, root, _ = self.roots()
        with pytest.raises(ValueError, match="action"):
            env.step(root.set("action", torch.tensor(2)))


def test_further_containers_are_not_shared() -> None:
    env = CartPoleGymTrain()
    root = env.rand_action(env.reset())
    root["more", "x"] = torch.zeros(2)
    record, following = env.step_and_maybe_reset(root)
    following["more", "y"] = torch.zeros(2)
    assert ("more", "y") not in record.keys(True)
    assert torch.equal(following["more", "x"], torch.zeros(2))


class TestWhoeverChangesTheStep:
    def test_a_subclass(self) -> None:
        class Doubled(CartPoleGymTrain):
            def _advance(self, root: Any, actions: Any) -> Any:
                following = super()._advance(root, actions)
                return following._replace(episode_reward=following.episode_reward * 2)

        env = Doubled()
        assert env.step(env.rand_action(env.reset()))["next", "episode_reward"] == 2

    def test_on_an_object(self) -> None:
        env = CartPoleGymTrain()
        root, advance = env.rand_action(env.reset()), env._advance
        env.step(root.clone())
        env._advance = lambda *given: advance(*given)._replace(step_count=torch.tensor([7]))
        assert env.step(root.clone())["next", "step_count"] == 7

    def test_tables(self) -> None:
        env = CartPoleGymTrain()
        root = env.rand_action(env.reset())
        env.step(root.clone())
        env.consts = env.consts._replace(reward_scaling_4_loc=torch.tensor(3.0))
        assert env.step(root.clone())["next", "reward"] > 3
