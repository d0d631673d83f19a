"""Minibatches hold every row, or every column, once in each epoch."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.training import column_minibatches, equal_parts, joined, mean_losses, minibatches
from tensordict import LazyStackedTensorDict, NonTensorStack, TensorDict


def batch(rows: int = 4, steps: int = 6) -> TensorDict:
    number = torch.arange(rows * steps).reshape(rows, steps)
    return TensorDict(
        {"number": number, "next": {"wide": number.unsqueeze(-1).expand(-1, -1, 3)}}, [rows, steps]
    )


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_each_row_once_in_each_epoch() -> None:
    data = batch()
    found = list(minibatches(data, 8, generator=generator(), epochs=2))
    assert [part.batch_size for part in found] == [torch.Size([8])] * 6
    epochs = [torch.cat([part["number"] for part in found[start : start + 3]]) for start in (0, 3)]
    for epoch in epochs:
        assert sorted(epoch.tolist()) == list(range(24))
        assert epoch.tolist() != list(range(24))
    assert not torch.equal(*epochs)
    assert all(torch.equal(part["next", "wide"][:, 2], part["number"]) for part in found)
    assert torch.equal(data["number"], batch()["number"])


def test_rows_and_columns_may_stay_in_their_order() -> None:
    rows = [part["number"] for part in minibatches(batch(), 8, epochs=2, shuffle=False)]
    assert torch.equal(torch.cat(rows), torch.arange(24).repeat(2))
    columns = column_minibatches(batch(), 2, shuffle=False)
    assert torch.equal(torch.cat([part["number"] for part in columns]), batch()["number"])


def test_the_generator_decides() -> None:
    first, again, other = (
        torch.cat([part["number"] for part in minibatches(batch(), 6, generator=generator(seed))])
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    before = torch.get_rng_state()
    list(minibatches(batch(), 6, generator=generator()))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(3)
    expected = torch.randperm(24)
    torch.manual_seed(3)
    (whole,) = minibatches(batch(), 24, generator=None)
    assert torch.equal(whole["number"], expected)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_whole_columns(dim: int) -> None:
    data = batch() if dim == 0 else batch().transpose(0, 1)
    found = list(column_minibatches(data, 2, generator=generator(), epochs=3, dim=dim))
    assert len(found) == 6
    environments = []
    for part in found:
        rows = part if dim == 0 else part.transpose(0, 1)
        assert rows.batch_size == torch.Size([2, 6])
        assert (rows["number"].diff(dim=1) == 1).all()  # no step is torn from the one before it
        environments += (rows["number"][:, 0] // 6).tolist()
    assert all(sorted(environments[start : start + 4]) == [0, 1, 2, 3] for start in (0, 4, 8))
    assert environments[:4] != environments[4:8] or environments[:4] != environments[8:]


def test_what_does_not_divide() -> None:
    """Refused by the call itself, before the first minibatch."""
    with pytest.raises(ValueError, match="minibatches: size 7 must divide the 24 rows of the batch"):
        minibatches(batch(), 7, generator=None)
    with pytest.raises(ValueError, match="size 3 must divide the 4 environments"):
        column_minibatches(batch(), 3, generator=None)
    with pytest.raises(ValueError, match="size 0 must divide"):
        minibatches(batch(), 0, generator=None)
    with pytest.raises(ValueError, match="epochs must be at least 1, found 0"):
        minibatches(batch(), 6, generator=None, epochs=0)
    with pytest.raises(ValueError, match=r"dim 2 is none of the batch size \[4, 6\]"):
        column_minibatches(batch(), 2, generator=None, dim=2)


@pytest.mark.parametrize("kind", ["plain", "nested", "not only tensors", "lazy"])
def test_rows_are_those_that_tensordict_gives(kind: str) -> None:
    data = TensorDict({"x": torch.arange(12).reshape(3, 4, 1), "flag": torch.rand(3, 4) < 0.5}, [3, 4])
    if kind == "nested":
        data["next"] = TensorDict({"x": data["x"] + 1, "deep": {"y": torch.randn(3, 4, 2, 2)}}, [3, 4])
    elif kind == "not only tensors":
        data["text"] = NonTensorStack(*[NonTensorStack(*[f"{i}{j}" for j in range(4)]) for i in range(3)])
    elif kind == "lazy":
        data["rows"] = LazyStackedTensorDict(*[TensorDict({"z": torch.randn(4, 5)}, [4]) for _ in range(3)])
    ours = list(minibatches(data, 4, generator=torch.Generator().manual_seed(1), epochs=2))
    drawn = torch.Generator().manual_seed(1)
    orders = [torch.randperm(12, generator=drawn) for _ in range(2)]
    theirs = [part for order in orders for part in data.reshape(-1)[order].split(4)]
    assert len(ours) == len(theirs) == 6
    for mine, peer in zip(ours, theirs, strict=True):
        assert mine.batch_size == peer.batch_size == torch.Size([4])
        assert set(mine.keys(True, True)) == set(peer.keys(True, True))
        for key in peer.keys(True, True):
            if isinstance(peer.get(key), torch.Tensor):
                assert torch.equal(mine[key], peer[key])
            else:
                assert mine[key] == peer[key]
        assert mine.clone().set("more", torch.zeros(4)).shape == mine.shape


def test_equal_parts_are_the_rows_in_their_order() -> None:
    data = TensorDict({"x": torch.arange(12.0).reshape(6, 2)}, [6])
    parts = equal_parts(data, 3)
    assert [part.batch_size for part in parts] == [torch.Size([2])] * 3
    assert torch.equal(torch.cat([part["x"] for part in parts]), data["x"])
    assert [one.batch_size for one in equal_parts(batch(), 2)] == [torch.Size([2, 6])] * 2
    for count in (4, 0, 7):
        with pytest.raises(ValueError, match=f"6 rows have no {count} equal parts"):
            equal_parts(data, count)


def test_means_of_losses() -> None:
    found = [TensorDict({"loss": torch.tensor(one), "kl": torch.tensor(2 * one)}) for one in (1.0, 4.0)]
    mean = mean_losses(found)
    assert mean["loss"] == 2.5
    assert mean["kl"] == 5.0


def test_samples_of_several_buffers_are_one() -> None:
    rows = [TensorDict({"a": torch.full((n,), n), "index": torch.arange(n)}, [n]) for n in (2, 3)]
    assert joined(*rows)["a"].tolist() == [2, 2, 3, 3, 3]
    assert "index" not in joined(*rows)
