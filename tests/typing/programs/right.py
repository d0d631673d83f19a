"""A training step with a generated environment, chain and loss: nothing here is a type error."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, assert_type

import torch
from specgen_runtime.envs import EnvBase, ParallelEnv, SerialEnv, check_env_specs
from specgen_runtime.modules import EGreedyModule, QValueActor
from specgen_runtime.objectives import SoftUpdate
from specgen_runtime.specs import Bounded, Composite, TensorSpec, Unbounded
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_runtime.typing import TensorDict, TensorDictBase
from specgen_std.chains import CartPoleGymTrain, CartPoleTrain, CartPoleTrainData
from specgen_std.chains.cartpole import CartPoleTrainNextData
from specgen_std.envs import Pendulum
from specgen_std.envs.pendulum import PendulumParams
from specgen_std.losses import ClipPPOLoss, DQNLoss
from specgen_std.transforms import InitTracker, RewardSum, StepCounter
from torch import Tensor, nn


def play(env: CartPoleTrain, policy: Callable[[TensorDict], TensorDict]) -> float:
    """Read entries of a rollout, at the root and in `next`."""
    data = env.rollout(100, policy, break_when_any_done=False)
    observation: Tensor = data["observation"]
    reward: Tensor = data["next", "reward"]
    after: Tensor = data["next"]["observation"]
    ended = data["next", "terminated"] | data["next", "truncated"]
    started = data.get("is_init")
    length = data.get(("next", "step_count")).max()
    first = data[0]["observation"]
    flat = data.reshape(-1)
    for step in data.unbind(-1):
        assert step is not None
    print(
        observation.shape,
        after.shape,
        first.shape,
        ended.sum(),
        started.sum(),
        length,
        len(flat),
        env.params.gravity,
    )
    return float(reward.sum()) + float(data["next", "episode_reward"].mean())


def step_by_step(env: CartPoleTrain) -> Tensor:
    """Step and reset by hand."""
    root = env.reset()
    root = env.rand_action(root)
    root["action"] = torch.zeros(env.batch_size, dtype=torch.int64)
    root.set("action", torch.ones(env.batch_size, dtype=torch.int64))
    transition = env.step(root)
    transition, root = env.step_and_maybe_reset(env.rand_action(root))
    total: Tensor = transition["next", "episode_reward"]
    root["_reset"] = torch.ones(*env.batch_size, 1, dtype=torch.bool)
    root = env.reset(root)
    return total + root["step_count"]


def keys(data: CartPoleTrainData, name: str) -> CartPoleTrainNextData:
    """Keys that may be missing, keys of one's own, keys that are known at run time only, keys that environments name."""
    env = CartPoleTrain()
    assert_type(data["next", "reward"], Tensor)
    assert_type(data["next"]["reward"], Tensor)
    assert_type(data.get("step_count", None), Tensor | None)
    assert_type(data.get(("next", "reward"), 0.0), Tensor | float)
    anything = data.get(name, None)
    assert_type(data.get("own", None), Any)
    data["own"] = data["observation"]
    data["next", "own"] = data["next", "observation"]
    data[name] = data["next", name] = anything
    assert_type(data[env.action_key], Tensor)
    assert_type(data["next", env.reward_key], Tensor)
    data.set(env.action_key, data["action"])
    key: Literal["x", "theta"]
    for key in ("x", "theta"):
        assert_type(data[key], Tensor)
        assert_type(data["next", key], Tensor)
    for first in (0, slice(0, 5), torch.tensor([True]), ..., (0, None)):
        assert_type(data[first], CartPoleTrainData)
    return data["next"]


def own_specs(env: Pendulum, discrete: CartPoleTrain) -> None:
    """Specs have the classes that they are declared as."""
    assert_type(env.action_spec.high, Tensor)
    assert_type(env.full_action_spec["action"], Bounded)
    assert_type(env.observation_spec["observation"].low, Tensor)
    assert_type(env.full_observation_spec.get("thdot", None), Bounded | None)
    assert_type(env.full_reward_spec["reward"], Unbounded)
    assert_type(env.full_done_spec["terminated"].n, int)
    assert_type(discrete.action_spec.n, int)
    assert_type(discrete.action_spec_unbatched.n, int)
    assert_type(discrete.state_spec["step_count"], Bounded)
    assert_type(discrete.full_observation_spec_unbatched["is_init"].n, int)
    narrower = discrete.observation_spec.clone()
    narrower["observation"] = Unbounded((4,))
    discrete.observation_spec = narrower
    any_specs(env)


def any_specs(env: EnvBase) -> None:
    """Of an environment that may be any, the specs are any."""
    assert_type(env.action_spec, TensorSpec)
    assert_type(env.observation_spec["observation"], TensorSpec)
    assert_type(env.full_done_spec, Composite)
    assert_type(env.reward_key, str | tuple[str, ...])


def batches() -> None:
    """Batches keep the data type of what they hold."""
    assert_type(SerialEnv(2, CartPoleTrain).rollout(3), CartPoleTrainData)
    assert_type(SerialEnv(2, lambda: CartPoleTrain(gravity=9.0)).reset(), CartPoleTrainData)
    assert_type(SerialEnv(2, partial(CartPoleTrain, gravity=9.0)).rollout(3), CartPoleTrainData)
    assert_type(SerialEnv(2, [CartPoleTrain, CartPoleTrain]).rollout(3), CartPoleTrainData)
    assert_type(ParallelEnv(2, CartPoleTrain).rollout(3)["next", "episode_reward"], Tensor)
    assert_type(ParallelEnv(2, lambda: CartPoleTrain()).rollout(3), CartPoleTrainData)
    assert_type(ParallelEnv(2, partial(CartPoleTrain, gravity=9.0)).reset(), CartPoleTrainData)


def specs(env: Pendulum) -> list[tuple[int, ...]]:
    """Read specs and parameters."""
    action: TensorSpec = env.action_spec
    observation: Composite = env.observation_spec
    bounded = observation["observation"]
    assert isinstance(bounded, Bounded)
    own_specs(env, CartPoleTrain())
    params: PendulumParams = env.params
    print(params.g * params.m, env.batch_size, env.device, env.action_key, env.reward_keys, action.dtype)
    return [tuple(action.shape), tuple(bounded.shape), tuple(env.full_reward_spec["reward"].shape)]


def schedule(loss_module: ClipPPOLoss, done: float) -> Tensor:
    """Assign what a loss reads at each call."""
    loss_module.clip_epsilon = 0.2 * (1 - done)
    loss_module.critic_coeff = torch.tensor(0.5)
    loss_module.entropy_coeff = {"move": 0.01, ("arm", "force"): 0.001}
    return loss_module.entropy_coeff.sum()


def train(env: CartPoleTrain) -> float:
    """One update."""
    actor = QValueActor(nn.Linear(4, 2), in_keys=["observation"], spec=env.action_spec)
    explore = EGreedyModule(env.action_spec, eps_init=0.1, eps_end=0.01, annealing_num_steps=100)

    def policy(root: TensorDict) -> TensorDict:
        return explore(actor(root))

    loss_module = DQNLoss(actor, loss_function="smooth_l1", delay_value=True, double_dqn=True)
    loss_module.set_keys(priority="priority", reward=("next", "reward"))
    loss_module.make_value_estimator(gamma=0.98)
    updater = SoftUpdate(loss_module, tau=0.005)
    optimizer = torch.optim.Adam(loss_module.parameters(), lr=1e-3)
    data = env.rollout(20, policy)
    print(play(env, policy), keys(data, "observation"))
    batches()
    out = loss_module(data.reshape(-1))
    loss: Tensor = out["loss"]
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    updater.step()
    print(
        loss_module.tensor_keys.priority, loss_module.loss_function, loss_module.target_value_network_params
    )
    return float(loss)


def dynamic(base: EnvBase) -> TensorDictBase:
    """The dynamic transforms, whose keys no checker can know."""
    env = TransformedEnv(base, Compose(InitTracker(), StepCounter(max_steps=10), RewardSum()))
    check_env_specs(env)
    data = env.rollout(3)
    anything: Tensor = data["whatever"]
    print(anything)
    return data


def main() -> None:
    """Use it all."""
    env = CartPoleTrain(force_mag=9.0, batch_size=[8], device="cpu")
    env.set_seed(0)
    print(train(env), step_by_step(env), specs(Pendulum(g=9.81, batch_size=(3,))), Path("x"))
    print(dynamic(CartPoleGymTrain()), TensorDict({}, []))


main()
