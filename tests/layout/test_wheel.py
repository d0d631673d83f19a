"""The wheel: what is installed is the whole of the three packages, and works without the repository around it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from specgen import __version__

ROOT = Path(__file__).resolve().parents[2]
PLACES = {
    "specgen": "specgen",
    "specgen_runtime": "runtime/specgen_runtime",
    "specgen_std": "generated/specgen_std",
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the contents of the wheel."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    program = f"from hatchling.build import build_wheel; print(build_wheel({str(folder)!r}))"
    built = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def files(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def test_nothing_is_left_out(installed: Path) -> None:
    for package, place in PLACES.items():
        assert files(ROOT / place) <= files(installed / package)
        assert (installed / package / "py.typed").is_file()
    assert files(installed / "specgen" / "stdlib") == files(ROOT / "schemas")
    assert {path.name for path in installed.iterdir()} == {*PLACES, f"specgen_rl-{__version__}.dist-info"}


def test_the_metadata(installed: Path) -> None:
    (folder,) = installed.glob("*.dist-info")
    metadata = Parser().parsestr((folder / "METADATA").read_text(encoding="utf-8"))
    assert metadata["Name"] == "specgen-rl"
    assert metadata["Version"] == __version__
    assert metadata.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")
    assert {*metadata.get_all("Provides-Extra", [])} >= {"runtime", "gym", "ray", "llm"}
    assert "specgen = specgen.__main__:run" in (folder / "entry_points.txt").read_text()


def test_a_project_is_made_and_built(installed: Path, tmp_path: Path) -> None:
    def specgen(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "specgen", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(installed), "SPECGEN_CACHE_DIR": ""},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    where = subprocess.run(
        [sys.executable, "-c", "import specgen; print(specgen.__file__)"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
    )
    assert Path(where.stdout.strip()).is_relative_to(installed)
    assert specgen("--version") == f"specgen, version {__version__}\n"
    specgen("init", "robot")
    assert (tmp_path / "robot" / ".pre-commit-config.yaml").is_file()
    assert "2 files written" in specgen("--root", "robot", "build")
    assert "up to date" in specgen("--root", "robot", "check")


def test_nobody_is_told_to_install_something_else() -> None:
    """`specgen` on the package index is another project."""
    suffixes = {".py", ".md", ".toml", ".in", ".yaml"}
    folders = ("specgen", "runtime", "docs", "examples")
    paths = [
        path for folder in folders for path in sorted((ROOT / folder).rglob("*")) if path.suffix in suffixes
    ]
    wrong = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in [*paths, ROOT / "README.md", ROOT / "pyproject.toml"]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"""\bspecgen\[|["']specgen["'],?$|install `?specgen(?![\w-])""", line)
    ]
    assert wrong == []
