"""Values between Gymnasium's spaces and their specs, and environments that have them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from specgen_runtime.envs import GymWrapper, check_env_specs
from specgen_runtime.envs.gym.actions import action_decoder, actions_decoder
from specgen_runtime.envs.gym.values import value_encoder
from specgen_runtime.specs.gymnasium import space_kind, space_to_spec, spec_to_space
from tensordict import TensorDict

from tests.specs import random_spaces as random
from tests.specs.random_spaces import same_values, seeded

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
SEEDS = st.integers(0, 2**31 - 1)
laws = settings(max_examples=60, deadline=None)


def encoded(space: Any, spec: Any, value: Any) -> Any:
    """A value of the space as a value of the spec: a tensordict where the space is a Dict."""
    result = value_encoder(space, spec)(value)
    return TensorDict(result, device=spec.device) if isinstance(result, dict) else result


@laws
@given(random.SPACES, random.CATEGORICAL, SEEDS)
def test_samples_are_members_and_come_back(space: Any, categorical: bool, seed: int) -> None:
    spec: Any = space_to_spec(space, categorical_action_encoding=categorical)
    value = seeded(space, seed).sample()
    tensor = encoded(space, spec, value)
    spec.assert_is_in(tensor)
    back = action_decoder(space, spec)(tensor)
    assert space.contains(back)
    assert same_values(back, value)


@laws
@given(random.SPACES, random.CATEGORICAL, SEEDS)
def test_draws_are_actions_and_come_back(space: Any, categorical: bool, seed: int) -> None:
    spec: Any = space_to_spec(space, categorical_action_encoding=categorical)
    torch.manual_seed(seed)
    value = spec.rand()
    action = action_decoder(space, spec)(value)
    assert space.contains(action)
    again = action_decoder(space, spec)(encoded(space, spec, action))
    assert same_values(action, again)


@laws
@given(random.SPACES, random.CATEGORICAL, SEEDS)
def test_the_space_of_a_spec_has_its_values(space: Any, categorical: bool, seed: int) -> None:
    spec: Any = space_to_spec(space, categorical_action_encoding=categorical)
    own = spec_to_space(spec)
    torch.manual_seed(seed)
    assert own.contains(action_decoder(own, spec)(spec.rand()))


@laws
@given(random.FLAT, random.CATEGORICAL, SEEDS)
def test_many_actions_are_each_action(space: Any, categorical: bool, seed: int) -> None:
    spec: Any = space_to_spec(space, categorical_action_encoding=categorical)
    torch.manual_seed(seed)
    values = spec.rand((3,))
    many = actions_decoder(space, spec)(values)
    decode = action_decoder(space, spec)
    assert len(many) == 3
    for place, action in enumerate(many):
        assert space.contains(action)
        assert same_values(action, decode(values[place]))


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (spaces.Discrete(3, start=1), 0),
        (spaces.Discrete(3, start=1), 4),
        (spaces.Discrete(3), -1),
        (spaces.Discrete(3), 1.5),
        (spaces.Discrete(3), np.array([1])),
        (spaces.MultiDiscrete([2, 3]), np.array([0, 3])),
        (spaces.MultiDiscrete([2, 3]), np.array([-1, 0])),
        (spaces.MultiDiscrete([2, 3], start=[1, 1]), np.array([0, 1])),
        (spaces.MultiDiscrete([3, 3]), np.array([-1, 0])),
    ],
    ids=str,
)
@pytest.mark.parametrize("categorical", [True, False])
def test_values_outside_their_space_are_refused(space: Any, value: Any, categorical: bool) -> None:
    spec = space_to_spec(space, categorical_action_encoding=categorical)
    with pytest.raises(ValueError, match=r"not in its space .*Discrete"):
        value_encoder(space, spec)(value)


@pytest.mark.parametrize(
    ("space", "value", "message"),
    [
        (BOX, np.zeros(4), r"shape \[4\], its space says \[3\]"),
        (spaces.MultiDiscrete([2, 3]), np.zeros(3, int), r"shape \[3\], its space says \[2\]"),
        (spaces.MultiBinary((2, 3)), np.zeros(6, np.int8), r"shape \[6\], its space says \[2, 3\]"),
        (spaces.Tuple([BOX, BOX]), (np.zeros(3),), "1 parts, its space has 2"),
        (spaces.Sequence(BOX, stack=True), np.zeros((2, 4)), r"shape \[4\], its space says \[3\]"),
    ],
    ids=str,
)
def test_values_of_another_shape_are_refused(space: Any, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        value_encoder(space, space_to_spec(space))(value)


@pytest.mark.parametrize(
    "value",
    [np.array([1.5, 2.0]), np.array([1, 300]), np.array([-1, 2])],
    ids=["fraction", "too large", "negative"],
)
def test_numbers_that_the_dtype_does_not_hold_are_refused(value: Any) -> None:
    space = spaces.Box(0, 255, (2,), np.uint8)
    encode = value_encoder(space, space_to_spec(space))
    assert encode(np.array([1.0, 2.0])).tolist() == [1, 2]
    with pytest.raises(ValueError, match="what Gymnasium gives must be"):
        encode(value)


def test_many_classes_take_no_memory() -> None:
    many = spaces.Discrete(2**40)
    spec = space_to_spec(many, categorical_action_encoding=True)
    assert value_encoder(many, spec)(2**39).item() == 2**39
    for space, value in ((spaces.Discrete(200_000), 7), (spaces.MultiDiscrete([200_000]), np.array([7]))):
        assert value_encoder(space, space_to_spec(space))(value).flatten()[7] == 1


def test_encoders_copy() -> None:
    for space in (
        BOX,
        spaces.MultiBinary(3),
        spaces.MultiDiscrete([3, 3, 3]),
        spaces.MultiDiscrete([1, 2, 3]),
    ):
        array = np.zeros(3, dtype=space.dtype)
        encode = value_encoder(space, space_to_spec(space, categorical_action_encoding=True))
        tensor = encode(array)
        array[0] = 1
        assert tensor[0] == 0
    encode = value_encoder(spaces.Discrete(2), space_to_spec(spaces.Discrete(2)))
    encode(1).fill_(7)
    assert encode(1).tolist() == [0, 1]


def test_decoders_copy() -> None:
    tensor = torch.zeros(3)
    action = action_decoder(BOX, space_to_spec(BOX))(tensor)
    tensor.fill_(1.0)
    assert (action == 0).all()


def test_starts_are_counted_from_zero_at_every_depth() -> None:
    far = spaces.Discrete(3, start=5)
    space = spaces.Dict(
        one=far,
        two=spaces.Tuple([far, spaces.Discrete(2, start=-1)]),
        many=spaces.Sequence(far, stack=True),
        rows=spaces.MultiDiscrete([[2, 3], [3, 3]], start=[[1, 2], [3, 4]]),
    )
    spec: Any = space_to_spec(space, categorical_action_encoding=True)
    value = {"one": 6, "two": (7, -1), "many": np.array([5, 7]), "rows": np.array([[2, 4], [3, 6]])}
    tensors = encoded(space, spec, value)
    assert tensors["one"].item() == 1
    assert tensors["two"].tolist() == [2, 0]
    assert tensors["many"].tolist() == [0, 2]
    assert tensors["rows"].tolist() == [[1, 2], [0, 2]]
    back = action_decoder(space, spec)(tensors)
    assert space.contains(back)
    assert back["two"] == (7, -1)
    assert back["rows"].tolist() == [[2, 4], [3, 6]]


def test_sequences_of_no_elements() -> None:
    for part in (BOX, spaces.Discrete(3), spaces.Dict(a=BOX)):
        space = spaces.Sequence(part, stack=True)
        spec: Any = space_to_spec(space)
        empty = gymnasium.vector.utils.create_empty_array(part, 0)
        tensor = encoded(space, spec, empty)
        assert tensor.shape[0] == 0
        spec.assert_is_in(tensor)
        assert space.contains(action_decoder(space, spec)(tensor))


# environments


class Recorded(gymnasium.Env):  # type: ignore[type-arg]
    """Gives random observations and checks and keeps the actions; five steps."""

    def __init__(self, observation: Any, action: Any) -> None:
        self.observation_space, self.action_space = observation, action
        self.given: list[Any] = []
        self.taken: list[Any] = []

    def observe(self) -> Any:
        self.given.append(self.observation_space.sample())
        return self.given[-1]

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.given, self.taken = [], []
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.taken.append(action)
        return self.observe(), 1.0, len(self.taken) == 5, False, {}


OBSERVATIONS: dict[str, Any] = {
    "Tuple": spaces.Tuple([BOX, spaces.Box(0.0, 1.0, (3,))]),
    "Tuple of several sizes": spaces.Tuple([BOX, spaces.Box(0.0, 1.0, (4,))]),
    "Tuple of Dicts": spaces.Tuple([spaces.Dict(a=BOX), spaces.Dict(a=BOX)]),
    "Tuple of Dicts of several keys": spaces.Tuple([spaces.Dict(a=BOX), spaces.Dict(a=BOX, b=BOX)]),
    "Text": spaces.Text(6),
    "MultiDiscrete": spaces.MultiDiscrete([2, 3], start=[1, 2]),
    "MultiDiscrete of rows": spaces.MultiDiscrete([[2, 3], [3, 3]]),
    "Dict": spaces.Dict(
        text=spaces.Text(6),
        inner=spaces.Dict(a=spaces.Discrete(3, start=1), b=spaces.Dict(c=spaces.MultiBinary((2, 2)))),
    ),
}
ACTIONS: dict[str, Any] = {
    "Discrete": spaces.Discrete(4, start=-2),
    "MultiDiscrete": spaces.MultiDiscrete([2, 3], start=[1, 2]),
    "MultiDiscrete of int32": spaces.MultiDiscrete([3, 3], dtype=np.int32),
    "MultiDiscrete of rows": spaces.MultiDiscrete([[2, 3], [3, 3]]),
    "MultiBinary": spaces.MultiBinary((2, 3)),
    "Tuple": spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]),
    "Tuple of Dicts": spaces.Tuple([spaces.Dict(a=BOX), spaces.Dict(a=BOX)]),
    "Text": spaces.Text(6, min_length=2),
    "Dict": spaces.Dict(move=spaces.Dict(x=spaces.Discrete(3), y=BOX), say=spaces.Text(3)),
}


@pytest.mark.parametrize("categorical", [True, False])
@pytest.mark.parametrize(
    ("observation", "action"),
    [(name, "Discrete") for name in OBSERVATIONS] + [("MultiDiscrete", name) for name in ACTIONS],
)
def test_environments(observation: str, action: str, categorical: bool) -> None:
    inner = Recorded(OBSERVATIONS[observation], ACTIONS[action])
    env = GymWrapper(inner, categorical_action_encoding=categorical)
    check_env_specs(env, seed=0)
    data = env.rollout(9)
    assert data.batch_size == (5,)
    assert len(inner.taken) == 5
    actions: Any = env.full_action_spec
    observations: Any = env.full_observation_spec
    for step in range(5):
        row = data[step]
        decoded = _decoded(inner.action_space, actions, row, "action")
        assert same_values(decoded, inner.taken[step])
        seen = _decoded(inner.observation_space, observations, row, "observation")
        assert same_values(seen, inner.given[step])
        seen = _decoded(inner.observation_space, observations, row["next"], "observation")
        assert same_values(seen, inner.given[step + 1])


@pytest.mark.parametrize("categorical", [True, False])
@pytest.mark.parametrize("action", ACTIONS)
def test_policies(action: str, categorical: bool) -> None:
    env = GymWrapper(Recorded(BOX, ACTIONS[action]), categorical_action_encoding=categorical)
    given = []

    def policy(td: Any) -> Any:
        given.append(env.full_action_spec.rand())
        return td.update(given[-1])

    data = env.rollout(9, policy)
    actions: Any = env.full_action_spec
    for step in range(5):
        taken = _decoded(env.wrapped.action_space, actions, data[step], "action")
        assert same_values(taken, _decoded(env.wrapped.action_space, actions, given[step], "action"))
        assert same_values(taken, env.wrapped.taken[step])


def test_policies_may_choose_how_many() -> None:
    env = GymWrapper(
        Recorded(BOX, spaces.Sequence(spaces.Discrete(3), stack=True)), categorical_action_encoding=True
    )
    data = env.rollout(9, lambda td: td.set("action", torch.arange(len(env.wrapped.taken) % 3)))
    assert [data[step]["action"].tolist() for step in range(5)] == [[], [0], [0, 1], [], [0]]
    vectors = GymWrapper(env.wrapped)
    no_class = torch.zeros(1, 3, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"one-hot vector of 3 classes, found \[0, 0, 0\]"):
        vectors.rollout(2, lambda td: td.set("action", no_class))


@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_copies(observation: str) -> None:
    env = GymWrapper(Recorded(OBSERVATIONS[observation], spaces.Discrete(2)))
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env)), env.to("cpu")):
        twin.set_seed(0)
        assert twin.rollout(9).batch_size == (5,)


def _decoded(space: Any, specs: Any, row: Any, name: str) -> Any:
    if space_kind(space) == "Dict":
        return action_decoder(space, specs)(row)
    return action_decoder(space, specs[name])(row.get(name))


def test_rollouts_of_sequences() -> None:
    space = spaces.Sequence(BOX, stack=True)
    inner = Recorded(space, spaces.Sequence(spaces.Discrete(3), stack=True))
    env = GymWrapper(inner)
    check_env_specs(env, seed=0)
    data = env.rollout(9)
    assert data.batch_size == (5,)
    for step in range(5):
        assert same_values(data[step]["observation"].numpy(), inner.given[step])
        assert same_values(data[step]["next", "observation"].numpy(), inner.given[step + 1])


def test_sequences_in_environments() -> None:
    space = spaces.Dict(seen=spaces.Sequence(BOX, stack=True), level=spaces.Discrete(3))
    inner = Recorded(space, spaces.Sequence(spaces.Discrete(3), stack=True))
    env = GymWrapper(inner, categorical_action_encoding=True)
    env.set_seed(0)
    td = env.reset()
    for step in range(5):
        assert same_values(td["seen"].numpy(), inner.given[step]["seen"])
        td["action"] = torch.tensor([0, 1, 2])[: step % 3 + 1]
        record, td = env.step_and_maybe_reset(td)
        if step < 4:
            assert same_values(record["next", "seen"].numpy(), inner.given[step + 1]["seen"])
            assert inner.taken[step].tolist() == [0, 1, 2][: step % 3 + 1]
