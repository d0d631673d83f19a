"""The normal form of code: formatters do not change it, and no two programs have the same."""

import ast
import itertools
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from specgen.normal_form import normal_form

Make = Callable[[random.Random, int], str]
ROOT = Path(__file__).resolve().parents[2]

EXPRESSIONS = [
    "{0}",
    "({0})",
    "({0})",
    "({0}, {1})",
    "({0},)",
    "[{0}, {1}]",
    "[{0},]",
    "{{{0}: {1}}}",
    "{0} + {1}",
    "{0} in {1}",
    "not {0}",
    "-{0}",
    "{0} or {1}",
    "{0} if {1} else {2}",
    "lambda: {0}",
    "lambda a={0}: {1}",
    "a({0}, b={1})",
    "a({0}, *{1})",
    "a[{0}]",
    "a[{0}, {1}]",
    "a[{0},]",
    "a[{0}:{1}]",
    "[{0} for a in {1}]",
    "[{0} for a in {1} if {2}]",
    "({0} for a in {1})",
    "a({0} for b in {1})",
    "{{{0}: {1} for (a, b) in {2}}}",
    "(a := {0})",
    "(yield {0})",
    "await {0}",
    "{0}.real",
    "*{0}, {1}",
    "{0}, {1}",
    "{0},",
]
STATEMENTS = [
    "{0}",
    "a = {0}",
    "a = b = {0}",
    "a: {0} = {1}",
    "a += {0}",
    "return {0}",
    "yield {0}",
    "assert {0}, {1}",
    "raise {0} from {1}",
    "del a, b",
    "for a in {0}:\n  a",
    "for (a, b) in {0}:\n  a",
    "for (a) in {0}:\n  a",
    "for a, in {0}:\n  a",
    "if {0}:\n  a",
    "if {0}: ...",
    "while {0}:\n  a\nelse:\n  b",
    "with {0}, {1}:\n  a",
    "with ({0} as a):\n  a",
    "with {0} as a, b:\n  a",
    "with ({0}, {1}):\n  a",
    "try:\n  a\nexcept {0}:\n  b",
    "def f(a={0}, *, b) -> {1}:\n  a",
    "class A({0}): ...",
    "class A:\n  'a'\n  b",
    "match a:\n  case ({0}): ...\n  case {0}: ...",
    "case({0},)",
    "if a:\n  {0}\n  {1}",
    "if a:\n  {0}\n{1}",
]


def expression(draw: random.Random, depth: int) -> str:
    if depth == 0:
        return draw.choice(["a", "b", "1", "1.0", "'a'", "'b' 'a'"])
    text = draw.choice(EXPRESSIONS)
    return text.format(*(expression(draw, draw.randrange(depth)) for _ in range(3)))


def statement(draw: random.Random) -> str:
    return draw.choice(STATEMENTS).format(*(expression(draw, draw.randrange(3)) for _ in range(2)))


def meaning(text: str) -> str | None:
    """The syntax tree of a text as the body of a function; None if it is no Python."""
    indented = text.replace("\n", "\n ")
    try:
        tree = ast.parse(f"async def f():\n {indented}\n")
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign):
            node.simple = 0  # `(a): b` is `a: b`
    return ast.dump(tree)


def test_programs_of_one_form_are_one_program() -> None:
    draw = random.Random(0)
    meanings: dict[str | None, tuple[str, str]] = {}
    same = 0
    for _ in range(30_000):
        text = statement(draw)
        means = meaning(text)
        if means is None:
            continue
        form = normal_form(text)
        assert form is not None, text
        known, other = meanings.setdefault(form, (means, text))
        assert known == means, f"{other!r} and {text!r}"
        same += other != text
    assert len(meanings) > 3_000
    assert same > 500


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("return (a, b)", "return a, b"),
        ("x = (\n    a + b\n)", "x = a + b"),
        ("x = (a,)", "x = a,"),
        ("for (a, b) in (c, d):\n    a", "for a, b in c, d:\n\ta"),
        ("f(a, b)", "f(\n    a,\n    b,\n)"),
        ("f((a if b else c), d)", "f(a if b else c, d)"),
        ("from a import (\n    b,\n)", "from a import b"),
        ("with (\n    a as b,\n    c as d,\n):\n    e", "with a as b, c as d:\n    e"),
        ("def f(a) -> (\n    b\n): ...", "def f(a) -> b:\n    ..."),
        ("'a' 'b'", '"ab"'),
        ("x = 'a' f'{b[\"c\"]}'", "x = f\"a{b['c']}\""),
        ("x = '{' f'{a}'", "x = f'{{{a}'"),
        ("x = f'{f\"{a}\"}'", "x = f\"{f'{a}'}\""),
        ('x = f\'{a:>{b["c"]}} {d["}"]}\'', "x = f\"{a:>{b['c']}} {d['}']}\""),
        ('x = "\\"\'"', "x = '\"\\''"),
        ("x = 0XFF + 1E3 + 1_000 + 1.J", "x = 0xff + 1000.0 + 1000 + 1j"),
        ("assert a, (\n    'b'\n)", "assert a, 'b'"),
        ("x = a \\\n    + b", "x = a + b"),
        ("x = (\n    a\n    .b()\n    .c()\n)", "x = a.b().c()"),
        ("if a:\n    b\nc", "\n\nif a:\n\n  b\n\nc\n\n"),
        ("x = {'a': (b or c)}", "x = {'a': b or c}"),
    ],
)
def test_what_formatters_change(one: str, other: str) -> None:
    assert normal_form(one) == normal_form(other)
    assert normal_form(one) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a\n(b)", "a(b)"),
        ("if a:\n  b\n  c", "if a:\n  b\nc"),
        ("if a:\n  if b:\n    c\n  d", "if a:\n  if b:\n    c\n    d"),
        ("x = 'a b'", "x = 'a  b'"),
        ("x = 'a'", "x = b'a'"),
        ("x = r'\\n'", "x = '\\n'"),
        ("x = f'{a}'", "x = '{a}'"),
        ("x = f\"'{a}'\"", "x = f'\"{a}\"'"),
        ("x = f\"{{'a'}}\"", "x = f'{{\"a\"}}'"),
        ('x = f"""{a[\'b\' + \'c\']}"""', 'x = f"""{a[\'b" + "c\']}"""'),
        ("x = f'{a}' '{b}'", "x = f'{a}{b}'"),
        ("x = '\\\\\"'", "x = '\"'"),
        ("x = 1", "x = 1.0"),
        ("x = a, b", "x = [a, b]"),
        ("x = a in (b, c)", "x = a in b, c"),
        ("x[a,]", "x[a]"),
        ("x = [(a for a in b)]", "x = [a for a in b]"),
        ("f(a, # b\n)", "f(a, # c\n)"),
        ("assert (a, b)", "assert a, b"),
    ],
)
def test_what_only_people_change(one: str, other: str) -> None:
    assert normal_form(one) != normal_form(other)


@pytest.mark.parametrize("text", ["(", ")", "(]", "f(a", "x = [a, b)"])
def test_what_is_no_python_has_no_form(text: str) -> None:
    assert normal_form(text) is None


@pytest.mark.parametrize("width", [30, 60, 250])
@pytest.mark.parametrize(
    "options",
    ['format.quote-style="single"', "format.skip-magic-trailing-comma=true", 'format.indent-style="tab"'],
)
def test_code_of_people_keeps_its_form(tmp_path: Path, width: int, options: str) -> None:
    """Code with more forms than what is generated has: this project's own."""
    folders = ("specgen/check/losses", "runtime/specgen_runtime/specs", "tests/conformance")
    files = sorted(itertools.chain(*(ROOT.joinpath(folder).glob("*.py") for folder in folders)))
    texts = {}
    for number, file in enumerate(files):
        copy = tmp_path / f"{number}.py"
        texts[copy] = re.sub(r"# (fmt|isort|flake8): .*\n", "\n", file.read_text(encoding="utf-8"))
        copy.write_text(texts[copy], encoding="utf-8")
    arguments = ("format", "--isolated", "--no-cache", "--line-length", str(width), "--config", options, ".")
    subprocess.run([sys.executable, "-m", "ruff", *arguments], cwd=tmp_path, check=True, capture_output=True)
    formatted = {copy: copy.read_text(encoding="utf-8") for copy in texts}
    assert sum(formatted[copy] != texts[copy] for copy in texts) > len(texts) / 2
    assert [copy.name for copy in texts if normal_form(formatted[copy]) != normal_form(texts[copy])] == []
