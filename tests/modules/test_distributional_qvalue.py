"""Greedy policies over distributions of action values."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.modules import (
    MLP,
    DistributionalDQNnet,
    DistributionalQValueActor,
    DistributionalQValueModule,
)
from specgen_runtime.specs import Categorical, Composite, OneHot
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

SUPPORT = torch.linspace(-1, 2, 5)


def scores(*batch: int) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(*batch, 5, 3)


def test_log_probabilities_of_atoms() -> None:
    x = scores(4)
    out = DistributionalDQNnet()(TensorDict({"action_value": x}, [4]))["action_value"]
    assert torch.equal(out, x.log_softmax(-2))
    torch.testing.assert_close(out.exp().sum(-2), torch.ones(4, 3))
    assert torch.equal(DistributionalDQNnet()(x), out)
    named = DistributionalDQNnet(in_keys=["scores"], out_keys=[("a", "log_probs")])
    assert torch.equal(named(TensorDict({"scores": x}, [4]))["a", "log_probs"], out)
    with pytest.raises(ValueError, match=r"\(\*batch, n_atoms, n_actions\), 'action_value' has \(5,\)"):
        DistributionalDQNnet()(torch.zeros(5))


def test_chooses_the_greatest_mean() -> None:
    log_probs = scores(4).log_softmax(-2)
    means = (log_probs.exp() * SUPPORT[:, None]).sum(-2)
    module = DistributionalQValueModule("categorical", SUPPORT)
    action, same = module(log_probs)
    assert torch.equal(action, means.argmax(-1))
    assert torch.equal(same, log_probs)
    mask = torch.ones(4, 3, dtype=torch.bool).scatter(-1, action[:, None], False)
    masked = DistributionalQValueModule("categorical", SUPPORT, action_mask_key="mask")
    out = masked(TensorDict({"action_value": log_probs, "mask": mask}, [4]))
    assert torch.equal(out["action"], means.masked_fill(~mask, -9).argmax(-1))
    written = out["action_value"]
    allowed = mask[:, None].expand_as(log_probs)
    assert torch.equal(written[allowed], log_probs[allowed])
    worth = (written.exp() * SUPPORT[:, None]).sum(-2)
    assert (worth[~mask] == SUPPORT.min()).all()


def test_one_hot_marks_one_action_even_in_a_tie() -> None:
    ties = torch.zeros(2, 5, 3).log_softmax(-2)
    action, _ = DistributionalQValueModule(None, SUPPORT, spec=OneHot(3))(ties)
    assert action.dtype == torch.bool
    assert action.int().tolist() == [[1, 0, 0], [1, 0, 0]]


def test_actor() -> None:
    net = MLP(in_features=4, out_features=(5, 3), num_cells=[8])
    actor = DistributionalQValueActor(net, SUPPORT, spec=Categorical(3))
    data = TensorDict({"observation": torch.randn(6, 4)}, [6])
    out = actor(data)
    assert torch.equal(out["action_value"], net(data["observation"]).log_softmax(-2))
    assert Categorical(3).expand(6).is_in(out["action"])
    assert "support" in dict(actor.named_buffers())
    assert (actor.action_space, actor.spec) == ("categorical", Categorical(3))
    inner = TensorDictModule(nn.Sequential(net, nn.LogSoftmax(-2)), ["observation"], ["q"])
    ready = DistributionalQValueActor(
        inner,
        SUPPORT,
        spec=Composite(action=OneHot(3)),
        action_value_key="q",
        make_log_softmax=False,
    )
    torch.testing.assert_close(ready(data)["q"], out["action_value"])
    assert ready(data)["action"].shape == (6, 3)


def test_refuses() -> None:
    with pytest.raises(ValueError, match=r"support must have shape \(n_atoms,\), got \(5, 1\)"):
        DistributionalQValueModule("categorical", SUPPORT[:, None])
    with pytest.raises(ValueError, match=r"must have shape \(\*batch, 5, n_actions\)"):
        DistributionalQValueModule("categorical", SUPPORT)(torch.zeros(2, 4, 3))
    with pytest.raises(ValueError, match="out_keys must be"):
        DistributionalQValueModule("categorical", SUPPORT, out_keys=["action"])
    with pytest.raises(KeyError, match="the log-probabilities of atoms 'action_value'"):
        DistributionalQValueModule("categorical", SUPPORT)(TensorDict({}, [2]))
    with pytest.raises(KeyError, match="does not write 'action_value'"):
        DistributionalQValueActor(TensorDictModule(nn.Linear(1, 1), ["a"], ["b"]), SUPPORT, spec=OneHot(3))
    with pytest.raises(TypeError, match=r"must be an nn\.Module"):
        DistributionalQValueActor(3, SUPPORT, spec=OneHot(3))  # type: ignore[arg-type]


@pytest.mark.peers
@pytest.mark.parametrize("space", ["one-hot", "categorical"])
def test_is_torchrls(space: Any) -> None:
    modules, data = pytest.importorskip("torchrl.modules"), pytest.importorskip("torchrl.data")
    spec = data.OneHot(3) if space == "one-hot" else data.Categorical(3)
    made = []
    for actor, choice in (
        (DistributionalQValueActor, {"action_space": space}),
        (modules.DistributionalQValueActor, {"spec": spec}),
    ):
        torch.manual_seed(0)
        net = modules.MLP(in_features=4, out_features=(5, 3), num_cells=[8])
        batch = TensorDict({"observation": torch.randn(64, 4)}, [64])
        made.append(actor(net, support=SUPPORT, **choice)(batch))
    assert torch.equal(made[0]["action"].long(), made[1]["action"].long())
    assert torch.equal(made[0]["action_value"], made[1]["action_value"])


@pytest.mark.peers
def test_masked_actions_are_worth_the_least() -> None:
    modules = pytest.importorskip("torchrl.modules")
    log_probs = torch.tensor([[[0.5, 0.5], [0.5, 0.5]]]).log()
    data = TensorDict({"action_value": log_probs, "mask": torch.tensor([[False, True]])}, [1])
    support = torch.tensor([-3.0, -1.0])
    mine = DistributionalQValueModule("categorical", support, action_mask_key="mask")
    theirs = modules.DistributionalQValueModule("categorical", support, action_mask_key="mask")
    # A masked action of TorchRL has no probability anywhere, so its mean is 0: greater than all values below.
    assert theirs(data.clone())["action"].item() == 0
    assert mine(data.clone())["action"].item() == 1
