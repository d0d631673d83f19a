"""The documentation's examples with specs, under their old names: the same keys, shapes, dtypes and kinds.

TorchRL renamed its spec classes after the documentation was written; the old names are aliases here, with a
DeprecationWarning.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from specgen_runtime import specs
from specgen_runtime.envs import GymEnv
from specgen_runtime.specs import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    Stacked,
    StackedComposite,
    TensorSpec,
    UnboundedContinuous,
    UnboundedDiscrete,
)

OLD_NAMES = {
    "BinaryDiscreteTensorSpec": Binary,
    "BoundedTensorSpec": Bounded,
    "CompositeSpec": Composite,
    "DiscreteTensorSpec": Categorical,
    "LazyStackedCompositeSpec": StackedComposite,
    "LazyStackedTensorSpec": Stacked,
    "MultiDiscreteTensorSpec": MultiCategorical,
    "MultiOneHotDiscreteTensorSpec": MultiOneHot,
    "NonTensorSpec": NonTensor,
    "OneHotDiscreteTensorSpec": OneHot,
    "UnboundedContinuousTensorSpec": UnboundedContinuous,
    "UnboundedDiscreteTensorSpec": UnboundedDiscrete,
}
ACTION = ("BoundedTensorSpec", (1,), torch.float32)
OBSERVATION = ("BoundedTensorSpec", (3,), torch.float32)
REWARD = ("UnboundedContinuousTensorSpec", (1,), torch.float32)
DONE = ("DiscreteTensorSpec", (1,), torch.bool)


def old(name: str) -> Any:
    """The class that the documentation calls `name`."""
    with pytest.warns(DeprecationWarning, match=name):
        return getattr(specs, name)


def matches(spec: TensorSpec, printed: Any) -> None:
    """Check a spec against what the documentation prints: kind, shape and dtype; entry by entry for a dict.

    Further entries are allowed: an environment tells `terminated` and `truncated` apart from `done` by now.
    """
    if isinstance(printed, dict):
        assert isinstance(spec, old("CompositeSpec"))
        for name, entry in printed.items():
            matches(spec[name], entry)
        return
    kind, shape, dtype = printed
    assert isinstance(spec, old(kind)), spec
    assert spec.shape == shape
    assert spec.dtype == dtype
    assert spec.device == torch.device("cpu")
    assert spec.domain == ("continuous" if dtype.is_floating_point else "discrete")


@pytest.fixture
def env() -> Any:
    pytest.importorskip("gymnasium")
    pendulum = GymEnv("Pendulum-v1")
    yield pendulum
    pendulum.close()


@pytest.mark.parametrize("name", OLD_NAMES)
def test_old_names(name: str) -> None:
    assert old(name) is OLD_NAMES[name]


def test_an_unknown_name_is_no_old_name() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(AttributeError, match="NoSuchTensorSpec"):
            getattr(specs, "NoSuchTensorSpec")  # noqa: B009  # a type checker knows that it is not there
        assert specs.Composite is Composite


def test_pendulum(env: Any) -> None:
    assert env.batch_size == torch.Size([])
    matches(env.action_spec, ACTION)
    assert env.action_spec.space.low.shape == env.action_spec.space.high.shape == (1,)
    matches(env.observation_spec, {"observation": OBSERVATION})
    matches(env.reward_spec, REWARD)
    matches(env.done_spec["done"], DONE)
    matches(env.input_spec, {"full_action_spec": {"action": ACTION}})
    matches(
        env.output_spec,
        {
            "full_reward_spec": {"reward": REWARD},
            "full_observation_spec": {"observation": OBSERVATION},
            "full_done_spec": {"done": DONE},
        },
    )
    assert env.state_spec.is_empty()
    assert env.observation_spec.shape == env.state_spec.shape == ()


def test_a_simple_action_spec(env: Any) -> None:
    env.action_spec = old("UnboundedContinuousTensorSpec")(1)
    matches(env.action_spec, ("UnboundedContinuousTensorSpec", (1,), torch.float32))
    matches(
        env.input_spec["full_action_spec"],
        {"action": ("UnboundedContinuousTensorSpec", (1,), torch.float32)},
    )


def test_a_nested_action_spec(env: Any) -> None:
    unbounded, composite = old("UnboundedContinuousTensorSpec"), old("CompositeSpec")
    env.action_spec = composite({"nested": {"action": unbounded(1)}})
    matches(env.action_spec, ("UnboundedContinuousTensorSpec", (1,), torch.float32))
    assert list(env.input_spec["full_action_spec"].keys(True, True)) == [("nested", "action")]


def test_several_actions(env: Any) -> None:
    unbounded, composite, discrete = (
        old("UnboundedContinuousTensorSpec"),
        old("CompositeSpec"),
        old("DiscreteTensorSpec"),
    )
    env.action_spec = composite({"nested": {"action": unbounded(1), "another_action": discrete(1)}})
    matches(
        env.action_spec,
        {
            "nested": {
                "action": ("UnboundedContinuousTensorSpec", (1,), torch.float32),
                "another_action": ("DiscreteTensorSpec", (), torch.int64),
            }
        },
    )
    assert env.action_spec["nested", "another_action"].space.n == 1
    assert env.action_spec.shape == ()


def test_a_reward_spec(env: Any) -> None:
    unbounded, composite = old("UnboundedContinuousTensorSpec"), old("CompositeSpec")
    env.reward_spec = unbounded(1)
    matches(env.reward_spec, REWARD)
    env.reward_spec = composite({"nested": {"reward": unbounded(1)}})
    matches(env.reward_spec, REWARD)
    matches(env.output_spec["full_reward_spec"], {"nested": {"reward": REWARD}})
    env.reward_spec = composite({"nested": {"reward": unbounded(1), "another_reward": unbounded((1,))}})
    matches(env.reward_spec, {"nested": {"reward": REWARD, "another_reward": REWARD}})


def test_a_done_spec(env: Any) -> None:
    """The documentation's done specs have no dimension; TorchRL and we ask for one."""
    discrete, composite = old("DiscreteTensorSpec"), old("CompositeSpec")
    for spec in (
        discrete(2, dtype=torch.bool),
        composite({"nested": {"done": discrete(2, dtype=torch.bool)}}),
    ):
        with pytest.raises(RuntimeError):
            env.done_spec = spec
    with pytest.raises(RuntimeError):
        env.reward_spec = composite({"nested": {"another_reward": discrete(1)}})
    env.done_spec = composite({"nested": {"done": discrete(2, (1,), dtype=torch.bool)}})
    matches(env.output_spec["full_done_spec"], {"nested": {"done": DONE}})
