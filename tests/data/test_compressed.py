"""`CompressedListStorage`: rows come back as they were, and take less memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.data import CompressedListStorage, ListStorage, ReplayBuffer, TensorDictReplayBuffer
from tensordict import NonTensorData, TensorDict
from torch import Tensor


def frames(count: int) -> TensorDict:
    """Images that are mostly of one colour, and entries of other kinds."""
    pixels = torch.zeros(count, 3, 32, 32, dtype=torch.uint8)
    pixels[:, 0, 3:6, 4] = torch.arange(count, dtype=torch.uint8)[:, None]
    return TensorDict(
        {
            "pixels": pixels,
            "number": torch.arange(count),
            "nested": TensorDict({"half": torch.randn(count, 2, 5).bfloat16()}, [count, 2]),
            "empty": torch.zeros(count, 0),
            "flag": torch.arange(count) % 2 == 0,
            "conjugated": torch.randn(count, 2, dtype=torch.complex64).conj(),
        },
        [count],
    )


def test_rows_come_back_as_they_were() -> None:
    data = frames(20)
    plain, packed = (ReplayBuffer(storage=kind(30)) for kind in (ListStorage, CompressedListStorage))
    for buffer in (plain, packed):
        assert buffer.extend(data).tolist() == list(range(20))
    for index in (slice(None), torch.tensor([3, 1, 1])):
        got, wanted = packed[index], plain[index]
        assert got.batch_size == wanted.batch_size
        assert got["nested"].batch_size == wanted["nested"].batch_size
        assert set(got.keys(True, True)) == set(wanted.keys(True, True))
        for key, value in wanted.items(True, True):
            assert got[key].dtype == value.dtype
            assert torch.equal(got[key], value), key
    packed.storage.set_entry("number", torch.arange(20) + 5)
    assert packed[4]["number"] == 9


def test_images_take_less_memory() -> None:
    data = frames(20)
    storage, stronger = (
        CompressedListStorage(30, compression_level=1),
        CompressedListStorage(30, compression_level=9),
    )
    for kept in (storage, stronger):
        ReplayBuffer(storage=kept).extend(data.select("pixels"))
    assert stronger.nbytes <= storage.nbytes < data["pixels"].nbytes / 20


def test_what_is_sampled_changes_nothing_that_is_kept() -> None:
    buffer = TensorDictReplayBuffer(storage=CompressedListStorage(30), batch_size=4)
    buffer.extend(frames(20))
    buffer.sample()["pixels"].fill_(255)
    assert torch.equal(buffer[:]["pixels"], frames(20)["pixels"])


@pytest.mark.parametrize("row", [torch.tensor(3.5), torch.arange(6).reshape(2, 3), "text", {"a": 1}, None])
def test_other_rows(row: Any) -> None:
    buffer = ReplayBuffer(storage=CompressedListStorage(3), collate_fn=lambda rows: rows)
    buffer.extend([row, row])
    found = buffer[0]
    assert torch.equal(found, row) if isinstance(row, Tensor) else found == row


def test_text_beside_tensors_and_transposed_tensors() -> None:
    buffer = ReplayBuffer(storage=CompressedListStorage(3))
    row = TensorDict({"x": torch.arange(6).reshape(2, 3).t(), "what": NonTensorData("a word")})
    buffer.add(row)
    assert torch.equal(buffer[0]["x"], row["x"])
    assert buffer[0]["what"] == "a word"


def test_functions_of_one_s_own() -> None:
    seen: list[Any] = []

    def halved(tensor: Tensor) -> Tensor:
        return (tensor // 2).to(torch.uint8).flatten()

    def doubled(content: Tensor, facts: Any) -> Tensor:
        seen.append(facts)
        return (2 * content.to(facts["dtype"])).reshape(facts["shape"])

    buffer = ReplayBuffer(storage=CompressedListStorage(3, compression_fn=halved, decompression_fn=doubled))
    buffer.extend(torch.tensor([[4, 7], [10, 1]]))
    assert buffer[:].tolist() == [[4, 6], [10, 0]]
    assert seen[0] == {"shape": torch.Size([2]), "dtype": torch.int64, "device": torch.device("cpu")}


def test_saved_rows_are_loaded(tmp_path: Path) -> None:
    buffer = ReplayBuffer(storage=CompressedListStorage(30), batch_size=4)
    buffer.extend(frames(20))
    buffer.dumps(tmp_path / "buffer")
    for storage in (CompressedListStorage(30), ListStorage(30)):
        other = ReplayBuffer(storage=storage, batch_size=4)
        other.loads(tmp_path / "buffer")
        assert torch.equal(other[:]["pixels"], buffer[:]["pixels"])


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="compression_level must be between 0 and 9, got 22"):
        CompressedListStorage(3, compression_level=22)
    with pytest.raises(ValueError, match="compression_fn and decompression_fn are given together"):
        CompressedListStorage(3, compression_fn=lambda tensor: tensor)


@pytest.mark.peers
def test_nested_entries_are_compressed_and_keep_their_batch_size() -> None:
    """TorchRL keeps nested tensordicts as they are, and gives rows without their batch size."""
    theirs = pytest.importorskip("torchrl.data")
    row = TensorDict({"inner": TensorDict({"pixels": torch.zeros(2, 3, 64, 64)}, [2])}, [2])
    kept = theirs.CompressedListStorage(3)
    kept.set(0, row)
    assert kept.get(0).batch_size == torch.Size([])
    assert kept._storage[0]["inner"]["pixels"].shape == (2, 3, 64, 64)
    storage = CompressedListStorage(3)
    storage.set(0, row)
    assert storage.get(0).batch_size == torch.Size([2])
    assert storage.nbytes < row["inner", "pixels"].nbytes / 100
