"""The formatter takes all files of a build at once, and each comes out as if it were alone."""

from __future__ import annotations

import re
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from specgen.emit import template_loader
from specgen.emit.format import FormatError, format_python
from specgen.emit.render import _environment

_ASSIGNED = re.compile(r"^( *(?:self\.)?\w+) = ", re.MULTILINE)
GENERATED = Path(__file__).resolve().parents[2] / "generated" / "specgen_std"


def bodies() -> dict[str, str]:
    """The definitions of generated modules, badly laid out."""
    found = {}
    for file in sorted(GENERATED.rglob("*.py")):
        start = re.search(r"^(@|class |def )", text := file.read_text(encoding="utf-8"), re.MULTILINE)
        if start is not None:
            found[file.name] = _ASSIGNED.sub(r"\1   =  ", text[start.start() :]) + "\n\n\n"
    return found


def test_formatted_together_as_each_alone() -> None:
    texts = dict(list(bodies().items())[::8])
    together = format_python(texts)
    assert len(texts) > 5
    assert list(together) == list(texts)
    for name, text in texts.items():
        assert together[name] == format_python({name: text})[name]
        assert "   =  " in text
        assert "   =  " not in together[name]


def test_one_file_keeps_no_other_from_being_formatted() -> None:
    texts = {"a.py": "", "b.py": "# fmt: off\nx  =  1", "c.py": "y  =  2\n", "d.py": "\n"}
    assert format_python(texts) == {
        "a.py": "\n",
        "b.py": "# fmt: off\nx  =  1\n",
        "c.py": "y = 2\n",
        "d.py": "\n",
    }


def test_the_file_that_is_no_python_is_named() -> None:
    with pytest.raises(FormatError, match=r"two\.py: .*Failed to parse at 2:7"):
        format_python({"one.py": "x = 1\n", "two.py": "x = 1\ndef f(:\n", "three.py": "x = '''\n"})


def test_bytecode_of_templates_is_that_of_their_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    monkeypatch.setattr("sys.pycache_prefix", str(tmp_path / "bytecode"))
    monkeypatch.setattr(template_loader, "_FOLDER", tmp_path)
    loader, environment = template_loader.TemplateLoader(), _environment()
    file = tmp_path / "greeting.py.j2"

    def rendered() -> str:
        return loader.load(environment, file.name).render(name="pole")

    file.write_text("hello {{ name }}")
    assert rendered() == "hello pole"
    kept = Path(cache_from_source(str(file)))
    written = kept.read_bytes()
    with monkeypatch.context() as context:
        context.setattr(environment, "compile", lambda *_: pytest.fail("it is known"))
        assert rendered() == "hello pole"
    assert kept.read_bytes() == written
    file.write_text("howdy {{ name }}")
    assert rendered() == "howdy pole"


def test_a_formatter_that_says_nothing_has_its_exit_code_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for ending, told in (
        ("exit 3", "ended with 3"),
        ("echo full; exit 2", "full"),
        ("kill -9 $$", "ended with -9"),
    ):
        ruff = tmp_path / "ruff"
        ruff.write_text(f"#!/bin/sh\ncat > {tmp_path}/read\n{ending}\n")
        ruff.chmod(0o755)
        monkeypatch.setattr("specgen.emit.format._ruff", lambda ruff=ruff: str(ruff))
        with pytest.raises(FormatError, match=rf"one\.py: .*{told}"):
            format_python({"one.py": "x = 1\n"})
