"""VecNormV2: what it learns and from which rows, copies, state dicts, memory that processes share, data that carry it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.transforms import Compose, TransformedEnv, VecNormV2
from tensordict import TensorDict

from tests.transforms.envs import Team, Walk
from tests.transforms.test_statistics import replay, weighted

KEYS = (["position", "reward"], ["normed", "normed_reward"])


def fitted(**options: Any) -> VecNormV2:
    env = TransformedEnv(replay(3), transform := VecNormV2(*KEYS, **options))
    env.rollout(20, break_when_any_done=False)
    return transform


@pytest.mark.parametrize("decay", [1.0, 0.99, 0.9])
def test_one_row_after_the_other(decay: float) -> None:
    env = replay()
    transformed = TransformedEnv(env, transform := VecNormV2(*KEYS, decay=decay))
    data = transformed.rollout(30, break_when_any_done=False)
    _, mean, spread = weighted(env.seen, decay)
    torch.testing.assert_close(transform.loc["position"], mean.float())
    torch.testing.assert_close(transform.scale["position"], spread.sqrt().float())
    last = (data["next", "position"][-1].double() - mean) / spread.sqrt()
    torch.testing.assert_close(data["next", "normed"][-1], last.float())


@pytest.mark.parametrize("batch", [(3,), (4, 3)])
def test_each_row_counts_what_it_saw(batch: tuple[int, ...]) -> None:
    env = replay(*batch)
    TransformedEnv(env, transform := VecNormV2(*KEYS, decay=1.0)).rollout(30, break_when_any_done=False)
    state = transform.get_extra_state()
    assert state["count.-|-.position"].shape == batch
    assert int(state["count.-|-.position"].sum()) == len(env.seen)
    assert (state["count.-|-.reward"] == 30).all()  # a reset has no reward
    assert transform.loc["position"].shape == (*batch, 2)


def test_a_batch_counts_the_rows_that_are_new() -> None:
    env = replay(4, 3)
    TransformedEnv(env, transform := VecNormV2(*KEYS, decay=1.0, reduce_batch_dims=True)).rollout(
        30, break_when_any_done=False
    )
    seen = torch.stack(env.seen)
    assert transform.get_extra_state()["count.-|-.position"] == len(seen)
    torch.testing.assert_close(transform.loc["position"], seen.double().mean(0).float())
    torch.testing.assert_close(transform.scale["position"], seen.double().std(0, correction=0).float())


def test_rows_that_do_not_step_learn_nothing() -> None:
    env = TransformedEnv(Walk(4), transform := VecNormV2(*KEYS))
    root = env.reset()
    env.step(env.rand_action(root).set("_step", torch.tensor([True, False, True, False])))
    assert transform.get_extra_state()["count.-|-.position"].tolist() == [2, 1, 2, 1]


@pytest.mark.parametrize("options", [{}, {"reduce_batch_dims": True}, {"stateful": False}], ids=str)
@pytest.mark.parametrize("batch", [(), (2,), (4, 3)])
def test_specs(options: dict[str, Any], batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Walk(*batch, bounded=True), VecNormV2(*KEYS, **options))
    check_env_specs(env)
    assert env.reward_keys == ["reward", "normed_reward"]
    in_place = TransformedEnv(Walk(*batch), VecNormV2(["position", "reward"], **options))
    check_env_specs(in_place)
    nested = TransformedEnv(Team(*batch), VecNormV2([("agents", "x"), ("agents", "reward")], **options))
    check_env_specs(nested)


def test_recorded_data_teach_nothing() -> None:
    transform = fitted()
    before = transform.get_extra_state()
    data = replay(3).rollout(8)
    shown = transform(data.copy())
    assert all(torch.equal(value, before[name]) for name, value in transform.get_extra_state().items())
    loc, scale = transform.loc["position"], transform.scale["position"]
    for place, out in (("position", "normed"), (("next", "position"), ("next", "normed"))):
        expected = (data[place] - loc[:, None]) / scale[:, None]
        torch.testing.assert_close(shown[out], expected)
    back = transform.denorm(shown.exclude("position", ("next", "position")))
    torch.testing.assert_close(back["position"], data["position"])
    torch.testing.assert_close(back["next", "reward"], data["next", "reward"])


def test_whole_numbers_become_floats() -> None:
    transform = VecNormV2(["a"], decay=1.0)
    for value in (1, 2, 3):
        shown = transform._step(TensorDict({}, []), TensorDict({"a": torch.tensor([value])}, []))
    torch.testing.assert_close(shown["a"], torch.tensor([1.2247449]))
    assert transform.loc["a"] == 2


def test_copies() -> None:
    transform = fitted()
    before = transform.get_extra_state()
    own, frozen = transform.clone(), transform.frozen_copy()
    unpickled = pickle.loads(pickle.dumps(transform)).clone()
    assert (own.frozen, frozen.frozen) == (False, True)
    for copy in (own, frozen, unpickled):
        TransformedEnv(replay(3), copy).rollout(5)
        changed = copy.get_extra_state()
        assert torch.equal(changed["loc.-|-.position"], before["loc.-|-.position"]) is (copy is frozen)
    assert torch.equal(transform.get_extra_state()["loc.-|-.position"], before["loc.-|-.position"])


@pytest.mark.parametrize("fresh", [True, False])
def test_saved_and_loaded(fresh: bool) -> None:
    env = TransformedEnv(replay(3), transform := VecNormV2(*KEYS))
    env.rollout(5, break_when_any_done=False)
    saved, time = env.state_dict(), env.base_env.time
    expected = env.rollout(5, break_when_any_done=False)
    source = replay(3)
    other = TransformedEnv(source, VecNormV2(*KEYS))
    if not fresh:
        other.rollout(3)
    other.load_state_dict(saved)
    source.time = time
    again = other.rollout(5, break_when_any_done=False)
    assert torch.equal(again["next", "normed"], expected["next", "normed"])
    assert torch.equal(again["next", "normed_reward"], expected["next", "normed_reward"])
    assert bool(transform.initialized)


def test_what_does_not_fit_is_refused() -> None:
    transform = fitted()
    with pytest.raises(RuntimeError, match=r"has 'loc\.-\|-\.position', which is not in what is loaded"):
        transform.load_state_dict(VecNormV2(*KEYS).state_dict())
    with pytest.raises(RuntimeError, match=r"'loc.-\|-.position' of the shape \[3, 2\], where \[2\]"):
        TransformedEnv(replay(), VecNormV2(*KEYS)).load_state_dict(transform.state_dict())
    with pytest.raises(ValueError, match=r"'loc.-\|-.position' of the shape \[3, 2\], .* \[4\] asks for"):
        TransformedEnv(replay(4), transform.clone()).reset()
    with pytest.raises(RuntimeError, match="no statistics of its entries yet"):
        VecNormV2(*KEYS).frozen_copy()
    with pytest.raises(RuntimeError, match="only where stateful is True"):
        VecNormV2(*KEYS, stateful=False, reduce_batch_dims=True)
    with pytest.raises(ValueError, match=r"decay must be <= 1, got 1\.5"):
        VecNormV2(*KEYS, decay=1.5)
    with pytest.raises(TypeError, match="eps must be a real number"):
        VecNormV2(*KEYS, eps="small")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"shared_data has .* but no \('loc', 'position'\)"):
        VecNormV2(*KEYS, shared_data=TensorDict({}, []))
    with pytest.raises(RuntimeError, match=r"'loc\.-\|-\.position', of which it has no entry"):
        VecNormV2(["speed"]).load_state_dict(transform.state_dict())
    with pytest.raises(KeyError, match=r"VecNormV2 reads 'speed', but .* are 'position', 'reward'"):
        TransformedEnv(replay(), VecNormV2(["speed"])).reset()
    with pytest.raises(ValueError, match="needs as many out_keys as in_keys"):
        VecNormV2(["a", "b"], ["c"])
    with pytest.raises(RuntimeError, match="in the data"):
        _ = VecNormV2(*KEYS, stateful=False).loc
    with pytest.raises(NotImplementedError, match="not on recorded data"):
        VecNormV2(*KEYS, stateful=False)(TensorDict({}, []))


@pytest.mark.parametrize("several", [True, False])
def test_as_a_transform_that_stays(several: bool) -> None:
    keys = KEYS if several else (["position"], ["normed"])
    env = TransformedEnv(replay(3), transform := VecNormV2(*keys, decay=0.99))
    env.rollout(20, break_when_any_done=False)
    fixed = transform.to_observation_norm()
    assert isinstance(fixed, Compose) is several
    source = replay(3)
    data = source._step(TensorDict({}, [3]))
    expected = transform.freeze()._step(data, data.copy())
    shown = fixed._call(data.copy())
    for key in keys[1]:
        torch.testing.assert_close(shown[key], expected[key])
    TransformedEnv(replay(3), fixed).rollout(3)


def test_copies_that_share_memory_learn_together() -> None:
    env = TransformedEnv(replay(), transform := VecNormV2(*KEYS, decay=1.0))
    transform.share_memory()
    other = pickle.loads(pickle.dumps(transform))
    env.reset()
    TransformedEnv(replay(), other.clone()).rollout(7)
    assert transform.get_extra_state()["count.-|-.reward"] == 7
    assert torch.equal(transform.loc["position"], other.loc["position"])
    kept = transform.frozen_copy()
    env.rollout(3)
    assert kept.get_extra_state()["count.-|-.reward"] == 7


def test_tensors_of_the_user_are_kept_up() -> None:
    zeros = {"position": torch.zeros(2, dtype=torch.float64), "reward": torch.zeros(1, dtype=torch.float64)}
    counts = dict.fromkeys(zeros, torch.tensor(0))
    shared = TensorDict({"loc": zeros, "var": zeros, "count": counts}, []).clone()
    first, second = (VecNormV2(*KEYS, shared_data=shared, reduce_batch_dims=True) for _ in range(2))
    TransformedEnv(replay(3), first).rollout(4, break_when_any_done=False)
    assert shared["count", "reward"] == 12
    assert torch.equal(second.loc["position"], first.loc["position"])
    assert shared["loc", "position"].abs().sum() > 0
    with pytest.raises(ValueError, match="which others have as well, is one number"):
        TransformedEnv(
            replay(3),
            VecNormV2(
                *KEYS,
                shared_data=TensorDict(
                    {
                        "loc": {"position": torch.zeros(3, 2), "reward": torch.zeros(3, 1)},
                        "var": {"position": torch.zeros(3, 2), "reward": torch.zeros(3, 1)},
                        "count": counts,
                    },
                    [],
                ),
            ),
        ).reset()


def test_statistics_in_the_data_begin_with_each_episode() -> None:
    env = TransformedEnv(
        replay(3),
        Compose(
            VecNormV2(*KEYS, stateful=False, decay=1.0), VecNormV2(["normed"], ["twice"], stateful=False)
        ),
    )
    data = env.rollout(30, break_when_any_done=False)
    count = data["next", "_vecnorm_count", "position"][..., 0]
    root = data["_vecnorm_count", "position"][..., 0]
    assert torch.equal(count, root + 1)
    assert (root[data["next", "done"].squeeze(-1).roll(1, 1)][1:] == 1).all()
    assert "_vecnorm1_loc" in data.keys()  # noqa: SIM118 - a tensordict
    for row in range(3):
        first = int(count[row].diff().lt(0).nonzero()[0]) + 1 if (count[row].diff() < 0).any() else 30
        values = torch.cat([data["position"][row, :1], data["next", "position"][row, :first]])
        torch.testing.assert_close(
            data["next", "_vecnorm_loc", "position"][row, first - 1], values.double().mean(0)
        )
