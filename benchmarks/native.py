"""Environment steps a second of native, batched environments, against TorchRL's batched PendulumEnv."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from specgen_std.envs.cartpole import CartPole
from specgen_std.envs.pendulum import Pendulum
from torchrl.envs import PendulumEnv

from benchmarks.harness import Budget, Row, Work, paired

# Batch size and steps a call: fewer steps of large batches, so that a rollout stays in memory.
SIZES = ((1, 200), (64, 200), (1024, 100), (65536, 10))
PEER = "TorchRL PendulumEnv"


def rows(budget: Budget) -> Iterator[Row]:
    """Rollouts and single steps of each environment at each batch size."""
    ours: dict[str, Callable[[int], Any]] = {
        "Pendulum": lambda batch: Pendulum(batch_size=[batch]),
        "CartPole": lambda batch: CartPole(batch_size=[batch]),
    }
    for name, make in ours.items():
        for batch, steps in SIZES:
            env, peer = make(batch), _Peer(batch)
            env.set_seed(0)
            yield paired(
                f"{name}, rollout, batch {batch}",
                _work(env.rollout, steps, batch, break_when_any_done=False),
                _work(peer.rollout, steps, batch),
                budget,
                peer_name=PEER,
                rate=True,
            )
            yield paired(
                f"{name}, steps, batch {batch}",
                _work(_Stepping(env, env.reset()), steps, batch),
                _work(_Stepping(peer.env, peer.reset()), steps, batch),
                budget,
                peer_name=PEER,
                rate=True,
            )


def _work(call: Callable[..., object], steps: int, batch: int, **keywords: Any) -> Work:
    return Work(lambda: call(steps, **keywords), steps * batch)


class _Stepping:
    """Random steps that go on from call to call."""

    def __init__(self, env: Any, start: Any) -> None:
        self.env = env
        self.current = start

    def __call__(self, steps: int) -> None:
        env, current = self.env, self.current
        for _ in range(steps):
            _, current = env.step_and_maybe_reset(env.rand_action(current))
        self.current = current


class _Peer:
    """TorchRL's PendulumEnv takes its batch from the parameters that a reset is given."""

    def __init__(self, batch: int) -> None:
        self.env = PendulumEnv(seed=0)
        self.batch = batch

    def reset(self) -> Any:
        return self.env.reset(self.env.gen_params(batch_size=[self.batch]), set_state=True)

    def rollout(self, steps: int) -> Any:
        return self.env.rollout(steps, auto_reset=False, tensordict=self.reset())
