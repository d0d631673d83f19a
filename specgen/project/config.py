"""`[tool.specgen]` of the nearest `pyproject.toml`."""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from specgen.diagnostics import Diagnostic, Sink, Span, suggestion
from specgen.diagnostics.rules.project import CONFIG_KEY, CONFIG_VALUE, PACKAGE_FOLDER
from specgen.settings import LONGEST_NAME, Config, package_fault
from specgen.values import dataclass

NAME = "pyproject.toml"
_TEXTS = ("schemas", "output", "package")
_LISTS = ("exclude", "gymnasium-modules")
_HEADER = re.compile(r"^\s*\[\s*tool\s*\.\s*specgen\s*\]")
_TABLE = re.compile(r"^\s*\[")


class ConfigError(Exception):
    """The project cannot be read.

    `diagnostics` and the `sources` that they speak of say where; both are empty when there is no
    place to point at, and the message says all.
    """

    def __init__(
        self, message: str, diagnostics: tuple[Diagnostic, ...] = (), sources: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.diagnostics = diagnostics
        self.sources: Mapping[str, str] = sources or {}


@dataclass(frozen=True)
class Project:
    """A folder with a `pyproject.toml`, and what its `[tool.specgen]` says."""

    root: Path
    config: Config


def load_project(start: Path) -> Project:
    """Read the nearest `pyproject.toml`, in `start` or above, that has a `[tool.specgen]`.

    Raises:
        ConfigError: When there is none, or when it cannot be used; every wrong entry is named.

    """
    start = start.resolve()
    found: list[Path] = []
    for folder in (start, *start.parents):
        path = folder / NAME
        if not path.is_file():
            continue
        found.append(path)
        table, text = _read(path)
        if table is not None:
            return Project(folder, _config(table, text, folder))
    if found:
        raise ConfigError(f"{found[0]} has no [tool.specgen]; `specgen init` in that folder adds one")
    raise ConfigError(
        f"no {NAME} with [tool.specgen] in {start} or above; run `specgen init` to make a project"
    )


def own_config(folder: Path) -> Config | None:
    """What the `pyproject.toml` of this folder says, or None without `[tool.specgen]`; the schemas may be missing.

    Raises:
        ConfigError: When it cannot be used; every wrong entry is named.

    """
    if not (folder / NAME).is_file():
        return None
    table, text = _read(folder / NAME)
    return None if table is None else _config(table, text, None)


def _read(path: Path) -> tuple[Any, str]:
    try:
        text = path.read_bytes().decode("utf-8")
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    tool = data.get("tool", {})
    return (tool.get("specgen") if isinstance(tool, dict) else None), text


def _config(table: Any, text: str, root: Path | None) -> Config:
    sink = Sink()
    where = _Places(text)
    if not isinstance(table, dict):
        sink.add(CONFIG_VALUE.at(where.header(), "[tool.specgen] is a table of settings"))
        table = {}
    known = (*_TEXTS, *_LISTS)
    for key in table:
        if key not in known:
            help = suggestion(key, known) or f"the keys are {', '.join(known)}"
            sink.add(CONFIG_KEY.at(where.key(key), f"unknown key '{key}' in [tool.specgen]", help=help))
    texts = {key: _text(table, key, where, sink) for key in _TEXTS}
    lists = {key: _list(table, key, where, sink) for key in _LISTS}
    for key in ("schemas", "output"):
        texts[key] = _folder(texts[key], key, root, where, sink)
    schemas, output, package = (texts[key] for key in _TEXTS)
    if schemas and output and _inside(schemas, output):
        message = f"`schemas` ({schemas}) and `output` ({output}) must not contain each other"
        sink.add(CONFIG_VALUE.at(where.value("output"), message))
    if package and (reason := package_fault(package.split("."))):
        message = f"`{package}` is no name of a Python package: {reason}"
        sink.add(CONFIG_VALUE.at(where.value("package"), message))
    elif package and output and not f"/{output}".endswith(f"/{package.replace('.', '/')}"):
        message = f"`{package}` is not what the folder `{output}` is imported by"
        help = _package_remedies(output.split("/"), package.split("."))
        sink.add(PACKAGE_FOLDER.at(where.value("package"), message, help=help))
    if sink.has_errors:
        raise ConfigError("[tool.specgen] cannot be used", sink.items, {NAME: text})
    return Config(schemas, output, package, lists["exclude"], lists["gymnasium-modules"])


def _text(table: Mapping[str, Any], key: str, where: _Places, sink: Sink) -> str:
    value = table.get(key)
    if isinstance(value, str) and value.strip():
        return value
    if key in table:
        sink.add(CONFIG_VALUE.at(where.value(key), f"`{key}` is a text", help=f'write {key} = "…"'))
    else:
        help = f'add {key} = "…"'
        # A misspelt key is reported as such; that the right one is missing follows from it.
        if not any(suggestion(other, [key]) for other in table if other not in (*_TEXTS, *_LISTS)):
            sink.add(CONFIG_VALUE.at(where.header(), f"`{key}` is missing in [tool.specgen]", help=help))
    return ""


def _list(table: Mapping[str, Any], key: str, where: _Places, sink: Sink) -> tuple[str, ...]:
    value = table.get(key, [])
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    sink.add(CONFIG_VALUE.at(where.value(key), f"`{key}` is a list of texts", help=f'write {key} = ["…"]'))
    return ()


def _folder(value: str, key: str, root: Path | None, where: _Places, sink: Sink) -> str:
    if not value:
        return ""
    path = posixpath.normpath(value.replace("\\", "/"))
    if not path.isprintable() or any(len(part) > LONGEST_NAME for part in path.split("/")):
        message = (
            f"`{key}` names a folder with characters that can't be seen, or with more than {LONGEST_NAME}"
        )
        sink.add(CONFIG_VALUE.at(where.value(key), message))
        return ""
    if path == "." or path.startswith(("../", "/")) or path == ".." or re.match(r"[A-Za-z]:", path):
        message = f"`{key}` ({value}) must be a folder below the one of {NAME}"
        sink.add(CONFIG_VALUE.at(where.value(key), message, help=f'write {key} = "{key}"'))
        return ""
    if key == "schemas" and root is not None and not (root / path).is_dir():
        sink.add(
            CONFIG_VALUE.at(where.value(key), f"there is no folder `{path}`", help="make it, or name another")
        )
    return path


def _package_remedies(folders: list[str], package: list[str]) -> str:
    """Both remedies for a folder and a package that do not match: rename the package, or the folder."""
    if package[0] in folders:
        top = folders.index(package[0])
        above, below = folders[:top], folders[top:]
    else:
        # Of `src/gen` and `my_rl.gen` the end is right already, and `src` is no package.
        pairs = zip(reversed(folders), reversed(package), strict=False)
        right = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        source = 1 if folders[0] == "src" else 0
        above = folders[: max(len(folders) - max(right, 1), source)]
        below = folders[1:] if source else folders[-1:]
    output = f'output = "{"/".join([*above, *package])}"'
    if not below or package_fault(below):
        return f"write {output}"
    return f'write package = "{".".join(below)}", or {output}'


def _inside(a: str, b: str) -> bool:
    return f"{a}/".startswith(f"{b}/") or f"{b}/".startswith(f"{a}/")


class _Places:
    """Where the entries of the table stand; TOML readers forget it."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        heads = [i for i, line in enumerate(self._lines) if _HEADER.match(line)]
        self._start = heads[0] if heads else 0
        after = range(self._start + 1, len(self._lines))
        self._end = next((i for i in after if _TABLE.match(self._lines[i])), len(self._lines))

    def header(self) -> Span:
        line = self._lines[self._start] if self._lines else ""
        return self._span(self._start, 0, len(line.rstrip()))

    def key(self, key: str) -> Span:
        found = self._find(key)
        return self.header() if found is None else self._span(found[0], found[1].start(1), found[1].end(1))

    def value(self, key: str) -> Span:
        found = self._find(key)
        return self.header() if found is None else self._span(found[0], found[1].start(2), found[1].end(2))

    def _find(self, key: str) -> tuple[int, re.Match[str]] | None:
        pattern = re.compile(rf"^\s*([\"']?{re.escape(key)}[\"']?)\s*=\s*(.*?)\s*$")
        for i in range(self._start, self._end):
            if match := pattern.match(self._lines[i]):
                return i, match
        return None

    def _span(self, line: int, start: int, end: int) -> Span:
        return Span(NAME, line + 1, start + 1, line + 1, end + 1)
