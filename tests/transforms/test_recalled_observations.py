"""Steps of fused chains that read an observation as it was before the step, from roots that lack it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.transforms import Compose, TransformedEnv
from tensordict import TensorDictBase

from tests.agreement.gymnasium_arms import RECORDS, registered
from tests.support import compile_texts, imported

SCHEMA = """
specgen: 1
import: [specgen_std/transforms/step_counter]
transforms:
  Change:
    in: {x: {each: [env.observation], type: "float[...]"}}
    out: {change: {each: x, name: "change_{}"}}
    reset: {change: zeros_like(x)}
    step: {next.change: next.x - x}
envs:
  Arm: {gymnasium: {id: specgen-arm-v0}}
chains:
  Counted: {env: Arm, transforms: [{Change: {in_keys: [observation]}}, StepCounter]}
  Alone: {env: Arm, transforms: [{Change: {in_keys: [observation]}}]}
"""


METHODS: dict[str, Callable[[Any, TensorDictBase], Any]] = {
    "step": lambda env, root: env.step(root),
    "step_and_maybe_reset": lambda env, root: env.step_and_maybe_reset(root),
    "_step": lambda env, root: env._step(root),
    "rollout": lambda env, root: env.rollout(2, auto_reset=False, tensordict=root),
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files, said, _ = compile_texts({"sample.yaml": SCHEMA}, "recalling", RECORDS)
    assert files, said
    with registered(), imported(files, "recalling", tmp_path_factory.mktemp("generated")) as package:
        yield package


@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize("name", ["Counted", "Alone"])
@pytest.mark.parametrize("method", METHODS)
def test_a_root_without_it(package: ModuleType, name: str, method: str, general: bool) -> None:
    env = getattr(package, name)()
    if general:  # not by rows of NumPy
        env.check_finite = True
    root = env.rand_action(env.reset())
    lacking = root.exclude("observation")
    call = METHODS[method]
    with pytest.raises(KeyError, match=rf"{name}.*Change reads 'observation'.*'change_observation'"):
        call(env, lacking)
    other = root.clone().set("observation", root["observation"].double())
    with pytest.raises(TypeError, match=r"'observation' .*float64"):
        call(env, other)
    call(env, root)
    dynamic = TransformedEnv(package.Arm(), Compose(package.Change(in_keys=["observation"])))
    with pytest.raises(KeyError, match="Change reads 'observation'"):
        dynamic.step(dynamic.rand_action(dynamic.reset()).exclude("observation"))


def test_a_simulator_goes_on_without_flags(package: ModuleType) -> None:
    env = package.Alone()
    root = env.rand_action(env.reset())
    flags = ("done", "terminated", "truncated")
    stepped = env.step(root.clone().exclude(*flags))
    change = stepped["next", "observation"] - root["observation"]
    assert torch.equal(stepped["next", "change_observation"], change)
