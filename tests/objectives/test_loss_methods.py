"""Methods of losses that compute one term, by TorchRL's names of them."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime import modules
from specgen_std.losses import SACLoss, TD3Loss
from tensordict import TensorDict
from tensordict.nn import CompositeDistribution

from tests.objectives.every_loss import KEYWORDS, batch, losses, made, networks
from tests.objectives.nets import critic
from tests.objectives.peers import gradients, with_equal_parameters
from tests.support import generate, imported

pytestmark = pytest.mark.filterwarnings("ignore:No target network updater", "ignore:.*arget.*updater.*")

METHODS = {
    "DDPGLoss": {"loss_actor": "loss_actor", "loss_value": "loss_value"},
    "TD3Loss": {"actor_loss": "loss_actor", "value_loss": "loss_qvalue"},
    "TD3BCLoss": {"actor_loss": "loss_actor", "qvalue_loss": "loss_qvalue"},
    "SACLoss": {"actor_loss": "loss_actor", "qvalue_v2_loss": "loss_qvalue"},
    "CQLLoss": {"q_loss": "loss_qvalue"},
    "A2CLoss": {"loss_critic": "loss_critic"},
    "PPOLoss": {"loss_critic": "loss_critic"},
    "ClipPPOLoss": {"loss_critic": "loss_critic"},
    "ReinforceLoss": {"loss_critic": "loss_value"},
    "IQLLoss": {"actor_loss": "loss_actor", "value_loss": "loss_value", "qvalue_loss": "loss_qvalue"},
    "DiscreteIQLLoss": {"actor_loss": "loss_actor", "value_loss": "loss_value", "qvalue_loss": "loss_qvalue"},
}
"""The methods that TorchRL's losses have, too, with the terms that they compute."""

OF_OTHER_NUMBERS = {
    "CQLLoss": {
        "actor_loss": "loss_actor",
        "actor_bc_loss": "loss_actor_bc",
        "cql_loss": "loss_cql",
        "alpha_loss": "loss_alpha",
    },
    "DiscreteCQLLoss": {"value_loss": "loss_qvalue", "cql_loss": "loss_cql"},
}
"""Those that draw in another order than TorchRL's, or whose terms differ (docs/differences.md)."""

EACH = [(name, method, term) for name, methods in METHODS.items() for method, term in methods.items()]
REST = [
    (name, method, term) for name, methods in OF_OTHER_NUMBERS.items() for method, term in methods.items()
]


def seeded(method: Any, data: TensorDict) -> Any:
    torch.manual_seed(5)
    return method(data)


@pytest.mark.peers
@pytest.mark.parametrize(("name", "method", "term"), EACH)
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_the_loss_equals_torchrl(name: str, method: str, term: str, reduction: str) -> None:
    objectives = pytest.importorskip("torchrl.objectives")
    if (name, reduction) == ("TD3BCLoss", "none") and method == "actor_loss":
        pytest.skip("its distance to the actions is one number for the batch there")
    cls = losses()[name]
    keywords = {**KEYWORDS.get(name, {}), "reduction": reduction}
    mine = made(cls, 7, reduction=reduction)
    theirs = getattr(objectives, name)(*networks(cls, 7).values(), **keywords)
    if theirs.default_value_estimator is not None:
        theirs.make_value_estimator()
    with_equal_parameters(mine, theirs)
    got, _ = seeded(getattr(mine, method), batch(name, 6))
    wanted, *_ = seeded(getattr(theirs, method), batch(name, 6))
    if method == "loss_critic":  # of each sample there, whatever the reduction
        wanted = wanted.mean() if reduction == "mean" else wanted.squeeze(-1)
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)
    expected = gradients(theirs, wanted.sum())
    for parameter, value in gradients(mine, got.sum()).items():
        torch.testing.assert_close(value, expected[parameter], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "method", "term"), [*EACH, *REST])
def test_the_loss_is_the_term_with_its_metrics(name: str, method: str, term: str) -> None:
    cls = losses()[name]
    loss, whole = made(cls), made(cls)
    outputs = next((one.outputs for one in cls.parts.values() if term in one.outputs), cls.out_keys)
    part = [key for key in outputs if key in whole.out_keys]
    whole.select_out_keys(*part)
    expected = seeded(whole, batch(name, 6))
    value, metrics = seeded(getattr(loss, method), batch(name, 6))
    torch.testing.assert_close(value, expected[term])
    assert set(metrics) == {key for key in part if not key.startswith("loss")}
    for key, metric in metrics.items():
        torch.testing.assert_close(metric, expected[key], msg=key)
    assert loss.out_keys == made(cls).out_keys


TEMPERATURES = ["SACLoss", "DiscreteSACLoss", "CrossQLoss"]


@pytest.mark.peers
@pytest.mark.parametrize("name", TEMPERATURES)
@pytest.mark.parametrize("fixed", [False, True])
def test_the_temperature_of_a_log_probability(name: str, fixed: bool) -> None:
    objectives = pytest.importorskip("torchrl.objectives")
    cls = losses()[name]
    keywords = {**KEYWORDS.get(name, {}), "fixed_alpha": fixed, "alpha_init": 0.3}
    mine = made(cls, 7, fixed_alpha=fixed, alpha_init=0.3)
    theirs = getattr(objectives, name)(*networks(cls, 7).values(), **keywords, reduction="none")
    given = torch.randn(6, requires_grad=True)
    got, wanted = mine.alpha_loss(log_prob=given), theirs.alpha_loss(log_prob=given)
    assert got.shape == (6,)
    if fixed:  # nothing learns it: a term without a number of its own here
        assert got.count_nonzero() == 0
        return
    torch.testing.assert_close(got, wanted)
    got.sum().backward()
    assert given.grad is None
    torch.testing.assert_close(mine.log_alpha.grad, gradients(theirs, wanted.sum())["log_alpha"])
    reduced = getattr(objectives, name)(*networks(cls, 7).values(), **keywords).alpha_loss(given)
    assert reduced.ndim == (0 if name == "CrossQLoss" else 1)


@pytest.mark.parametrize("name", TEMPERATURES)
def test_the_temperature_is_the_term(name: str) -> None:
    loss = made(losses()[name])
    outputs = seeded(loss, batch(name, 6))
    log_prob = -outputs["entropy"].expand(6)  # the term is linear in it
    torch.testing.assert_close(loss.alpha_loss(log_prob).mean(), outputs["loss_alpha"])


OF_DISTRIBUTIONS = ["A2CLoss", "OnlineDTLoss"]
"""The losses with `get_entropy_bonus` that TorchRL's have, too."""


@pytest.mark.peers
@pytest.mark.parametrize("name", OF_DISTRIBUTIONS)
@pytest.mark.parametrize("draws", [1, 3])
@pytest.mark.parametrize("kind", ["normal", "tanh", "categorical"])
def test_the_entropy_of_a_distribution_equals_torchrl(name: str, draws: int, kind: str) -> None:
    objectives = pytest.importorskip("torchrl.objectives")
    theirs_of = pytest.importorskip("torchrl.modules")
    cls = losses()[name]
    keywords = {**KEYWORDS.get(name, {}), "samples_mc_entropy": draws}
    mine = made(cls, 7, samples_mc_entropy=draws)
    theirs = getattr(objectives, name)(*networks(cls, 7).values(), **keywords)
    if name == "OnlineDTLoss" and kind == "categorical":
        pytest.skip("it draws with gradients")
    torch.manual_seed(1)
    loc = torch.randn(5, 3, 2, requires_grad=True)
    scale = loc.exp()
    makers: dict[str, Any] = {
        "normal": lambda module: module.IndependentNormal(loc, scale),
        "tanh": lambda module: module.TanhNormal(loc, scale),
        "categorical": lambda _: torch.distributions.Categorical(logits=loc),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that it draws
        wanted = seeded(theirs.get_entropy_bonus, makers[kind](theirs_of))
    got = seeded(mine.get_entropy_bonus, makers[kind](modules))
    assert got.shape == wanted.shape == ((5, 3, 1) if name == "A2CLoss" else (5, 3))
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)
    expected, found = (torch.autograd.grad(one.sum(), loc, retain_graph=True)[0] for one in (wanted, got))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["PPOLoss", "ClipPPOLoss", "KLPENPPOLoss", "MAPPOLoss", "A2CLoss"])
def test_the_entropy_of_the_policys_own_distribution_is_the_metric(name: str) -> None:
    cls = losses()[name]
    loss, data = made(cls), batch(name, 6)
    expected = seeded(loss, data.clone())["entropy"]
    with loss.actor_network_params.to_module(loss.actor_network):
        dist = loss.actor_network.get_dist(data)
    got = loss.get_entropy_bonus(dist)
    assert got.shape == (*dist.batch_shape, 1)
    torch.testing.assert_close(got.mean(), expected)


def test_the_entropy_is_drawn_from_the_generator_of_the_loss() -> None:
    loss = made(losses()["OnlineDTLoss"])
    dist = modules.TanhNormal(torch.zeros(4, 2), torch.ones(4, 2))
    loss.generator = torch.Generator().manual_seed(3)
    before = torch.get_rng_state()
    first = loss.get_entropy_bonus(dist)
    loss.generator.manual_seed(3)
    torch.testing.assert_close(loss.get_entropy_bonus(dist), first)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_entropy_of_several_parts_is_their_sum() -> None:
    loss = made(losses()["PPOLoss"])
    parts = {"a": {"loc": torch.zeros(4), "scale": torch.ones(4)}, "b": {"logits": torch.zeros(4, 3)}}
    classes = {"a": torch.distributions.Normal, "b": torch.distributions.Categorical}
    dist = CompositeDistribution(TensorDict(parts, [4]), distribution_map=classes)
    expected = torch.distributions.Normal(0.0, 1.0).entropy() + torch.tensor(3.0).log()
    torch.testing.assert_close(loss.get_entropy_bonus(dist), expected.expand(4, 1))


OF_A_DISTRIBUTION = """\
specgen: 1
losses:
  CloningLoss:
    networks: {actor_network: {policy: action, in: [observation]}}
    keys: {action: action}
    learnable: {log_alpha: {init: 0.0}}
    let:
      dist: actor_network(now)
      drawn: rsample(dist)
      log_p: log_prob(dist, drawn)
      surprise: log_p**2
    terms:
      loss_alpha: exp(log_alpha) * stop_grad(surprise)
      loss_actor: surprise
    methods:
      alpha_loss: {term: loss_alpha, given: {dist: dist}, type: "float32[1]"}
      surprise: {value: surprise, given: {policy: dist}}
"""


def test_a_method_reads_a_distribution(tmp_path: Path) -> None:
    with imported(generate({"cloning.yaml": OF_A_DISTRIBUTION}, "given_policy"), "given_policy", tmp_path):
        module = importlib.import_module("given_policy.cloning")
        loss = module.CloningLoss(networks(losses()["A2CLoss"])["actor_network"])
        dist = modules.IndependentNormal(torch.zeros(4, 2), torch.ones(4, 2))
        expected = dist.log_prob(seeded(lambda _: dist.rsample(), TensorDict())) ** 2
        torch.testing.assert_close(seeded(loss.surprise, dist), expected)
        alpha = seeded(loss.alpha_loss, dist)
        torch.testing.assert_close(alpha, expected.unsqueeze(-1))
        alpha.sum().backward()
        torch.testing.assert_close(loss.log_alpha.grad, expected.sum())


GIVEN = """\
specgen: 1
losses:
  CostLoss:
    networks:
      critic: {in: [observation], out: {state_value: "float32[1]"}}
    params: {coeff: {default: 1.0, buffer: true}, power: 2.0}
    let:
      v: critic(now)
      size: abs(v)
      cost: size**power + v
    terms:
      loss_other: abs(v)
      loss_critic: {value: coeff * cost + cost, when: coeff}
    methods:
      critic_loss: {term: loss_critic, given: {value: v}}
      sized_loss: {term: loss_critic, given: {magnitude: size, v: v}}
      cost_loss: {term: loss_critic, given: {cost: cost}}
"""


def test_a_method_begins_anywhere_in_let(tmp_path: Path) -> None:
    with imported(generate({"cost.yaml": GIVEN}, "given_values"), "given_values", tmp_path):
        module = importlib.import_module("given_values.cost")
        loss = module.CostLoss(critic(), coeff=3.0)
        v, size, cost = torch.tensor([1.0, -2.0]), torch.tensor([3.0, 1.0]), torch.tensor([0.5, 0.25])
        torch.testing.assert_close(loss.critic_loss(v), 4 * (v.abs() ** 2 + v))
        torch.testing.assert_close(loss.sized_loss(v=v, magnitude=size), 4 * (size**2 + v))
        torch.testing.assert_close(loss.cost_loss(cost), 4 * cost)
        loss = module.CostLoss(critic(), coeff=0.0)
        with pytest.raises(ValueError, match="CostLoss: there is no 'loss_critic' with its parameters"):
            loss.cost_loss(cost)


def test_a_selection_stays() -> None:
    loss = made(TD3Loss).select_out_keys("loss_qvalue")
    loss.actor_loss(batch("TD3Loss", 6))
    assert loss.out_keys == ["loss_qvalue"]
    with pytest.raises(KeyError, match="observation"):
        loss.actor_loss(batch("TD3Loss", 6).exclude("observation"))
    assert set(loss(batch("TD3Loss", 6)).keys()) == {"loss_qvalue"}


def test_what_a_part_writes_is_written() -> None:
    loss = made(SACLoss)
    data = batch("SACLoss", 6)
    loss.actor_loss(data)
    assert data.get("td_error", None) is None
    loss.qvalue_loss(data)
    assert data["td_error"].shape == (6, 1)


def test_a_term_that_parameters_leave_out(tmp_path: Path) -> None:
    text = """\
specgen: 1
losses:
  CostLoss:
    networks:
      critic: {in: [observation], out: {state_value: "float32[1]"}}
    params: {coeff: 1.0}
    terms:
      loss_other: abs(critic(now))
      loss_critic: {value: coeff * critic(now)**2, when: coeff}
    methods: {critic_loss: loss_critic}
"""
    with imported(generate({"cost.yaml": text}, "left_out"), "left_out", tmp_path):
        module = importlib.import_module("left_out.cost")
        loss = module.CostLoss(critic())
        data = batch("A2CLoss", 5)
        torch.testing.assert_close(loss.critic_loss(data)[0], loss(data)["loss_critic"])
        loss.coeff = 0.0
        with pytest.raises(ValueError, match="CostLoss: there is no 'loss_critic' with its parameters"):
            loss.critic_loss(data)
