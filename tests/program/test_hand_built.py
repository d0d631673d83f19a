"""Six declarations of issues to come, as programs: verified, printed, and run against formulas written by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Categorical, Independent, Normal

from specgen.expr import Type
from specgen.program.interpret import run
from specgen.program.program import Program
from specgen.program.share import share
from specgen.program.stored import tidy
from specgen.program.verify import effects, verify
from tests.program import hand_built
from tests.program.corpus import parts
from tests.program.printed import called, namespace, text_of


def printed(program: Program, **names: Any) -> Any:
    """The function that a program is printed as."""
    program = share(verify(program))
    return namespace(*called(tidy(program)), **names)[program.name]


def test_cat_frames() -> None:
    frame, stacked = Type("uint8", (3, 8, 8)), Type("uint8", (12, 8, 8))
    reset, step = hand_built.cat_frames(frame, stacked, 4, -3)
    first = torch.randint(0, 255, (2, 3, 8, 8), dtype=torch.uint8)
    begun = printed(reset)(first)
    assert torch.equal(begun, torch.cat([first] * 4, -3))
    assert torch.equal(printed(step)(begun, 255 - first), torch.cat([first, first, first, 255 - first], -3))
    row = run(reset, {reset.inputs[0].symbol: first[0].numpy()})
    assert np.array_equal(row["stacked"], begun[0].numpy())


def test_vec_norm() -> None:
    update, normalise = hand_built.vec_norm(6)
    assert text_of(share(update)).count("mean(0)") == 2  # of x, once, and of what is squared
    one, two = torch.randn(7, 6) * 3 + 1, torch.randn(5, 6)
    change, nothing = printed(update), torch.zeros(6)
    made = change(1.0, torch.zeros(()), nothing, nothing, one)
    made = change(1.0, *made, two)
    both = torch.cat([one, two])
    torch.testing.assert_close(made.loc, both.mean(0))
    torch.testing.assert_close(made.var, both.var(0, unbiased=False))
    found = printed(normalise)(1e-4, made.loc, made.var, two)
    torch.testing.assert_close(found, (two - made.loc) / (made.var + 1e-4).sqrt())


def test_frame_skip() -> None:
    env = parts("CartPole")
    assert env.reward is not None
    state = [one.symbol for one in env.advance.inputs if one.kind == "state"]
    program = hand_built.frame_skip(env.advance, env.reward, state, 4)
    functions = namespace(*called(tidy(share(verify(program)))))
    params = SimpleNamespace(
        gravity=9.8, masscart=1.0, masspole=0.1, length=0.5, force_mag=10.0, tau=0.02, theta_threshold=0.05
    )
    params.x_threshold = 2.4
    cells = [torch.rand(64) * 0.08 - 0.04 for _ in state]
    action = torch.randint(0, 2, (64,))
    over, total = torch.zeros(64, 1, dtype=torch.bool), torch.zeros(64, 1)
    found = functions["skip_advance"](params, *cells, action, over)
    for _ in range(4):
        after = functions["cart_pole_advance"](params, *cells, action)
        cells = [torch.where(over[:, 0], old, new) for old, new in zip(cells, after[:4], strict=True)]
        total = total + (~over).float()
        over = over | after.done
    assert 0 < int((total < 4).sum()) < 64
    assert torch.equal(found.reward, total)
    assert torch.equal(found.done, over)
    assert all(torch.equal(one, other) for one, other in zip(found[:4], cells, strict=True))


def test_frame_skip_of_one_row_is_the_interpreters() -> None:
    env = parts("CartPole")
    assert env.reward is not None
    state = [one.symbol for one in env.advance.inputs if one.kind == "state"]
    program = verify(hand_built.frame_skip(env.advance, env.reward, state, 4))
    values = {"gravity": 9.8, "masscart": 1.0, "masspole": 0.1, "length": 0.5, "force_mag": 10.0, "tau": 0.02}
    values |= {"theta_threshold": 0.05, "x_threshold": 2.4}
    functions = namespace(*called(tidy(program)))
    generator = np.random.default_rng(0)
    ended = 0
    for _ in range(20):
        cells = [np.float32(value) for value in generator.uniform(-0.045, 0.045, 4)]
        row = {one.symbol: values[one.symbol.name] for one in program.inputs if one.group}
        row |= dict(zip((one.symbol for one in program.inputs if one.kind == "state"), cells, strict=True))
        row |= {one.symbol: np.int64(1) for one in program.inputs if one.kind == "action"}
        row |= {one.symbol: np.asarray(False) for one in program.inputs if one.kind == "flag"}
        expected = run(program, row)
        found = functions["skip_advance"](
            SimpleNamespace(**values),
            *(torch.tensor(cell) for cell in cells),
            torch.tensor(1),
            torch.zeros(1, dtype=torch.bool),
        )
        ended += float(expected["reward"]) < 4
        for name, value in expected.items():
            np.testing.assert_allclose(np.squeeze(getattr(found, name).numpy()), value, rtol=1e-5, atol=1e-7)
    assert 0 < ended < 20


def test_clip_ppo() -> None:
    program = hand_built.clip_ppo()
    assert text_of(share(program)).count(".entropy()") == 1
    loss = printed(program)
    dist = Categorical(logits=torch.randn(16, 3, requires_grad=True))
    action = dist.sample()
    old = dist.log_prob(action).detach() + 0.1 * torch.randn(16)
    advantage, value, target = torch.randn(16, 1), torch.randn(16, 1, requires_grad=True), torch.randn(16, 1)
    settings = {"clip_epsilon": 0.2, "entropy_coeff": 0.01, "critic_coeff": 0.5, "loss_critic_type": "l2"}
    made = loss(dist, value, action, old, advantage, target, **settings, normalize_advantage=True)
    ratio = (dist.log_prob(action) - old).exp()
    gain = ((advantage - advantage.mean()) / advantage.std()).squeeze(-1)
    expected = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
    torch.testing.assert_close(made.loss_objective, expected)
    torch.testing.assert_close(made.loss_entropy, -0.01 * dist.entropy())
    torch.testing.assert_close(made.loss_critic, 0.5 * ((value - target) ** 2).squeeze(-1))
    assert made.loss_objective.requires_grad
    assert not any(getattr(made, name).requires_grad for name in ("entropy", "kl_approx", "clip_fraction"))
    assert not made.ESS.requires_grad
    torch.testing.assert_close(made.ESS, ratio.sum() ** 2 / (ratio**2).sum() / 16)


class Network:
    """A network in its three forms, each the same function."""

    def __init__(self, function: Any) -> None:
        self.live = self.target = self.frozen = function


def test_sac() -> None:
    program = hand_built.sac()
    assert effects(program) == ("draws rsample", "draws rsample")
    loss = printed(program)
    now = {"observation": torch.randn(8, 3), "action": torch.randn(8, 2)}
    scale = torch.tensor(1.0, requires_grad=True)
    actor = Network(lambda data: Independent(Normal(data["observation"][..., :2] * scale, 1.0), 1))

    def values(data: dict[str, Tensor], action: Tensor | None = None) -> Tensor:
        taken = data["action"] if action is None else action
        total = data["observation"].sum(-1) + taken.sum(-1)
        return torch.stack([total, 2 * total], -1)

    log_alpha = torch.tensor(0.3, requires_grad=True)
    torch.manual_seed(0)
    made = loss(
        actor, Network(values), now, now, lambda value: 0.99 * value, log_alpha=log_alpha, target_entropy=-2.0
    )
    torch.manual_seed(0)
    dist, alpha = actor.live(now), log_alpha.exp().detach()
    after = dist.rsample()
    target = 0.99 * (values(now, after).amin(-1) - alpha * dist.log_prob(after)).detach()
    error = values(now) - target.unsqueeze(-1)
    new = actor.live(now).rsample()
    log_prob = dist.log_prob(new)
    torch.testing.assert_close(made.loss_qvalue, (error**2).sum(-1))
    torch.testing.assert_close(made.priority, error.abs().amax(-1, keepdim=True))
    torch.testing.assert_close(made.loss_actor, alpha * log_prob - values(now, new).amin(-1))
    torch.testing.assert_close(made.loss_alpha, -log_alpha * (log_prob.detach() - 2.0))
    torch.testing.assert_close(made.entropy, -log_prob)
    assert not made.entropy.requires_grad
    assert made.loss_actor.requires_grad


GAE = """\
def gae(
    value: Tensor,
    next_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor,
    gamma: float,
    lmbda: float,
) -> GAEOutput:
    # estimators.GAE.delta
    delta = reward + torch.where(terminated, 0.0, gamma * next_value) - value
    # estimators.GAE.decay
    decay = torch.where(done, 0.0, torch.full_like(done, gamma * lmbda, dtype=torch.float32))
    # estimators.GAE.advantage
    gain = torch.zeros_like(delta[0])
    advantage = torch.empty_like(delta)
    for t in reversed(range(delta.shape[0])):
        gain = delta[t] + decay[t] * gain
        advantage[t] = gain
    # estimators.GAE.value_target
    value_target = advantage + value
    return GAEOutput(advantage=advantage, value_target=value_target)"""


def test_gae() -> None:
    program = hand_built.gae()
    assert text_of(program) == GAE
    estimate = printed(program)
    data = {name: torch.randn(9, 3, 1) for name in ("value", "next_value", "reward")}
    done = torch.rand(9, 3, 1) < 0.3
    terminated = done & (torch.rand(9, 3, 1) < 0.5)
    made = estimate(*data.values(), done, terminated, 0.99, 0.95)
    expected, gain = torch.zeros(9, 3, 1), torch.zeros(3, 1)
    for time in reversed(range(9)):
        follows = data["next_value"][time] * ~terminated[time]
        delta = data["reward"][time] + 0.99 * follows - data["value"][time]
        gain = delta + 0.99 * 0.95 * ~done[time] * gain
        expected[time] = gain
    torch.testing.assert_close(made.advantage, expected)
    torch.testing.assert_close(made.value_target, expected + data["value"])
    times = {**data, "done": done, "terminated": terminated}
    row = {
        one.symbol: {"gamma": 0.99, "lmbda": 0.95}[one.symbol.name]
        if one.kind == "param"
        else times[one.symbol.name][:, 0, 0].numpy()
        for one in program.inputs
    }
    np.testing.assert_allclose(run(program, row)["advantage"], expected[:, 0, 0].numpy(), rtol=1e-5)
