"""`PrioritizedSliceSampler` against TorchRL's: the same calls on both, with the same seed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.data.test_against_torchrl import assert_same, pair, torchrl_trees
from tests.data.transitions import episodes, transitions

pytest.importorskip("torchrl.data", reason="the extra `peers`")

pytestmark = pytest.mark.peers

__all__ = ["torchrl_trees"]

PRIORITIZED_SLICES: dict[str, dict[str, Any]] = {
    "num_slices": {"num_slices": 4},
    "slice_len": {"slice_len": 3},
    "traj_key": {"slice_len": 3, "traj_key": "episode"},
    "end_keys": {"slice_len": 3, "end_keys": [("next", "terminated"), ("next", "truncated")]},
    "short": {"slice_len": 12, "strict_length": False},
    "span behind": {"slice_len": 4, "span": (False, 2)},
    "not marked": {"slice_len": 4, "truncated_key": None, "init_key": None},
    "within the buffer": {"slice_len": 3, "max_priority_within_buffer": True},
}


@pytest.mark.parametrize("ndim", [1, 2])
@pytest.mark.parametrize("options", PRIORITIZED_SLICES)
@pytest.mark.parametrize("writes", [[20], [33, 13, 9]], ids=str)
@pytest.mark.usefixtures("torchrl_trees")
def test_prioritized_slices(writes: list[int], options: str, ndim: int) -> None:
    if ndim == 2 and sum(writes) > 40:
        pytest.skip("TorchRL's parts go on in other trajectories then: TestDifferences")
    size = 40 * (3 if ndim == 2 else 1)
    sampler = ("PrioritizedSliceSampler", (size, 0.7, 0.6), PRIORITIZED_SLICES[options])
    buffers = pair("TensorDictReplayBuffer", sampler, capacity=size, ndim=ndim, batch_size=12)
    first = 0
    for count in writes:
        data = episodes(count, first, ndim)
        buffers.both(lambda buffer, d=data: buffer.extend(d.clone()))
        first += count
        for step in range(4):
            mine, peer = buffers.both(lambda buffer: buffer.sample())
            assert_same(
                mine.exclude("priority_weight", "is_init"), peer.exclude("priority_weight", "is_init")
            )
            torch.testing.assert_close(
                mine["priority_weight"], peer["priority_weight"].float(), rtol=1e-5, atol=0
            )
            # The same number for the same element, as above.
            error = torch.rand(size, generator=torch.Generator().manual_seed(step))
            place = mine["index"].reshape(len(mine), -1)
            error = error[place[:, 0] + (40 * place[:, 1] if ndim == 2 else 0)]
            for buffer, sample in zip(buffers, (mine, peer), strict=True):
                buffer.update_tensordict_priority(sample.set("td_error", error))


class TestDifferences:
    """Where the two are meant to differ; the reasons are in docs/differences.md."""

    @pytest.mark.usefixtures("torchrl_trees")
    def test_prioritized_slices_of_several_dimensions(self) -> None:
        sampler = ("PrioritizedSliceSampler", (120, 0.7, 0.6), {"slice_len": 3})
        buffers = pair("TensorDictReplayBuffer", sampler, capacity=120, ndim=2, batch_size=12)
        for first in (0, 33):
            data = transitions(33, first, (3,)).transpose(0, 1).contiguous()
            buffers.both(lambda buffer, d=data: buffer.extend(d.clone()))
        broken = [0, 0]
        for _ in range(20):
            for number, sample in enumerate(buffers.both(lambda buffer: buffer.sample())):
                steps = sample["observation"].reshape(-1, 3)
                broken[number] += int(
                    ((steps[:, 1:] - steps[:, :-1] != 100) | (steps[:, :1] % 700 > 500)).any()
                )
        assert broken[0] == 0
        assert broken[1] > 0

    @pytest.mark.usefixtures("torchrl_trees")
    def test_prioritized_slices_mark_their_first_row(self) -> None:
        sampler = ("PrioritizedSliceSampler", (40, 0.7, 0.6), {"slice_len": 3, "end_key": ("next", "done")})
        buffers = pair("TensorDictReplayBuffer", sampler, capacity=40, batch_size=12)
        data = transitions(20).set("is_init", torch.zeros(20, 1, dtype=torch.bool))
        buffers.both(lambda buffer: buffer.extend(data.clone()))
        mine, peer = buffers.both(lambda buffer: buffer.sample())
        assert mine["is_init"].flatten().tolist() == [True, False, False] * 4
        assert not peer["is_init"].any()
