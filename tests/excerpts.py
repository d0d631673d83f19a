"""Excerpts of Python modules: the definitions that a test is about, without what every generated module repeats."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

LEFT_OUT = "# ..."
_SHOWS = re.compile(r"^# shows: *(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Definition:
    """A statement, by what it binds: a function, a class, an assignment with its docstring, an import."""

    names: tuple[str, ...]
    """Dotted from the module; `__doc__` is the docstring of what encloses it."""
    lines: tuple[str, ...]
    header: tuple[str, ...]
    """The lines before the block, if definitions inside can be shown alone."""
    inside: tuple[Definition, ...]
    indent: str

    def matches(self, patterns: Sequence[str]) -> bool:
        return any(fnmatchcase(name, pattern) for name in self.names for pattern in patterns)

    def shows(self, patterns: Sequence[str]) -> bool:
        """Whether any of it is shown."""
        return self.matches(patterns) or any(each.shows(patterns) for each in self.inside)


def shown_by(schema: str) -> list[str]:
    """The names that a schema's lines `# shows: name, Class.method, prefix_*` list; none: its module is shown whole."""
    return [name.strip() for line in _SHOWS.findall(schema) for name in line.split(",")]


def excerpt_of(text: str, patterns: Sequence[str]) -> str:
    """The definitions of a module whose dotted names match a pattern, in the order of the module.

    `Class.__doc__` is the docstring of a class, `__doc__` that of the module; the name of a class stands for all of
    it. What encloses a definition is shown by its first lines, what is left out by `# ...`.

    Raises:
        ValueError: nothing matches one of the patterns.
    """
    definitions = definitions_in(ast.parse(text).body, "", text.splitlines())
    names = sorted(all_names(definitions))
    missing = [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in names)]
    if missing:
        raise ValueError(f"`# shows:` lists {missing}, which the module does not define; it has {names}")
    return "\n".join(excerpt_lines(definitions, patterns)) + "\n"


def excerpt_lines(definitions: Sequence[Definition], patterns: Sequence[str]) -> Iterator[str]:
    """What is shown of a block, with one mark for each run of definitions that are not."""
    marked = False
    for index, each in enumerate(definitions):
        shown = each.shows(patterns)
        if not shown and marked:
            continue
        if index:
            yield from [""] * (1 if each.indent else 2)
        if not shown:
            yield each.indent + LEFT_OUT
        elif each.matches(patterns):
            yield from each.lines
        else:
            yield from each.header
            yield from excerpt_lines(each.inside, patterns)
        marked = not shown


def definitions_in(block: Sequence[ast.stmt], prefix: str, lines: Sequence[str]) -> tuple[Definition, ...]:
    """What the statements of a block define; statements that bind no name are kept, without one."""
    found: list[Definition] = []
    for index, statement in enumerate(block):
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        own = lines[first_line(statement) - 1 : statement.end_lineno]
        if is_text and index:  # the docstring of the attribute above
            before = found.pop()
            found.append(Definition(before.names, (*before.lines, *own), (), (), before.indent))
            continue
        header: Sequence[str] = ()
        inside: tuple[Definition, ...] = ()
        if isinstance(statement, ast.ClassDef | ast.If):
            header = lines[first_line(statement) - 1 : first_line(statement.body[0]) - 1]
            inner = f"{prefix}{statement.name}." if isinstance(statement, ast.ClassDef) else prefix
            inside = definitions_in(statement.body, inner, lines)
        names = ("__doc__",) if is_text else names_bound_by(statement)
        indent = " " * statement.col_offset
        found.append(
            Definition(tuple(prefix + name for name in names), tuple(own), tuple(header), inside, indent)
        )
    return tuple(found)


def names_bound_by(statement: ast.stmt) -> tuple[str, ...]:
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
            return (name,)
        case ast.Assign(targets=targets):
            return tuple(target.id for target in targets if isinstance(target, ast.Name))
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return tuple(alias.asname or alias.name for alias in names)
    return ()


def first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])


def all_names(definitions: Sequence[Definition]) -> set[str]:
    return {name for each in definitions for name in (*each.names, *all_names(each.inside))}
