"""The generated `MAPPOLoss` and `IPPOLoss`: against TorchRL's, and the formula for each agent by itself."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from specgen_runtime.modules import TanhNormal
from specgen_std.losses.mappo import IPPOLoss, MAPPOLoss
from specgen_std.losses.ppo import ClipPPOLoss
from tensordict import TensorDict
from tensordict.nn import (
    NormalParamExtractor,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
)
from torch import Tensor, nn

from tests.objectives.peers import with_equal_parameters
from tests.objectives.test_policy_gradients import compare

pytestmark = pytest.mark.filterwarnings("ignore:.*arget.*updater.*", "ignore:.*log-probability.*")

AGENTS, N_OBS, N_ACT = 3, 4, 2
KEYS = {
    "action": ("agents", "action"),
    "value": ("agents", "state_value"),
    "sample_log_prob": ("agents", "action_log_prob"),
    "advantage": ("agents", "advantage"),
    "value_target": ("agents", "value_target"),
}
BUT = ("explained_variance", "ESS")
"""The peer's go over the first dimension only."""


def policy(dtype: torch.dtype, *, discrete: bool = True) -> ProbabilisticTensorDictSequential:
    """A policy that all agents share."""
    torch.manual_seed(0)
    net: nn.Module = nn.Linear(N_OBS, 3, dtype=dtype)
    names, distribution = ["logits"], torch.distributions.Categorical
    if not discrete:
        net = nn.Sequential(nn.Linear(N_OBS, 2 * N_ACT, dtype=dtype), NormalParamExtractor())
        names, distribution = ["loc", "scale"], TanhNormal
    keys = {name: ("agents", name) for name in names}
    return ProbabilisticTensorDictSequential(
        TensorDictModule(net, in_keys=[("agents", "observation")], out_keys=list(keys.values())),
        ProbabilisticTensorDictModule(
            in_keys=keys,
            out_keys=[("agents", "action")],
            distribution_class=distribution,
            return_log_prob=True,
        ),
    )


class Central(nn.Module):
    """The value of each agent from what all of them see."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer = nn.Linear(AGENTS * N_OBS, AGENTS, dtype=dtype)

    def forward(self, observation: Tensor) -> Tensor:
        return self.layer(observation.flatten(-2)).unsqueeze(-1)


def critic(dtype: torch.dtype, *, central: bool = True) -> TensorDictModule:
    torch.manual_seed(1)
    net = Central(dtype) if central else nn.Linear(N_OBS, 1, dtype=dtype)
    return TensorDictModule(net, in_keys=[("agents", "observation")], out_keys=[("agents", "state_value")])


def steps(
    *shape: int, dtype: torch.dtype, discrete: bool = True, estimated: bool = False, team: bool = True
) -> TensorDict:
    """Data of several agents; with a `team` there is one reward for all of them."""
    generator = torch.Generator().manual_seed(3)

    def normal(*size: int) -> Tensor:
        return torch.randn(*shape, *size, generator=generator, dtype=torch.float64).to(dtype)

    done = torch.rand(*shape, 1, generator=generator) < 0.2
    agents = {"observation": normal(AGENTS, N_OBS), "action_log_prob": -1.1 + 0.3 * normal(AGENTS)}
    if discrete:
        agents["action"] = torch.randint(3, (*shape, AGENTS), generator=generator)
    else:
        agents["action"] = 0.9 * normal(AGENTS, N_ACT).tanh()
    if not estimated:
        agents["advantage"], agents["value_target"] = 1 + normal(AGENTS, 1), normal(AGENTS, 1)
        agents["state_value"] = normal(AGENTS, 1)
    after: dict[str, Any] = {
        "agents": {"observation": normal(AGENTS, N_OBS)},
        "done": done,
        "terminated": done & (torch.rand(*shape, 1, generator=generator) < 0.5),
    }
    after["reward" if team else "unused"] = normal(1)
    if not team:
        after["agents"]["reward"] = normal(AGENTS, 1)
    after["done"][..., -1, :] = True
    return TensorDict({"agents": agents, "next": after}, shape)


def pair(name: str, dtype: torch.dtype, *, discrete: bool = True, **given: Any) -> tuple[Any, Any]:
    multiagent = pytest.importorskip("torchrl.objectives.multiagent")
    made = []
    for kind in ({"MAPPOLoss": MAPPOLoss, "IPPOLoss": IPPOLoss}[name], getattr(multiagent, name)):
        networks = policy(dtype, discrete=discrete), critic(dtype, central=name == "MAPPOLoss")
        made.append(kind(*networks, **copy.deepcopy(given)))
        made[-1].set_keys(**KEYS)
    with_equal_parameters(*made)
    return made[0], made[1]


@pytest.mark.peers
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("name", ["MAPPOLoss", "IPPOLoss"])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"clip_epsilon": (0.1, 0.3), "entropy_coeff": 0.5},
        {"clip_value": True, "critic_coeff": 0.5},
        {"normalize_advantage": False, "loss_critic_type": "l2"},
        {"normalize_advantage_exclude_dims": ()},
        {"reduction": "none"},
        {"reduction": "sum"},
        {"delay_actor": True},
    ],
)
def test_equals_torchrl(name: str, given: dict[str, Any], dtype: torch.dtype, tolerance: float) -> None:
    compare(*pair(name, dtype, **given), lambda: steps(8, dtype=dtype), tolerance, but=BUT)


@pytest.mark.peers
@pytest.mark.parametrize("norm", ["PopArtValueNorm", "RunningValueNorm"])
@pytest.mark.parametrize("clip_value", [None, 0.2])
def test_normalized_values(norm: str, clip_value: float | None) -> None:
    modules = pytest.importorskip("torchrl.modules")
    mine, theirs = pair(
        "MAPPOLoss", torch.float64, value_norm=getattr(modules, norm)(shape=1).double(), clip_value=clip_value
    )
    compare(mine, theirs, lambda: steps(8, dtype=torch.float64), 1e-10, but=BUT)
    torch.testing.assert_close(mine.value_norm.state_dict(), theirs.value_norm.state_dict())
    assert {key for key in mine.state_dict() if key.startswith("value_norm")}


@pytest.mark.peers
@pytest.mark.parametrize("team", [True, False])
def test_advantages_that_the_loss_estimates(team: bool) -> None:
    mine, theirs = pair("MAPPOLoss", torch.float64)
    for loss in (mine, theirs):
        loss.make_value_estimator(gamma=0.875, lmbda=0.75)
        if not team:
            loss.set_keys(reward=("agents", "reward"))
    compare(mine, theirs, lambda: steps(5, 4, dtype=torch.float64, estimated=True, team=team), 1e-10, but=BUT)


@pytest.mark.peers
def test_actions_that_are_numbers() -> None:
    mine, theirs = pair("IPPOLoss", torch.float64, discrete=False, samples_mc_entropy=2)
    compare(mine, theirs, lambda: steps(6, 4, dtype=torch.float64, discrete=False), 1e-10, but=BUT)


def test_each_agent_is_a_sample() -> None:
    """Yu et al. 2022, eq. 3: the mean over agents of what `ClipPPOLoss` is for one."""
    loss = IPPOLoss(policy(torch.float64), critic(torch.float64, central=False), normalize_advantage=False)
    loss.set_keys(**KEYS)  # type: ignore[arg-type]
    data = steps(8, dtype=torch.float64)
    found = loss(data)
    single = ClipPPOLoss(policy(torch.float64), critic(torch.float64, central=False))
    single.set_keys(**KEYS)  # type: ignore[arg-type]
    nothing = torch.zeros(24, 1, dtype=torch.float64)
    flat = TensorDict(
        {
            "agents": {key: value.flatten(0, 1) for key, value in data["agents"].items()},
            "next": {"reward": nothing, "done": nothing.bool(), "terminated": nothing.bool()},
        },
        [24],
    )
    expected = single(flat)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value)


def test_what_it_is() -> None:
    loss = IPPOLoss(policy(torch.float32), critic(torch.float32))
    assert isinstance(loss, MAPPOLoss)
    assert isinstance(loss, ClipPPOLoss)
    assert loss.value_type is MAPPOLoss.default_value_estimator
    assert loss.normalize_advantage_exclude_dims == (-2,)
    with pytest.raises(TypeError, match="`value_norm` is a ValueNorm"):
        MAPPOLoss(policy(torch.float32), critic(torch.float32), value_norm=nn.Linear(1, 1))  # type: ignore[arg-type]


def test_log_probabilities_with_a_trailing_one_are_refused() -> None:
    loss = MAPPOLoss(policy(torch.float32), critic(torch.float32))
    loss.set_keys(**KEYS)  # type: ignore[arg-type]
    data = steps(8, dtype=torch.float32)
    data["agents", "action_log_prob"] = data["agents", "action_log_prob"].unsqueeze(-1)
    with pytest.raises(ValueError, match=r"the sample_log_prob has the shape \[8, 3, 1\]"):
        loss(data)


@pytest.mark.peers
def test_values_are_learned_in_training() -> None:
    modules = pytest.importorskip("torchrl.modules")
    mine, theirs = pair("MAPPOLoss", torch.float32, value_norm=modules.RunningValueNorm(shape=1))
    before = copy.deepcopy(mine.value_norm.state_dict())
    for loss in (mine.eval(), theirs.eval()):
        loss(steps(8, dtype=torch.float32))
    torch.testing.assert_close(mine.value_norm.state_dict(), before)
    assert any(not torch.equal(theirs.value_norm.state_dict()[key], value) for key, value in before.items())


@pytest.mark.peers
def test_values_are_learned_of_samples_that_count() -> None:
    modules = pytest.importorskip("torchrl.modules")
    mine, theirs = pair("MAPPOLoss", torch.float32, value_norm=modules.PopArtValueNorm(shape=1))
    data = steps(8, dtype=torch.float32).set(("collector", "mask"), torch.arange(8) < 3)
    data["agents", "value_target"][3:] = 1e6
    for loss in (mine, theirs):
        loss(data.clone())
    assert mine.value_norm.scale() < 10 < theirs.value_norm.scale()
