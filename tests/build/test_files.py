"""The names of schema files: they become modules, and none is written over another."""

from __future__ import annotations

import pytest

from specgen.check.files import check_files
from specgen.diagnostics import Sink
from specgen.settings import Config
from tests.support import compile_sources

CONFIG = Config("schemas", "made", "made")


def said(*paths: str) -> list[tuple[str, str, str | None]]:
    sink = Sink()
    check_files(paths, CONFIG, sink)
    return [(item.code, item.span.file, item.help) for item in sink.items]


@pytest.mark.parametrize(
    ("part", "better"),
    [
        ("half-cheetah", "half_cheetah"),
        ("class", "class_"),
        ("2d", "module_2d"),
        ("a b", "a_b"),
        ('a" + "b', "a_____b"),
        ("a\nb", "a_b"),
        ("\N{LATIN SMALL LIGATURE FI}t", "t"),
        ("__main__", "main"),
        ("__", "_"),
        ("x" * 300, "x" * 40),
    ],
)
def test_names_that_no_module_can_have(part: str, better: str) -> None:
    for path in (f"schemas/{part}.yaml", f"schemas/{part}/a.yaml"):
        ((code, file, help),) = said(path, "schemas/right.yaml")
        assert (code, file) == ("SG058", path)
        assert help == f"rename it, say to `{better}`"


@pytest.mark.parametrize("name", ["a", "_private", "größe", "point_2d"])
def test_names_of_modules(name: str) -> None:
    assert said(f"schemas/{name}.yaml") == []


def test_nothing_is_generated_for_a_name_that_no_module_can_have() -> None:
    made = compile_sources({"schemas/my-env.yaml": "specs: {a: float32}\n"}, CONFIG)
    assert [item.code for item in made.diagnostics] == ["SG058"]
    assert not made.files


def test_two_files_for_one_module() -> None:
    paths = ("a.yaml", "a.yml", "b.yaml", "b/c.yaml", "__init__.yaml")
    assert [entry[:2] for entry in said(*(f"schemas/{path}" for path in paths))] == [
        ("SG054", "schemas/__init__.yaml"),
        ("SG054", "schemas/a.yml"),
        ("SG054", "schemas/b.yaml"),
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Point.yaml", "point.yaml"),
        ("A/x.yaml", "a/y.yaml"),
        ("B/c.yaml", "b.yaml"),
        ("d/E/f.yaml", "d/e/g.yaml"),
    ],
)
def test_files_that_are_one_where_case_is_folded(first: str, second: str) -> None:
    ((code, file, _),) = said(f"schemas/{first}", f"schemas/{second}")
    assert (code, file) == ("SG054", f"schemas/{second}")
