"""Arguments of constructors: keys of one direction only, lists of transforms, what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.specs import Bounded, Composite, Unbounded
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_std.transforms import (
    ActionScaling,
    CatFrames,
    CatTensors,
    ClipTransform,
    ExcludeTransform,
    InitTracker,
    LineariseRewards,
    ObservationNorm,
    RenameTransform,
    RewardClipping,
    RewardSum,
    SelectTransform,
    SqueezeTransform,
    Stack,
    StepCounter,
    SuccessReward,
    TargetReturn,
    TimeMaxPool,
    UnsqueezeTransform,
)
from tensordict import TensorDict, TensorDictBase

from tests.support import generate, imported
from tests.transforms.envs import Team, Walk


def test_an_empty_tuple_of_keys_is_none() -> None:
    rename = RenameTransform(in_keys=(), out_keys=(), in_keys_inv=("action",), out_keys_inv=("push",))
    env = TransformedEnv(Walk(2), rename)
    assert (rename.in_keys, rename.in_keys_inv, rename.out_keys_inv) == ([], ["action"], ["push"])
    assert env.action_keys == ["push"]
    check_env_specs(env)


@pytest.mark.parametrize("batch", [(), (2,)])
def test_keys_of_the_inverse_alone(batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Walk(*batch), UnsqueezeTransform(-1, in_keys_inv=["action"]))
    assert env.action_spec.shape == (*batch, 3, 1)
    assert env.observation_spec["position"].shape == (*batch, 3)
    check_env_specs(env)


@pytest.mark.parametrize(
    "make", [UnsqueezeTransform, SqueezeTransform, ClipTransform], ids=lambda each: each.__name__
)
def test_some_keys_are_needed(make: type) -> None:
    needs = {"dim": -1} if "queeze" in make.__name__ else {}
    with pytest.raises(TypeError, match=f"{make.__name__} needs `in_keys` or `in_keys_inv`"):
        make(**needs)(TensorDict(a=torch.zeros(3)))


@pytest.mark.parametrize(
    ("make", "low", "high"), [(ClipTransform, "low", "high"), (RewardClipping, "clamp_min", "clamp_max")]
)
def test_limits_without_a_number_between_them(make: Any, low: str, high: str) -> None:
    with pytest.raises(ValueError, match=f"{high} must be >= {low}, got 1.0 and 2.0"):
        make(in_keys=["reward"], **{low: 2.0, high: 1.0})
    for limits in ({low: 1.0, high: 1.0}, {low: 2.0}, {high: -2.0}):
        make(in_keys=["reward"], **limits)


def test_a_list_of_transforms() -> None:
    chain = Compose(transforms=[StepCounter(), RewardSum()])
    assert [type(each) for each in chain] == [StepCounter, RewardSum]
    with pytest.raises(TypeError, match="not both"):
        Compose(StepCounter(), transforms=[RewardSum()])


def test_rewards_that_are_not_selected() -> None:
    env = TransformedEnv(Walk(2), Compose(RewardSum(), SelectTransform("position", keep_rewards=False)))
    check_env_specs(env)
    assert not env.reward_keys
    assert "reward" not in env.rollout(3)["next"]
    kept = TransformedEnv(Walk(2), SelectTransform("position", "reward", keep_rewards=False))
    check_env_specs(kept)
    assert kept.reward_keys == ["reward"]


def test_rewards_of_groups_that_are_not_selected() -> None:
    env = TransformedEnv(Team(2), SelectTransform(("agents", "x"), keep_rewards=False))
    check_env_specs(env)
    assert not env.reward_keys


@pytest.mark.parametrize("weights", [None, [1.0, 1.0, 1.0]])
def test_rewards_of_equal_weight(weights: list[float] | None) -> None:
    rewards = torch.rand(4, 3)
    total = LineariseRewards(["r"], ["reward"], weights)(TensorDict({"r": rewards}, [4]))["reward"]
    assert torch.equal(total, rewards.sum(-1, keepdim=True))


def test_keys_of_outputs_that_users_name() -> None:
    env = TransformedEnv(Team(2), Compose(StepCounter(5, step_count_key="count"), InitTracker("fresh")))
    counter, tracker = env.transform
    assert counter.step_count_keys == ["count"]
    assert counter.truncated_keys == ["truncated"]
    assert tracker.init_keys == ["fresh"]
    assert TransformedEnv(Team(2), StepCounter()).transform.truncated_keys == []


@pytest.mark.parametrize("batch", [(), (3,)])
def test_moments_outside_of_environments(batch: tuple[int, ...]) -> None:
    flags = {"done": torch.zeros(*batch, 1, dtype=torch.bool)}
    root = TensorDict(flags, batch)
    counter = Compose(StepCounter(2))
    root = counter._reset(root, root.copy())
    for moment in (1, 2):
        root = counter._step(root, TensorDict(flags, batch))
        assert torch.equal(root["step_count"], torch.full((*batch, 1), moment))
        assert bool(root["truncated"].all()) is (moment == 2)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_calls_outside_of_environments_follow_each_other(batch: tuple[int, ...]) -> None:
    """Moments are given one by one; the first begins an episode, and so does each `_reset`."""
    values = -torch.rand(6, *batch, 2)
    expected = [torch.cat([values[max(0, i - k)] for k in (2, 1, 0)], -1) for i in range(6)]
    frames, largest = CatFrames(3, -1, [("of", "x")]), TimeMaxPool(["y"], T=3)
    chain = Compose(frames, largest)

    def moment(i: int) -> TensorDict:
        return TensorDict({("of", "x"): values[i], "y": values[i]}, batch)

    for _ in range(2):
        chain._reset(moment(0), shown := moment(0))
        assert torch.equal(shown["of", "x"], expected[0])
        for i in range(1, 6):
            shown = chain._call(moment(i))
            assert torch.equal(shown["of", "x"], expected[i])
            assert torch.equal(shown["y"], values[max(0, i - 2) : i + 1].amax(0))
    fresh = chain.clone()
    assert torch.equal(fresh._call(moment(0))["of", "x"], expected[0])
    assert torch.equal(frames._call(moment(0))["of", "x"][..., :4], expected[5][..., 2:])
    with pytest.raises(
        ValueError, match=r"the batch size \[7\] behind a moment of .*; `_reset` begins another"
    ):
        largest._call(TensorDict({"y": torch.zeros(7, 2)}, [7]))


@pytest.mark.peers
def test_calls_outside_of_environments_agree_with_torchrl() -> None:
    """Where values before the first one are zeros."""
    theirs = pytest.importorskip("torchrl.envs.transforms")
    ours = CatFrames(3, -2, ["x"], padding="constant")
    peer = theirs.CatFrames(3, -2, ["x"], padding="constant")
    for value in torch.randn(5, 4, 2, 3):
        data = TensorDict({"x": value}, [4])
        assert torch.equal(ours._call(data.clone())["x"], peer._call(data.clone())["x"])


@pytest.mark.parametrize(
    ("make", "keywords"),
    [
        (TargetReturn, {"target_return": 1.0}),
        (RewardSum, {}),
        (CatFrames, {"N": 2, "dim": -1, "in_keys": ["position"], "out_keys": ["frames"]}),
        (TimeMaxPool, {"in_keys": ["position"], "out_keys": ["pooled"]}),
    ],
)
def test_masks_are_compared_with_the_environment(make: type, keywords: dict[str, Any]) -> None:
    name = "reset_keys" if make is RewardSum else "reset_key"
    check_env_specs(TransformedEnv(Walk(2), make(**keywords, **{name: "_reset"})))
    check_env_specs(TransformedEnv(Walk(2), make(**keywords, **{name: ["_reset"]})))
    wrong = TransformedEnv(Walk(2), make(**keywords, **{name: ("agents", "_reset")}))
    with pytest.raises(ValueError, match=rf"{name} has \('agents', '_reset'\), .* those are '?_reset"):
        _ = wrong.observation_spec


def test_done_flags_stay() -> None:
    with pytest.raises(ValueError, match="can't drop 'done', 'terminated'"):
        TransformedEnv(Walk(2), SelectTransform("position", keep_dones=False)).rollout(2)
    with pytest.raises(ValueError, match="can't drop 'done'"):
        TransformedEnv(Walk(2), ExcludeTransform("done")).rollout(2)
    with pytest.raises(ValueError, match="can't drop 'done'"):
        TransformedEnv(Walk(2), RenameTransform(["done"], [("agents", "done")])).rollout(2)
    copied = TransformedEnv(Walk(2), RenameTransform(["done"], [("agents", "over")], create_copy=True))
    assert ("agents", "over") in copied.observation_keys
    assert ("agents", "over") not in copied.done_keys


def test_the_way_back_leaves_what_the_policy_wrote() -> None:
    outer = TensorDict({"b": torch.ones(2, 3)}, [2])
    for create_copy in (True, False):
        rename = RenameTransform(["a"], ["b"], ["a"], ["b"], create_copy=create_copy)
        assert set(rename.inv(outer).keys()) == {"a", "b"}
        assert set(rename(rename.inv(outer)).keys()) == ({"a", "b"} if create_copy else {"b"})
    stack = Stack(["x", "y", "z"], "b", in_key_inv="b", out_keys_inv=["x", "y", "z"], dim=-1)
    assert set(stack.inv(outer).keys()) == {"b", "x", "y", "z"}


@pytest.mark.parametrize("given", [{"loc": 0.5}, {"scale": 2.0}])
def test_numbers_that_are_given_together(given: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"is given together with (loc|scale), which is missing"):
        ActionScaling(**given)


@pytest.mark.parametrize(
    ("transform", "key", "shape"),
    [
        (CatTensors(["x", "y"], "xy"), "xy", (3, 6)),
        (UnsqueezeTransform(-1, ["x"], ["column"]), "column", (3, 4, 1)),
        (SuccessReward("over"), "x", (3, 4)),
    ],
)
def test_a_reset_outside_of_environments_maps_what_is_fresh(
    transform: Transform, key: str, shape: tuple[int, ...]
) -> None:
    fresh = TensorDict({"x": torch.ones(3, 4), "y": torch.zeros(3, 2), "over": torch.ones(3, 1).bool()}, [3])
    made = transform._reset(TensorDict(batch_size=[3]), fresh)
    assert made[key].shape == shape
    assert "reward" not in made


def test_specs_of_what_a_map_does_not_read_stay() -> None:
    norm = ObservationNorm(1.0, 2.0, in_keys=["x", "y"])
    specs = Composite(x=Bounded(-1.0, 1.0, (4,)), z=Unbounded((2,)))
    changed = norm.transform_observation_spec(specs.clone())
    assert changed["x"] == Bounded(-1.0, 3.0, (4,))
    assert changed["z"] == specs["z"]
    assert {*changed.keys()} == {"x", "z"}
    flags = Composite(done=Unbounded((1,), dtype=torch.bool))
    assert norm.transform_done_spec(flags.clone()) == flags


class Zeroless(Transform):
    """Says what its environment's transition of zeros is to hold."""

    def transform_fake_tensordict(self, fake_tensordict: TensorDictBase) -> TensorDictBase:
        return fake_tensordict.set("position", fake_tensordict["position"] + 1)


def test_the_transition_of_zeros_passes_through_transforms() -> None:
    env = TransformedEnv(Walk(2), Compose(Zeroless(), StepCounter(), Compose(Zeroless())))
    fake = env.fake_tensordict()
    assert torch.equal(fake["position"], torch.full((2, 3), 2.0))
    assert not fake["next", "position"].any()
    assert fake["step_count"].shape == (2, 1)


def test_the_docstring_of_roles_that_share_their_keyword(tmp_path: Path) -> None:
    text = """\
specgen: 1
transforms:
  Above:
    in: {ys: {all: [a, b], type: "float32[n]"}, x: {each: [observation], type: "float32[n]"}}
    out: {y: {each: x, name: same, type: "float32[n]"}}
    map: {y: x - max(*ys)}
"""
    with imported(generate({"above.yaml": text}, "above_package"), "above_package", tmp_path) as package:
        said = " ".join(package.Above.__init__.__doc__.split())
    assert "each as `ys` and as `x` (default: `a` and `b` for `ys`; `observation` for `x`)" in said
    assert "out_keys: the keys of `y`, one for each key of `x` (default: that of `x`)" in said
