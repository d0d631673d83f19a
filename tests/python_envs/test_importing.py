"""The user's class is imported when an environment is made; what is missing is named, with the schema's text."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from tests.python_envs.support import CLASSES, MODULE, envs


def test_no_module_yet(tmp_path: Path) -> None:
    with envs(tmp_path) as (generated, user):
        (tmp_path / f"{MODULE}.py").unlink()
        del sys.modules[user.__name__]
        importlib.invalidate_caches()
        with pytest.raises(
            ImportError,
            match=r"Walk: its schema says `python: python_envs_user:Walk`, but there is no module 'python_envs_user';"
            r" write it as the Protocol in python_envs_rl\.envs says",
        ):
            generated.Walk()


def test_no_class_yet(tmp_path: Path) -> None:
    with (
        envs(tmp_path, "x = 1\n") as (generated, _),
        pytest.raises(ImportError, match="but 'python_envs_user' has no class 'Counter'"),
    ):
        generated.CounterTrain()


@pytest.mark.parametrize("place", ["at the top", "in the constructor"])
def test_failures_inside_the_module_are_its_own(tmp_path: Path, place: str) -> None:
    lame = (
        CLASSES.replace("        Walk.made += 1", "        import nothing_like_it")
        if place == "in the constructor"
        else CLASSES
    )
    with envs(tmp_path, lame) as (generated, user):
        if place == "at the top":
            (tmp_path / f"{MODULE}.py").write_text("import nothing_like_it")
            del sys.modules[user.__name__]
            importlib.invalidate_caches()
        with pytest.raises(ModuleNotFoundError, match=r"^No module named 'nothing_like_it'$"):
            generated.Walk()


def test_generated_code_imports_no_class(tmp_path: Path) -> None:
    with envs(tmp_path, "raise AssertionError", load=False) as (generated, _):
        assert generated.WalkProtocol


def test_a_class_without_step(tmp_path: Path) -> None:
    lame = CLASSES.replace(
        "def step(self, action: Tensor) -> CounterStep", "def go(self, action: Tensor) -> CounterStep"
    )
    with (
        envs(tmp_path, lame) as (generated, _),
        pytest.raises(TypeError, match="Counter: python_envs_user:Counter has no method 'step'"),
    ):
        generated.Counter()


def test_a_subclass_of_the_protocol_without_step(tmp_path: Path) -> None:
    lame = CLASSES.replace("    def step(\n        self, state", "    def go(\n        self, state")
    with envs(tmp_path, lame) as (generated, _), pytest.raises(TypeError, match=r"abstract method '?step"):
        generated.Walk()
