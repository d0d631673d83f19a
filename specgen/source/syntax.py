"""Explains YAML syntax errors as diagnostics."""

from __future__ import annotations

import re

import yaml

from specgen.diagnostics import Diagnostic, Note, Span
from specgen.diagnostics.rules.expressions import TAG_REFUSED
from specgen.diagnostics.rules.yaml import COMMENT_CUTS, FLOW_TEXT, SYNTAX, TAB
from specgen.look_alikes import plain, remedy
from specgen.source.brackets import balance, end_of_expression, looks_cut
from specgen.source.nodes import Scalar
from specgen.source.text import FileText

_COMMENT = re.compile(r"[ \t]+#[^\n]*")
_BANG = re.compile(r"(?:: +|[\[{,] *|^ *- +)(!+)(?=[\w(])", re.MULTILINE)
_WORD = re.compile(r"[^\s,\]}]+")


def explain_error(
    error: yaml.MarkedYAMLError, source: FileText, last: Scalar | None, flow: int | None
) -> Diagnostic:
    """The diagnostic for an error of the YAML parser.

    Args:
        error: What the parser raised.
        source: The file.
        last: The scalar read last before the error, if any.
        flow: The offset of the innermost `[` or `{` still open, if any.

    """
    at = _offset(error.problem_mark or error.context_mark, source)
    context = error.context or ""
    problem = error.problem or ""
    opened = None if error.context_mark is None else _offset(error.context_mark, source)
    if "tab" in problem or source.text[at : at + 1] == "\t":
        return tab(source, at)
    if cut := _cut_by_comment(last, at, source):
        return cut
    if negated := _negated(source, at):
        return negated
    if "flow" in context and flow is not None:
        return _flow(source, at, flow, last)
    if "quoted" in context and opened is not None and "unexpected end" in problem:
        return SYNTAX.at(source.span(opened, opened + 1), "this quote is never closed", help="close it")
    if "quoted" in context and "escape" in problem:
        start = source.text.rfind("\\", 0, at + 1)
        shown = source.text[start : start + 2]
        return SYNTAX.at(
            source.span(start, start + 2),
            f"unknown escape `{shown}` in a text in double quotes",
            help="write `\\\\` for a backslash, or use single quotes",
        )
    if "mapping values are not allowed" in problem:
        return _colon(source, at, last)
    if "could not find expected ':'" in problem and opened is not None:
        return SYNTAX.at(_line_from(source, opened), "expected `key: value`", help="add `: ` and a value")
    return _other(source, at, problem, opened)


def _negated(source: FileText, at: int) -> Diagnostic | None:
    """For an error behind a `!` that starts a value: to YAML it is a tag, to the writer it was a `not`."""
    line = source.text.rfind("\n", 0, at) + 1
    starts = [found.start(1) for found in _BANG.finditer(source.text, line, at)]
    if not starts:
        return None
    start = starts[-1]
    end = source.text.find("\n", start)
    whole = end_of_expression(source.text, start) if _in_flow(source.text[line:start]) else end
    whole = len(source.text) if whole < 0 else whole
    comment = _COMMENT.search(source.text, start, whole)
    whole = comment.start() if comment else start + len(source.text[start:whole].rstrip())
    if whole < at:
        return None  # another value has begun since
    return TAG_REFUSED.at(
        source.span(start, whole),
        "a value that starts with `!` is a tag to YAML",
        help=f"for the opposite write `not {source.text[start:whole].lstrip('!')}`",
    )


def _in_flow(before: str) -> bool:
    return bool(balance(before)[1])


def _flow(source: FileText, at: int, opened: int, last: Scalar | None) -> Diagnostic:
    bracket = source.text[opened]
    close = "]" if bracket == "[" else "}"
    end = -1 if last is None or last.origin is None or last.style != "plain" else last.origin.end
    joined = end >= 0 and not source.text[end:at].strip(" ")
    if last is not None and last.origin is not None and joined and source.text[at : at + 1] in ("[", "{"):
        start = last.origin.start
        before = source.text[:at].rstrip(" ")
        char = before[-1]
        if remedy(char) is not None and plain(before[-2:]).rstrip().endswith(":"):
            shown = char if char.isprintable() else f"U+{ord(char):04X}"
            place = source.span(len(before) - 1, len(before))
            return SYNTAX.at(place, f"`{shown}` ends no key: `: ` does", help=remedy(char))
        end = end_of_expression(source.text, start)
        shown = source.text[start:end]
        return FLOW_TEXT.at(
            source.span(start, end),
            f"`{shown}` inside `{bracket}…{close}` needs quotes",
            help=f'write "{shown}"' if '"' not in shown else "put it into single quotes",
        )
    if source.text[at : at + 1] in (":", ""):
        return SYNTAX.at(
            source.span(opened, opened + 1), f"`{bracket}` is never closed", help=f"add `{close}`"
        )
    return SYNTAX.at(
        _word_from(source, at),
        f"expected `,` or `{close}` here",
        notes=[Note(f"the `{bracket}` is opened here", source.span(opened, opened + 1))],
    )


def _colon(source: FileText, at: int, last: Scalar | None) -> Diagnostic:
    if last is not None and last.origin is not None and last.span.end_line > last.span.line:
        # A line that starts deeper than its neighbour continues the value above it, key and all.
        line = source.position(at)[0]
        start = source.offset(line - 1, 0)
        begin = start + len(source.text[start:at]) - len(source.text[start:at].lstrip())
        if not source.text[source.offset(last.span.line - 1, 0) : last.origin.start].strip():
            # Nothing stands before it on its line: it is no value but an entry without its colon.
            return SYNTAX.at(last.span, "expected `key: value`", help="add `: ` and a value")
        return SYNTAX.at(
            source.span(begin, at),
            "this entry is indented deeper than the ones beside it",
            notes=[Note("it reads as a continuation of the value that starts here", last.span)],
            help="start the entries of one mapping in the same column",
        )
    return SYNTAX.at(
        source.span(at, at + 1),
        "`: ` inside a text without quotes",
        help="put quotes around the value",
    )


def _other(source: FileText, at: int, problem: str, opened: int | None) -> Diagnostic:
    char = source.text[at : at + 1]
    if char in ("]", "}"):
        return SYNTAX.at(source.span(at, at + 1), f"`{char}` closes nothing")
    if "unexpected ':'" in problem:
        return SYNTAX.at(
            source.span(at, at + 1), "this `:` has no value behind it", help="write `key: value`"
        )
    if "line break" in problem and "comment" in problem:
        return SYNTAX.at(
            _line_from(source, at),
            "the text of a `|` or `>` value starts on the next line",
            help="put it below, indented; or put quotes around a value that starts with `|` or `>`",
        )
    if "document start" in problem:
        help = "start every entry in the first column, and remove what ends or opens a document above"
        return SYNTAX.at(_line_from(source, at), "the document has ended before this", help=help)
    if "sequence entries are not allowed" in problem:
        return SYNTAX.at(source.span(at, at + 1), "a list item (`- `) starts on a line of its own")
    if "cannot start any token" in problem or "node content" in problem:
        return SYNTAX.at(
            source.span(at, at + 1), f"a value cannot start with `{char}`", help="put quotes around the value"
        )
    if "alphabetic or numeric" in problem:
        return SYNTAX.at(
            source.span(opened if opened is not None else at, at),
            "a value that starts with `*`, `&` or `!` needs quotes",
            help="put quotes around the value",
        )
    if "expected key" in problem or "block end" in problem or "'-' indicator" in problem:
        before = source.text[source.offset(source.position(at)[0] - 1, 0) : at]
        if before.strip():
            return SYNTAX.at(
                _line_from(source, at),
                "this does not belong to the value before it",
                help="put quotes around the whole value",
            )
        notes = (
            []
            if opened is None
            else [Note("the entries that it should line up with start here", source.span(opened, opened + 1))]
        )
        return SYNTAX.at(
            _line_from(source, at),
            "this entry does not line up with the ones above it",
            notes=notes,
            help="start the entries of one mapping or list in the same column",
        )
    said = " ".join(problem.split()) or "unreadable"
    return SYNTAX.at(source.span(at, at + 1), f"not valid YAML: {said}")


def _cut_by_comment(last: Scalar | None, at: int, source: FileText) -> Diagnostic | None:
    if last is None or last.style != "plain" or last.origin is None or last.origin.end > at:
        return None
    comment = comment_after(source, last.origin.end)
    if comment is None or not looks_cut(last.text):
        return None
    return cut_by_comment(last, comment, source)


def comment_after(source: FileText, end: int) -> tuple[int, int] | None:
    """The comment on the same line behind a scalar, as offsets of its `#` and its end."""
    match = _COMMENT.match(source.text, end)
    return None if match is None else (source.text.index("#", match.start()), match.end())


def cut_by_comment(scalar: Scalar, comment: tuple[int, int], source: FileText) -> Diagnostic:
    """The diagnostic for an expression that a comment cuts off."""
    return COMMENT_CUTS.at(
        source.span(*comment),
        f"` #` starts a comment, so the expression ends at `{scalar.text[-30:]}`",
        help="put the comment on a line of its own, or quotes around the value",
    )


def tab(source: FileText, at: int) -> Diagnostic:
    """The diagnostic for a tab at `at`."""
    line, column = source.position(at)
    return TAB.at(source.span(at, at + 1), f"tab in indentation at {line}:{column}; YAML allows only spaces")


def _offset(mark: yaml.Mark | None, source: FileText) -> int:
    return 0 if mark is None else source.offset(mark.line, mark.column)


def _word_from(source: FileText, at: int) -> Span:
    match = _WORD.match(source.text, at)
    return source.span(at, at + 1 if match is None else match.end())


def _line_from(source: FileText, at: int) -> Span:
    end = source.text.find("\n", at)
    end = len(source.text) if end < 0 else end
    return source.span(at, at + max(1, len(source.text[at:end].rstrip())))
