"""The configuration of a training beside its log: stored, and compared when it goes on."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specgen_runtime.durable import replace_file
from specgen_runtime.reported import ReportedError

__all__ = ["ConfigChangedError", "changed_fields", "plain_config", "read_config", "write_config"]


class ConfigChangedError(ReportedError, ValueError):
    """A training would go on with a configuration that it was not begun with.

    Args:
        folder: of the run.
        changes: the fields that differ and may not, with both values.
        before: the configuration that the run was begun with.
        now: the other one.

    Attributes:
        fields: what differs, and may not.
    """

    def __init__(
        self,
        folder: Path,
        changes: Mapping[str, tuple[Any, Any]],
        before: Mapping[str, Any],
        now: Mapping[str, Any],
    ) -> None:
        both = before.keys() & now.keys()
        said = [f"{name} was {old!r}, is {new!r}" for name, (old, new) in changes.items() if name in both]
        gone = [name for name in changes if name not in now]
        added = [name for name in changes if name not in before]
        if gone:
            said.append(f"it has {_some(gone)}, which this training does not know")
        if added:
            said.append(f"it lacks {_some(added)}")
        remedy = "Resume it with the values that it has, or start a new run in another folder"
        if gone or added:
            remedy = "It is one of another pipeline, or of another version of this one: start a new run in another folder"
        super().__init__(f"{folder} holds a run with another configuration: {'; '.join(said)}. {remedy}")
        self.fields = list(changes)


class UnreadableError(ReportedError, ValueError):
    """A file of a run that does not hold what was written."""


_SHOWN = 4
"""How many names are listed."""


def _some(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def plain_config(config: Any) -> dict[str, Any]:
    """A dataclass, a mapping or a record as what JSON keeps.

    Raises:
        TypeError: it is something else, or a field holds what JSON does not know.
    """
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        fields: Any = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    elif hasattr(config, "_asdict"):
        fields = config._asdict()
    elif isinstance(config, Mapping):
        fields = dict(config)
    else:
        raise TypeError(f"config is a dataclass, a NamedTuple or a mapping, found {type(config).__name__}")
    return {str(name): _plain(value, str(name)) for name, value in fields.items()}


def _plain(value: Any, name: str) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(entry, f"{name}.{key}") for key, entry in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain_config(value)
    if isinstance(value, tuple | list):
        return [_plain(entry, f"{name}[{place}]") for place, entry in enumerate(value)]
    raise TypeError(f"config: {name} is a {type(value).__name__}, which can't be stored")


def changed_fields(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The fields that differ, or that one of the two lacks (as None), with both values."""
    names = [*before, *(name for name in now if name not in before)]
    pairs = {name: (before.get(name), now.get(name)) for name in names}
    # as JSON, since not a number is no change of itself
    return {name: pair for name, pair in pairs.items() if json.dumps(pair[0]) != json.dumps(pair[1])}


def read_config(file: Path) -> dict[str, Any]:
    """What `write_config` wrote: `"config"`, and the list of `"changes"` since.

    Raises:
        UnreadableError: the file is not there, or is no JSON.
    """
    try:
        stored: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UnreadableError(
            f"{file} can't be read, which says what the run was begun with: {error}. Mend it, or start a new run in"
            " another folder"
        ) from error
    return stored


def write_config(file: Path, config: Mapping[str, Any], changes: Sequence[Mapping[str, Any]]) -> None:
    """Store a configuration and how it came about.

    Raises:
        OSError: it can't be written; what was stored before is as it was.
    """
    text = json.dumps({"config": config, "changes": list(changes)}, indent=2)
    replace_file(file, f"{text}\n".encode())
