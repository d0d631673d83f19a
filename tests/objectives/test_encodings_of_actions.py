"""Actions that are stored otherwise than a network has them: indices where it is one-hot, and the other way round."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from specgen_runtime.modules import OneHotCategorical
from specgen_runtime.objectives import LossModule
from specgen_runtime.objectives.policies import PolicyDistribution
from tensordict import TensorDict
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
)
from torch.nn.functional import one_hot

from tests.objectives.every_loss import (
    DISCRETE,
    KEYWORDS,
    N_OBS,
    batch,
    layers,
    losses,
    made,
    network,
    networks,
)

pytestmark = pytest.mark.filterwarnings("ignore:No target network updater", "ignore:.*arget.*updater.*")

CHOICES = 3
SCORED = (
    "A2CLoss",
    "PPOLoss",
    "ClipPPOLoss",
    "KLPENPPOLoss",
    "ReinforceLoss",
    "IPPOLoss",
    "MAPPOLoss",
    "BCLoss",
)
"""Losses that score the actions of the data."""


def policy(distribution: type[torch.distributions.Distribution]) -> ProbabilisticTensorDictSequential:
    torch.manual_seed(0)
    return ProbabilisticTensorDictSequential(
        TensorDictModule(layers(N_OBS, CHOICES), in_keys=["observation"], out_keys=["logits"]),
        ProbabilisticTensorDictModule(
            in_keys=["logits"], out_keys=["action"], distribution_class=distribution, return_log_prob=True
        ),
    )


def data(name: str, size: int, *, indices: bool) -> TensorDict:
    found = batch(name, size)
    shape = found["action"].shape[:-1]
    index = torch.randint(CHOICES, shape, generator=torch.Generator().manual_seed(0))
    found["action"] = index if indices else one_hot(index, CHOICES)
    return found.set("logits", torch.zeros(*shape, CHOICES))


@pytest.mark.parametrize("size", [6, 2])
@pytest.mark.parametrize("name", sorted(DISCRETE | {"QMixerLoss"}))
def test_indices_where_action_values_are_one_hot(name: str, size: int) -> None:
    """Also in a batch of as many samples as there are actions, in which shapes agree by chance."""
    loss, found = made(losses()[name]), batch(name, size)
    key: Any = ("agents", "action") if name == "QMixerLoss" else "action"
    found[key] = found[key].argmax(-1)
    message = "is action_space='categorical' meant|indices are those of a Categorical"
    with pytest.raises((ValueError, RuntimeError), match=message):
        loss(found)


def loss_of(name: str, distribution: type[torch.distributions.Distribution]) -> LossModule:
    given = {**networks(losses()[name]), "actor_network": policy(distribution)}
    return losses()[name](*given.values(), **KEYWORDS.get(name, {}))


@pytest.mark.parametrize("size", [6, CHOICES])
@pytest.mark.parametrize("distribution", [OneHotCategorical, torch.distributions.OneHotCategorical])
@pytest.mark.parametrize("name", SCORED)
def test_indices_where_a_policy_draws_one_hot(name: str, distribution: Any, size: int) -> None:
    loss = loss_of(name, distribution)
    loss(data(name, size, indices=False))
    message = f"{name}: 'action', the action, has the shape .*, where the policy draws .* from a OneHotCategorical; "
    with pytest.raises(RuntimeError, match=f"{message}indices are those of a Categorical"):
        loss(data(name, size, indices=True))


@pytest.mark.parametrize("size", [6, CHOICES])
@pytest.mark.parametrize("name", SCORED)
def test_one_hot_where_a_policy_draws_indices(name: str, size: int) -> None:
    loss = loss_of(name, torch.distributions.Categorical)
    loss(data(name, size, indices=True))
    message = (
        f"{name}: 'action', the action, has the shape .*, where the policy draws .* from a Categorical; "
    )
    with pytest.raises(RuntimeError, match=f"{message}one-hot actions are those of a OneHotCategorical"):
        loss(data(name, size, indices=False))


def test_indices_in_a_column() -> None:
    """Each would be scored for every sample of the batch."""
    loss, found = loss_of("A2CLoss", torch.distributions.Categorical), data("A2CLoss", 6, indices=True)
    found["action"] = found["action"].unsqueeze(-1)
    with pytest.raises(RuntimeError, match=r"has the shape \[6, 1\], where the policy draws \[6\]"):
        loss(found)


@pytest.mark.peers
def test_torchrl_scores_other_choices() -> None:
    """It takes the largest of all indices of the batch for the one choice of all samples, and says nothing."""
    objectives, modules = pytest.importorskip("torchrl.objectives"), pytest.importorskip("torchrl.modules")
    found = data("A2CLoss", 6, indices=True)
    theirs = objectives.A2CLoss(policy(modules.OneHotCategorical), network("A2CLoss", "critic_network"))
    got = theirs(found.clone())["loss_objective"]
    log_probs = policy(OneHotCategorical)[0](found.clone())["logits"].log_softmax(-1)
    advantage = found["advantage"].squeeze(-1)
    right = -(log_probs.gather(-1, found["action"].unsqueeze(-1)).squeeze(-1) * advantage).mean()
    assert not torch.isclose(got, right, atol=1e-2)
    found["action"] = one_hot(found["action"], CHOICES)
    torch.testing.assert_close(
        loss_of("A2CLoss", OneHotCategorical)(found)["loss_objective"], right, rtol=1e-5, atol=1e-5
    )


@pytest.mark.peers
@pytest.mark.parametrize("name", ["OneHotCategorical", "MaskedOneHotCategorical"])
def test_distributions_of_torchrl(name: str) -> None:
    """They have the shapes of those of indices, and draw one-hot vectors."""
    kind = getattr(pytest.importorskip("torchrl.modules"), name)
    mask = {"mask": torch.ones(6, CHOICES, dtype=torch.bool)} if name.startswith("Masked") else {}

    logits, choices = torch.randn(6, CHOICES), torch.randint(CHOICES, (6,))
    found = PolicyDistribution(kind(logits=logits, **mask), 1)
    assert found.drawn_shape == (6, CHOICES)
    expected = OneHotCategorical(logits=logits).log_prob(one_hot(choices, CHOICES))
    torch.testing.assert_close(found.log_prob(one_hot(choices, CHOICES)), expected)
    if not mask:
        loss = loss_of("A2CLoss", kind)
        ours = loss_of("A2CLoss", OneHotCategorical)
        ours.load_state_dict(loss.state_dict())
        rows = data("A2CLoss", 6, indices=False)
        assert torch.isclose(loss(rows.clone())["loss_objective"], ours(rows.clone())["loss_objective"])
        with pytest.raises(RuntimeError, match="indices are those of a Categorical"):
            loss(data("A2CLoss", 6, indices=True))


class Told(torch.distributions.Distribution):
    """Written by a user who does not say what the shape of a draw is."""

    arg_constraints: ClassVar[Any] = {}

    def __init__(self, logits: torch.Tensor) -> None:
        self.middle = logits
        super().__init__(logits.shape[:-1], validate_args=False)

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        return -(value - self.middle).square().sum(-1)

    @property
    def mode(self) -> torch.Tensor:
        return self.middle


class Untold(Told):
    """Written by one who says nothing at all."""

    @property
    def mode(self) -> torch.Tensor:
        raise NotImplementedError


def test_distributions_of_users() -> None:
    assert PolicyDistribution(Told(torch.zeros(6, 2)), 1).drawn_shape == (6, 2)
    assert PolicyDistribution(Untold(torch.zeros(6, 2)), 1).drawn_shape is None
