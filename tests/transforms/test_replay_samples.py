"""`ActionChunkTransform`, `NextStateReconstructor`, `PolicyAgeFilter`: samples of replay buffers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.transforms import (
    ActionChunkTransform,
    Compose,
    NextObservationDelta,
    NextStateReconstructor,
    PolicyAgeFilter,
    TransformedEnv,
)
from tensordict import TensorDict

from tests.transforms.envs import Walk


def chunks_by_hand(action: torch.Tensor, done: torch.Tensor, size: int) -> tuple[list[Any], list[Any]]:
    """Chunks and padding of one sequence of numbers."""
    chunks, pads = [], []
    for start in range(len(action)):
        place, chunk, pad = start, [], []
        over = False
        for _ in range(size):
            chunk.append(action[place].tolist())
            pad.append(over)
            if done[place] or place == len(action) - 1:
                over = True
            else:
                place += 1
        chunks.append(chunk)
        pads.append(pad)
    return chunks, pads


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("size", [1, 3, 20])
def test_chunks(batch: tuple[int, ...], size: int) -> None:
    torch.manual_seed(0)
    action = torch.rand(*batch, 12, 2)
    done = torch.rand(*batch, 12, 1) < 0.25
    data = TensorDict(action=action, next=TensorDict(done=done), batch_size=batch)
    out = ActionChunkTransform(size)(data)
    assert out["vla_action", "chunk"].shape == (*batch, 12, size, 2)
    rows = zip(action.reshape(-1, 12, 2), done.reshape(-1, 12), strict=True)
    expected = [chunks_by_hand(*row, size) for row in rows]
    assert out["vla_action", "chunk"].reshape(-1, 12, size, 2).tolist() == [chunks for chunks, _ in expected]
    assert out["action_is_pad"].reshape(-1, 12, size).tolist() == [pads for _, pads in expected]


def test_chunks_without_ends() -> None:
    data = TensorDict(action=torch.arange(4.0).unsqueeze(-1), batch_size=[4])
    out = ActionChunkTransform(3, chunk_key="c", pad_key="p")(data)
    assert out["c"][..., 0].tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 3], [3, 3, 3]]
    assert out["p"].sum(-1).tolist() == [0, 0, 1, 2]
    data["next", "done"] = torch.tensor([False, True, False, False])
    ignored = ActionChunkTransform(3, done_key=None)(data.copy())
    assert ignored["action_is_pad"].sum(-1).tolist() == [0, 0, 1, 2]
    assert ActionChunkTransform(3)(data)["action_is_pad"].sum(-1).tolist() == [1, 2, 1, 2]


def test_chunk_errors_and_environments() -> None:
    with pytest.raises(ValueError, match="chunk_size is at least 1"):
        ActionChunkTransform(0)
    with pytest.raises(ValueError, match=r"needs actions \[\*batch, time, size\], got \[3\]"):
        ActionChunkTransform(2)(TensorDict(action=torch.zeros(3)))
    with pytest.raises(KeyError, match="reads 'action'"):
        ActionChunkTransform(2)(TensorDict())
    with pytest.raises(ValueError, match=r"is \[5\], and the actions are \[4\] of them"):
        ActionChunkTransform(2)(
            TensorDict(action=torch.zeros(4, 1), next=TensorDict(done=torch.zeros(5).bool()))
        )
    env = TransformedEnv(Walk(2), Compose(ActionChunkTransform(3), PolicyAgeFilter(9, 0)))
    check_env_specs(env)
    assert "action_is_pad" not in env.rollout(2)


@pytest.mark.peers
@pytest.mark.parametrize("ends", [True, False])
def test_chunks_against_torchrl(ends: bool) -> None:
    theirs = pytest.importorskip("torchrl.envs.transforms").ActionChunkTransform(4)
    torch.manual_seed(1)
    data = TensorDict(action=torch.rand(3, 9, 2), batch_size=[3])
    if ends:
        data["next"] = TensorDict(done=torch.rand(3, 9, 1) < 0.3, batch_size=[3])
    expected = theirs(data.clone())
    found = ActionChunkTransform(4)(data.clone())
    for key in (("vla_action", "chunk"), "action_is_pad"):
        assert torch.equal(found[key], expected[key])


def samples() -> TensorDict:
    return TensorDict(
        observation=torch.arange(8.0).unsqueeze(-1),
        count=torch.tensor([0, 1, 2, 5, 0, 1, 2, 3]),
        collector=TensorDict(traj_ids=torch.tensor([0, 0, 0, 0, 1, 1, 1, 1]), batch_size=[8]),
        next=TensorDict(done=torch.tensor([[False]] * 5 + [[True]] + [[False]] * 2), batch_size=[8]),
        batch_size=[8],
    )


def test_next_states() -> None:
    nan = float("nan")
    out = NextStateReconstructor()(samples())
    expected = torch.tensor([1, 2, 3, nan, 5, nan, 7, nan])
    assert torch.equal(out["next", "observation"][:, 0].nan_to_num(-1), expected.nan_to_num(-1))
    counted = NextStateReconstructor(step_count_key="count", fill_value=-1.0)(samples())
    assert counted["next", "observation"][:, 0].tolist() == [1, 2, -1, -1, 5, -1, 7, -1]
    free = NextStateReconstructor(traj_key=None, done_key=None, fill_value=-1.0)(samples())
    assert free["next", "observation"][:, 0].tolist() == [1, 2, 3, 4, 5, 6, 7, -1]
    whole = NextStateReconstructor(["count"], fill_value=-1)(samples())
    assert whole["next", "count"].tolist() == [1, 2, 5, -1, 1, -1, 3, -1]
    nested = samples()
    nested["agents", "x"] = torch.arange(8.0)
    assert NextStateReconstructor([("agents", "x")])(nested)["next", "agents", "x"][0] == 1
    assert NextStateReconstructor()(samples()[:0]).shape == (0,)


def test_next_state_errors() -> None:
    with pytest.raises(ValueError, match=r"a flat batch of samples, got the batch size \[2, 4\]"):
        NextStateReconstructor()(samples().reshape(2, 4))
    with pytest.raises(TypeError, match="'count' is int64, which has no NaN: give a fill_value"):
        NextStateReconstructor(["count"])(samples())
    bare = samples().exclude("collector")
    with pytest.raises(KeyError, match="traj_ids"):
        NextStateReconstructor()(bare)
    loose = NextStateReconstructor(strict=False, fill_value=-1.0)(bare)
    assert loose["next", "observation"][:, 0].tolist() == [1, 2, 3, 4, 5, -1, 7, -1]
    with pytest.raises(RuntimeError, match="works on recorded data"):
        _ = TransformedEnv(Walk(2), NextStateReconstructor()).observation_spec


@pytest.mark.peers
def test_next_states_against_torchrl() -> None:
    theirs = pytest.importorskip("torchrl.envs.transforms.rb_transforms").NextStateReconstructor
    for options in ({}, {"step_count_key": "count"}, {"traj_key": None}, {"fill_value": 3.0}):
        expected, found = theirs(**options)(samples()), NextStateReconstructor(**options)(samples())
        assert torch.equal(
            found["next", "observation"].nan_to_num(-9), expected["next", "observation"].nan_to_num(-9)
        )


def test_old_policies() -> None:
    data = TensorDict(a=torch.arange(4), policy_version=torch.tensor([0, 2, 2, 3]), batch_size=[4])
    newest = [3]
    keep = PolicyAgeFilter(lambda: newest[0], max_policy_lag=1)
    assert keep(data)["a"].tolist() == [1, 2, 3]
    assert keep.inv(data)["a"].tolist() == [1, 2, 3]
    newest[0] = 4
    assert keep(data)["a"].tolist() == [3]
    assert PolicyAgeFilter(9, 0)(data).shape == (0,)
    rows = TensorDict(policy_version=torch.tensor([[5, 1], [5, 5]]), batch_size=[2])
    assert PolicyAgeFilter(5, 1)(rows).shape == (1,)
    assert PolicyAgeFilter(9, 0)(data.select("a")).shape == (4,)
    with pytest.raises(KeyError, match="reads 'policy_version'"):
        PolicyAgeFilter(9, 0, strict=True)(data.select("a"))
    with pytest.raises(ValueError, match="not negative"):
        PolicyAgeFilter(9, -1)


def changing() -> TensorDict:
    torch.manual_seed(0)
    root, following = torch.randn(6, 3) * 100, torch.randn(6, 3)
    return TensorDict(
        observation=root,
        agents=TensorDict(x=root.double(), batch_size=[6]),
        next=TensorDict(
            observation=root + following,
            agents=TensorDict(x=root.double() + following, batch_size=[6]),
            done=torch.zeros(6, 1, dtype=torch.bool),
            batch_size=[6],
        ),
        batch_size=[6],
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_changes(dtype: torch.dtype) -> None:
    peer = pytest.importorskip("torchrl.envs.transforms").NextObservationDelta
    keys = ["observation", ("agents", "x")]
    delta = NextObservationDelta(keys, delta_dtype=dtype)
    whole = changing()
    stored = delta.inv(whole)
    assert (whole == changing()).all()  # what was passed stays
    assert set(stored["next"].keys(True, True)) == {
        "done",
        ("delta", "observation"),
        ("delta", "agents", "x"),
    }
    assert stored["next", "delta", "observation"].dtype == dtype
    expected = peer(keys, delta_dtype=dtype)(stored.clone())
    found = delta(stored.clone())
    assert set(found.keys(True, True)) == set(whole.keys(True, True)) == set(expected.keys(True, True))
    for key in keys:
        place = ("next", *((key,) if isinstance(key, str) else key))
        assert torch.equal(found[place], expected[place])
        assert found[place].dtype == whole[place].dtype
        assert (found[place] - whole[place]).abs().max() < (0.02 if dtype == torch.bfloat16 else 0.002)
    kept = NextObservationDelta(keys, restore_dtype=torch.float64, drop_delta=False)(stored.clone())
    assert kept["next", "observation"].dtype == torch.float64
    assert ("next", "delta", "observation") in kept.keys(True)


def test_changes_of_all_floats() -> None:
    whole = changing()
    whole["count"] = torch.arange(whole.numel()).reshape(whole.batch_size)
    whole["next", "count"] = whole["count"] + 1
    whole["next", "reward"] = torch.rand(whole.batch_size)
    whole["wide"] = torch.rand(whole.batch_size, dtype=torch.bfloat16)
    whole["next", "wide"] = whole["wide"] + 0.5
    delta = NextObservationDelta(excluded_dtypes=(torch.bfloat16,))
    stored = delta.inv(whole)
    assert set(stored["next", "delta"].keys(True, True)) == {"observation", ("agents", "x")}
    assert {"count", "reward", "wide"} <= set(stored["next"].keys())
    named = NextObservationDelta(["observation", ("agents", "x")])
    assert (named.inv(whole) == stored).all()
    assert (delta(stored.clone()) == named(stored.clone())).all()
    assert (delta(whole.clone()) == whole).all()  # nothing is stored as a change
    both = NextObservationDelta().inv(whole)
    assert ("delta", "wide") in both["next"].keys(True)


def test_change_errors() -> None:
    with pytest.raises(TypeError, match=r"delta_dtype is a dtype of floats, got torch\.int8"):
        NextObservationDelta(delta_dtype=torch.int8)
    data = changing()
    data["next", "observation"] = data["next", "observation"] + 1e6
    with pytest.raises(ValueError, match=r"'observation' changes by .* more than float16 holds"):
        NextObservationDelta().inv(data)
    data = samples()
    data["next", "count"] = data["count"]
    with pytest.raises(TypeError, match="'count' is int64; only floats"):
        NextObservationDelta(["count"]).inv(data)
    narrow = TensorDict({"x": torch.zeros(3, 4), "next": {"x": torch.zeros(3, 1)}}, [3])
    with pytest.raises(ValueError, match=r"'x' is \[3, 4\] at the root, and \[3, 1\] under 'next'"):
        NextObservationDelta(["x"]).inv(narrow)
    assert "delta" not in NextObservationDelta().inv(narrow)["next"]
    with pytest.raises(KeyError, match="next"):
        NextObservationDelta(["observation"]).inv(samples())
    with pytest.raises(KeyError, match="which is not in the tensordict"):
        NextObservationDelta().inv(samples().exclude("next"))
    with pytest.raises(RuntimeError, match="NextObservationDelta works on recorded data"):
        TransformedEnv(Walk(), NextObservationDelta(["position"])).reset()
