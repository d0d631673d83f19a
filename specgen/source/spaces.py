"""Records of Gymnasium environments: the spaces and the time limit that `gymnasium.make(id)` gave, as plain data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

from specgen.values import dataclass

Bound = float | list["Bound"]
Spaces = Mapping[str, "Space | Spaces"]
"""The spaces of a Dict by key, of a Tuple as `part_0` and so on; each may hold others."""


Kind = Literal["box", "discrete", "multi_discrete", "multi_binary"]


@dataclass(frozen=True)
class Space:
    """A Gymnasium space.

    Attributes:
        kind: `box`, `discrete`, `multi_discrete` or `multi_binary`.
        dtype: NumPy's name of the dtype.
        shape: of one element.
        low, high: of a box; one number where all elements agree, else nested lists; whole numbers where the
            dtype holds only those, so that none is rounded.
        n: number of values of a discrete space.
        nvec: numbers of values of a multi-discrete space, element after element.
        start: first value of a discrete space.
    """

    kind: Kind
    dtype: str
    shape: tuple[int, ...] = ()
    low: Bound | None = None
    high: Bound | None = None
    n: int | None = None
    nvec: tuple[int, ...] | None = None
    start: int = 0


@dataclass(frozen=True)
class Record:
    """A recorded environment.

    Attributes:
        observation: its observation space, or spaces by key.
        action: its action space, or spaces by key.
        max_episode_steps: its time limit.
        module: the module that registers it, where Gymnasium itself does not.
    """

    observation: Space | Spaces
    action: Space | Spaces
    max_episode_steps: int | None = None
    module: str | None = None


def record_key(id: str, kwargs: Mapping[str, Any]) -> str:
    """The key of a record: the id, and the keyword arguments if there are any."""
    return f"{id} {json.dumps(kwargs, sort_keys=True)}" if kwargs else id


def records_from_json(text: str) -> dict[str, Record]:
    """The records of a lock file.

    Raises:
        ValueError: the text is no lock file.
    """
    try:
        data = json.loads(text)
        return {key: _record(value) for key, value in data["environments"].items()}
    except (KeyError, TypeError, AttributeError, OverflowError) as fault:
        raise ValueError(f"not a lock file of Gymnasium environments: {fault!r}") from fault


def records_to_json(records: Mapping[str, Record]) -> str:
    """The text of a lock file: sorted, with exact floats; infinities are text."""
    data = {
        "about": "Spaces of Gymnasium environments, recorded by `specgen build`. Commit this file.",
        "environments": {key: _plain_record(record) for key, record in sorted(records.items())},
    }
    return json.dumps(data, indent=2, sort_keys=True, allow_nan=False) + "\n"


def _record(data: Mapping[str, Any]) -> Record:
    most, module = data.get("max_episode_steps"), data.get("module")
    return Record(
        _spaces(data["observation"]),
        _spaces(data["action"]),
        None if most is None else _whole(most, 1),
        None if module is None else _module(module),
    )


def _spaces(data: Mapping[str, Any]) -> Space | Spaces:
    if isinstance(data.get("kind"), str):
        return _space(data)
    return {key: _spaces(part) for key, part in data.items()}


def _space(data: Mapping[str, Any]) -> Space:
    values = dict(data)
    if values.get("kind") not in get_args(Kind):
        raise ValueError(f"there is no space of kind {values.get('kind')!r}")
    if not isinstance(values.get("dtype"), str) or not values["dtype"].isidentifier():
        raise ValueError(f"{values.get('dtype')!r} is no dtype")
    for name in ("shape", "nvec"):
        if values.get(name) is not None:
            values[name] = tuple(_whole(size, 0) for size in values[name])
    for name in ("n", "start"):
        if values.get(name) is not None:
            values[name] = _whole(values[name], 1 if name == "n" else None)
    for name in ("low", "high"):
        if values.get(name) is not None:
            values[name] = _bound(values[name], float if values["dtype"].startswith("float") else int)
    return Space(**values)


def _module(value: Any) -> str:
    if not isinstance(value, str) or not all(part.isidentifier() for part in value.split(".")):
        raise ValueError(f"{value!r} stands where the name of a module is meant")
    return value


def _whole(value: Any, least: int | None) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or (least is not None and value < least):
        raise ValueError(f"{value!r} stands where a whole number is meant")
    return value


def _bound(value: Any, number: type[int | float]) -> Any:
    if isinstance(value, list):
        return [_bound(item, number) for item in value]
    if isinstance(value, bool) or (isinstance(value, str) and value.lstrip("-") != "inf"):
        raise ValueError(f"{value!r} stands where a bound is meant")
    return number(value)


def _plain_record(record: Record) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "observation": _plain_spaces(record.observation),
        "action": _plain_spaces(record.action),
        "max_episode_steps": record.max_episode_steps,
    }
    return plain if record.module is None else {**plain, "module": record.module}


def _plain_spaces(spaces: Space | Spaces) -> dict[str, Any]:
    if isinstance(spaces, Space):
        return _plain_space(spaces)
    return {key: _plain_spaces(part) for key, part in sorted(spaces.items())}


def _plain_space(space: Space) -> dict[str, Any]:
    values: dict[str, Any] = {"kind": space.kind, "dtype": space.dtype, "shape": list(space.shape)}
    for name in ("low", "high"):
        if (bound := getattr(space, name)) is not None:
            values[name] = _plain_bound(bound)
    if space.n is not None:
        values["n"] = space.n
    if space.nvec is not None:
        values["nvec"] = list(space.nvec)
    if space.start:
        values["start"] = space.start
    return values


def _plain_bound(value: Bound) -> Any:
    if isinstance(value, list):
        return [_plain_bound(item) for item in value]
    return value if math.isfinite(value) else str(value)
