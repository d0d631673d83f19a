"""`make quick`: the tests that the changes since `main` can break, nearest first, for as long as there is time.

    python -m tests.quick [BASE]

Changes are those of the working tree and of the commits since it left BASE (`main`); on `main` itself, where nothing is
changed, those of the last commit. See `tests.affected` for what a change can break.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.affected import affected_tests

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 100
"""From the start of `make quick`, lint and types included. What is running then is finished; there are always some
seconds for tests (`tests/conftest.py`), also where all the rest is slow, as it is the first time."""


FILES = 120
"""So many files of tests are looked into: into all of them alone would take the workers most of the time there is."""


class Summary:
    """Counts the tests that ran, among those that could have.

    Args:
        further: how many files of tests were not looked into.
    """

    def __init__(self, further: int) -> None:
        self.further = further
        self.chosen = 0
        self.ran: set[str] = set()

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self.chosen = len(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.ran.add(report.nodeid)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        files = f" in the nearest {FILES} files" if self.further else ""
        said = f"{len(self.ran)} of the {self.chosen} tests that the change can break{files}"
        left = [
            *([f"{self.chosen - len(self.ran)} of them"] if self.chosen > len(self.ran) else []),
            *([f"{self.further} files further off"] if self.further else []),
        ]
        terminalreporter.write_line(said + (f"; left to `make test`: {', '.join(left)}" if left else ""))


def main(base: str = "main") -> int:
    """Run the tests; what pytest returns."""
    since, changed = changes(base)
    files = affected_tests(ROOT, changed)
    print(
        f"{len(changed)} files changed since {since}: {len(files)} files of tests, the nearest first",
        flush=True,
    )
    started = float(os.environ.get("QUICK_STARTED", time.time()))
    os.environ["QUICK_UNTIL"] = str(started + SECONDS)
    # small portions, so that no worker is far behind with what is near
    options = ["-n", "3", "--maxschedchunk", "20", *(file for file, _ in files[:FILES])]
    return int(pytest.main(options, plugins=[Summary(max(len(files) - FILES, 0))]))


def changes(base: str) -> tuple[str, list[str]]:
    """What the changes are counted from, and the paths of the files that differ."""
    left = git("merge-base", "HEAD", base) or ["HEAD"]
    untracked = git("ls-files", "--others", "--exclude-standard")
    changed = git("diff", "--name-only", "--no-renames", left[0])
    if not changed and not untracked:
        left = ["HEAD~1"]
        changed = git("diff", "--name-only", "--no-renames", left[0])
    return left[0][:10], sorted({*changed, *untracked})


def git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
