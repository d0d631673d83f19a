"""Networks and trunks that keep their first weights."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from tests.pipelines.small import differing, losses, optimizers, parts_class, rows, small_config
from tests.support import generate, imported

FROZEN = """\
specgen: 1
doc: A policy on a frozen trunk.
import: [specgen_std/chains/pendulum, specgen_std/losses/ddpg]
pipelines:
  DDPGFrozen:
    doc: A policy on a frozen trunk, and values behind layers of their own.
    env: PendulumTrain
    networks:
      encoder: {mlp: [16], frozen: true}
      actor_network: {trunk: encoder, mlp: [16]}
      value_network: {mlp: [16]}
    policy: {explore: {gaussian: {sigma: 0.2}}}
    loss: {DDPGLoss: {delay_actor: true}}
    data: {replay: {num_envs: 2, capacity: 1_000, batch_size: 32}}
    target_updater: {soft: {tau: 0.01}}
    optimizer: {adam: {lr: 1.0e-3}}
    stop: {frames: 2_000}
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"ddpg.yaml": FROZEN}, "frozen_rl")
    with imported(files, "frozen_rl", tmp_path_factory.mktemp("made")):
        yield importlib.import_module("frozen_rl.ddpg")


def test_it_stays_while_the_others_learn_and_goes_on_bit_by_bit(module: ModuleType, tmp_path: Path) -> None:
    config = small_config(module, capacity=1_000, batch_size=8)
    before = parts_class(module)(config)
    whole = module.train(config, folder=tmp_path / "whole")
    for frozen, first in zip(whole.encoder.parameters(), before.encoder.parameters(), strict=True):
        assert torch.equal(frozen, first)
        assert not frozen.requires_grad
    for moved, first in zip(whole.value_network.parameters(), before.value_network.parameters(), strict=True):
        assert not torch.equal(moved, first)
    module.train(
        small_config(module, capacity=1_000, batch_size=8, total_frames=32), folder=tmp_path / "half"
    )
    again = module.train(config, folder=tmp_path / "half", resume=True)
    assert differing(whole.state_dict(), again.state_dict()) == []
    assert rows(tmp_path / "whole") == rows(tmp_path / "half")


def test_no_optimizer_has_its_parameters(module: ModuleType) -> None:
    parts = parts_class(module)(small_config(module, capacity=1_000, batch_size=8))
    moved = {
        id(one)
        for made in optimizers(parts).values()
        for group in made.param_groups
        for one in group["params"]
    }
    assert not moved & {id(one) for one in parts.encoder.parameters()}
    assert moved == {id(one) for loss in losses(parts) for one in loss.parameters() if one.requires_grad}
