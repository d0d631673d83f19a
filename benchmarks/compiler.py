"""Wall time of the commands on this repository, process start included."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import Budget, Row, Work, paired

ROOT = Path(__file__).resolve().parent.parent


def rows(budget: Budget) -> Iterator[Row]:
    """``specgen check``, and a ``specgen build`` that finds nothing to do; against importing torch."""
    torch_import = Work(lambda: _run("-c", "import torch"))
    for command in ("check", "build"):
        name = f"specgen {command}" + (" (nothing to do)" if command == "build" else "")
        work = Work(lambda command=command: _run("-m", "specgen", command))
        yield paired(name, work, torch_import, budget, peer_name="python -c 'import torch'")


def _run(*arguments: str) -> None:
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
