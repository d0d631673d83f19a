"""Which files are schemas, and what is said about those that cannot be."""

import os
import sys
from pathlib import Path

import pytest

import specgen
from specgen import schema
from specgen.diagnostics import Sink
from specgen.project import Project, find_schemas, read_sources
from specgen.settings import Config
from specgen.source import PythonSchema, shown_path

PYTHON = "from specgen.schema import Module\nschema = Module(doc='A module.')\n"


def make(folder: Path, files: dict[str, str | bytes], exclude: tuple[str, ...] = ()) -> Project:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text if isinstance(text, bytes) else text.encode())
    return Project(folder, Config("schemas", "made", "made", exclude))


def found(sink: Sink) -> list[tuple[str, int, str]]:
    return [(item.span.file, item.span.line, f"{item.code} {item.message}") for item in sink.items]


def test_schema_files(tmp_path: Path) -> None:
    names = [
        "b.yaml",
        "a.yml",
        "z/deep/c.py",
        "z/_helper.py",
        "__init__.py",
        "notes.md",
        ".hidden.yaml",
        ".git/x.yaml",
        "__pycache__/y.py",
        "drafts/d.yaml",
        "gymnasium.lock.json",
    ]
    project = make(tmp_path, {f"schemas/{name}": "" for name in names} | {"other.yaml": ""}, ("drafts/*",))
    assert find_schemas(project) == ["schemas/a.yml", "schemas/b.yaml", "schemas/z/deep/c.py"]


def test_sources(tmp_path: Path) -> None:
    project = make(tmp_path, {"schemas/a.yaml": b"\xef\xbb\xbfdoc: a\r\n", "schemas/b.py": PYTHON})
    sink = Sink()
    sources = read_sources(project, sink)
    assert found(sink) == []
    assert sources.schemas == {
        "schemas/a.yaml": "doc: a\r\n",
        "schemas/b.py": PythonSchema({"doc": "A module."}),
    }
    assert sources.shown[shown_path("schemas/b.py")] == "doc: A module.\n"
    assert sources.shown["schemas/b.py"] == PYTHON


def test_running_a_schema_leaves_nothing_behind(tmp_path: Path) -> None:
    text = "import sys\nfrom schemas._shared import DOC\nfrom specgen.schema import Module\nschema = Module(doc=DOC)\n"
    project = make(tmp_path, {"schemas/a.py": text, "schemas/_shared.py": "DOC = 'shared'\n"})
    path, bytecode = list(sys.path), sys.dont_write_bytecode
    sink = Sink()
    assert read_sources(project, sink).schemas == {"schemas/a.py": PythonSchema({"doc": "shared"})}
    assert found(sink) == []
    assert (sys.path, sys.dont_write_bytecode) == (path, bytecode)
    assert not list(tmp_path.rglob("__pycache__"))
    assert not any(name.startswith("_specgen_schema_") for name in sys.modules)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("x = 1\n", 1, "a Python schema file defines `schema`"),
        ("schema = 3\n", 1, "`schema` is an int, not a specgen.Module"),
        ("\n\nraise ValueError('no\\nmore')\n", 3, "this file cannot be run: ValueError: no"),
        ("x = 1\ny = (\n", 2, "this file cannot be run: '(' was never closed"),
        ("import sys\nsys.exit(3)\n", 2, "this file cannot be run: SystemExit: 3"),
        ("def f():\n    1 / 0\n\nf()\n", 2, "this file cannot be run: ZeroDivisionError: division by zero"),
        ("import nowhere_at_all\n", 1, "this file cannot be run: ModuleNotFoundError: No module named"),
        (
            "from specgen.schema import Module\n\nschema = Module(envz={})\n",
            3,
            "this file cannot be run: unknown field `envz` in `Module`",
        ),
    ],
)
def test_python_files_that_declare_nothing(tmp_path: Path, text: str, line: int, message: str) -> None:
    project = make(tmp_path, {"schemas/a.py": text, "schemas/b.yaml": "doc: b\n"})
    sink = Sink()
    assert list(read_sources(project, sink).schemas) == ["schemas/b.yaml"]
    ((file, at, said),) = found(sink)
    assert (file, at) == ("schemas/a.py", line)
    assert said.startswith(f"SG057 {message}")


@pytest.mark.parametrize(
    ("made", "help"),
    [
        ("EpsilonGreedy(epss=0.1)", "did you mean 'eps'?"),
        ("Stop(epochs=3)", "the fields here are frames, hours, return_, updates"),
    ],
)
def test_fields_of_a_class_are_said(tmp_path: Path, made: str, help: str) -> None:
    project = make(tmp_path, {"schemas/a.py": f"from specgen import *\n\nschema = {made}\n"})
    sink = Sink()
    assert read_sources(project, sink).schemas == {}
    assert [item.help for item in sink.items] == [help]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    project = make(tmp_path, {"schemas/a.yaml": b"x: \xff", "schemas/b.yaml": b"#" * (5 * 2**20)})
    os.symlink(tmp_path / "nowhere", tmp_path / "schemas" / "c.yaml")
    sink = Sink()
    assert read_sources(project, sink).schemas == {}
    assert [(item.code, item.span.file) for item in sink.items] == [
        ("SG013", "schemas/a.yaml"),
        ("SG059", "schemas/b.yaml"),
        ("SG059", "schemas/c.yaml"),
    ]


def test_the_package_has_the_declarations_that_python_schemas_are_written_with() -> None:
    assert {*specgen.__all__} == {*schema.__all__} - {"Declaration"}
    assert all(getattr(specgen, name) is getattr(schema, name) for name in specgen.__all__)
