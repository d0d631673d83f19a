"""A text of a schema never becomes code: it stays a constant or a comment, or a diagnostic says why it is refused.

Every field of the pydantic models that can hold a text is tried, in a schema that uses all of the language. Each
place gets a few of the texts, with `SPECGEN_THOROUGH=1` all of them.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import specgen.emit.project
from specgen.compile_project import Compiled
from specgen.diagnostics import Sink
from specgen.project.build import build
from specgen.project.config import ConfigError, load_project
from specgen.schema.load import to_data
from specgen.settings import Config
from specgen.source import PythonSchema, parse_yaml
from specgen.source.python import to_yaml
from specgen.source.spaces import Record, Space, record_key, records_from_json, records_to_json
from tests.security.hostile import NAMES, TEXTS, differing, shape
from tests.security.places import Place, places, text_fields
from tests.sizes import THOROUGH, each_time_or_thorough
from tests.support import compile_sources

PATH = "schemas/a.yaml"
CONFIG = Config("schemas", "made", "made")
EACH = each_time_or_thorough(2, len(TEXTS))
EVERY = each_time_or_thorough(4, 1)
DECLARED = ("envs", "transforms", "chains", "losses", "models", "pipelines")
BOX = Space("box", "float32", (2,), -1.0, 1.0)
CHOICE = Space("discrete", "int64", n=3)


@cache
def document() -> dict[str, Any]:
    text = (Path(__file__).parent / "everything.yaml").read_text(encoding="utf-8")
    root = parse_yaml(PATH, text, Sink())
    assert root is not None
    data = to_data(root)
    assert isinstance(data, dict)
    return data


PLACES = places(document())


@pytest.fixture(autouse=True)
def _no_formatter(monkeypatch: pytest.MonkeyPatch) -> None:
    # Python's own parser instead of a formatter's process for each of many compilations
    monkeypatch.setattr(specgen.emit.project, "format_python", dict)


def records(data: Mapping[str, Any]) -> dict[str, Record]:
    """Records of whatever Gymnasium environments a schema names."""
    made = {}
    envs = data.get("envs")
    for env in envs.values() if isinstance(envs, dict) else ():
        gymnasium = env.get("gymnasium") if isinstance(env, dict) else None
        if isinstance(gymnasium, dict) and isinstance(gymnasium.get("kwargs", {}), dict):
            key = record_key(str(gymnasium.get("id")), gymnasium.get("kwargs", {}))
            made[key] = Record({"pos": BOX, "inner": {"x": CHOICE}}, CHOICE, 7)
    return made


def compiled(data: dict[str, Any], *, python: bool = False) -> Compiled:
    """The output of a schema, declared in Python or in YAML."""
    source = PythonSchema(data) if python else to_yaml(data)
    path = PATH.replace(".yaml", ".py") if python else PATH
    return compile_sources({path: source}, CONFIG, gymnasium=records(data))


def errors(made: Compiled) -> list[str]:
    return [f"{item.code} {item.message}" for item in made.diagnostics if item.severity == "error"]


def around(place: Place) -> dict[str, Any]:
    """The document without the declarations that have nothing to do with a place."""
    section, name = (*place.path, None)[:2]
    if name is None and section not in ("functions", "consts"):
        return document()
    return around_declaration(section, name)


@cache
def around_declaration(section: str | int | None, name: str | int | None) -> dict[str, Any]:
    """The document without the declarations that have nothing to do with one of them.

    What uses it stays, unless it is a class of its own, and all that these use; all specs and rewards, which are short.
    Functions and constants, which the document leaves out, are beside an environment.
    """
    whole = document()
    texts = {(kind, each): json.dumps(whole[kind][each]) for kind in DECLARED for each in whole[kind]}
    kept = {(section, name)}
    if section in ("specs", "functions", "consts"):
        kept.add(("envs", "Native"))
    if section in ("rewards", "models"):
        kept |= {place for place, text in texts.items() if mentions(text, name)}
    new = kept
    while new:
        used = {place for place in texts for user in new & texts.keys() if mentions(texts[user], place[1])}
        new = used - kept
        kept |= new
    parts = {
        kind: {each: value for each, value in whole[kind].items() if (kind, each) in kept}
        for kind in DECLARED
    }
    shared = {kind: whole[kind] for kind in ("specgen", "doc", "specs", "rewards")}
    return {**shared, **{kind: part for kind, part in parts.items() if part}}


def mentions(text: str, name: object) -> bool:
    """Whether a name is a word of a text."""
    return re.search(rf"\b{re.escape(str(name))}\b", text) is not None


def test_the_document_is_right() -> None:
    made = compiled(document())
    assert not made.diagnostics
    classes = [name for section in ("envs", "transforms", "chains", "losses") for name in document()[section]]
    assert [name for name in classes if f"class {name}(" not in made.files["made/a.py"]] == []


def test_every_text_field_is_tried() -> None:
    assert {place.field for place in PLACES} >= text_fields()


@cache
def twins(place: Place) -> tuple[Compiled, ...]:
    """The output with harmless texts in the same place: a word, and what the document says."""
    harmless = [compiled(place.put(around(place), "word"))]
    if place.added is None:
        harmless.append(as_declared(*place.path[:2]))
    return tuple(made for made in harmless if not errors(made))


@cache
def as_declared(*path: str | int) -> Compiled:
    """The output of what is around any place in a declaration."""
    return compiled(around(Place(path, "")))


@pytest.mark.parametrize("part", range(8))
def test_a_text_stays_a_constant(part: int) -> None:
    accepted = 0
    for number in range(part, len(PLACES), 8):
        place = PLACES[number]
        for offset in range(EACH):
            text = TEXTS[(number * EACH + offset * 7) % len(TEXTS)] if len(TEXTS) > EACH else TEXTS[offset]
            accepted += stays_a_constant(place, text, python=bool((number + offset) % 2))
    assert accepted > 5, "nothing was accepted, so nothing was compared"


def stays_a_constant(place: Place, text: str, *, python: bool = False) -> bool:
    """Check one text in one place; whether it was accepted."""
    hint = f"{place}: {text[:60]!r}"
    try:
        made = compiled(place.put(around(place), text), python=python)
    except Exception as error:
        raise AssertionError(f"a traceback for {hint}") from error
    if errors(made):
        assert not made.files, hint
        return False
    assert made.files, f"neither files nor a diagnostic: {hint}"
    assert twins(place), f"refused for harmless texts, but not for {hint}"
    assert any(differing(made.files, other.files) == [] for other in twins(place)), hint
    return True


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name[:12])
def test_a_name_is_refused_or_works(name: str) -> None:
    keys = [place for place in PLACES if place.key]
    for place in PLACES if THOROUGH else keys[NAMES.index(name) % 5 :: 5]:
        try:
            made = compiled(place.put(around(place), name))
            for text in made.files.values():
                shape(text)
        except Exception as error:
            raise AssertionError(f"{place}: {name[:60]!r}") from error


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("losses.Distance.keys.priority.key", 'x" + str(getattr(__import__("os"), "system")("id")) + "y'),
        ("envs.Plain.gymnasium.id", 'a"""\nimport os\n"""b'),
        ("envs.Recorded.gymnasium.id", '"""\nimport os\n"""'),
        ("envs.Recorded.gymnasium.kwargs.word", 'x" + str(__import__("os")) + "y'),
        ("envs.Native.doc", '"""\nimport os\n"""'),
        ("doc", '"""\nimport os\n"""'),
    ],
)
def test_texts_that_are_meant_as_they_are_stay_constants(path: str, text: str) -> None:
    place = next(place for place in PLACES if str(place) == path)
    assert stays_a_constant(place, text)


# ---------------------------------------------------------------- what stands beside the schemas

GYM = """envs:
  Recorded:
    gymnasium: {id: Some/Env-v0, kwargs: {size: 3}}
"""
LOCK = records_to_json(
    {record_key("Some/Env-v0", {"size": 3}): Record({"pos": BOX, "inner": {"x": CHOICE}}, CHOICE, 7)}
)


def lock_places(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Every value of a lock file, and every key (`True`)."""
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            if isinstance(value, dict):
                yield (*path, key), True
            yield from lock_places(value[key], (*path, key))
    else:
        yield path, False


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text)[:20])
def test_a_lock_file_is_data(text: str) -> None:
    expected = compile_sources({PATH: GYM}, CONFIG, gymnasium=records_from_json(LOCK)).files
    assert expected
    for path, key in [*lock_places(json.loads(LOCK))][TEXTS.index(text) % EVERY :: EVERY]:
        data = json.loads(LOCK)
        parent = data
        for part in path[:-1]:
            parent = parent[part]
        if key:
            parent[text] = parent.pop(path[-1])
        else:
            parent[path[-1]] = text
        try:
            found = records_from_json(json.dumps(data))
        except ValueError:
            continue
        made = compile_sources({PATH: GYM}, CONFIG, gymnasium=found)
        assert errors(made) or differing(made.files, expected) == [], (path, key)


@pytest.mark.parametrize("text", [*TEXTS, *NAMES], ids=lambda text: ascii(text)[:20])
def test_file_names_and_configurations_are_data(text: str) -> None:
    schema = "specs: {joint: float32}\n"
    expected = compile_sources({PATH: schema}, CONFIG).files
    for field in dataclasses.fields(Config):
        value = text if isinstance(getattr(CONFIG, field.name), str) else (text,)
        try:
            config = dataclasses.replace(CONFIG, **{field.name: value})
        except ValueError:
            assert field.name == "package"
            continue
        made = compile_sources({f"{config.schemas}/a.yaml": schema}, config)
        assert errors(made) or made.files
        module = [file for path, file in made.files.items() if not path.endswith("__init__.py")]
        assert {shape(file) for file in module} <= {shape(expected["made/a.py"])}, field.name
        for file in made.files.values():
            shape(file)
    for path in (f"schemas/{text}.yaml", f"schemas/{text}/a.yaml"):
        for file in compile_sources({path: schema, PATH: schema}, CONFIG).files.values():
            shape(file)


@pytest.mark.parametrize("text", TEXTS[::EVERY], ids=lambda text: ascii(text)[:20])
def test_a_project_file_is_data(text: str, tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "a.yaml").write_text("specs: {joint: float32}\n", encoding="utf-8")
    known = {
        field.name.replace("_", "-"): getattr(CONFIG, field.name) for field in dataclasses.fields(Config)
    }
    for name, value in known.items():
        settings = {**known, name: text if isinstance(value, str) else [text]}
        lines = [
            f"{key} = {json.dumps(list(each) if isinstance(each, tuple) else each)}"
            for key, each in settings.items()
        ]
        (tmp_path / "pyproject.toml").write_text("\n".join(["[tool.specgen]", *lines, ""]), encoding="utf-8")
        try:
            outcome = build(load_project(tmp_path))
        except ConfigError:
            continue
        for path in outcome.written.written if outcome.written else ():
            shape((tmp_path / path).read_text(encoding="utf-8"))
