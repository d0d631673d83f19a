"""Projects that are built again and again by one process, by several, and when a file changes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from specgen.project import load_project, workers
from specgen.project.build import Workspace, check
from specgen.project.watch import changes
from specgen.project.write import RefusedError
from tests.project.small_project import PROJECT
from tests.project.test_incremental import WALK, compiled, edited


def assert_as_fresh(root: Path, texts: dict[str, str]) -> None:
    for path, text in compiled(texts).files.items():
        assert (root / path).read_text(encoding="utf-8") == text, path


def test_an_edit_costs_what_it_concerns(project: Path, checked: list[str]) -> None:
    workspace = Workspace(load_project(project))
    first = workspace.build().written
    assert first is not None
    assert len(first.written) == 15
    checked.clear()
    nothing = workspace.build().written
    assert nothing is not None
    assert (nothing.written, checked) == ((), [])
    change = edited("schemas/trained.yaml", "max_steps: 9", "max_steps: 8")
    (project / "schemas/trained.yaml").write_text(change["schemas/trained.yaml"], encoding="utf-8")
    one = workspace.build().written
    assert one is not None
    assert (one.written, checked) == (("made/trained.py",), ["schemas/trained.yaml"])
    assert_as_fresh(project, {**PROJECT, **change})


def test_generated_files_are_looked_at_each_time(project: Path) -> None:
    workspace = Workspace(load_project(project))
    workspace.build()
    file = project / "made/alone.py"
    past = time.time() - 60
    for path in (project / "made").rglob("*.py"):
        os.utime(path, (past, past))
    assert workspace.check().report == check(load_project(project)).report
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("1.0", "2.0"), encoding="utf-8")
    report = workspace.check().report
    assert report is not None
    assert report.edited == ("made/alone.py",)
    file.unlink()
    written = workspace.build().written
    assert written is not None
    assert written.written == ("made/alone.py",)
    assert file.read_text(encoding="utf-8") == text


def test_what_was_generated_from_something_else_is_no_edit_and_an_edit_of_it_is(project: Path) -> None:
    workspace = Workspace(load_project(project))
    workspace.build()
    file = project / "made/alone.py"
    change = edited("schemas/alone.yaml", "1.0", "3.0")
    (project / "schemas/alone.yaml").write_text(change["schemas/alone.yaml"], encoding="utf-8")
    report = workspace.check().report
    assert report is not None
    assert (report.changed, report.edited) == (("made/alone.py",), ())
    file.write_text(file.read_text(encoding="utf-8").replace("1.0", "2.0"), encoding="utf-8")
    with pytest.raises(RefusedError):
        workspace.build()
    assert "2.0" in file.read_text(encoding="utf-8")


def test_mistakes_and_warnings_come_from_memory_and_from_disk(project: Path, checked: list[str]) -> None:
    for old, new in (
        ("abs(next.x)", "abs(y)"),
        ("reward: -abs(next.x)", "unread: x\n      reward: -abs(next.x)"),
    ):
        (project / WALK).write_text(edited(WALK, old, new)[WALK], encoding="utf-8")
        workspace = Workspace(load_project(project))
        said = workspace.check().diagnostics
        assert said
        checked.clear()
        assert workspace.check().diagnostics == said
        again = check(load_project(project), strict=True)
        assert again.diagnostics == said
        assert again.has_errors
        assert not checked


def test_helpers_of_python_schemas_are_read_again(project: Path) -> None:
    helper = project / "schemas" / "_limits.py"
    schema = (
        "from schemas._limits import LIMIT\nfrom specgen import Module\n"
        "schema = Module(specs={'pull': f'float32[1] in [-{LIMIT}, {LIMIT}]'})\n"
    )
    helper.write_text("LIMIT = 1\n", encoding="utf-8")
    (project / "schemas/pull.py").write_text(schema, encoding="utf-8")
    workspace = Workspace(load_project(project))
    workspace.build()
    helper.write_text("LIMIT = 222\n", encoding="utf-8")
    written = workspace.build().written
    assert written is not None
    assert written.written == ("made/pull.py",)
    assert "222" in (project / "made/pull.py").read_text(encoding="utf-8")


def test_many_files_are_compiled_by_several_processes(
    project: Path, monkeypatch: pytest.MonkeyPatch, checked: list[str]
) -> None:
    monkeypatch.setattr(workers, "MANY", 2)
    monkeypatch.setattr(workers, "_CHUNK", (1, 1))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    Workspace(load_project(project)).build()
    assert len(checked) < len(PROJECT), "the other processes did nothing"
    assert_as_fresh(project, PROJECT)


def test_processes_that_end_are_no_matter(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MANY", 2)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert not Workspace(load_project(project)).build().diagnostics
    assert_as_fresh(project, PROJECT)


def test_a_change_is_seen(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            (project / "schemas/new.yaml").write_text("specgen: 1\n", encoding="utf-8")

    monkeypatch.setattr(time, "sleep", pause)
    seen = changes(load_project(project))
    next(seen)
    assert not pauses
    next(seen)
    assert len(pauses) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_the_command_builds_at_each_change(project: Path) -> None:
    command = [sys.executable, "-u", "-m", "specgen", "build", "--watch", "--root", str(project)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    try:
        lines = iter(running.stdout)
        assert "15 files written, 0 removed, 0 unchanged\n" in _until_waiting(lines)
        save(project / WALK, edited(WALK, "3.0", "z")[WALK])
        assert "nothing was written\n" in _until_waiting(lines)
        save(project / WALK, edited(WALK, "3.0", "2.0")[WALK])
        assert "wrote    made/envs/walk.py\n" in _until_waiting(lines)
    finally:
        running.terminate()
        running.wait()


def save(file: Path, text: str) -> None:
    """Replace a file in one step."""
    beside = file.with_name(f".{file.name}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)


def _until_waiting(lines: object) -> list[str]:
    found = []
    for line in lines:  # type: ignore[attr-defined]
        if line.startswith("waiting"):
            return found
        found.append(line)
    return found
