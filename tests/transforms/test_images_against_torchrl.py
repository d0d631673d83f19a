"""The library's transforms of images, lives and goals against TorchRL's, and what differs from theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import specgen_std.transforms as ours
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.specs import Bounded
from specgen_runtime.transforms import Compose, TransformedEnv

from tests.transforms.screens import HEIGHT, WIDTH, Screen, TheirScreen, seen
from tests.transforms.test_against_torchrl import run, theirs

pytestmark = pytest.mark.peers

BATCHES = [(), (3,), (4, 3)]


def chains(t: Any) -> dict[str, Callable[[], list[Any]]]:
    """Chains that agree bit by bit; called for both libraries."""
    return {
        "ToTensorImage": lambda: [t.ToTensorImage()],
        "ToTensorImage renamed": lambda: [t.ToTensorImage(in_keys=["pixels"], out_keys=["image"])],
        "SuccessReward": lambda: [t.SuccessReward()],
        "SuccessReward scaled": lambda: [t.SuccessReward(scale=2.5), t.RewardSum()],
        "SignTransform": lambda: [t.SignTransform(in_keys=["reward"])],
        "BinarizeReward": lambda: [t.BinarizeReward()],
        "RewardClipping": lambda: [t.RewardClipping(-0.5, 0.25)],
    }


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", chains(ours))
def test_agrees(name: str, batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Screen(*batch), Compose(*chains(ours)[name](), ours.ExcludeTransform("lives")))
    peer = theirs.TransformedEnv(TheirScreen(*batch), theirs.Compose(*chains(theirs)[name]()))
    check_env_specs(env)
    run(env, peer, partial=bool(batch))
    for key, spec in env.observation_spec.items(True, True):
        if "_carry" not in key:
            other = peer.observation_spec[key]
            assert (spec.shape, spec.dtype) == (other.shape, other.dtype), key
    assert env.full_reward_spec["reward"].shape == peer.full_reward_spec["reward"].shape


@pytest.mark.parametrize("batch", BATCHES)
def test_lives(batch: tuple[int, ...]) -> None:
    """TorchRL reads the lives from an attribute of the environment, ours where they are observed."""
    env = TransformedEnv(Screen(*batch), ours.EndOfLifeTransform(eol_key="eol"))
    with pytest.warns(UserWarning, match="not a gym env"):
        peer = theirs.TransformedEnv(
            TheirScreen(*batch), theirs.EndOfLifeTransform(eol_key="eol", eol_attribute="lives")
        )
        run(env, peer, partial=bool(batch))
    check_env_specs(env)
    moment = env.rollout(20, break_when_any_done=False)["next", "moment"]
    assert moment.max() == 11
