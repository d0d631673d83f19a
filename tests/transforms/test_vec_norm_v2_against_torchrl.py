"""VecNorm and VecNormV2 against TorchRL's VecNormV2, where that one's variance is right: with a decay of 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.transforms import TransformedEnv, VecNormV2
from specgen_std.transforms import VecNorm
from tensordict import TensorDictBase

from tests.transforms.envs import Walk
from tests.transforms.test_against_torchrl import TheirWalk, theirs

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore:Support of VecNormV2")]

KEYS = (["position", "reward"], ["normed", "normed_reward"])
BATCHES = pytest.mark.parametrize("batch", [(), (3,), (4, 3)])


def compare(batch: tuple[int, ...], ours: Any, peer: Any, keys: tuple[list[str], list[str]] = KEYS) -> None:
    """Twelve steps of both; from the second on, deviations are more than rounding."""
    env = TransformedEnv(Walk(*batch), ours)
    other = theirs.TransformedEnv(TheirWalk(*batch), peer)
    torch.manual_seed(0)
    root, peer_root = env.reset(), other.reset()
    for step in range(12):
        root = env.rand_action(root)
        peer_root["action"] = root["action"].clone()
        data, peer_data = env.step(root)["next"], other.step(peer_root)["next"]
        if step:
            for key in keys[1]:
                torch.testing.assert_close(data[key], peer_data[key], rtol=1e-3, atol=1e-3)
        root = data.exclude("reward", "normed_reward")
        peer_root = peer_data.exclude("reward", "normed_reward")


@BATCHES
def test_means_deviations_and_what_is_normalised(batch: tuple[int, ...]) -> None:
    ours = VecNorm(*KEYS, decay=1.0)
    v2 = theirs.transforms.VecNormV2(*KEYS, decay=1.0, reduce_batch_dims=True)
    compare(batch, ours, v2)
    learned = ours.state_dict()
    for key in KEYS[0]:
        torch.testing.assert_close(learned[f"loc|{key}"].float(), v2.loc[key], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(learned[f"var|{key}"].sqrt().float(), v2.scale[key], rtol=1e-3, atol=1e-3)


@BATCHES
@pytest.mark.parametrize("reduced", [True, False])
def test_statistics_and_state_dicts(batch: tuple[int, ...], reduced: bool) -> None:
    ours, peer = (
        make(*KEYS, decay=1.0, reduce_batch_dims=reduced) for make in (VecNormV2, theirs.transforms.VecNormV2)
    )
    compare(batch, ours, peer)

    def agree(one: Any, other: Any) -> None:
        for key in KEYS[0]:
            torch.testing.assert_close(one.loc[key].float(), other.loc[key].float(), rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(one.scale[key].float(), other.scale[key].float(), rtol=1e-3, atol=1e-3)

    agree(ours, peer)
    loaded = VecNormV2(*KEYS, decay=1.0, reduce_batch_dims=reduced)
    loaded.load_state_dict(peer.state_dict())
    agree(loaded, peer)
    back = theirs.transforms.VecNormV2(*KEYS, decay=1.0, reduce_batch_dims=reduced)
    with pytest.warns(UserWarning, match="not shared"):
        back.load_state_dict(ours.state_dict())
    agree(ours, back)
    TransformedEnv(Walk(*batch), loaded).rollout(3)


@BATCHES
def test_statistics_in_the_data(batch: tuple[int, ...]) -> None:
    keys = (["position"], ["normed"])  # of two keys it fails at a reset, which gives no reward
    ours, peer = (make(*keys, decay=1.0, stateful=False) for make in (VecNormV2, theirs.transforms.VecNormV2))
    compare(batch, ours, peer, keys)
    env = TransformedEnv(Walk(*batch), ours.clone())
    other = theirs.TransformedEnv(TheirWalk(*batch), peer.clone())
    for part in ("loc", "var", "count"):
        found, wanted = (each.observation_spec[f"_vecnorm_{part}", "position"] for each in (env, other))
        assert found.shape == wanted.shape


@BATCHES
def test_denorm_and_fixed_copies(batch: tuple[int, ...]) -> None:
    ours, peer = (make(*KEYS, decay=1.0) for make in (VecNormV2, theirs.transforms.VecNormV2))
    compare(batch, ours, peer)
    data: TensorDictBase = Walk(*batch).rollout(2)[..., 0]["next"].select(*KEYS[0])
    copies: list[Callable[[Any], Any]] = [lambda t: t.frozen_copy(), lambda t: t.to_observation_norm()]
    for copied in copies:
        found, wanted = (copied(each)._step(data.copy(), data.copy()) for each in (ours, peer))
        for key in KEYS[1]:
            torch.testing.assert_close(found[key], wanted[key], rtol=1e-3, atol=1e-3)
    found, wanted = (each.denorm(each.frozen_copy()._step(data.copy(), data.copy())) for each in (ours, peer))
    for key in KEYS[0]:
        torch.testing.assert_close(found[key], wanted[key], rtol=1e-4, atol=1e-4)
