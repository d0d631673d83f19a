"""The values whose probabilities a network gives, as a configuration has them."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.support import generate, imported

SCHEMA = """\
specgen: 1
doc: A training.
import: [specgen_std/losses/dqn, specgen_std/chains/cartpole]
losses:
  FewAtomsLoss:
    extends: DistributionalDQNLoss
    doc: Eight atoms.
    networks: {value_network: {out: {action_value: "float32[8, n_actions]"}, buffers: {support: "float32[8]"}}}
pipelines:
  Few:
    doc: Few values.
    env: CartPoleTrain
    networks: {value_network: {mlp: [8], support: {atoms: 8, low: 0, high: 100}}}
    policy: {explore: {epsilon_greedy: {eps: 0.1}}}
    loss: FewAtomsLoss
    data: {replay: {capacity: 10_000, batch_size: 64, warm_up_frames: 500}}
    target_updater: {soft: {tau: 0.005}}
    optimizer: {adam: {lr: 3.0e-4}}
    stop: {frames: 10_000}
"""


def test_what_a_loss_fixes_and_a_support_that_falls_are_refused_by_the_configuration(tmp_path: Path) -> None:
    with imported(generate({"few.yaml": SCHEMA}, "few"), "few", tmp_path):
        config = importlib.import_module("few.few").FewConfig
        assert config().atoms == 8
        for atoms, sign in ((7, ">="), (9, "<=")):
            with pytest.raises(ValueError, match=f"atoms must be {sign} 8, got {atoms}"):
                config(atoms=atoms)
        for low in (100.0, 200.0):
            with pytest.raises(ValueError, match=f"v_min must be below v_max, got {low}"):
                config(v_min=low)
