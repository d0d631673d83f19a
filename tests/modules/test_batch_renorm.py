"""`BatchRenorm1d`: the numbers of TorchRL's, where that follows the paper; and of the paper."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from specgen_runtime.modules import BatchRenorm1d
from specgen_std.losses import CrossQLoss
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from tests.objectives.every_loss import batch, networks

OPTIONS: dict[str, dict[str, Any]] = {
    "usual": {},
    "no warm-up": {"warmup_steps": 0, "momentum": 0.3},
    "warm-up": {"warmup_steps": 4, "momentum": 0.3},
    "smooth": {"warmup_steps": 7, "momentum": 0.3, "smooth": True},
    "bounds": {"warmup_steps": 0, "max_r": 1.1, "max_d": 0.1, "eps": 1e-3},
}


@pytest.mark.peers
@pytest.mark.parametrize("option", OPTIONS)
def test_is_torchrls(option: str) -> None:
    theirs = pytest.importorskip("torchrl.modules").BatchRenorm1d
    mine, peer = (kind(3, **OPTIONS[option]) for kind in (BatchRenorm1d, theirs))
    assert mine.state_dict().keys() == peer.state_dict().keys()
    draws = torch.Generator().manual_seed(0)
    for step in range(7):
        inputs = [(torch.randn(8, 3, generator=draws) * (1 + step) + step).requires_grad_()]
        inputs.append(inputs[0].detach().clone().requires_grad_())
        outputs = [module(x) for module, x in zip((mine, peer), inputs, strict=True)]
        torch.testing.assert_close(*outputs, rtol=1e-5, atol=1e-5)
        for output in outputs:
            (output**3).sum().backward()
        torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=1e-4, atol=1e-4)
        for name, value in mine.state_dict().items():
            torch.testing.assert_close(value, peer.state_dict()[name], rtol=1e-5, atol=1e-5)
    x = torch.randn(8, 3, generator=draws)
    torch.testing.assert_close(mine.eval()(x), peer.eval()(x), rtol=1e-5, atol=1e-5)


@pytest.mark.peers
def test_after_twice_the_warm_up() -> None:
    """TorchRL multiplies the correction by how often the warm-up has passed."""
    theirs = pytest.importorskip("torchrl.modules").BatchRenorm1d
    mine, peer = (kind(3, warmup_steps=2, momentum=0.1) for kind in (BatchRenorm1d, theirs))
    for module in (mine, peer):
        module.running_mean += 0.5
    x = torch.randn(8, 3)
    for _ in range(4):
        mine(x), peer(x)
    for module in (mine, peer):
        module.load_state_dict(mine.state_dict())
    std, mean = (mine.running_var + mine.eps).sqrt(), mine.running_mean.clone()
    batch_std = (x.var(0, unbiased=False) + mine.eps).sqrt()
    r = (batch_std / std).clamp(1 / 3, 3)
    d = ((x.mean(0) - mean) / std).clamp(-5, 5)
    paper = (x - x.mean(0)) / batch_std * r + d
    torch.testing.assert_close(mine(x), paper)
    assert (peer(x) - paper).abs().max() > 0.1


def test_further_dimensions() -> None:
    """Each value of a feature counts as one of a batch."""
    flat, deep = BatchRenorm1d(3, warmup_steps=0), BatchRenorm1d(3, warmup_steps=0)
    x = torch.randn(4, 3, 5)
    rows = x.transpose(1, 2).reshape(20, 3)
    for _ in range(3):
        torch.testing.assert_close(deep(x).transpose(1, 2).reshape(20, 3), flat(rows))
    torch.testing.assert_close(deep.running_var, flat.running_var)


def test_during_the_warm_up_it_is_batch_normalisation() -> None:
    mine, plain = BatchRenorm1d(3, momentum=0.1), nn.BatchNorm1d(3, momentum=0.1)
    for _ in range(3):
        x = torch.randn(6, 3) * 2 + 1
        torch.testing.assert_close(mine(x), plain(x))
    torch.testing.assert_close(mine.eval()(x), plain.eval()(x))


class Critic(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(size, 8), BatchRenorm1d(8, warmup_steps=0, momentum=0.5), nn.ReLU(), nn.Linear(8, 1)
        )

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        value: Tensor = self.layers(torch.cat([observation, action], -1))
        return value


def test_critics_of_crossq() -> None:
    """Its members see both batches in one, and each keeps statistics of its own."""
    data = batch("CrossQLoss", 6)
    actor = networks(CrossQLoss, 7)["actor_network"]
    size = data["observation"].shape[-1] + data["action"].shape[-1]
    critic = TensorDictModule(Critic(size), ["observation", "action"], ["state_action_value"])
    loss = CrossQLoss(actor, critic, num_qvalue_nets=2, target_entropy=-1.0)
    loss.make_value_estimator(gamma=0.9)
    state = loss.state_dict()
    (name,) = [key for key in state if key.endswith("running_mean")]
    before = state[name].clone()
    loss.qvalue_loss(data)[0].backward()
    moved = loss.state_dict()[name]
    assert moved.shape == (2, 8)
    assert (moved != before).any(-1).all()
    assert (moved[0] != moved[1]).any()


def test_compiles_whole() -> None:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(1, 4), BatchRenorm1d(4, warmup_steps=2, momentum=0.2))
    copy = deepcopy(layers)
    whole = torch.compile(copy, fullgraph=True, backend="aot_eager")
    for _ in range(4):
        x = torch.randn(5, 1)
        torch.testing.assert_close(whole(x), layers(x))


def test_refused() -> None:
    module = BatchRenorm1d(3)
    for shape in ((3,), (4, 2), (1, 3)):
        with pytest.raises(ValueError, match="got shape"):
            module(torch.zeros(shape))
    assert module.eval()(torch.zeros(1, 3)).shape == (1, 3)
    for wrong in ({"max_r": 0.5}, {"max_d": -1.0}, {"warmup_steps": -1}, {"momentum": 2.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            BatchRenorm1d(3, **wrong)  # type: ignore[arg-type]
