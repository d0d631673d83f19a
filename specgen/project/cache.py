"""What earlier compilations made of the same input, so that nothing is compiled twice.

Kept by the user, not by the project: a cache that came with a checkout could vouch for files that its schemas
do not give. Only digests are kept, so the worst that a broken entry can do is to be of no use.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import specgen
from specgen.header import is_generated
from specgen.project.staleness import python_files
from specgen.project.write import remove_leftovers, replace_all
from specgen.settings import Config
from specgen.source import PythonSchema
from specgen.source.spaces import Record, records_to_json

VARIABLE = "SPECGEN_CACHE_DIR"
"""The environment variable that names the folder; empty turns the cache off."""

_KEPT = 100
_A_DAY = 24 * 3600


def input_digest(
    sources: Mapping[str, str | PythonSchema],
    config: Config,
    records: Mapping[str, Record],
    library: Mapping[str, str],
) -> str:
    """A digest of everything that a compilation depends on, the compiler itself included."""
    digest = hashlib.sha256()
    for part in (
        *_compiler(),
        repr(config),
        records_to_json(records),
        *(f"{path}\0{s if isinstance(s, str) else s.text}" for path, s in sorted(sources.items())),
        *(f"{path}\0{text}" for path, text in sorted(library.items())),
    ):
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little") + raw)
    return digest.hexdigest()


def still_current(key: str, root: Path, output: str) -> tuple[str, ...] | None:
    """The generated files, when the input is known and every file is as it was made of it.

    Returns:
        Their paths; None when anything is unknown, missing, changed or extra, and has to be looked at.
    """
    folder = _folder()
    try:
        known = json.loads((folder / f"{key}.json").read_text(encoding="utf-8")) if folder else None
    except (OSError, ValueError):
        return None
    if not isinstance(known, dict):
        return None
    found = 0
    for path in python_files(root, output):
        try:
            raw = (root / path).read_bytes()
        except OSError:
            return None
        if path in known:
            if hashlib.sha256(raw).hexdigest() != known[path]:
                return None
            found += 1
        elif is_generated(raw.decode("utf-8", "replace")):
            return None
    return tuple(sorted(known)) if found == len(known) else None


def remember(key: str, files: Mapping[str, str]) -> None:
    """Keep the digests of what a compilation without any finding made; a disk that refuses is no matter."""
    folder = _folder()
    if folder is None:
        return
    digests = {path: hashlib.sha256(text.encode("utf-8")).hexdigest() for path, text in files.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_all({folder / f"{key}.json": json.dumps(digests)})
        entries = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in entries[:-_KEPT]:
            path.unlink(missing_ok=True)
        remove_leftovers(folder, older=_A_DAY)
    except OSError:
        return


def _folder() -> Path | None:
    chosen = os.environ.get(VARIABLE)
    if chosen is not None:
        return Path(chosen) if chosen else None
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base, "specgen") if base and os.path.isabs(base) else None


def _compiler() -> tuple[str, ...]:
    """What tells one compiler from another: its files, the formatter, Python."""
    package = Path(specgen.__file__).parent
    files = [
        f"{entry.relative_to(package)} {stat.st_mtime_ns} {stat.st_size}"
        for entry in sorted(package.rglob("*"))
        if entry.suffix in (".py", ".j2") and (stat := entry.stat())
    ]
    return (*files, version("ruff"), sys.version)
