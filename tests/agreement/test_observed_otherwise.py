"""Steps read what an environment that keeps its state to itself observed before them, whatever is shown in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
from specgen_runtime.envs import check_env_specs
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_std.transforms import (
    FrameSkipTransform,
    MultiAction,
    ObservationNorm,
    RenameTransform,
    RewardSum,
    Stack,
    UnsqueezeTransform,
)

from tests.agreement.gymnasium_arms import RECORDS, registered
from tests.agreement.test_random_chains import drive, same_specs
from tests.support import compile_texts, imported

SCHEMA = """\
specgen: 1
import:
  - specgen_std/transforms/keys
  - specgen_std/transforms/observation_norm
  - specgen_std/transforms/reward_sum
  - specgen_std/transforms/shapes
  - specgen_std/transforms/time
envs:
  Arm: {gymnasium: {id: specgen-arm-v0}}
  Track:
    python: {class: "tests.transforms.python_classes:Track", stateful: true}
    params: {length: {type: int, default: 9, min: 1}}
    action: {action: "float32[1] in [-1, 1]"}
    observation: {place: "float32[1]", count: int64}
transforms:
  Moved:
    in: {x: {each: [observation], type: "float[...]"}}
    out: {moved: {each: x, name: moved}}
    reset: {moved: zeros_like(x)}
    step: {next.moved: next.x - x}
chains:
  Normed: {env: Arm, transforms: [NORM, Moved]}
  Between: {env: Arm, transforms: [NORM, Moved, NORM, RewardSum]}
  Behind: {env: Arm, transforms: [Moved, NORM, {FrameSkipTransform: {frame_skip: 3}}]}
  Other: {env: Arm, transforms: [Moved, {UnsqueezeTransform: {dim: -3, in_keys: [observation]}}]}
  Stacked:
    env: Arm
    transforms:
      - RenameTransform: {in_keys: [observation], out_keys: [copy], create_copy: true}
      - Stack: {in_keys: [observation, copy], out_key: both, dim: -1}
      - MultiAction: {steps: 2}
  Walked: {env: Track, transforms: [{ObservationNorm: {loc: 1.0, scale: 2.0, in_keys: [place]}}, {Moved: {in_keys: [place]}}]}
""".replace("NORM", "{ObservationNorm: {loc: 1.0, scale: 2.0, in_keys: [observation]}}")


def norm(key: str = "observation") -> Transform:
    return ObservationNorm(loc=1.0, scale=2.0, in_keys=[key])


CHAINS: dict[str, Callable[[ModuleType], list[Transform]]] = {
    "Normed": lambda m: [norm(), m.Moved()],
    "Between": lambda m: [norm(), m.Moved(), norm(), RewardSum()],
    "Behind": lambda m: [m.Moved(), norm(), FrameSkipTransform(3)],
    "Other": lambda m: [m.Moved(), UnsqueezeTransform(dim=-3, in_keys=["observation"])],
    "Stacked": lambda m: [
        RenameTransform(["observation"], ["copy"], create_copy=True),
        Stack(in_keys=["observation", "copy"], out_key="both", dim=-1),
        MultiAction(steps=2),
    ],
    "Walked": lambda m: [norm("place"), m.Moved(in_keys=["place"])],
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files, said, _ = compile_texts({"sample.yaml": SCHEMA}, "observed_otherwise", RECORDS)
    assert files, said
    with registered(), imported(files, "observed_otherwise", tmp_path_factory.mktemp("made")) as made:
        yield made


@pytest.mark.parametrize("name", CHAINS)
def test_what_a_step_reads_of_the_environment(package: ModuleType, name: str) -> None:
    fused = getattr(package, name)()
    inner = package.Track if name == "Walked" else package.Arm
    dynamic = TransformedEnv(inner(), Compose(*CHAINS[name](package)))
    check_env_specs(fused)
    same_specs(fused, dynamic)
    drive(fused, dynamic)
