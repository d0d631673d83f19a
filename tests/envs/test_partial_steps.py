"""`_step` masks: which environments of a batch take a step; the others stay where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, GymEnv, NotFiniteError
from specgen_runtime.specs import Bounded, Composite, Unbounded
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms import Transform, TransformedEnv
from specgen_std.envs.cartpole import CartPole
from specgen_std.transforms import StepCounter
from tensordict import TensorDict

from tests.envs.counting import Counting, Stateful
from tests.envs.partial_steps import BATCHES, SOME, started, transformed


def check_partial(env: EnvBase, root: Any, whole: Any, mask: torch.Tensor) -> Any:
    """A partial step from `root`: rows inside are those of `whole`, a full one; rows outside stay."""
    given = root.clone().set("_step", mask)
    after = env.step(given)
    assert after is given
    assert "_step" not in after.keys()  # noqa: SIM118
    kept = [*env.observation_keys, *env.done_keys]
    assert set(after["next"].keys(True, True)) == set(whole["next"].keys(True, True))
    rows = mask.reshape(root.batch_size)
    for key in after["next"].keys(True, True):
        found = after["next", key] if isinstance(key, str) else after[("next", *key)]
        full = whole["next", key] if isinstance(key, str) else whole[("next", *key)]
        assert torch.equal(found[rows], full[rows]), key
        expected = root[key] if key in kept else torch.zeros_like(full)
        assert torch.equal(found[~rows], expected[~rows]), key
    return after


@pytest.mark.parametrize("make", BATCHES)
def test_rows_outside_stay(make: Callable[[], EnvBase]) -> None:
    env, other = make(), make()
    for one in (env, other):
        one.set_seed(0)
        torch.manual_seed(0)
        root = one.step_mdp(one.step(started(one)))
    root = env.rand_action(root)
    whole = other.step(root.clone())
    after = check_partial(env, root, whole, SOME)
    following = env.step_mdp(after)
    assert "_step" not in following.keys()  # noqa: SIM118
    # and again: those that stayed are where they were
    torch.manual_seed(1)
    again = env.step(env.rand_action(following).set("_step", ~SOME))
    torch.manual_seed(1)
    stays = env.rand_action(following)
    for key in env.observation_keys:
        name = key if isinstance(key, tuple) else (key,)
        assert torch.equal(again[("next", *name)][SOME], stays[key][SOME]), key
    if "step_count" in env.observation_keys:
        assert again["next", "step_count"].flatten().tolist() == [2, 2, 2]


@pytest.mark.parametrize("make", [*BATCHES, Stateful])
def test_all_or_nothing(make: Callable[[], EnvBase]) -> None:
    env, other = make(), make()
    for one in (env, other):
        one.set_seed(0)
        torch.manual_seed(0)
        root = started(one)
    everything = env.step(root.clone().set("_step", torch.ones(3, 1, dtype=torch.bool)))
    assert_identical(everything, other.step(root.clone()), "a mask of all")
    root = env.rand_action(env.step_mdp(everything))
    nothing = env.step(root.set("_step", torch.zeros(3, dtype=torch.bool)))
    for key in [*env.observation_keys, *env.done_keys]:
        name = key if isinstance(key, tuple) else (key,)
        assert torch.equal(nothing[("next", *name)], nothing[key]), key
        assert nothing[("next", *name)] is not nothing[key]
    for key in env.reward_keys:
        assert not nothing[("next", *(key if isinstance(key, tuple) else (key,)))].any()


def test_single_environments() -> None:
    for env in (Counting(), GymEnv("CartPole-v1"), CartPole(), transformed(GymEnv("CartPole-v1"))):
        root = started(env, mask=False)
        after = env.step(root.clone())
        key = env.observation_keys[0]
        assert torch.equal(after["next", key], root[key])  # type: ignore[index]
        assert after["next", "reward"] == 0
        assert "_step" not in after.keys()  # noqa: SIM118
        after, following = env.step_and_maybe_reset(env.rand_action(env.step_mdp(after)).set("_step", [True]))
        assert not torch.equal(after["next", key], root[key])  # type: ignore[index]
        assert "_step" not in following.keys()  # noqa: SIM118


class TestWrongMasks:
    @pytest.mark.parametrize("make", [Counting, CartPole, lambda **kw: transformed(CartPole(**kw))])
    def test_shapes_and_dtypes(self, make: Any) -> None:
        env = make(batch_size=(3,))
        for mask, error, found in (
            (torch.ones(3), TypeError, r"found torch.float32 \[3\]"),
            (torch.ones(3, dtype=torch.int64), TypeError, r"found torch.int64 \[3\]"),
            (torch.ones(3, 2, dtype=torch.bool), RuntimeError, r"found torch.bool \[3, 2\]"),
        ):
            root = started(env).set("_step", mask)
            with pytest.raises(error, match=rf"'_step' must be torch.bool \[3\], one for each.*{found}"):
                env.step(root)
            assert "_step" in root.keys()  # noqa: SIM118 # an error changes nothing
        single = make()
        with pytest.raises(RuntimeError, match=r"'_step' must be torch.bool \[\], .* found torch.bool \[3\]"):
            single.step(started(single).set("_step", SOME))
        with pytest.raises(RuntimeError, match="one for each environment, found NonTensor"):
            single.step(started(single).set_non_tensor("_step", "yes"))

    def test_state_elsewhere(self) -> None:
        env = Stateful()
        with pytest.raises(NotImplementedError, match=r"\[1\], but the state is not in the tensordict"):
            env.step(started(env, SOME))
        assert not env.count.any()
        assert transformed(Stateful())._steps_rows() is False  # whatever the transforms carry

    def test_what_stays_must_be_there(self) -> None:
        env = Counting(batch_size=(3,))
        root = started(env, SOME)
        del root["observation"]
        with pytest.raises(KeyError, match="no 'observation'"):
            env.step(root)


def test_presets_are_of_steps_only() -> None:
    env = Counting(batch_size=(3,))
    root = started(env, SOME)
    root["next"] = TensorDict({"reward": torch.full((3, 1), 7.0)}, (3,))
    assert env.step(root)["next", "reward"].flatten().tolist() == [7.0, 0.0, 7.0]


def test_a_reward_at_the_root_is_not_earned_again() -> None:
    env = Counting(batch_size=(3,))
    for mask in (SOME, torch.zeros(3, dtype=torch.bool)):
        root = started(env, mask).set("reward", torch.full((3, 1), 7.0))
        assert env.step(root)["next", "reward"][1] == 0


def test_entries_that_no_spec_names() -> None:
    class Talkative(Counting):
        def _step(self, tensordict: Any) -> TensorDict:
            return super()._step(tensordict).set("extra", torch.ones(3, 2))

    env = Talkative(batch_size=(3,))
    after = env.step(started(env, SOME))
    assert after["next", "extra"].tolist() == [[1, 1], [0, 0], [1, 1]]
    root = env.rand_action(env.step_mdp(after).set("extra", torch.full((3, 2), 5.0)))
    assert env.step(root.set("_step", SOME))["next", "extra"][1].tolist() == [5, 5]


def test_only_what_steps_must_be_finite() -> None:
    env = Counting(batch_size=(3,))
    env.check_finite = True
    root = started(env, SOME)
    root["action"][1] = float("nan")
    env.step(root)
    with pytest.raises(NotFiniteError):
        env.step(env.step_mdp(root))


class Anywhere(EnvBase):
    """Takes any batch size; counts how many rows it has stepped."""

    def __init__(self) -> None:
        super().__init__(batch_locked=False)
        self.rows = 0
        self.action_spec = Bounded(-1.0, 1.0, shape=(1,))
        self.full_observation_spec = Composite(x=Unbounded((1,)), deep=Composite(y=Unbounded((2,))))

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        size = () if tensordict is None else tensordict.batch_size
        return TensorDict({"x": torch.zeros(*size, 1), "deep": {"y": torch.zeros(*size, 2)}}, size)

    def _step(self, tensordict: Any) -> TensorDict:
        self.rows += tensordict.numel()
        x = tensordict["x"] + 1
        return TensorDict(
            {"x": x, "deep": {"y": tensordict["deep", "y"] + 2}, "reward": x, "extra": x.clone()},
            tensordict.batch_size,
        )

    def _set_seed(self, seed: int | None) -> None:
        pass


def test_any_batch_size() -> None:
    env = Anywhere()
    mask = torch.tensor([[True, False], [False, True], [True, True]])
    root = env.rand_action(env.reset(TensorDict({}, (3, 2))))
    after = env.step(root.set("_step", mask))
    assert after is root
    assert env.rows == 4
    for key in ("x", "reward", "extra"):
        assert torch.equal(after["next", key].squeeze(-1), mask.float()), key
    assert torch.equal(after["next", "deep", "y"][..., 0], 2.0 * mask)


class Skipping(Transform):
    """Leaves out what is at an odd count, as a transform of the way in."""

    def __init__(self) -> None:
        super().__init__(in_keys_inv=["action"], out_keys_inv=["action"])

    def _inv_call(self, tensordict: Any) -> Any:
        odd = tensordict["outer"].squeeze(-1) % 2 == 1
        return tensordict.set("_step", tensordict.get("_step", torch.tensor(True)) & ~odd)


@pytest.mark.parametrize("size", [(), (3,)])
def test_transforms_can_ask_for_them(size: tuple[int, ...]) -> None:
    inner = TransformedEnv(Counting(batch_size=size, limit=50), StepCounter(step_count_key="inner"))
    middle = TransformedEnv(inner, Skipping(), auto_unwrap=False)
    middle.append_transform(StepCounter(step_count_key="middle"))
    env = TransformedEnv(middle, StepCounter(step_count_key="outer"), auto_unwrap=False)
    data = env.rollout(6)
    for key, counts in (
        ("count", [1, 1, 2, 2, 3, 3]),
        ("inner", [1, 1, 2, 2, 3, 3]),
        ("middle", [1, 1, 2, 2, 3, 3]),
        ("outer", [1, 2, 3, 4, 5, 6]),
    ):
        found = data["next", key].squeeze(-1)
        assert (found == torch.tensor(counts)).all(), (key, found)
    assert (data["next", "reward"].squeeze(-1)[..., 1::2] == 0).all()
