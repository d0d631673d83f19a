"""Keys of a transform that may be missing, in a class alone: which are found, which are named, which must be there."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
from specgen_runtime.specs import Composite, Unbounded
from specgen_runtime.transforms import TransformedEnv
from specgen_std.envs import Pendulum
from tensordict import TensorDict

from tests.support import generate, imported

SCHEMA = """\
specgen: 1
transforms:
  Near:
    in:
      x: {each: [observation], type: "float32[n]"}
      goal: {key: goal, type: "float32[n]", optional: true}
      speed: {key: thdot, type: "float32[]", optional: true}
    out:
      distance: {each: x, name: distance, when: given(goal)}
      fast: {each: speed, name: "fast_{}"}
      both: {key: both, type: "float32[]", when: given(goal) and given(speed)}
    map:
      distance: abs(goal - x)
      fast: 2 * speed
      both: sum(goal, axis=-1) + speed
  Ordered:
    params: {gain: {type: float, optional: true}}
    in:
      x: {each: [observation], type: "float32[n]"}
      goal: {key: goal, type: "float32[n]", optional: true}
      speed: {key: thdot, type: "float32[]", optional: true}
    out:
      fast: {key: fast, type: "float32[]", when: given(speed)}
      both: {key: both, type: "float32[]", when: given(goal) and given(speed)}
      twice: {each: x, name: twice, type: "float32[n]"}
      loud: {each: x, name: loud, when: given(gain)}
      seen: {each: x, name: seen, type: "float32[n]"}
    map:
      fast: 2 * speed
      both: fast + sum(goal, axis=-1)
      twice: 2 * x
      loud: gain * twice
      seen: "where(not given(goal) or not given(gain), x, gain * goal)"
  Some:
    in: {x: {each: [observation, velocity], type: "float32[...]", optional: true}}
    out: {y: {each: x, name: "abs_{}"}}
    map: {y: abs(x)}
  Chosen:
    in: {x: {each: [], type: "float32[...]", optional: true}}
    out: {y: {each: x, name: "abs_{}"}}
    map: {y: abs(x)}
  Paired:
    in:
      x: {each: [], type: "float32[n]"}
      goal: {each: [goal_a, goal_b], with: x, type: "float32[n]", optional: true}
    out:
      y: {each: x, name: "to_{}", type: "float32[n]"}
      z: {each: goal, name: "seen_{}"}
    map:
      y: where(given(goal), goal - x, x)
      z: goal
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"made.yaml": SCHEMA}, "optional_made")
    with imported(files, "optional_made", tmp_path_factory.mktemp("optional_made")) as package:
        yield package


def moment(**entries: tuple[int, ...]) -> TensorDict:
    return TensorDict({key: torch.randn(4, *shape) for key, shape in entries.items()}, [4])


def test_outputs_of_keys_that_are_there(made: ModuleType) -> None:
    env = TransformedEnv(Pendulum(batch_size=(2,)), made.Near())
    data = env.reset()
    assert {"fast_thdot"} == set(data.keys()) - set(Pendulum().reset().keys())
    assert "both" not in env.full_observation_spec
    assert env.transform.keys[0].goal is None


def test_recorded_data_say_what_is_there(made: ModuleType) -> None:
    near = made.Near()
    assert set(near(moment(observation=(3,))).keys()) == {"observation"}
    data = near(moment(observation=(3,), goal=(3,)))
    assert torch.equal(data["distance"], (data["goal"] - data["observation"]).abs())
    assert set(data.keys()) == {"observation", "goal", "distance"}
    data = near(moment(observation=(3,), goal=(3,), thdot=()))
    assert set(data.keys()) == {"observation", "goal", "thdot", "distance", "fast_thdot", "both"}


def test_what_stands_in_one_moment_only_is_mapped_there(made: ModuleType) -> None:
    data = moment(observation=(3,)).set("next", moment(observation=(3,), goal=(3,)))
    found = made.Near()(data)
    assert "distance" in found["next"]
    assert "distance" not in found


def test_outputs_of_more_conditions_read_those_of_fewer(made: ModuleType) -> None:
    data = made.Ordered(gain=3.0)(moment(observation=(3,), goal=(3,), thdot=()))
    assert torch.equal(data["both"], 2 * data["thdot"] + data["goal"].sum(-1))
    assert torch.equal(data["loud"], 6 * data["observation"])
    assert torch.equal(data["seen"], 3 * data["goal"])
    reset = TransformedEnv(Pendulum(batch_size=(2,)), made.Ordered(gain=3.0)).reset()
    assert torch.equal(reset["loud"], 6 * reset["observation"])
    assert torch.equal(reset["seen"], reset["observation"])
    # What is missing at one moment is missing for what is computed of it.
    data = moment(observation=(3,), goal=(3,)).set("next", moment(observation=(3,), goal=(3,), thdot=()))
    found = made.Ordered()(data)
    assert "both" in found["next"]
    assert found.keys().isdisjoint({"both", "fast"})


def test_keys_that_are_named_have_to_be_there(made: ModuleType) -> None:
    near = made.Near(goal_key="target")
    data = near(moment(observation=(3,), target=(3,)))
    assert torch.equal(data["distance"], (data["target"] - data["observation"]).abs())
    with pytest.raises(KeyError, match="target"):
        near(moment(observation=(3,), goal=(3,)))
    with pytest.raises(KeyError, match="target"):
        TransformedEnv(Pendulum(), made.Near(goal_key="target")).reset()


def test_a_key_of_another_type_is_refused(made: ModuleType) -> None:
    env = TransformedEnv(Pendulum(), made.Some(["observation"], ["goal"]), auto_unwrap=False)
    assert torch.equal(env.append_transform(made.Near()).reset()["distance"] >= 0, torch.tensor([True] * 3))
    data = moment(observation=(3,)).set("goal", torch.zeros(4, 2))
    with pytest.raises(ValueError, match="one 'n'"):
        made.Near()(data)


def test_each_of_several_keys(made: ModuleType) -> None:
    some = made.Some()
    assert set(some(moment(observation=(3,))).keys()) == {"observation", "abs_observation"}
    assert set(some(moment(velocity=())).keys()) == {"velocity", "abs_velocity"}
    assert set(some(moment(other=())).keys()) == {"other"}
    with pytest.raises(KeyError, match="velocity"):
        made.Some(["velocity"])(moment(observation=(3,)))
    assert set(made.Chosen()(moment(observation=(3,))).keys()) == {"observation"}
    assert set(made.Chosen(["observation"])(moment(observation=(3,))).keys()) == {
        "observation",
        "abs_observation",
    }


def test_one_to_one(made: ModuleType) -> None:
    data = made.Paired(["a", "b"])(moment(a=(2,), b=(2,), goal_b=(2,)))
    assert torch.equal(data["to_a"], data["a"])
    assert torch.equal(data["to_b"], data["goal_b"] - data["b"])
    assert set(data.keys()) == {"a", "b", "goal_b", "to_a", "to_b", "seen_goal_b"}
    with pytest.raises(ValueError, match="goal_keys"):
        made.Paired(["a"])(moment(a=(2,)))


def test_specs_outside_of_environments(made: ModuleType) -> None:
    spec = Composite(observation=Unbounded((3,)))
    assert set(made.Near().transform_observation_spec(spec.clone()).keys()) == {"observation"}
    spec["goal"] = Unbounded((3,))
    assert set(made.Near().transform_observation_spec(spec).keys()) == {"observation", "goal", "distance"}
