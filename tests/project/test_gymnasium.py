"""Recording Gymnasium environments."""

import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from specgen.diagnostics import Sink  # noqa: E402
from specgen.project.gymnasium_lock import (  # noqa: E402
    _own_ids,
    lock_text,
    missing,
    read_lock,
    record,
    record_missing,
)
from specgen.source import parse_yaml  # noqa: E402
from specgen.source.gymnasium_uses import Use, find_uses  # noqa: E402
from specgen.source.spaces import Record, Space, records_from_json  # noqa: E402

SCHEMA = """\
envs:
  A:
    gymnasium: {id: CartPole-v1}
  B:
    gymnasium:
      id: MountainCar-v0
      kwargs: {goal_velocity: 0.1}
  C:
    gymnasium: {id: 3}
  D:
    doc: no gymnasium
  E:
    gymnasium: text
"""


def uses(text: str = SCHEMA) -> list[Use]:
    root = parse_yaml("s/a.yaml", text, Sink())
    assert root is not None
    return list(find_uses(root))


def record_all(text: str, old: Mapping[str, Record] | None = None) -> tuple[dict[str, Record], Sink]:
    sink = Sink()
    return record_missing(uses(text), old or {}, (), sink), sink


def test_uses_are_found_without_the_schema() -> None:
    assert [(use.key, use.span.line, use.span.column) for use in uses()] == [
        ("CartPole-v1", 3, 21),
        ('MountainCar-v0 {"goal_velocity": 0.1}', 6, 11),
    ]
    assert uses("envs: 3\n") == uses("chains: {}\n") == []


def test_records_come_back_exactly() -> None:
    records, sink = record_all(SCHEMA)
    assert not sink.items
    text = lock_text(records)
    assert records_from_json(text) == records
    assert lock_text(dict(reversed(records.items()))) == text
    cart = records["CartPole-v1"]
    assert cart.max_episode_steps == 500
    assert cart.action == Space("discrete", "int64", n=2)
    env = gymnasium.make("CartPole-v1")
    assert isinstance(cart.observation, Space)
    assert np.array_equal(np.array(cart.observation.high, dtype=np.float32), env.observation_space.high)
    assert '"inf"' in text


def test_what_is_recorded_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    records, _ = record_all(SCHEMA)
    monkeypatch.setattr(gymnasium, "make", None)
    again, sink = record_all(SCHEMA, records)
    assert again == records
    assert not sink.items


def register(name: str, observation: Any, action: Any = None, error: Exception | None = None) -> str:
    class Env(gymnasium.Env):  # type: ignore[misc, name-defined]
        observation_space = observation
        action_space = action or gymnasium.spaces.Discrete(2, start=1)

        def __init__(self, **kwargs: object) -> None:
            if error is not None:
                raise error

    gymnasium.register(f"specgen-test/{name}-v0", entry_point=Env, disable_env_checker=True)
    return f"specgen-test/{name}-v0"


def test_kinds_of_spaces() -> None:
    spaces = gymnasium.spaces
    box = spaces.Box(np.array([-1, -np.inf]), np.array([1, 2]), dtype=np.float64)
    id = register(
        "Kinds",
        spaces.Dict(
            {
                "pixels": spaces.Box(0, 255, (4, 5, 3), np.uint8),
                "box": box,
                "bits": spaces.MultiBinary((2, 3)),
                "many": spaces.MultiDiscrete([2, 5]),
                "kind": spaces.Discrete(3),
                "grid": spaces.MultiDiscrete([[2, 3], [4, 5]]),
                "far": spaces.Box(-(2**62) - 1, 2**62 + 1, (), np.int64),
                "deep": spaces.Dict(
                    {"kind": spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Discrete(9)})}
                ),
            }
        ),
    )
    found = record(id, {})
    assert found.action == Space("discrete", "int64", n=2, start=1)
    assert found.max_episode_steps is None
    assert found.observation == {
        "pixels": Space("box", "uint8", (4, 5, 3), low=0.0, high=255.0),
        "box": Space("box", "float64", (2,), low=[-1.0, -math.inf], high=[1.0, 2.0]),
        "bits": Space("multi_binary", "int8", (2, 3)),
        "many": Space("multi_discrete", "int64", (2,), nvec=(2, 5)),
        "kind": Space("discrete", "int64", n=3),
        "grid": Space("multi_discrete", "int64", (2, 2), nvec=(2, 3, 4, 5)),
        "far": Space("box", "int64", (), low=-(2**62) - 1, high=2**62 + 1),
        "deep": {"kind": {"b": Space("discrete", "int64", n=2), "a": Space("discrete", "int64", n=9)}},
    }
    assert isinstance(found.observation, dict)
    assert list(found.observation) == sorted(found.observation)
    assert records_from_json(lock_text({id: found})) == {id: found}


NAME_ITS_MODULE = (
    "if another package registers it, name its module in [tool.specgen] of pyproject.toml: "
    'gymnasium-modules = ["{}"]'
)


def refused(id: str) -> tuple[str, str, str | None]:
    _, sink = record_all(f'envs:\n  A:\n    gymnasium: {{id: "{id}"}}\n')
    (item,) = sink.items
    assert (item.span.line, item.span.column) == (3, 21)
    return item.code, item.message, item.help


@pytest.mark.parametrize(
    ("id", "help"),
    [
        ("Pendulm-v1", "did you mean 'Pendulum-v1'?"),
        ("CartPole", "did you mean 'CartPole-v1'?"),
        ("CartPole-v9", "did you mean 'CartPole-v1'?"),
        ("CartPole-v", "did you mean 'CartPole-v1'?"),
        ("Nothing/Like-This-v0", NAME_ITS_MODULE.format("…")),
        ("nothing_like_this", NAME_ITS_MODULE.format("…")),
    ],
)
def test_unknown_ids(id: str, help: str | None) -> None:
    assert refused(id) == ("SG701", f"no Gymnasium environment '{id}'", help)


def test_ids_of_a_package_that_is_well_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for id in [id for id in gymnasium.registry if id.startswith("ALE/")]:
        monkeypatch.delitem(gymnasium.registry, id)
    assert refused("ALE/Pong-v5")[2] == NAME_ITS_MODULE.format("ale_py")


def test_ids_never_choose_what_is_imported() -> None:
    code, message, help = refused("this:Walker-v0")
    assert (code, message) == ("SG704", "the id 'this:Walker-v0' names a module to import")
    assert help is not None
    assert "gymnasium-modules" in help
    assert "this" not in sys.modules


def test_environments_that_fail() -> None:
    assert refused(register("Fails", gymnasium.spaces.Discrete(2), error=RuntimeError("no\n screen")))[
        :2
    ] == (
        "SG704",
        "'specgen-test/Fails-v0' cannot be made: RuntimeError: no screen",
    )
    needs = gymnasium.error.DependencyNotInstalled("install mujoco")
    assert refused(register("Needs", gymnasium.spaces.Discrete(2), error=needs))[:2] == (
        "SG703",
        "'specgen-test/Needs-v0' needs a package that is not installed: install mujoco",
    )


@pytest.mark.parametrize(
    "space",
    [
        gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(2)]),
        gymnasium.spaces.Sequence(gymnasium.spaces.Discrete(2)),
        gymnasium.spaces.Text(3),
        gymnasium.spaces.Dict({"a": gymnasium.spaces.Dict({"b": gymnasium.spaces.Text(3)})}),
    ],
)
def test_spaces_without_a_spec(space: Any) -> None:
    name = type(space).__name__
    id = register(f"Space{name}", space)
    code, message, help = refused(id)
    assert code == "SG705"
    assert "which can't be declared" in message
    assert help is not None
    assert f'GymEnv("{id}"' in help


def test_what_helps_against_a_tuple_can_be_recorded() -> None:
    assert "gymnasium.wrappers.FlattenObservation" in str(refused("Blackjack-v1")[2])
    id = "specgen-test/BlackjackFlat-v0"
    gymnasium.register(
        id, entry_point=lambda: gymnasium.wrappers.FlattenObservation(gymnasium.make("Blackjack-v1"))
    )
    assert record(id, {}).observation == Space("box", "int64", (45,), low=0, high=1)


def test_keys_that_are_no_text() -> None:
    space = gymnasium.spaces.Dict({1: gymnasium.spaces.Discrete(2)})
    assert refused(register("Keys", space))[:2] == (
        "SG705",
        "the observation space of 'specgen-test/Keys-v0' has the key 1, which is no text",
    )


def test_without_gymnasium(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "gymnasium"]:
        monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type]
    assert refused("CartPole-v1") == (
        "SG703",
        "Gymnasium is not installed here",
        'pip install "specgen-rl[gym]"',
    )


def test_modules_of_the_configuration_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_walkers.py").write_text(
        "import gymnasium\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "gymnasium.register('Mine-v0', entry_point=CartPoleEnv, max_episode_steps=7)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for _ in range(2):  # what an earlier build of the process has imported registers nothing again
        found = record("Mine-v0", {}, ("json", "my_walkers"))
        assert (found.max_episode_steps, found.module) == (7, "my_walkers")
    assert records_from_json(lock_text({"Mine-v0": found})) == {"Mine-v0": found}
    assert record("CartPole-v1", {}, ("my_walkers",)).module is None
    sink = Sink()
    record_missing(uses(), {}, ("not_there_at_all",), sink)
    assert [item.code for item in sink.items] == ["SG703", "SG703"]
    assert "gymnasium-modules" in sink.items[0].message


def test_missing_records() -> None:
    assert missing(uses(), record_all(SCHEMA)[0]) == []
    first, second = missing(uses(), {})
    assert first.message == "the Gymnasium environment 'CartPole-v1' is not recorded"
    assert first.help is not None
    assert "specgen build" in first.help
    assert second.code == "SG702"


@pytest.mark.parametrize(
    ("id", "help"),
    [
        ("CartPol-v1", "did you mean 'CartPole-v1'?"),
        ("cartpole-v1", "did you mean 'CartPole-v1'?"),
        ("CartPole-v7", "did you mean 'CartPole-v1'?"),
        ("Acrobat-v1", "did you mean 'Acrobot-v1'?"),
        ("MyWalkr-v0", "did you mean 'MyWalker-v0'?"),
        ("CartPole-v1", "run `specgen build` where Gymnasium is installed"),
        ("ALE/Pong-v5", "run `specgen build` where Gymnasium is installed"),
        ("SomebodysOwn-v0", "run `specgen build` where Gymnasium is installed"),
    ],
)
def test_a_misspelt_id_that_is_not_recorded(id: str, help: str) -> None:
    record = next(iter(record_all(SCHEMA)[0].values()))
    use = replace(uses()[0], id=id, kwargs={})
    (found,) = missing([use], {"MyWalker-v0": record, 'MyWalker-v0 {"a": 1}': record})
    assert found.help == help


def test_the_ids_of_gymnasium_are_those_that_it_registers() -> None:
    found = _own_ids()
    assert {"CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Ant-v5"} <= found <= gymnasium.registry.keys()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        '{"environments": 3}',
        '{"environments": {"a": {}}}',
        '{"environments": {"a": 3}}',
        "[" * 100_000,
        '{"environments": {"a": {"action": {"kind": "box", "x": 1}, "observation": {"kind": "box"}}}}',
        lock_text({"a": Record(Space("discrete", "int64"), Space("discrete", "int64"), module="os; x")}),
    ],
)
def test_broken_lock_files(tmp_path: Path, text: str) -> None:
    file = tmp_path / "gymnasium.lock.json"
    file.write_text(text)
    sink = Sink()
    assert read_lock(file, "s/gymnasium.lock.json", sink) == {}
    assert [item.code for item in sink.items] == ["SG706"]


def test_no_lock_file(tmp_path: Path) -> None:
    sink = Sink()
    assert read_lock(tmp_path / "gymnasium.lock.json", "x", sink) == {}
    assert not sink.items
