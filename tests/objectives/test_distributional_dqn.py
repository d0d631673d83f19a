"""The generated `DistributionalDQNLoss`: against TorchRL's, by the formula of its projection, and its contract."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from specgen_runtime.modules import DistributionalQValueActor
from specgen_runtime.objectives import project
from specgen_std.losses.dqn import DistributionalDQNLoss
from tensordict import TensorDict
from torch import Tensor, nn

from tests.objectives.peers import N_OBS, gradients

pytestmark = pytest.mark.filterwarnings("ignore:.*arget.*updater.*", "ignore:.*No target network updater.*")

ATOMS, ACTIONS = 7, 3


def network(dtype: torch.dtype, space: str, library: Any = None) -> nn.Module:
    torch.manual_seed(0)
    scores = nn.Sequential(nn.Linear(N_OBS, ATOMS * ACTIONS, dtype=dtype), nn.Unflatten(-1, (ATOMS, ACTIONS)))
    support = torch.linspace(-1.5, 2.0, ATOMS, dtype=dtype)
    actor: Any = DistributionalQValueActor if library is None else library
    made: nn.Module = actor(scores, support=support, in_keys=["observation"], action_space=space)
    return made


def batch(*shape: int, dtype: torch.dtype, space: str, steps: bool = False, seed: int = 1) -> TensorDict:
    generator = torch.Generator().manual_seed(seed)

    def normal(*sizes: int) -> Tensor:
        return torch.randn(*shape, *sizes, generator=generator, dtype=torch.float64).to(dtype)

    action = normal(ACTIONS).argmax(-1)
    terminated = torch.rand(*shape, 1, generator=generator) < 0.3
    made = TensorDict(
        {
            "observation": normal(N_OBS),
            "action": nn.functional.one_hot(action, ACTIONS) if space == "one_hot" else action,
            "next": {
                "observation": normal(N_OBS),
                "reward": normal(1),
                "done": terminated | (torch.rand(*shape, 1, generator=generator) < 0.3),
                "terminated": terminated,
            },
        },
        shape,
    )
    if steps:
        made["steps_to_next_obs"] = torch.randint(1, 4, (*shape, 1), generator=generator)
    return made


def pair(dtype: torch.dtype, space: str, **given: Any) -> tuple[DistributionalDQNLoss, Any]:
    objectives, modules = (pytest.importorskip(f"torchrl.{name}") for name in ("objectives", "modules"))
    given = {"gamma": 0.75, **given}  # which float32 holds exactly
    theirs = objectives.DistributionalDQNLoss(
        network(dtype, space, modules.DistributionalQValueActor), **given
    )
    mine = DistributionalDQNLoss(network(dtype, space), **given)
    generator = torch.Generator().manual_seed(7)
    state = theirs.state_dict()
    for name, value in state.items():
        if isinstance(value, Tensor) and name.endswith(("weight", "bias")):
            value.copy_(0.7 * torch.randn(value.shape, generator=generator, dtype=torch.float64))
    theirs.load_state_dict(state)
    mine.load_state_dict(state)
    return mine, theirs


@pytest.fixture
def _default_float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.peers
@pytest.mark.parametrize("space", ["one_hot", "categorical"])
@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("options", [{}, {"delay_value": False}, {"reduction": "none"}, {"reduction": "sum"}])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_equals_torchrl(
    space: str,
    steps: bool,
    options: dict[str, Any],
    dtype: torch.dtype,
    tolerance: float,
    request: pytest.FixtureRequest,
) -> None:
    if dtype == torch.float64:
        request.getfixturevalue("_default_float64")  # in which the peer splits masses
    mine, theirs = pair(dtype, space, **options)
    found = []
    for loss in (mine, theirs):
        data = batch(16, dtype=dtype, space=space, steps=steps)
        data["priority_weight"] = torch.linspace(0.5, 2.0, 16, dtype=dtype)
        out = loss(data)["loss"]
        found.append((out, data["td_error"], gradients(loss, out.sum())))
    close = {"rtol": tolerance, "atol": tolerance, "check_dtype": False}
    torch.testing.assert_close(found[0][0], found[1][0], **close)
    torch.testing.assert_close(found[0][1], found[1][1], **close)
    assert {name.split(".")[0] for name in found[0][2]} == {"value_network_params"}
    for name, gradient in found[0][2].items():
        torch.testing.assert_close(gradient, found[1][2][name], **close)


@pytest.mark.peers
def test_double_precision_and_several_batch_dimensions_where_the_peer_has_none() -> None:
    mine, theirs = pair(torch.float64, "one_hot")
    flat = batch(12, dtype=torch.float64, space="one_hot")
    assert mine(flat.clone())["loss"].dtype == torch.float64
    with pytest.raises(RuntimeError, match="must have the same scalar type"):
        theirs(flat.clone())
    mine, theirs = pair(torch.float32, "one_hot")
    data = batch(4, 3, dtype=torch.float32, space="one_hot")
    assert mine(data.clone())["loss"].shape == ()
    with pytest.raises((RuntimeError, AttributeError)):
        theirs(data.clone())


def test_steps_as_a_multi_step_transform_writes_them_where_the_peer_takes_a_column_alone() -> None:
    mine, theirs = pair(torch.float32, "one_hot")
    column = batch(12, dtype=torch.float32, space="one_hot", steps=True)
    written = column.clone().set("steps_to_next_obs", column["steps_to_next_obs"].squeeze(-1))
    torch.testing.assert_close(mine(written.clone())["loss"], theirs(column)["loss"])
    with pytest.raises(RuntimeError, match="must match the size of tensor"):
        theirs(written)


def test_any_batch_and_any_way_of_a_step() -> None:
    loss = DistributionalDQNLoss(network(torch.float32, "one_hot"), reduction="none", gamma=0.9)
    data = batch(4, 3, dtype=torch.float32, space="one_hot")
    out = loss(data)["loss"]
    torch.testing.assert_close(loss(data.reshape(12))["loss"], out.flatten())
    torch.testing.assert_close(loss(data[1, 2].clone())["loss"], out[1, 2])
    data["steps_to_next_obs"] = torch.full((4, 3, 1), 2)
    slower = DistributionalDQNLoss(network(torch.float32, "one_hot"), reduction="none", gamma=0.81)
    slower.load_state_dict({**loss.state_dict(), "gamma": torch.tensor(0.81)})
    torch.testing.assert_close(loss(data)["loss"], slower(data.exclude("steps_to_next_obs"))["loss"])


def test_the_projection() -> None:
    """Bellemare et al. 2017, eq. 7: each mass goes to the atoms near it, by triangles around them."""
    support = torch.linspace(-2.0, 3.0, 6, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    masses = torch.rand(4, 5, 6, generator=generator, dtype=torch.float64).softmax(-1)
    places = 4 * torch.randn(4, 5, 6, generator=generator, dtype=torch.float64)
    places[0, 0] = support
    places[1, 1] = 3.0
    got = project(masses, places, support)
    near = 1 - (places.clamp(-2.0, 3.0).unsqueeze(-1) - support).abs() / 1.0
    torch.testing.assert_close(got, (masses.unsqueeze(-1) * near.clamp_min(0)).sum(-2))
    torch.testing.assert_close(got.sum(-1), torch.ones(4, 5, dtype=torch.float64))
    torch.testing.assert_close(got[0, 0], masses[0, 0])
    inside = (places.abs() < 1.9).all(-1)
    torch.testing.assert_close((got * support).sum(-1)[inside], (masses * places).sum(-1)[inside])
    small = masses[:1, :1].clone().requires_grad_(), (0.3 + 0.1 * places[:1, 1:2]).requires_grad_()
    assert torch.autograd.gradcheck(lambda m, p: project(m, p, support), small)


def test_nothing_behind_a_terminal_state_counts() -> None:
    loss = DistributionalDQNLoss(network(torch.float32, "one_hot"), reduction="none")
    data = batch(6, dtype=torch.float32, space="one_hot")
    data["next", "terminated"][:] = True
    before = loss(data.clone())["loss"]
    data["next", "observation"] = -data["next", "observation"]
    torch.testing.assert_close(loss(data)["loss"], before)


def test_a_network_without_a_support_is_named() -> None:
    plain = nn.Sequential(nn.Linear(N_OBS, 6), nn.Unflatten(-1, (2, 3)))
    with pytest.raises(RuntimeError, match="value_network has no buffer 'support'"):
        DistributionalDQNLoss(plain, action_space="one-hot")


def network_on(support: Tensor) -> DistributionalQValueActor:
    atoms = support.shape[0]
    scores = nn.Sequential(nn.Linear(N_OBS, atoms * ACTIONS), nn.Unflatten(-1, (atoms, ACTIONS)))
    return DistributionalQValueActor(scores, support=support, in_keys=["observation"], action_space="one-hot")


@pytest.mark.parametrize(
    ("support", "message"),
    [
        (torch.tensor([0.0, 1.0, 3.0]), r"DistributionalDQNLoss: .* must rise evenly .* \[0.0, 1.0, 3.0\]"),
        (torch.tensor([1.0, 0.0, -1.0]), "must rise evenly"),
        (torch.tensor([0.0, float("nan"), 2.0]), "must rise evenly"),
        (torch.tensor([0, 1, 2]), "vector of floating-point atoms, got .* dtype torch.int64"),
    ],
)
def test_a_support_that_does_not_rise_evenly_is_refused(support: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DistributionalDQNLoss(network_on(support))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("atoms", [1, 2, 51])
def test_a_rounded_support_is_taken(dtype: torch.dtype, atoms: int) -> None:
    DistributionalDQNLoss(network_on(torch.linspace(-10.0, 10.0, atoms).to(dtype)))


def test_the_support_is_saved_and_moved_and_not_trained() -> None:
    loss = DistributionalDQNLoss(network(torch.float32, "one_hot"))
    assert not any("support" in name for name, _ in loss.named_parameters())
    assert any(name.endswith("support") for name in loss.state_dict())
    assert loss.to(torch.float64).value_network_params["support"].dtype == torch.float64


def test_it_has_no_value_estimator() -> None:
    loss = DistributionalDQNLoss(network(torch.float32, "one_hot"))
    assert loss.default_value_estimator is None
    assert loss.gamma.item() == pytest.approx(0.99)
    with pytest.raises(ValueError, match="gamma must be <= 1"):
        DistributionalDQNLoss(network(torch.float32, "one_hot"), gamma=1.5)
