"""Policies and value functions as tensordict modules."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import pytest
import torch
from specgen_runtime import modules as ours
from specgen_runtime.specs import Bounded, Categorical, Composite, Unbounded
from tensordict import TensorDict
from tensordict.nn import CompositeDistribution, InteractionType, TensorDictModule, set_interaction_type
from torch import nn

SPEC = Bounded(-1.0, 1.0, (2,))


def network() -> TensorDictModule:
    torch.manual_seed(0)
    return TensorDictModule(
        nn.Sequential(nn.Linear(4, 4), ours.NormalParamExtractor()),
        in_keys=["observation"],
        out_keys=["loc", "scale"],
    )


def observations(*batch: int, scale: float = 1.0) -> TensorDict:
    torch.manual_seed(1)
    return TensorDict({"observation": scale * torch.randn(*batch, 4)}, batch)


def actor(module: Any = ours, **keywords: Any) -> Any:
    keywords = {"distribution_class": module.TanhNormal, "return_log_prob": True} | keywords
    return module.ProbabilisticActor(network(), in_keys=["loc", "scale"], **keywords)


def test_a_probabilistic_actor_draws_and_scores() -> None:
    policy = actor(spec=SPEC, default_interaction_type=InteractionType.RANDOM)
    data = policy(observations(7))
    assert set(data.keys()) == {"observation", "loc", "scale", "action", "action_log_prob"}
    assert SPEC.is_in(data["action"])
    dist = policy.get_dist(observations(7))
    assert isinstance(dist, ours.TanhNormal)
    torch.testing.assert_close(dist.log_prob(data["action"].clone()), data["action_log_prob"])
    with set_interaction_type(InteractionType.DETERMINISTIC):
        assert torch.equal(policy(observations(7))["action"], data["loc"].tanh())


def test_an_actor_scores_what_it_draws_where_tanh_is_saturated() -> None:
    far = TensorDictModule(lambda x: (x + 30, torch.full_like(x, 0.1)), ["observation"], ["loc", "scale"])
    policy = ours.ProbabilisticActor(
        far, ["loc", "scale"], distribution_class=ours.TanhNormal, return_log_prob=True
    )
    data = observations(7).double()
    with set_interaction_type(InteractionType.RANDOM):
        torch.manual_seed(2)
        data = policy(data)
    normal = torch.distributions.Normal(data["loc"], data["scale"])
    torch.manual_seed(2)
    latent = normal.rsample()
    slope = 2 * (math.log(2.0) - latent - torch.nn.functional.softplus(-2 * latent))
    expected = (normal.log_prob(latent) - slope).sum(-1)
    torch.testing.assert_close(data["action_log_prob"], expected, rtol=1e-10, atol=1e-10)
    inverted = policy.get_dist(observations(7).double()).log_prob(data["action"])
    assert (inverted - expected).abs().min() > 50


@pytest.mark.peers
@pytest.mark.parametrize(
    ("mode", "scale"),
    [(InteractionType.RANDOM, 1.0), (InteractionType.RANDOM, 100.0), (InteractionType.DETERMINISTIC, 1.0)],
)
def test_probabilistic_actors_are_torchrls(mode: InteractionType, scale: float) -> None:
    theirs = pytest.importorskip("torchrl.modules")
    results = []
    for module in (ours, theirs):
        policy = actor(module, default_interaction_type=mode)
        torch.manual_seed(5)
        data = policy(observations(7, scale=scale))
        gradients = torch.autograd.grad(data["action_log_prob"].sum(), list(policy.parameters()))
        results.append([data["action"], data["action_log_prob"], *gradients])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_composites() -> None:
    heads = TensorDictModule(
        lambda x: TensorDict({"move": {"loc": x, "scale": x.exp()}, "turn": {"logits": x}}, x.shape[:1]),
        in_keys=["observation"],
        out_keys=["params"],
    )
    policy = ours.ProbabilisticActor(
        heads,
        in_keys=["params"],
        distribution_class=CompositeDistribution,
        distribution_kwargs={
            "distribution_map": {"move": ours.TanhNormal, "turn": torch.distributions.Categorical}
        },
        spec=Composite(move=Bounded(-1.0, 1.0, (4,)), turn=Categorical(4)),
        return_log_prob=True,
        default_interaction_type=InteractionType.RANDOM,
    )
    data = policy(observations(5))
    assert policy.out_keys[-4:] == ["move", "turn", "move_log_prob", "turn_log_prob"]
    assert policy.spec["move"].is_in(data["move"])
    assert data["move_log_prob"].shape == data["turn_log_prob"].shape == (5,)
    with pytest.raises(KeyError, match="'distribution_map'"):
        ours.ProbabilisticActor(heads, in_keys=["params"], distribution_class=CompositeDistribution)


def test_parts_of_composites_are_scored_where_they_were_drawn() -> None:
    loc = torch.full((5, 2), 30.0, dtype=torch.float64)
    parameters = TensorDict({"move": {"loc": loc, "scale": torch.full_like(loc, 0.1)}}, [5])
    policy = ours.SafeProbabilisticModule(
        ["params"],
        ["move"],
        distribution_class=CompositeDistribution,
        distribution_kwargs={"distribution_map": {"move": ours.TanhNormal}},
        return_log_prob=True,
        default_interaction_type=InteractionType.RANDOM,
    )
    torch.manual_seed(2)
    data = policy(TensorDict({"params": parameters}, [5]))
    torch.manual_seed(2)
    action, log_prob = ours.TanhNormal(loc, 0.1).sample_and_log_prob()
    assert torch.equal(data["move"], action)
    torch.testing.assert_close(data["move_log_prob"], log_prob)


def test_safe_modules_project() -> None:
    policy = ours.Actor(nn.Linear(4, 2), spec=SPEC, safe=True)
    assert SPEC.is_in(policy(observations(50, scale=100.0))["action"])
    free = ours.Actor(nn.Linear(4, 2), spec=SPEC)
    assert not SPEC.is_in(free(observations(50, scale=100.0))["action"])
    wide = actor(distribution_class=ours.IndependentNormal, spec=SPEC, safe=True)
    assert SPEC.is_in(wide(observations(50, scale=100.0))["action"])
    for module in (policy, wide):
        assert SPEC.is_in(copy.deepcopy(module)(observations(50, scale=100.0))["action"])
    assert SPEC.is_in(pickle.loads(pickle.dumps(policy))(observations(50, scale=100.0))["action"])


def test_specs_of_the_parts_of_what_is_written() -> None:
    """An action may be a tensordict, such as what a composite distribution draws."""
    given = Composite({("agent", "move"): SPEC})
    module = ours.SafeModule(nn.Identity(), ["observation"], ["agent"], spec=given)
    assert module.spec["agent", "move"] == SPEC
    assert module.spec == given
    with pytest.raises(ValueError, match="does not write"):
        ours.SafeModule(nn.Identity(), ["observation"], [("agent", "move")], spec=Composite(agent=SPEC))


def test_specs_of_modules() -> None:
    policy = actor(spec=SPEC)
    assert policy.spec["action"] == SPEC
    assert policy.spec["loc"] is None
    assert policy.spec["action_log_prob"] is None
    given = Composite(action=SPEC)
    value = ours.SafeModule(nn.Linear(4, 2), ["observation"], ["action"], spec=given)
    assert value.spec == given
    assert value.spec is not given
    assert set(ours.SafeSequential(value, policy).spec.keys(True, True)) == {
        "action", "loc", "scale", "action_log_prob",
    }  # fmt: skip
    drawn = value.random(observations(3))
    assert SPEC.is_in(drawn["action"])
    assert drawn["action"].shape == (3, 2)
    assert value.to(torch.float64)(observations(3).double())["action"].dtype == torch.float64
    assert value.to("cpu").spec["action"].device.type == "cpu"
    value.spec = Composite(action=Unbounded((2,)))
    assert value.spec["action"] == Unbounded((2,))


def test_specs_that_do_not_fit() -> None:
    with pytest.raises(TypeError, match="spec must be a spec, got int"):
        ours.Actor(nn.Linear(4, 2), spec=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one spec is given for the outputs"):
        ours.SafeModule(nn.Identity(), ["observation"], ["loc", "scale"], spec=SPEC)
    with pytest.raises(ValueError, match=r"the spec has \['move'\], which the module does not write"):
        ours.Actor(nn.Linear(4, 2), spec=Composite(move=SPEC))
    with pytest.raises(ValueError, match="safe=True needs the spec of an output"):
        ours.Actor(nn.Linear(4, 2), safe=True)
    with pytest.raises(ValueError, match="the output 'action' has no spec to draw from"):
        ours.Actor(nn.Linear(4, 2)).random(observations(3))
    with pytest.raises(TypeError, match="spec must be a Composite of the outputs by key, got Bounded"):
        ours.Actor(nn.Linear(4, 2)).spec = SPEC


def test_an_actor_is_certain() -> None:
    policy = ours.Actor(nn.Linear(4, 2))
    dist = policy.get_dist(observations(3))
    assert isinstance(dist, ours.Delta)
    assert torch.equal(dist.mode, policy(observations(3))["action"])
    assert (policy.in_keys, policy.out_keys) == (["observation"], ["action"])
    both = TensorDictModule(lambda x: (x[..., :2], x), ["observation"], ["action", "hidden"])
    assert ours.Actor(both.module, out_keys=["action", "hidden"], spec=SPEC).spec["action"] == SPEC


def test_value_operators() -> None:
    assert ours.ValueOperator(nn.Linear(4, 1)).out_keys == ["state_value"]
    value = ours.ValueOperator(nn.Bilinear(4, 2, 1), in_keys=["observation", "action"])
    assert value.out_keys == ["state_action_value"]
    data = observations(3).set("action", torch.randn(3, 2))
    assert value(data)["state_action_value"].shape == (3, 1)
    assert ours.ValueOperator(nn.Linear(4, 1), out_keys=["worth"]).out_keys == ["worth"]


def parts() -> tuple[Any, Any]:
    common = ours.SafeModule(nn.Linear(4, 4), ["observation"], ["hidden"])
    net = TensorDictModule(
        nn.Sequential(nn.Linear(4, 4), ours.NormalParamExtractor()),
        in_keys=["hidden"],
        out_keys=["loc", "scale"],
    )
    policy = ours.ProbabilisticActor(
        net, in_keys=["loc", "scale"], distribution_class=ours.TanhNormal, spec=SPEC
    )
    return common, policy


def test_actor_value_operator() -> None:
    common, policy = parts()
    both = ours.ActorValueOperator(common, policy, ours.ValueOperator(nn.Linear(4, 1), in_keys=["hidden"]))
    data = both(observations(3))
    assert both.spec["action"] == SPEC
    alone = both.get_policy_operator()
    assert torch.equal(alone(observations(3))["action"], data["action"])
    assert "state_value" not in alone(observations(3))
    assert isinstance(alone.get_dist(observations(3)), ours.TanhNormal)
    value = both.get_value_operator()(observations(3))
    assert torch.equal(value["state_value"], data["state_value"])
    assert "action" not in value
    assert both.get_policy_head() is policy
    assert both.get_value_head().in_keys == ["hidden"]
    assert {id(p) for p in alone.parameters()} < {id(p) for p in both.parameters()}


def test_actor_critic_operator() -> None:
    common, policy = parts()
    value = ours.ValueOperator(nn.Bilinear(4, 2, 1), in_keys=["hidden", "action"])
    both = ours.ActorCriticOperator(common, policy, value)
    assert both.get_critic_operator() is both
    assert both(observations(3))["state_action_value"].shape == (3, 1)
    with pytest.raises(RuntimeError, match="no values of states here"):
        both.get_value_operator()
    with pytest.raises(RuntimeError, match="writes 'state_value'"):
        ours.ActorCriticOperator(common, policy, ours.ValueOperator(nn.Linear(4, 1), in_keys=["hidden"]))


def test_actor_critic_wrapper() -> None:
    policy, value = actor(), ours.ValueOperator(nn.Linear(4, 1))
    both = ours.ActorCriticWrapper(policy, value)
    assert both.get_policy_operator() is both.get_policy_head() is policy
    assert both.get_value_operator() is both.get_value_head() is value
    assert {"action", "state_value"} < set(both(observations(3)).keys())
