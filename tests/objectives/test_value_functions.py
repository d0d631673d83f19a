"""The value estimates as pure functions: against plain loops, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.objectives.value import functional as F
from torch import Tensor

from tests.objectives import steps as plain
from tests.objectives.steps import Steps, random_discounts, random_steps

HORIZONS = [1, 2, 3, 17, 200, 2000]
GAMMA, LMBDA = 0.97, 0.9


def near(ours: Tensor, expected: Tensor, atol: float = 1e-10) -> None:
    torch.testing.assert_close(ours.double(), expected, rtol=0, atol=atol)


def column(steps: Steps) -> Steps:
    """One trajectory ``[time]`` as ``[time, 1]``."""
    return Steps(*(tensor.unsqueeze(-1) for tensor in steps))


def discounts(kind: str, length: int) -> tuple[Any, Any, Tensor, Tensor]:
    """Gamma and lambda as they are given, and one for each step."""
    if kind == "each step":
        gamma, lmbda = random_discounts(length)
        return gamma.unsqueeze(-1), lmbda.unsqueeze(-1), gamma, lmbda
    full = torch.ones(length, dtype=torch.float64)
    tensors = torch.tensor(GAMMA, dtype=torch.float64), torch.tensor([[LMBDA]], dtype=torch.float64)
    given = tensors if kind == "tensor" else (GAMMA, LMBDA)
    return *given, GAMMA * full, LMBDA * full


@pytest.mark.parametrize("kind", ["number", "tensor", "each step"])
@pytest.mark.parametrize("length", HORIZONS)
def test_equal_plain_loops(length: int, kind: str) -> None:
    steps = random_steps(length, seed=length)
    gamma, lmbda, gammas, lmbdas = discounts(kind, length)
    value, after, reward, done, terminated = column(steps)
    ones = torch.ones_like(gammas)
    expected = plain.lambda_return(gammas, lmbdas, steps).unsqueeze(-1)
    near(F.td_lambda_return_estimate(gamma, lmbda, after, reward, done, terminated), expected)
    near(
        F.td_lambda_advantage_estimate(gamma, lmbda, value, after, reward, done, terminated), expected - value
    )
    expected = plain.lambda_return(gammas, ones, steps).unsqueeze(-1)
    near(F.td1_return_estimate(gamma, after, reward, done, terminated), expected)
    near(F.td1_advantage_estimate(gamma, value, after, reward, done, terminated), expected - value)
    expected = plain.lambda_return(gammas, 0 * ones, steps).unsqueeze(-1)
    near(F.td0_return_estimate(gamma, after, reward, terminated), expected)
    near(F.td0_advantage_estimate(gamma, value, after, reward, done, terminated), expected - value)
    expected = plain.advantage(gammas, lmbdas, steps).unsqueeze(-1)
    advantage, target = F.generalized_advantage_estimate(gamma, lmbda, value, after, reward, done, terminated)
    near(advantage, expected)
    near(target, expected + value)


@pytest.mark.parametrize("thresholds", [(1.0, 1.0), (1.3, 0.8)])
@pytest.mark.parametrize("length", HORIZONS)
def test_vtrace_equals_a_plain_loop(length: int, thresholds: tuple[float, float]) -> None:
    steps = random_steps(length, seed=length)
    log_pi, log_mu = (0.3 * tensor for tensor in random_steps(length, seed=7)[:2])
    gamma = torch.full((length,), GAMMA, dtype=torch.float64)
    expected = plain.vtrace(gamma, log_pi - log_mu, steps, *thresholds)
    ours = F.vtrace_advantage_estimate(
        GAMMA, log_pi.unsqueeze(-1), log_mu.unsqueeze(-1), *column(steps), *thresholds
    )
    for one, other in zip(ours, expected, strict=True):
        near(one, other.unsqueeze(-1))


@pytest.mark.parametrize("n_steps", [1, 2, 5, 400])
@pytest.mark.parametrize("length", [1, 3, 17, 200])
def test_n_step_equals_a_plain_loop(length: int, n_steps: int) -> None:
    steps = random_steps(length, seed=length)
    gamma, _ = random_discounts(length)
    ours = F.n_step_return_estimate(gamma.unsqueeze(-1), n_steps, *column(steps)[1:])
    near(ours, plain.n_step_return(gamma, n_steps, steps).unsqueeze(-1))


def test_one_step_and_all_steps_are_td0_and_td1() -> None:
    _, after, reward, done, terminated = random_steps(4, 30, 1)
    one = F.n_step_return_estimate(GAMMA, 1, after, reward, done, terminated)
    near(one, F.td0_return_estimate(GAMMA, after, reward, terminated))
    near(
        F.n_step_return_estimate(GAMMA, 30, after, reward, done, terminated),
        F.td1_return_estimate(GAMMA, after, reward, done, terminated),
    )


def test_reward_to_go() -> None:
    reward = torch.ones(1, 10)
    done = torch.zeros(1, 10, dtype=torch.bool)
    done[:, [3, 7]] = True
    expected = [3.9404, 2.9701, 1.99, 1.0, 3.9404, 2.9701, 1.99, 1.0, 1.99, 1.0]
    near(F.reward2go(reward, done, 0.99, time_dim=-1), torch.tensor([expected]).double(), atol=1e-4)
    near(F.reward2go(reward, done, time_dim=1)[0, :4], torch.tensor([4.0, 3.0, 2.0, 1.0]).double())


@pytest.mark.parametrize("rolling", [None, True, False])
def test_discounts_of_each_step_as_documented(rolling: bool | None) -> None:
    reward = torch.tensor([[1.0], [10.0], [100.0], [1000.0]], dtype=torch.float64)
    gamma = torch.tensor([[0.5], [0.2], [0.3], [0.7]], dtype=torch.float64)
    zero, never = torch.zeros_like(reward), torch.zeros_like(reward, dtype=torch.bool)
    returns = F.td1_return_estimate(gamma, zero, reward, never, never, rolling)
    if rolling is False:
        first = 1 + 0.5 * 10 + 0.5**2 * 100 + 0.5**3 * 1000
        second = 10 + 0.2 * 100 + 0.2**2 * 1000
    else:
        first = 1 + 0.5 * (10 + 0.2 * (100 + 0.3 * 1000))
        second = 10 + 0.2 * (100 + 0.3 * 1000)
    near(returns[:2, 0], torch.tensor([first, second]).double())


def test_discounts_that_do_not_roll_bootstrap_at_the_end_of_the_data() -> None:
    """With one constant discount there is no difference; TorchRL's TD(1) drops the last value."""
    _, after, reward, done, terminated = random_steps(3, 12, 1, ending=0.05)
    gamma = torch.full_like(reward, GAMMA)
    returns = [
        F.td1_return_estimate(gamma, after, reward, done, terminated, rolling) for rolling in (True, False)
    ]
    near(*returns)
    peer = pytest.importorskip("torchrl.objectives.value.functional")
    theirs = peer.td1_return_estimate(gamma, after, reward, done, terminated, False)
    assert (theirs - returns[0]).abs().max() > 0.1


@pytest.mark.parametrize(
    "estimate",
    [
        lambda s: F.generalized_advantage_estimate(GAMMA, LMBDA, *s)[0],
        lambda s: F.td_lambda_return_estimate(GAMMA, LMBDA, *s[1:]),
        lambda s: F.td_lambda_return_estimate(s.reward.sigmoid(), LMBDA, *s[1:], False),
        lambda s: F.vtrace_advantage_estimate(GAMMA, s.value, s.reward, *s)[0],
        lambda s: F.n_step_return_estimate(GAMMA, 3, *s[1:]),
        lambda s: F.td0_return_estimate(GAMMA, s.next_value, s.reward, s.terminated),
        lambda s: F.reward2go(s.reward, s.done, GAMMA),
    ],
)
def test_gradients(estimate: Callable[[Steps], Tensor]) -> None:
    steps = random_steps(2, 6, 1, ending=0.2)

    def of_numbers(*numbers: Tensor) -> Tensor:
        return estimate(Steps(*numbers, steps.done, steps.terminated))

    numbers = [tensor.clone().requires_grad_() for tensor in steps[:3]]
    assert torch.autograd.gradcheck(of_numbers, numbers)


def test_a_value_behind_a_terminal_state_is_not_read() -> None:
    steps = random_steps(3, 20, 1)
    spoilt = steps._replace(next_value=torch.where(steps.terminated, torch.nan, steps.next_value))
    for estimate in (
        lambda s: F.generalized_advantage_estimate(GAMMA, LMBDA, *s)[0],
        lambda s: F.td_lambda_return_estimate(GAMMA, LMBDA, *s[1:]),
        lambda s: F.td0_return_estimate(GAMMA, s.next_value, s.reward, s.terminated),
        lambda s: F.vtrace_advantage_estimate(GAMMA, s.value, s.reward, *s)[0],
        lambda s: F.n_step_return_estimate(GAMMA, 3, *s[1:]),
    ):
        torch.testing.assert_close(estimate(spoilt), estimate(steps))


def test_termination_ends_the_trajectory_even_if_done_does_not_say_so() -> None:
    """TorchRL's GAE goes on behind it, and its TD(1) does so with the reward that follows."""
    value, after, reward, done, terminated = random_steps(3, 20, 1)
    done = done & ~terminated
    for ours, right in (
        (
            F.generalized_advantage_estimate(GAMMA, LMBDA, value, after, reward, done, terminated)[0],
            F.generalized_advantage_estimate(
                GAMMA, LMBDA, value, after, reward, done | terminated, terminated
            )[0],
        ),
        (
            F.td1_return_estimate(GAMMA, after, reward, done, terminated),
            F.td1_return_estimate(GAMMA, after, reward, done | terminated, terminated),
        ),
    ):
        torch.testing.assert_close(ours, right)
    peer = pytest.importorskip("torchrl.objectives.value.functional")
    theirs = peer.generalized_advantage_estimate(GAMMA, LMBDA, value, after, reward, done, terminated)[0]
    assert (
        theirs
        - F.generalized_advantage_estimate(GAMMA, LMBDA, value, after, reward, done | terminated, terminated)[
            0
        ]
    ).abs().max() > 0.1


def test_teams_and_agents() -> None:
    value, after, reward, done, terminated = random_steps(2, 9, 3, 1)
    team = [tensor[..., 0, :] for tensor in (reward, done, terminated)]
    ours = F.multi_agent_generalized_advantage_estimate(GAMMA, LMBDA, value, after, *team)
    for agent in range(3):
        alone = F.generalized_advantage_estimate(GAMMA, LMBDA, value[:, :, agent], after[:, :, agent], *team)
        for one, other in zip(ours, alone, strict=True):
            torch.testing.assert_close(one[:, :, agent], other)
    own = F.multi_agent_generalized_advantage_estimate(GAMMA, LMBDA, value, after, reward, done, terminated)
    expected = F.generalized_advantage_estimate(
        GAMMA, LMBDA, value, after, reward, done, terminated, time_dim=1
    )
    torch.testing.assert_close(own, expected)
    with pytest.raises(RuntimeError, match="reward must have the shape of the agents' values"):
        F.multi_agent_generalized_advantage_estimate(
            GAMMA, LMBDA, value, after, reward[0, 0], done, terminated
        )


@pytest.mark.parametrize(
    ("dim", "shape"), [(-1, (5, 4)), (0, (5,)), (1, (3, 5, 2)), (-3, (5, 3, 2)), (0, (5, 4, 3, 2))]
)
def test_time_is_where_it_is_said_to_be(dim: int, shape: tuple[int, ...]) -> None:
    steps = random_steps(*shape)
    ours = F.td_lambda_return_estimate(GAMMA, LMBDA, *steps[1:], time_dim=dim)
    last = Steps(*(tensor.movedim(dim, -1) for tensor in steps))
    expected = F.td_lambda_return_estimate(GAMMA, LMBDA, *last[1:], time_dim=-1).movedim(-1, dim)
    torch.testing.assert_close(ours, expected)


def test_what_does_not_fit_is_refused() -> None:
    value, after, reward, done, terminated = random_steps(3, 5, 1)
    with pytest.raises(RuntimeError, match=r"must have one shape, got .*reward \(3, 5\)"):
        F.generalized_advantage_estimate(GAMMA, LMBDA, value, after, reward[..., 0], done, terminated)
    with pytest.raises(RuntimeError, match=r"done must be a bool tensor, got torch.int64"):
        F.td_lambda_return_estimate(GAMMA, LMBDA, after, reward, done.long(), terminated)
    with pytest.raises(RuntimeError, match=r"time_dim=3 is no dimension of tensors of shape \(3, 5, 1\)"):
        F.td1_return_estimate(GAMMA, after, reward, done, terminated, time_dim=3)
    with pytest.raises(
        RuntimeError, match=r"gamma must be .* fits the rewards' shape \(3, 5, 1\), got one of shape \(5,\)"
    ):
        F.td1_return_estimate(torch.rand(5), after, reward, done, terminated)
    with pytest.raises(RuntimeError, match="rolling_gamma=False needs a gamma or a lmbda"):
        F.td_lambda_return_estimate(GAMMA, LMBDA, after, reward, done, terminated, False)
    with pytest.raises(RuntimeError, match="rolling_gamma=False needs a gamma"):
        F.td1_return_estimate(GAMMA, after, reward, done, terminated, False)
    with pytest.raises(ValueError, match="reward and done must have one shape"):
        F.reward2go(reward, done[0])
    with pytest.raises(ValueError, match="n_steps must be a positive integer, got 0"):
        F.n_step_return_estimate(GAMMA, 0, after, reward, done)
    with pytest.raises(TypeError, match="needs terminated"):
        F.td0_return_estimate(GAMMA, after, reward)


def test_without_terminated_every_end_terminates() -> None:
    value, after, reward, done, _ = random_steps(3, 9, 1)
    for short, full in (
        (
            F.generalized_advantage_estimate(GAMMA, LMBDA, value, after, reward, done),
            F.generalized_advantage_estimate(GAMMA, LMBDA, value, after, reward, done, done),
        ),
        (
            F.td0_return_estimate(GAMMA, after, reward, done=done),
            F.td0_return_estimate(GAMMA, after, reward, done),
        ),
    ):
        torch.testing.assert_close(short, full)
