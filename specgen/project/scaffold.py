"""`specgen init`: a small project that builds and runs."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

# Templates end in `.in`, so that no tool takes them for files of specgen itself.
_SUFFIX = ".in"
_NAME = "@name@"


class InTheWayError(Exception):
    """Files that the new project would overwrite."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        super().__init__(", ".join(map(str, paths)))
        self.paths = paths


def make_project(directory: Path) -> list[Path]:
    """Write the files of a new project; returns their paths, relative to `directory`.

    The generated package is named after the directory.

    Raises:
        InTheWayError: When one of the files exists; nothing was written.
        OSError: When the disk refuses.

    """
    files = project_files(package_name(directory.resolve().name))
    taken = tuple(directory / path for path in files if (directory / path).exists())
    if taken:
        raise InTheWayError(taken)
    for path, text in files.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text, encoding="utf-8", newline="\n")
    return list(files)


def project_files(package: str) -> dict[Path, str]:
    """The text of each file of a new project, by its path."""
    folder = Path(__file__).resolve().parent.parent / "scaffold"
    templates = sorted(path for path in folder.rglob(f"*{_SUFFIX}") if path.is_file())
    return {
        path.relative_to(folder).with_suffix(""): path.read_text(encoding="utf-8").replace(_NAME, package)
        for path in templates
    }


def package_name(folder: str) -> str:
    """A Python package name like the name of a folder; a `_rl` keeps it apart from the folder and PyPI."""
    name = re.sub(r"\W+", "_", folder.lower()).strip("_")
    if not name or not name.isidentifier() or keyword.iskeyword(name):
        name = f"my_{name}".rstrip("_")
    return f"{name}_rl"
