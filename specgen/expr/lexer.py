"""Text to tokens. Every mistake is reported and stepped over, so that the rest is still checked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from specgen.diagnostics import Sink
from specgen.diagnostics.rules import expressions as rules
from specgen.expr.source_text import SourceText
from specgen.look_alikes import remedy
from specgen.values import dataclass

TokenKind = Literal["number", "name", "op", "end"]

KEYWORD_OPS: Final = frozenset({"and", "or", "not"})
"""Words that are operators."""

_REFUSED_WORDS: Final = {
    "if": "write where(condition, then, otherwise)",
    "else": "write where(condition, then, otherwise)",
    "lambda": "declare a function under `functions:` and call it by its name",
    "for": "expressions are elementwise already: write the arithmetic on the whole array",
    "in": "compare with `==`, or with `>=` and `<=`",
    "is": "write `==`",
    "import": "expressions cannot import; use the listed functions",
    "await": "expressions are plain arithmetic",
    "yield": "expressions are plain arithmetic",
}
_REPLACED: Final = {
    "&&": ("and", "write `and`"),
    "||": ("or", "write `or`"),
    "!": ("not", "write `not`"),
    "&": (
        "and",
        "write `and` between truth values; of integers, `k % 2` is the last bit and `k // 2` the others",
    ),
    "|": (
        "or",
        "write `or` between truth values; integers have no bitwise operators, but `%`, `//`, `*` and `+`",
    ),
    "~": ("not", "write `not` before a truth value; integers have no bitwise operators"),
    "<<": ("*", "write `k * 2` for `k << 1`"),
    ">>": ("//", "write `k // 2` for `k >> 1`"),
}
"""Operators of other languages: the one to go on with, and what to write."""
_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<number>(?:\d+(?:_\d+)*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<string>(?:'[^']*'?)|(?:"[^"]*"?))
  | (?P<op>\*\*|//|<=|>=|==|!=|\.\.\.|&&|\|\||<<|>>|[-+*/%@<>()\[\],:.=&|!~])
    """,
    re.VERBOSE | re.ASCII,
)
_GROUPED: Final = re.compile(r"\A\d{1,3}(,\d{3})+\s*\Z")
_LEADING_ZEROS: Final = re.compile(r"\A0[0_]*(?=\d)")


@dataclass(frozen=True, slots=True)
class Token:
    """A word of an expression: its kind, its text and where it stands."""

    kind: TokenKind
    text: str
    start: int
    end: int


class Tokens:
    """Tokens that are read one after the other; the last one, of kind `end`, stays at hand."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def peek(self) -> Token:
        """The token at hand."""
        return self._tokens[self._at]

    @property
    def after(self) -> Token:
        """The token behind the one at hand."""
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    @property
    def last(self) -> Token:
        """The token that was taken last."""
        return self._tokens[max(self._at - 1, 0)]

    def take(self) -> Token:
        """The token at hand; moves on."""
        token = self._tokens[self._at]
        if token.kind != "end":
            self._at += 1
        return token

    def accept(self, text: str) -> Token | None:
        """The token at hand if it is the operator `text`; moves on then."""
        token = self._tokens[self._at]
        return self.take() if token.kind == "op" and token.text == text else None


def tokenize_all(
    source: SourceText, sink: Sink, *, words: frozenset[str] = frozenset()
) -> tuple[list[Token], bool]:
    """All tokens, with what was meant in place of each mistake, and whether there was none.

    `words` are operators of the grammar at hand. The last token is of kind `end`.
    """
    text = source.text
    tokens: list[Token] = []
    position, sound = 0, True
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            position, sound = _unknown(source, sink, position), False
            continue
        kind, word, end = match.lastgroup, match.group(), match.end()
        if kind == "string":
            if words or not _dunder(tokens):
                _syntax(source, sink, position, end, "text is not a value in an expression", _STRING_HELP)
            sound = False
            tokens.append(Token("name", "_text", position, end))
        elif kind == "number":
            if grouped := _GROUPED.match(text):
                end = grouped.end()
                message, help = (
                    "digits are grouped by `_`",
                    f"write {grouped.group().strip().replace(',', '_')}",
                )
                _syntax(source, sink, position, end, message, help)
                sound = False
            elif end < len(text) and (text[end].isalnum() or text[end] == "_"):
                end = _word_end(text, end)
                _syntax(source, sink, position, end, f"`{text[position:end]}` is neither a number nor a name")
                sound = False
            elif (plain := _LEADING_ZEROS.sub("", word)) != word:
                message = "a number does not start with 0: other languages read that as base 8"
                _syntax(source, sink, position, end, message, f"write {plain}")
                sound = False
            tokens.append(Token("number", word, position, end))
        elif kind == "name":
            sound &= _name(source, sink, tokens, word, position, end, words)
        elif kind == "op":
            sound &= _op(source, sink, tokens, word, position, end)
        position = end
    tokens.append(Token("end", "", len(text), len(text)))
    return tokens, sound


def tokenize_type(source: SourceText, sink: Sink) -> list[Token] | None:
    """The tokens of a type, where `in` introduces the domain; None when there was a mistake."""
    tokens, sound = tokenize_all(source, sink, words=frozenset({"in"}))
    return tokens if sound else None


_STRING_HELP: Final = "members of an enum are written without quotes"


def _name(
    source: SourceText,
    sink: Sink,
    tokens: list[Token],
    word: str,
    start: int,
    end: int,
    words: frozenset[str],
) -> bool:
    if word in _REFUSED_WORDS and word not in words:
        # `if` and its `else`, `for` and its `in` are one mistake.
        if not any(token.kind == "op" and token.text in _REFUSED_WORDS.keys() - words for token in tokens):
            _syntax(source, sink, start, end, f"`{word}` is not part of expressions", _REFUSED_WORDS[word])
        tokens.append(Token("op", word, start, end))
        return False
    tokens.append(Token("op" if word in KEYWORD_OPS | words else "name", word, start, end))
    return True


def _op(source: SourceText, sink: Sink, tokens: list[Token], word: str, start: int, end: int) -> bool:
    if word in _REPLACED:
        meant, help = _REPLACED[word]
        _syntax(source, sink, start, end, f"`{word}` is not an operator here", help)
        tokens.append(Token("op", meant, start, end))
        return False
    tokens.append(Token("op", word, start, end))
    return True


def _unknown(source: SourceText, sink: Sink, position: int) -> int:
    text = source.text
    end = position + 1
    helps = {
        "^": "a power is written `**`, and that two truth values differ `!=`",
        ";": "one expression a line; name intermediate results in lines of their own",
        "?": "write where(condition, then, otherwise)",
        "{": "write stack(a, b) for a vector",
        "}": "write stack(a, b) for a vector",
    }
    char = text[position]
    shown = char if char.isprintable() else f"U+{ord(char):04X}"
    _syntax(source, sink, position, end, f"unknown character `{shown}`", helps.get(char) or remedy(char))
    return end


def _dunder(tokens: list[Token]) -> bool:
    # `__import__('os')` is one mistake, and the parser of expressions names it.
    return any(token.kind == "name" and token.text.startswith("__") for token in tokens)


def _word_end(text: str, end: int) -> int:
    while end < len(text) and (text[end].isalnum() or text[end] == "_"):
        end += 1
    return end


def _syntax(
    source: SourceText, sink: Sink, start: int, end: int, message: str, help: str | None = None
) -> None:
    sink.add(rules.SYNTAX.at(source.span_of(start, end), message, help=help))
