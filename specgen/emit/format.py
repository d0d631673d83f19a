"""The formatter: one ruff process for all files of a build."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterable, Mapping

from specgen.literals import comment

_OPTIONS = ("--isolated", "--line-length", "110", "--target-version", "py311", "--no-cache")


class FormatError(RuntimeError):
    """A generated file that the formatter refuses: a fault of the generator, never of the schema."""


def format_python(files: Mapping[str, str]) -> dict[str, str]:
    """Format Python files that begin with a definition or an assignment.

    Args:
        files: relative path to text.

    Returns:
        The same paths with formatted text.

    Raises:
        FormatError: a text is no valid Python; the message holds its path and ruff's own.
    """
    if not files:
        return {}
    try:
        return dict(zip(files, _formatted(files.values()), strict=True))
    except FormatError:
        for path, text in files.items():  # which one it is only each by itself can tell
            try:
                _formatted([text])
            except FormatError as error:
                raise FormatError(f"{path}: {error}") from None
        raise


def _formatted(texts: Iterable[str]) -> list[str]:
    """The texts, formatted as one: writing a file for each, and reading it again, takes longer than formatting it.

    Between two of them stands a comment that is in none. It ends, too, what a comment of the first one may have
    kept from being formatted.
    """
    between = f"{comment('fmt: on')}\n{comment(secrets.token_hex(16))}\n"
    done = subprocess.run(
        [_ruff(), "format", *_OPTIONS, "-"],
        input=f"\n{between}".join(texts),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.strip() or done.stdout.strip()
        raise FormatError(said or f"ruff ended with {done.returncode} and no message")
    return [text.strip("\n") + "\n" for text in done.stdout.split(between)]


def _ruff() -> str:
    # here in every version that `pyproject.toml` allows; `ruff` itself has the function since 0.16
    from ruff.__main__ import find_ruff_bin  # type: ignore[import-untyped]

    return str(find_ruff_bin())
