"""The generated `BCLoss`: against TorchRL's, by its formulas, and where it differs on purpose."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.modules import Actor, Delta
from specgen_std.losses import BCLoss
from tensordict import TensorDict
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
)
from torch import nn

from tests.objectives.peers import N_ACT, N_OBS, batch, gradients, policy
from tests.objectives.test_discrete import ACTIONS, layers
from tests.objectives.test_discrete import policy as choosing

WAYS = [None, "l1", "l2", "mse", "smooth_l1"]


def certain(dtype: torch.dtype = torch.float32) -> TensorDictModule:
    """A network that writes an action."""
    torch.manual_seed(0)
    return TensorDictModule(
        nn.Linear(N_OBS, N_ACT, dtype=dtype), in_keys=["observation"], out_keys=["action"]
    )


def of_logits(dtype: torch.dtype = torch.float32) -> TensorDictModule:
    """A network that writes logits of the choices."""
    torch.manual_seed(0)
    return TensorDictModule(layers(dtype), in_keys=["observation"], out_keys=["action"])


def data(*shape: int, dtype: torch.dtype = torch.float32) -> TensorDict:
    return batch(*shape, dtype=dtype).select("observation", "action")


def both(network: nn.Module, made: TensorDict, **given: Any) -> list[tuple[torch.Tensor, Any]]:
    """The term and its gradients, ours and TorchRL's."""
    objectives = pytest.importorskip("torchrl.objectives")
    found = []
    for cls in (BCLoss, objectives.BCLoss):
        loss = cls(network, **given)
        value = loss(made.clone())["loss_bc"]
        found.append((value.detach(), gradients(loss, value.sum())))
    return found


@pytest.mark.peers
@pytest.mark.parametrize("loss_function", WAYS)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("network", [policy, certain])
@pytest.mark.parametrize("shape", [(32,), (4, 3), (1,)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_equals_torchrl(
    loss_function: str | None,
    reduction: str,
    network: Any,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    tolerance: float,
) -> None:
    (mine, own), (theirs, others) = both(
        network(dtype), data(*shape, dtype=dtype), loss_function=loss_function, reduction=reduction
    )
    torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)
    assert own.keys() == others.keys()
    for name, gradient in own.items():
        torch.testing.assert_close(gradient, others[name], rtol=tolerance, atol=tolerance)


@pytest.mark.peers
@pytest.mark.parametrize("column", [False, True])
def test_choices_equal_torchrl(column: bool) -> None:
    made = data(16)
    made["action"] = torch.randint(ACTIONS, (16,), generator=torch.Generator().manual_seed(0))
    if column:
        made["action"] = made["action"].unsqueeze(-1)
    (mine, own), (theirs, others) = both(of_logits(), made, loss_function="cross_entropy")
    torch.testing.assert_close(mine, theirs)
    for name, gradient in own.items():
        torch.testing.assert_close(gradient, others[name])
    # TorchRL takes it for granted where actions are whole numbers
    objectives = pytest.importorskip("torchrl.objectives")
    torch.testing.assert_close(objectives.BCLoss(of_logits())(made.clone())["loss_bc"], mine)
    if not column:
        with pytest.raises(RuntimeError, match=r"prediction has shape \(16, 5\), target has \(16,\)"):
            BCLoss(of_logits())(made)


@pytest.mark.peers
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("loss_function", ["l1", None])
def test_padded_chunks_equal_torchrl(reduction: str, loss_function: str | None) -> None:
    torch.manual_seed(0)
    network = TensorDictModule(
        nn.Sequential(nn.Linear(N_OBS, 3 * N_ACT), nn.Unflatten(-1, (3, N_ACT))),
        in_keys=["observation"],
        out_keys=[("vla", "chunk")],
    )
    made = TensorDict(
        {
            "observation": torch.randn(8, N_OBS),
            "vla": {"chunk": torch.randn(8, 3, N_ACT)},
            "pad": torch.rand(8, 3) < 0.4,
        },
        [8],
    )
    objectives = pytest.importorskip("torchrl.objectives")
    found = []
    for cls in (BCLoss, objectives.BCLoss):
        loss = cls(network, loss_function=loss_function, reduction=reduction)
        loss.set_keys(action=("vla", "chunk"), pad_mask="pad")
        found.append(loss(made.clone())["loss_bc"])
    torch.testing.assert_close(*found)
    loss = BCLoss(network, loss_function="l1", reduction="none")
    loss.set_keys(action=("vla", "chunk"), pad_mask="pad")
    kept = loss(made)["loss_bc"]
    assert kept.shape == (8, 3, N_ACT)
    assert not kept[made["pad"]].any()
    # TorchRL returns what is not padded in a row
    theirs = objectives.BCLoss(network, loss_function="l1", reduction="none")
    theirs.set_keys(action=("vla", "chunk"), pad_mask="pad")
    torch.testing.assert_close(theirs(made.clone())["loss_bc"], kept[~made["pad"]].flatten())


@pytest.mark.peers
def test_nothing_but_padding() -> None:
    """The mean of nothing is 0."""
    objectives = pytest.importorskip("torchrl.objectives")
    made = data(4)
    made["pad"] = torch.ones(4, dtype=torch.bool)
    found = []
    for cls in (BCLoss, objectives.BCLoss):
        loss = cls(certain(), loss_function="l2")
        loss.set_keys(pad_mask="pad")
        found.append(loss(made.clone())["loss_bc"])
    assert found[0] == found[1] == 0


def test_the_formulas() -> None:
    """Pomerleau 1991: the squared distance to the actions; and the negative log-likelihood of a policy."""
    made = data(4, 3)
    loss = BCLoss(certain())
    torch.testing.assert_close(
        loss(made)["loss_bc"], (certain()(made.clone())["action"] - made["action"]).square().mean()
    )
    dist = policy().get_dist(made.clone())
    torch.testing.assert_close(BCLoss(policy())(made)["loss_bc"], -dist.log_prob(made["action"]).mean())
    assert set(made.keys()) == {"observation", "action"}


@pytest.mark.parametrize("space", ["one-hot", "categorical"])
def test_policies_over_choices(space: str) -> None:
    made = data(6)
    index = torch.randint(ACTIONS, (6,))
    made["action"] = nn.functional.one_hot(index, ACTIONS) if space == "one-hot" else index
    logits = choosing(space)[0](made.select("observation"))["logits"]
    network = choosing(space)
    network[0].load_state_dict(choosing(space)[0].state_dict())
    loss = BCLoss(network)
    logits = network[0](made.select("observation"))["logits"]
    torch.testing.assert_close(loss(made)["loss_bc"], nn.functional.cross_entropy(logits, index))
    one_hot = made.clone().set("action", nn.functional.one_hot(index, ACTIONS))
    plain = TensorDictModule(network[0].module, in_keys=["observation"], out_keys=["action"])
    torch.testing.assert_close(
        BCLoss(plain, loss_function="cross_entropy")(one_hot)["loss_bc"], loss(made)["loss_bc"]
    )


@pytest.mark.peers
def test_an_actor_is_certain() -> None:
    """Its `get_dist` gives a distribution, which is certain of the action that it writes."""
    theirs = pytest.importorskip("torchrl.modules").Actor
    made = data(5)
    for cls in (Actor, theirs, type("Mine", (Actor,), {})):
        layer = certain().module
        wanted = (layer(made["observation"]) - made["action"]).square().mean()
        for value, found in both(cls(layer), made):
            torch.testing.assert_close(value, wanted)
            assert len(found) == 2
            assert all(gradient.abs().sum() > 0 for gradient in found.values())


def test_an_actor_whose_distribution_is_not_certain() -> None:
    class Noisy(Actor):
        """An actor around whose action others are likely."""

        def get_dist(self, tensordict: TensorDict) -> torch.distributions.Independent:  # type: ignore[override]
            mean = self(tensordict)["action"]
            return torch.distributions.Independent(torch.distributions.Normal(mean, torch.ones_like(mean)), 1)

    actor, made = Noisy(certain().module), data(5)
    wanted = -actor.get_dist(made.clone()).log_prob(made["action"]).mean()
    torch.testing.assert_close(BCLoss(actor)(made)["loss_bc"], wanted)


def test_what_is_certain_has_no_likelihood() -> None:
    with pytest.raises(
        TypeError, match=r"only actions that are whole numbers have a likelihood, got torch.float32"
    ):
        BCLoss(certain(), loss_function="cross_entropy")(data(3))
    with pytest.raises(ValueError, match="loss_function must be one of"):
        BCLoss(certain(), loss_function="l3")  # type: ignore[arg-type]
    delta = ProbabilisticTensorDictSequential(
        TensorDictModule(nn.Linear(N_OBS, N_ACT), in_keys=["observation"], out_keys=["param"]),
        ProbabilisticTensorDictModule(in_keys=["param"], out_keys=["action"], distribution_class=Delta),
    )
    made = data(5)
    wanted = (delta[0](made.select("observation"))["param"] - made["action"]).square().mean()
    torch.testing.assert_close(BCLoss(delta)(made)["loss_bc"], wanted)


def weighted(prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """A distance that counts what is too small twice."""
    difference = (prediction - target).abs() ** 1.5
    return torch.where(prediction < target, 2 * difference, difference)


@pytest.mark.peers
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("network", [policy, certain])
@pytest.mark.parametrize("function", [weighted, nn.HuberLoss(reduction="none", delta=0.1)])
def test_functions_equal_torchrl(reduction: str, network: Any, function: Any) -> None:
    made = data(4, 3, dtype=torch.float64)
    (mine, own), (theirs, others) = both(
        network(torch.float64), made, loss_function=function, reduction=reduction
    )
    torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)
    for name, gradient in own.items():
        torch.testing.assert_close(gradient, others[name], rtol=1e-10, atol=1e-10)


def test_a_function_compiles_and_is_masked() -> None:
    loss = BCLoss(certain(), loss_function=weighted)
    loss.set_keys(pad_mask="padded")
    made = data(6).set("padded", torch.tensor([False, False, True, False, True, False]))
    counted = made[~made["padded"]].exclude("padded")
    torch.testing.assert_close(
        loss(made)["loss_bc"], BCLoss(certain(), loss_function=weighted)(counted)["loss_bc"]
    )
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(made.clone())["loss_bc"], loss(made)["loss_bc"])


@pytest.mark.peers
def test_functions_that_reduce_are_refused() -> None:
    """TorchRL takes the one number that they give; masks and the reduction of the loss have no effect then."""
    objectives = pytest.importorskip("torchrl.objectives")
    made = data(6)
    theirs = objectives.BCLoss(certain(), loss_function=nn.MSELoss(), reduction="none")
    assert theirs(made.clone())["loss_bc"].shape == ()
    with pytest.raises(
        ValueError,
        match=rf"loss_function gives a distance for each entry, \[6, {N_ACT}\], got \[\]: leave the reduction",
    ):
        BCLoss(certain(), loss_function=nn.MSELoss(), reduction="none")(made)
    with pytest.raises(
        ValueError, match=r"is the class MSELoss: give an object of it, MSELoss\(reduction='none'\)"
    ):
        BCLoss(certain(), loss_function=nn.MSELoss)(made)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"distances, which are floating-point numbers, got torch\.bool"):
        BCLoss(certain(), loss_function=torch.gt)(made)
    with pytest.raises(ValueError, match=r"loss_function must be one of 'l1', .*, or a function, got 'l3'"):
        BCLoss(certain(), loss_function="l3")  # type: ignore[arg-type]
