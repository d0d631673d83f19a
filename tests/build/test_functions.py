"""Functions of files: what they compute for any leading dimensions, wherever they are called from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import yaml
from specgen_runtime.envs import EnvBase
from specgen_runtime.testing import check_env
from specgen_runtime.transforms import TransformedEnv

from specgen import Arg, Env, Module, Param, SharedFunction
from specgen.settings import Config
from specgen.source import PythonSchema
from tests.support import compile_sources, generate, imported

SHARED = """\
specgen: 1
functions:
  huber:
    args: {x: float}
    params: {delta: {default: 1.0, above: 0}}
    returns: where(abs(x) <= delta, x**2 / 2, delta * (abs(x) - delta / 2))
  unit:
    args: {v: "float[n]"}
    returns: v / (norm(v) + 1e-6)
    type: "float[n]"
  kept: {args: {x: float}, let: {sq: x**2}, returns: stop_grad(huber(x)) + sq - stop_grad(sq)}
"""
USES = """\
specgen: 1
import: [shared, specgen_std/envs/pendulum]
transforms:
  Huber:
    in: {value: {each: observation, type: "float[...]"}}
    out: {out: {each: value}}
    params: {delta: {default: 2.0, above: 0}}
    map: {out: "huber(value, delta=delta)"}
envs:
  Drift:
    state: {x: "float32[3] in [-1, 1]", y: "float32 in [-1, 1]"}
    action: {push: "float32[3] in [-1, 1]"}
    functions: {half: {args: {a: float32}, returns: "huber(a, delta=0.5)"}}
    reset: {x: "uniform(-1, 1, (3,))", y: 0.5}
    step:
      next.x: clip(unit(x + push), -1, 1)
      next.y: clip(half(y), -1, 1)
      reward: -sum(huber(next.x)) - huber(y, 0.5)
"""
CHAINS = """\
specgen: 1
import: [uses, specgen_std/envs/pendulum]
chains:
  Swing: {env: Pendulum, transforms: [{Huber: {in_keys: [observation]}}]}
  Drifting: {env: Drift, transforms: [{Huber: {in_keys: [x], out_keys: [far]}}]}
"""


def huber(x: torch.Tensor, delta: float) -> torch.Tensor:
    return torch.nn.functional.huber_loss(x, torch.zeros_like(x), reduction="none", delta=delta)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"shared.yaml": SHARED, "uses.yaml": USES, "chains.yaml": CHAINS}, "calling")
    with imported(files, "calling", tmp_path_factory.mktemp("calling")) as made:
        yield made


def module(package: ModuleType) -> Any:
    return __import__("calling.shared", fromlist=["shared"])


@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_leading_dimensions_and_dtypes(
    package: ModuleType, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    x = torch.linspace(-3, 3, torch.Size(shape).numel(), dtype=dtype).reshape(shape)
    made = module(package).huber(x, delta=0.7)
    assert made.dtype == dtype
    torch.testing.assert_close(made, huber(x, 0.7))
    v = torch.arange(1.0, 3.0, dtype=dtype).expand(*shape, 2)
    assert module(package).unit(v).shape == v.shape


def test_gradients_that_are_stopped(package: ModuleType) -> None:
    x = torch.tensor([-2.0, 0.5], requires_grad=True)
    value = module(package).kept(x)
    torch.testing.assert_close(value, huber(x, 1.0))
    (gradient,) = torch.autograd.grad(value.sum(), x)
    torch.testing.assert_close(gradient, 2 * x)


def test_environments_call_them(package: ModuleType) -> None:
    check_env(lambda: package.Drift(batch_size=(3,)), steps=10)
    data = package.Drift(batch_size=(4,)).rollout(5)
    wanted = -huber(data["next", "x"], 1.0).sum(-1) - huber(data["y"], 0.5)
    torch.testing.assert_close(data["next", "reward"][..., 0], wanted)


@pytest.mark.parametrize(
    ("chain", "env", "keys"),
    [("Swing", "specgen_std.envs.pendulum:Pendulum", {}), ("Drifting", "calling:Drift", {"x": "far"})],
)
def test_chains_whose_file_does_not_import_them(
    package: ModuleType, chain: str, env: str, keys: dict[str, str]
) -> None:
    place, _, name = env.partition(":")
    base: EnvBase = getattr(__import__(place, fromlist=[name]), name)(batch_size=(2,))
    transform = package.Huber(in_keys=list(keys) or ["observation"], out_keys=list(keys.values()) or None)
    found = [getattr(package, chain)(batch_size=(2,)), TransformedEnv(base, transform)]
    rollouts = []
    for one in found:
        one.set_seed(3)
        torch.manual_seed(4)  # of the actions
        rollouts.append(one.rollout(4))
    fused, dynamic = rollouts
    key = next(iter(keys.values()), "observation")
    torch.testing.assert_close(fused["next", key], dynamic["next", key])


def test_python_declares_the_same() -> None:
    declared = Module(
        functions={
            "scaled": SharedFunction(
                args={"x": Arg(type="float[n]", doc="what is scaled")},
                params={"k": Param(default=2.0, above=0)},
                returns="x * k",
                type="float[n]",
            )
        },
        envs={
            "Box": Env(
                state={"x": "float32[2]"},
                action={"a": "float32"},
                reset={"x": "zeros((2,))"},
                step={"next.x": "scaled(x, k=3.0) + a", "reward": "sum(x)"},
            )
        },
    )
    data = declared.model_dump(by_alias=True, exclude_unset=True) | {"specgen": 1}
    config = Config("schemas", "made", "made")
    python = compile_sources({"schemas/box.py": PythonSchema(data)}, config)
    text = compile_sources({"schemas/box.yaml": yaml.safe_dump(data, sort_keys=False)}, config)
    assert not python.diagnostics
    assert python.files == text.files


def test_an_edit_reaches_what_calls_through_other_files(tmp_path: Path) -> None:
    """The type of a result follows from functions of files that the edited one is imported by."""
    from specgen.project.build import Workspace
    from specgen.project.config import load_project

    (tmp_path / "schemas").mkdir()
    (tmp_path / "pyproject.toml").write_text(
        '[tool.specgen]\nschemas = "schemas"\noutput = "gen"\npackage = "gen"\n', encoding="utf-8"
    )
    first = 'specgen: 1\nfunctions:\n  a: {args: {x: "float[n]"}, returns: %s}\n'
    texts = {
        "first": first % "x",
        "second": 'specgen: 1\nimport: [first]\nfunctions:\n  b: {args: {x: "float[n]"}, returns: a(x) + 1}\n',
        "third": 'specgen: 1\nimport: [second]\nfunctions:\n  c: {args: {x: "float[n]"}, returns: b(x), type: "float[n]"}\n',
    }
    for name, text in texts.items():
        (tmp_path / "schemas" / f"{name}.yaml").write_text(text, encoding="utf-8")
    workspace = Workspace(load_project(tmp_path))
    assert not workspace.check().diagnostics
    (tmp_path / "schemas" / "first.yaml").write_text(first % '"sum(x, axis=-1)"', encoding="utf-8")
    assert [item.code for item in workspace.check().diagnostics] == ["SG147"]
