"""Recording Gymnasium environments: asked once, then committed.

Only `specgen build` asks Gymnasium; checking reads the lock file.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from specgen.diagnostics import Diagnostic, Sink, Span, as_question, did_you_mean
from specgen.diagnostics.rules.gymnasium import (
    BROKEN_LOCK,
    CANNOT_MAKE,
    NOT_INSTALLED,
    NOT_RECORDED,
    UNKNOWN_ID,
    UNSUPPORTED_SPACE,
)
from specgen.source.gymnasium_uses import Use
from specgen.source.spaces import Record, Space, Spaces, records_from_json, records_to_json

_REGISTERS = {"ALE": "ale_py"}
"""The modules that register the environments of well-known namespaces."""

LOCK_NAME = "gymnasium.lock.json"


def read_lock(file: Path, path: str, sink: Sink) -> dict[str, Record]:
    """The records in the lock file; a missing file has none, a broken one is a diagnostic."""
    try:
        return records_from_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        help = "delete it and run `specgen build` where Gymnasium is installed"
        said = str(error).splitlines()[0][:200]
        sink.add(BROKEN_LOCK.at(Span(path, 1, 1, 1, 2), f"`{path}` cannot be read: {said}", help=help))
        return {}


def lock_text(records: Mapping[str, Record]) -> str:
    """The text of the lock file."""
    return records_to_json(records)


def missing(uses: Sequence[Use], records: Mapping[str, Record]) -> list[Diagnostic]:
    """What a check says about environments that are not recorded.

    An id that nobody has is nearly always misspelt, so what was meant is looked for among those that are recorded and
    those of the installed Gymnasium.
    """
    unrecorded = [use for use in uses if use.key not in records]
    known = {key.split(" ", 1)[0] for key in records}
    if any(use.id not in known for use in unrecorded):
        known |= _own_ids()
    return [
        NOT_RECORDED.at(
            use.span,
            f"the Gymnasium environment '{use.key}' is not recorded",
            help=_meant(use.id, known) or "run `specgen build` where Gymnasium is installed",
        )
        for use in unrecorded
    ]


def _own_ids() -> frozenset[str]:
    """The ids that the installed Gymnasium registers itself; none where there is none.

    They are read in its source: a check does not wait until Gymnasium is imported, and runs nothing of it.
    """
    found = importlib.util.find_spec("gymnasium")
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        with contextlib.suppress(OSError, UnicodeDecodeError):
            text = (Path(folder) / "envs" / "__init__.py").read_text(encoding="utf-8")
            return frozenset(re.findall(r"register\(\s*id\s*=\s*[\"']([^\"']+)[\"']", text))
    return frozenset()


def record_missing(
    uses: Sequence[Use], records: Mapping[str, Record], modules: Sequence[str], sink: Sink
) -> dict[str, Record]:
    """Ask Gymnasium for the environments that are not recorded yet.

    Args:
        uses: Where environments are named.
        records: What is recorded already.
        modules: To import first, as the project's configuration says; they register environments.
        sink: Gets what cannot be recorded, at each place that names it.

    Returns:
        The old records and the new ones.

    """
    found = dict(records)
    wanted = [use for use in uses if use.key not in records]
    failed: dict[str, _CannotRecordError] = {}
    for use in wanted:
        if use.key not in found and use.key not in failed:
            try:
                found[use.key] = record(use.id, use.kwargs, modules)
            except _CannotRecordError as error:
                failed[use.key] = error
        if (why := failed.get(use.key)) is not None:
            sink.add(why.rule.at(use.span, str(why), help=why.help))
    return found


class _CannotRecordError(Exception):
    def __init__(self, rule: Any, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.rule = rule
        self.help = help


def record(id: str, kwargs: Mapping[str, Any], modules: Sequence[str] = ()) -> Record:
    """Make an environment once and note what it has; `_CannotRecordError` says why it cannot be."""
    if ":" in id:
        raise _CannotRecordError(
            CANNOT_MAKE,
            f"the id '{id}' names a module to import",
            f"write '{id.split(':', 1)[1]}', and list the module in gymnasium-modules of [tool.specgen]",
        )
    gymnasium, registered_by = _import(modules)
    if id not in gymnasium.registry:
        raise _CannotRecordError(
            UNKNOWN_ID, f"no Gymnasium environment '{id}'", _nearest(id, gymnasium.registry)
        )
    try:
        env = gymnasium.make(id, **_arguments(kwargs))
    except gymnasium.error.DependencyNotInstalled as error:
        said = " ".join(str(error).split())
        raise _CannotRecordError(
            NOT_INSTALLED, f"'{id}' needs a package that is not installed: {said}"
        ) from error
    except Exception as error:
        # The constructor of an environment may raise anything.
        said = " ".join(str(error).split())
        raise _CannotRecordError(
            CANNOT_MAKE, f"'{id}' cannot be made: {type(error).__name__}: {said}"
        ) from error
    try:
        return Record(
            observation=_spaces(id, "observation", env.observation_space),
            action=_spaces(id, "action", env.action_space),
            max_episode_steps=None if env.spec is None else env.spec.max_episode_steps,
            module=registered_by.get(id),
        )
    finally:
        env.close()


def _arguments(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    # A copy: environments have been seen to change what they are given.
    arguments: dict[str, Any] = json.loads(json.dumps(kwargs))
    return arguments


_REGISTERED_BY: dict[str, str] = {}
"""The modules whose import has registered an environment in this process, by its id."""


def _import(modules: Sequence[str]) -> tuple[Any, Mapping[str, str]]:
    """Gymnasium, after these modules have been imported, and which of them registers what it does not know itself."""
    try:
        gymnasium = importlib.import_module("gymnasium")
    except ImportError as error:
        help = 'pip install "specgen-rl[gym]"'
        raise _CannotRecordError(NOT_INSTALLED, "Gymnasium is not installed here", help) from error
    for module in modules:
        known = set(gymnasium.registry)
        try:
            importlib.import_module(module)
        except Exception as error:
            message = f"`{module}`, of gymnasium-modules, cannot be imported: {error}"
            raise _CannotRecordError(NOT_INSTALLED, message) from error
        _REGISTERED_BY.update(dict.fromkeys(set(gymnasium.registry) - known, module))
    return gymnasium, _REGISTERED_BY


def _meant(id: str, known: Collection[str]) -> str | None:
    """The id that was meant by one that is not among the `known` ones, in a sentence."""
    if id in known:
        return None
    base = id.rsplit("-v", 1)[0]
    versions = [other for other in known if other.rsplit("-v", 1)[0] == base]
    space = id.rpartition("/")[0]
    foreign = bool(space) and not any(other.startswith(f"{space}/") for other in known)
    best = max(versions, key=_version) if versions else None if foreign else did_you_mean(id, known)
    return None if best is None else as_question(best)


def _nearest(id: str, registry: Mapping[str, Any]) -> str:
    if (meant := _meant(id, registry)) is not None:
        return meant
    space = id.rpartition("/")[0]
    module = _REGISTERS.get(space, "…")
    return (
        "if another package registers it, name its module in [tool.specgen] of pyproject.toml: "
        f'gymnasium-modules = ["{module}"]'
    )


def _version(id: str) -> int:
    tail = id.rsplit("-v", 1)[-1]
    return int(tail) if tail.isdecimal() else -1


def _spaces(id: str, what: str, space: Any) -> Space | Spaces:
    kind = type(space).__name__
    if kind == "Tuple" and what.startswith("action"):
        parts = {f"part_{at}": part for at, part in enumerate(space.spaces)}
    elif kind == "Dict":
        parts = space.spaces
    else:
        return _space(id, what, space)
    if wrong := next((key for key in parts if not isinstance(key, str)), None):
        message = f"the {what} space of '{id}' has the key {wrong!r}, which is no text"
        raise _CannotRecordError(UNSUPPORTED_SPACE, message)
    if not parts and what.startswith("action"):
        raise _CannotRecordError(UNSUPPORTED_SPACE, f"the {what} space of '{id}' holds nothing")
    # sorted, as in the lock file: the first build gives the bytes of all others
    return {key: _spaces(id, f"{what} '{key}'", part) for key, part in sorted(parts.items())}


def _space(id: str, what: str, space: Any) -> Space:
    kind = type(space).__name__
    shape = tuple(int(size) for size in space.shape or ())
    dtype = str(space.dtype)
    if kind == "Box" and not ((space.low != space.low).any() or (space.high != space.high).any()):
        return Space("box", dtype, shape, low=_bound(space.low), high=_bound(space.high))
    if kind == "Discrete":
        return Space("discrete", dtype, shape, n=int(space.n), start=int(space.start))
    if kind == "MultiBinary":
        return Space("multi_binary", dtype, shape)
    if kind == "MultiDiscrete":
        return Space("multi_discrete", dtype, shape, nvec=tuple(int(n) for n in space.nvec.flat))
    raise _CannotRecordError(
        UNSUPPORTED_SPACE,
        f"the {what} space of '{id}' is {_shown(space)}, which can't be declared",
        _instead(id, what, kind),
    )


def _instead(id: str, what: str, kind: str) -> str:
    """What to use where a space can't be declared."""
    if what.startswith("observation") and kind == "Tuple":
        return (
            "register it wrapped in gymnasium.wrappers.FlattenObservation (`specgen explain SG705` shows how), or use "
            f'GymEnv("{id}", categorical_action_encoding=True) of specgen_runtime.envs'
        )
    wrapped = "register it in a wrapper that gives it a space of fixed shape"
    readable = kind in ("Tuple", "Dict", "Sequence", "Text")
    return f'{wrapped}, or use GymEnv("{id}") of specgen_runtime.envs' if readable else wrapped


def _shown(space: Any) -> str:
    text = " ".join(repr(space).split())
    return text if len(text) <= 80 else text[:79] + "…"


def _bound(array: Any) -> Any:
    """One number when all elements agree, else nested lists; float32 values are exact as floats."""
    number = float if array.dtype.kind == "f" else int
    if array.size and (array == array.flat[0]).all():
        return number(array.flat[0])
    return _numbers(array.tolist(), number)


def _numbers(value: Any, number: type[int | float]) -> Any:
    return [_numbers(item, number) for item in value] if isinstance(value, list) else number(value)
