"""Trainings on devices: all that is printed goes through the configuration, and parts may lie apart."""

from __future__ import annotations

import ast
import importlib
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.random_state import load_generator
from specgen_runtime.training import NoSuchDeviceError, available_device, device_param, read_log
from specgen_runtime.training.episode_returns import EpisodeReturns
from specgen_runtime.training.metric_means import MetricMeans
from tensordict import TensorDict

from specgen.settings import Config
from tests.pipelines.small import NAMES, differing, pipeline, rows, small_config
from tests.support import LIBRARY, compile_sources, imported, library_records

CONFIG = Config("schemas", "made", "made")
APART = """\
specgen: 1
doc: A training.
import: [{imports}]
pipelines:
  Training:
    doc: A training.
    extends: {name}
    device: {{{devices}}}
"""
FAMILIES = {
    "ppo_cartpole": (
        "PPOCartPole",
        "chains/cartpole, losses/ppo",
        "env: cpu, policy: cpu, data: cpu, loss: cpu",
    ),
    "dqn_cartpole": ("DQNCartPole", "chains/cartpole, losses/dqn", "loss: cpu"),
    "td3_pendulum": ("TD3Pendulum", "chains/pendulum, losses/td3", "env: cpu, data: cpu"),
    "td3_bc_pendulum": ("TD3BCPendulum", "chains/pendulum, losses/td3", "policy: cpu, loss: cpu"),
}


@pytest.mark.parametrize("name", NAMES)
def test_all_that_is_made_goes_where_the_configuration_says(name: str) -> None:
    """Only the order of rows is drawn on the CPU, so that it is the same everywhere."""
    text = Path(pipeline(name).__file__ or "").read_text(encoding="utf-8")
    made = {
        ast.unparse(node.targets[0]): ast.unparse(node.value)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assign)
    }
    generators = [value for value in made.values() if "torch.Generator(" in value]
    assert generators or name == "bc_pendulum"
    for value in generators:
        alone = "torch.Generator().manual_seed" in value and ("'minibatches'" in value or "'buffer'" in value)
        assert alone or "torch.Generator(self.device)" in value, value
    for target, value in made.items():
        if re.fullmatch(r"self\.(eval_)?env", target):
            assert "device=self.device" in value, value
        if re.fullmatch(r"self\.\w+_network", target):
            assert ".to(self.device)" in value, value
    if "self.buffer" in text:  # which is in the memory of the CPU
        assert re.search(r"parts\.buffer\.sample\(\)(\.reshape\(.*\))?\.to\(parts\.device\)", text)


@pytest.mark.parametrize("name", FAMILIES)
def test_parts_apart_train_as_parts_in_one_place(name: str, tmp_path: Path) -> None:
    """Networks that act with copies of the weights do what those do that learn."""
    parent, needed, devices = FAMILIES[name]
    imports = ", ".join(f"specgen_std/{one}" for one in (f"pipelines/{name}", *needed.split(", ")))
    text = APART.format(imports=imports, name=parent, devices=devices)
    made = compile_sources({"schemas/a.yaml": text}, CONFIG, gymnasium=library_records(), library=LIBRARY)
    assert [str(item) for item in made.diagnostics] == []
    files = {path.removeprefix("made/"): text for path, text in made.files.items()}
    one = pipeline(name)
    # random actions are drawn from torch's generator, which the first weights of the copies were drawn from, too
    numbers = {"random_frames": 0} if name == "td3_pendulum" else {}
    whole = one.train(small_config(one, **numbers), folder=tmp_path / "one")
    with imported(files, "made", tmp_path):
        apart: Any = importlib.import_module("made.a")
        given = {field.name: getattr(whole.config, field.name) for field in fields(whole.config)}
        given.pop("device")
        config = apart.TrainingConfig(**given)
        found = apart.train(config, folder=tmp_path / "apart")
    assert rows(tmp_path / "one") == rows(tmp_path / "apart")
    both = {name: found.state_dict()[name] for name in whole.state_dict()}
    assert differing_but_for_the_policy(whole.state_dict(), both) == []
    (network,) = [value for key, value in vars(found).items() if key.startswith("acting_")]
    learning = getattr(
        found, next(key for key in vars(found) if key.startswith("acting_")).removeprefix("acting_")
    )
    assert network is not learning
    assert differing(dict(network.state_dict()), dict(learning.state_dict())) == []


def differing_but_for_the_policy(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    """As `differing`, without the weights of the policy, which are called otherwise."""
    states = [
        {key: dict(value) if key == "collector" else value for key, value in one.items()} for one in (a, b)
    ]
    for state in states:
        state.get("collector", {}).pop("policy_state_dict", None)
    return differing(*states)


@pytest.mark.parametrize("name", ["dqn_cartpole", "ppo_cartpole", "iql_pendulum"])
def test_a_device_that_is_not_there_is_said_before_anything_is_made(name: str, tmp_path: Path) -> None:
    module = pipeline(name)
    config = small_config(module, device="cuda:63")
    with pytest.raises(ValueError, match="device is 'cuda:63', and"):
        module.train(config, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("wrong", ["gpu", "cuda0", "meta", "cuda:x"])
def test_what_is_no_device_is_refused_by_the_configuration(wrong: str) -> None:
    with pytest.raises(ValueError, match=f"device must be a device .*{wrong}"):
        small_config(pipeline("dqn_cartpole"), device=wrong)
    with pytest.raises(TypeError, match="device"):
        device_param("device", 0)  # type: ignore[arg-type]


def test_a_device_of_this_machine() -> None:
    assert available_device("device", "cpu") == torch.device("cpu")
    assert available_device("device", "cpu:0") == torch.device("cpu")
    if not torch.accelerator.is_available():
        with pytest.raises(
            NoSuchDeviceError, match="device is 'mps', and torch finds no accelerator on this machine"
        ):
            available_device("device", "mps")


def test_metrics_and_returns_that_were_saved_elsewhere_go_on_where_the_data_are() -> None:
    """The meta device stands for another one: it refuses tensors of the CPU."""
    means, returns = MetricMeans(), EpisodeReturns({"return": "episode_reward"})
    for place in ("cpu", "meta"):
        means.add({"a": torch.ones((), device=place), "b": torch.ones((), device=place)})
        next_ = {"reward": torch.ones(2, 3, 1, device=place), "done": torch.ones(2, 3, 1, device=place) > 0}
        returns.add(TensorDict({"next": TensorDict(next_, [2, 3])}, [2, 3], names=[None, "time"]))
    assert {value.device.type for value, _ in means.take().values()} == {"meta"}
    assert {value.device.type for value in returns.take().values()} == {"meta"}


def test_a_generator_goes_on_from_a_state_of_another_kind() -> None:
    """The states of generators of CUDA devices have 16 bytes."""
    state = torch.arange(16, dtype=torch.uint8)
    one, same, other = (torch.Generator() for _ in range(3))
    load_generator(one, state)
    load_generator(same, state)
    load_generator(other, state + 1)
    draws = [torch.rand(3, generator=each) for each in (one, same, other)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    load_generator(one, same.get_state())
    assert torch.equal(torch.rand(3, generator=one), torch.rand(3, generator=same))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", NAMES)
def test_on_a_gpu_and_back(name: str, tmp_path: Path) -> None:
    """All of it is there; on another device the training goes on from there, and from there on the first again."""
    module = pipeline(name)
    config = small_config(module)
    total = "total_updates" if hasattr(config, "total_updates") else "total_frames"
    for round, device in enumerate(("cuda:0", "cpu", "cuda:0"), 1):
        config = replace(config, device=device, **{total: round * getattr(small_config(module), total)})
        parts = module.train(config, folder=tmp_path / "run", resume=round > 1)
        for part in (value for value in vars(parts).values() if isinstance(value, torch.nn.Module)):
            assert all(one.device == parts.device for one in (*part.parameters(), *part.buffers()))
    assert read_log(tmp_path / "run" / "log.csv")[-1][total.removeprefix("total_")] >= getattr(config, total)
