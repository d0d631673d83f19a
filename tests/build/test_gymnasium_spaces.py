"""Environments of Gymnasium with every kind of space that can be declared: recorded, generated, run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.specs import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    TensorSpec,
    Unbounded,
)
from specgen_runtime.transforms import TransformedEnv
from specgen_std.transforms import FrameSkipTransform

from specgen.project.gymnasium_lock import lock_text, record
from specgen.source.spaces import records_from_json
from tests.support import generate, imported

gymnasium = pytest.importorskip("gymnasium")
spaces = gymnasium.spaces

LARGEST = float(np.finfo(np.float32).max)
OBSERVATION = spaces.Dict(
    {
        "bits": spaces.MultiBinary((2, 3)),
        "from_two": spaces.Discrete(5, start=2),
        "grid": spaces.MultiDiscrete([[4, 4], [4, 4]]),
        "slots": spaces.MultiDiscrete([4, 2], start=[1, 1]),
        "anything": spaces.Box(-LARGEST, LARGEST, (2,), np.float32),
        "far": spaces.Box(-(2**62) - 1, 2**62 + 1, (), np.int64),
        "inner": spaces.Dict(
            {
                "pixels": spaces.Box(0, 255, (2, 2), np.uint8),
                "deeper": spaces.Dict({"half": spaces.Box(-1, np.inf, (3,), np.float64)}),
            }
        ),
    }
)
OBSERVED = {
    "bits": Binary(shape=(2, 3)),
    "from_two": Categorical(5),
    "grid": Categorical(4, (2, 2)),
    "slots": MultiCategorical([4, 2]),
    "anything": Unbounded((2,)),
    "far": Bounded(-(2**62) - 1, 2**62 + 1, (), dtype=torch.int64),
    ("inner", "pixels"): Unbounded((2, 2), dtype=torch.uint8),
    ("inner", "deeper", "half"): Bounded(-1, torch.inf, (3,), dtype=torch.float64),
}
ACTIONS: dict[str, tuple[Any, TensorSpec, TensorSpec]] = {
    "discrete": (
        spaces.Discrete(3, start=-1),
        OneHot(3, dtype=torch.int64),
        Categorical(3),
    ),
    "equal": (
        spaces.MultiDiscrete([3, 3]),
        OneHot(3, (2, 3), dtype=torch.int64),
        Categorical(3, (2,)),
    ),
    "unequal": (
        spaces.MultiDiscrete([3, 2]),
        MultiOneHot([3, 2], dtype=torch.int64),
        MultiCategorical([3, 2]),
    ),
    "binary": (spaces.MultiBinary((2, 2)), Binary(shape=(2, 2)), Binary(shape=(2, 2))),
}


class Anything(gymnasium.Env):  # type: ignore[misc, name-defined]
    """Gives random observations, and keeps the actions that it got."""

    observation_space = OBSERVATION
    taken: list[Any]

    def __init__(self, kind: str) -> None:
        self.action_space = ACTIONS[kind][0]
        self.taken = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.taken.append(action)
        return self.observation_space.sample(), 1.0, len(self.taken) % 5 == 0, False, {}


ID = "specgen-test/Anything-v0"
SCHEMA = """\
specgen: 1
import: [specgen_std/transforms/time]
chains:
  {name}Skipping: {{env: {name}, transforms: [{{FrameSkipTransform: {{frame_skip: 3}}}}]}}
envs:
  {name}:
    gymnasium: {{id: {id}, kwargs: {{kind: {kind}}}, categorical_action_encoding: {indexed}}}
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The generated environments, of records that went through the lock file."""
    gymnasium.register(ID, entry_point=Anything, disable_env_checker=True)
    records = {f'{ID} {{"kind": "{kind}"}}': record(ID, {"kind": kind}) for kind in ACTIONS}
    texts = {
        f"{kind}{indexed}.yaml": SCHEMA.format(
            name=name_of(kind, indexed), id=ID, kind=kind, indexed=str(indexed).lower()
        )
        for kind in ACTIONS
        for indexed in (False, True)
    }
    made = generate(texts, "any_spaces", records_from_json(lock_text(records)))
    assert made == generate(texts, "any_spaces", records)
    with imported(made, "any_spaces", tmp_path_factory.mktemp("spaces")) as package:
        yield package


def name_of(kind: str, indexed: bool) -> str:
    return kind.title() + ("Indexed" if indexed else "Vectors")


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("kind", ACTIONS)
def test_specs(package: Any, kind: str, indexed: bool) -> None:
    env = getattr(package, name_of(kind, indexed))(kind=kind, device="cpu")
    assert env.full_action_spec["action"] == ACTIONS[kind][2 if indexed else 1]
    assert env.full_observation_spec == Composite(OBSERVED, device="cpu")


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("kind", ACTIONS)
def test_rollouts(package: Any, kind: str, indexed: bool) -> None:
    env = getattr(package, name_of(kind, indexed))(kind=kind)
    env.set_seed(3)
    data = env.rollout(12, break_when_any_done=False)
    OBSERVATION.seed(3)
    expected = [OBSERVATION.sample() for _ in range(15)]
    assert env.full_observation_spec.is_in(data[0].select(*OBSERVED))
    check(data[0], expected[0])
    check(data[0]["next"], expected[1])
    check(data[4]["next"], expected[5])
    check(data[5], expected[6])
    inner = env._gym.unwrapped
    spec = env.full_action_spec["action"]
    for action, given in zip(inner.taken, data["action"], strict=True):
        start = np.asarray(getattr(inner.action_space, "start", 0))
        assert torch.equal(spec.encode(np.asarray(action) - start), given)


def check(entry: Any, expected: Mapping[str, Any]) -> None:
    """Classes are counted from 0; all else is what Gymnasium gave."""
    shift = {"from_two": 2, "slots": 1}
    for key in OBSERVED:
        value: Any = expected
        for part in (key,) if isinstance(key, str) else key:
            value = value[part]
        assert np.array_equal(entry[key].numpy(), np.asarray(value) - shift.get(str(key), 0)), key


def test_a_chain_takes_three_steps_as_one(package: Any) -> None:
    """Several observations are those of the last step, and the last of five steps ends the second three."""
    found = []
    for env in (
        TransformedEnv(package.DiscreteIndexed(kind="discrete"), FrameSkipTransform(3)),
        package.DiscreteIndexedSkipping(kind="discrete"),
    ):
        env.set_seed(5)
        torch.manual_seed(1)
        found.append(env.rollout(9, break_when_any_done=False))
    for key in found[0].keys(True, True):
        assert torch.equal(found[0][key], found[1][key]), key
    assert found[1]["next", "reward"].flatten().tolist()[:4] == [3.0, 2.0, 3.0, 2.0]
