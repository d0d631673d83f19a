"""VecNorm against TorchRL's VecNormV2, where that one's variance is right: with a decay of 1, over whole batches."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.transforms import TransformedEnv
from specgen_std.transforms import VecNorm

from tests.transforms.envs import Walk
from tests.transforms.test_against_torchrl import TheirWalk, theirs

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore:Support of VecNormV2")]

KEYS = (["position", "reward"], ["normed", "normed_reward"])


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
def test_means_deviations_and_what_is_normalised(batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Walk(*batch), ours := VecNorm(*KEYS, decay=1.0))
    v2 = theirs.transforms.VecNormV2(*KEYS, decay=1.0, reduce_batch_dims=True)
    peer = theirs.TransformedEnv(TheirWalk(*batch), v2)
    torch.manual_seed(0)
    root, peer_root = env.reset(), peer.reset()
    for step in range(12):
        root = env.rand_action(root)
        peer_root["action"] = root["action"].clone()
        data, peer_data = env.step(root)["next"], peer.step(peer_root)["next"]
        if step:  # of one value alone it is only rounding
            for key in ("normed", "normed_reward"):
                torch.testing.assert_close(data[key], peer_data[key], rtol=1e-3, atol=1e-3)
        root = data.exclude("reward", "normed_reward")
        peer_root = peer_data.exclude("reward", "normed_reward")
    learned = ours.state_dict()
    for key in KEYS[0]:
        torch.testing.assert_close(learned[f"loc|{key}"].float(), v2.loc[key], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(learned[f"var|{key}"].sqrt().float(), v2.scale[key], rtol=1e-3, atol=1e-3)
