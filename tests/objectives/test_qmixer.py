"""`QMixerLoss`: TorchRL's numbers and gradients, the paper's formula, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.modules import QMixer, QValueModule, SafeSequential, VDNMixer
from specgen_runtime.objectives import HardUpdate, SoftUpdate, ValueEstimators
from specgen_std.losses import QMixerLoss
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

pytestmark = pytest.mark.filterwarnings("ignore:No target network updater", "ignore:.*arget.*updater.*")

N_AGENTS, N_OBS, N_ACT, N_STATE = 4, 5, 3, 6
VALUES, CHOSEN = ("agents", "action_value"), ("agents", "chosen_action_value")


def local_network(dtype: torch.dtype = torch.float64) -> TensorDictModule:
    layers = nn.Sequential(nn.Linear(N_OBS, 8, dtype=dtype), nn.Tanh(), nn.Linear(8, N_ACT, dtype=dtype))
    return TensorDictModule(layers, in_keys=[("agents", "observation")], out_keys=[VALUES])


def mixer_network(mixer: nn.Module) -> TensorDictModule:
    keys: list[Any] = [CHOSEN, "state"] if getattr(mixer, "needs_state", True) else [CHOSEN]
    return TensorDictModule(mixer.double(), in_keys=keys, out_keys=["chosen_action_value"])


def batch(*shape: int, one_hot: bool = False) -> TensorDict:
    torch.manual_seed(3)
    kind = {"dtype": torch.float64}
    action = torch.randint(N_ACT, (*shape, N_AGENTS))
    if one_hot:
        action = nn.functional.one_hot(action, N_ACT)
    terminated = torch.rand(*shape, 1) < 0.2
    return TensorDict(
        {
            "agents": {"observation": torch.randn(*shape, N_AGENTS, N_OBS, **kind), "action": action},
            "state": torch.randn(*shape, N_STATE, **kind),
            "next": {
                "agents": {"observation": torch.randn(*shape, N_AGENTS, N_OBS, **kind)},
                "state": torch.randn(*shape, N_STATE, **kind),
                "reward": torch.randn(*shape, 1, **kind),
                "done": terminated | (torch.rand(*shape, 1) < 0.2),
                "terminated": terminated,
            },
        },
        shape,
    )


@pytest.mark.peers
@pytest.mark.parametrize("shape", [(7,), (3, 5)])
@pytest.mark.parametrize("mixed", [True, False])
@pytest.mark.parametrize("space", ["one-hot", "categorical"])
@pytest.mark.parametrize(
    ("kind", "of_estimator"),
    [("TD0", {}), ("TD1", {}), ("TDLambda", {"lmbda": torch.tensor(0.8, dtype=torch.float64)})],
)
def test_value_and_gradients_are_torchrls(
    shape: tuple[int, ...], mixed: bool, space: str, kind: str, of_estimator: dict[str, Tensor]
) -> None:
    objectives = pytest.importorskip("torchrl.objectives.multiagent")
    modules = pytest.importorskip("torchrl.modules")
    torch.manual_seed(0)
    their_mixer = (
        modules.QMixer(torch.Size([N_STATE]), 8, N_AGENTS, device="cpu")
        if mixed
        else modules.VDNMixer(N_AGENTS, device="cpu")
    )
    choosing = modules.QValueModule(
        action_value_key=VALUES, out_keys=[("agents", "action"), VALUES, CHOSEN], action_space=space
    )
    theirs = objectives.QMixerLoss(
        modules.SafeSequential(local_network(), choosing), mixer_network(their_mixer), action_space=space
    )
    mixer = QMixer((N_STATE,), 8, N_AGENTS) if mixed else VDNMixer(N_AGENTS)
    mine = QMixerLoss(local_network(), mixer_network(mixer), action_space=space)
    for name, value in theirs.target_local_value_network_params.items(True, True):
        value.add_(0.1)  # the targets are others than what is trained
        assert name
    states = theirs.state_dict()
    mine.load_state_dict({k.replace("params.module.0.module", "params.module"): v for k, v in states.items()})
    for loss, estimators in ((theirs, objectives.qmixer.ValueEstimators), (mine, ValueEstimators)):
        loss.make_value_estimator(
            estimators[kind], gamma=torch.tensor(0.9, dtype=torch.float64), **of_estimator
        )
    if kind != "TD0":
        shape = (*shape, 6)
    data = batch(*shape, one_hot=space == "one-hot")
    if kind != "TD0":
        data.names = [*[None] * (len(shape) - 1), "time"]
    got, wanted = data.clone(), data.clone()
    mine_out, their_out = mine(got)["loss"], theirs(wanted)["loss"]
    torch.testing.assert_close(mine_out, their_out, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(got["td_error"], wanted["td_error"], rtol=1e-10, atol=1e-10)
    trained = [[p for p in loss.parameters() if p.requires_grad] for loss in (mine, theirs)]
    assert [p.shape for p in trained[0]] == [p.shape for p in trained[1]]
    for ours, other in zip(
        torch.autograd.grad(mine_out, trained[0]), torch.autograd.grad(their_out, trained[1]), strict=True
    ):
        torch.testing.assert_close(ours, other, rtol=1e-10, atol=1e-10)


@pytest.mark.peers
def test_a_training_is_torchrls_step_by_step() -> None:
    """The same batches, step sizes and hard updates give the same losses."""
    objectives = pytest.importorskip("torchrl.objectives")
    modules = pytest.importorskip("torchrl.modules")
    torch.manual_seed(0)
    theirs = objectives.QMixerLoss(
        modules.SafeSequential(
            local_network(),
            modules.QValueModule(
                action_value_key=VALUES,
                out_keys=[("agents", "action"), VALUES, CHOSEN],
                action_space="categorical",
            ),
        ),
        mixer_network(modules.QMixer(torch.Size([N_STATE]), 8, N_AGENTS, device="cpu")),
        action_space="categorical",
    )
    mine = QMixerLoss(
        local_network(), mixer_network(QMixer((N_STATE,), 8, N_AGENTS)), action_space="categorical"
    )
    states = theirs.state_dict()
    mine.load_state_dict({k.replace("params.module.0.module", "params.module"): v for k, v in states.items()})
    gamma = torch.tensor(0.99, dtype=torch.float64)
    theirs.make_value_estimator(objectives.ValueEstimators.TD0, gamma=gamma)
    mine.make_value_estimator("TD0", gamma=gamma)
    updaters = [
        HardUpdate(mine, value_network_update_interval=51),
        objectives.HardUpdate(theirs, value_network_update_interval=50),  # theirs counts to one more
    ]
    optimizers = [torch.optim.Adam(loss.parameters(), lr=1e-3) for loss in (mine, theirs)]
    data, generator = batch(512), torch.Generator().manual_seed(1)
    losses = []
    for _ in range(800):
        rows = torch.randint(512, (64,), generator=generator)
        for loss, updater, optimizer in zip((mine, theirs), updaters, optimizers, strict=True):
            found = loss(data[rows].clone())["loss"]
            optimizer.zero_grad()
            found.backward()
            optimizer.step()
            updater.step()
            losses.append(float(found.detach()))
    torch.testing.assert_close(losses[::2], losses[1::2], rtol=1e-9, atol=1e-9)


def test_the_formula_of_the_paper() -> None:
    """Rashid et al. 2018, eq. 6, with the sum for a mixer: the square of r + gamma sum_a max_u Q' - sum_a Q."""
    local = local_network()
    loss = QMixerLoss(local, mixer_network(VDNMixer(N_AGENTS)), action_space="categorical", reduction="none")
    loss.make_value_estimator(gamma=0.9)
    data = batch(9)
    next_q = local.module(data["next", "agents", "observation"]).max(-1).values.sum(-1)
    reward, terminated = data["next", "reward"].squeeze(-1), data["next", "terminated"].squeeze(-1)
    goal = reward + 0.9 * next_q * ~terminated
    chosen: Tensor = local.module(data["agents", "observation"])
    chosen = chosen.gather(-1, data["agents", "action"].unsqueeze(-1)).squeeze(-1).sum(-1)
    torch.testing.assert_close(loss(data)["loss"], (chosen - goal) ** 2)
    torch.testing.assert_close(data["td_error"], ((chosen - goal) ** 2).unsqueeze(-1))


def test_keys_of_another_group_and_of_a_policy_that_chooses() -> None:
    torch.manual_seed(0)
    values = TensorDictModule(
        nn.Linear(N_OBS, N_ACT).double(),
        in_keys=[("team", "observation")],
        out_keys=[("team", "action_value")],
    )
    keys: list[Any] = [("team", "action"), ("team", "action_value"), ("team", "value")]
    choosing = QValueModule("categorical", action_value_key=("team", "action_value"), out_keys=keys)
    actor = SafeSequential(values, choosing)
    mixer = TensorDictModule(VDNMixer(N_AGENTS), in_keys=[("team", "value")], out_keys=["value"])
    loss = QMixerLoss(actor, mixer, action_space="categorical")
    loss.set_keys(
        action=("team", "action"),
        action_value=("team", "action_value"),
        local_value=("team", "value"),
        global_value="value",
    )
    data = batch(6)
    for record in (data, data["next"]):
        record.rename_key_("agents", "team")
    assert loss(data)["loss"].isfinite()
    with pytest.raises(KeyError, match="agents"):
        QMixerLoss(actor, mixer, action_space="categorical")(data)


def test_both_networks_have_targets() -> None:
    mixer = QMixer((N_STATE,), 8, N_AGENTS)
    loss = QMixerLoss(local_network(), mixer_network(mixer), action_space="categorical")
    before = loss.target_mixer_network_params.clone()
    updater = SoftUpdate(loss, tau=0.5)
    loss(batch(6))["loss"].backward()
    torch.optim.SGD(loss.parameters(), lr=0.1).step()
    updater.step()
    moved = loss.target_mixer_network_params
    assert (moved - before).abs().sum(reduce=True) > 0
    assert loss.target_local_value_network_params.numel() == loss.local_value_network_params.numel()


@pytest.mark.filterwarnings("error")
def test_targets_of_a_sum_need_no_updater() -> None:
    """It has no parameters that could be moved."""
    loss = QMixerLoss(local_network(), mixer_network(VDNMixer(N_AGENTS)), action_space="categorical")
    with pytest.warns(UserWarning, match="the target parameters of local_value_network never change"):
        loss(batch(6))
    SoftUpdate(loss, tau=0.5, networks=["local_value_network"])
    loss(batch(6))


def test_agents_of_another_number_are_refused() -> None:
    loss = QMixerLoss(local_network(), mixer_network(VDNMixer(2)), action_space="categorical")
    with pytest.raises(
        ValueError, match=r"VDNMixer reads values of shape \[\*batch, 2, 1\], got \[6, 4, 1\]"
    ):
        loss(batch(6))


def test_actions_of_another_kind_are_refused() -> None:
    loss = QMixerLoss(local_network(), mixer_network(VDNMixer(N_AGENTS)), action_space="one-hot")
    with pytest.raises(ValueError, match="a one-hot action of 3 values must have shape"):
        loss(batch(6))
