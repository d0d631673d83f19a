"""The layout of what the formatter does not see: imports, lists of names, and types of keys."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from specgen.imported import Import
from specgen.literals import literal
from specgen.plan.model import KeyedType, KeyType

WIDTH = 110


def filled(parts: Iterable[str], indent: int = 4, end: str = ",") -> list[str]:
    """Parts with something behind them, as many in a line as fit; whoever prints the lines indents them."""
    lines: list[str] = []
    for part in parts:
        if lines and indent + len(lines[-1]) + len(part) + 1 + len(end) <= WIDTH:
            lines[-1] += f" {part}{end}"
        else:
            lines.append(f"{part}{end}")
    return lines


def bracketed(head: str, parts: Sequence[str], tail: str, indent: int = 0) -> str:
    """Parts with commas between them in brackets: in one line, or in as few as they need."""
    line = f"{head}{', '.join(parts)}{tail}"
    if indent + len(line) <= WIDTH:
        return line
    return "\n".join([head, *(f"    {part}" for part in filled(parts, indent + 4)), tail])


def with_filled_calls(text: str, names: Collection[str]) -> str:
    """Formatted code with definitions, and calls of `names`, laid out anew: several arguments in a line.

    The formatter gives every argument a line of its own where one line is too short for all. Those of functions,
    the fields of records and what specs say are many, and read well side by side.
    """

    def lay_out(found: re.Match[str]) -> str:
        indent, head, name, remark, arguments, tail = found.groups()
        if head != "def " and name not in names:
            return found[0]
        parts = [line.strip().removesuffix(",") for line in arguments.splitlines()]
        lines = (f"{indent}    {line}" for line in filled(parts, len(indent) + 4))
        return "\n".join([f"{indent}{head}{name}({remark}", *lines, f"{indent}){tail}"])

    return _ARGUMENTS.sub(lay_out, text)


_ARGUMENTS = re.compile(
    # few lines end with a parenthesis: the others are passed over without looking at their words
    r"^(?=.*\((?:  #.*)?\n)( *)((?:def |return |\w+(?:: \w+)? = |\w+=)?)(\w+)\(((?:  #.*)?)\n((?:\1    [^ \n].*,\n)+)\1\)(.*)$",
    re.MULTILINE,
)


def import_text(imports: Iterable[Import], indent: int = 0) -> str:
    """Import statements: standard library, third party, runtime; blank lines between."""
    modules: dict[tuple[int, str], set[str | None]] = {}
    for entry in imports:
        section = 0 if entry.module in _STANDARD else 1
        modules.setdefault((section, entry.module), set()).add(entry.text)
    lines: list[str] = []
    last = 0
    plain_first = sorted(modules, key=lambda place: (place[0], None not in modules[place], place[1]))
    for section, module in plain_first:
        if lines and section != last:
            lines.append("")
        last = section
        names = modules[section, module]
        if None in names:
            lines.append(f"import {module}")
        if listed := sorted((name for name in names if name is not None), key=import_order):
            lines.append(from_text(module, listed, indent))
    return "\n".join(lines)


_STANDARD = ("abc", "collections", "collections.abc", "dataclasses", "functools", "math", "pathlib", "typing")


def from_text(module: str, names: Sequence[str], indent: int = 0) -> str:
    """`from module import …`, in parentheses if it is long."""
    head = f"from {module} import "
    if indent + len(head) + len(", ".join(names)) <= WIDTH:
        return head + ", ".join(names)
    return bracketed(f"{head}(", names, ")", indent)


def import_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, as isort has it."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def names_type(names: Iterable[str]) -> str:
    """The type of a name that is one of these; `Never` if there are none."""
    listed = ", ".join(map(literal, names))
    return f"Literal[{listed}]" if listed else "Never"


def key_type(key: KeyType) -> str:
    """The type of keys: of names, or of tuples of them."""
    parts = ", ".join(map(names_type, key.parts))
    return parts if len(key.parts) == 1 else f"tuple[{parts}]"


def keyed(type: KeyedType, indent: int) -> str:
    """A pair of type arguments: the union of the types of keys, and the type of their values."""
    unions = [key_type(key) for key in type.keys]
    line = f"{' | '.join(unions)}, {type.value}"
    if _fits(line, indent):
        return line
    pad = "\n" + " " * indent
    between = " " if _fits(f"| {unions[-1]}, {type.value}", indent) else pad
    return f"{f'{pad}| '.join(unions)},{between}{type.value}"


def subscripted(base: str, types: Sequence[KeyedType], indent: int) -> str:
    """A class with pairs of type arguments: in one line, or in one for each pair."""
    if not types:
        return base
    pairs = [keyed(type, indent + 4) for type in types]
    line = f"{base}[{', '.join(pairs)}]"
    if "\n" not in line and _fits(line, indent):
        return line
    pad = "\n" + " " * indent
    return f"{base}[{pad}    {f',{pad}    '.join(pairs)},{pad}]"


def _fits(line: str, indent: int) -> bool:
    """Whether a line has room, with a comma, in a class for type checkers, which is itself indented."""
    return 4 + indent + len(line) < WIDTH
