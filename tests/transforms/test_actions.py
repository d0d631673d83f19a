"""Transforms of actions: their specs, what reaches the environment, what they refuse, and where TorchRL is wrong."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.envs import EnvBase, check_env_specs
from specgen_runtime.specs import (
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    TensorSpec,
    Unbounded,
)
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.envs import SimpleTag
from specgen_std.transforms import (
    ActionDiscretizer,
    ActionScaling,
    ClipTransform,
    DiscreteActionProjection,
    FlattenAction,
    PermuteTransform,
    RenameTransform,
    SignTransform,
    UnsqueezeTransform,
)
from tensordict import TensorDict, TensorDictBase

torchrl_transforms = pytest.importorskip("torchrl.envs.transforms")


class Echo(EnvBase[Any]):
    """Returns the actions that it is given as observations."""

    def __init__(self, *batch: int, **actions: TensorSpec) -> None:
        super().__init__(batch_size=batch)
        expanded = {name: spec.expand(*batch, *spec.shape) for name, spec in actions.items()}
        self.full_action_spec = Composite(expanded, shape=batch)
        seen = {f"seen_{name}": _any_like(spec) for name, spec in expanded.items()}
        self.observation_spec = Composite(seen, shape=batch)
        self.state_spec = self.observation_spec.clone()
        self.reward_spec = Unbounded(shape=(*batch, 1))

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        return self.observation_spec.rand().set("done", torch.zeros(*self.batch_size, 1, dtype=torch.bool))

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        made = TensorDict({}, self.batch_size)
        for key in self.action_keys:
            made.set(f"seen_{key}", tensordict[key])
        return made.set("reward", torch.zeros(*self.batch_size, 1)).set(
            "done", torch.zeros(*self.batch_size, 1, dtype=torch.bool)
        )

    def _set_seed(self, seed: int | None) -> None:
        torch.manual_seed(0 if seed is None else seed)


def _any_like(spec: TensorSpec) -> TensorSpec:
    """The values of classes; for numbers any, since zeros may be outside of bounds."""
    return Unbounded(shape=spec.shape, dtype=spec.dtype) if isinstance(spec, Bounded) else spec.clone()


BATCHES: list[tuple[int, ...]] = [(), (3,), (2, 3)]
LOW, HIGH = torch.tensor([-1.0, -2.0, 0.5]), torch.tensor([1.0, 4.0, 0.75])


def box(dtype: torch.dtype = torch.float32) -> Bounded:
    return Bounded(low=LOW.to(dtype), high=HIGH.to(dtype), shape=(3,), dtype=dtype)


def acted(env: EnvBase[Any], **actions: torch.Tensor) -> TensorDictBase:
    """What the environment was given."""
    return env.step(env.reset().update(actions))["next"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("sampling", [None, "median", "low", "high"])
@pytest.mark.parametrize("categorical", [True, False])
def test_cells(batch: tuple[int, ...], sampling: Any, categorical: bool, dtype: torch.dtype) -> None:
    env = TransformedEnv(
        Echo(*batch, action=box(dtype)), ActionDiscretizer(4, sampling=sampling, categorical=categorical)
    )
    check_env_specs(env)
    kind = MultiCategorical if categorical else MultiOneHot
    assert env.action_spec == kind([4, 4, 4], shape=(*batch, 3 if categorical else 12))
    cell = torch.randint(4, (*batch, 3))
    written = cell if categorical else torch.nn.functional.one_hot(cell, 4).bool().flatten(-2, -1)
    at = {None: 0.5, "median": 0.5, "low": 0.0, "high": 1.0}[sampling]
    expected = LOW.to(dtype) + (cell.to(dtype) + at) * (HIGH - LOW).to(dtype) / 4
    seen = acted(env, action=written)["seen_action"]
    assert seen.dtype == dtype
    assert torch.allclose(seen, expected)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("categorical", [True, False])
def test_cells_of_each_number(batch: tuple[int, ...], categorical: bool) -> None:
    counts = torch.tensor([2, 5, 3])
    env = TransformedEnv(Echo(*batch, action=box()), ActionDiscretizer([2, 5, 3], categorical=categorical))
    check_env_specs(env)
    kind = MultiCategorical if categorical else MultiOneHot
    assert env.action_spec == kind([2, 5, 3], shape=(*batch, 3 if categorical else 10))
    cell = (torch.rand(*batch, 3) * counts).long()
    parts = [torch.nn.functional.one_hot(cell[..., i], int(n)).bool() for i, n in enumerate(counts)]
    seen = acted(env, action=cell if categorical else torch.cat(parts, -1))["seen_action"]
    torch.testing.assert_close(seen, LOW + (cell + 0.5) * (HIGH - LOW) / counts)
    with pytest.raises(ValueError, match="there are 2 numbers of classes"):
        _ = TransformedEnv(Echo(*batch, action=box()), ActionDiscretizer([2, 5])).action_spec


def test_a_place_at_random_is_in_its_cell_and_comes_from_the_seed() -> None:
    env = TransformedEnv(Echo(100, action=box()), ActionDiscretizer(4, sampling="random"))
    cell = torch.randint(4, (100, 3))
    found = []
    for _ in range(2):
        torch.manual_seed(1)
        found.append(acted(env, action=cell)["seen_action"])
    assert torch.equal(*found)
    share = (found[0] - LOW) / (HIGH - LOW) * 4 - cell
    assert (share > -1e-4).all()
    assert (share < 1 + 1e-4).all()
    assert share.std() > 0.2


@pytest.mark.parametrize("word", ["median", "low", "high", "random"])
def test_where_in_a_cell_is_said_by_a_word_or_a_member(word: Any) -> None:
    strategy = ActionDiscretizer.SamplingStrategy
    member = strategy[word.upper()]
    assert [each.value for each in strategy] == ["median", "low", "high", "random"]
    given = []
    for said in (word, member):
        env = TransformedEnv(Echo(4, action=box()), ActionDiscretizer(4, sampling=said))
        assert (env.transform.sampling == member) is (env.transform.sampling == word) is True
        env.set_seed(0)
        given.append(acted(env, action=torch.full((4, 3), 2))["seen_action"])
    assert torch.equal(*given)


@pytest.mark.parametrize("counts", [torch.tensor([4, 5, 6]), np.array([4, 5, 6])])
def test_numbers_of_intervals_are_a_tensor_or_an_array(counts: Any) -> None:
    env = TransformedEnv(Echo(action=box()), ActionDiscretizer(counts))
    assert env.transform.num_intervals == (4, 5, 6)
    assert env.action_spec.nvec.tolist() == [4, 5, 6]
    with pytest.raises(TypeError, match="num_intervals is made of whole numbers"):
        ActionDiscretizer(torch.tensor([[4, 5, 6]]))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="num_intervals is made of whole numbers"):
        ActionDiscretizer(torch.tensor([4.0]))  # type: ignore[arg-type]


def test_cells_are_those_of_torchrl() -> None:
    peer = torchrl_transforms.ActionDiscretizer
    for name in ("median", "low", "high"):
        from torchrl.data import Bounded as PeerBounded
        from torchrl.testing.mocking_classes import ContinuousActionVecMockEnv

        inner = ContinuousActionVecMockEnv(action_spec=PeerBounded(low=LOW, high=HIGH, shape=(3,)))
        theirs = torchrl_transforms.TransformedEnv(
            inner, peer(4, sampling=getattr(peer.SamplingStrategy, name.upper()))
        )
        theirs.action_spec  # noqa: B018 - it is bound there
        ours = TransformedEnv(Echo(action=box()), ActionDiscretizer(4, sampling=name))  # type: ignore[arg-type]
        for cell in torch.randint(4, (20, 3)):
            given = theirs.transform.inv(TensorDict({"action": cell}, []))["action"]
            assert torch.allclose(acted(ours, action=cell)["seen_action"], given, atol=1e-6), name


def test_the_inner_action_is_no_state() -> None:
    env = TransformedEnv(Echo(3, action=box()), ActionDiscretizer(4, out_action_key="choice"))
    assert env.action_keys == ["choice"]
    assert env.state_keys == ["seen_action"]
    check_env_specs(env)


@pytest.mark.parametrize(
    ("spec", "error", "said"),
    [
        (Bounded(low=-1, high=1, shape=(3,), dtype=torch.int64), TypeError, "needs float32 or float64"),
        (
            Bounded(low=0.0, high=torch.inf, shape=(3,)),
            ValueError,
            "needs finite bounds on both sides of 'action'",
        ),
        (Unbounded(shape=(3,)), ValueError, "needs finite bounds on both sides of 'action'"),
    ],
)
@pytest.mark.parametrize("transform", [lambda: ActionDiscretizer(4), ActionScaling])
def test_bounds_are_needed(spec: TensorSpec, error: type[Exception], said: str, transform: Any) -> None:
    with pytest.raises(error, match=said):
        TransformedEnv(Echo(action=spec), transform()).action_spec  # noqa: B018


def test_a_projection_in_no_environment() -> None:
    said = r"DiscreteActionProjection is part of no environment .* spec of 'action', which its inverse makes: call"
    with pytest.raises(RuntimeError, match=said):
        DiscreteActionProjection(2, 4).inv(TensorDict({"action": torch.eye(4, dtype=torch.bool)}, [4]))


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("categorical", [True, False])
def test_choices_of_an_action_without_axes(batch: tuple[int, ...], categorical: bool) -> None:
    spec = Bounded(low=-1.0, high=1.0, shape=())
    cells = ActionDiscretizer(4, categorical=categorical)
    said = re.escape("ActionDiscretizer needs [..., n], but 'action' has the shape [] in each environment")
    with pytest.raises(ValueError, match=said):
        TransformedEnv(Echo(*batch, action=spec), cells).action_spec  # noqa: B018
    axis = UnsqueezeTransform(-1, in_keys_inv=["action"])
    env = TransformedEnv(Echo(*batch, action=spec), Compose(axis, cells.clone()))
    check_env_specs(env)
    chosen = env.rand_action()["action"]
    index = chosen if categorical else chosen.to(torch.int64).argmax(-1, keepdim=True)
    seen = acted(env, action=chosen)["seen_action"]
    torch.testing.assert_close(seen, (index.squeeze(-1) + 0.5) / 2 - 1)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scaling(batch: tuple[int, ...], dtype: torch.dtype) -> None:
    for standard, low in ((True, -1.0), (False, 0.0)):
        env = TransformedEnv(Echo(*batch, action=box(dtype)), ActionScaling(standard_normal=standard))
        check_env_specs(env)
        assert env.action_spec == Bounded(low=low, high=1.0, shape=(*batch, 3), dtype=dtype)
        for value, end in ((low, LOW), (1.0, HIGH), ((low + 1) / 2, (LOW + HIGH) / 2)):
            written = torch.full((*batch, 3), value, dtype=dtype)
            assert torch.allclose(acted(env, action=written)["seen_action"], end.to(dtype))
    env = TransformedEnv(
        Echo(*batch, action=box(dtype)), ActionScaling(loc=[0.0, 1.0, 2.0], scale=[1.0, 2.0, 4.0])
    )
    loc, scale = torch.tensor([0.0, 1.0, 2.0]), torch.tensor([1.0, 2.0, 4.0])
    expected = [((end - loc) / scale).to(dtype).expand(*batch, 3) for end in (LOW, HIGH)]
    assert env.action_spec == Bounded(low=expected[0], high=expected[1], shape=(*batch, 3), dtype=dtype)


def test_scaled_bounds_are_those_of_torchrl() -> None:
    from torchrl.data import Bounded as PeerBounded
    from torchrl.testing.mocking_classes import ContinuousActionVecMockEnv

    numbers = {"loc": torch.tensor(0.5), "scale": torch.tensor(2.0)}
    for given in ({}, {"standard_normal": False}, numbers, {**numbers, "standard_normal": False}):
        inner = ContinuousActionVecMockEnv(action_spec=PeerBounded(low=LOW, high=HIGH, shape=(3,)))
        theirs = torchrl_transforms.TransformedEnv(inner, torchrl_transforms.ActionScaling(**given))
        ours = TransformedEnv(Echo(action=box()), ActionScaling(**given))  # type: ignore[arg-type]
        space = theirs.action_spec.space
        spec: Any = ours.action_spec
        assert torch.allclose(spec.low, space.low)
        assert torch.allclose(spec.high, space.high)


@pytest.mark.parametrize("batch", BATCHES)
def test_flat_actions(batch: tuple[int, ...]) -> None:
    low = torch.arange(6.0).reshape(2, 3)
    spec = Bounded(low=low, high=low + 1, shape=(2, 3))
    env = TransformedEnv(Echo(*batch, action=spec), FlattenAction())
    check_env_specs(env)
    flat = low.flatten().expand(*batch, 6)
    assert env.action_spec == Bounded(low=flat, high=flat + 1, shape=(*batch, 6))
    assert torch.equal(acted(env, action=flat)["seen_action"], low.expand(*batch, 2, 3))


@pytest.mark.parametrize("batch", BATCHES)
def test_kinds_survive_a_reshape(batch: tuple[int, ...]) -> None:
    kinds: list[tuple[TensorSpec, TensorSpec]] = [
        (Categorical(5, shape=(2, 3)), Categorical(5, shape=(*batch, 6))),
        (OneHot(4, shape=(2, 3, 4)), OneHot(4, shape=(*batch, 6, 4))),
        (MultiCategorical([2, 3], shape=(2, 3, 2)), MultiCategorical([2, 3], shape=(*batch, 6, 2))),
        (MultiOneHot([2, 3], shape=(2, 3, 5)), MultiOneHot([2, 3], shape=(*batch, 6, 5))),
    ]
    for inner, outer in kinds:
        ends = (-2, -1) if isinstance(inner, Categorical) else (-3, -2)
        env = TransformedEnv(Echo(*batch, action=inner), FlattenAction(*ends))
        assert env.action_spec == outer
        check_env_specs(env)
    with pytest.raises(ValueError, match="tears apart or joins the classes of a one-hot"):
        TransformedEnv(Echo(*batch, action=OneHot(4, shape=(3, 4))), FlattenAction()).action_spec  # noqa: B018


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("dims", [(-1, -2), (-1, -3, -2), (-2, -3, -1)])
def test_axes_in_another_order(batch: tuple[int, ...], dims: tuple[int, ...]) -> None:
    high = torch.arange(1.0, 25.0).reshape(2, 3, 4)
    permuted = PermuteTransform(dims, in_keys_inv=["action"])
    env = TransformedEnv(Echo(*batch, action=Bounded(-high, high)), permuted)
    check_env_specs(env)
    order = [*range(3 - len(dims)), *(dim % 3 for dim in dims)]
    assert torch.equal(
        env.action_spec.space.high, high.permute(order).expand(*batch, *high.permute(order).shape)
    )
    data = env.rollout(2)
    within = [*range(data.ndim), *(data.ndim + axis for axis in order)]
    assert torch.equal(data["next", "seen_action"].permute(within), data["action"])
    recorded = PermuteTransform(dims, in_keys_inv=["action"]).inv(data.select("action"))
    assert torch.equal(recorded["action"], data["next", "seen_action"])


def test_names_change_places() -> None:
    inner = Echo(3, a=box(), b=Categorical(5, shape=(2,)))
    env = TransformedEnv(inner, RenameTransform([], [], ["a", "b"], ["b", "a"]))
    assert env.full_action_spec["b"] == inner.full_action_spec["a"]
    assert env.full_action_spec["a"] == inner.full_action_spec["b"]
    root = env.rand_action(env.reset())
    after = env.step(root)["next"]
    assert torch.equal(after["seen_a"], root["b"])
    assert torch.equal(after["seen_b"], root["a"])
    with pytest.raises(ValueError, match="takes 'b', which is there already"):
        TransformedEnv(Echo(a=box(), b=box()), RenameTransform([], [], ["a"], ["b"])).full_action_spec  # noqa: B018


def test_bounds_hold_only_where_the_way_back_reaches_them() -> None:
    inner = Bounded(low=-2.0, high=2.0, shape=(3,))
    wide = TransformedEnv(Echo(action=inner), ClipTransform([], in_keys_inv=["action"], low=-5.0, high=5.0))
    assert wide.action_spec == inner
    narrow = TransformedEnv(Echo(action=inner), ClipTransform([], in_keys_inv=["action"], low=-1.0, high=1.0))
    assert isinstance(narrow.action_spec, Unbounded)
    assert acted(narrow, action=torch.tensor([-3.0, 0.5, 3.0]))["seen_action"].tolist() == [-1.0, 0.5, 1.0]
    signs = TransformedEnv(Echo(action=inner), SignTransform(in_keys=[], in_keys_inv=["action"]))
    assert isinstance(signs.action_spec, Unbounded)


def test_one_after_the_other() -> None:
    spec = Bounded(low=torch.full((2, 3), -2.0), high=torch.tensor([[2.0], [6.0]]).expand(2, 3), shape=(2, 3))
    env = TransformedEnv(
        Echo(4, action=spec), Compose(ActionScaling(), FlattenAction(), ActionDiscretizer(2))
    )
    assert env.action_spec == MultiCategorical([2] * 6, shape=(4, 6))
    seen = acted(env, action=torch.ones(4, 6, dtype=torch.int64))["seen_action"]
    assert torch.allclose(seen, torch.tensor([[1.0], [4.0]]).expand(4, 2, 3))


def test_specs_that_are_given() -> None:
    assert ActionScaling(["action"]).transform_action_spec(box()) == Bounded(low=-1.0, high=1.0, shape=(3,))


RECORDED: dict[str, Any] = {
    "scaled": ActionScaling,
    "scaled by numbers": lambda: ActionScaling(loc=0.25, scale=[0.5, 1.0, 0.125]),
    "flat": FlattenAction,
    **{
        f"a {place} of a cell": partial(ActionDiscretizer, 4, sampling=place)
        for place in ("median", "low", "random")
    },
    "bits": partial(ActionDiscretizer, 4, categorical=False),
}


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("rows", [(), (7,), (2, 3, 5)])
def test_recorded_actions_of_another_batch_size(
    name: str, batch: tuple[int, ...], rows: tuple[int, ...]
) -> None:
    inner = Bounded(low=-2.0, high=1.0, shape=(2, 3))
    env = TransformedEnv(Echo(*batch, action=inner), Compose(RECORDED[name]()))
    single = TransformedEnv(Echo(action=inner), RECORDED[name]()).action_spec
    written = torch.stack([single.rand() for _ in range(math.prod(rows))]).reshape(*rows, *single.shape)
    torch.manual_seed(1)
    made = env.transform.inv(TensorDict({"action": written}, rows))["action"]
    assert made.shape == (*rows, 2, 3)
    flat, each = made.reshape(-1, 2, 3), written.reshape(-1, *single.shape)
    for row, value in zip(each, flat, strict=True):
        if "random" in name:
            assert torch.equal(((value + 2.0) / 0.75).floor().long(), row)
        else:
            alone = TransformedEnv(Echo(action=inner), RECORDED[name]())
            assert torch.equal(acted(alone, action=row)["seen_action"], value)


def test_groups_keep_the_dimension_of_their_agents() -> None:
    """Also where what the policy writes takes the place of the only action of a group."""
    renamed = RenameTransform([], [], [("adversary", "action")], [("adversary", "push")])
    env = TransformedEnv(SimpleTag(), renamed)
    assert env.full_action_spec["adversary"].shape == (3,)
    check_env_specs(env)
