"""Losses and modules take TorchRL's specs, and its policies that have some, where they take specs."""

from __future__ import annotations

from typing import Any

import pytest
import specgen_std.losses as library
import torch
from specgen_runtime import specs
from specgen_runtime.interop import spec_to_torchrl
from specgen_runtime.modules import (
    Actor,
    AdditiveGaussianModule,
    DistributionalQValueActor,
    EGreedyModule,
    OrnsteinUhlenbeckProcessModule,
    ProbabilisticActor,
    QValueActor,
    TanhNormal,
)
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import nn

from tests.objectives.every_loss import N_ACT, N_OBS, Joined

theirs: Any = pytest.importorskip("torchrl.modules")
pytestmark = pytest.mark.peers

BOUNDED = specs.Bounded(-torch.ones(N_ACT), torch.ones(N_ACT), (N_ACT,))
CLASSES = {"one_hot": specs.OneHot(N_ACT), "categorical": specs.Categorical(N_ACT)}


def policy(cls: Any, spec: Any) -> Any:
    numbers = nn.Sequential(nn.Linear(N_OBS, 2 * N_ACT), NormalParamExtractor())
    return cls(
        TensorDictModule(numbers, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        spec=spec,
    )


def critic() -> TensorDictModule:
    return TensorDictModule(Joined(), in_keys=["observation", "action"], out_keys=["state_action_value"])


@pytest.mark.parametrize("name", ["SACLoss", "REDQLoss", "CrossQLoss", "CQLLoss", "OnlineDTLoss"])
@pytest.mark.parametrize("library_of_the_policy", ["TorchRL's", "ours"])
def test_the_entropy_that_is_wanted_is_that_of_all_numbers_of_an_action(
    name: str, library_of_the_policy: str
) -> None:
    """Of a composite that is not recognised as one it would be that of one number."""
    cls = theirs.ProbabilisticActor if library_of_the_policy == "TorchRL's" else ProbabilisticActor
    networks = [policy(cls, spec_to_torchrl(BOUNDED))]
    networks += [] if name == "OnlineDTLoss" else [critic()]
    assert getattr(library, name)(*networks).target_entropy.item() == -N_ACT


@pytest.mark.parametrize("name", ["SACLoss", "REDQLoss", "CrossQLoss", "CQLLoss"])
def test_the_spec_of_the_action_is_given_alone(name: str) -> None:
    batched = specs.Composite(action=BOUNDED.expand(3, N_ACT), shape=(3,))
    for spec in (BOUNDED, specs.Composite(action=BOUNDED), batched):
        loss = getattr(library, name)(
            policy(ProbabilisticActor, None), critic(), action_spec=spec_to_torchrl(spec)
        )
        assert loss.target_entropy.item() == -N_ACT


@pytest.mark.parametrize("name", ["TD3Loss", "TD3BCLoss"])
def test_bounds(name: str) -> None:
    spec = specs.Bounded(-torch.arange(1.0, N_ACT + 1), torch.ones(N_ACT), (N_ACT,))
    actor = theirs.Actor(nn.Linear(N_OBS, N_ACT), spec=spec_to_torchrl(spec))
    for given in (spec_to_torchrl(spec), actor.spec):
        loss = getattr(library, name)(actor, critic(), action_spec=given)
        torch.testing.assert_close(loss.min_action, spec.low)
        torch.testing.assert_close(loss.max_action, spec.high)


@pytest.mark.parametrize("space", CLASSES)
@pytest.mark.parametrize("name", ["DQNLoss", "DiscreteCQLLoss"])
def test_how_actions_are_stored(name: str, space: str) -> None:
    spec = spec_to_torchrl(CLASSES[space])
    loss = getattr(library, name)
    assert loss(nn.Linear(N_OBS, N_ACT), action_space=spec).action_space == space
    plain = TensorDictModule(nn.Linear(N_OBS, N_ACT), in_keys=["observation"], out_keys=["action_value"])
    plain.spec = spec_to_torchrl(specs.Composite(action=CLASSES[space]))
    assert loss(plain).action_space == space


@pytest.mark.parametrize("composite", [False, True])
def test_modules_have_the_spec_that_theirs_is_like(composite: bool) -> None:
    def given(leaf: Any) -> Any:
        return spec_to_torchrl(specs.Composite(action=leaf) if composite else leaf)

    layer = nn.Linear(N_OBS, N_ACT)
    for made in (policy(ProbabilisticActor, given(BOUNDED)), Actor(layer, spec=given(BOUNDED))):
        assert made.spec["action"] == BOUNDED
    wanted = specs.Composite(action=CLASSES["one_hot"]) if composite else CLASSES["one_hot"]
    atoms = nn.Sequential(nn.Linear(N_OBS, 3 * N_ACT), nn.Unflatten(-1, (3, N_ACT)))
    for qvalues in (
        QValueActor(layer, spec=given(CLASSES["one_hot"])),
        DistributionalQValueActor(atoms, torch.arange(3.0), spec=given(CLASSES["one_hot"])),
    ):
        assert qvalues.spec == wanted
        assert qvalues.action_space == "one_hot"
        data = qvalues(TensorDict({"observation": torch.randn(5, N_OBS)}, [5]))
        assert CLASSES["one_hot"].is_in(data["action"])
    assert EGreedyModule(given(CLASSES["one_hot"])).spec == wanted
    bounded = specs.Composite(action=BOUNDED) if composite else BOUNDED
    for cls in (AdditiveGaussianModule, OrnsteinUhlenbeckProcessModule):
        assert cls(spec=given(BOUNDED)).spec == bounded


def test_what_is_no_spec_is_refused() -> None:
    with pytest.raises(TypeError, match="spec must be a spec, got str"):
        policy(ProbabilisticActor, "Bounded")
    with pytest.raises(TypeError, match="spec must be the spec of the action, got int"):
        EGreedyModule(3)  # type: ignore[arg-type]
