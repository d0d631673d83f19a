"""Batches behind Gymnasium's interface: what `SyncVectorEnv` makes of the same environments one by one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.envs import EnvBase, GymEnv
from specgen_runtime.envs.batched import SerialEnv
from specgen_runtime.interop import to_gymnasium
from specgen_runtime.specs import Bounded, Composite, NonTensor
from specgen_runtime.transforms import TransformedEnv
from specgen_std.chains.cartpole import CartPoleTrain
from specgen_std.envs.cartpole import CartPole
from specgen_std.envs.pendulum import Pendulum
from specgen_std.transforms import StepCounter
from tensordict import NonTensorStack, TensorDict

from tests.interop.envs import Levers, Walk

gymnasium = pytest.importorskip("gymnasium", reason="the extra `gym`")
vector = pytest.importorskip("gymnasium.vector", reason="the extra `gym`")
SAME_STEP, DISABLED = vector.AutoresetMode.SAME_STEP, vector.AutoresetMode.DISABLED

N = 4


def sync(make: Callable[[], EnvBase[Any]], mode: Any = SAME_STEP, **kwargs: Any) -> Any:
    return vector.SyncVectorEnv([lambda: to_gymnasium(make(), **kwargs)] * N, autoreset_mode=mode)


def assert_equal(found: Any, expected: Any) -> None:
    """The same structure, shapes, dtypes and numbers."""
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_equal(found[key], expected[key])
    elif isinstance(expected, tuple | list):
        for pair in zip(found, expected, strict=True):
            assert_equal(*pair)
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        if expected.dtype == object:
            assert_equal(list(found), list(expected))
        else:
            assert np.array_equal(found, expected)
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("masked", "keys"),
    [(False, None), (True, None), (False, ["observation", "time"]), (False, "time")],
    ids=["plain", "masked", "several keys", "one key"],
)
def test_same_step(masked: bool, keys: Any) -> None:
    """Spaces, observations, rewards, ends, infos: all as from single environments of the same seeds."""
    expected = sync(partial(Walk, masked=masked), observation_keys=keys)
    found = to_gymnasium(Walk(N, masked=masked), observation_keys=keys)
    assert isinstance(found, vector.VectorEnv)
    assert found.metadata["autoreset_mode"] is SAME_STEP
    assert found.num_envs == expected.num_envs
    for name in ("single_observation_space", "single_action_space", "observation_space", "action_space"):
        assert getattr(found, name) == getattr(expected, name)
    assert_equal(found.reset(seed=7), expected.reset(seed=7))
    found.action_space.seed(0)
    ended = cut = 0
    for _ in range(40):
        actions = found.action_space.sample()
        results = found.step(actions), expected.step(actions)
        assert_equal(*results)
        ended += results[0][2].sum()
        cut += results[0][3].sum()
    assert ended
    assert cut
    assert_equal(found.reset(), expected.reset())
    assert_equal(found.reset(seed=[3, 4, 5, 6]), expected.reset(seed=[3, 4, 5, 6]))


def test_disabled() -> None:
    expected, found = sync(Walk, DISABLED), to_gymnasium(Walk(N), autoreset_mode=DISABLED)
    assert found.metadata["autoreset_mode"] is DISABLED
    assert_equal(found.reset(seed=7), expected.reset(seed=7))
    found.action_space.seed(0)
    resets = 0
    for _ in range(40):
        actions = found.action_space.sample()
        results = found.step(actions), expected.step(actions)
        assert_equal(*results)
        done = results[0][2] | results[0][3]
        if done.any():
            resets += not done.all()
            again = [env.reset(options={"reset_mask": done.copy()}) for env in (found, expected)]
            assert_equal(*again)
    assert resets


def test_disabled_by_its_value() -> None:
    assert to_gymnasium(Walk(N), autoreset_mode="Disabled").metadata["autoreset_mode"] is DISABLED


def test_what_is_done_has_to_be_reset() -> None:
    env = to_gymnasium(Walk(2, limit=2), autoreset_mode=DISABLED)
    env.reset(seed=0)
    env.step(np.ones(2, np.int64))
    assert env.step(np.ones(2, np.int64))[3].all()
    env.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(RuntimeError, match=r"environments \[1\] are done"):
        env.step(np.ones(2, np.int64))


def test_partial_resets_with_seeds_and_options() -> None:
    env = to_gymnasium(Walk(2))
    before, _ = env.reset(seed=0)
    after, _ = env.reset(options={"reset_mask": np.array([False, True]), "shift": 5.0})
    assert np.array_equal(after[0], before[0])
    assert (after[1] >= 5).all()


@pytest.mark.parametrize(
    ("mask", "error", "says"),
    [
        ([True, False], TypeError, "must be a bool array, found list"),
        (np.ones(2), TypeError, "found float64"),
        (np.ones(3, bool), ValueError, r"must have shape \(2,\)"),
        (np.zeros(2, bool), ValueError, "with 0 selected"),
    ],
    ids=["list", "dtype", "shape", "nothing"],
)
def test_masks_that_are_none_are_refused(mask: Any, error: type[Exception], says: str) -> None:
    env = to_gymnasium(Walk(2))
    env.reset()
    with pytest.raises(error, match=says):
        env.reset(options={"reset_mask": mask})


def test_options_are_left_alone() -> None:
    env = to_gymnasium(Walk(2))
    env.reset()
    options = {"reset_mask": np.array([True, False])}
    env.reset(options=options)
    assert list(options) == ["reset_mask"]


def test_seeds() -> None:
    env = to_gymnasium(CartPole(batch_size=(3,)))
    first, second = env.reset(seed=1)[0], env.reset()[0]
    assert np.array_equal(env.reset(seed=[1, 2, 3])[0], first)
    assert np.array_equal(env.reset(seed=[None] * 3)[0], second)
    assert len(np.unique(first[:, 0])) == 3
    with pytest.raises(ValueError, match="successive seeds"):
        env.reset(seed=[1, 1, 1])
    with pytest.raises(ValueError, match="expected 3 seeds"):
        env.reset(seed=[1, 2])


def test_one_seed_for_all() -> None:
    env = to_gymnasium(SerialEnv(3, partial(GymEnv, "CartPole-v1")))
    seen = env.reset(seed=[4, 4, 4])[0]
    assert np.array_equal(seen, np.repeat(seen[:1], 3, 0))
    assert len(np.unique(env.reset(seed=[4, 5, 6])[0][:, 0])) == 3
    with pytest.raises(ValueError, match="successive seeds"):
        env.reset(seed=[4, 4, 5])


def test_a_wrong_mask_leaves_the_seed_alone() -> None:
    env = to_gymnasium(CartPole(batch_size=(2,)))
    env.reset(seed=0)
    expected = env.reset()[0]
    env.reset(seed=0)
    with pytest.raises(TypeError, match="bool array"):
        env.reset(seed=5, options={"reset_mask": [True, False]})
    assert np.array_equal(env.reset()[0], expected)


@pytest.mark.parametrize("make", [CartPole, Pendulum, CartPoleTrain], ids=lambda make: make.__name__)
def test_native_batches_are_their_rollouts(make: Any) -> None:
    """The numbers are those of `step_and_maybe_reset` on the batch."""
    mine, env = make(batch_size=(5,)), to_gymnasium(make(batch_size=(5,)))
    mine.set_seed(0)
    root, (seen, _) = mine.reset(), env.reset(seed=0)
    ends = 0
    for _ in range(60):
        assert np.array_equal(seen, root["observation"].numpy())
        torch.manual_seed(0)
        action = mine.action_spec.rand()
        now, root = mine.step_and_maybe_reset(root.set("action", action))
        seen, reward, terminated, truncated, infos = env.step(action.numpy())
        following = now["next"]
        assert reward.dtype == np.float64
        assert np.array_equal(reward, following["reward"].flatten().numpy())
        assert np.array_equal(terminated, following["terminated"].flatten().numpy())
        assert np.array_equal(truncated, following["truncated"].flatten().numpy())
        for row in np.flatnonzero(terminated | truncated):
            ends += 1
            assert np.array_equal(infos["final_obs"][row], following["observation"][row].numpy())
            assert infos["_final_obs"][row]
    assert ends or make is Pendulum


def test_against_gymnasium() -> None:
    """A batch of Gymnasium's own environments is what Gymnasium makes of them, for the same seeds and actions."""
    ids = [partial(gymnasium.make, "CartPole-v1")] * 3
    expected = vector.SyncVectorEnv(ids, autoreset_mode=SAME_STEP)
    found = to_gymnasium(SerialEnv(3, partial(GymEnv, "CartPole-v1")))
    assert_equal(found.reset(seed=[5, 6, 7]), expected.reset(seed=[5, 6, 7]))
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(60):
        actions = rng.integers(2, size=3)
        results = found.step(actions), expected.step(actions)
        assert_equal(*results)
        ends += results[0][2].sum()
    assert ends
    found.close()


def test_several_actions() -> None:
    env = to_gymnasium(BatchOfLevers(3))
    single = to_gymnasium(Levers())
    assert env.single_action_space == single.action_space
    env.reset()
    env.action_space.seed(0)
    for _ in range(4):
        env.step(env.action_space.sample())


def test_actions_that_are_no_arrays_are_refused() -> None:
    class Handed(Mixed):
        def __init__(self) -> None:
            super().__init__(2)
            self.action_spec = self.full_observation_spec["hand"].clone()

    with pytest.raises(NotImplementedError, match="have to be arrays"):
        to_gymnasium(Handed())


class BatchOfLevers(Levers):
    """`Levers` in a batch."""

    def __init__(self, n: int) -> None:
        super().__init__()
        action, observation, done = self.full_action_spec, self.full_observation_spec, self.full_done_spec
        state = self.full_state_spec
        self._groups.clear()
        self._batch_size = torch.Size((n,))
        self.empty_cache()
        self.action_spec_unbatched, self.observation_spec_unbatched = action, observation
        self.done_spec_unbatched, self.state_spec_unbatched = done, state


class Mixed(EnvBase[Any]):
    """Observes a text, and rows with bounds of their own."""

    def __init__(self, *batch: int) -> None:
        super().__init__(batch_size=batch)
        self.action_spec_unbatched = Bounded(-1.0, 1.0, (1,))
        self.observation_spec_unbatched = Composite(
            text=NonTensor((), example_data="a"), hand=torch.stack([Bounded(0, 1, (2,)), Bounded(0, 2, (2,))])
        )

    def observe(self) -> TensorDict:
        rows = self.batch_size.numel()
        texts: Any = NonTensorStack(*(f"row {row}" for row in range(rows))) if self.batch_size else "row 0"
        return TensorDict({"text": texts, "hand": self.full_observation_spec["hand"].rand()}, self.batch_size)

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        return self.observe()

    def _step(self, tensordict: Any) -> TensorDict:
        return self.observe().set("reward", torch.zeros(*self.batch_size, 1))

    def _set_seed(self, seed: int | None) -> None:
        pass


def test_what_gymnasium_does_not_keep_in_arrays() -> None:
    env = to_gymnasium(Mixed(2), observation_keys="text")
    assert env.reset()[0] == ("row 0", "row 1")
    assert env.step(np.zeros((2, 1), np.float32))[0] == ("row 0", "row 1")
    env = to_gymnasium(Mixed(3))
    seen, _ = env.reset()
    assert seen in env.observation_space
    assert len(seen["hand"]) == 2
    assert seen["hand"][1].shape == (3, 2)


@pytest.mark.parametrize("actions", [np.zeros(3, int), np.full(2, 5), np.zeros((2, 2), int)], ids=str)
def test_actions_that_are_none_are_refused(actions: Any) -> None:
    env = to_gymnasium(Walk(2))
    env.reset()
    with pytest.raises(ValueError, match="the action must be of "):
        env.step(actions)


def test_a_step_needs_a_reset() -> None:
    with pytest.raises(gymnasium.error.ResetNeeded):
        to_gymnasium(Walk(2)).step(np.zeros(2, int))


def test_results_are_the_callers() -> None:
    env = to_gymnasium(Walk(2))
    seen, _ = env.reset(seed=0)
    kept = seen.copy()
    results = env.step(np.zeros(2, int))
    for array in (seen, *results[:4]):
        array[...] = 1
    assert not np.array_equal(env.step(np.ones(2, int))[0], seen)
    assert not np.array_equal(kept, seen)


def test_next_step_is_refused() -> None:
    with pytest.raises(ValueError, match="NextStep is not supported"):
        to_gymnasium(Walk(2), autoreset_mode="NextStep")
    with pytest.raises(ValueError, match="Sometimes"):
        to_gymnasium(Walk(2), autoreset_mode="Sometimes")


def test_environments_that_differ_are_refused() -> None:
    class Different(Walk):
        def __init__(self) -> None:
            super().__init__(2)
            wide = torch.tensor([[50.0, 50.0], [60.0, 60.0]])
            observed = self.observation_spec.clone()
            observed["observation"] = Bounded(-wide, wide)
            self.observation_spec = observed

    with pytest.raises(ValueError, match="differs from one to the next"):
        to_gymnasium(Different())


def test_wrappers_of_gymnasium() -> None:
    base = TransformedEnv(CartPole(batch_size=(3,)), StepCounter(max_steps=6))
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(to_gymnasium(base))
    env.reset(seed=0)
    lengths = []
    for _ in range(20):
        *_, infos = env.step(env.action_space.sample())
        if "episode" in infos:
            lengths += infos["episode"]["l"][infos["_episode"]].tolist()
    assert lengths
    assert max(lengths) == 6


def test_closing_and_rendering() -> None:
    env = to_gymnasium(Walk(2))
    with pytest.raises(NotImplementedError):
        env.render()
    env.close()
    assert env.closed
    assert env.wrapped.is_closed
    env.close()


def test_wrappers_that_change_observations() -> None:
    """They take no `SAME_STEP` vectors."""
    env = gymnasium.wrappers.vector.FlattenObservation(
        to_gymnasium(CartPole(batch_size=(3,)), observation_keys=["x", "theta"], autoreset_mode="Disabled")
    )
    env.reset(seed=0)
    env.action_space.seed(0)  # unseeded, a row may well balance for 60 steps
    ended = np.zeros(3, dtype=np.bool_)
    for _ in range(60):
        observed, _, terminated, truncated, _ = env.step(env.action_space.sample())
        assert observed.shape == (3, 2)
        if (terminated | truncated).any():
            ended |= terminated
            env.reset(options={"reset_mask": terminated | truncated})
    assert ended.all()
