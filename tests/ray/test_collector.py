"""`RayCollector`: batches of actors, new weights for them, and what happens when one is killed."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.collectors import MultiSyncCollector, RayCollector
from specgen_std.envs.cartpole import CartPole

from tests.collectors.policies import pusher

pytestmark = [pytest.mark.usefixtures("ray_cluster")]
_OPTIONS = {"num_cpus": 0}


def _collector(**keywords: Any) -> Any:
    options = {"frames_per_batch": 80, "total_frames": 320, "remote_configs": _OPTIONS, **keywords}
    return RayCollector([partial(CartPole, batch_size=[2])] * 2, pusher(), **options)


def test_a_batch_is_that_of_processes() -> None:
    found = []
    for make in (_collector, partial(MultiSyncCollector, [partial(CartPole, batch_size=[2])] * 2, pusher())):
        keywords = {"sync": True} if make is _collector else {}
        collector = make(frames_per_batch=80, total_frames=160, **keywords)
        collector.set_seed(3)
        found.append(list(collector))
        collector.shutdown()
    for mine, local in zip(*found, strict=True):
        assert (mine == local).all()


@pytest.mark.parametrize("sync", [True, False])
def test_a_killed_actor_is_replaced_and_the_run_ends(sync: bool) -> None:
    import ray

    # without waiting, the other actor may collect a few batches before it is known that one is gone
    total = 320 if sync else 3_200
    collector = _collector(sync=sync, update_after_each_batch=True, total_frames=total)
    count = 0
    for batch in collector:
        count += batch.numel()
        if collector.frames == 80:
            ray.kill(collector._workers[1].actor)
    assert count == total
    assert collector.lives == [0, 1]
    assert int(batch["policy_version"].max()) >= 1
    collector.shutdown()


def test_weights_after_so_many_batches() -> None:
    collector = _collector(sync=True, max_weight_update_interval=2, total_frames=-1)
    run = iter(collector)
    with torch.no_grad():
        collector.policy[0].module.weight.zero_()
        collector.policy[0].module.bias.copy_(torch.tensor([-100.0, 100.0]))
    actions = [next(run)["action"] for _ in range(4)]
    assert not (actions[0] == 1).all()
    assert (actions[3] == 1).all()
    collector.shutdown()
