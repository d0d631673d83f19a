"""What `DeployedPolicy` refuses, when it is made and when it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from specgen_runtime.deployment import DeployedPolicy
from specgen_runtime.deployment.observed_env import ObservedEnv
from specgen_runtime.envs import EnvBase, ParallelEnv
from specgen_runtime.envs.generated.specs import EnvSpecs
from specgen_runtime.modules import GRUModule
from specgen_runtime.specs import Binary, Bounded, Categorical, Composite, Unbounded
from specgen_runtime.transforms import TransformedEnv
from specgen_std.envs.bit_flip import BitFlip
from specgen_std.envs.pendulum import Pendulum
from specgen_std.transforms import CatFrames, InitTracker, MultiAction, RewardSum, TargetReturn
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn


def linear(inputs: int, outputs: int, key: Any = "observation") -> TensorDictModule:
    return TensorDictModule(nn.Linear(inputs, outputs), in_keys=[key], out_keys=["action"])


def remembering() -> TensorDictSequential:
    memory = GRUModule(
        3, 8, in_keys=["observation", "memory_h", "is_init"], out_keys=["features", ("next", "memory_h")]
    )
    return TensorDictSequential(memory, linear(8, 1, "features"))


def _reads_return() -> tuple[nn.Module, EnvBase[Any]]:
    return linear(1, 1, "episode_reward"), TransformedEnv(Pendulum(), RewardSum())


def _reads_target() -> tuple[nn.Module, EnvBase[Any]]:
    return linear(1, 1, "target_return"), TransformedEnv(Pendulum(), TargetReturn(5.0))


def _function() -> tuple[nn.Module, EnvBase[Any]]:
    return linear(3, 1), TransformedEnv(Pendulum(), lambda data: data)


def _several_actions() -> tuple[nn.Module, EnvBase[Any]]:
    return linear(3, 1), TransformedEnv(Pendulum(), MultiAction(steps=2))


def _no_primer() -> tuple[nn.Module, EnvBase[Any]]:
    return remembering(), TransformedEnv(Pendulum(), InitTracker())


def _unknown() -> tuple[nn.Module, EnvBase[Any]]:
    return linear(3, 1, "observations"), Pendulum()


def _no_action() -> tuple[nn.Module, EnvBase[Any]]:
    return TensorDictModule(nn.Linear(3, 1), in_keys=["observation"], out_keys=["torque"]), Pendulum()


def _other_sizes() -> tuple[nn.Module, EnvBase[Any]]:
    return linear(4, 1), Pendulum()


def _one_word_of_two_keys() -> tuple[nn.Module, EnvBase[Any]]:
    flag = Categorical(2, shape=(1,), dtype=torch.bool)
    a = Unbounded((3,))
    specs = EnvSpecs(
        action=Composite(action=Unbounded((1,))),
        observation=Composite({"a.b": a, "a": Composite(b=a.clone())}),
        reward=Composite(reward=Unbounded((1,))),
        done=Composite(done=flag, terminated=flag.clone(), truncated=flag.clone()),
    )
    return linear(3, 1, "a.b"), ObservedEnv(specs, {}, batch_size=(), device=None)


def _plain_module() -> tuple[nn.Module, EnvBase[Any]]:
    return nn.Linear(3, 1), Pendulum()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            _reads_return,
            ValueError,
            "the policy reads 'episode_reward', which follows from the reward 'reward'",
        ),
        (
            _reads_target,
            ValueError,
            "the policy reads 'target_return', which follows from the reward 'reward'",
        ),
        (_function, ValueError, "a function of a tensordict in the chain"),
        (_several_actions, ValueError, "MultiAction takes several steps"),
        (_no_primer, ValueError, "leaves memory_h to its next call"),
        (_unknown, ValueError, "the policy reads observations, which neither the environment observes"),
        (_no_action, KeyError, "the environment takes 'action', and the policy writes 'torque'"),
        (_other_sizes, ValueError, r"does not take what this environment observes, observation \[3\]: mat1"),
        (_one_word_of_two_keys, ValueError, r"'a.b' and \('a', 'b'\) would both be called 'a.b'"),
        (_plain_module, TypeError, "needs a policy with in_keys and out_keys, got Linear"),
    ],
)
def test_refused(make: Any, error: type[Exception], message: str) -> None:
    policy, env = make()
    with pytest.raises(error, match=message):
        DeployedPolicy(policy, env)


def test_other_processes_are_refused() -> None:
    env = ParallelEnv(2, Pendulum)
    with pytest.raises(TypeError, match="the transforms of a ParallelEnv are in other processes"):
        DeployedPolicy(linear(3, 1), env)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"observation": [0.0, 1.0]}, ValueError, r"'observation' of the shape \[3\], and was given \[2\]"),
        ({"observation": [[0.0, 1.0, 2.0]]}, ValueError, r"of the shape \[3\], and was given \[1, 3\]"),
        ({"observation": ["a", "b", "c"]}, TypeError, "'observation' as numbers, and was given"),
        ({"observation": None}, TypeError, "'observation' as numbers, and was given None"),
        ({}, KeyError, r"is given \[\], and reads \['observation'\]"),
        ({"observation": [0.0] * 3, "x": 1}, KeyError, "reads"),
        (
            {"observation": [0.0, float("nan"), 0.0]},
            ValueError,
            r"gives NaN as 'action' for \{'observation': \[0.0, nan",
        ),
        ([0.0] * 3, TypeError, r"reads \['observation'\] by their names, and was given list"),
    ],
)
def test_wrong_observations(given: Mapping[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        DeployedPolicy(linear(3, 1), Pendulum()).act(given)


def test_a_sensor_that_fails_is_not_remembered() -> None:
    env = TransformedEnv(Pendulum(), CatFrames(2, -1, in_keys=["observation"]))
    agent, other = (DeployedPolicy(linear(6, 1), env) for _ in range(2))
    other.load_state_dict(agent.state_dict())
    for one in (agent, other):
        one.act({"observation": [1.0, 0.0, 0.0]})
    with pytest.raises(ValueError, match="NaN"):
        agent.act({"observation": torch.full((3,), float("nan"), requires_grad=True)})
    following = {"observation": [0.0, 1.0, 0.5]}
    assert agent.act(following)["action"].tolist() == other.act(following)["action"].tolist()


def test_what_the_policy_does_not_read_may_be_given() -> None:
    env = BitFlip()
    policy = TensorDictModule(lambda goal: goal.argmax(-1), in_keys=["desired_goal"], out_keys=["action"])
    agent = DeployedPolicy(policy, env)
    data = env.reset()
    given = {key: data[key] for key in ("observation", "achieved_goal", "desired_goal")}
    assert agent.in_keys == ["desired_goal"]
    assert int(agent.act(given)["action"]) == int(data["desired_goal"].argmax())


def test_a_state_of_nothing() -> None:
    agent = DeployedPolicy(linear(3, 1), Pendulum())
    with pytest.raises(KeyError, match=r"the state lacks begins: it is what `forward` gave before"):
        agent({"observation": torch.zeros(3)}, {})


def test_a_batch_size_is_a_list() -> None:
    with pytest.raises(TypeError, match=r"the sizes of all dimensions, \[2\], got 2"):
        DeployedPolicy(linear(3, 1), Pendulum(), batch_size=2)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mask", "found"),
    [([1.0, 0.0], "float64"), ([1, 0], "int64"), (torch.ones(2, dtype=torch.uint8), "uint8")],
)
def test_a_number_is_no_truth_value(mask: Any, found: str) -> None:
    class Masked(ObservedEnv):
        """Two choices with a mask."""

    flag = Categorical(2, shape=(1,), dtype=torch.bool)
    env = Masked(
        EnvSpecs(
            action=Composite(action=Categorical(2)),
            observation=Composite(action_mask=Binary(2, dtype=torch.bool)),
            reward=Composite(reward=Unbounded((1,))),
            done=Composite(done=flag, terminated=flag.clone(), truncated=flag.clone()),
        ),
        {},
        batch_size=(),
        device=None,
    )
    policy = TensorDictModule(
        lambda mask: mask.int().argmax(-1), in_keys=["action_mask"], out_keys=["action"]
    )
    agent = DeployedPolicy(policy, env)
    assert int(agent.act({"action_mask": [False, True]})["action"]) == 1
    with pytest.raises(TypeError, match=f"'action_mask' as bool, which {found} is not"):
        agent.act({"action_mask": mask})


def test_integers_do_not_wrap() -> None:
    flag = Categorical(2, shape=(1,), dtype=torch.bool)
    specs = EnvSpecs(
        action=Composite(action=Categorical(256)),
        observation=Composite(pixels=Bounded(0, 255, (2,), dtype=torch.uint8)),
        reward=Composite(reward=Unbounded((1,))),
        done=Composite(done=flag, terminated=flag.clone(), truncated=flag.clone()),
    )
    policy = TensorDictModule(lambda pixels: pixels.long().sum(), in_keys=["pixels"], out_keys=["action"])
    agent = DeployedPolicy(policy, ObservedEnv(specs, {}, batch_size=(), device=None))
    assert int(agent.act({"pixels": [200, 3]})["action"]) == 203
    for wrong in ([300, 3], [-1, 3]):
        with pytest.raises(ValueError, match="'pixels' as uint8, and was given"):
            agent.act({"pixels": wrong})


def test_a_class_is_no_environment() -> None:
    with pytest.raises(TypeError, match="needs an environment, which is an object, got <class"):
        DeployedPolicy(linear(3, 1), Pendulum)  # type: ignore[arg-type]


def test_it_stays_on_its_device() -> None:
    with pytest.raises(RuntimeError, match="stays on the device"):
        DeployedPolicy(linear(3, 1), Pendulum()).to("cpu")
    with pytest.raises(RuntimeError, match="in its dtypes"):
        DeployedPolicy(linear(3, 1), Pendulum()).half()
