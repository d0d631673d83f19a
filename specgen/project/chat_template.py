"""What a chat template says of itself: it is parsed, never rendered."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import ClassVar

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser

from specgen.source.model_folders import Template

_REWRITING = frozenset(
    {"split", "rsplit", "partition", "rpartition", "replace", "removeprefix", "removesuffix"}
)


class _Generation(Extension):
    """The blocks around what the assistant says."""

    tags: ClassVar[set[str]] = {"generation"}  # type: ignore[misc]  # jinja2 has it as an attribute of objects

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


_ENVIRONMENT = Environment(extensions=[_Generation, "jinja2.ext.loopcontrols"])  # nothing is rendered


def read_template(text: str) -> Template:
    """What a chat template says of itself; only the digest of one that can't be parsed.

    Args:
        text: the template.
    """
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    try:
        tree = _ENVIRONMENT.parse(text)
    except (TemplateSyntaxError, RecursionError):
        return Template(digest)
    return Template(
        digest,
        tree.find(nodes.Scope) is not None,
        any(_rewrites(node) for node in tree.find_all((nodes.Call, nodes.Filter))),
        tuple(dict.fromkeys(_refused(tree))),
    )


def _rewrites(node: nodes.Node) -> bool:
    """Whether a call or filter cuts or replaces parts of a content."""
    if isinstance(node, nodes.Filter):
        return node.name == "replace" and node.node is not None and _of_content(node.node)
    if not isinstance(node, nodes.Call) or not isinstance(node.node, nodes.Getattr):
        return False
    return node.node.attr in _REWRITING and _of_content(node.node.node)


def _of_content(node: nodes.Node) -> bool:
    return any("content" in word for each in _with_parts(node) for word in _words(each))


def _refused(tree: nodes.Node) -> Iterator[str]:
    """The roles of messages for which an error is raised, whatever else is there."""
    for node in tree.find_all(nodes.If):
        raised = (
            call for part in node.body if not isinstance(part, nodes.If) for call in part.find_all(nodes.Call)
        )
        if any(isinstance(call.node, nodes.Name) and call.node.name == "raise_exception" for call in raised):
            yield from _role_of(node.test)


def _role_of(test: nodes.Node) -> Iterator[str]:
    """The role that a condition compares with, if it does nothing else."""
    if not isinstance(test, nodes.Compare) or [operand.op for operand in test.ops] != ["eq"]:
        return
    sides = (test.expr, test.ops[0].expr)
    if any("role" in _words(each) for side in sides for each in _with_parts(side)):
        for side in sides:
            if isinstance(side, nodes.Const) and isinstance(side.value, str):
                yield side.value


def _with_parts(node: nodes.Node) -> Iterator[nodes.Node]:
    yield node
    yield from node.find_all(nodes.Node)


def _words(node: nodes.Node) -> tuple[str, ...]:
    """The names by which a part of an expression reads something."""
    if isinstance(node, nodes.Getattr):
        return (node.attr,)
    if isinstance(node, nodes.Name):
        return (node.name,)
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        return (str(node.arg.value),)
    return ()
