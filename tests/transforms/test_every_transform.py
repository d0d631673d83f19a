"""What every transform, chain and transformed environment promises, whatever it computes."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.specs import Composite, TensorSpec
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_runtime.typing import NestedKey
from specgen_std.transforms import ObservationNorm, RewardScaling, RewardSum, StepCounter
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

from tests.transforms.envs import Walk


class Add(Transform):
    """Adds what it is made with; takes it away on the way in."""

    invertible = True

    def __init__(self, by: float, in_key: str = "a", out_key: str = "a") -> None:
        super().__init__([in_key], [out_key], [out_key], [in_key])
        self.by = by

    def _apply_transform(self, obs: torch.Tensor) -> torch.Tensor:
        return obs + self.by

    def _inv_apply_transform(self, state: torch.Tensor) -> torch.Tensor:
        return state - self.by


class Collector:
    """Stands for a collector: all that is asked is that it can be referred to weakly."""


def test_calls_with_tensors() -> None:
    add = Add(2.0)
    assert add(torch.ones(3)).tolist() == [3.0] * 3
    assert add(a=torch.ones(3)).tolist() == [3.0] * 3
    data = TensorDict(a=torch.ones(3))
    assert add(tensordict=data) is data
    assert data["a"].tolist() == [3.0] * 3
    assert add.inv(torch.ones(3)).tolist() == [-1.0] * 3
    assert add.inv(a=torch.ones(3)).tolist() == [-1.0] * 3
    back = add.inv(data)
    assert back["a"].tolist() == [1.0] * 3
    assert data["a"].tolist() == [3.0] * 3  # the input stays


@pytest.mark.parametrize(
    "wrong", [{"b": torch.ones(1)}, {}, {"a": torch.ones(1), "tensordict": TensorDict()}]
)
def test_calls_that_do_not_fit(wrong: dict[str, torch.Tensor]) -> None:
    with pytest.raises(TypeError, match="Add takes a tensordict or the keywords a"):
        Add(1.0)(**wrong)
    with pytest.raises(TypeError, match="2 tensors"):
        Add(1.0)(torch.ones(1), torch.ones(1))


@pytest.mark.parametrize("given", [None, 5, {"a": torch.ones(1)}, [torch.ones(1)]])
@pytest.mark.parametrize(
    "make", [lambda: Add(1.0), lambda: RewardSum(), lambda: Compose(Add(1.0), RewardSum())]
)
def test_what_is_no_tensordict(make: Callable[[], Transform], given: Any) -> None:
    name = type(make()).__name__
    with pytest.raises(TypeError, match=f"{name} takes a tensordict or tensors, got {type(given).__name__}"):
        make()(given)
    with pytest.raises(TypeError, match=f"got {type(given).__name__}"):
        make()(tensordict=given)


def test_nested_keys_by_keyword() -> None:
    norm = ObservationNorm(1.0, 2.0, in_keys=[("agents", "x")])
    assert norm(agents_x=torch.ones(2)).tolist() == [3.0, 3.0]


def test_keys_of_a_chain() -> None:
    chain = Compose(Add(1.0, "a", "b"), Add(1.0, "b", "c"), Add(1.0, "x", "y"))
    assert chain.in_keys == ["a", "x"]
    assert chain.out_keys == ["b", "c", "y"]
    assert chain.out_keys_inv == ["x", "b", "a"]
    assert chain.in_keys_inv == ["y", "c", "b"]
    made = Compose(Add(1.0, "a", "b"), Add(1.0, "b", "c"))(a=torch.zeros(2))
    assert [each.tolist() for each in made] == [[1.0, 1.0], [2.0, 2.0]]
    assert Compose(Add(2.0), Add(3.0)).inv(torch.zeros(1)).item() == -5.0


def test_as_modules() -> None:
    chain = Compose(Add(1.0, "a", "b"))
    model = TensorDictSequential(chain, TensorDictModule(nn.Identity(), ["b"], ["c"]))
    assert model.in_keys == ["a"]
    assert model(TensorDict(a=torch.zeros(2)))["c"].tolist() == [1.0, 1.0]
    assert nn.Sequential(chain, nn.Identity())(TensorDict(a=torch.zeros(2)))["b"].tolist() == [1.0, 1.0]


def test_missing_tolerance_of_an_environment() -> None:
    env = TransformedEnv(Walk(2), Compose(Add(1.0, "position", "position")))
    env.set_missing_tolerance(True)
    assert env.transform[0].missing_tolerance
    env.set_missing_tolerance()
    assert not env.transform[0].missing_tolerance
    with pytest.raises(KeyError, match="Add reads 'position'"):
        env.transform(TensorDict(b=torch.ones(1)))


def test_the_collector_is_found() -> None:
    inside = TransformedEnv(Walk(2), RewardSum())
    env = TransformedEnv(inside, Compose(StepCounter()), auto_unwrap=False)
    assert env.transform[0].collector is None
    assert RewardSum().collector is None
    runs, other = Collector(), Collector()
    inside.register_collector(other)
    assert env.transform[0].collector is other
    env.register_collector(runs)
    assert env.transform[0].collector is runs
    assert inside.transform.collector is other
    assert pickle.loads(pickle.dumps(env)).collector is None
    del runs
    gc.collect()
    assert env.transform[0].collector is None


def test_recordings_are_written_out() -> None:
    written = []

    class Recorder(Transform):
        def dump(self, **kwargs: object) -> None:
            written.append(kwargs)

    Compose(Recorder(), StepCounter(), Recorder()).dump(suffix="x")
    assert written == [{"suffix": "x"}, {"suffix": "x"}]


def test_functions_are_transforms() -> None:
    def count(data: TensorDictBase) -> TensorDictBase:
        return data.set("y", data["y"] + 1 if "y" in data else torch.zeros(data.shape))

    env = TransformedEnv(Walk(2), count)
    env.append_transform(count)
    env.insert_transform(0, count)
    env.transform.append(count)  # type: ignore[attr-defined]
    assert env.reset()["y"].tolist() == [3.0, 3.0]
    env.transform = count
    assert env.reset()["y"].tolist() == [0.0, 0.0]


def test_specs_follow_the_chain() -> None:
    env = TransformedEnv(Walk(2), RewardScaling(0.0, 0.5))
    assert "step_count" not in env.observation_spec
    env.append_transform(StepCounter(max_steps=3))
    assert "step_count" in env.observation_spec
    before = env.observation_spec
    assert env.observation_spec is before  # once
    counter = env.transform[1]
    assert counter.parent.full_reward_spec == env.full_reward_spec
    assert "step_count" not in counter.parent.observation_spec
    assert env.transform.pop() is counter
    assert "step_count" not in env.observation_spec
    assert counter.parent is None
    check_env_specs(env)


def test_an_internal_error_is_not_taken_for_a_missing_attribute() -> None:
    """Else the spec of the environment inside would be given, silently."""

    class Broken(Transform):
        def transform_observation_spec(self, observation_spec: Composite) -> Composite:
            raise AttributeError("no such thing")

    env = TransformedEnv(Walk(2), Broken())
    with pytest.raises(AttributeError, match=r"because an internal error was raised: .*no such thing"):
        _ = env.observation_spec
    for use in (env.reset, lambda: env.rollout(2)):
        with pytest.raises(AttributeError, match=r"internal error was raised: .*no such thing"):
            use()
    with pytest.raises(
        AttributeError, match="'Walk' object has no attribute 'tralala', nor has the TransformedEnv"
    ):
        _ = env.tralala
    assert env.dtype == torch.float32  # what the environment inside has


def test_an_internal_error_of_a_transform_s_specs_is_shown() -> None:
    class Broken(RewardSum):
        def _added_specs(self) -> dict[NestedKey, TensorSpec]:
            raise AttributeError("no such thing")

    for name in ("observation_spec", "reward_keys"):
        with pytest.raises(
            AttributeError, match=r"internal error was raised: AttributeError.'no such thing'"
        ):
            getattr(TransformedEnv(Walk(2), Broken()), name)
    with pytest.raises(AttributeError, match="'RewardSum' object has no attribute 'tralala'"):
        _ = RewardSum().tralala  # type: ignore[attr-defined]


def test_chains_are_taken_apart() -> None:
    env = TransformedEnv(Walk(2), Compose(RewardSum(), StepCounter()))
    copy = env.transform.clone()
    longer = Compose(*copy, Add(1.0, "position", "moved"))  # type: ignore[misc]
    assert len(longer) == 3
    with pytest.raises(AttributeError, match="already part of another Compose"):
        Compose(*env.transform)  # type: ignore[misc]


def test_done_after_a_reset_is_the_base_environment_s() -> None:
    base = Walk(2)
    env = TransformedEnv(base, RewardSum())
    base._allow_done_after_reset = True
    assert env._allow_done_after_reset
    with pytest.raises(RuntimeError, match="a read-only property for TransformedEnvs"):
        env._allow_done_after_reset = False
    with pytest.raises(RuntimeError, match="batch_locked is a read-only property"):
        env.batch_locked = False
