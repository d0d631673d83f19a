"""A chain applies the tensor parameters of an inverse transform to the action on its way in."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.support import generate, imported

SCHEMA = """\
specgen: 1
envs:
  Walk:
    state: {x: float32}
    action: {action: "float32[2]"}
    observation: {observation: "float32[1]"}
    reset: {x: 0.0}
    step:
      next.x: x + action[0] + action[1]
      reward: x
    observe:
      observation: stack(x)
transforms:
  Gain:
    params:
      gain: {type: "float[...]"}
    in:
      inner: {each: env.action, type: "float32[...]", inverse: true}
    out:
      outer: {each: inner, name: same, type: like(inner)}
    inverse:
      inner: outer * gain
chains:
  Scaled: {env: Walk, transforms: [{Gain: {gain: 3.0}}]}
  Each: {env: Walk, transforms: [{Gain: {gain: [1.0, 5.0]}}]}
"""


def test_actions_are_scaled_on_their_way_in(tmp_path: Path) -> None:
    with imported(generate({"gain.yaml": SCHEMA}, "inverse_gain"), "inverse_gain", tmp_path) as package:
        for chain, moved in ((package.Scaled, 6.0), (package.Each, 6.0)):
            data = chain(batch_size=[2]).reset()
            data["action"] = torch.ones(2, 2)
            assert chain(batch_size=[2]).step(data)["next", "x"].tolist() == [moved, moved]
