"""`RandomPolicy`: actions of a spec that it is given, or of the environment that runs it."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.collectors import Collector
from specgen_runtime.modules import RandomPolicy
from specgen_runtime.specs import Bounded, Categorical, Composite
from specgen_std.envs import Pendulum
from tensordict import TensorDict


@pytest.mark.peers
def test_actions_are_torchrls() -> None:
    theirs = pytest.importorskip("torchrl.modules").RandomPolicy
    specs = pytest.importorskip("torchrl.data")
    torch.manual_seed(0)
    got = RandomPolicy(Bounded(-1.0, 2.0, (3,)), action_key=("agents", "action"))(TensorDict())
    torch.manual_seed(0)
    wanted = theirs(specs.Bounded(-1.0, 2.0, (3,)), action_key=("agents", "action"))(TensorDict())
    torch.testing.assert_close(got["agents", "action"], wanted["agents", "action"], rtol=0, atol=0)
    taken = RandomPolicy(specs.Bounded(5.0, 6.0, (3,)))(TensorDict())["action"]
    assert ((taken >= 5) & (taken <= 6)).all()


def test_several_actions() -> None:
    data = RandomPolicy(Composite(move=Categorical(3), turn=Bounded(0.0, 1.0, (2,))))(TensorDict({"x": 1}))
    assert set(data.keys()) == {"x", "move", "turn"}


def test_the_spec_is_that_of_the_environment() -> None:
    policy = RandomPolicy()
    with pytest.raises(RuntimeError, match="RandomPolicy has no action_spec yet"):
        policy(TensorDict())
    env = Pendulum(batch_size=[3])
    actions = env.rollout(5, policy)["action"]
    assert actions.shape == (3, 5, 1)
    assert actions.std() > 0.3
    assert env.full_action_spec.is_in(policy(TensorDict(batch_size=[3])).select("action"))


def test_a_collector_runs_it() -> None:
    batch = next(
        iter(Collector(Pendulum(batch_size=[2]), RandomPolicy(), frames_per_batch=8, total_frames=8))
    )
    assert batch["action"].shape == (2, 4, 1)
    assert batch["action"].std() > 0.3


@pytest.mark.parametrize("batch", [(3,), (2, 3)])
def test_specs_of_another_batch_are_refused(batch: tuple[int, ...]) -> None:
    for spec, key in (
        (Bounded(-1.0, 1.0, (2,)), "action"),
        (Composite(turn=Bounded(-1.0, 1.0, (2,))), "turn"),
    ):
        with pytest.raises(
            ValueError, match=rf"the spec of '{key}' has the batch size .* got the shape \[2\]"
        ):
            RandomPolicy(spec)(TensorDict(batch_size=batch))
