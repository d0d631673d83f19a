"""Schemas as engineers write them, with nothing to complain of: no diagnostic of any kind, and all of it runs.

Whoever adds a rule finds its false alarms here. Each idiom that looks like a mistake and is none has its place in one
of the files: a horizon that is part of the task, a table that is drawn and kept, a flag that asks the old state because
the action does, one draw that moves a whole formation.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import GeneratedEnv, GeneratedGymEnv
from specgen_runtime.testing import check_env
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from specgen.diagnostics import Sink
from specgen.schema.load import load
from specgen.schema.module import Module
from specgen.source import parse_yaml
from tests.support import generate, imported

FOLDER = Path(__file__).parent / "schemas"
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.yaml"))}


def declared(name: str, text: str) -> Module:
    sink = Sink()
    root = parse_yaml(name, text, sink)
    assert root is not None
    file = load(name, root, sink)
    assert file is not None
    return file.module


MODULES = {name: declared(name, text) for name, text in TEXTS.items()}


def of(section: str) -> list[tuple[str, str]]:
    return [(name, each) for name, module in MODULES.items() for each in getattr(module, section)]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with imported(generate(TEXTS, "right"), "right", tmp_path_factory.mktemp("right")) as made:
        yield made


def module_of(package: ModuleType, name: str) -> ModuleType:
    return importlib.import_module(f"{package.__name__}.{name.removesuffix('.yaml')}")


def test_there_are_many() -> None:
    assert sum(len(of(section)) for section in ("envs", "transforms", "chains", "losses")) >= 30


@pytest.mark.parametrize("name", TEXTS)
def test_nothing_is_said(name: str) -> None:
    assert generate({name: TEXTS[name]}, "right")  # it asserts that there are no diagnostics


@pytest.mark.parametrize(("name", "env"), [*of("envs"), *of("chains")])
def test_environments_and_chains_keep_the_contract(package: ModuleType, name: str, env: str) -> None:
    made = getattr(module_of(package, name), env)
    if issubclass(made, GeneratedGymEnv):
        assert made().rollout(5).shape[-1] == 5
        return
    assert issubclass(made, GeneratedEnv)
    check_env(lambda: made(batch_size=(3,)), steps=30, pickling=False)


def network(loss: str, name: str, text: str) -> TensorDictModule:
    declared = MODULES[name].losses[loss].networks[text]
    ((output, kind),) = declared.out.items()
    width = 1 if "[1]" in kind else 3
    return TensorDictModule(nn.Linear(4, width), in_keys=declared.in_, out_keys=[output])


def transitions() -> TensorDict:
    rows = 6
    after = {
        "observation": torch.randn(rows, 4),
        "reward": torch.randn(rows, 1),
        "terminated": torch.rand(rows, 1) < 0.5,
        "done": torch.ones(rows, 1, dtype=torch.bool),
    }
    before = {
        "observation": torch.randn(rows, 4),
        "action": torch.randint(3, (rows,)),
        "discount": torch.rand(rows, 1),
    }
    return TensorDict({**before, "next": TensorDict(after, [rows])}, [rows])


@pytest.mark.filterwarnings("ignore:No target network updater")
@pytest.mark.parametrize(("name", "loss"), of("losses"))
def test_losses_train_their_networks(package: ModuleType, name: str, loss: str) -> None:
    declared = MODULES[name].losses[loss]
    networks = {text: network(loss, name, text) for text in declared.networks}
    valued = {"action_space": "categorical"} if any(n.qvalue for n in declared.networks.values()) else {}
    made = getattr(module_of(package, name), loss)(**networks, **valued)
    result = made(transitions())
    sum(result[term] for term in declared.terms).backward()
    trained = [
        text
        for text in networks
        if f"{text}.frozen" not in TEXTS[name].split(f"  {loss}:")[1].split("\n\n")[0]
    ]
    for text in trained:
        params = [
            each for key, each in made.named_parameters() if key.startswith(text) and each.requires_grad
        ]
        assert params
        assert any(each.grad is not None and bool(each.grad.any()) for each in params), text
