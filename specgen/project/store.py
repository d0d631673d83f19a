"""What earlier compilations found out, kept on disk, so that an edit costs the files that it concerns.

An entry is only believed when it carries a code that nobody without the user's key can make, and the key lies outside
of the folder: neither a cache that came with a checkout nor a damaged file can say what is generated, or run.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import pickle
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import specgen
from specgen.link import digest_of
from specgen.memo import Kind
from specgen.project.write import is_leftover

VARIABLE = "SPECGEN_CACHE_DIR"
"""The environment variable that names the folder; empty turns the cache off."""

LARGEST = 256 * 2**20
"""So many bytes are kept; what was not used for the longest time goes first."""

_LITTLE = LARGEST // 16
"""So many bytes a process may write before it makes room again."""
_A_DAY = 24 * 3600
_CODE = 32
"""How many bytes of an entry are its code."""
_SMALL: frozenset[Kind] = frozenset(("outline", "result"))
"""What is kept together, one file a project: each run looks at all of it."""


class Store:
    """What is known of the files of a project: in memory, and on disk where there is a place for it."""

    def __init__(self, root: Path) -> None:
        """Read what is known.

        Args:
            root: The project.

        """
        self._folder = cache_folder()
        self._key = _secret() if self._folder is not None else None
        self._salt = digest_of(*_compiler()) if self._key is not None else ""
        self._index = digest_of("index", str(root))
        self._known: dict[tuple[Kind, str], Any] = {}
        self._used: set[tuple[Kind, str]] = set()
        self._written = 0
        self._roomy = False
        self._grown = False
        # each value is packed by itself: a run that adds one does not pack all of them again
        self._small: dict[tuple[Kind, str], bytes]
        self._holders: dict[str, str]
        """Of each text, by its key, the name of the entry that it is in."""
        self._small, self._holders = self._read(self._index) or ({}, {})
        self._new_texts: dict[str, str] = {}
        self._entries: dict[str, dict[str, str]] = {}
        """The entries of texts that this run has read."""

    def get(self, kind: Kind, key: str) -> Any:
        """What is known under a key; None when nothing is, or when it can't be trusted."""
        place = (kind, key)
        self._used.add(place)
        if kind == "text":
            return self._text(key)
        value = self._known.get(place)
        if value is None:
            if kind not in _SMALL:
                value = self._read(digest_of(kind, key))
            elif (packed := self._small.get(place)) is not None:
                value = pickle.loads(packed)
            if value is not None:
                self._known[place] = value
        return value

    def _text(self, key: str) -> str | None:
        holder = self._holders.get(key)
        if holder is not None and holder not in self._entries:
            self._entries[holder] = self._read(holder) or {}
        return self._new_texts.get(key) or self._entries.get(holder or "", {}).get(key)

    def put(self, kind: Kind, key: str, value: Any) -> None:
        """Keep a value; a disk that refuses is no matter."""
        place = (kind, key)
        self._used.add(place)
        if kind == "text":
            self._new_texts[key] = value
            return
        self._known[place] = value
        if kind in _SMALL:
            self._small[place] = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
            self._grown = True
        else:
            self._write(digest_of(kind, key), value)

    def save(self) -> None:
        """Write down what this run has used, forget the rest, and make room where too much is kept."""
        self._known = {place: value for place, value in self._known.items() if place in self._used}
        if self._new_texts:
            # in one file: to make one for each takes longer than all else that becomes of a text
            holder = digest_of("texts", *sorted(self._new_texts))
            self._write(holder, self._new_texts)
            self._holders |= dict.fromkeys(self._new_texts, holder)
        small = {place: packed for place, packed in self._small.items() if place in self._used}
        if self._grown or len(small) < len(self._small):
            keys = {key for _, key in small}
            self._small = small
            self._holders = {key: holder for key, holder in self._holders.items() if key in keys}
            self._write(self._index, (small, self._holders))
            self._grown = False
        self._new_texts, self._entries = {}, {}
        self._used.clear()
        if self._folder is not None and (self._written > _LITTLE or (self._written and not self._roomy)):
            self._written, self._roomy = 0, True
            with suppress(OSError):
                _make_room(self._folder)

    def _read(self, name: str) -> Any:
        if self._folder is None or self._key is None:
            return None
        file = self._file(name)
        try:
            raw = file.read_bytes()
            if not hmac.compare_digest(raw[:_CODE], self._code(name, raw[_CODE:])):
                return None
            os.utime(file)
            return pickle.loads(raw[_CODE:])
        except Exception:  # whatever is wrong with an entry, it is of no use
            return None

    def _write(self, name: str, value: Any) -> None:
        if self._folder is None or self._key is None:
            return
        raw = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        file = self._file(name)
        beside = file.with_name(f".{file.name}.{os.getpid()}.tmp")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            # Not flushed to the disk: what a crash cuts off has a wrong code, and is made again.
            beside.write_bytes(self._code(name, raw) + raw)
            beside.replace(file)
            self._written += len(raw)
        except OSError:
            beside.unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{hashlib.sha256(f'{self._salt} {name}'.encode()).hexdigest()}.entry"

    def _code(self, name: str, raw: bytes) -> bytes:
        """What only the holder of the key can say of an entry: that this is its content, made by this compiler."""
        assert self._key is not None
        code = hashlib.blake2b(key=self._key, digest_size=_CODE)
        code.update(f"{self._salt} {name} ".encode())
        code.update(raw)
        return code.digest()


def _make_room(folder: Path) -> None:
    entries = []
    with os.scandir(folder) as found:
        for entry in found:
            stat = entry.stat()
            if entry.name.endswith(".entry"):
                entries.append((stat.st_mtime, stat.st_size, entry.path))
            elif is_leftover(entry.name) and stat.st_mtime < time.time() - _A_DAY:
                os.unlink(entry)  # younger ones another process may be writing
    size = sum(entry[1] for entry in entries)
    for _, freed, path in sorted(entries) if size > LARGEST else ():
        with suppress(OSError):
            os.unlink(path)
        size -= freed
        if size <= LARGEST * 3 // 4:
            break


def cache_folder() -> Path | None:
    """Where entries are kept; None where the user wants none, or has no place for them."""
    chosen = os.environ.get(VARIABLE)
    if chosen is not None:
        return Path(chosen) if chosen else None
    base = _user_folder("XDG_CACHE_HOME", "~/.cache")
    return None if base is None else Path(base, "specgen")


def _secret() -> bytes | None:
    """The user's key, made when it is first needed; None where it can't be kept."""
    base = _user_folder("XDG_STATE_HOME", "~/.local/state")
    if base is None:
        return None
    file = base / "specgen" / "cache.key"
    try:
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            # Another process may make one at the same time: the first one counts.
            with suppress(FileExistsError):
                descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "wb") as out:
                    out.write(secrets.token_bytes(_CODE))
        key = file.read_bytes()
        if len(key) == _CODE:
            return key
        file.unlink()
    except OSError:
        pass
    return None


def _user_folder(variable: str, otherwise: str) -> Path | None:
    """A folder of the user's, as the system has it."""
    base = (
        os.environ.get("LOCALAPPDATA")
        if sys.platform == "win32"
        else os.environ.get(variable) or os.path.expanduser(otherwise)
    )
    return Path(base) if base and os.path.isabs(base) else None


@cache  # a process goes on with what it imported, whatever becomes of the files
def _compiler() -> tuple[str, ...]:
    """What tells one compiler from another: its files, what it prints with, Python."""
    package = Path(specgen.__file__).parent
    files = []
    folders = [str(package)]
    while folders:
        with os.scandir(folders.pop()) as found:
            for entry in found:
                if entry.is_dir():
                    folders.append(entry.path)
                elif entry.name.endswith((".py", ".j2")):
                    stat = entry.stat()
                    files.append(f"{entry.path} {stat.st_mtime_ns} {stat.st_size}")
    return (*sorted(files), *_release("jinja2"), *_release("ruff"), sys.version)


def _release(package: str) -> Iterator[str]:
    """What tells one release of a package from another; asking for its version takes longer than a build."""
    spec = find_spec(package)
    for folder in map(Path, (spec.submodule_search_locations or ()) if spec is not None else ()):
        yield f"{folder} {folder.stat().st_mtime_ns}"
        yield from sorted(name for name in os.listdir(folder.parent) if name.startswith(f"{package}-"))
