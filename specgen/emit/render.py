"""From plans to text. Templates receive finished strings; undefined names are errors."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from specgen.plan.model import (
    ClassPlan,
    Field,
    FunctionPlan,
    Import,
    Item,
    Line,
    ModulePlan,
    RecordPlan,
    TypingPlan,
)


def render_module(plan: ModulePlan) -> str:
    """The text of a generated module, not yet formatted."""
    imports = set(plan.imports)
    if any(entry.typing_only for entry in imports) or _typing_only_lines(plan.items):
        imports.add(Import("typing", "TYPE_CHECKING"))
    runtime = {entry for entry in imports if not entry.typing_only}
    typing_only = {entry for entry in imports - runtime if Import(entry.module, entry.name) not in runtime}
    return _template("module").render(
        source=plan.source,
        doc=_docstring(plan.doc, 0),
        imports=_import_lines(runtime),
        typing_imports=_import_lines(typing_only),
        exports=sorted((*plan.exports, *plan.functions)),
        items=[_item(item) for item in plan.items if not isinstance(item, TypingPlan)],
        typing_classes=[_typing_class(item) for item in plan.items if isinstance(item, TypingPlan)],
        names=[(i.name, i.runtime) for i in plan.items if isinstance(i, TypingPlan) and i.runtime],
    )


def render_package(doc: str, modules: Sequence[tuple[str, Sequence[str]]]) -> str:
    """The text of a package's `__init__`: it re-exports the names of its modules."""
    lines = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(modules) if names]
    exports = sorted({name for _, names in modules for name in names})
    return _template("package").render(doc=doc, imports=lines, exports=exports)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("specgen.emit"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


@cache
def _template(name: str) -> Template:
    return _environment().get_template(f"{name}.py.j2")


def _item(item: RecordPlan | FunctionPlan | ClassPlan) -> str:
    match item:
        case RecordPlan():
            return str(
                _template("record").render(
                    name=item.name,
                    doc=_docstring(item.doc, 1),
                    fields=[_documented(f) for f in item.fields],
                    hiding=_TUPLE_METHODS,
                )
            )
        case FunctionPlan():
            return _function(item)
        case ClassPlan():
            return str(
                _template("class").render(
                    name=item.name,
                    bases=", ".join(item.bases),
                    doc=_docstring(item.doc, 1),
                    attributes=item.attributes,
                    methods=[_indent(_function(method), 1) for method in item.methods],
                    typing_only=item.typing_only,
                    decorators=item.decorators,
                )
            )


_TUPLE_METHODS = ("count", "index")
"""Methods of tuples that a field of a record may hide: type checkers have to be told that it is meant."""


def _documented(field: Field) -> Field:
    """A field whose documentation can stand between triple quotes."""
    lines = textwrap.wrap(field.doc, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return replace(field, doc=_docstring(lines, 1)) if field.doc else field


_WIDTH = 100


def _function(plan: FunctionPlan) -> str:
    return str(
        _template("function").render(
            name=plan.name,
            signature=plan.signature,
            returns=plan.returns,
            doc=_docstring(plan.doc, 1),
            body=[_indent(line, 1).lstrip() for line in _body(plan.body)],
            decorators=plan.decorators,
        )
    )


def _body(lines: Iterable[Line]) -> Iterable[str]:
    """Statements, each block led by a comment that names the declaration it comes from."""
    for origin, block in groupby(lines, key=lambda line: line.origin):
        if origin is not None:
            yield f"# {origin}"
        for line in block:
            yield line.text


def _typing_class(plan: TypingPlan) -> str:
    return str(
        _template("typing_class").render(
            name=plan.name, base=plan.base, doc=_docstring(plan.doc, 2), fields=plan.fields
        )
    )


def _docstring(lines: Sequence[str], depth: int) -> str:
    """Docstring text at an indentation; backslashes and quotes can't end it early."""
    if not lines:
        return ""
    text = [line.replace("\\", "\\\\").replace('"""', '\\"\\"\\"') for line in lines]
    if not text:
        return ""
    if len(text) == 1:
        return text[0] + (" " if text[0].endswith('"') else "")
    pad = "    " * depth
    return "\n".join([text[0], *(pad + line if line else "" for line in text[1:]), pad])


def _indent(text: str, depth: int) -> str:
    pad = "    " * depth
    return "\n".join(pad + line if line.strip() else "" for line in text.rstrip("\n").split("\n"))


def _typing_only_lines(items: Iterable[Item]) -> bool:
    return any(isinstance(item, ClassPlan) and item.typing_only for item in items)


_STANDARD = ("abc", "collections", "collections.abc", "dataclasses", "functools", "math", "typing")


def _import_lines(imports: Iterable[Import]) -> list[str]:
    """Import statements: standard library, third party, runtime; blank lines between."""
    modules: dict[tuple[int, str], set[str | None]] = {}
    for entry in imports:
        section = 0 if entry.module in _STANDARD else 1
        modules.setdefault((section, entry.module), set()).add(entry.name)
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
        if listed := sorted((name for name in names if name is not None), key=_import_order):
            lines.append(f"from {module} import {', '.join(listed)}")
    return lines


def _import_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, as isort has it."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)
