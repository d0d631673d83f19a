"""A `map` that makes rewards and observations: at a reset it makes what needs no reward, in chains as in the classes."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType

import pytest
from specgen_runtime.envs import check_env_specs
from specgen_runtime.transforms import Compose, TransformedEnv

from tests.agreement.interpreted import interpreted, printed_programs
from tests.agreement.test_random_chains import same_chains
from tests.support import generate, imported

SCHEMA = """
specgen: 1
envs:
  Walk:
    action: {action: "float32[2] in [-1, 1]"}
    state: {x: "float32[2] in [-9, 9]"}
    reset: {x: "uniform(-1, 1, shape=2)"}
    step:
      next.x: clip(x + action, -9, 9)
      reward: clip(sum(next.x), -1, 2)
      terminated: any(next.x > 4.0)
    observation: {seen: "float32[2] in [-9, 9]"}
    observe: {seen: x}
transforms:
  Both:
    doc: A reward and observations, of which some are made of others.
    params: {scale: {default: 2.0, above: 0}, near: {default: true, static: true}}
    in:
      reward: {key: reward, type: "float32[]"}
      x: {each: [seen], type: "float32[2]"}
    out:
      twice: {each: x, name: "twice_{}"}
      more: {each: x, name: "more_{}", when: near}
      scaled: {key: scaled, type: "float32[]", group: reward}
    map:
      much: scale * x
      twice: much
      more: twice + 1
      scaled: scale * reward + sum(much)
chains:
  Mapped: {env: Walk, transforms: [Both]}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    with imported(generate({"both.yaml": SCHEMA}, "both"), "both", tmp_path_factory.mktemp("both")):
        yield importlib.import_module("both.both")


@pytest.mark.parametrize("near", [True, False])
def test_a_reset_makes_what_needs_no_reward(made: ModuleType, near: bool) -> None:
    env = TransformedEnv(made.Walk(batch_size=[3]), made.Both(near=near))
    check_env_specs(env)
    data = env.reset()
    assert data["twice_seen"].equal(2 * data["seen"])
    assert ("more_seen" in data) is near
    assert "scaled" not in data
    step = env.step(env.rand_action(data))["next"]
    assert step["scaled"].equal(2 * step["reward"] + 2 * step["seen"].sum(-1, keepdim=True))
    assert step["twice_seen"].equal(2 * step["seen"])


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)], ids=str)
def test_a_chain_is_as_the_classes(made: ModuleType, batch: tuple[int, ...]) -> None:
    fused = made.Mapped(batch_size=batch)
    dynamic = TransformedEnv(made.Walk(batch_size=batch), Compose(made.Both()))
    same_chains(fused, dynamic)


def test_functions_are_as_they_are_interpreted(tmp_path_factory: pytest.TempPathFactory) -> None:
    with printed_programs() as programs:
        files = generate({"both.yaml": SCHEMA}, "both_again")
    with imported(files, "both_again", tmp_path_factory.mktemp("interpreted")):
        module = importlib.import_module("both_again.both")
        with interpreted(module, programs, "mapped") as counts:
            module.Mapped(batch_size=(2,)).rollout(3)
        assert sum(counts.values()) > 0
        with interpreted(module, programs, "both_map") as counts:
            TransformedEnv(module.Walk(batch_size=(2,)), module.Both()).rollout(3)
        assert len(counts) == 3, counts
