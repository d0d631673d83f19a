"""Mixers of the values of agents: TorchRL's numbers and state dicts, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from specgen_runtime.modules import Mixer, QMixer, VDNMixer
from torch import Tensor


def test_the_sum_of_the_values() -> None:
    values = torch.randn(5, 3, 4, 1)
    torch.testing.assert_close(VDNMixer(4)(values), values.sum(-2))


@pytest.mark.peers
@pytest.mark.parametrize("batch", [(), (6,), (2, 3)])
@pytest.mark.parametrize("shape", [(5,), (2, 3)])
def test_the_network_is_torchrls(batch: tuple[int, ...], shape: tuple[int, ...]) -> None:
    theirs = pytest.importorskip("torchrl.modules").QMixer(torch.Size(shape), 7, 4, device="cpu")
    mine = QMixer(state_shape=shape, mixing_embed_dim=7, n_agents=4)
    mine.load_state_dict(theirs.state_dict())
    values, state = torch.randn(*batch, 4, 1, requires_grad=True), torch.randn(*batch, *shape)
    got, wanted = mine(values, state), theirs(values, state)
    torch.testing.assert_close(got, wanted)
    for ours, other in zip(
        torch.autograd.grad(got.sum(), [values, *mine.parameters()]),
        torch.autograd.grad(wanted.sum(), [values, *theirs.parameters()]),
        strict=True,
    ):
        torch.testing.assert_close(ours, other)


def test_what_is_better_for_an_agent_is_not_worse_for_the_team() -> None:
    values = torch.randn(50, 3, 1, requires_grad=True)
    mixed = QMixer((4,), 8, 3)(values, torch.randn(50, 4))
    (gradient,) = torch.autograd.grad(mixed.sum(), values)
    assert (gradient >= 0).all()
    assert (gradient > 0).any()


class _Wrong(Mixer):
    def mix(self, chosen_action_value: Tensor, state: Tensor | None) -> Tensor:
        return chosen_action_value


@pytest.mark.parametrize(
    ("mixer", "inputs", "message"),
    [
        (
            VDNMixer(3),
            (torch.zeros(2, 3),),
            r"VDNMixer reads values of shape \[\*batch, 3, 1\], got \[2, 3\]",
        ),
        (VDNMixer(3), (torch.zeros(3, 1), torch.zeros(4)), "VDNMixer reads the values of the agents, got 2"),
        (QMixer((4,), 8, 3), (torch.zeros(3, 1),), "agents and a state, got 1 inputs"),
        (
            QMixer((4,), 8, 3),
            (torch.zeros(2, 3, 1), torch.zeros(4)),
            r"QMixer reads a state of shape \[2, 4\], got \[4\]",
        ),
        (_Wrong(3, False, ()), (torch.zeros(2, 3, 1),), r"_Wrong.mix gives \[2, 1\] of these values, got"),
    ],
)
def test_other_shapes_are_refused(mixer: Mixer, inputs: tuple[Tensor, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mixer(*inputs)


def test_no_state_is_refused() -> None:
    with pytest.raises(TypeError, match="QMixer reads tensors, got None"):
        QMixer((4,), 8, 3)(torch.zeros(2, 3, 1), None)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: VDNMixer(0), "n_agents must be >= 1, got 0"),
        (lambda: QMixer((4,), 8, 0), "n_agents must be >= 1, got 0"),
        (lambda: QMixer((4,), 0, 3), "mixing_embed_dim must be >= 1, got 0"),
        (lambda: QMixer((4, 0), 8, 3), "state_shape must be >= 1, got 0"),
    ],
)
def test_sizes_below_one_are_refused(make: Callable[[], Mixer], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        make()
