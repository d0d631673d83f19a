"""Value estimates, against the faster of TorchRL's two ways of each, and against the recurrence as a plain loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
import torchrl.objectives.value
from specgen_runtime.objectives.value import GAE
from specgen_runtime.objectives.value import functional as ours
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torchrl.objectives.value import functional as theirs

from benchmarks.harness import Budget, Row, Work, paired

GAMMA, LMBDA = 0.99, 0.95
Call = Callable[[], object]


class Steps(NamedTuple):
    """Signals ``[batch, time, 1]``, a trajectory's end at each fiftieth."""

    value: Tensor
    next_value: Tensor
    reward: Tensor
    done: Tensor
    terminated: Tensor


def rows(budget: Budget) -> Iterator[Row]:
    """GAE, TD(lambda) and V-trace; GAE with gradients, and as a module with a network."""
    for batch, length, limit in ((64, 256, 8.0), (16, 2048, 8.0), (4096, 64, 1.6)):
        steps = _steps(batch, length)
        yield _gae(steps, budget, limit)
        yield _td_lambda(steps, budget, limit)
    for batch in (8, 64, 256):
        steps = _steps(batch, 1000)
        yield _gae(steps, budget)
        yield _td_lambda(steps, budget)
        yield _vtrace(steps, budget)
        yield _against_a_loop(steps, budget)
    yield _with_gradients(_steps(64, 256), budget)
    yield from _modules(_steps(64, 256), budget)


def _gae(steps: Steps, budget: Budget, limit: float | None = None) -> Row:
    return _row(
        "GAE",
        steps,
        lambda: ours.generalized_advantage_estimate(GAMMA, LMBDA, *steps),
        [
            lambda: theirs.generalized_advantage_estimate(GAMMA, LMBDA, *steps),
            lambda: theirs.vec_generalized_advantage_estimate(GAMMA, LMBDA, *steps),
        ],
        budget,
        limit,
    )


def _td_lambda(steps: Steps, budget: Budget, limit: float | None = None) -> Row:
    return _row(
        "TD(lambda)",
        steps,
        lambda: ours.td_lambda_return_estimate(GAMMA, LMBDA, *steps[1:]),
        [
            lambda: theirs.td_lambda_return_estimate(GAMMA, LMBDA, *steps[1:]),
            lambda: theirs.vec_td_lambda_return_estimate(GAMMA, LMBDA, *steps[1:]),
        ],
        budget,
        limit,
    )


def _vtrace(steps: Steps, budget: Budget) -> Row:
    log_pi, log_mu = 0.1 * steps.value, 0.1 * steps.next_value
    return _row(
        "V-trace",
        steps,
        lambda: ours.vtrace_advantage_estimate(GAMMA, log_pi, log_mu, *steps),
        [lambda: theirs.vtrace_advantage_estimate(GAMMA, log_pi, log_mu, *steps)],
        budget,
    )


def _against_a_loop(steps: Steps, budget: Budget) -> Row:
    return paired(
        _name("GAE", steps),
        Work(lambda: ours.generalized_advantage_estimate(GAMMA, LMBDA, *steps)),
        Work(lambda: _loop(steps)),
        budget,
        peer_name="plain loop",
    )


def _with_gradients(steps: Steps, budget: Budget) -> Row:
    def step(estimate: Callable[..., tuple[Tensor, Tensor]]) -> Call:
        reward = steps.reward.clone().requires_grad_()

        def call() -> None:
            reward.grad = None
            estimate(GAMMA, LMBDA, *steps._replace(reward=reward))[0].sum().backward()

        return call

    return _row(
        "GAE, forward + backward,",
        steps,
        step(ours.generalized_advantage_estimate),
        [step(theirs.generalized_advantage_estimate), step(theirs.vec_generalized_advantage_estimate)],
        budget,
    )


def _modules(steps: Steps, budget: Budget) -> Iterator[Row]:
    network = TensorDictModule(
        nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1)), ["observation"], ["state_value"]
    )
    shape = steps.reward.shape[:2]
    after = {
        "observation": torch.randn(*shape, 8),
        "reward": steps.reward,
        "done": steps.done,
        "terminated": steps.terminated,
    }
    data = TensorDict({"observation": torch.randn(*shape, 8), "next": after}, shape)
    mine = GAE(gamma=GAMMA, lmbda=LMBDA, value_network=network)
    peers = [
        torchrl.objectives.value.GAE(gamma=GAMMA, lmbda=LMBDA, value_network=network, vectorized=vectorized)
        for vectorized in (True, False)
    ]
    yield _row(
        "GAE as a module, with its network,",
        steps,
        lambda: mine(data.copy()),
        [lambda peer=peer: peer(data.copy()) for peer in peers],
        budget,
    )


def _row(
    name: str, steps: Steps, mine: Call, peers: list[Call], budget: Budget, limit: float | None = None
) -> Row:
    fastest = min(peers, key=_once)
    return paired(_name(name, steps), Work(mine), Work(fastest), budget, limit=limit)


def _once(call: Call) -> float:
    """Seconds of the second call."""
    call()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _loop(steps: Steps) -> Tensor:
    alive, following = (~steps.terminated).float(), (~steps.done).float()
    errors = steps.reward + GAMMA * alive * steps.next_value - steps.value
    advantage = torch.empty_like(errors)
    later = torch.zeros_like(errors[:, 0])
    for t in range(errors.shape[1] - 1, -1, -1):
        later = errors[:, t] + GAMMA * LMBDA * following[:, t] * later
        advantage[:, t] = later
    return advantage


def _steps(batch: int, length: int) -> Steps:
    generator = torch.Generator().manual_seed(0)
    numbers = [torch.randn(batch, length, 1, generator=generator) for _ in range(3)]
    terminated = torch.rand(batch, length, 1, generator=generator) < 0.01
    truncated = torch.rand(batch, length, 1, generator=generator) < 0.01
    return Steps(*numbers, terminated | truncated, terminated)


def _name(name: str, steps: Steps) -> str:
    batch, length, _ = steps.reward.shape
    return f"{name} {batch} x {length}"
