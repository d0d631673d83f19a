"""Edits of what a pipeline is made of compile it again; what is kept from before changes nothing that comes out."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from specgen.compile_project import Compiled
from specgen.diagnostics import render_human
from specgen.memo import Memory
from specgen.project.library import library_schemas
from specgen.settings import Config
from specgen.source.spaces import Space
from tests.support import LIBRARY, compile_sources, library_records

CONFIG = Config("schemas", "made", "made")
NAMES = (
    "pipelines/ppo_pendulum", "chains/pendulum", "losses/ppo", "losses/policy_gradient", "envs/pendulum",
    "transforms/init_tracker", "transforms/reward_scaling", "transforms/reward_sum", "transforms/step_counter",
)  # fmt: skip
GYM = "\n  PendulumGym:"
MINE = """\
specgen: 1
doc: A training.
import: [ppo_pendulum]
pipelines:
  Mine: {doc: A training., extends: PPOPendulum, seed: 3}
"""


def project() -> dict[str, str]:
    library = library_schemas()
    texts = {f"schemas/{name}.yaml": library[f"{name}.yaml"] for name in NAMES}
    for path in ("schemas/envs/pendulum.yaml", "schemas/chains/pendulum.yaml"):
        texts[path] = texts[path].split(GYM)[0].split("\n  PendulumGymTrain:")[0].rstrip() + "\n"
    return texts | {"schemas/pipelines/mine.yaml": MINE}


def compiled(texts: dict[str, str], memo: Memory | None = None) -> Compiled:
    return compile_sources(texts, CONFIG, memo=memo)


def assert_edit(path: str, old: str, new: str, *, codes: set[str]) -> dict[str, str]:
    """Make an edit after a first compilation; what comes out is that of a compilation from nothing."""
    texts, memo = project(), Memory()
    before = compiled(texts, memo)
    assert not before.diagnostics, render_human(before.diagnostics, texts)
    assert old in texts[path]
    texts[path] = texts[path].replace(old, new, 1)
    after, fresh = compiled(texts, memo), compiled(texts)
    assert after.files == fresh.files
    assert render_human(after.diagnostics, texts) == render_human(fresh.diagnostics, texts)
    assert {item.code for item in after.diagnostics} == codes
    module = "made/pipelines/mine.py"
    return {"before": before.files[module], "after": after.files.get(module, "")}


def test_an_edited_number_of_the_parent_reaches_the_child() -> None:
    found = assert_edit("schemas/pipelines/ppo_pendulum.yaml", "lmbda: 0.95", "lmbda: 0.8", codes=set())
    assert "lmbda: float = 0.95" in found["before"]
    assert "lmbda: float = 0.8\n" in found["after"]


def test_an_edited_size_of_the_environment_reaches_the_networks() -> None:
    texts = "stack(cos(th), sin(th), thdot)"
    path = "schemas/envs/pendulum.yaml"
    found = assert_edit(path, texts, "stack(cos(th), sin(th), thdot / 1.0)", codes=set())
    assert found["before"] == found["after"]


def test_an_edited_loss_is_checked_with_the_pipeline() -> None:
    path = "schemas/losses/ppo.yaml"
    old = "default: 0.2\n        min: 0"
    found = assert_edit(path, old, "default: 0.2\n        min: 0.1", codes=set())
    assert 'float_param("clip_epsilon", self.clip_epsilon, at_least=0.1' in found["after"]


def test_a_chain_that_loses_its_limit_breaks_the_pipeline() -> None:
    old = "transforms: [InitTracker, {StepCounter: {max_steps: max_steps}}, RewardSum]"
    path = "schemas/chains/pendulum.yaml"
    assert_edit(path, old, old.replace("{max_steps: max_steps}", "{}"), codes={"SG141", "SG545"})


def test_a_transform_that_changes_a_key_breaks_the_pipeline() -> None:
    old = "transforms: [InitTracker, {StepCounter: {max_steps: max_steps}}, RewardSum]"
    new = old.replace("RewardSum", "{RewardScaling: {loc: 0.0, scale: 0.1}}, RewardSum")
    assert_edit("schemas/chains/pendulum.yaml", old, new, codes={"SG544"})


def test_another_environment_of_the_parent_reaches_a_child_that_does_not_see_it() -> None:
    path = "schemas/pipelines/ppo_pendulum.yaml"
    texts, memo = project(), Memory()
    texts["schemas/chains/other.yaml"] = (
        texts["schemas/chains/pendulum.yaml"]
        .replace("PendulumTrain:", "OtherPendulum:")
        .replace("PendulumPixels", "OtherPixels")
    )
    compiled(texts, memo)
    texts[path] = texts[path].replace("../chains/pendulum", "../chains/other")
    texts[path] = texts[path].replace("env: PendulumTrain", "env: OtherPendulum")
    after, fresh = compiled(texts, memo), compiled(texts)
    assert after.files == fresh.files
    assert not after.diagnostics
    assert "from made.chains.other import OtherPendulum\n" in after.files["made/pipelines/mine.py"]


def test_a_new_record_of_a_simulator_reaches_a_pipeline_that_inherits_it() -> None:
    """The file of the pipeline imports none that names the simulator."""
    child = """\
specgen: 1
import: [specgen_std/pipelines/ppo_pendulum, chains/mine]
pipelines:
  {name}: {{doc: A training., {what}}}
"""
    texts = {
        "schemas/envs/mine.yaml": "specgen: 1\nenvs:\n  Swing: {doc: It swings., gymnasium: {id: Pendulum-v1}}\n",
        "schemas/chains/mine.yaml": """\
specgen: 1
import: [../envs/mine, specgen_std/transforms/init_tracker, specgen_std/transforms/reward_sum]
chains:
  SwingTrain: {doc: It swings., env: Swing, transforms: [InitTracker, RewardSum]}
""",
        "schemas/parent.yaml": child.format(name="Parent", what="extends: PPOPendulum, env: SwingTrain"),
        "schemas/child.yaml": """\
specgen: 1
import: [parent]
pipelines:
  Child: {doc: A training., extends: Parent, seed: 3}
""",
    }
    records, memo = library_records(), Memory()
    make = partial(compile_sources, texts, CONFIG, library=LIBRARY)
    before = make(gymnasium=records, memo=memo)
    assert not before.diagnostics, render_human(before.diagnostics, texts)
    assert "`observation`, float32 [3]" in before.files["made/child.py"]
    old = records["Pendulum-v1"]
    assert isinstance(old.observation, Space)
    wider = replace(old.observation, shape=(4,), low=(-8.0,) * 4, high=(8.0,) * 4)
    records["Pendulum-v1"] = replace(old, observation=wider)
    after, fresh = make(gymnasium=records, memo=memo), make(gymnasium=records, memo=Memory())
    assert after.files == fresh.files
    assert "`observation`, float32 [4]" in after.files["made/child.py"]


def test_comments_move_places_and_nothing_else() -> None:
    for path in (
        "schemas/pipelines/ppo_pendulum.yaml",
        "schemas/chains/pendulum.yaml",
        "schemas/losses/ppo.yaml",
    ):
        found = assert_edit(path, "specgen: 1\n", "# A remark.\n\nspecgen: 1\n", codes=set())
        assert found["before"] == found["after"]


def test_a_comment_in_the_parent_moves_the_places_of_what_is_inherited() -> None:
    texts, memo = project(), Memory()
    texts["schemas/pipelines/mine.yaml"] = MINE.replace("seed: 3", "stop: {frames: 1_000}")
    parent = "schemas/pipelines/ppo_pendulum.yaml"
    compiled(texts, memo)
    texts[parent] = f"# A remark.\n\n{texts[parent]}"
    after, fresh = compiled(texts, memo), compiled(texts)
    assert [item.code for item in after.diagnostics] == ["SG561"]
    assert render_human(after.diagnostics, texts) == render_human(fresh.diagnostics, texts)


def test_a_mistake_of_a_whole_pipeline_is_said_once() -> None:
    texts = project()
    parent = "schemas/pipelines/ppo_pendulum.yaml"
    texts[parent] = texts[parent].replace("gamma: 0.9,", "gamma: 1.9,")
    found = [(item.code, item.span.file) for item in compiled(texts).diagnostics]
    assert found == [("SG411", parent)]


def test_settings_of_layers_that_a_child_leaves_out_are_no_hyper_parameters() -> None:
    texts = project()
    parent = "schemas/pipelines/ppo_pendulum.yaml"
    old = "critic_network: {mlp: [64, 64], activation: tanh}"
    texts[parent] = texts[parent].replace(old, "critic_network: {mlp: [64, 64], dropout: 0.1}")
    texts["schemas/pipelines/mine.yaml"] = MINE.replace("seed: 3", "networks: {critic_network: {mlp: []}}")
    found = compiled(texts)
    assert not found.diagnostics, render_human(found.diagnostics, texts)
    assert "dropout: float = 0.1" in found.files["made/pipelines/ppo_pendulum.py"]
    assert "dropout" not in found.files["made/pipelines/mine.py"]


def test_what_is_inherited_is_allowed_where_it_is_inherited() -> None:
    texts = project()
    never = "extends: PPOPendulum, evaluate: {every: 1_000}, stop: {frames: 3_000}, "
    texts["schemas/pipelines/mine.yaml"] = MINE.replace("extends: PPOPendulum, ", never).replace(
        "seed: 3", "allow: [SG568], checkpoint: {every: 5_000}"
    )
    assert not compiled(texts).diagnostics
    texts["schemas/pipelines/mine.yaml"] = MINE.replace(
        "seed: 3", "value_estimator: {gae: {gamma: 1}}, allow: [SG546]"
    )
    assert not compiled(texts).diagnostics
    parent = "schemas/pipelines/ppo_pendulum.yaml"
    texts[parent] = texts[parent].replace("gamma: 0.9,", "gamma: 1,")
    texts["schemas/pipelines/mine.yaml"] = MINE.replace("seed: 3", "seed: 4")
    assert [(item.code, item.span.file) for item in compiled(texts).diagnostics] == [("SG546", parent)]
    texts[parent] = texts[parent].replace(
        "    env: PendulumTrain", "    abstract: true\n    env: PendulumTrain"
    )
    here = "schemas/pipelines/mine.yaml"
    assert [(item.code, item.span.file) for item in compiled(texts).diagnostics] == [("SG546", here)]
    texts[here] = MINE.replace("seed: 3", "allow: [SG546]")
    assert not compiled(texts).diagnostics
