"""The normal form of Python code: the same for two texts that a formatter makes of one.

It is read off the tokens, not off a syntax tree, which takes several times as long. Parentheses go where no other
program could be meant without them, so that two programs that differ have two forms.
"""

from __future__ import annotations

import re
from keyword import kwlist
from typing import Final

# told by what it does not hold: of a range up to the last character `re` makes a table that takes longer than all else
_WORD = r"[^\x00-@[-^`{-\x7f][^\x00-\-/:-@[-^`{-\x7f]*+"
_FRACTION = r"[\d_]*(?:[eE][+-]?\d[\d_]*)?[jJ]?"
_TOKEN = re.compile(
    r"[ \t\f]*("
    + "|".join(
        (
            _WORD,
            r"[][(){},;~]",
            r"\n[ \t\f\n]*+",
            r"\"(?:\"\"[^\"\\]*(?:(?:\\[\s\S]|\"(?!\"\"))[^\"\\]*)*\"\"\"|[^\"\\\n]*(?:\\[\s\S][^\"\\\n]*)*\")",
            r"'(?:''[^'\\]*(?:(?:\\[\s\S]|'(?!''))[^'\\]*)*'''|[^'\\\n]*(?:\\[\s\S][^'\\\n]*)*')",
            r"[-+%@&|^=!:]=?>?",
            r"\#[^\n]*",
            rf"[0-9](?:[xX][\da-fA-F_]+|[\d_]*\.?{_FRACTION})",
            rf"\.(?:\d{_FRACTION}|\.\.|{_WORD})?",
            r"[*/<>][*/<>]?=?",
            r"\\\n",
            r".",
        )
    )
    + ")"
)
"""A token behind spaces; a name and what follows it behind dots are one."""
_ESCAPE = re.compile(r"\\([\s\S])")
_IN_FORMATTED = re.compile(r"\{\{|[{}]|'[^']*'|\"[^\"]*\"")

_START: Final = "\n"
"""Stands where a line of code begins, until its depth is known."""
_CASE: Final = "case "
"""The keyword, which is a name anywhere but at the start of a line."""
_PREFIXES: Final = frozenset(["b", "f", "r", "t", "u", "br", "fr", "rb", "rf", "rt", "tr"])
"""Of strings: a name that a string follows is none."""
_KEYWORDS: Final = frozenset({*kwlist, _CASE} - {"False", "None", "True"})
_BLOCKS: Final = frozenset(
    ["async", "class", "def", "elif", "else", "except", "finally", "for", "if", "try", "while", "with"]
)
_ASSIGN: Final = frozenset(
    ["=", "+=", "-=", "*=", "/=", "//=", "%=", "@=", "&=", "|=", "^=", ">>=", "<<=", "**="]
)
_BEFORE: Final = frozenset(
    (
        *_ASSIGN,
        *"([{,:",
        ":=",
        "->",
        "assert",
        "del",
        "elif",
        "else",
        "except",
        "from",
        "if",
        "import",
        "raise",
    )
) | {"return", "while", "with", "yield"}
"""Behind these a whole expression begins, so that it needs no parentheses."""
_AFTER: Final = frozenset((_START, *")]},:=", "as", "else", "for"))
"""Before these it ends."""
_TUPLES: Final = {
    **dict.fromkeys((_START, *_ASSIGN, "return", "yield", "import", "del"), frozenset([_START, "="])),
    **dict.fromkeys(("in", "with", "except", _CASE), frozenset(":")),
    "for": frozenset(["in"]),
}
"""What stands before and behind a tuple that needs no parentheses, in code that is in no brackets."""
_PLAIN_NUMBER = re.compile(r"[1-9]\d*|0")


class _Bracket:
    """A pair of brackets that is open, or has just been closed.

    Attributes:
        close: what closes it.
        before: the token before it.
        place: its own.
        groups: whether it is around an expression, and does not call or index what stands before it.
        commas: how many it holds.
        loops: whether it holds a comprehension.
    """

    __slots__ = ("before", "close", "commas", "groups", "loops", "place")

    def __init__(self, close: str, before: str, place: int) -> None:
        self.close, self.before, self.place = close, before, place
        operand = before not in _KEYWORDS and (before[-1].isalnum() or before[-1] in "_)]}" or '"' in before)
        self.groups = not operand
        self.commas = 0
        self.loops = False


class _Code:
    """Code that is read token by token; the tokens of its normal form, so far."""

    def __init__(self) -> None:
        self.tokens: list[str] = [_START]
        self._line = 0  # where the current line of code begins
        self._indent = ""  # of that line
        self._widths = [0]  # of the indentation of the blocks around it
        self._brackets: list[_Bracket] = []
        self._closed: _Bracket | None = None  # those that may go, if what follows is right

    def read(self, text: str) -> bool:
        """Read a whole text; false if its brackets do not match."""
        tokens, brackets, known, comments = self.tokens, self._brackets, _WORDS, []
        append = tokens.append
        for token in _TOKEN.findall(text):
            if (word := known.get(token)) is not None:
                append(word)
            elif token == ",":
                if brackets:
                    brackets[-1].commas += 1
                if self._closed is not None:
                    self._drop_parentheses(token)
                append(token)
            elif token in "([{":
                before = tokens[-1]
                if before == "case" and tokens[-2] == _START:
                    before = _CASE
                brackets.append(_Bracket(_CLOSING[token], before, len(tokens)))
                append(token)
            elif token in ")]}":
                if not brackets or brackets[-1].close != token:
                    return False
                if self._closed is not None:
                    self._drop_parentheses(token)
                self._close(brackets.pop())
            elif (first := token[0]) == "\n":
                if not brackets:
                    self._newline(token)
            elif first in "\"'":
                self._string(token)
            elif first == "#":
                comments.append(f"# {words(token[1:])}")
            elif token in _ENDS:
                if self._closed is not None:
                    self._drop_parentheses(token)
                if token == "for" and brackets:
                    brackets[-1].loops = True
                append(token)
            elif token != "\\\n":
                append(_word(token))
        if not brackets:
            self._newline(_START)
        tokens += comments
        return not brackets

    def _newline(self, token: str) -> None:
        """End a line of code, if it is one; the token goes on to the next one."""
        tokens, line = self.tokens, self._line
        if len(tokens) > line + 1:
            if self._closed is not None:
                self._drop_parentheses(_START)
            level = self._level()
            tokens[line] = f"\n{level}"
            last = tokens[-1]
            prefix, quote, doc = last.partition('"')
            if quote and "b" not in prefix and len(tokens) == line + 2:
                tokens[-1] = f'doc"{words(doc)}'
            elif last == "..." and tokens[-2] == ":" and tokens[line + 1] in _BLOCKS:
                tokens[-1:] = [f"\n{level + 1}", "..."]
            self._line = len(tokens)
            tokens.append(_START)
        self._indent = token[token.rfind("\n") + 1 :]

    def _level(self) -> int:
        """How many blocks the current line is in."""
        indent, widths = self._indent, self._widths
        width = len(indent.expandtabs() if "\t" in indent else indent)
        while width < widths[-1]:
            widths.pop()
        if width > widths[-1]:
            widths.append(width)
        return len(widths)

    def _close(self, bracket: _Bracket) -> None:
        tokens, close, commas = self.tokens, bracket.close, bracket.commas
        if tokens[-1] == ",":
            # of one item it makes a tuple: in parentheses that group, and in brackets that index
            makes_tuple = commas == 1 and close != "}" and bracket.groups == (close == ")")
            if not makes_tuple or bracket.before == "import":
                tokens.pop()
                bracket.commas -= 1
        if (
            close == ")"
            and bracket.groups
            and not bracket.loops
            and tokens[bracket.place + 1 : bracket.place + 2] not in _KEPT
        ):
            self._closed = bracket
        tokens.append(close)

    def _drop_parentheses(self, after: str) -> None:
        """Leave out the parentheses that have just been closed, if the code means the same without."""
        closed, self._closed = self._closed, None
        tokens = self.tokens
        if closed is None or tokens[-1] != ")":
            return
        before, place = closed.before, closed.place
        if closed.commas:
            drop = after in _TUPLES.get(before, ()) and (before == "for" or not self._brackets)
            drop = drop and (before != "in" or self._is_loop(place))
        elif before == _START:
            drop = after in (_START, ",", "=")
        elif before == "for":
            drop = after == "in"
        elif before == _CASE:
            drop = after == ":"
        elif before == "in":
            drop = after == ":" and not self._brackets and self._is_loop(place)
        else:
            drop = before in _BEFORE and after in _AFTER and (after != "else" or before == "if")
        if drop:
            tokens[place] = tokens[-1] = ""

    def _is_loop(self, place: int) -> bool:
        """Whether the parentheses are around all that a `for` statement goes through."""
        tokens, line = self.tokens, self._line
        first = line + 2 if tokens[line + 1] == "async" else line + 1
        return tokens[first] == "for" and tokens.index("in", line) == place - 1

    def _string(self, token: str) -> None:
        """Add a string, to the one before if they are concatenated."""
        tokens = self.tokens
        size = 3 if token[:3] in ('"""', "'''") and len(token) >= 6 else 1
        if len(token) < 2 * size:  # a quote that is not closed
            tokens.append(token)
            return
        content = token[size:-size]
        prefix = tokens.pop().lower().replace("u", "") if tokens[-1].lower() in _PREFIXES else ""
        if "\\" in content and "r" not in prefix:
            content = _ESCAPE.sub(_unescaped, content)
        if "f" in prefix:
            content = _with_fields(content)
        kind, quote, text = tokens[-1].partition('"')
        if quote and {kind, prefix} == {"", "f"}:
            if kind:
                content = _doubled(content)
            else:
                text = _doubled(text)
            kind = prefix = "f"
        if quote and kind == prefix:
            tokens[-1] = f'{kind}"{text}{content}'
        else:
            tokens.append(f'{prefix}"{content}')


def normal_form(text: str) -> str | None:
    """Python code without its layout; behind it its comments.

    Left out are spaces, empty lines, kinds of quotes, commas behind the last of several, and parentheses that a
    formatter may take away or add. Of docstrings and comments the words count. The form is the same in every version
    of Python.

    Args:
        text: the code, with `\n` at the ends of lines.

    Returns:
        None if the brackets do not match: then it is no Python.
    """
    code = _Code()
    return "\0".join(filter(None, code.tokens)) if code.read(text) else None


_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_ENDS: Final = frozenset([":", "=", "as", "else", "for", "in"])
_KEPT: Final[tuple[list[str], ...]] = ([], [")"], ["yield"])
"""What may stand first in parentheses that are kept: nothing, and what is no expression without them."""

_MOST_WORDS: Final = 100_000
_WORDS: dict[str, str] = {}
"""The forms of the names, operators and numbers that have been met: most tokens are one of few."""


def words(text: str) -> str:
    """A text whose spaces and line breaks do not matter."""
    return " ".join(text.split())


def _word(token: str) -> str:
    """The form of a name, an operator or a number."""
    if token[0].isdigit() or (token[0] == "." and token[1:2].isdigit()):
        form = _number(token)
    elif token == "...":
        form = token
    else:
        form = token.replace(".", "\0.").removeprefix("\0")
    if len(_WORDS) < _MOST_WORDS:
        _WORDS[token] = form
    return form


def _number(token: str) -> str:
    if _PLAIN_NUMBER.fullmatch(token):
        return token
    digits = token.lower().replace("_", "")
    try:
        if digits[-1] == "j":
            return repr(complex(digits))
        if digits[:2] == "0x" or not {".", "e"} & set(digits):
            return repr(int(digits, 0))
        return repr(float(digits))
    except ValueError:
        return token


def _unescaped(found: re.Match[str]) -> str:
    """An escaped quote as the quote; other escapes as they are."""
    return found[1] if found[1] in "\"'" else found[0]


def _with_fields(text: str) -> str:
    """What stands in a formatted string, with one kind of quotes around strings in its fields, whatever these hold."""
    parts: list[str] = []
    depth = end = place = 0
    while (found := _IN_FORMATTED.search(text, place)) is not None:
        token, place = found[0], found.end()
        if depth and token[0] in "\"'":
            inside = token[1:-1].replace('"', '\\"')
            parts += text[end : found.start()], f'"{inside}"'
            end = place
        elif token == "{" or (depth and token == "{{"):
            depth += len(token)
        elif token == "}" and depth:
            depth -= 1
        elif token[0] in "\"'":
            place = found.start() + 1  # a quote in the text: no string begins there
    return "".join((*parts, text[end:]))


def _doubled(text: str) -> str:
    """What stands in a string as it has to stand in a formatted one."""
    return text.replace("{", "{{").replace("}", "}}")
