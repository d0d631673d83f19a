"""A cache of the test's own, and what is checked while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from specgen import compile_file
from specgen.link import Job


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are checked, as they are."""
    paths: list[str] = []
    check = compile_file.check_and_plan

    def noting(job: Job, *rest: object) -> object:
        paths.append(job.path)
        return check(job, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(compile_file, "check_and_plan", noting)
    return paths


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "cache"


@pytest.fixture
def project(cache: Path, tmp_path: Path) -> Path:
    """The project of these tests on disk."""
    from tests.project.small_project import PROJECT

    root = tmp_path / "project"
    for path, text in PROJECT.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    settings = '[tool.specgen]\nschemas = "schemas"\noutput = "made"\npackage = "made"\n'
    (root / "pyproject.toml").write_text(settings, encoding="utf-8")
    return root
