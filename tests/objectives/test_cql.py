"""The generated `CQLLoss`: against TorchRL's on the same draws, by its formula, and its contract."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_std.losses.cql import CQLLoss
from torch import Tensor

from tests.objectives.peers import (
    N_ACT,
    N_OBS,
    action_value,
    assert_equal,
    batch,
    gradients,
    policy,
    with_equal_parameters,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*arget.*updater.*", "ignore:.*No target network updater.*", "ignore:.*cannot include scalar.*"
)

TERMS = ("loss_actor", "loss_actor_bc", "loss_qvalue", "loss_cql", "loss_alpha", "loss_alpha_prime")

OPTIONS: list[dict[str, Any]] = [
    {},
    {"num_random": 1},
    {"max_q_backup": True},
    {"deterministic_backup": False},
    {"max_q_backup": True, "deterministic_backup": False, "num_random": 3},
    {"temperature": 0.7, "min_q_weight": 2.0},
    {"with_lagrange": True},
    {"with_lagrange": True, "lagrange_thresh": 0.5, "min_q_weight": 3.0},
    {"alpha_init": 0.5, "fixed_alpha": True},
    {"alpha_init": 3.0, "min_alpha": 0.5, "max_alpha": 1.0},
    {"loss_function": "l2"},
    {"loss_function": "l1", "delay_qvalue": False},
    {"delay_actor": True},
]


def names(one: dict[str, Any]) -> str:
    return "-".join(f"{name}={value}" for name, value in one.items()) or "default"


class Draws:
    """The random numbers of a loss, by what they are for: the peer draws in another order, `n` actions beside each other.

    Args:
        order: what is drawn, in order; several actions of each sample end in an s.
        shape: of the batch.
        n: how many actions of a kind there are.
        flat: whether `n` actions of each sample stand in the last dimension of the batch.
    """

    def __init__(self, order: list[str], shape: tuple[int, ...], n: int, *, flat: bool) -> None:
        self.order, self.shape, self.n, self.flat = order, shape, n, flat
        self.left: list[str] = []

    def __call__(self, dtype: torch.dtype) -> Tensor:
        what = self.left.pop(0)
        seed = torch.Generator().manual_seed(sum(map(ord, what)))
        several = what.endswith("s")
        size = (self.n, *self.shape, N_ACT) if several else (*self.shape, N_ACT)
        made = torch.rand if what.startswith("random") else torch.randn
        drawn = made(size, generator=seed, dtype=torch.float64).to(dtype)
        return drawn.movedim(0, -2).flatten(-3, -2) if self.flat and several else drawn


@pytest.fixture
def draw_from(monkeypatch: pytest.MonkeyPatch) -> Callable[[Draws], None]:
    """Lets torch draw what is given from now on, where it draws without a generator of its own."""

    def begin(draws: Draws) -> None:
        draws.left = list(draws.order)

        def of(made: Callable[..., Tensor]) -> Callable[..., Tensor]:
            return lambda *size, **given: (
                made(*size, **given) if "generator" in given else draws(given["dtype"])
            )

        monkeypatch.undo()
        monkeypatch.setattr(torch, "randn", of(torch.randn))
        monkeypatch.setattr(torch, "rand", of(torch.rand))
        monkeypatch.setattr(
            Tensor, "uniform_", lambda tensor, low, high: low + (high - low) * draws(tensor.dtype)
        )

    return begin


def pair(dtype: torch.dtype, **given: Any) -> tuple[CQLLoss, Any]:
    objectives = pytest.importorskip("torchrl.objectives")
    given = {"target_entropy": -1.5, "num_random": 4, **given}
    mine = CQLLoss(policy(dtype), action_value(dtype), **given)
    theirs = objectives.CQLLoss(policy(dtype), action_value(dtype), **given)
    with_equal_parameters(mine, theirs)
    if mine.with_lagrange:
        for loss in (mine, theirs):
            loss.log_alpha_prime.data = torch.tensor(0.3, dtype=dtype)
    return mine, theirs


def with_equal_draws(
    mine: CQLLoss, theirs: Any, shape: tuple[int, ...], begin: Callable[[Draws], None]
) -> None:
    """Let both losses draw the same numbers in each forward."""
    n, backup = mine.num_random, ["backups"] if mine.max_q_backup else []
    own = Draws([*(backup or ["next"]), "new", "randoms", "nows", "nexts", "imitation"], shape, n, flat=False)
    peer = Draws(["next", *backup, "randoms", "nows", "nexts", "imitation", "new"], shape, n, flat=True)
    for loss, draws in ((mine, own), (theirs, peer)):

        def forward(record: Any, draws: Draws = draws, run: Callable[[Any], Any] = loss.forward) -> Any:
            begin(draws)
            return run(record)

        loss.forward = forward


@pytest.mark.peers
@pytest.mark.parametrize("options", OPTIONS, ids=names)
@pytest.mark.parametrize("shape", [(17,), (4, 3)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_equals_torchrl(
    options: dict[str, Any],
    shape: tuple[int, ...],
    dtype: torch.dtype,
    tolerance: float,
    draw_from: Callable[[Draws], None],
) -> None:
    mine, theirs = pair(dtype, **options)
    with_equal_draws(mine, theirs, shape, draw_from)
    outputs = [*TERMS, "alpha", "entropy"]
    if not options.get("with_lagrange"):
        outputs.remove("loss_alpha_prime")
    terms = [term for term in outputs if term.startswith("loss")]
    if options.get("fixed_alpha"):
        terms.remove("loss_alpha")
    assert_equal(
        mine,
        theirs,
        lambda: batch(*shape, dtype=dtype).exclude("priority_weight"),
        outputs=outputs,
        terms=terms,
        tolerance=tolerance,
    )


@pytest.mark.peers
@pytest.mark.parametrize(
    ("name", "given"), [("TD0", {"gamma": 0.9}), ("TD1", {"gamma": 0.9}), ("TDLambda", {"lmbda": 0.7})]
)
def test_estimators_equal_torchrl(
    name: str, given: dict[str, float], draw_from: Callable[[Draws], None]
) -> None:
    objectives = pytest.importorskip("torchrl.objectives")
    mine, theirs = pair(torch.float64)
    with_equal_draws(mine, theirs, (4, 6), draw_from)
    mine.make_value_estimator(name, **given)
    theirs.make_value_estimator(getattr(objectives.ValueEstimators, name), **given)

    def data() -> Any:
        made = batch(4, 6, dtype=torch.float64).exclude("priority_weight")
        made.names = [None, "time"]
        return made

    # the peer computes its targets with float32 discounts
    assert_equal(mine, theirs, data, outputs=TERMS[:5], terms=TERMS[:5], tolerance=1e-6)


@pytest.mark.peers
@pytest.mark.parametrize(
    "options", [{}, {"with_lagrange": True}, {"fixed_alpha": True, "max_alpha": 2.0}], ids=names
)
def test_a_state_of_torchrl_s_loads(options: dict[str, Any]) -> None:
    mine, theirs = pair(torch.float32, **options)
    theirs.make_value_estimator()  # the peer makes it at first use, and its state has a key more then
    state = theirs.state_dict()
    state["target_entropy_buffer"] = torch.tensor(-7.0)
    mine.load_state_dict(state)
    assert mine.target_entropy.item() == -7.0
    assert ("log_alpha_prime" in dict(mine.named_parameters())) is bool(options.get("with_lagrange"))


@pytest.mark.peers
def test_each_sample_has_its_own_gap_and_the_peers_that_of_all(draw_from: Callable[[Draws], None]) -> None:
    """The peer subtracts the value of each action of the data from the soft maxima of all samples."""
    mine, theirs = pair(torch.float64, reduction="none")
    with_equal_draws(mine, theirs, (5,), draw_from)
    data = batch(5, dtype=torch.float64).exclude("priority_weight")
    got, other = mine(data.clone())["loss_cql"], theirs(data.clone())["loss_cql"]
    torch.testing.assert_close(got.mean(), other.mean())
    assert (got - other).abs().max() > 0.1
    data["observation"][1:] = 0.0
    data["next", "observation"][1:] = 0.0
    torch.testing.assert_close(mine(data.clone())["loss_cql"][0], got[0])
    assert (theirs(data.clone())["loss_cql"][0] - other[0]).abs() > 0.01


@pytest.mark.parametrize("joint", [False, True])
def test_the_formula(joint: bool) -> None:
    """Kumar et al. 2020, eq. 4 and appendix F: log-sum-exp over draws of three kinds, each divided by its density.

    The paper takes one over all draws. TorchRL's, ours unless told otherwise, is the mean of one for each draw.
    """
    n = 5
    loss = CQLLoss(
        policy(torch.float64),
        action_value(torch.float64),
        target_entropy=-1.5,
        num_random=n,
        temperature=0.8,
        min_q_weight=1.5,
        joint_logsumexp=joint,
    )
    data = batch(9, dtype=torch.float64).exclude("priority_weight")
    torch.manual_seed(5)
    out = loss(data.clone())
    actor, critic = loss.get_stateful_net("actor_network"), action_value(torch.float64)
    torch.manual_seed(5)
    following, own = actor.get_dist(data["next"]), actor.get_dist(data)
    following.rsample()
    new_action = own.rsample()
    anywhere = 2 * torch.rand(n, 9, N_ACT, dtype=torch.float64) - 1
    now, later = own.rsample((n,)), following.rsample((n,))
    imitation = own.rsample()

    def value(record: Any, action: Tensor) -> Tensor:
        found = []
        for member in range(2):
            with loss.qvalue_network_params[member].to_module(critic):
                observation = record["observation"].expand(*action.shape[:-1], N_OBS)
                found.append(critic.module(observation, action).squeeze(-1))
        return torch.stack(found)

    candidates = torch.stack(
        [
            value(data, anywhere) + N_ACT * math.log(2.0),
            value(data["next"], later) - following.log_prob(later),
            value(data, now) - own.log_prob(now),
        ]
    )
    exponentials = (candidates / 0.8).exp()
    soft = exponentials.sum((0, 2)).log() if joint else exponentials.sum(0).log().mean(1)
    gap = 1.5 * (0.8 * soft - value(data, data["action"]))
    torch.testing.assert_close(out["loss_cql"], gap.sum(0).mean())
    scored = own.log_prob(imitation) - own.log_prob(data["action"])
    torch.testing.assert_close(out["loss_actor_bc"], scored.mean())
    improved = (own.log_prob(new_action) - value(data, new_action).amin(0)).mean()
    torch.testing.assert_close(out["loss_actor"], improved)


def test_one_soft_maximum_over_all_draws_is_larger_than_the_mean_of_many() -> None:
    data, found = batch(9).exclude("priority_weight"), []
    for joint in (False, True):
        loss = CQLLoss(policy(), action_value(), target_entropy=-1.5, num_random=8, joint_logsumexp=joint)
        torch.manual_seed(0)
        found.append(loss(data.clone())["loss_cql"].item())
    assert found[1] - found[0] > 2 * math.log(8)


def test_importance_weights_train_no_policy() -> None:
    loss = CQLLoss(policy(), action_value(), target_entropy=-1.5, num_random=3, with_lagrange=True)
    data = batch(6).exclude("priority_weight")
    assert {name.split(".")[0] for name in gradients(loss, loss(data.clone())["loss_cql"])} == {
        "qvalue_network_params"
    }
    trained = {name.split(".")[0] for name in gradients(loss, loss(data.clone())["loss_alpha_prime"])}
    assert trained == {"qvalue_network_params", "log_alpha_prime"}


def test_weights_and_masks_reach_every_term() -> None:
    loss = CQLLoss(policy(), action_value(), target_entropy=-1.5, num_random=3, with_lagrange=True)
    each = CQLLoss(
        policy(), action_value(), target_entropy=-1.5, num_random=3, with_lagrange=True, reduction="none"
    )
    each.load_state_dict(loss.state_dict())
    data = batch(6)
    results = []
    for one in (loss, each):
        torch.manual_seed(1)
        results.append(one(data.clone()))
    weight = data["priority_weight"]
    for term in TERMS:
        torch.testing.assert_close(results[0][term], results[1][term].sum() / weight.sum())


@pytest.mark.peers
def test_the_data_get_priorities_only() -> None:
    mine, theirs = pair(torch.float32)
    data = batch(5).exclude("priority_weight")
    written = []
    for loss in (mine, theirs):
        given = data.clone()
        loss(given)
        written.append(set(given.keys(True, True)) - set(data.keys(True, True)))
    assert written[0] == {"td_error"}
    assert written[1] >= {"td_error", "pred_q1", "pred_q2", "cql_q1_loss", "cql_q2_loss"}


def test_draws_come_from_the_generator() -> None:
    loss, data = CQLLoss(policy(), action_value(), target_entropy=-1.5), batch(6).exclude("priority_weight")
    loss.generator = torch.Generator().manual_seed(3)
    state = torch.get_rng_state()
    first, second = (loss(data.clone())["loss_cql"] for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    loss.generator.manual_seed(3)
    assert torch.equal(loss(data.clone())["loss_cql"], first)
    assert not torch.equal(first, second)


def test_it_is_a_sac_with_two_members() -> None:
    loss = CQLLoss(policy(), action_value(), target_entropy=-1.5)
    assert next(iter(loss.qvalue_network_params.values(True, True))).shape[0] == 2
    with pytest.raises(TypeError, match="num_qvalue_nets"):
        CQLLoss(policy(), action_value(), num_qvalue_nets=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with pytest.raises(ValueError, match="num_random must be >= 1"):
        CQLLoss(policy(), action_value(), num_random=0)
