"""The store of what earlier compilations found out: believed when it is whole and the user's own, bounded in size."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from specgen.project.store import Store
from tests.project.small_project import PROJECT
from tests.project.test_incremental import WALK, assert_same, compiled, edited


def test_nothing_is_checked_twice(cache: Path, checked: list[str]) -> None:
    store = Store(cache)
    dict(compiled(PROJECT, store).files)
    store.save()
    checked.clear()
    dict(compiled(PROJECT, Store(cache)).files)
    assert not checked


def entries(cache: Path) -> Iterator[Path]:
    return cache.glob("*.entry")


@pytest.mark.parametrize("damage", ["cut", "changed", "swapped", "empty", "gone", "other key"])
def test_what_is_damaged_is_made_again(damage: str, cache: Path, checked: list[str]) -> None:
    store = Store(cache)
    expected = compiled(PROJECT, store)
    store.save()
    files = sorted(entries(cache))
    assert files
    if damage == "other key":
        (cache.parent / "state" / "specgen" / "cache.key").write_bytes(b"x" * 32)
    contents = [file.read_bytes() for file in files]
    for file, raw, other in zip(files, contents, (*contents[1:], contents[0]), strict=True):
        if damage == "cut":
            file.write_bytes(raw[: len(raw) // 2])
        elif damage == "changed":
            file.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
        elif damage == "swapped":
            file.write_bytes(other)
        elif damage == "empty":
            file.write_bytes(b"")
        elif damage == "gone":
            file.unlink()
    checked.clear()
    assert_same(compiled(PROJECT, Store(cache)), expected)
    assert checked


def test_texts_that_are_gone_are_made_again(cache: Path) -> None:
    store = Store(cache)
    compiled(PROJECT, store)
    store.save()
    index = max(entries(cache), key=lambda file: file.stat().st_mtime_ns)
    for file in entries(cache):
        if file != index:
            file.unlink()
    assert_same(compiled(PROJECT, Store(cache)), compiled(PROJECT))


def test_a_foreign_entry_runs_nothing(cache: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
            return pytest.fail, ("an entry was run",)

    store = Store(cache)
    compiled(PROJECT, store)
    store.save()
    for file in entries(cache):
        raw = pickle.dumps(Evil())
        file.write_bytes(file.read_bytes()[:32] + raw)
    assert_same(compiled(PROJECT, Store(cache)), compiled(PROJECT))


def test_what_is_kept_is_bounded(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specgen.project.store.LARGEST", 60_000)
    for number in range(4):
        store = Store(cache)
        compiled({**PROJECT, **edited(WALK, "3.0", f"3.{number}")}, store)
        store.save()
        assert sum(file.stat().st_size for file in entries(cache)) <= 60_000


def test_without_a_folder_everything_is_compiled(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECGEN_CACHE_DIR", "")
    assert_same(compiled(PROJECT, Store(cache)), compiled(PROJECT))
    assert not cache.exists()


def test_two_processes_at_once(project: Path) -> None:
    """They share one cache and one project; both end with what a build without either makes."""
    command = [sys.executable, "-m", "specgen", "build", "--root", str(project)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.wait(timeout=600) for process in both] == [0, 0]
    for path, text in compiled(PROJECT).files.items():
        assert (project / path).read_text(encoding="utf-8") == text
