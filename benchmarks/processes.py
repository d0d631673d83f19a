"""Python in processes of its own, whose times stand beside that of `import torch`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from benchmarks.harness import Budget, Row, Work, paired

_ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def bytecode() -> Iterator[None]:
    """Processes keep the bytecode of what they import, as those of an installed program do.

    All of them, so that what they are compared with does; where the environment keeps bytecode off, too.
    """
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, PYTHONPYCACHEPREFIX=folder):
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        yield


def run_python(*arguments: str) -> str:
    """What Python prints, called in the repository with these arguments.

    Raises:
        RuntimeError: it fails.
    """
    done = subprocess.run([sys.executable, *arguments], cwd=_ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def beside_torch(name: str, work: Work, budget: Budget, limit: float | None = None) -> Row:
    """The time of a command beside that of importing torch; see `paired`."""
    code = "import torch"
    torch = Work(lambda: run_python("-c", code))
    return paired(name, work, torch, budget, peer_name=f"python -c '{code}'", limit=limit)
