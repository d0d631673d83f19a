"""Declarations that nothing reads: parameters, constants, sizes, functions, networks, roles."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from specgen.check.model import Statement
from specgen.check.specs import NamedSpec
from specgen.diagnostics import Sink, Span
from specgen.diagnostics.rules import unread as rules
from specgen.schema.env import Env
from specgen.schema.load import SchemaFile, find
from specgen.source import Mapping as MappingNode
from specgen.source import Node, Scalar

_WORD = re.compile(r"[A-Za-z_]\w*")
_TYPED = ("groups", "params", "consts", "functions", "state", "action", "observation")
"""The sections of an environment whose types may call sizes."""


def warn_unread(span: Span, what: str, name: str, sink: Sink, help: str = "") -> None:
    """Warn that nothing reads what is declared at `span`."""
    help = help or "read it where it was meant, or leave it out"
    sink.add(rules.UNREAD_DECLARATION.at(span, f"nothing reads the {what} `{name}`", help=help))


def warn_unread_declarations(
    file: SchemaFile,
    path: tuple[str, ...],
    env: Env,
    named: Mapping[str, NamedSpec],
    statements: Iterable[Statement],
    sink: Sink,
) -> None:
    """Warn of parameters, constants, sizes and functions that no statement and no type reads."""
    statements = list(statements)
    reads = frozenset[str]().union(*(each.reads | each.calls for each in statements))
    sections: dict[str, tuple[str, Collection[str]]] = {
        "params": ("parameter", env.params),
        "consts": ("constant", env.consts),
        "functions": ("function", env.functions),
    }
    for section, (what, names) in sections.items():
        for name in names:
            if name not in reads:
                warn_unread(file.key_span(*path, section, name), what, name, sink)
    sizes = reads | _in_types(file, path, named)
    for name in env.dims:
        if name not in sizes:
            warn_unread(file.key_span(*path, "dims", name), "size", name, sink)


def _in_types(file: SchemaFile, path: tuple[str, ...], named: Mapping[str, NamedSpec]) -> frozenset[str]:
    """Every word in the types of a declaration, and in the named specs that they call."""
    words = {word for section in _TYPED for word in _words(find(file.root, (*path, section)))}
    for name in words & named.keys():
        words |= set(_words(find(named[name].file.root, ("specs", name))))
    return frozenset(words)


def _words(node: Node | None) -> Iterator[str]:
    """Every word of the values of a node, those of documentation left out."""
    if isinstance(node, MappingNode):
        for key, value in node.entries:
            if key.text != "doc":
                yield from _words(value)
    elif isinstance(node, Scalar):
        yield from _WORD.findall(node.text)
    elif node is not None:
        for item in node.items:
            yield from _words(item)
