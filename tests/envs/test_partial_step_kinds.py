"""`_step` masks in rollouts, and of environments that reset themselves, come from Gymnasium or from the peer."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest
import torch
from specgen_runtime.envs import AutoResetEnv, EnvBase, GymEnv, GymWrapper
from specgen_runtime.specs import Bounded, Unbounded
from tensordict import TensorDict

from tests.envs.counting import Counting, Stateful
from tests.envs.partial_steps import SOME, Obedient, started, transformed


class TestRollouts:
    class Uneven(Counting):
        """The limit of each row is its place; tells how often each was stepped."""

        def __init__(self) -> None:
            super().__init__(batch_size=(3,), limit=100)
            self.taken = torch.zeros(3, dtype=torch.int64)

        def _step(self, tensordict: Any) -> TensorDict:
            mask = tensordict.get("_step", torch.ones(3, dtype=torch.bool))
            self.taken += mask
            after = super()._step(tensordict)
            after["terminated"] = after["count"] >= torch.tensor([[2], [4], [3]])
            return after

    def test_what_is_done_is_left_out(self) -> None:
        env = self.Uneven()
        data = env.rollout(10, break_when_all_done=True)
        assert data.batch_size == (3, 4)
        assert env.taken.tolist() == [2, 4, 3]
        assert data["next", "count"].squeeze(-1).tolist() == [[1, 2, 2, 2], [1, 2, 3, 4], [1, 2, 3, 3]]
        assert "_step" not in data.keys()  # noqa: SIM118
        assert torch.equal(data["action"][0, 1], data["action"][0, 3])

    def test_counters_do_not_count(self) -> None:
        env = transformed(self.Uneven())
        seen: list[Any] = []
        env.rollout(10, callback=lambda env, td: seen.append(td.clone()), break_when_all_done=True)
        assert env.base_env.taken.tolist() == [2, 4, 3]
        assert seen[-1]["next", "step_count"].flatten().tolist() == [2, 3, 3]
        root = env.step_mdp(seen[-1])
        assert root["step_count"].flatten().tolist() == [2, 3, 3]

    def test_state_elsewhere(self) -> None:
        obedient, careless = Obedient(), Stateful()
        for env in (obedient, careless):
            env.rollout(5, break_when_all_done=True)
            assert (env.count == 5).all()

        def end(env: Any, tensordict: Any) -> None:
            env.count[0] = 100

        for env, last in ((obedient, 101), (careless, 104)):  # what does not read masks steps all, as ever
            env.rollout(
                5,
                callback=lambda env, td: end(env, td) if td["observation"][0] == 0 else None,
                break_when_all_done=True,
            )
            assert env.count[0] == last


class TestAutoReset:
    class Looping(EnvBase):
        """Three counters to 2 that begin anew by themselves."""

        _supports_partial_steps = True

        def __init__(self) -> None:
            super().__init__(batch_size=(3,))
            self.count = torch.zeros(3, 1)
            self.action_spec = Bounded(-1.0, 1.0, shape=(3, 1))
            self.observation_spec = Unbounded((3, 1))

        def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
            self.count = torch.tensor([[0.0], [1.0], [0.0]])
            return TensorDict({"observation": self.count}, (3,))

        def _step(self, tensordict: Any) -> TensorDict:
            mask = tensordict.get("_step", torch.ones(3, dtype=torch.bool))[:, None]
            count = torch.where(mask, self.count + 1, self.count)
            ended = (count >= 2) & mask
            self.count = torch.where(ended, 10.0 * ended, count)
            self.count[ended] = -1.0
            return TensorDict({"observation": self.count, "reward": count, "terminated": ended}, (3,))

        def _set_seed(self, seed: int | None) -> None:
            pass

    def test_what_waits_waits_on(self) -> None:
        env = AutoResetEnv(self.Looping())
        root = env.step_mdp(env.step(started(env)))
        assert root["done"].flatten().tolist() == [False, True, False]
        assert root["observation"].isnan().flatten().tolist() == [False, True, False]
        after = env.step(env.rand_action(root).set("_step", torch.tensor([True, False, False])))
        assert after["next", "done"].flatten().tolist() == [True, True, False]
        assert after["next", "observation"].isnan().flatten().tolist() == [True, True, False]
        assert after["next", "observation"][2] == 1
        fresh = env.maybe_reset(env.step_mdp(after))
        assert fresh["observation"].flatten().tolist() == [-1, -1, 1]
        assert not fresh["done"].any()

    def test_rollouts(self) -> None:
        env = AutoResetEnv(self.Looping())
        data = env.rollout(9, break_when_all_done=True)
        assert data["next", "done"].squeeze(-1).tolist() == [[False, True], [True, True], [False, True]]
        assert env.base_env.count.flatten().tolist() == [-1, -1, -1]


class TestVectors:
    """Gymnasium's vector environments step all their environments, but for those that are over."""

    @pytest.fixture
    def vector(self) -> Any:
        env = GymWrapper(gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync"))
        env.set_seed(0)
        torch.manual_seed(0)
        yield env
        env.close()

    def test_others_are_refused(self, vector: Any) -> None:
        root = started(vector, SOME)
        with pytest.raises(
            NotImplementedError, match=r"\[1\], but a vector .* SerialEnv and ParallelEnv can"
        ):
            vector.step(root)
        del root["_step"]
        vector.step(root)

    def test_nothing(self, vector: Any) -> None:
        root = started(vector, torch.zeros(3, dtype=torch.bool))
        after = vector.step(root)
        assert torch.equal(after["next", "observation"], root["observation"])

    def test_what_is_over(self, vector: Any) -> None:
        data = vector.rollout(200, break_when_any_done=True)
        root = vector.step_mdp(data[:, -1])
        over = root["done"].squeeze(-1)
        assert over.any()
        assert not over.all()
        after = vector.step(vector.rand_action(root).set("_step", ~over))
        assert torch.equal(after["next", "observation"][over], root["observation"][over])
        assert (after["next", "reward"].squeeze(-1) == (~over).float()).all()
        assert vector.rollout(200, break_when_all_done=True)["next", "done"][:, -1].all()


@pytest.mark.peers
def test_the_peer_agrees() -> None:
    """Where its masks are right: the same rows step, the others stay with reward 0."""
    torchrl_envs = pytest.importorskip("torchrl.envs")
    from specgen_runtime.envs import SerialEnv

    def make_peer() -> Any:
        return torchrl_envs.GymEnv("CartPole-v1", categorical_action_encoding=True)

    def make() -> Any:
        return GymEnv("CartPole-v1", categorical_action_encoding=True)

    peer, ours = torchrl_envs.SerialEnv(3, make_peer), SerialEnv(3, make)
    root = ours.reset()
    action = torch.tensor([0, 1, 1])
    theirs = peer.reset().set("action", action).set("_step", SOME)
    kept = theirs["observation"][1].clone()
    after = peer.step(theirs)["next"]
    assert torch.equal(after["observation"][1], kept)
    assert after["reward"].flatten().tolist() == [1, 0, 1]
    own = ours.step(root.set("action", action).set("_step", SOME))["next"]
    assert torch.equal(own["observation"][1], root["observation"][1])
    assert own["reward"].flatten().tolist() == [1, 0, 1]
    assert set(own.keys()) == set(after.keys())
    # Where it differs: the mask stays, and the next step is a partial one again.
    assert "_step" in peer.step_mdp(theirs).keys()  # noqa: SIM118
    assert "_step" not in ours.step_mdp(root).keys()  # noqa: SIM118
    peer.close()
    ours.close()


@pytest.mark.peers
def test_batches_of_the_peer_are_asked_to() -> None:
    torchrl_envs = pytest.importorskip("torchrl.envs")
    from specgen_runtime.interop import from_torchrl

    env = from_torchrl(torchrl_envs.SerialEnv(3, lambda: torchrl_envs.GymEnv("CartPole-v1")))
    for _ in range(2):
        root = started(env, SOME)
        after = env.step(root)
        following = env.step(env.rand_action(env.step_mdp(after)).set("_step", ~SOME))["next"]
        assert torch.equal(after["next", "observation"][1], root["observation"][1])
        assert not torch.equal(following["observation"][1], root["observation"][1])
        assert (following["observation"][1] - root["observation"][1]).abs().max() < 0.5  # one step
    assert env.rollout(200, break_when_all_done=True)["next", "done"][:, -1].all()
    env.close()
