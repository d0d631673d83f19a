"""Losses that extend others: what comes out is what a whole declaration gives."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch
import yaml
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from specgen import Module
from specgen.schema.loss import Loss, LossKey, LossParam, Network, PassedModule
from specgen.settings import Config
from specgen.source import PythonSchema
from tests.support import compile_sources, imported

CONFIG = Config("schemas", "made", "made")
PARENT = """\
specgen: 1
losses:
  Parent:
    {abstract}
    networks:
      critic: {{in: [observation], out: {{state_value: "float32[1]"}}, target: delay, doc: of states.}}
    keys: {{reward: reward, terminated: terminated, priority: {{key: td_error, doc: how wrong.}}}}
    params: {{delay: {{default: true, doc: lagging.}}, scale: {{default: 1.0, min: 0}}}}
    require: {{scale is given: scale > 0 or delay}}
    value_estimator: {{default: td0, supports: [td0, td1], value: next_value}}
    let:
      value: critic(now)
      next_value: critic.target(next)
      goal: stop_grad(value_estimate(next_value))
      error: goal - value
    terms: {{loss: scale * error**2}}
    metrics: {{goal_mean: goal}}
    writes: {{priority: abs(error)}}
"""
CHILD = """
  Child:
    extends: Parent
    doc: Another one.
    networks: {critic: {doc: of all states.}}
    keys: {priority: error}
    params: {scale: 3.0, power: 1.5, delay: {doc: a copy.}}
    require: drop
    value_estimator: td1
    let:
      half: 0.5 * far
      far: abs(error)**power
      unread_before: 2 * value
      next_value: critic.target(next) + unread_before
    terms: {loss: scale * half}
    metrics: {goal_mean: drop, half: half}
"""
WHOLE = """\
specgen: 1
losses:
  Child:
    doc: Another one.
    networks:
      critic: {in: [observation], out: {state_value: "float32[1]"}, target: delay, doc: of all states.}
    keys: {reward: reward, terminated: terminated, priority: {key: error, doc: how wrong.}}
    params: {delay: {default: true, doc: a copy.}, scale: {default: 3.0, min: 0}, power: 1.5}
    value_estimator: {default: td1, supports: [td0, td1], value: next_value}
    let:
      value: critic(now)
      unread_before: 2 * value
      next_value: critic.target(next) + unread_before
      goal: stop_grad(value_estimate(next_value))
      error: goal - value
      far: abs(error)**power
      half: 0.5 * far
    terms: {loss: scale * half}
    metrics: {half: half}
    writes: {priority: abs(error)}
"""


def made(*texts: str) -> list[str]:
    """The generated modules of files, without what names them and their digest."""
    files = {f"schemas/f{index}.yaml": text for index, text in enumerate(texts)}
    compiled = compile_sources(files, CONFIG)
    assert not compiled.diagnostics, compiled.diagnostics
    names = [f"made/f{index}.py" for index in range(len(texts))]
    return [compiled.files[name].split('"""', 1)[1] for name in names]


def without(text: str, *names: str) -> str:
    return "\n".join(line for line in text.splitlines() if not any(name in line for name in names))


def test_a_child_of_an_abstract_loss_is_what_a_whole_declaration_gives() -> None:
    # `half` reads `far`, which stands behind it: a new value stands before the first that reads it
    child = CHILD.replace("      half: 0.5 * far\n", "").replace(
        "**power\n", "**power\n      half: 0.5 * far\n"
    )
    assert made(PARENT.format(abstract="abstract: true") + child) == made(WHOLE)


def test_a_new_value_stands_before_the_first_that_reads_it() -> None:
    (text,) = made(PARENT.format(abstract="abstract: true") + CHILD)
    lines = [
        line.split(" = ")[0].strip()
        for line in text.splitlines()
        if line.startswith("    ") and " = " in line
    ]
    assert lines.index("far") < lines.index("half")


def test_parents_of_other_files_are_the_same() -> None:
    parent, child = PARENT.format(abstract="abstract: true"), f"specgen: 1\nimport: [f0]\nlosses:{CHILD}"
    assert made(parent, child)[1].split("losses.", 1)[1] == made(parent + CHILD)[0].split("losses.", 1)[1]


def test_the_same_in_python() -> None:
    parent = Loss(
        abstract=True,
        networks={"critic": Network(in_=["observation"], out={"state_value": "float32[1]"}, target=True)},
        keys={"reward": "reward", "terminated": "terminated", "priority": "td_error"},
        value_estimator="td0",
        let={"value": "critic(now)", "goal": "stop_grad(value_estimate(critic.target(next)))"},
        terms={"loss": "distance(value, goal, l2)"},
        writes={"priority": "abs(value - goal)"},
    )
    child = Loss.model_validate(
        {
            "extends": "Parent",
            "networks": {"critic": {"doc": "of states."}, "other": "drop"},
            "learnable": {"temperature": "drop"},
            "keys": {"priority": LossKey(key="error")},
            "terms": {"loss": "distance(value, goal, l1)"},
        }
    )
    schema = Module(losses={"Parent": parent, "Child": child})
    data = schema.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
    compiled = compile_sources({"schemas/f0.py": PythonSchema(data)}, CONFIG)
    assert [item.code for item in compiled.diagnostics if item.severity == "error"] == ["SG453", "SG453"]
    del data["losses"]["Child"]["networks"]["other"], data["losses"]["Child"]["learnable"]
    text = yaml.safe_dump(data, sort_keys=False)
    in_python = compile_sources({"schemas/f0.py": PythonSchema(data)}, CONFIG)
    assert in_python.files["made/f0.py"].split('"""', 1)[1] == made(text)[0]


def test_fields_of_networks_and_keys_are_dropped_in_python_as_in_yaml() -> None:
    parent = Loss(
        networks={"actor": Network(policy="action", plain="delta", in_=["observation"])},
        keys={"action": LossKey(key="action", type="float32[a]", domain=["action_spec", "actor"])},
        params={"size": LossParam(type="float", default="auto", auto="dim(action)")},
        modules={"scaler": PassedModule(protocol="normalizer", optional=True)},
        let={"size_of": "where(given(scaler), scaler.normalize(mode(actor(now))), mode(actor(now)))"},
        terms={"loss": "size + sum(size_of)"},
    )
    child = Loss(
        extends="Parent",
        networks={
            "actor": Network(
                policy="drop", plain=True, out={"near": "float32[a]"}, in_=["action"], trains=True
            )
        },
        keys={"action": LossKey(domain="drop")},
        params={"size": LossParam(default=1.0, auto="drop")},
        let={"size_of": "actor(now)"},
        modules={"scaler": "drop"},
    )
    schema = Module(losses={"Parent": parent, "Child": child})
    data = schema.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
    compiled = compile_sources({"schemas/f0.py": PythonSchema(data)}, CONFIG)
    assert not compiled.diagnostics, compiled.diagnostics
    text = compiled.files["made/f0.py"]
    assert text.split('"""', 1)[1] == made(yaml.safe_dump(data, sort_keys=False))[0]
    behind = text[text.index("class Child(Parent)") :]
    assert "self.actor(self._read(tensordict, keys.action" in behind
    assert "action_spec" not in behind
    assert "scaler" not in behind


def test_the_class_extends_that_of_the_parent(tmp_path: Path) -> None:
    files = {
        "schemas/parent.yaml": PARENT.format(abstract="doc: The first."),
        "schemas/child.yaml": f"specgen: 1\nimport: [parent]\nlosses:{CHILD}    writes: drop\n".replace(
            "keys: {priority: error}", "keys: {priority: drop}"
        ),
    }
    compiled = compile_sources(files, CONFIG)
    assert not compiled.diagnostics, compiled.diagnostics
    files = {path.removeprefix("made/"): text for path, text in compiled.files.items()}
    with imported(files, "made", tmp_path):
        parent = importlib.import_module("made.parent").Parent
        child = importlib.import_module("made.child").Child
        assert child.__bases__ == (parent,)
        network = TensorDictModule(nn.Linear(2, 1), ["observation"], ["state_value"])
        loss = child(network, power=2.0)
        # the parent's constructor is not run: it would know no `power`, and refuse nothing of this
        assert (loss.scale, loss.power, loss.delay) == (3.0, 2.0, True)
        assert "priority" in parent(network)._AcceptedKeys.__dataclass_fields__
        with pytest.raises(ValueError, match="priority"):
            loss.set_keys(priority="x")
        with pytest.raises(ValueError, match="scale is given"):
            parent(network, scale=0.0, delay=False)
        child(network, scale=0.0, delay=False)  # it drops the requirement
        step = {"observation": torch.randn(4, 2), "reward": torch.randn(4, 1)}
        step |= {
            "done": torch.zeros(4, 1, dtype=torch.bool),
            "terminated": torch.zeros(4, 1, dtype=torch.bool),
        }
        data = TensorDict({"observation": torch.randn(4, 2), "next": step}, [4])
        loss.make_value_estimator("TD0", gamma=0.5)
        value, following = network(data.clone())["state_value"], network(data["next"].clone())["state_value"]
        goal = step["reward"] + 0.5 * (following + 2 * value)
        expected = 3.0 * 0.5 * ((goal - value) ** 2).mean()
        with pytest.warns(UserWarning, match="updater"):
            torch.testing.assert_close(loss(data)["loss"], expected)
        assert not {"error", "td_error"} & set(data.keys())
