"""A printed training whose workers are actors: one of them is killed, and the training ends."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from specgen_runtime.collectors import RayCollector
from specgen_runtime.training import read_log

from tests.pipelines.small import small_config
from tests.support import generate, imported

pytestmark = [pytest.mark.usefixtures("ray_cluster")]
SCHEMA = """\
specgen: 1
doc: A training.
import: [specgen_std/pipelines/ppo_pendulum, specgen_std/chains/pendulum, specgen_std/losses/ppo]
pipelines:
  Spread: {doc: A training., extends: PPOPendulum, workers: {ray: 2, cpus: 0}}
"""


def test_a_killed_actor_is_replaced_and_the_training_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    with imported(generate({"spread.yaml": SCHEMA}, "spread"), "spread", tmp_path):
        module = importlib.import_module("spread.spread")
        update = module.update
        killed: list[Any] = []

        def killing(parts: Any, batch: Any) -> Any:
            if not killed:
                killed.append(parts.collector._workers[1].actor)
                ray.kill(killed[0])
            return update(parts, batch)

        monkeypatch.setattr(module, "update", killing)
        config = small_config(module, num_envs=4, minibatch_size=8)
        parts = module.train(config, folder=tmp_path / "run")
        assert type(parts.collector) is RayCollector
        assert parts.collector.lives == [0, 1]
        assert read_log(tmp_path / "run" / "log.csv")[-1]["frames"] == 48
        parts.collector.shutdown()
