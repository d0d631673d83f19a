"""The digest in the header, what is stale, and how files are written."""

import multiprocessing
import os
import stat
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgen.header import is_edited, is_generated, same, seal
from specgen.project import RefusedError, build_lock, compare, write
from specgen.project.write import remove_leftovers, replace_all

TEXT = '# From a.yaml.\n"""Doc."""\n\nx = 1\n'


def put(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8", newline="")


def tree(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_two_versions_that_version_control_left_in_a_file_are_an_edit() -> None:
    ours, theirs = (seal(TEXT.replace("x = 1", f"x = {number}")).splitlines() for number in (1, 2))
    both = [*ours[:4], "<<<<<<< HEAD", ours[4], "=======", theirs[4], ">>>>>>> theirs", *ours[5:]]
    for first in (both, ["<<<<<<< HEAD", *ours, "=======", *theirs, ">>>>>>> theirs"]):
        text = "\n".join(first) + "\n"
        assert is_generated(text)
        assert is_edited(text)


def test_a_seal_tells_generated_and_edited_files() -> None:
    sealed = seal(TEXT)
    lines = sealed.splitlines()
    assert lines[0] == "# From a.yaml."
    assert lines[1:4] == ["# fmt: off", "# isort: skip_file", "# flake8: noqa"]
    assert lines[4].startswith("# specgen: sha256=")
    assert lines[5:] == TEXT.splitlines()[1:]
    assert seal(sealed) == sealed
    assert is_generated(sealed)
    assert not is_edited(sealed)
    assert is_edited(sealed.replace("x = 1", "x = 2"))
    assert is_edited(sealed.replace("From", "from"))
    assert not is_generated(TEXT)
    assert not is_edited(TEXT)


def test_line_ends_are_no_edit() -> None:
    windows = seal(TEXT).replace("\n", "\r\n")
    assert is_generated(windows)
    assert not is_edited(windows)
    assert same(windows, seal(TEXT))


def test_only_the_top_of_a_file_counts() -> None:
    assert not is_generated(f'x = """\n{seal(TEXT)}"""\n')


@given(st.text(), st.text())
def test_every_edit_is_found(text: str, other: str) -> None:
    sealed = seal(text)
    assert is_generated(sealed)
    assert not is_edited(sealed)
    assert seal(sealed) == sealed
    if other not in sealed and other.strip():
        assert is_edited(sealed + other)


def test_every_state_of_a_file(tmp_path: Path) -> None:
    old = seal("x = 0\n")
    put(
        tmp_path,
        {
            "out/same.py": seal(TEXT),
            "out/windows.py": seal(TEXT).replace("\n", "\r\n"),
            "out/changed.py": old,
            "out/edited.py": old + "# mine\n",
            "out/foreign.py": "mine = 1\n",
            "out/empty.py": "",
            "out/reformatted.py": seal(TEXT).replace("x = 1", "x=(1)").replace("# fmt: off\n", ""),
            "out/sub/extra.py": old,
            "out/sub/extra_edited.py": old + "y = 1\n",
            "out/sub/mine.py": "mine = 1\n",
            "elsewhere.py": old,
        },
    )
    (tmp_path / "out/folder.py").mkdir()
    names = ("same", "windows", "changed", "edited", "foreign", "empty", "folder", "missing", "reformatted")
    report = compare({f"out/{name}.py": seal(TEXT) for name in names}, tmp_path, "out")
    assert report.unchanged == ("out/same.py", "out/windows.py")
    assert report.changed == ("out/changed.py",)
    assert report.reformatted == ("out/reformatted.py",)
    assert report.edited == ("out/edited.py", "out/sub/extra_edited.py")
    assert report.foreign == ("out/folder.py", "out/foreign.py")
    assert report.extra == ("out/sub/extra.py", "out/sub/extra_edited.py")
    assert report.missing == ("out/empty.py", "out/missing.py")
    assert not report.clean
    before = tree(tmp_path)
    with pytest.raises(RefusedError) as caught:
        write(report)
    assert caught.value.edited == report.edited
    assert caught.value.foreign == report.foreign
    with pytest.raises(RefusedError) as caught:
        write(report, force=True)
    assert caught.value.edited == ()
    assert caught.value.foreign == report.foreign
    assert tree(tmp_path) == before


def test_force_overwrites_what_was_edited(tmp_path: Path) -> None:
    old = seal("x = 0\n")
    put(tmp_path, {"out/a.py": old + "#\n", "out/b/extra.py": old + "#\n", "out/b/__pycache__/extra.pyc": ""})
    written = write(compare({"out/a.py": seal(TEXT)}, tmp_path, "out"), force=True)
    assert (written.written, written.removed) == (("out/a.py",), ("out/b/extra.py",))
    assert tree(tmp_path) == {"out/a.py": seal(TEXT)}
    assert not (tmp_path / "out/b").exists()


def test_unchanged_files_are_not_touched(tmp_path: Path) -> None:
    expected = {"out/a.py": seal(TEXT), "out/b/c.py": seal("y = 1\n")}
    written = write(compare(expected, tmp_path, "out"))
    assert written.written == ("out/a.py", "out/b/c.py")
    assert tree(tmp_path) == expected
    stamps = {path: (tmp_path / path).stat().st_mtime_ns for path in expected}
    report = compare(expected, tmp_path, "out")
    assert report.clean
    assert write(report).unchanged == 2
    assert stamps == {path: (tmp_path / path).stat().st_mtime_ns for path in expected}


def test_modes_are_kept_and_new_files_get_the_usual_one(tmp_path: Path) -> None:
    replace_all({tmp_path / "a": "1"})
    (tmp_path / "usual").write_text("")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "usual").stat().st_mode
    (tmp_path / "a").chmod(0o600)
    replace_all({tmp_path / "a": "2"})
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_a_failure_leaves_every_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, {"a": "old", "b": "old"})

    def fail(_: int) -> None:
        if len(list(tmp_path.glob(".*.tmp"))) == 2:
            raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        replace_all({tmp_path / "a": "new", tmp_path / "b": "new"})
    assert tree(tmp_path) == {"a": "old", "b": "old"}


def _hold(folder: str, taken: "multiprocessing.synchronize.Event", log: str) -> None:
    with build_lock(Path(folder), "out"):
        taken.set()
        time.sleep(0.5)
        Path(log).write_text("released")


def test_builds_wait_for_each_other(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    taken, log = context.Event(), tmp_path / "log"
    other = context.Process(target=_hold, args=(str(tmp_path), taken, str(log)))
    other.start()
    assert taken.wait(60)
    with build_lock(tmp_path, "out"):
        assert log.read_text() == "released"
    other.join()
    assert list((tmp_path / "out").iterdir()) == []


def test_leftovers_of_killed_builds_are_removed(tmp_path: Path) -> None:
    ours = ["out/.a.py.4711.tmp", "out/deep/.b.py.1.tmp"]
    kept = ["out/a.tmp", "out/.hidden.tmp", "out/a.py", "out/deep/.b.py.tmp", "other/.a.py.4711.tmp"]
    put(tmp_path, dict.fromkeys([*ours, *kept], ""))
    (tmp_path / "out/.folder.1.tmp").mkdir()
    remove_leftovers(tmp_path / "out")
    assert set(tree(tmp_path)) == set(kept)
    assert (tmp_path / "out/.folder.1.tmp").is_dir()
