"""The formatter: one ruff process for all files of a build."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

_OPTIONS = ("--isolated", "--quiet", "--line-length", "110", "--target-version", "py311", "--no-cache")


class FormatError(RuntimeError):
    """A generated file that the formatter refuses: a fault of the generator, never of the schema."""


def format_python(files: Mapping[str, str]) -> dict[str, str]:
    """Format Python files.

    Args:
        files: relative path to text.

    Returns:
        The same paths with formatted text.

    Raises:
        FormatError: a text is no valid Python; the message holds ruff's own.
    """
    if not files:
        return {}
    with tempfile.TemporaryDirectory(prefix="specgen-") as folder:
        # numbered names: the paths of a build may clash on a case-insensitive file system
        names = {path: Path(folder, f"f{index}.py") for index, path in enumerate(sorted(files))}
        for path, file in names.items():
            file.write_text(files[path], encoding="utf-8", newline="\n")
        done = subprocess.run(
            [_ruff(), "format", *_OPTIONS, folder], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            by_name = {file.name: path for path, file in names.items()}
            message = done.stderr
            for name, path in by_name.items():
                message = message.replace(str(Path(folder, name)), path)
            raise FormatError(message.strip())
        return {path: file.read_text(encoding="utf-8") for path, file in names.items()}


def _ruff() -> str:
    # here in every version that `pyproject.toml` allows; `ruff` itself has the function since 0.16
    from ruff.__main__ import find_ruff_bin  # type: ignore[import-untyped]

    return str(find_ruff_bin())
