"""The schemas of the standard library, which schema files may import."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from specgen.project.gymnasium_lock import LOCK_NAME

PACKAGE = "specgen_std"


@cache  # a process goes on with the library that it began with, as it does with its own modules
def library_schemas() -> Mapping[str, str]:
    """The text of each schema of the standard library by its path below the package."""
    folder = _folder()
    if folder is None:
        return {}
    paths = sorted(folder.rglob("*.yaml"))
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def library_lock() -> Path | None:
    """The standard library's record of Gymnasium environments."""
    folder = _folder()
    return None if folder is None else folder / LOCK_NAME


def _folder() -> Path | None:
    # In an installed specgen the schemas lie inside the package; in a checkout, beside it.
    package = Path(__file__).resolve().parent.parent
    installed, checkout = package / "stdlib", package.parent / "schemas"
    if installed.is_dir():
        return installed
    return checkout if (package.parent / "generated" / PACKAGE).is_dir() and checkout.is_dir() else None
