"""The sequence protocol of Compose, and how transforms know where they are."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from specgen_runtime.transforms import Compose, FunctionTransform, Transform, TransformedEnv
from specgen_std.transforms import InitTracker, ObservationNorm, RewardScaling, RewardSum, StepCounter
from tensordict import TensorDict

from tests.transforms.envs import Walk


class Shift(Transform):
    """Adds a number."""

    def __init__(self, by: float, key: str = "position") -> None:
        super().__init__(in_keys=[key], out_keys=[key])
        self.by = by

    def _apply_transform(self, obs: torch.Tensor) -> torch.Tensor:
        return obs + self.by


def test_sequence() -> None:
    first, second, third = Shift(1.0), Shift(2.0), Shift(3.0)
    chain = Compose(first, third)
    chain.insert(1, second)
    assert list(chain) == [first, second, third]
    assert len(chain) == 3
    assert chain[-1] is third
    assert chain.pop() is third
    assert third.container is None
    del chain[0]
    assert list(chain) == [second]
    chain[0] = third
    assert list(chain) == [third]
    with pytest.raises(ValueError, match="out of range for a chain of 1"):
        chain.insert(3, first)
    with pytest.raises(IndexError, match="out of range for a chain of 1"):
        chain.pop(1)


def test_chains_flatten_and_lists_are_taken() -> None:
    chain = Compose([Shift(1.0), Compose(Shift(2.0), Compose(Shift(3.0)))])
    assert [entry.by for entry in chain if isinstance(entry, Shift)] == [1.0, 2.0, 3.0]
    chain.append(Compose(Shift(4.0), Shift(5.0)))
    assert len(chain) == 5
    assert len(chain[1:3]) == 2


def test_order_in_and_out() -> None:
    seen: list[str] = []

    class Noisy(Transform):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def _call(self, next_tensordict: TensorDict) -> TensorDict:
            seen.append(f"out {self.name}")
            return next_tensordict

        def _inv_call(self, tensordict: TensorDict) -> TensorDict:
            seen.append(f"in {self.name}")
            return tensordict

    env = TransformedEnv(Walk(2), Compose(Noisy("a"), Noisy("b")))
    env.step(env.rand_action(env.reset()))
    assert seen == ["in b", "in a", "out a", "out b"]


def test_container_and_parent() -> None:
    env = TransformedEnv(Walk(2), Compose(StepCounter(), RewardSum(), InitTracker()))
    last = env.transform[2]
    assert last.container is env
    parent = last.parent
    assert isinstance(parent, TransformedEnv)
    assert "episode_reward" in parent.observation_spec
    assert "is_init" not in parent.observation_spec
    assert last.parent is parent
    rollout = parent.rollout(3)
    assert "episode_reward" in rollout
    assert "is_init" not in rollout


def test_a_transform_has_one_container() -> None:
    shared = Shift(1.0)
    Compose(shared)
    with pytest.raises(AttributeError, match="already part of another Compose"):
        TransformedEnv(Walk(), shared)
    TransformedEnv(Walk(), shared.clone())


def test_clone_shares_buffers_and_forgets_the_environment() -> None:
    env = TransformedEnv(Walk(2), ObservationNorm(0.0, 2.0, in_keys=["position"]))
    twin = env.transform.clone()
    assert twin.container is None
    assert twin.scale is env.transform.scale
    assert TransformedEnv(Walk(3), twin).rollout(2)["position"].shape == (3, 2, 3)


def test_append_and_insert_change_the_specs() -> None:
    env = TransformedEnv(Walk(2), RewardSum())
    assert "step_count" not in env.observation_spec
    assert env.append_transform(StepCounter()) is env
    assert "step_count" in env.observation_spec
    env.insert_transform(0, InitTracker())
    assert [type(entry).__name__ for entry in env.transform] == ["InitTracker", "RewardSum", "StepCounter"]
    env.transform.pop(0)
    assert "is_init" not in env.observation_spec
    assert "is_init" not in env.rollout(2)
    assert isinstance(Walk(2).append_transform(RewardSum()), TransformedEnv)


def test_nested_environments_become_one_chain() -> None:
    inner = TransformedEnv(Walk(2), RewardSum())
    outer = TransformedEnv(inner, StepCounter())
    assert isinstance(outer.base_env, Walk)
    assert len(outer.transform) == 2
    kept = TransformedEnv(inner, StepCounter(), auto_unwrap=False)
    assert kept.base_env is inner
    torch.manual_seed(0)
    flat = outer.rollout(5)
    torch.manual_seed(0)
    nested = kept.rollout(5)
    assert (flat == nested).all()


def test_functions_are_transforms() -> None:
    def double(tensordict: TensorDict) -> TensorDict:
        return tensordict.set("position", tensordict["position"] * 2)

    env = TransformedEnv(Walk(), double)
    assert isinstance(env.transform, FunctionTransform)
    plain = Walk().reset()["position"]
    assert torch.equal(env.reset()["position"], plain * 2)
    with pytest.raises(TypeError, match="write `Shift"):
        Compose(Shift)
    with pytest.raises(TypeError, match="expected a Transform"):
        TransformedEnv(Walk(), 3)
    with pytest.raises(TypeError, match="base_env is an environment"):
        TransformedEnv(Shift(1.0))


def test_replacing_the_transform() -> None:
    env = TransformedEnv(Walk(2), RewardSum())
    old = env.transform
    env.transform = StepCounter()
    assert old.container is None
    assert "episode_reward" not in env.observation_spec
    assert "step_count" in env.reset()


def test_copies_and_pickles() -> None:
    env = TransformedEnv(Walk(2), Compose(StepCounter(), RewardScaling(0.0, 0.5)))
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        torch.manual_seed(0)
        ours = env.rollout(3)
        torch.manual_seed(0)
        assert (twin.rollout(3) == ours).all()
        assert twin.transform[0].container is twin


def test_state_dict_is_that_of_the_transforms() -> None:
    env = TransformedEnv(Walk(2), RewardScaling(1.0, 0.5))
    assert set(env.state_dict()) == {"loc", "scale"}
    other = TransformedEnv(Walk(2), RewardScaling(0.0, 1.0))
    other.load_state_dict(env.state_dict())
    assert other.transform.scale == 0.5


def test_close_and_to() -> None:
    env = TransformedEnv(Walk(2), RewardScaling(1.0, 0.5))
    assert env.to("cpu") is env
    env.to(torch.float64)
    assert env.transform.scale.dtype == torch.float64
    env.close()
    assert env.is_closed
    assert env.base_env.is_closed
    with pytest.raises(RuntimeError, match="closed"):
        env.reset()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_device_moves_specs_and_buffers() -> None:
    env = TransformedEnv(Walk(2), Compose(StepCounter(), RewardScaling(1.0, 0.5)))
    env.to("cuda:0")
    assert env.device == torch.device("cuda:0")
    assert env.observation_spec["step_count"].device == torch.device("cuda:0")
    assert env.transform[1].scale.device == torch.device("cuda:0")


def test_offline_and_keywords() -> None:
    scaling = RewardScaling(1.0, 0.5)
    data = TensorDict({"reward": torch.ones(4, 1)}, [4])
    assert torch.equal(scaling(data)["reward"], torch.full((4, 1), 1.5))
    assert torch.equal(scaling(reward=torch.ones(2)), torch.full((2,), 1.5))
    with pytest.raises(TypeError, match="takes a tensordict or the keywords reward"):
        scaling(rewards=torch.ones(2))
    with pytest.raises(KeyError, match="reads 'reward'"):
        scaling(TensorDict({}, [4]))
    scaling.set_missing_tolerance(True)
    assert scaling(TensorDict({}, [4])).is_empty()


def test_specs_of_a_transformed_env_cannot_be_set() -> None:
    env = TransformedEnv(Walk(2), RewardSum())
    with pytest.raises(RuntimeError, match="follows from its base environment"):
        env.reward_spec = env.reward_spec.clone()
    with pytest.raises(RuntimeError, match="base environment"):
        env.batch_size = (3,)
