"""Faults of specgen itself: one diagnostic that names the file, never a traceback; and what killed builds leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from specgen import compile_file, compile_project
from specgen.cli import main
from specgen.project import load_project
from specgen.project.build import build, check
from specgen.settings import Config

CONFIG = '[tool.specgen]\nschemas = "schemas"\noutput = "made"\npackage = "made"\n'
SCHEMA = "specgen: 1\nspecs:\n  push: float32[1] in [-1, 1]\n"
BAD = "specgen: 1\nspecs:\n  pull: float32[1] in [1, -1]\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SPECGEN_TRACEBACK")
    (tmp_path / "pyproject.toml").write_text(CONFIG)
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas/a.yaml").write_text(SCHEMA)
    (tmp_path / "schemas/b.yaml").write_text(SCHEMA.replace("push", "pull"))
    return tmp_path


def break_on(monkeypatch: pytest.MonkeyPatch, path: str, error: BaseException) -> None:
    """Let loading one file fail."""
    load = compile_file.load

    def broken(file: str, *args: object) -> object:
        if file == path:
            raise error
        return load(file, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(compile_file, "load", broken)


@pytest.mark.parametrize("command", ["build", "check"])
def test_commands(project: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    break_on(monkeypatch, "schemas/b.yaml", KeyError("nobody\nknows " + "x" * 9999))
    run = CliRunner().invoke(main, [command, "--root", str(project)])
    assert run.exit_code == 4
    assert run.output.count("SG991") == 1
    assert "specgen is at fault, not the schema: KeyError: 'nobody\\nknows xxx" in run.output
    assert "--> schemas/b.yaml:1:1" in run.output
    assert "specgen --traceback check" in run.output
    assert "Traceback" not in run.output
    assert len(run.output) < 2000
    assert not list((project / "made").glob("*")) if command == "build" else not (project / "made").exists()


def test_the_traceback_is_there_for_who_asks(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_on(monkeypatch, "schemas/b.yaml", KeyError("x"))
    monkeypatch.setenv("SPECGEN_TRACEBACK", "")  # what the option sets is taken back with this
    run = CliRunner().invoke(main, ["--traceback", "check", "--root", str(project)])
    assert isinstance(run.exception, KeyError)


def test_the_functions_behind_the_commands(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_on(monkeypatch, "schemas/a.yaml", RecursionError())
    for run in (build, check):
        outcome = run(load_project(project))
        assert [(item.code, item.span.file) for item in outcome.diagnostics] == [("SG991", "schemas/a.yaml")]
        assert outcome.report is None


def test_around_the_compiler(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specgen.project.build.read_sources", lambda *_: 1 / 0)
    outcome = check(load_project(project))
    assert [(item.code, item.span.file) for item in outcome.diagnostics] == [("SG991", "pyproject.toml")]


def test_other_mistakes_are_said_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPECGEN_TRACEBACK")
    monkeypatch.setattr(compile_file, "render_modules", lambda *_: 1 / 0)
    config = Config("schemas", "made", "made")
    good = compile_project.compile_sources({"schemas/a.yaml": SCHEMA}, config)
    assert [item.code for item in good.diagnostics] == ["SG991"]
    assert not good.files
    break_on(monkeypatch, "schemas/b.yaml", KeyError("x"))
    both = compile_project.compile_sources(
        {"schemas/a.yaml": "specgen: 1\nspcs: {}\n", "schemas/b.yaml": BAD}, config
    )
    assert [item.code for item in both.diagnostics] == ["SG101", "SG991"]


def test_interrupts_pass(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_on(monkeypatch, "schemas/b.yaml", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        check(load_project(project))


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_what_a_killed_build_leaves_is_removed_by_the_next(project: Path) -> None:
    held = (
        "import os, time\nfrom specgen.cli import main\n"
        "os.fsync = lambda _: (print('writing', flush=True), time.sleep(60))\nmain()"
    )
    command = [sys.executable, "-c", held, "build", "--root", str(project)]
    killed = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "SPECGEN_CACHE_DIR": ""}
    )
    assert killed.stdout is not None
    assert "writing" in killed.stdout.readline()
    waiting = subprocess.Popen([sys.executable, "-m", "specgen", "build", "--root", str(project)])
    time.sleep(0.5)
    assert list((project / "made").rglob(".*.tmp")), "the second build took what the first was writing"
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert waiting.wait(timeout=60) == 0
    assert not list(project.rglob(".*.tmp"))
    assert (project / "made/a.py").is_file()
