"""Generated code itself, of declarations that once made it unclean, through both type checkers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import specgen_std.chains
import specgen_std.envs
import specgen_std.losses
import torch
from specgen_runtime.envs import EnvBase
from specgen_runtime.testing import check_env
from tensordict import TensorDict

from tests.compiled_cases import GOOD, compiled_case
from tests.support import generate, imported
from tests.typing import test_chat_env
from tests.typing.checkers import CHECKERS, marked, strict_pyright
from tests.typing.projects import errors_of

ROOT = Path(__file__).resolve().parents[2]

SCHEMA = """
specgen: 1
import: [specgen_std/transforms/step_counter]
envs:
  Counter:
    doc: Keys and parameters called as the methods of tuples are.
    allow: [SG352]
    params:
      dt: 0.1
      index: {default: 0.5, per_env: true}
    consts:
      push: {type: "float32[2]", value: [1, -1]}
    state:
      x: float32[2] in [-10, 10]
      count: int64 in [0, 1000]
    action: {action: "float32[2] in [-1, 1]"}
    observation: {observation: "float32[2]"}
    reset: {x: "uniform(-1, 1, shape=(2,))", count: 0}
    step:
      next.x: clip(x + dt * (action + push) * index, -10, 10)
      next.count: clip(count + 1, 0, 1000)
      reward: -norm(next.x)
      terminated: next.count > 50
    observe: {observation: x}

  Drawn:
    doc: The same as draws, a plain parameter and a constant; a function and an observation led by a norm.
    params:
      count: {type: int, default: 3, min: 1}
      index: {draw: "uniform(0.1, 1)"}
    consts: {}
    state: {x: "float32[2] in [-10, 10]"}
    action: {action: "float32[2] in [-1, 1]"}
    observation: {observation: float32}
    functions:
      far: {args: {y: "float32[2]"}, returns: norm(y)}
    reset: {x: "uniform(-1, 1, shape=(2,))"}
    step:
      next.x: clip(x + index * action, -10, 10)
      reward: norm(next.x) * count - far(x)
    observe: {observation: norm(x)}

  Placed:
    doc: Returns what it shapes anew.
    state: {place: categorical(4)}
    action: {push: categorical(2)}
    observation: {seen: "float32[2, 2] in [0, 1]"}
    reset: {place: 0}
    step:
      next.place: min(place + push, 3)
      reward: 1.0
      terminated: next.place == 3
    observe: {seen: "reshape(float32(one_hot(place, 4)), (2, 2))"}

  Many:
    doc: More types of values than a data class tells apart.
    allow: [SG142]
    params: {}
    state:
STATE
    action: {action: "float32[2] in [-1, 1]"}
    observation: {}
    reset:
RESET
    step:
STEP
      reward: -norm(next.a1)

chains:
  CounterTrain: {env: Counter, transforms: [StepCounter]}
"""

SIZES = range(1, 20)
for mark, line in {
    "STATE": "a{n}: float32[{n}]",
    "RESET": 'a{n}: "uniform(-1, 1, shape=({n},))"',
    "STEP": "next.a{n}: a{n}",
}.items():
    SCHEMA = SCHEMA.replace(mark, "\n".join("      " + line.format(n=n) for n in SIZES))

SCHEMAS = {
    "envs.yaml": SCHEMA,
    "losses.yaml": """
specgen: 1
import: [specgen_std/losses/dqn]
losses:
  Spread:
    doc: A call with tensors gives several numbers, where that of the class above gives one.
    extends: QRDQNLoss
    params: {share: {default: 0.5, min: 0, max: 1}}
    terms: {loss_spread: share * (max(quantiles) - min(quantiles))}
  Narrow: {doc: It gives one again., extends: Spread, params: {share: drop}, terms: {loss_spread: drop}}
""",
}

PROGRAM = """
from typing import assert_type
from torch import Tensor
from unclean.envs import CounterTrain, CounterTrainData, Many, ManyData, ManyNextData
from unclean.losses import Narrow, Spread

def use(data: ManyData, after: ManyNextData, counts: CounterTrainData) -> None:
    assert_type(data["a1"], Tensor)
    assert_type(data["a19"], Tensor)
    assert_type(data["next", "a19"], Tensor)
    assert_type(data.get("a18", None), Tensor | None)
    assert_type(data["next"], ManyNextData)
    assert_type(after["a19"], Tensor)
    data["a20"]  # E
    data["next", "a20"]  # E
    data["reward"]  # E
    after["a20"]  # E
    data["next"].get("a")  # E
    data.set("a20", data["a19"])  # E
    assert_type(counts["index"], Tensor)
    counts["indx"]  # E
    Many().full_observation_spec["a20"]  # E
    CounterTrain().full_observation_spec["a1"]  # E

def compute(spread: Spread, narrow: Narrow, reward: Tensor) -> None:
    assert_type(spread(reward=reward), tuple[Tensor, ...])
    assert_type(narrow(reward=reward), Tensor)
"""


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return generate(SCHEMAS, "unclean")


def projects() -> dict[str, Callable[[Path], None]]:
    """How to write what was once unclean, with a program that uses it."""

    def write_program(folder: Path) -> None:
        write(generate(SCHEMAS, "unclean"), folder / "unclean")
        write({"program.py": PROGRAM}, folder)

    return {"unclean": write_program}


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_it_is_clean(checker: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    write({"program.py": PROGRAM}, tmp_path)
    errors = errors_of("generated_code", checker, tmp_path_factory)["unclean"]
    assert {file: set(lines) for file, lines in errors.items()} == {
        "program.py": marked(tmp_path / "program.py")
    }


def test_data_types_are_there_at_run_time() -> None:
    """In annotations that something evaluates, say."""
    names = 0
    for package in (specgen_std.chains, specgen_std.envs, specgen_std.losses):
        for name in package.__all__:
            if name.endswith(("Data", "Output")):
                assert getattr(package, name) is TensorDict
                names += 1
        for name, value in vars(package).items():
            if isinstance(value, type) and issubclass(value, EnvBase):
                assert {f"{name}Data", f"{name}NextData"} <= set(package.__all__)

    def longest(data: specgen_std.chains.CartPoleTrainData) -> specgen_std.losses.DQNLossOutput:
        return data

    assert names > 30
    assert get_type_hints(longest) == {"data": TensorDict, "return": TensorDict}


@pytest.mark.slow
def test_packages_pass_strict_pyright(files: dict[str, str], tmp_path: Path) -> None:
    """The library, projects with classes and functions of their own, what the cases generate, what was once unclean."""
    ignore = shutil.ignore_patterns("__pycache__", "python_env*")
    classes = (ROOT / "tests" / "transforms" / "python_classes.py").read_text(encoding="utf-8")
    shutil.copytree(ROOT / "generated" / "specgen_std", tmp_path / "specgen_std", ignore=ignore)
    shutil.copytree(ROOT / "examples" / "warehouse", tmp_path, ignore=ignore, dirs_exist_ok=True)
    for case in GOOD:
        made = compiled_case(case).files
        # some are about classes and functions that do not exist, `mine` among them
        absent = "from mine." in "".join(made.values()) or case.name in (
            "classes_in_chains",
            "models_by_factories",
        )
        if not case.name.startswith("python_env") and not absent:
            write(made, tmp_path / case.name / "generated")
            if "tests.transforms.python_classes" in "".join(made.values()):
                write({"tests/transforms/python_classes.py": classes}, tmp_path / case.name)
    write(files, tmp_path / "unclean")
    environments = [{"root": path.name} for path in tmp_path.iterdir() if (path / "generated").is_dir()]
    assert len(environments) > 15
    (tmp_path / "chat_env").mkdir()
    test_chat_env.write(tmp_path / "chat_env", test_chat_env.generated())
    environments.append({"root": "chat_env"})
    found = strict_pyright(tmp_path, executionEnvironments=environments, ignore=["*/tests"])
    assert found == {}, json.dumps(found, indent=1)


def write(files: dict[str, str], folder: Path) -> None:
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def test_keys_keep_their_names(files: dict[str, str], tmp_path: Path) -> None:
    with imported(files, "unclean", tmp_path) as package:
        module: Any = __import__("unclean.envs", fromlist=["Counter"])
        assert package is not None
        for name in ("Counter", "Drawn", "Many", "CounterTrain"):
            env = getattr(module, name)
            check_env(env, steps=10)
            check_env(lambda env=env: env(batch_size=(3,)), steps=10)
        env = module.Counter(batch_size=(3,))
        data = env.rollout(5)
        assert data["next", "count"].tolist() == [[1, 2, 3, 4, 5]] * 3
        assert torch.equal(data["index"], torch.full((3, 5), 0.5))
        assert torch.equal(
            data["next", "reward"], -torch.linalg.vector_norm(data["next", "x"], dim=-1, keepdim=True)
        )
        compiled: Any = torch.compile(env.step, fullgraph=True, backend="eager")
        root = env.reset()
        root["action"] = torch.ones(3, 2)
        assert torch.equal(compiled(root.clone())["next", "x"], env.step(root.clone())["next", "x"])
