"""`python -m benchmarks`: measure everything in one run and print one table of ratios.

One torch thread, each row paired with its peer and measured in turns. Exit code 1 if a row breaks its limit
(with ``--quick`` too, whose ratios are rough).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator

import pandas  # noqa: F401  tensordict looks for it on each conversion, and is faster when it is there
import torch
from tqdm import tqdm

from benchmarks import (
    batched,
    chains,
    collectors,
    compiler,
    estimators,
    gymnasium,
    incremental,
    language_models,
    losses,
    native,
    policies,
    replay_buffers,
    screens,
    specs,
    training,
    transforms,
)
from benchmarks.harness import QUICK, THOROUGH, Budget, Row
from benchmarks.table import render

FAMILIES: dict[str, Callable[[Budget], Iterator[Row]]] = {
    "chains": chains.rows,
    "screens": screens.rows,
    "transforms": transforms.rows,
    "gymnasium": gymnasium.rows,
    "native": native.rows,
    "batched": batched.rows,
    "losses": losses.rows,
    "estimators": estimators.rows,
    "policies": policies.rows,
    "replay_buffers": replay_buffers.rows,
    "collectors": collectors.rows,
    "training": training.rows,
    "specs": specs.rows,
    "compiler": compiler.rows,
    "incremental": incremental.rows,
    "language_models": language_models.rows,
}


def main() -> int:
    """Measure the chosen families and print their table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("families", nargs="*", help=f"which rows: {', '.join(FAMILIES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes; rough ratios")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.families) - FAMILIES.keys())
    if unknown:
        parser.error(f"no rows called {', '.join(unknown)}; there are {', '.join(FAMILIES)}")
    torch.set_num_threads(1)
    budget = QUICK if arguments.quick else THOROUGH
    rows: list[Row] = []
    try:
        with tqdm(desc="measuring", unit="row", leave=False, disable=None) as progress:
            for family in arguments.families or FAMILIES:
                for row in FAMILIES[family](budget):
                    rows.append(row)
                    progress.set_postfix_str(row.name)
                    progress.update()
    finally:
        # What was measured before an interruption or a failure is worth showing.
        print(render(rows))
    broken = [row.name for row in rows if not row.holds]
    if broken:
        print(f"\nbeyond the limit: {', '.join(broken)}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
