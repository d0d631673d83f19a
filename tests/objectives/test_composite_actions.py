"""Policies whose distribution is a composite: an action is a tensordict, its log-probability the sum over the parts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.modules import ProbabilisticActor, TanhNormal
from specgen_runtime.objectives import GAE, PolicyDistribution, VTrace
from specgen_runtime.objectives.composites import composite_log_prob
from specgen_runtime.specs import Bounded, Composite, Unbounded
from specgen_std.losses import A2CLoss, ClipPPOLoss, KLPENPPOLoss, SACLoss
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import (
    CompositeDistribution,
    NormalParamExtractor,
    TensorDictModule,
    TensorDictSequential,
    set_composite_lp_aggregate,
)
from torch import Tensor, nn

from tests.objectives.peers import N_OBS, assert_equal, batch, state_value

pytestmark = pytest.mark.filterwarnings("ignore:.*arget.*updater.*", "ignore:.*No target network updater.*")

PARTS = {"arm": 2, "leg": 3}
SPEC = Composite({"action": {name: Bounded(-1.0, 1.0, (size,)) for name, size in PARTS.items()}})


@pytest.fixture(autouse=True, params=[False, True], ids=["by part", "summed"])
def aggregate(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both of tensordict's modes: log-probabilities of composites by part, or as their sum."""
    if request.param and "equals_torchrl" in request.node.name:
        pytest.skip("the peer's tests are in the first mode")
    with set_composite_lp_aggregate(request.param):
        yield


def policy(dtype: torch.dtype = torch.float32, *, named: bool = False) -> ProbabilisticActor:
    """A policy over an arm and a leg; ``named`` says where they are in the data, as its draws need it there."""
    torch.manual_seed(0)
    modules = []
    for name, size in PARTS.items():
        net = nn.Sequential(nn.Linear(N_OBS, 2 * size, dtype=dtype), NormalParamExtractor())
        keys: list[Any] = [("params", name, "loc"), ("params", name, "scale")]
        modules.append(TensorDictModule(net, in_keys=["observation"], out_keys=keys))
    names = {"name_map": {name: ("action", name) for name in PARTS}} if named else {}
    return ProbabilisticActor(
        TensorDictSequential(*modules),
        in_keys=["params"],
        out_keys=["action"],
        distribution_class=partial(
            CompositeDistribution, distribution_map=dict.fromkeys(PARTS, TanhNormal), **names
        ),
        return_log_prob=named,
    )


class ActionValue(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.net = nn.Linear(N_OBS + sum(PARTS.values()), 1, dtype=dtype)

    def forward(self, observation: Tensor, action: TensorDictBase) -> Tensor:
        return self.net(torch.cat([observation, *(action.get(name) for name in PARTS)], -1))


def action_value(dtype: torch.dtype = torch.float32) -> TensorDictModule:
    torch.manual_seed(1)
    return TensorDictModule(
        ActionValue(dtype), in_keys=["observation", "action"], out_keys=["state_action_value"]
    )


def data_of(*shape: int, dtype: torch.dtype = torch.float32) -> TensorDict:
    data = batch(*shape, dtype=dtype).exclude("priority_weight", "action")
    generator = torch.Generator().manual_seed(4)
    for name, size in PARTS.items():
        drawn = torch.randn(*shape, size, generator=generator, dtype=torch.float64).to(dtype)
        data["action", name] = 0.9 * drawn.tanh()
    return data


@pytest.mark.peers
@pytest.mark.parametrize("shape", [(16,), (4, 3)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_sac_equals_torchrl(shape: tuple[int, ...], dtype: torch.dtype, tolerance: float) -> None:
    objectives = pytest.importorskip("torchrl.objectives")
    losses = [
        cls(policy(dtype), action_value(dtype), target_entropy=-1.5) for cls in (SACLoss, objectives.SACLoss)
    ]
    copy_parameters(*losses)
    terms = ("loss_actor", "loss_qvalue", "loss_alpha")
    data = partial(data_of, *shape, dtype=dtype)
    assert_equal(*losses, data, outputs=(*terms, "alpha", "entropy"), terms=terms, tolerance=tolerance)


@pytest.mark.peers
@pytest.mark.parametrize("shape", [(16,), (4, 3)])
def test_a2c_equals_torchrl(shape: tuple[int, ...]) -> None:
    objectives = pytest.importorskip("torchrl.objectives")
    losses = [cls(policy(named=True), state_value()) for cls in (A2CLoss, objectives.A2CLoss)]
    outputs: list[Any] = []
    for loss in losses:
        data = data_of(*shape)
        data["advantage"] = torch.linspace(-1, 1, data.numel()).view(*shape, 1)
        data["value_target"] = data["next", "reward"].clone()
        out = loss(data)
        out["loss_objective"].backward()
        gradients = [p.grad for p in loss.actor_network_params.values(True, True)]
        outputs.append((out["loss_objective"], out["loss_critic"], *gradients))
    for got, wanted in zip(*outputs, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(16,), (4, 3)])
def test_the_divergence_from_stored_parameters(shape: tuple[int, ...]) -> None:
    """Schulman et al. 2017, eq. 8, over two independent parts: the sum of their divergences, those before tanh."""
    actor = policy(named=True)
    data = data_of(*shape)
    with torch.no_grad():
        data["params"] = actor[0](data.clone())["params"]
    data["params", "arm", "loc"] += 0.2
    data["advantage"] = torch.linspace(-1, 1, data.numel()).view(*shape, 1)
    data["value_target"] = data["next", "reward"].clone()
    loss = KLPENPPOLoss(actor, state_value())
    data[loss.tensor_keys.sample_log_prob] = torch.zeros(*shape)
    assert "params" in loss.in_keys
    out = loss(data)
    wanted = torch.zeros(shape)
    for name in PARTS:
        (m, s), (n, t) = (
            [normal.base_dist.mean, normal.base_dist.stddev]
            for normal in (
                TanhNormal(data["params", name, "loc"], data["params", name, "scale"]),
                actor.get_dist(data.select("observation")).dists["action", name],
            )
        )
        wanted = wanted + (torch.log(t / s) + (s**2 + (m - n) ** 2) / (2 * t**2) - 0.5).sum(-1)
    torch.testing.assert_close(out["kl"], wanted, rtol=1e-4, atol=1e-4)
    assert (out["kl"] > 0).any()
    out["loss_objective"].backward()
    assert any(p.grad is not None and p.grad.any() for p in loss.actor_network_params.values(True, True))


def test_stored_parameters_that_are_missing_are_named() -> None:
    loss = KLPENPPOLoss(policy(named=True), state_value())
    data = data_of(4)
    data["advantage"] = data["value_target"] = data["next", "reward"].clone()
    data["action_log_prob"] = torch.zeros(4)
    with pytest.raises(KeyError, match="actor_network: a parameter of the distribution 'params' is not in"):
        loss(data)


def copy_parameters(mine: Any, theirs: Any) -> None:
    for name in ("actor_network", "qvalue_network"):
        for prefix in ("", "target_"):
            own, other = (getattr(loss, f"{prefix}{name}_params") for loss in (mine, theirs))
            for key, value in own.items(True, True):
                other.data.get(key).copy_(value.data)


def test_the_log_probability_of_an_action_is_the_sum_of_its_parts() -> None:
    data = data_of(5)
    made = policy().get_dist(data)
    found = PolicyDistribution(made, 1).log_prob(data["action"])
    torch.testing.assert_close(
        found, sum(part.log_prob(data["action", name]) for name, part in made.dists.items())
    )
    with pytest.raises(KeyError, match="no part 'leg'"):
        PolicyDistribution(made, 1).log_prob(data["action"].exclude("leg"))
    with pytest.raises(KeyError, match="'arm', 'leg' is a tensor"):
        PolicyDistribution(made, 1).log_prob(data["action", "arm"])


def test_draws_are_as_the_data_hold_actions() -> None:
    data = data_of(5)
    for named in (False, True):
        distribution = PolicyDistribution(policy(named=named).get_dist(data), 1)
        torch.manual_seed(2)
        action, log_prob = distribution.rsample_and_log_prob(3)
        assert isinstance(action, TensorDictBase)
        assert set(action.keys()) == set(PARTS)
        assert action["leg"].shape == (3, 5, 3)
        torch.testing.assert_close(distribution.log_prob(action), log_prob, rtol=1e-4, atol=1e-4)
        assert distribution.entropy(4).shape == (5,)
        assert set(distribution.mode().keys()) == set(PARTS)
        assert set(distribution.sample().keys()) == set(PARTS)


def test_an_action_of_one_part_may_be_a_tensor() -> None:
    """As with `name_map={"arm": ("action", "arm")}` where the loss reads `("action", "arm")`."""
    actor = ProbabilisticActor(
        policy()[0][0],
        in_keys=["params"],
        out_keys=[("action", "arm")],
        distribution_class=partial(
            CompositeDistribution, distribution_map={"arm": TanhNormal}, name_map={"arm": ("action", "arm")}
        ),
        return_log_prob=True,
    )
    losses = [ClipPPOLoss(actor, state_value(), entropy_bonus=False) for _ in range(2)]
    losses[0].set_keys(action=("action", "arm"), sample_log_prob=[("action", "arm_log_prob")])
    losses[1].set_keys(sample_log_prob=("action", "arm_log_prob"))
    assert losses[0].tensor_keys.sample_log_prob == ("action", "arm_log_prob")
    data = data_of(2, 6)
    data["action", "arm_log_prob"] = torch.linspace(-2, 0, 12).view(2, 6)
    got, wanted = (loss(data.clone()) for loss in losses)
    torch.testing.assert_close(got["loss_objective"], wanted["loss_objective"])
    with pytest.raises(ValueError, match="must be a string"):
        losses[0].set_keys(action=[("action", "arm"), ("action", "leg")])


def test_parts_without_gradients() -> None:
    loss = A2CLoss(policy(), state_value())
    data = data_of(3, 4)
    data["action", "leg"].requires_grad_(True)
    with pytest.raises(RuntimeError, match="'action', the action, requires gradients"):
        loss(data)


def test_what_the_policy_writes_itself_is_not_read() -> None:
    loss = SACLoss(policy(), action_value(), action_spec=SPEC)
    assert "params" not in loss.in_keys
    assert loss.target_entropy.item() == -sum(PARTS.values())
    data = data_of(6)
    assert loss(data)["loss_actor"].isfinite()
    assert "params" not in data


def test_v_trace_sums_the_parts() -> None:
    for named in (False, True):
        actor, data = policy(named=named), data_of(2, 6)
        parts = actor.get_dist(data.clone()).dists.values()
        log_probs = [
            part.log_prob(data["action", name]).detach() for name, part in zip(PARTS, parts, strict=True)
        ]
        data["action_log_prob"] = sum(log_probs)
        data["parts"] = TensorDict(dict(zip(PARTS, log_probs, strict=True)), data.batch_size)
        estimator = VTrace(gamma=0.9, value_network=state_value(), actor_network=actor)
        got = estimator(data.clone())
        # all weights are 1: the target is that of GAE(1)
        wanted = GAE(gamma=0.9, lmbda=1.0, value_network=state_value())(data.clone())
        torch.testing.assert_close(got["value_target"], wanted["value_target"])
        estimator.set_keys(sample_log_prob="parts")
        torch.testing.assert_close(estimator(data.clone())["advantage"], got["advantage"])


def test_specs_of_actions_of_parts() -> None:
    actor = ProbabilisticActor(
        policy()[0],
        in_keys=["params"],
        distribution_class=partial(CompositeDistribution, distribution_map=dict.fromkeys(PARTS, TanhNormal)),
        spec=SPEC,
    )
    assert actor.spec["action", "leg"].shape == (3,)
    assert SACLoss(actor, action_value()).target_entropy.item() == -sum(PARTS.values())
    with pytest.raises(ValueError, match="does not write"):
        ProbabilisticActor(
            policy()[0], in_keys=["params"], distribution_class=TanhNormal, spec=Composite(move=Unbounded(2))
        )


def test_a_part_may_be_called_as_what_holds_it() -> None:
    """`("action", "action")` beside `("action", "power")`, of which a pipeline makes distributions of those names."""
    loc, scale = torch.zeros(4, 2), torch.ones(4, 2)
    names: list[Any] = [("action", "action"), ("action", "power")]
    params = TensorDict(
        {(*name, key): x for name in names for key, x in (("loc", loc), ("scale", scale))}, [4]
    )
    dist = CompositeDistribution(params, distribution_map=dict.fromkeys(names, TanhNormal))
    drawn = dist.sample()
    scores = [dist.dists[name].log_prob(drawn[name]) for name in names]
    torch.testing.assert_close(composite_log_prob(dist, drawn["action"]), scores[0] + scores[1])
    torch.testing.assert_close(composite_log_prob(dist, drawn), scores[0] + scores[1])
    with pytest.raises(KeyError, match="no part"):
        composite_log_prob(dist, drawn["action"].exclude("action"))
