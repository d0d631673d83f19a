"""Parses YAML text to nodes with positions, and reports all its mistakes in one run."""

from __future__ import annotations

import re
from typing import Final

import yaml

from specgen.diagnostics import Sink
from specgen.diagnostics.rules.yaml import ROOT, SYNTAX, TAB
from specgen.source.characters import refused_in, without_refused
from specgen.source.compose import Composer, TooDeep
from specgen.source.nodes import Mapping, Sequence
from specgen.source.syntax import explain_error, tab
from specgen.source.text import FileText

_TAB_INDENT = re.compile(r"^ *(\t)[ \t]*[^\s]", re.MULTILINE)
_TOP_LEVEL = re.compile(r"^[^\s#]", re.MULTILINE)

# One broken block hides nothing but itself; this many are enough to see that a file is not YAML.
_MOST_BLOCKS = 20


_CONFLICT: Final = re.compile(r"^<{7} .*$", re.MULTILINE)
"""How version control marks where two versions differ."""


def parse_yaml(path: str, text: str, sink: Sink) -> Mapping | None:
    """Read one schema file.

    Refused, each with its own diagnostic: anchors, aliases, merge keys, tags, duplicate keys, null
    values, several documents, expressions that a comma or a comment cuts, tabs in indentation. After a syntax
    error the top-level block that has it is left out and the rest is read on, for its mistakes.

    Args:
        path: The name of the file in diagnostics.
        text: Its text, decoded; a byte order mark is taken off by `decode`.
        sink: Where the mistakes go.

    Returns:
        The root mapping; None when the file cannot be read or is no mapping. When a mapping
        comes back, entries that were refused are missing in it: check `sink.has_errors`.

    """
    source = FileText(path, text)
    if conflict := _CONFLICT.search(text):
        help = (
            "keep what is meant, and leave out the lines that begin with `<<<<<<<`, `=======` and `>>>>>>>`"
        )
        span = source.span(conflict.start(), conflict.end())
        sink.add(SYNTAX.at(span, "a conflict between two versions is left here", help=help))
        return None
    readable = without_refused(source, sink)
    complete = readable == text
    for _ in range(_MOST_BLOCKS):
        found = Sink()
        composer = Composer(source, readable, found)
        try:
            composer.run()
        except TooDeep:
            sink.extend(found.items)
            return None
        except yaml.MarkedYAMLError as error:
            diagnostic = explain_error(error, source, composer.result.last, composer.innermost_flow)
            start, end = _block(source, diagnostic.span.line)
            sink.extend(found.items)
            if refused_in(text[start:end]) is None:
                sink.add(diagnostic)
            if diagnostic.code == TAB.code:
                sink.extend(tab(source, at.start(1)) for at in _TAB_INDENT.finditer(readable, start, end))
            blanked = _blank(readable, start, end)
            if blanked == readable:
                return None
            readable, complete = blanked, False
        except (yaml.YAMLError, ValueError) as error:
            # What has no position: the parser gave up on the whole.
            sink.add(ROOT.at(source.span(0, 1), f"not valid YAML: {error}".splitlines()[0]))
            return None
        else:
            sink.extend(found.items)
            return _root(source, composer, sink) if complete else None
    return None


def _block(source: FileText, line: int) -> tuple[int, int]:
    """The top-level entry that has a line, as offsets."""
    start, at = 0, source.offset(line, 0)
    for match in _TOP_LEVEL.finditer(source.text):
        if match.start() >= at:
            return start, match.start()
        start = match.start()
    return start, len(source.text)


def _blank(text: str, start: int, end: int) -> str:
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]


def _root(source: FileText, composer: Composer, sink: Sink) -> Mapping | None:
    root = composer.result.root
    if isinstance(root, Mapping):
        return root
    help = "start with `specgen: 1`, then declare envs, transforms, chains or losses"
    if root is None:
        sink.add(ROOT.at(source.span(0, 0), "the file declares nothing", help=help))
    else:
        kind = "a list" if isinstance(root, Sequence) else "a text"
        sink.add(ROOT.at(root.span, f"a schema file is a mapping, this is {kind}", help=help))
    return None
