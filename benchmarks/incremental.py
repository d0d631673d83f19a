"""Building a project of 1,000 classes: all of it, nothing of it, one edited file; beside `import torch`.

The limits are those of a machine where `import torch` takes 1.7 s: 6 s for everything on two cores, 0.5 s when nothing
has changed, 0.8 s for one file in a new process and 0.1 s in one that stays, and 300 MB.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from benchmarks.harness import Budget, Row, Work
from benchmarks.processes import beside_torch, bytecode, run_python
from benchmarks.projects import CLASSES, make_project, schema_text
from specgen.project import load_project
from specgen.project.build import Workspace

FILES = 333
_TORCH = 1.7


def rows(budget: Budget) -> Iterator[Row]:
    """Each as `specgen build` in a new process, and the edit in a resident one, too."""
    with tempfile.TemporaryDirectory() as folder:
        root, cache = Path(folder, "project"), Path(folder, "cache")
        make_project(root, FILES)
        places = {"SPECGEN_CACHE_DIR": str(cache), "XDG_STATE_HOME": str(Path(folder, "state"))}
        edits = itertools.count(FILES)
        with bytecode(), patch.dict(os.environ, places):

            def build() -> None:
                run_python("-m", "specgen", "build", "--root", str(root))

            def forget() -> None:
                shutil.rmtree(cache, ignore_errors=True)
                shutil.rmtree(root / "made", ignore_errors=True)

            def cold() -> None:
                forget()
                build()

            def edit() -> None:
                # the environment keeps its name, and has another length of its pole
                text = schema_text(next(edits)).replace("default: 0.5", "default: 0.4")
                number = text.split("\n  Cart", 1)[1].split(":", 1)[0]
                file = root / "schemas" / "cart7.yaml"
                file.write_text(
                    text.replace(f"Cart{number}", "Cart7").replace(f"Penalty{number}", "Penalty7")
                )

            def edit_and_build() -> None:
                edit()
                build()

            def row(what: str, work: Work, seconds: float) -> Row:
                return beside_torch(f"{FILES * CLASSES:,} classes, {what}", work, budget, _TORCH / seconds)

            everything = row("all new", Work(cold), 6)
            forget()
            yield replace(everything, name=f"{everything.name} ({_megabytes(root)} MB a process)")
            yield row("nothing changed", Work(build), 0.5)
            yield row("one file changed", Work(edit_and_build), 0.8)
            workspace = Workspace(load_project(root))
            workspace.build()

            def edit_and_rebuild() -> None:
                edit()
                written = workspace.build().written
                if written is None or len(written.written) != 1:
                    raise RuntimeError("an edit of one file has written others")

            yield row("one file changed, resident", Work(edit_and_rebuild), 0.1)


def _megabytes(root: Path) -> int:
    """The memory that the largest process of a build takes."""
    code = (
        "import resource, subprocess, sys\n"
        "subprocess.run([sys.executable, '-m', 'specgen', 'build', *sys.argv[1:]], stdout=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)"
    )
    return int(run_python("-c", code, "--root", str(root)))
