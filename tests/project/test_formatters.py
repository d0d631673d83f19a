"""Formatters leave generated files alone; one that does not has changed their layout, and edited nothing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from specgen.cli import FOUND, OK, main
from specgen.header import digest_line, is_edited, seal

GENERATED = Path(__file__).resolve().parents[2] / "generated" / "specgen_std"
FILES = sorted(GENERATED.rglob("*.py"))
CODE = '''# From a.yaml.
"""Doc."""

from a import one, two


class A:
    """What it is."""

    x: int = 3
    """The number."""

    def f(self, y, *, z="a"):
        """Text."""
        # why
        return {"k": [y, z, 1.0], **self.d}, 'it is "so"', -self.x**2
'''


def ruff(folder: Path, *arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "ruff", *arguments, "--isolated", "--no-cache", "--quiet", "."],
        cwd=folder,
        check=False,
        capture_output=True,
    )


def copies(folder: Path, keep_marks: bool) -> dict[Path, str]:
    texts = {folder / f"{i}_{file.name}": file.read_text(encoding="utf-8") for i, file in enumerate(FILES)}
    for file, text in texts.items():
        file.write_text(text if keep_marks else re.sub(r"^# (fmt|isort|flake8): .*\n", "", text, flags=re.M))
    return texts


@pytest.mark.parametrize(
    "arguments",
    [
        ("format", "--line-length", "60"),
        ("check", "--select", "ALL", "--fix", "--unsafe-fixes"),
    ],
    ids=["format", "fix"],
)
def test_ruff_leaves_generated_files_alone(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    texts = copies(tmp_path, keep_marks=True)
    ruff(tmp_path, *arguments)
    assert {file: file.read_text(encoding="utf-8") for file in texts} == texts


@pytest.mark.parametrize("width", [40, 200])
def test_a_formatter_that_is_not_kept_off_has_edited_nothing(tmp_path: Path, width: int) -> None:
    texts = copies(tmp_path, keep_marks=False)
    before = {file: file.read_text() for file in texts}
    quotes = 'format.quote-style="single"'
    ruff(tmp_path, "format", "--line-length", str(width), "--config", quotes)
    after = {file: file.read_text() for file in texts}
    assert sum(before[file] != after[file] for file in texts) > len(texts) / 2
    assert [file.name for file in texts if is_edited(after[file])] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("one, two", "(\n    one,\n    two,\n)"),
        ("x: int = 3", "x : int=(3)"),
        ("    # why\n", "    #why\n\n\n"),
        ('"""What it is."""', '"""\n    What it is.\n    """'),
        ("'it is \"so\"'", '"it is \\"so\\""'),
        ("# fmt: off\n", ""),
        ("\n", "\r\n"),
        ("1.0", "1."),
    ],
)
def test_layout(old: str, new: str) -> None:
    sealed = seal(CODE)
    assert old in sealed
    assert not is_edited(sealed.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("one, two", "two, one"),
        ("= 3", "= 4"),
        ("1.0", "1"),
        ("# why", "# why not"),
        ("        # why\n", ""),
        ("What it is", "What it was"),
        ("The number.", "The numbers."),
        ("-self.x**2", "(-self.x)**2"),
        ('"k": [y, z, 1.0], **self.d', '**self.d, "k": [y, z, 1.0]'),
        ("[y, z, 1.0]", "[[y], z, 1.0]"),
        ("[y, z, 1.0]", "(y, z, 1.0)"),
        ("y, *, z", "y, z"),
        ("    def f", "    async def f"),
        ("class A:", "class A(B):"),
        ("return", "return ("),
        ("From a", "From b"),
    ],
)
def test_edits(old: str, new: str) -> None:
    sealed = seal(CODE)
    assert old in sealed
    assert is_edited(sealed.replace(old, new))


def test_sums_of_many_terms_are_read_too() -> None:
    sealed = seal("x = " + " + ".join(map(str, range(900))) + "\n")
    assert not is_edited(sealed.replace(" + ", "+"))
    assert is_edited(sealed.replace(" + 899", " + 900"))


def test_very_large_files_are_read_too() -> None:
    large = seal("# Generated\n" + "x = 1\n" * 200_000)
    assert not is_edited(large)
    assert not is_edited(large.replace("x = 1", "x  =  1"))
    assert is_edited(large[:-2] + "2\n")


def test_the_commands_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    assert runner.invoke(main, ["init"]).exit_code == OK
    assert runner.invoke(main, ["build"]).exit_code == OK
    (file,) = tmp_path.glob("*/rail.py")
    text = file.read_text()
    file.write_text(text.replace("    ", "\t"))
    checked = runner.invoke(main, ["check"])
    assert checked.exit_code == FOUND
    path = file.relative_to(tmp_path).as_posix()
    assert (
        f"changed  {path} (only the layout, as by a formatter: exclude the file from it)\n" in checked.output
    )
    built = runner.invoke(main, ["build"])
    assert built.exit_code == OK
    assert f"wrote    {path}\n" in built.output
    assert file.read_text() == text


def test_every_python_computes_the_same_digest() -> None:
    """What one contributor builds, another's Python has to find unedited: a change of the digest edits all files."""
    known = "ff9ab10dbced48b43f4d239bc669e6ddab684d5eeb4c4f4832b28964958855f5"
    assert digest_line(seal(CODE)) == known
