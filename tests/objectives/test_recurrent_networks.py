"""Losses with recurrent networks: TorchRL's losses and gradients over sequences of several trajectories."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.modules import GRUModule, LSTMModule, QValueActor, set_recurrent_mode
from specgen_std.losses import DQNLoss
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

KINDS = {"LSTMModule": LSTMModule, "GRUModule": GRUModule}


def network(recurrent: nn.Module, actor: Any) -> nn.Module:
    torch.manual_seed(0)
    for p in recurrent.parameters():
        nn.init.normal_(p, std=0.3)
    head = TensorDictModule(nn.Linear(8, 4), ["features"], ["action_value"])
    made: nn.Module = actor(TensorDictSequential(recurrent, head), action_space="categorical")
    return made.double()


def sequences(states: list[Any]) -> TensorDict:
    """Rows of trajectories of two steps at least, with stored states; those of next states are zeros."""
    torch.manual_seed(1)
    shape = (5, 9)
    data = TensorDict({"observation": torch.randn(*shape, 3), "action": torch.randint(4, shape)}, shape)
    ends = torch.zeros(*shape, 1, dtype=torch.bool)
    for row, steps in enumerate([[1, 4, 6], [3], [], [2, 6], [6]]):
        ends[row, steps] = True
    data["is_init"] = torch.cat([torch.ones(5, 1, 1, dtype=torch.bool), ends[:, :-1]], 1)
    data["next"] = TensorDict(
        {"observation": torch.randn(*shape, 3), "reward": torch.randn(*shape, 1)}, shape
    )
    data["next", "done"] = ends
    data["next", "terminated"] = ends & (torch.rand(*shape, 1) < 0.5)
    data["next", "is_init"] = data["is_init"].clone()
    for key in states:
        data[key] = torch.randn(*shape, 1, 8)
        data["next", key] = torch.zeros(*shape, 1, 8)
    return data.apply(lambda x: x.double() if x.is_floating_point() else x)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stored", [True, False], ids=["stored states", "no states"])
@pytest.mark.parametrize("delay", [True, False])
def test_dqn_is_torchrls(kind: str, stored: bool, delay: bool) -> None:
    mine, theirs = networks(kind)
    data = sequences(mine[0][0].in_keys[1:-1] if stored else [])
    results = []
    for loss in losses(mine, theirs, delay):
        with set_recurrent_mode(True):
            out = loss(data.clone())["loss"]
        grads = torch.autograd.grad(out, [p for p in loss.parameters() if p.requires_grad])
        results.append((out, *grads))
    torch.testing.assert_close(results[0], results[1], rtol=1e-10, atol=1e-10)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
def test_next_states_begin_with_what_is_stored_for_them() -> None:
    """TorchRL's network writes its next states into the data before they are read: zeros, but at the ends."""
    mine, theirs = networks("LSTMModule")
    keys = mine[0][0].in_keys[1:-1]
    data = sequences(keys)
    for key in keys:
        data["next", key] = torch.randn_like(data[key])
    reward, done = data["next", "reward"], data["next", "terminated"].double()

    def by_hand(data: TensorDict) -> float:
        with set_recurrent_mode(True), torch.no_grad():
            values = mine(data.exclude("next"))["action_value"]
            following = mine(data["next"].clone())["action_value"]
        chosen = values.gather(-1, data["action"].unsqueeze(-1))
        target = reward + 0.9 * (1 - done) * following.max(-1, keepdim=True).values
        return (chosen - target).square().mean().item()

    overwritten = data.clone()
    for key in keys:
        overwritten["next", key].zero_()
    with set_recurrent_mode(True):
        found = [loss(data.clone())["loss"].item() for loss in losses(mine, theirs, False)]
    assert found == pytest.approx([by_hand(data), by_hand(overwritten)], rel=1e-7)  # gamma is float32
    assert abs(found[0] - found[1]) > 1e-3


def networks(kind: str) -> tuple[Any, Any]:
    """Our value network and TorchRL's, with the same parameters."""
    modules = pytest.importorskip("torchrl.modules")
    options: dict[str, Any] = {"in_key": "observation", "out_key": "features"}
    return (
        network(KINDS[kind](3, 8, **options), QValueActor),
        network(getattr(modules, kind)(3, 8, **options), modules.QValueActor),
    )


def losses(mine: Any, theirs: Any, delay: bool) -> tuple[Any, Any]:
    made = (
        DQNLoss(mine, delay_value=delay),
        pytest.importorskip("torchrl.objectives").DQNLoss(
            theirs, delay_value=delay, action_space="categorical"
        ),
    )
    for loss in made:
        loss.make_value_estimator(gamma=0.9)
    return made


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_dqn_compiles_whole(kind: str) -> None:
    loss = DQNLoss(
        network(KINDS[kind](3, 8, in_key="observation", out_key="features"), QValueActor), delay_value=False
    )
    data = sequences([])
    loss.make_value_estimator()
    torch.compiler.reset()  # losses share their code, which is compiled for so many of them at most
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    with set_recurrent_mode(True):
        torch.testing.assert_close(compiled(data)["loss"], loss(data)["loss"])


def test_what_a_network_needs_is_still_asked_for() -> None:
    loss = DQNLoss(
        network(LSTMModule(3, 8, in_key="observation", out_key="features"), QValueActor), delay_value=False
    )
    with pytest.raises(KeyError, match="value_network reads 'is_init', which is not in the tensordict"):
        loss(sequences([]).exclude("is_init"))
