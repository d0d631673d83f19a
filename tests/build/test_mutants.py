"""Schemas with random slips: a diagnostic or working code, never a traceback and never both."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

import specgen.emit.project
from specgen.settings import Config
from tests.support import LIBRARY, compile_sources, library_records

ROOT = Path(__file__).resolve().parents[2]
COMMENTS = re.compile(r"^#.*\n", re.MULTILINE)
SCHEMAS = [
    COMMENTS.sub("", path.read_text(encoding="utf-8")).replace("../", "specgen_std/")
    for folder in ("schemas", "tests/cases/good", "tests/agreement/schemas")
    for path in sorted((ROOT / folder).rglob("*.yaml"))
]
TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*|\d+(?:\.\d+)?|[^\sA-Za-z0-9_]")
WORDS = sorted({word for text in SCHEMAS for word in TOKEN.findall(text)})
CONFIG = Config("schemas", "made", "made")


def slip(text: str, rng: random.Random) -> str:
    """One small change: a token or a line dropped, replaced, repeated, moved or indented."""
    tokens = list(TOKEN.finditer(text))
    one, other = rng.choice(tokens), rng.choice(tokens)
    lines = text.split("\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(7):
        case 0:
            return text[: one.start()] + text[one.end() :]
        case 1:
            return text[: one.start()] + rng.choice(WORDS) + text[one.end() :]
        case 2:
            return text[: one.start()] + other.group() + text[one.end() :]
        case 3:
            del lines[i]
        case 4:
            lines[i], lines[j] = lines[j], lines[i]
        case 5:
            lines.insert(i, lines[j])
        case _:
            lines[i] = f"  {lines[i]}" if rng.random() < 0.7 else lines[i].replace(" ", "", 2)
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(6))
def test_slips_give_diagnostics(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Python's own parser instead of a formatter's process for each of hundreds of compilations
    monkeypatch.setattr(specgen.emit.project, "format_python", parsed)
    rng, records = random.Random(seed), library_records()
    refused = 0
    for _ in range(40):
        text = rng.choice(SCHEMAS)
        for _ in range(rng.randrange(1, 4)):
            text = slip(text, rng)
        library = LIBRARY if "specgen_std/" in text else None
        try:
            made = compile_sources({"schemas/a.yaml": text}, CONFIG, gymnasium=records, library=library)
        except Exception as error:
            raise AssertionError(f"a traceback for\n{text}") from error
        errors = [item for item in made.diagnostics if item.severity == "error"]
        assert bool(made.files) is not bool(errors), text
        lines = text.split("\n")
        for item in errors:
            if item.span.file == "schemas/a.yaml":
                assert 1 <= item.span.line <= len(lines), text
            assert item.message, text
        refused += bool(errors)
    assert refused > 20


def parsed(files: Mapping[str, str]) -> dict[str, str]:
    for text in files.values():
        ast.parse(text)
    return dict(files)
