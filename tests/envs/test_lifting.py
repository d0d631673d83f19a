"""Carries in closed form: each function against a loop, and a Gymnasium chain of many carries against stepping."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.envs.generated import lifting
from torch import Tensor

from tests.support import generate, imported

LENGTHS = [3, 1, 4]
FLOATS = ("sums", "maxima", "minima", "products", "shifted")

JOINS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sums": torch.add,
    "maxima": torch.maximum,
    "minima": torch.minimum,
    "products": lambda before, factor: factor * before,
    "shifted": lambda before, term: term,
    "any": torch.logical_or,
    "all": torch.logical_and,
}


@pytest.mark.parametrize("name", JOINS)
def test_functions_are_the_loop(name: str) -> None:
    torch.manual_seed(0)
    firsts, terms = torch.randn(3, 2), torch.randn(8, 2)
    if name not in FLOATS:
        firsts, terms = firsts > 0.5, terms > 0.5
    kept = terms.clone()
    made = getattr(lifting, f"{name}_before")(firsts, terms, LENGTHS)
    expected, at = [], 0
    for first, length in zip(firsts, LENGTHS, strict=True):
        value = first
        for term in terms[at : at + length]:
            expected.append(value)
            value = JOINS[name](value, term)
        at += length
    assert torch.equal(made, torch.stack(expected))
    assert torch.equal(terms, kept)


def test_affine_is_the_loop() -> None:
    torch.manual_seed(0)
    firsts, factors, terms = torch.randn(3, 2), torch.randn(8, 2), torch.randn(8, 2)
    expected, at = [], 0
    for first, length in zip(firsts, LENGTHS, strict=True):
        value = first
        for step in range(at, at + length):
            expected.append(value)
            value = factors[step] * value + terms[step]
        at += length
    assert torch.equal(lifting.affine_before(firsts, factors, terms, LENGTHS), torch.stack(expected))


def test_what_is_kept_is_repeated() -> None:
    assert lifting.kept_before(torch.tensor([[1], [2], [3]]), LENGTHS).flatten().tolist() == [
        1,
        1,
        1,
        2,
        3,
        3,
        3,
        3,
    ]


SCHEMA = """
specgen: 1
import: [specgen_std/envs/cartpole, specgen_std/transforms/reward_scaling, specgen_std/transforms/step_counter]
transforms:
  Track:
    doc: What has been seen of a reward so far.
    in:
      reward: {each: [reward], type: "float[...]"}
    out:
      best: {each: reward, name: best, type: like(reward), doc: the largest so far}
      worst: {each: reward, name: worst, type: like(reward), doc: the smallest so far}
      slow: {each: reward, name: slow, type: like(reward), doc: a moving average}
      fading: {each: reward, name: fading, type: like(reward), doc: it gets less}
      last: {each: reward, name: last, type: like(reward), doc: that of the step before}
      gain: {each: reward, name: gain, type: like(reward), doc: how much more it is than before}
    carry: [best, worst, slow, fading, last]
    reset:
      best: zeros_like(best)
      worst: ones_like(worst)
      slow: zeros_like(slow)
      fading: ones_like(fading)
      last: zeros_like(last)
      gain: zeros_like(gain)
    step:
      next.best: max(best, next.reward)
      next.worst: min(next.reward, worst)
      next.slow: 0.9 * slow + 0.1 * next.reward
      next.fading: fading * 0.99
      next.last: next.reward
      next.gain: next.reward - last
chains:
  Tracked:
    env: CartPoleGym
    transforms: [{RewardScaling: {loc: 0.5, scale: 0.25}}, Track, {StepCounter: {max_steps: 30}}]
"""


def test_a_chain_of_many_carries_is_stepping(tmp_path: Path) -> None:
    files = generate({"tracked.yaml": SCHEMA}, "tracked_package")
    text = files["tracked.py"]
    for function in ("maxima_before", "minima_before", "affine_before", "products_before", "shifted_before"):
        assert f"{function}(" in text
    with imported(files, "tracked_package", tmp_path):
        from tracked_package.tracked import Tracked  # type: ignore[import-not-found]

        rollouts: list[Any] = []
        for lifts in (True, False):
            torch.manual_seed(1)
            env = Tracked()
            env._gym_lifts = lifts
            env.set_seed(3)
            rollouts.append(env.rollout(90, break_when_any_done=False))
    lifted, stepped = rollouts
    assert lifted["next", "truncated"].any() or lifted["next", "terminated"].any()
    for key in stepped.keys(True, True):
        assert torch.equal(lifted[key], stepped[key]), key
