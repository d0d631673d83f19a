"""Pipelines declared in Python: by the public classes, the same declaration gives the same bytes as in YAML."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import specgen
from specgen import (
    GSDE,
    SGD,
    Acting,
    AdamW,
    Checkpoint,
    Data,
    Devices,
    Estimating,
    EstimatorNumbers,
    Evaluate,
    Explore,
    GaussianNoise,
    Hard,
    Init,
    Module,
    NetworkBody,
    OnlineAndRecorded,
    OnPolicy,
    OptimizerGroup,
    OrnsteinUhlenbeck,
    Orthogonal,
    Param,
    Pipeline,
    Replay,
    RMSprop,
    Sampler,
    Scale,
    Slices,
    Soft,
    Stop,
    TargetUpdate,
    Workers,
)
from specgen.settings import Config
from specgen.source import PythonSchema
from tests.support import LIBRARY, compile_sources, library_records

CONFIG = Config("schemas", "made", "made")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "language" / "pipelines.md"


def printed(path: str, source: str | PythonSchema) -> str:
    """The module that a schema becomes, without the line that names the schema."""
    compiled = compile_sources({path: source}, CONFIG, gymnasium=library_records(), library=LIBRARY)
    assert not compiled.diagnostics, compiled.diagnostics
    return compiled.files["made/a.py"].split('"""', 1)[1]


def in_python(schema: Module) -> PythonSchema:
    return PythonSchema(schema.model_dump(by_alias=True, exclude_unset=True, exclude_none=True))


def test_the_page_shows_the_same_pipeline_twice() -> None:
    text = PAGE.read_text(encoding="utf-8")
    yaml = re.search(r"^```yaml\n(specgen: 1\n.*?)^```$", text, re.MULTILINE | re.DOTALL)
    python = re.search(r"^```python\n(from specgen import .*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert yaml
    assert python
    names: dict[str, Any] = {}
    exec(python[1], names)
    assert printed("schemas/a.py", in_python(names["schema"])) == printed("schemas/a.yaml", yaml[1])


@pytest.mark.parametrize(
    ("parent", "names", "loss", "whole"),
    [
        ("PPOPendulum", "pipelines/ppo_pendulum chains/pendulum losses/ppo", "PPOLoss", "{PPOLoss: {}}"),
        (
            "PPORNDMountainCar",
            "pipelines/ppo_rnd_mountain_car chains/mountain_car losses/ppo losses/rnd",
            {"agent": "PPOLoss"},
            "{agent: {PPOLoss: {}}}",
        ),
    ],
)
def test_a_loss_without_arguments_is_its_name(
    parent: str, names: str, loss: str | dict[str, str | dict[str, Any]], whole: str
) -> None:
    """The same as with empty ones, in YAML and in Python, also where losses have names."""
    imports = [f"specgen_std/{name}" for name in names.split()]
    head = f"specgen: 1\nimport: [{', '.join(imports)}]\npipelines:\n  Mine: {{extends: {parent}, loss: "
    wanted = printed("schemas/a.yaml", f"{head}{whole}}}\n")
    assert printed("schemas/a.yaml", head + str(loss).replace("'", "") + "}\n") == wanted
    schema = Module(import_=imports, pipelines={"Mine": Pipeline(extends=parent, loss=loss)})
    assert printed("schemas/a.py", in_python(schema)) == wanted


TWINS: dict[str, tuple[Pipeline, str]] = {
    "on_policy": (
        Pipeline(
            env="PendulumTrain",
            params={"width": Param(default=64, min=1)},
            networks={
                "actor_network": NetworkBody(
                    mlp=["width"], scale=Scale(parameter=0.6), init=Init(orthogonal=Orthogonal(gain=1.0))
                ),
                "critic_network": NetworkBody(mlp=[64], in_=["observation"]),
            },
            loss={"ClipPPOLoss": {"normalize_advantage": True}},
            value_estimator=Estimating(gae=EstimatorNumbers(gamma=0.9), when="epoch"),
            data=Data(
                on_policy=OnPolicy(
                    num_envs=8, num_steps=64, epochs=4, minibatch_size=128, until="kl_approx > 0.1"
                )
            ),
            optimizer={
                "actor": OptimizerGroup(of=["actor_network"], adamw=AdamW(lr="linear(1.0e-3, 1.0e-4)")),
                "critic": OptimizerGroup(of=["critic_network"], sgd=SGD(lr=1.0e-2, momentum=0.9)),
            },
            device=Devices(loss="cpu"),
            evaluate=Evaluate(every=2_000, deterministic=False),
            stop=Stop(frames=10_000, hours=1),
            checkpoint=Checkpoint(every=5_000, keep=1),
            workers=Workers(processes=2),
        ),
        """\
    env: PendulumTrain
    params: {width: {default: 64, min: 1}}
    networks:
      actor_network: {mlp: [width], scale: {parameter: 0.6}, init: {orthogonal: {gain: 1.0}}}
      critic_network: {mlp: [64], in: [observation]}
    loss: {ClipPPOLoss: {normalize_advantage: true}}
    value_estimator: {gae: {gamma: 0.9}, when: epoch}
    data: {on_policy: {num_envs: 8, num_steps: 64, epochs: 4, minibatch_size: 128, until: kl_approx > 0.1}}
    optimizer:
      actor: {of: [actor_network], adamw: {lr: "linear(1.0e-3, 1.0e-4)"}}
      critic: {of: [critic_network], sgd: {lr: 1.0e-2, momentum: 0.9}}
    device: {loss: cpu}
    evaluate: {every: 2_000, deterministic: false}
    stop: {frames: 10_000, hours: 1}
    checkpoint: {every: 5_000, keep: 1}
    workers: {processes: 2}
""",
    ),
    "inherited": (
        Pipeline(
            extends="DDPGPendulum",
            policy=Acting(explore=Explore(ornstein_uhlenbeck=OrnsteinUhlenbeck(sigma=0.3))),
            data=Data(
                online_and_recorded=OnlineAndRecorded(path="data/pendulum", capacity=200_000, batch_size=256)
            ),
            target_updater=TargetUpdate(hard=Hard(interval=100)),
            optimizer={"critic": OptimizerGroup(of=["value_network"], rmsprop=RMSprop(lr=1.0e-3))},
        ),
        """\
    extends: DDPGPendulum
    policy: {explore: {ornstein_uhlenbeck: {sigma: 0.3}}}
    data: {online_and_recorded: {path: data/pendulum, capacity: 200_000, batch_size: 256}}
    target_updater: {hard: {interval: 100}}
    optimizer: {critic: {of: [value_network], rmsprop: {lr: 1.0e-3}}}
""",
    ),
    "noise that depends on the state": (
        Pipeline(
            extends="DDPGPendulum",
            networks={
                "actor_network": NetworkBody(mlp=[64, 64]),
                "value_network": "drop",
                "qvalue_network": NetworkBody(mlp=[64, 64]),
            },
            policy=Acting(explore=Explore(gsde=GSDE(every=16, sigma=0.5))),
            loss={"SACLoss": {}},
            optimizer={
                "critic": OptimizerGroup(of=["qvalue_network"]),
                "temperature": OptimizerGroup(of=["log_alpha"], adamw=AdamW(lr=3.0e-4)),
            },
        ),
        """\
    extends: DDPGPendulum
    networks:
      actor_network: {mlp: [64, 64]}
      value_network: drop
      qvalue_network: {mlp: [64, 64]}
    policy: {explore: {gsde: {every: 16, sigma: 0.5}}}
    loss: {SACLoss: {}}
    optimizer: {critic: {of: [qvalue_network]}, temperature: {of: [log_alpha], adamw: {lr: 3.0e-4}}}
""",
    ),
    "slices": (
        Pipeline(
            extends="DDPGPendulum",
            policy=Acting(explore=Explore(gaussian=GaussianNoise(sigma=0.1))),
            value_estimator=Estimating(td_lambda=EstimatorNumbers(gamma=0.9, lmbda=0.8)),
            data=Data(
                replay=Replay(warm_up_frames=1_024, sampler=Sampler(slices=Slices(length=8)))
            ),
            target_updater=TargetUpdate(soft=Soft(tau=0.01), every=2),
        ),
        """\
    extends: DDPGPendulum
    policy: {explore: {gaussian: {sigma: 0.1}}}
    value_estimator: {td_lambda: {gamma: 0.9, lmbda: 0.8}}
    data: {replay: {warm_up_frames: 1_024, sampler: {slices: {length: 8}}}}
    target_updater: {soft: {tau: 0.01}, every: 2}
""",
    ),
    "targets by network": (
        Pipeline(
            extends="DDPGPendulum",
            target_updater={
                "actor_network": TargetUpdate(soft=Soft(tau=0.01)),
                "value_network": TargetUpdate(hard=Hard(interval=500), every=2),
            },
        ),
        """\
    extends: DDPGPendulum
    target_updater: {actor_network: {soft: {tau: 0.01}}, value_network: {hard: {interval: 500}, every: 2}}
""",
    ),
}  # fmt: skip
OF_PARENT = ["pipelines/ddpg_pendulum", "losses/ddpg"]
LOSS = {"on_policy": ["losses/ppo"], "noise that depends on the state": [*OF_PARENT, "losses/sac"]}


@pytest.mark.parametrize("name", TWINS)
def test_a_pipeline_and_its_twin_are_printed_alike(name: str) -> None:
    pipeline, body = TWINS[name]
    imports = [f"specgen_std/{one}" for one in ("chains/pendulum", *LOSS.get(name, OF_PARENT))]
    text = f"specgen: 1\nimport: [{', '.join(imports)}]\npipelines:\n  Training:\n{body}"
    schema = Module(import_=imports, pipelines={"Training": pipeline})
    assert printed("schemas/a.py", in_python(schema)) == printed("schemas/a.yaml", text)


def test_every_class_of_pipelines_is_public() -> None:
    """What a field of a pipeline may hold is imported from `specgen`, as `Pipeline` itself."""
    found, left = set(), [Pipeline]
    while left:
        one = left.pop()
        if one.__name__ in found:
            continue
        found.add(one.__name__)
        for field in one.model_fields.values():
            left += list(classes_in(field.annotation))
    assert {"Prioritized", "Support", "Recorded", "Bonus"} <= found
    for name in found - {"ParamField"}:
        assert getattr(specgen, name).__name__ == name


def classes_in(annotation: Any) -> Any:
    """The declarations that stand in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, specgen.schema.Declaration):
        yield annotation
    for one in getattr(annotation, "__args__", ()):
        yield from classes_in(one)
