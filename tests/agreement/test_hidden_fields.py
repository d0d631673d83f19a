"""What a transform writes and a later one renames or drops, in rollouts and in resets of some rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from specgen_runtime.envs import check_env_specs
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.envs import Pendulum
from specgen_std.transforms import ExcludeTransform, InitTracker, RenameTransform

from tests.agreement.test_random_chains import drive, same_specs
from tests.support import generate, imported

SCHEMA = """\
specgen: 1
import:
  - specgen_std/envs/pendulum
  - specgen_std/transforms/init_tracker
  - specgen_std/transforms/keys
chains:
  Renamed:
    env: Pendulum
    transforms: [InitTracker, {RenameTransform: {in_keys: [is_init], out_keys: [first]}}]
  Dropped:
    env: Pendulum
    transforms: [InitTracker, {ExcludeTransform: {in_keys: [is_init]}}]
  RenamedAndDropped:
    env: Pendulum
    transforms:
      - InitTracker
      - RenameTransform: {in_keys: [is_init], out_keys: [first]}
      - ExcludeTransform: {in_keys: [first]}
"""


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
def test_what_is_shown_otherwise_or_not_at_all(batch: tuple[int, ...], tmp_path: Path) -> None:
    files = generate({"chain.yaml": SCHEMA}, "hidden_fields")
    with imported(files, "hidden_fields", tmp_path) as package:
        rename = RenameTransform(["is_init"], ["first"])
        chains = {
            package.Renamed: Compose(InitTracker(), rename),
            package.Dropped: Compose(InitTracker(), ExcludeTransform("is_init")),
            package.RenamedAndDropped: Compose(InitTracker(), rename.clone(), ExcludeTransform("first")),
        }
        for chain, transforms in chains.items():
            fused = chain(batch_size=batch)
            dynamic = TransformedEnv(Pendulum(batch_size=batch), transforms)
            check_env_specs(fused)
            same_specs(fused, dynamic)
            drive(fused, dynamic)
