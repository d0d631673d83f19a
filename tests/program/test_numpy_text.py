"""Steps that are printed for NumPy: what is, and what is left to torch."""

from __future__ import annotations

import pytest

from tests.support import generate

SCHEMA = """
specgen: 1
import: [specgen_std/envs/cartpole]
transforms:
  Track:
    doc: Something made of each reward.
    in:
      reward: {{each: [reward], type: "float[...]"}}
    out:
      made: {{each: reward, name: made, type: like(reward), doc: what is made}}
    carry: [made]
    reset:
      made: zeros_like(made)
    step:
      next.made: {value}
chains:
  Tracked:
    env: CartPoleGym
    transforms: [Track]
"""


def text_of(value: str) -> str:
    return generate({"tracked.yaml": SCHEMA.format(value=value)}, "numpy_package")["tracked.py"]


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        # Beside one number of Python's, some versions of NumPy compute one of its own in float64.
        ("next.reward + made * 2", 'reward + held["made"] * row_number("float32", 2)'),
        ("(next.reward - made) / 3", '(reward - held["made"]) / row_number("float32", 3)'),
        ("next.reward - (made - 1)", 'reward - (held["made"] - row_number("float32", 1))'),
        ("-(next.reward * made)", '-(reward * held["made"])'),
        ("made", 'held["made"]'),
        ("made + ones_like(made)", 'held["made"] + row_number("float32", 1.0)'),
        ("cast(next.reward > made, float32)", '(reward > held["made"]).astype("float32")'),
    ],
)
def test_numpy_computes_it(value: str, printed: str) -> None:
    assert f'"made": {printed},' in text_of(value)


@pytest.mark.parametrize(
    "value",
    ["exp(next.reward) + made", "max(made, next.reward)", "made % 2", "where(made > 0, made, next.reward)"],
)
def test_torch_computes_it(value: str) -> None:
    assert "_gym_row" not in text_of(value)
