"""What is timed against our losses by hand does the same work: it returns and writes the same, with equal numbers."""

from __future__ import annotations

import pytest
import torch

from benchmarks import losses


@pytest.mark.parametrize(
    "setup", [one for one in losses.SETUPS if one.flat is not None], ids=lambda setup: setup.name
)
def test_same_outputs(setup: losses.Setup) -> None:
    assert setup.flat is not None
    ours, by_hand = losses._data(setup), losses._data(setup)
    outputs = losses._loss(setup, *losses.OURS)(ours)
    flat = setup.flat(losses._flat(setup), by_hand)
    assert flat.keys() == set(outputs.keys())
    assert set(by_hand.keys(True)) == set(ours.keys(True))
    for name, value in flat.items():
        assert value.shape == outputs[name].shape, name
        assert value.requires_grad == name.startswith("loss"), name
    if setup.members == 1:  # draws, and the parameters of ensembles, are others
        for name, value in flat.items():
            torch.testing.assert_close(value, outputs[name])
        torch.testing.assert_close(by_hand, ours)
