"""What info dicts tell: readers, their specs, and where the values are."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from specgen_runtime.envs import GymWrapper, check_env_specs
from specgen_runtime.envs.gym import BaseInfoDictReader, default_info_dict_reader
from specgen_runtime.specs import Composite, NonTensor, Unbounded


class Telling(gymnasium.Env):
    """Tells values of many kinds; some only at steps."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def info(self) -> dict[str, Any]:
        return {
            "lives": self.steps,
            "wide": np.arange(3.0) + self.steps,
            "alive": self.steps < 3,
            "level": f"level {self.steps}",
            "_private": object(),
            "inner": {"x": np.float64(self.steps / 10), "_hidden": 1},
        }

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.random(2).astype(np.float32), self.info()

    def step(self, action: Any) -> Any:
        self.steps += 1
        info = self.info()
        info["speed"] = 0.1 * self.steps
        return np.zeros(2, np.float32), 1.0, self.steps == 4, False, info


def test_everything_is_kept() -> None:
    env = GymWrapper(Telling())
    assert env.auto_register_info_dict() is env
    check_env_specs(env)
    data = env.rollout(10)
    following = data["next"]
    assert data["lives"].tolist() == [0, 1, 2, 3]
    assert following["lives"].tolist() == [1, 2, 3, 4]
    assert following["wide"].tolist() == [[i, i + 1, i + 2] for i in (1.0, 2.0, 3.0, 4.0)]
    assert following["alive"].tolist() == [True, True, False, False]
    assert [row["next", "level"] for row in data] == ["level 1", "level 2", "level 3", "level 4"]
    assert following["inner", "x"].tolist() == [0.1, 0.2, 0.3, 0.4]
    assert data["speed"].tolist() == pytest.approx([0, 0.1, 0.2, 0.3])  # not told at reset: zero
    assert not {"_private", ("inner", "_hidden")} & set(data.keys(True, True))
    specs = env.observation_spec
    assert specs["lives"] == Unbounded((), dtype=torch.int64)
    assert specs["wide"] == Unbounded((3,), dtype=torch.float64)
    assert specs["alive"] == Unbounded((), dtype=torch.bool)
    assert specs["speed"] == Unbounded(())  # E25: a Python float
    assert specs["inner", "x"].dtype is torch.float64
    assert isinstance(specs["level"], NonTensor)
    with pytest.raises(RuntimeError, match="has an info reader already"):
        env.auto_register_info_dict()


def test_registering_spends_no_seeds() -> None:
    env, reference = GymWrapper(Telling()), GymWrapper(Telling())
    for each in (env, reference):
        each.set_seed(7)
    state = torch.get_rng_state()
    env.auto_register_info_dict()
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(env.reset()["observation"], reference.reset()["observation"])


@pytest.mark.parametrize(
    "spec",
    [
        [Unbounded((), dtype=torch.int64), Unbounded((3,)), Unbounded((1,))],
        {"lives": Unbounded((), dtype=torch.int64), "wide": Unbounded((3,)), "nope": Unbounded((1,))},
        Composite(lives=Unbounded((), dtype=torch.int64), wide=Unbounded((3,)), nope=Unbounded((1,))),
    ],
    ids=["list", "dict", "composite"],
)
def test_given_specs(spec: Any) -> None:
    env = GymWrapper(Telling()).set_info_dict_reader(
        default_info_dict_reader(["lives", "wide", "nope"], spec)
    )
    check_env_specs(env)
    data = env.rollout(3)
    assert data["next", "wide"].dtype is torch.float32
    assert data["next", "lives"].tolist() == [1, 2, 3]
    assert (data["next", "nope"] == 0).all()  # nobody tells it
    assert data["next", "nope"].shape == (3, 1)
    assert "level" not in data


def test_keys_alone() -> None:
    env = GymWrapper(Telling())
    env.set_info_dict_reader(default_info_dict_reader(["wide", ("inner", "x"), "nope"]))
    check_env_specs(env)
    assert env.observation_spec["wide"] == Unbounded((3,), dtype=torch.float64)
    data = env.rollout(2)
    assert data["next", "inner", "x"].tolist() == [0.1, 0.2]
    assert data["next", "nope"].tolist() == [0, 0]


def test_private_keys_on_demand() -> None:
    class Marked(Telling):
        def info(self) -> dict[str, Any]:
            return {"_mark": 3}

    assert GymWrapper(Marked()).set_info_dict_reader(ignore_private=False).rollout(2)["_mark"].tolist() == [
        3,
        3,
    ]
    assert "_mark" not in GymWrapper(Marked()).set_info_dict_reader().rollout(2)


def test_readers_of_ones_own() -> None:
    class Doubling(BaseInfoDictReader):
        def __call__(self, info_dict: Any, tensordict: Any) -> Any:
            if info_dict["lives"]:  # says nothing at reset
                tensordict.set("double", torch.tensor([2.0 * info_dict["lives"]]))
            return tensordict

        @property
        def info_spec(self) -> Any:
            return {"double": Unbounded((1,))}

    env = GymWrapper(Telling()).set_info_dict_reader(Doubling())
    env.set_info_dict_reader(default_info_dict_reader(["lives"]))
    env.set_info_dict_reader(lambda info, td: td.set("twice", torch.tensor(2 * info["lives"])))
    assert len(env.info_dict_reader) == 3
    data = env.rollout(3)
    assert data["next", "double"].flatten().tolist() == [2, 4, 6]
    assert data["double"].flatten().tolist() == [0, 2, 4]
    assert data["next", "twice"].tolist() == [2, 4, 6]
    check_env_specs(GymWrapper(Telling()).auto_register_info_dict(info_dict_reader=Doubling()))


def test_readers_stay_with_copies() -> None:
    env = GymWrapper(Telling())
    env.set_info_dict_reader(default_info_dict_reader(["lives"]))
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert twin.rollout(3)["next", "lives"].tolist() == [1, 2, 3]


def test_what_is_refused() -> None:
    # E27
    env = GymWrapper(Telling())
    with pytest.raises(TypeError, match="an info reader must be callable, found int"):
        env.set_info_dict_reader(3)
    with pytest.raises(ValueError, match="1 specs for 2 keys"):
        default_info_dict_reader(["a", "b"], [Unbounded(())])
    with pytest.raises(ValueError, match="1 specs for no keys"):
        default_info_dict_reader(None, [Unbounded(())])
    with pytest.raises(RuntimeError, match="that the observations have too: 'observation'"):
        env.set_info_dict_reader(default_info_dict_reader(["observation"], [Unbounded(())]))
    narrow = default_info_dict_reader(["wide"], [Unbounded((2,))])
    with pytest.raises(ValueError, match=r"info 'wide' must have shape \[2\], found \[3\]"):
        GymWrapper(Telling()).set_info_dict_reader(narrow).reset()
    whole = default_info_dict_reader(["inner"], [Unbounded((), dtype=torch.int64)])
    with pytest.raises(ValueError, match="info 'inner' does not fit its spec"):
        GymWrapper(Telling()).set_info_dict_reader(whole).reset()
