"""Tokens to the tree: a Pratt parser over Python's precedences."""

from __future__ import annotations

from typing import Final, cast

from specgen.diagnostics import Sink
from specgen.diagnostics.rules import expressions as rules
from specgen.expr import tree
from specgen.expr.lexer import Token, Tokens, tokenize_all
from specgen.expr.source_text import SourceText
from specgen.expr.tree import Expr

_BINARY: Final = {"+": 50, "-": 50, "*": 60, "/": 60, "//": 60, "%": 60, "@": 60, "**": 80}
_COMPARE: Final = frozenset({"<", "<=", ">", ">=", "==", "!="})
_OR, _AND, _NOT, _COMPARISON, _UNARY, _POWER = 10, 20, 30, 40, 70, 80
_MAX_DEPTH: Final = 60
_MAX_HEIGHT: Final = 80
_MAX_TOKENS: Final = 4000
_CLOSING: Final = {"(": ")", "[": "]"}

_MOST_PARSED: Final = 10_000
_PARSED: dict[str, Expr] = {}
"""The trees of texts that have been parsed: files, and sections of one file, say the same again and again."""


def parse(source: SourceText, sink: Sink) -> Expr | None:
    """The tree of the expression in `source`, or None when `sink` got the reasons why there is none."""
    expr = _PARSED.get(source.text)
    if expr is None and (expr := _parse(source, sink)) is not None:
        if len(_PARSED) >= _MOST_PARSED:
            _PARSED.clear()
        _PARSED[source.text] = expr
    return expr


def _parse(source: SourceText, sink: Sink) -> Expr | None:
    tokens, sound = tokenize_all(source, sink)
    if len(tokens) > _MAX_TOKENS:
        span = source.span_of(0, len(source.text))
        sink.add(rules.TOO_DEEP.at(span, "the expression is too long"))
        return None
    parser = _Parser(source, sink, tokens, quiet=not sound)
    try:
        expr = parser.whole()
    except _GivenUp:
        return None
    # Whatever is nested takes a token at least.
    if len(tokens) > _MAX_HEIGHT and _height(expr) > _MAX_HEIGHT:
        span = source.span_of(expr.start, expr.end)
        message = "the expression has too many operations in a row"
        sink.add(rules.TOO_DEEP.at(span, message, help="name its parts in lines of their own"))
        return None
    return expr if sound and not parser.failed else None


def _height(expr: Expr) -> int:
    """How many operations are nested, where a chain counts as nested: `a + b + c` as `(a + b) + c`."""
    highest = 0
    waiting = [(expr, 1)]
    while waiting:
        node, height = waiting.pop()
        highest = max(highest, height)
        chain = len(node.operands) - 1 if isinstance(node, tree.Compare | tree.Logic) else 1
        waiting += [(child, height + chain) for child in tree.children(node)]
    return highest


class _GivenUp(Exception):  # noqa: N818 - control flow, not an error
    """The rest of the text has no structure that could be checked."""


class _Parser(Tokens):
    def __init__(self, source: SourceText, sink: Sink, tokens: list[Token], *, quiet: bool) -> None:
        super().__init__(tokens)
        self._source = source
        self._sink = sink
        # After a mistake of the lexer, "expected ..." messages only repeat it in other words.
        self._quiet = quiet
        self._depth = 0
        self.failed = False

    def whole(self) -> Expr:
        if self.peek.kind == "end":
            self._fail(self.peek, "an expression is missing", always=True)
        expr = self._expression(0)
        token = self.peek
        if token.text in (")", "]"):
            opening = "(" if token.text == ")" else "["
            self._fail(
                token, f"`{token.text}` closes nothing", help=f"remove it, or open it with `{opening}`"
            )
        if token.text == ",":
            self._fail(token, "a list of values is not one expression", help="write stack(a, b) for a vector")
        if token.text == "=":
            self._fail(token, "`=` assigns; expressions only compare", help="write `==`")
        if token.kind != "end":
            self._fail(token, f"expected an operator before `{token.text}`")
        return expr

    @property
    def _end(self) -> int:
        """Where the last token that was read ends."""
        return self.last.end

    def _fail(self, token: Token, message: str, *, help: str | None = None, always: bool = False) -> None:
        self.failed = True
        if always or not self._quiet:
            start = token.start if token.kind != "end" else max(0, len(self._source.text.rstrip()) - 1)
            end = max(token.end, start + 1) if token.kind != "end" else start + 1
            span = self._source.span_of(start, min(end, max(len(self._source.text), 1)))
            self._sink.add(rules.SYNTAX.at(span, message, help=help))
        raise _GivenUp

    def _report(self, start: int, end: int, message: str, help: str | None = None) -> None:
        self.failed = True
        self._sink.add(rules.SYNTAX.at(self._source.span_of(start, end), message, help=help))

    def _expression(self, floor: int) -> Expr:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            span = self._source.span_of(self.peek.start, max(self.peek.end, self.peek.start + 1))
            message = f"the expression is nested more than {_MAX_DEPTH} deep"
            help = "name its parts in lines of their own"
            self._sink.add(rules.TOO_DEEP.at(span, message, help=help))
            raise _GivenUp
        # Where it starts and ends with the parentheses around its operands, of which the tree knows nothing.
        start = self.peek.start
        left = self._infix(self._prefix(), floor, start)
        self._depth -= 1
        return left

    def _prefix(self) -> Expr:
        token = self.take()
        if token.kind == "number":
            return self._number(token)
        if token.kind == "name":
            return self._name(token)
        if token.kind == "op" and token.text == "not":
            operand = self._expression(_NOT)
            return tree.Logic("not", (operand,), token.start, self._end)
        if token.kind == "op" and token.text in "+-" and token.text:
            operand = self._expression(_UNARY)
            return tree.Unary("-" if token.text == "-" else "+", operand, token.start, self._end)
        if token.kind == "op" and token.text == "(":
            return self._group(token)
        if token.kind == "op" and token.text == "[":
            self._fail(token, "a list is not a value", help="write stack(a, b) for a vector")
        if token.kind == "end":
            self._fail(token, "the expression ends too early")
        self._fail(token, f"expected a value before `{token.text}`")
        raise AssertionError("unreachable")

    def _infix(self, left: Expr, floor: int, start: int) -> Expr:
        while True:
            token = self.peek
            if token.kind != "op":
                return left
            op = token.text
            if op in _BINARY and _BINARY[op] > floor:
                self.take()
                # `**` groups to the right and binds less than a sign on its right.
                right = self._expression(_POWER - 1 if op == "**" else _BINARY[op])
                left = tree.Binary(cast("tree.BinaryOp", op), left, right, token.start, start, self._end)
            elif op in _COMPARE and floor < _COMPARISON:
                left = self._comparison(left, start)
            elif op in ("and", "or") and floor < (_AND if op == "and" else _OR):
                left = self._logic(left, "and" if op == "and" else "or", start)
            elif op == "[":
                left = self._index(left, start)
            elif op == "(":
                self._fail(token, "only a function's name can be called")
            elif op == ".":
                left = self._attribute(left, token)
            else:
                return left

    def _comparison(self, first: Expr, start: int) -> Expr:
        operands, ops = [first], []
        while self.peek.kind == "op" and self.peek.text in _COMPARE:
            ops.append(cast("tree.CompareOp", self.take().text))
            operands.append(self._expression(_COMPARISON))
        return tree.Compare(tuple(ops), tuple(operands), start, self._end)

    def _logic(self, first: Expr, op: tree.LogicOp, start: int) -> Expr:
        operands = [first]
        while self.accept(op):
            operands.append(self._expression(_AND if op == "and" else _OR))
        return tree.Logic(op, tuple(operands), start, self._end)

    def _number(self, token: Token) -> Expr:
        text = token.text.replace("_", "")
        # Python reads integers of a few thousand digits only; 25 are too many already
        value: int | float = float(text) if any(char in text for char in ".eE") else int(text[:25])
        if isinstance(value, int) and value >= 2**63:
            self._report(
                token.start, token.end, "the number is larger than int64 holds", "write it with a dot"
            )
        elif value == float("inf"):
            self._report(token.start, token.end, "the number is larger than float64 holds", "write inf")
        return tree.Literal(value, text, token.start, token.end)

    def _name(self, token: Token) -> Expr:
        if token.text.startswith("__") or (token.text in _DANGEROUS and self.peek.text == "("):
            self._unsafe(token)
        if token.text in ("True", "False", "true", "false"):
            return tree.Literal(token.text.lower() == "true", token.text, token.start, token.end)
        if token.text == "None":
            self._fail(token, "`None` stands only between square brackets, for a new dimension")
        path, end = [token.text], token.end
        while self.accept("."):
            word = self.take()
            if word.kind != "name":
                self._fail(word, "expected a name after the dot")
            if word.text.startswith("__"):
                self._unsafe(word)
            path.append(word.text)
            end = word.end
        name = tree.Name(".".join(path), token.start, end)
        return self._call(name) if self.peek.text == "(" else name

    def _unsafe(self, token: Token) -> None:
        message = (
            f"`{token.text}` is not an allowed function; expressions use declared names and the listed "
            "functions only"
        )
        self._sink.add(rules.NOT_SAFE.at(self._source.span_of(token.start, token.end), message))
        raise _GivenUp

    def _call(self, name: tree.Name) -> Expr:
        opening = self.take()
        args: list[Expr] = []
        keywords: list[tree.Keyword] = []
        while self.peek.text != ")":
            word, after = self.peek, self.after
            if word.kind == "name" and after.kind == "op" and after.text == "=":
                self.take(), self.take()
                if word.text == "shape" and self.peek.text == "[":
                    self._fail(
                        self.peek, "sizes stand in parentheses", help="write shape=(2, 3), or shape=n for one"
                    )
                value = self._expression(0)
                keywords.append(tree.Keyword(word.text, value, word.start, self._end))
            else:
                arg = self._spread() or self._expression(0)
                if keywords:
                    self._report(arg.start, arg.end, "an argument without a name follows one with a name")
                args.append(arg)
            if not self.accept(","):
                break
        closing = self._close(opening)
        return tree.Call(name, tuple(args), tuple(keywords), name.start, closing.end)

    def _spread(self) -> Expr | None:
        """`*xs`; None for any other argument."""
        star = self.accept("*")
        if star is None:
            return None
        value = self._expression(_UNARY)
        if not isinstance(value, tree.Name):
            span = self._source.span_of(value.start, value.end)
            self._sink.add(rules.SYNTAX.at(span, "`*` stands before the name of several values: *xs"))
            raise _GivenUp
        return tree.Spread(value, star.start, value.end)

    def _group(self, opening: Token) -> Expr:
        if closing := self.accept(")"):
            return tree.Tuple((), opening.start, closing.end)
        items = [self._expression(0)]
        is_tuple = False
        while self.accept(","):
            is_tuple = True
            if self.peek.text == ")":
                break
            items.append(self._expression(0))
        closing = self._close(opening)
        return tree.Tuple(tuple(items), opening.start, closing.end) if is_tuple else items[0]

    def _close(self, opening: Token) -> Token:
        closing = _CLOSING[opening.text]
        token = self.accept(closing)
        if token is not None:
            return token
        if self.peek.kind == "end" or self.peek.text in (")", "]"):
            self._fail(opening, f"`{opening.text}` is not closed", help=f"add the missing `{closing}`")
        self._fail(self.peek, f"expected `,` or `{closing}` before `{self.peek.text}`")
        raise AssertionError("unreachable")

    def _index(self, value: Expr, start: int) -> Expr:
        opening = self.take()
        items: list[Expr | tree.Slice | tree.Axis | tree.Rest] = []
        while self.peek.text != "]":
            items.append(self._index_item())
            if not self.accept(","):
                break
        if not items:
            self._fail(self.peek, "an index is missing between the brackets")
        closing = self._close(opening)
        return tree.Index(value, tuple(items), start, closing.end)

    def _index_item(self) -> Expr | tree.Slice | tree.Axis | tree.Rest:
        token = self.peek
        if token.kind == "name" and token.text == "None":
            self.take()
            return tree.Axis(token.start, token.end)
        if self.accept("..."):
            return tree.Rest(token.start, token.end)
        ends: list[Expr | None] = [None]
        while self.peek.text not in (",", "]") and self.peek.kind != "end":
            colon = self.accept(":")
            if colon is None:
                if ends[-1] is not None:
                    break
                ends[-1] = self._expression(0)
            elif len(ends) == 3:
                self._fail(colon, "a slice is start:stop:step")
            else:
                ends.append(None)
        if len(ends) == 1 and ends[0] is not None:
            return ends[0]
        if len(ends) == 1:
            self._fail(self.peek, "an index is missing")
        return tree.Slice(ends[0], ends[1], ends[2] if len(ends) == 3 else None, token.start, self._end)

    def _attribute(self, value: Expr, dot: Token) -> Expr:
        self.take()
        word = self.take()
        if word.text.startswith("__"):
            self._unsafe(word)
        if isinstance(value, tree.Call) and word.kind == "name" and self.peek.text != "(":
            return tree.output_of(value, word.text, word.start, word.end)
        help = f"write {word.text}(…)" if self.peek.text == "(" else "values have no attributes"
        self._fail(word, tree.NO_ATTRIBUTES, help=help)
        raise AssertionError("unreachable")


_DANGEROUS: Final = frozenset(
    {
        "breakpoint", "compile", "delattr", "dir", "eval", "exec", "exit", "getattr", "globals", "help",
        "input", "locals", "memoryview", "object", "open", "print", "quit", "setattr", "super", "type", "vars",
    }
)  # fmt: skip
