"""The contract over environments of every kind that are not generated: by hand, of Gymnasium, transformed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import pytest
import torch
from specgen_runtime.envs import EnvBase, GymEnv, GymWrapper, check_env_specs
from specgen_runtime.envs.batched import ParallelEnv, SerialEnv
from specgen_runtime.interop import from_gymnasium, from_torchrl
from specgen_runtime.specs import Bounded, Composite, Unbounded
from specgen_runtime.testing import (
    check_batch_size,
    check_closing,
    check_env,
    check_partial_resets,
    check_rollout_is_stepping,
)
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std import chains, envs, transforms
from tensordict import TensorDict

from tests.conformance.walks import Walk
from tests.envs.counting import Counting, Grid, Stateful
from tests.envs.native_pendulum import Pendulum
from tests.envs.spec_kinds import KINDS, Drawing


@dataclass(frozen=True)
class Case:
    """How to make an environment, and what `check_env` must know of it."""

    make: Callable[[], Any]
    steps: int = 20
    deterministic: bool = False
    pickling: bool = True
    devices: tuple[str, ...] | None = None


class Restarting(Walk):
    """Begins the next episode by itself, row by row."""

    def _step(self, tensordict: Any) -> TensorDict:
        following = super()._step(tensordict)
        ended = following["terminated"] | following["truncated"]
        if ended.any():
            following.update(super()._reset(TensorDict({"_reset": ended}, batch_size=self.batch_size)))
        return following


class Drift(EnvBase):
    """Any batch of points, whose state is in the tensordict; it draws from a generator of its own."""

    def __init__(self, *, batch_size: tuple[int, ...] = (), device: str | None = None) -> None:
        super().__init__(batch_size=batch_size, device=device, batch_locked=False)
        self.seed = 0
        self.action_spec = Bounded(-1.0, 1.0, shape=(*batch_size, 2), device=device)
        point = Unbounded(shape=(*batch_size, 2), device=device)
        self.observation_spec = Composite(point=point, shape=batch_size)
        self.state_spec = Composite(point=point.clone(), shape=batch_size)
        self.reward_spec = Unbounded(shape=(*batch_size, 1), device=device)

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        size = self.batch_size if tensordict is None else tensordict.batch_size
        self.seed += 1
        generator = torch.Generator().manual_seed(self.seed)
        point = torch.randn(*size, 2, generator=generator).to(self.device)
        return TensorDict({"point": point}, batch_size=size, device=self.device)

    def _step(self, tensordict: Any) -> TensorDict:
        point = tensordict["point"] + tensordict["action"]
        far = point.norm(dim=-1, keepdim=True)
        return TensorDict(
            {"point": point, "reward": -far, "terminated": far > 3.0},
            batch_size=tensordict.batch_size,
            device=self.device,
        )

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            self.seed = seed * 1000


def gym(id: str, **arguments: Any) -> Callable[[], Any]:
    return lambda: GymEnv(id, **arguments)


def wrapped() -> Any:
    return GymWrapper(gymnasium.make("Pendulum-v1", max_episode_steps=9))


def chained(env: Callable[[], Any]) -> Any:
    """Transforms at run time, with a limit that is reached within a check."""
    parts = (transforms.InitTracker(), transforms.StepCounter(max_steps=6), transforms.RewardSum())
    return TransformedEnv(env(), Compose(*parts))


def counted(env: Callable[[], Any]) -> Any:
    """A transform that adds an entry and ends nothing."""
    return TransformedEnv(env(), transforms.StepCounter(step_count_key="steps"))


CASES: dict[str, Case] = {
    "state in the tensordict": Case(partial(Counting, batch_size=(3,)), deterministic=True),
    "no batch dimension": Case(Counting, deterministic=True),
    "on a device": Case(partial(Counting, batch_size=(2, 2), device="cpu"), deterministic=True),
    "state of its own": Case(partial(Walk, batch_size=(2, 3)), steps=25),
    "no end": Case(Stateful, deterministic=True),
    "agents with a joint flag": Case(partial(Grid, batch_size=(2,)), deterministic=True),
    "agents without a joint flag": Case(partial(Grid, batch_size=(2,), root_done=False), deterministic=True),
    "one group of agents": Case(partial(Grid, limit=2), deterministic=True),
    "any batch": Case(Drift),
    "any batch, on a device": Case(partial(Drift, device="cpu")),
    "not locked, with a batch": Case(partial(Drift, batch_size=(3,))),
    "a generated environment by hand": Case(
        partial(Pendulum, batch_size=(3,), max_steps=8), devices=("cpu",)
    ),
    "CartPole-v1": Case(gym("CartPole-v1"), steps=60),
    "CartPole-v1, indices": Case(gym("CartPole-v1", categorical_action_encoding=True), steps=60),
    "Pendulum-v1": Case(gym("Pendulum-v1", max_episode_steps=12), steps=30),
    "FrozenLake-v1": Case(gym("FrozenLake-v1"), steps=40),
    "Taxi-v4": Case(gym("Taxi-v4", max_episode_steps=9), steps=25),
    "CliffWalking-v1": Case(gym("CliffWalking-v1", max_episode_steps=9), deterministic=True),
    "Blackjack-v1": Case(gym("Blackjack-v1"), devices=("cpu",)),  # there are no nested tensors on meta
    "a wrapped instance": Case(wrapped, steps=25),
    "transformed Counting": Case(partial(chained, partial(Counting, batch_size=(3,))), deterministic=True),
    "transformed Walk": Case(partial(chained, partial(Walk, batch_size=(2,)))),
    "transformed GymEnv": Case(partial(chained, gym("Pendulum-v1"))),
    "transformed generated environment": Case(partial(chained, partial(envs.CartPole, batch_size=(3,)))),
    "transforms in transforms": Case(
        lambda: TransformedEnv(
            chained(partial(envs.Pendulum, batch_size=(2,))), transforms.RewardScaling(0.0, 0.1)
        )
    ),
    "resets itself": Case(partial(Restarting, batch_size=(), auto_reset=True)),
    "resets itself, row by row": Case(partial(Restarting, batch_size=(3,), auto_reset=True)),
    "resets itself, shows what follows": Case(
        partial(Restarting, batch_size=(3,), auto_reset=True, auto_reset_replace=False)
    ),
    "transformed, resets itself": Case(
        partial(counted, partial(Restarting, batch_size=(3,), auto_reset=True))
    ),
    "transformed wrapped instance": Case(partial(chained, wrapped), steps=25),
    "transformed any batch": Case(partial(chained, Drift)),
    "transformed agents": Case(partial(chained, partial(Grid, batch_size=(2,))), deterministic=True),
    "transformed agents without a joint flag": Case(
        partial(chained, partial(Grid, batch_size=(2,), root_done=False)), deterministic=True
    ),
    "transformed groups of agents": Case(partial(chained, partial(envs.SimpleTag, batch_size=(3,)))),
    "transformed generated chain": Case(lambda: counted(partial(chains.CartPoleTrain, batch_size=(3,)))),
    "transformed generated Gymnasium environment": Case(partial(chained, envs.PendulumGym)),
    "SerialEnv of walks": Case(lambda: SerialEnv(3, partial(Walk, batch_size=()))),
    "SerialEnv of counts": Case(lambda: SerialEnv(2, Counting), deterministic=True),
    "SerialEnv of agents": Case(lambda: SerialEnv(2, Grid), deterministic=True),
    "SerialEnv of batches": Case(lambda: SerialEnv(2, partial(envs.CartPole, batch_size=(3,)))),
    "SerialEnv of different lengths": Case(
        lambda: SerialEnv(2, [partial(Walk, batch_size=(), limit=limit) for limit in (2, 5)])
    ),
    "SerialEnv of GymEnv": Case(lambda: SerialEnv(2, partial(GymEnv, "CartPole-v1")), steps=40),
    "SerialEnv of chains": Case(lambda: SerialEnv(2, partial(chained, partial(GymEnv, "Pendulum-v1")))),
    "transformed SerialEnv": Case(lambda: chained(lambda: SerialEnv(2, partial(Walk, batch_size=())))),
    "from_gymnasium": Case(lambda: from_gymnasium(gymnasium.make("CartPole-v1")), steps=40),
}


def peer(make: Callable[[Any], Any]) -> Callable[[], Any]:
    """An environment of TorchRL, wrapped."""
    return lambda: from_torchrl(make(pytest.importorskip("torchrl.envs", reason="the extra `peers`")))


PEERS: dict[str, Case] = {
    "GymEnv": Case(peer(lambda lib: lib.GymEnv("CartPole-v1")), steps=40),
    "a chain": Case(
        peer(lambda lib: lib.TransformedEnv(lib.GymEnv("Pendulum-v1"), lib.StepCounter(max_steps=7)))
    ),
}


@pytest.mark.peers
@pytest.mark.parametrize("name", PEERS)
def test_environments_of_torchrl(name: str) -> None:
    case = PEERS[name]
    check_env(case.make, steps=case.steps, deterministic=case.deterministic, pickling=case.pickling)


@pytest.mark.parametrize("name", CASES)
def test_the_whole_contract(name: str) -> None:
    case = CASES[name]
    check_env(
        case.make,
        steps=case.steps,
        deterministic=case.deterministic,
        pickling=case.pickling,
        devices=case.devices,
    )


def test_processes() -> None:
    # each check starts processes: those that are about them
    make = partial(ParallelEnv, 2, partial(Walk, batch_size=()))
    env = make()
    check_env_specs(env, seed=0)
    check_partial_resets(env)
    check_batch_size(env)
    env.close()
    check_rollout_is_stepping(make, steps=12)
    check_closing(make)


@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_spec(kind: str, batch: tuple[int, ...]) -> None:
    if kind == "stacked, of different sizes" and batch:
        pytest.skip("torch stacks nested tensors in front only")
    observation, action = KINDS[kind]
    # Its observations are draws of torch's global generator, which other checks would rightly find fault with.
    check_rollout_is_stepping(partial(Drawing, observation, action, batch_size=batch), steps=5)
