"""Inference: from the tree as written to the typed tree, with every mistake reported at its place."""

from __future__ import annotations

from collections.abc import Mapping

from specgen.diagnostics import Note, Rule, Sink
from specgen.diagnostics.rules import expressions as rules
from specgen.diagnostics.rules.transform_language import ALL_ROLE
from specgen.expr import tree
from specgen.expr.arguments import bind
from specgen.expr.builtins.bound_facts import OF_NAMES
from specgen.expr.builtins.indexing import INDEX, RawItem, RestItem, SliceItem, infer_index
from specgen.expr.builtins.integrators import CALL, infer_call
from specgen.expr.builtins.record import Builtin
from specgen.expr.builtins.site import Site
from specgen.expr.builtins.table import CALLABLE, NUMBERS, TABLE
from specgen.expr.dtypes import INT_RANGES
from specgen.expr.function_arguments import bind_function
from specgen.expr.given_conditions import at_moments_read
from specgen.expr.interval import Interval, point
from specgen.expr.relayout import relayout
from specgen.expr.sizes import Dim
from specgen.expr.source_text import SourceText
from specgen.expr.tree import Expr
from specgen.expr.types import At, Binding, Function, NewAxis, Type, Typed
from specgen.expr.unknown import each_name_once, unknown_function, unknown_name
from specgen.literals import literal
from specgen.values import replace


def infer(
    expr: Expr,
    scope: Mapping[str, Binding],
    source: SourceText,
    sink: Sink,
    *,
    functions: Mapping[str, Function | Builtin] | None = None,
    draw_prefix: str = "draw",
    dtype: str | None = None,
    prove: bool = True,
    for_any_key: bool = False,
) -> Typed | None:
    """The typed tree of `expr`, or None when `sink` got the reasons why there is none.

    Args:
        expr: What `parse` returned for `source`.
        scope: What each dotted name stands for.
        source: The text of the expression, for the places of mistakes.
        sink: Takes the mistakes; the rest of the expression is still checked after one.
        functions: The functions of the declaration, by name; a `Builtin` is a built-in of the caller's own.
        draw_prefix: The name of the first draw; the next ones get `_2`, `_3`.
        dtype: The dtype of the target, if it has one: draws that name none take it when it is a float.
        prove: Whether an index that may be out of range is a mistake; otherwise a node `in_range` checks it.
        for_any_key: Whether it is a transform's: for keys and parameters that nobody knows it draws the same numbers.
    """
    found = Sink()
    inferrer = _Inferrer(scope, source, found, functions or {}, draw_prefix, dtype, prove, for_any_key)
    typed = inferrer.visit(expr)
    sink.extend(each_name_once(found.items))
    return None if typed is None else relayout(typed)


class _Inferrer:
    def __init__(
        self,
        scope: Mapping[str, Binding],
        source: SourceText,
        sink: Sink,
        functions: Mapping[str, Function | Builtin],
        draw_prefix: str,
        dtype: str | None,
        prove: bool,
        for_any_key: bool,
    ) -> None:
        self._scope = scope
        self._source = source
        self._sink = sink
        self.functions = functions
        self.prove = prove
        self.for_any_key = for_any_key
        self._draw_prefix = draw_prefix
        self._draws = 0
        self.float_dtype = dtype if dtype in ("float32", "float64") else "float32"

    def error(self, rule: Rule, start: int, end: int, message: str, help: str | None = None) -> None:
        self._sink.add(rule.at(self._source.span_of(start, end), message, help=help))

    def written(self, node: Typed) -> str:
        text, symbol = self._source.text[node.start : node.end], node.symbol
        return ".".join(symbol.key) if text[:1] == "*" and symbol and symbol.key else text

    def next_draw(self) -> str:
        self._draws += 1
        return self._draw_prefix if self._draws == 1 else f"{self._draw_prefix}_{self._draws}"

    def visit(self, expr: Expr) -> Typed | None:
        """The typed node of `expr`, or None after reporting."""
        match expr:
            case tree.Literal():
                return _literal(expr.value, expr.text, expr.start, expr.end)
            case tree.Name():
                return self._name(expr)
            case tree.Unary():
                return self._unary(expr)
            case tree.Binary():
                return self._operator(expr.op, (expr.left, expr.right), expr)
            case tree.Compare():
                return self._compare(expr)
            case tree.Logic():
                return self._logic(expr)
            case tree.Call() if tree.is_output(expr):
                place = expr.function
                self.error(
                    rules.SYNTAX, place.start, place.end, tree.NO_ATTRIBUTES, "values have no attributes"
                )
                return None
            case tree.Call():
                return self._call(expr)
            case tree.Index():
                return self._index(expr)
            case tree.Spread():
                return self._several(expr)
            case tree.Tuple():
                help = "write stack(a, b) for a vector"
                self.error(
                    rules.SYNTAX, expr.start, expr.end, "a tuple stands only for a shape or for axes", help
                )
                return None

    def _name(self, expr: tree.Name) -> Typed | None:
        binding = self._scope.get(expr.path)
        if binding is not None and binding.several is not None:
            message = f"`{expr.path}` stands for several values"
            help = f"write concat(*{expr.path}), or stack, min, max, sum of them"
            self.error(ALL_ROLE, expr.start, expr.end, message, help)
            return None
        if binding is not None:
            kind, values, static = binding.type, binding.interval, binding.static
            if static is not None:
                kind = Type(kind.dtype, kind.dims, "lit") if kind.dims == () else kind
                values = values if isinstance(static, str) else point(static)
            return Typed(
                "name",
                kind,
                values,
                options=binding.options,
                start=expr.start,
                end=expr.end,
                text="" if binding.symbol is None else binding.symbol.name,
                static=static,
                symbol=binding.symbol,
            )
        number = NUMBERS.get(expr.path)
        if number is not None:
            kind = Type("float32", (), "lit")
            text = f"math.{expr.path}"
            return Typed(
                "name", kind, point(number), start=expr.start, end=expr.end, text=text, static=number
            )
        self._undefined(expr)
        return None

    def members(self, expr: tree.Spread) -> list[Expr] | None:
        """The names that `*xs` stands for where they are known, itself where nobody knows how many there are."""
        binding = self._scope.get(expr.value.path)
        if binding is None:
            self._undefined(expr.value)
            return None
        if binding.several is None:
            message = f"`{expr.value.path}` is one value"
            self.error(rules.WRONG_ARGUMENTS, expr.start, expr.end, message, f"write {expr.value.path}")
            return None
        return [tree.Name(name, expr.start, expr.end) for name in binding.several] or [expr]

    def _several(self, expr: tree.Spread) -> Typed:
        """Values of which nobody knows how many there are: a tuple of tensors when the code runs."""
        binding = self._scope[expr.value.path]
        return Typed(
            "name",
            binding.type,
            binding.interval,
            options={"several": True},
            start=expr.start,
            end=expr.end,
            text="" if binding.symbol is None else binding.symbol.name,
            symbol=binding.symbol,
        )

    def _undefined(self, expr: tree.Name) -> None:
        message, help = unknown_name(expr.path, self._scope, self.functions)
        self.error(rules.UNDEFINED, expr.start, expr.end, message, help)

    def _unary(self, expr: tree.Unary) -> Typed | None:
        operand = self.visit(expr.operand)
        if operand is None:
            return None
        site = Site(TABLE["neg"], self, (operand,), start=expr.start, end=expr.end)
        if expr.op == "+":
            return operand if site.joined(site.values) else None
        if (
            operand.op == "literal"
            and operand.text
            and not operand.text.startswith("-")
            and isinstance(operand.static, int | float)
            and operand.type.dtype != "bool"
        ):
            return _literal(-operand.static, f"-{operand.text}", expr.start, expr.end)
        return TABLE["neg"].infer(site)

    def _operator(self, name: str, operands: tuple[Expr, ...], expr: Expr) -> Typed | None:
        values = [self.visit(operand) for operand in operands]
        return self._apply(name, values, expr.start, expr.end)

    def _apply(self, name: str, values: list[Typed | None], start: int, end: int) -> Typed | None:
        found = tuple(value for value in values if value is not None)
        if len(found) < len(values):
            return None
        builtin = TABLE[name]
        return builtin.infer(Site(builtin, self, found, start=start, end=end))

    def _compare(self, expr: tree.Compare) -> Typed | None:
        values = [self.visit(operand) for operand in expr.operands]
        pairs: list[Typed | None] = []
        for op, left, right in zip(expr.ops, values, values[1:], strict=False):
            start = left.start if left is not None else expr.start
            end = right.end if right is not None else expr.end
            pairs.append(self._apply(op, [left, right], start, end))
        return self._fold("and", pairs, expr)

    def _logic(self, expr: tree.Logic) -> Typed | None:
        values = [self.visit(operand) for operand in expr.operands]
        if expr.op == "not":
            return self._apply("not", values, expr.start, expr.end)
        return self._fold(expr.op, values, expr)

    def _fold(self, name: str, values: list[Typed | None], expr: Expr) -> Typed | None:
        result = values[0]
        sound = all(value is not None for value in values)
        for value in values[1:]:
            if result is not None and value is not None:
                result = self._apply(name, [result, value], result.start, value.end)
        return result if sound else None

    def _index(self, expr: tree.Index) -> Typed | None:
        value = self.visit(expr.value)
        items: list[RawItem | None] = [self._item(item) for item in expr.items]
        found = [item for item in items if item is not None]
        if value is None or len(found) < len(items):
            return None
        site = Site(INDEX, self, (value,), start=expr.start, end=expr.end)
        return infer_index(site, found)

    def _item(self, item: Expr | tree.Slice | tree.Axis | tree.Rest) -> RawItem | None:
        if isinstance(item, tree.Axis):
            return NewAxis()
        if isinstance(item, tree.Rest):
            return RestItem()
        if isinstance(item, tree.Slice):
            return self._slice(item)
        index = self.visit(item)
        return None if index is None else At(index)

    def _slice(self, item: tree.Slice) -> SliceItem | None:
        ends: list[Dim | None] = []
        for end in (item.lower, item.upper, item.step):
            value = None if end is None else self.visit(end)
            if end is not None and value is None:
                return None
            number = None if value is None or value.type.dtype != "int64" else value.interval.known_size
            if value is not None and (number is None or not value.type.python):
                message = (
                    f"`{self.written(value)}` is no whole number known at build, as the ends of a slice are"
                )
                self.error(rules.WRONG_ARGUMENTS, value.start, value.end, message, "write gather(x, index)")
                return None
            ends.append(number)
        step = ends[2]
        assert step is None or isinstance(step, int)
        return SliceItem(ends[0], ends[1], step)

    def _call(self, expr: tree.Call) -> Typed | None:
        name = expr.function.path
        own = self.functions.get(name)
        if isinstance(own, Function):
            site = bind_function(self, CALL, expr, own)
            return None if site is None else self._declared_call(site, name)
        if name in OF_NAMES and (known := self._known_of(expr)) is not None:
            return known
        if name == "where" and own is None and len(expr.args) == 3 and not expr.keywords:
            return self._where(expr)
        # The members of an enum are no names elsewhere.
        hidden = own is None and name in self._scope and self._scope[name].what != "word"
        builtin = own if own is not None else TABLE.get(name) if name in CALLABLE and not hidden else None
        if builtin is None:
            self._unknown_function(expr)
            # The arguments may hold mistakes of their own.
            for part in (*expr.args, *(keyword.value for keyword in expr.keywords)):
                if not isinstance(part, tree.Tuple):
                    self.visit(part)
            return None
        site = bind(self, builtin, expr)
        return None if site is None else builtin.infer(site)

    def _where(self, expr: tree.Call) -> Typed | None:
        """`where`, of which a condition that is known at build leaves one branch: the other need not have a type."""
        first, then, otherwise = expr.args
        condition = self.visit(at_moments_read(first, (then, otherwise), self._scope))
        branches: list[Typed | None] = []
        chosen = condition.static if condition is not None else None
        for branch, taken in ((then, True), (otherwise, False)):
            if isinstance(chosen, bool) and chosen is not taken:
                outer, self._sink = self._sink, Sink()
                branches.append(self.visit(branch))
                self._sink = outer
            else:
                branches.append(self.visit(branch))
        left = [branch for branch in branches if branch is not None]
        if isinstance(chosen, bool) and len(left) == 1 and left[0] is branches[0 if chosen else 1]:
            return left[0]
        return self._apply("where", [condition, *branches], expr.start, expr.end)

    def _known_of(self, expr: tree.Call) -> Typed | None:
        """What a name is bound to, where the scope knows it: `low(x)`, and for `classes(x)` the number of each."""
        if len(expr.args) != 1 or expr.keywords or not isinstance(expr.args[0], tree.Name):
            return None
        name = expr.function.path
        path = f"{name}({expr.args[0].path})"
        if path not in self._scope:
            return None
        found = self._name(tree.Name(path, expr.start, expr.end))
        if name != "classes" or found is None:
            return found
        value = self.visit(expr.args[0])
        if value is None:
            return None
        return TABLE[name].infer(Site(TABLE[name], self, (value, found), start=expr.start, end=expr.end))

    def _declared_call(self, site: Site, name: str) -> Typed | None:
        """The call of a declared function; what is wrong with it may be a call of the built-in that it hides."""
        if name not in CALLABLE:
            return infer_call(site)
        outer, self._sink = self._sink, Sink()
        node = infer_call(site)
        mine, self._sink = self._sink, outer
        note = Note(f"the declared function hides the built-in {TABLE[name].signature}")
        outer.extend(replace(item, notes=(*item.notes, note)) for item in mine.items)
        return node

    def _unknown_function(self, expr: tree.Call) -> None:
        rule, message, help = unknown_function(expr, self._scope, self.functions)
        self.error(rule, expr.function.start, expr.function.end, message, help)


def _literal(value: bool | int | float, text: str, start: int, end: int) -> Typed:
    dtype = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32"
    if isinstance(value, bool):
        text = literal(value)
    elif isinstance(value, int) and not INT_RANGES["int64"][0] <= value <= INT_RANGES["int64"][1]:
        dtype = "float32"
    kind = Type(dtype, (), "lit")
    return Typed("literal", kind, Interval(value, value), start=start, end=end, text=text, static=value)
