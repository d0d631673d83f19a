"""A transform that the compiler warns of stands in the fused chain like any other."""

from __future__ import annotations

from pathlib import Path

from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.transforms import Resize, StepCounter, ToTensorImage

from tests.agreement.test_random_chains import same_specs
from tests.support import compile_texts, imported

SCHEMA = """
specgen: 1
import: [specgen_std/transforms/images, specgen_std/transforms/step_counter]
envs:
  Seen:
    state: {moment: "int64 in [0, 100]"}
    action: {action: "categorical(2)"}
    observation: {pixels: "uint8[8, 8, 3]", planes: "uint8[3, 8, 8]"}
    reset: {moment: 0}
    step: {next.moment: "min(moment + action, 100)", reward: 1.0}
    observe: {pixels: "uint8(zeros((8, 8, 3))) + uint8(moment)", planes: "uint8(zeros((3, 8, 8))) + uint8(moment)"}
chains:
  Warned:
    env: Seen
    transforms:
      - StepCounter: {max_steps: 5}
      - StepCounter: {max_steps: 7, step_count_key: steps_again}
      - Resize: {in_keys: [pixels], w: 4, h: 4, out_keys: [small]}
      - ToTensorImage: {in_keys: [planes], out_keys: [turned]}
"""


def test_transforms_that_are_warned_of_are_kept(tmp_path: Path) -> None:
    files, said, codes = compile_texts({"seen.yaml": SCHEMA}, "warned_package")
    assert codes == {"SG360", "SG596"}, said
    with imported(files, "warned_package", tmp_path) as package:
        transforms = Compose(
            StepCounter(max_steps=5),
            StepCounter(max_steps=7, step_count_key="steps_again"),
            Resize(w=4, h=4, in_keys=["pixels"], out_keys=["small"]),
            ToTensorImage(in_keys=["planes"], out_keys=["turned"]),
        )
        same_specs(package.Warned(), TransformedEnv(package.Seen(), transforms))
