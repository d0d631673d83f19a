"""What a step computes with the state, and what is left to whoever reads the data."""

from __future__ import annotations

import pytest

from tests.support import generate

SCHEMA = """
specgen: 1
envs:
  Cloud:
    doc: Points that are drawn to their centre.
    consts:
      weight: {{type: "float32[{size}]", value: {weight}}}
    state:
      x: float32[{size}]
    action:
      push: float32[{size}]
    reset:
      x: normal(0, 1, shape=({size},))
    step:
      spread: sum(weight * x ** 2)
      next.x: x - 0.1 * spread * x + push
      reward: -spread
"""
"""A reward that needs a sum over all points, as the next state does."""


def advance_of(size: int) -> str:
    schema = SCHEMA.format(size=size, weight=[1.0] * size)
    text = generate({"cloud.yaml": schema}, "cloud_package")["cloud.py"]
    begin = text.index("def cloud_advance(")
    return text[begin : text.index("\nclass ", begin)]


@pytest.mark.parametrize(("size", "together"), [(64, True), (2, False)])
def test_rewards_that_repeat_much_are_computed_with_the_state(size: int, together: bool) -> None:
    advance = advance_of(size)
    assert ("reward=" in advance) == together
    assert ("def cloud_reward(" in advance) != together
