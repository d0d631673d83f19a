"""Declared specs become spec objects: one object for each of its forms, the one that is written by hand."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

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

from specgen import Env, Module, Spec
from specgen.settings import Config
from specgen.source import PythonSchema
from tests.support import compile_sources, generate, imported


@dataclass(frozen=True)
class Form:
    """One spec: its short form, the fields of its long form, and the object."""

    short: str
    long: dict[str, Any]
    by_hand: Callable[[torch.device], TensorSpec]


FORMS = {
    "free": Form(
        "float32",
        {"kind": "unbounded"},
        lambda device: Unbounded(shape=(), dtype=torch.float32, device=device),
    ),
    "image": Form(
        "uint8[4, 4, 3]",
        {"kind": "unbounded", "shape": [4, 4, 3], "dtype": "uint8"},
        lambda device: Unbounded(shape=(4, 4, 3), dtype=torch.uint8, device=device),
    ),
    "numbers": Form(
        "float32[3] in [-1, 1]",
        {"kind": "bounded", "shape": [3], "low": -1, "high": 1},
        lambda device: Bounded(-1, 1, (3,), device, torch.float32),
    ),
    "angles": Form(
        "float64[2] in [[-pi, -1], inf]",
        {"kind": "bounded", "shape": [2], "dtype": "float64", "low": ["-pi", -1], "high": math.inf},
        lambda device: Bounded([-math.pi, -1.0], math.inf, (2,), device, torch.float64),
    ),
    "cells": Form(
        "int64[n, 2] in [0, size - 1]",
        {"kind": "bounded", "shape": ["n", 2], "dtype": "int64", "low": 0, "high": "size - 1"},
        lambda device: Bounded(0, 4, (3, 2), device, torch.int64),
    ),
    "extremes": Form(
        "int64[2] in [[-9223372036854775808, 0], [0, 9223372036854775807]]",
        {
            "kind": "bounded",
            "shape": [2],
            "dtype": "int64",
            "low": [-(2**63), 0],
            "high": [0.0, 2**63 - 1],
        },
        lambda device: Bounded([-(2**63), 0], [0, 2**63 - 1], (2,), device, torch.int64),
    ),
    "choice": Form(
        "categorical(4)", {"kind": "categorical", "n": 4}, lambda device: Categorical(4, (), device)
    ),
    "choices": Form(
        "categorical(size, dtype=int16)[n]",
        {"kind": "categorical", "n": "size", "shape": ["n"], "dtype": "int16"},
        lambda device: Categorical(5, (3,), device, torch.int16),
    ),
    "hot": Form("onehot(4)", {"kind": "onehot", "n": 4}, lambda device: OneHot(4, (4,), device)),
    "hots": Form(
        "onehot(2, dtype=float32)[n]",
        {"kind": "onehot", "n": 2, "shape": ["n"], "dtype": "float32"},
        lambda device: OneHot(2, (3, 2), device, torch.float32),
    ),
    "several": Form(
        "multi_categorical(3, 2)",
        {"kind": "multi_categorical", "nvec": [3, 2]},
        lambda device: MultiCategorical([3, 2], (2,), device),
    ),
    "severals": Form(
        "multi_categorical(3, size, dtype=uint8)[2]",
        {"kind": "multi_categorical", "nvec": [3, "size"], "shape": [2], "dtype": "uint8"},
        lambda device: MultiCategorical([3, 5], (2, 2), device, torch.uint8),
    ),
    "seats": Form(
        "multi_onehot(3, 2)",
        {"kind": "multi_onehot", "nvec": [3, 2]},
        lambda device: MultiOneHot([3, 2], (5,), device),
    ),
    "rows": Form(
        "multi_onehot(n, 2, dtype=int64)[2]",
        {"kind": "multi_onehot", "nvec": ["n", 2], "shape": [2], "dtype": "int64"},
        lambda device: MultiOneHot([3, 2], (2, 5), device, torch.int64),
    ),
    "bits": Form(
        "binary[8]", {"kind": "binary", "shape": [8]}, lambda device: Binary(shape=(8,), device=device)
    ),
    "floats": Form(
        "binary(dtype=float32)[2, 2]",
        {"kind": "binary", "shape": [2, 2], "dtype": "float32"},
        lambda device: Binary(shape=(2, 2), device=device, dtype=torch.float32),
    ),
    "truths": Form(
        "bool[n, 5]",
        {"kind": "binary", "shape": ["n", 5], "dtype": "bool"},
        lambda device: Binary(shape=(3, 5), device=device, dtype=torch.bool),
    ),
    "truth": Form(
        "bool",
        {"kind": "unbounded", "dtype": "bool"},
        lambda device: Categorical(2, (), device, torch.bool),
    ),
    "arm.names": Form(
        "float32 in [0, 1]",
        {"kind": "bounded", "low": 0, "high": 1.0, "doc": "a key that Composite has a keyword for"},
        lambda device: Bounded(0, 1, (), device, torch.float32),
    ),
}
DIMS = {"n": 3, "size": 5}
CPU = torch.device("cpu")
STEP = {"next.x": "x", "reward": "x"}


def named(key: str) -> str:
    return "Spec" + key.title().replace(".", "")


def env(specs: dict[str, Any]) -> dict[str, Any]:
    """A declaration with all specs as actions, as a plain mapping."""
    return {
        "doc": "Everything.",
        "allow": ["SG142", "SG351"],
        "dims": DIMS,
        "state": {"x": "float32"},
        "action": specs,
        "reset": {"x": "0.0"},
        "step": STEP,
        "observation": {"observation": "float32"},
        "observe": {"observation": "x"},
    }


def files(module: dict[str, Any]) -> dict[str, str]:
    """The generated package of a YAML file; JSON is YAML (but for infinity)."""
    text = json.dumps({"specgen": 1, **module}, indent=1).replace("Infinity", ".inf")
    return generate({"all.yaml": text}, "all_specs")


def python_files(module: Module) -> dict[str, str]:
    data = module.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
    made = compile_sources(
        {"schemas/all.py": PythonSchema(data)}, Config("schemas", "all_specs", "all_specs")
    )
    assert not made.diagnostics, made.diagnostics
    return {path.removeprefix("all_specs/"): text for path, text in made.files.items()}


def short_forms() -> dict[str, str]:
    return {key: form.short for key, form in FORMS.items()}


def long_forms() -> dict[str, dict[str, Any]]:
    return {key: {k: v for k, v in form.long.items() if k != "doc"} for key, form in FORMS.items()}


@contextmanager
def module_of(made: dict[str, str], folder: Path) -> Iterator[ModuleType]:
    with imported(made, "all_specs", folder):
        yield importlib.import_module("all_specs.all")


def class_text(made: dict[str, str]) -> str:
    """The generated code from the class on: a module of named specs has more in front of it."""
    text = made["all.py"]
    return text[text.index("class AllParams" if "class AllParams" in text else "class AllRoot") :]


class TestForms:
    """The short form, the long form, a name and a Python object."""

    @pytest.fixture(scope="class")
    def inline(self) -> dict[str, str]:
        return files({"envs": {"All": env(short_forms())}})

    def test_short_and_long(self, inline: dict[str, str]) -> None:
        assert files({"envs": {"All": env(long_forms())}}) == inline

    def test_named(self, inline: dict[str, str]) -> None:
        names = {key: named(key) for key in FORMS}
        short = files({"specs": {named(k): v for k, v in short_forms().items()}, "envs": {"All": env(names)}})
        long = files({"specs": {named(k): v for k, v in long_forms().items()}, "envs": {"All": env(names)}})
        assert short == long
        assert class_text(short) == class_text(inline)

    def test_pydantic(self, inline: dict[str, str]) -> None:
        short = Module(envs={"All": Env(**env(short_forms()))})
        long = Module(envs={"All": Env(**env({key: Spec(**form) for key, form in long_forms().items()}))})
        assert python_files(short) == inline
        assert python_files(long) == inline

    def test_the_code_is_literal(self, inline: dict[str, str]) -> None:
        text = inline["all.py"]
        assert "seats=MultiOneHot([3, 2], shape=(5,), dtype=torch.bool)," in text
        assert "cells=Bounded(low=0, high=4, shape=(3, 2), dtype=torch.int64)," in text
        assert '{"names": Bounded(low=0.0, high=1.0, shape=(), dtype=torch.float32)}' in text


class TestObjects:
    """What the generated module makes."""

    @pytest.fixture(scope="class")
    def module(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
        made = files({"envs": {"All": env(short_forms())}})
        with module_of(made, tmp_path_factory.mktemp("objects")) as module:
            yield module

    @pytest.mark.parametrize("key", FORMS)
    def test_is_the_one_written_by_hand(self, module: ModuleType, key: str) -> None:
        found = module.All(device="cpu").full_action_spec[tuple(key.split("."))]
        wanted = FORMS[key].by_hand(CPU)
        assert found == wanted
        assert (type(found), found.shape, found.dtype) == (type(wanted), wanted.shape, wanted.dtype)
        assert found.is_in(found.rand())

    def test_a_batch_is_expanded(self, module: ModuleType) -> None:
        spec = module.All(batch_size=(2,), device="cpu").full_action_spec
        assert spec == Composite(
            {tuple(key.split(".")): form.by_hand(CPU) for key, form in FORMS.items()}, device=CPU
        ).expand(2)

    def test_every_spec_gets_the_device_of_the_env(self, module: ModuleType) -> None:
        """Made on a device that holds no data: this machine may have no other."""
        device = torch.device("meta")
        made = module.All._specs(SimpleNamespace(device=device))
        groups = [made.action, made.observation, made.reward, made.done, made.state]
        specs = [*groups, *(spec for group in groups for spec in group.values(True))]
        kinds = ("Binary", "Bounded", "Categorical", "Composite", "MultiCategorical", "MultiOneHot", "OneHot")
        for kind in (*kinds, "Unbounded"):
            assert any(isinstance(spec, getattr(module, kind)) for spec in specs), kind
        assert all(spec.device == device for spec in specs)

    def test_specs_are_made_once(self, module: ModuleType) -> None:
        class Counting(module.All):  # type: ignore[misc, name-defined]
            made = 0

            def _specs(self) -> Any:
                type(self).made += 1
                return super()._specs()

        env = Counting(batch_size=(2,))
        assert Counting.made == 1
        assert env.full_action_spec is env.full_action_spec
        for _ in range(3):
            for kind in ("observation", "reward", "done", "state", "full_state"):
                getattr(env, f"{kind}_spec")
            env.rand_action(env.reset())
        env.rollout(3)
        assert Counting.made == 1
        env.to("cpu")
        assert Counting.made <= 2


LIBRARY = """\
specgen: 1
doc: Specs of an arm.
specs:
  Joint: {kind: bounded, shape: [3], low: [-1, -2, -pi], high: 4, doc: Angles in rad.}
  gripper: multi_onehot(3, 2)
  camera_spec: uint8[4, 4, 3]
  cells: int64[n, 2] in [0, size - 1]
  windows: float32[N]
"""
USER = """\
specgen: 1
import: [arm]
envs:
  Arm:
    doc: Moves.
    allow: [SG142, SG351]
    dims: {n: 2, size: 4, N: 3}
    state:
      x: Joint
      at: cells
    action:
      action: gripper
      weights: windows
    observation:
      seen: Joint
    reset:
      x: zeros(3)
      at: zeros((n, 2), dtype=int64)
    step:
      next.x: x
      reward: sum(x)
    observe:
      seen: x
"""


class TestLibraries:
    """A file with `specs:` gives a function for each."""

    @pytest.fixture(scope="class")
    def package(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
        made = generate({"arm.yaml": LIBRARY, "user.yaml": USER}, "arm_specs")
        with imported(made, "arm_specs", tmp_path_factory.mktemp("library")) as package:
            yield package

    def test_functions(self, package: ModuleType) -> None:
        arm = importlib.import_module("arm_specs.arm")
        assert arm.__all__ == ["camera_spec", "gripper_spec", "joint_spec"]
        assert arm.joint_spec("cpu") == Bounded([-1, -2, -math.pi], 4, (3,), "cpu", torch.float32)
        assert arm.gripper_spec(device="cpu") == MultiOneHot([3, 2], (5,), "cpu")
        assert arm.camera_spec() == Unbounded((4, 4, 3), dtype=torch.uint8)
        assert arm.joint_spec() is not arm.joint_spec()
        assert arm.joint_spec.__doc__.startswith(
            "Angles in rad.\n\n    Its tensors are float32[3] in [[-1, -2,"
        )
        assert arm.joint_spec.__annotations__ == {"device": "DEVICE_TYPING | None", "return": "Bounded"}

    def test_the_package_shows_classes_only(self, package: ModuleType) -> None:
        assert package.__all__ == ["Arm", "ArmData", "ArmNext", "ArmNextData", "ArmRoot"]

    def test_environments_have_the_same_objects(self, package: ModuleType) -> None:
        arm = importlib.import_module("arm_specs.arm")
        env = package.Arm(device="cpu")
        assert env.full_observation_spec["seen"] == env.full_state_spec["x"] == arm.joint_spec("cpu")
        assert env.full_action_spec["action"] == arm.gripper_spec("cpu")
        assert env.full_state_spec["at"] == Bounded(0, 3, (2, 2), "cpu", torch.int64)
        assert env.full_action_spec["weights"].shape == (3,)


@pytest.mark.parametrize(
    ("function", "spec", "code"),
    [
        ("spec", "point", "SG106"),
        ("spec", "Point", "SG106"),
        ("other", "point", None),
        ("spec", "spot", None),
    ],
)
def test_functions_of_specs_and_of_environments(function: str, spec: str, code: str | None) -> None:
    text = USER.replace("import: [arm]", f"specs:\n  {spec}: float32[3]").replace("  Arm:", "  Point:")
    for name in ("Joint", "cells", "gripper", "windows"):
        text = text.replace(f": {name}\n", ": float32[3]\n")
    text = text.replace("zeros((n, 2), dtype=int64)", "zeros(3)")
    text = text.replace("dims: {n: 2, size: 4, N: 3}", "dims: {}").replace("sum(x)", f"{function}(sum(x))")
    text = text.replace(
        "    state:", f"    functions: {{{function}: {{args: {{a: float32}}, returns: a}}}}\n    state:"
    )
    made = compile_sources({"schemas/a.yaml": text}, Config("schemas", "made", "made"))
    assert [item.code for item in made.diagnostics] == ([code] if code else [])
