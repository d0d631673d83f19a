"""Right pipelines with random slips in their trees: a diagnostic or a module, never a traceback and never both."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

import specgen.emit.project
from specgen.memo import Memory
from specgen.project.library import library_schemas
from specgen.settings import Config
from tests.sizes import each_time_or_thorough
from tests.support import LIBRARY, compile_sources, library_records

CONFIG = Config("schemas", "made", "made")
FILES = {
    path: yaml.safe_load(text.replace("../", "specgen_std/"))
    for path, text in library_schemas().items()
    if path.startswith("pipelines/")
}
VALUES: list[Any] = [
    0, 1, -1, 0.5, 10**12, 1e400, True, None, "", "x", "drop", "state", "gamma", "linear(1, 0)", "linear(1)", "1 +", "a.b",
    [], {}, [64], [[1]], {"a": 1}, {"adam": {"lr": 1}}, {"of": []}, "PendulumTrain", "CartPoleTrain", "DQNLoss",
]  # fmt: skip


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all that is in a tree."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


KEYS = sorted({path[-1] for data in FILES.values() for path in places(data) if isinstance(path[-1], str)})


def slip(data: Any, rng: random.Random) -> None:
    """One change in the tree of the pipelines: something dropped, replaced, renamed, repeated or added."""
    known = list(places(data["pipelines"]))
    if not known:
        return
    path = rng.choice(known)
    node = data["pipelines"]
    for part in path[:-1]:
        node = node[part]
    last = path[-1]
    match rng.randrange(5):
        case 0:
            del node[last]
        case 1:
            node[last] = copy.deepcopy(rng.choice(VALUES))
        case 2 if isinstance(node, dict):
            node[rng.choice(KEYS)] = node.pop(last)
        case 3:
            other = rng.choice(known)
            found = data["pipelines"]
            for part in other:
                found = found[part]
            node[last] = copy.deepcopy(found)
        case _ if isinstance(node, dict):
            node[rng.choice(KEYS)] = copy.deepcopy(rng.choice(VALUES))


def parsed(files: Mapping[str, str]) -> dict[str, str]:
    for text in files.values():
        ast.parse(text)
    return dict(files)


@pytest.mark.parametrize("seed", range(3))
def test_slips_give_diagnostics(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specgen.emit.project, "format_python", parsed)
    rng, records, memo = random.Random(seed), library_records(), Memory()
    refused = 0
    for number in range(each_time_or_thorough(15, 300)):
        path = rng.choice(sorted(FILES))
        data = copy.deepcopy(FILES[path])
        if number % 3 == 0:
            ((name, _),) = data["pipelines"].items()
            child = {"doc": "A child.", "extends": name} | copy.deepcopy(data["pipelines"][name])
            data["pipelines"][name]["abstract"] = True
            data["pipelines"]["Child"] = {
                key: value for key, value in child.items() if key in ("doc", "extends") or rng.random() < 0.4
            }
        for _ in range(rng.randrange(1, 4)):
            slip(data, rng)
        text = yaml.safe_dump(data, sort_keys=False)
        try:
            made = compile_sources(
                {"schemas/a.yaml": text}, CONFIG, gymnasium=records, library=LIBRARY, memo=memo
            )
        except Exception as error:
            raise AssertionError(f"a traceback for\n{text}") from error
        errors = [item for item in made.diagnostics if item.severity == "error"]
        assert all(item.code != "SG991" for item in errors), f"{errors}\n{text}"
        assert bool(made.files) is not bool(errors), text
        refused += bool(errors)
    assert refused > 5
