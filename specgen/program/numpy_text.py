"""A step of one environment by NumPy: a few numbers cost a third of what they cost in torch, and one a tenth of that.

What is stored as `(1,)`, with a trailing 1 that is no dimension of it, is one of NumPy's numbers; all else is an array.
Only what NumPy and torch compute alike, to the bit: sums, products, square roots, comparisons, truth values, element by
element, and functions of shapes (`numpy_shapes.py`). What is learned is read and updated by the calls that torch's function makes, whose values are NumPy's here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Final

from specgen.expr import Symbol, Type, Typed
from specgen.expr.builtins.batch import NEW_ROWS
from specgen.expr.dtypes import is_float, is_int
from specgen.expr.printer import FunctionTexts, Printed, is_large
from specgen.literals import literal
from specgen.precedence import ADD, ATOM, BIT_AND, BIT_OR, COMPARE, MUL, UNARY
from specgen.program.names import hidden_builtins, numbered
from specgen.program.numpy_shapes import VIEWS, show_shape
from specgen.program.printed import key_text
from specgen.program.program import Assign, Call, Program, Statement
from specgen.program.walk import known, reads, store, unstored
from specgen.values import dataclass

_ARITHMETIC: Final = {"+": ADD, "-": ADD, "*": MUL, "/": MUL}
_COMPARISONS: Final = ("<", "<=", ">", ">=", "==", "!=")
_LOGIC: Final = {"or": ("|", BIT_OR), "and": ("&", BIT_AND)}
_FLOATS: Final = ("float32", "float64")
_CONSTANTS: Final = {"zeros_like": 0, "ones_like": 1}
_BOUNDED: Final = {"max": "row_max", "min": "row_min"}
_MEANS: Final = ("batch_mean", "batch_sum")
_KEEP_DTYPE: Final = ("int64", "float64")
"""The dtypes of NumPy's numbers that Python's beside them leave as they are, whichever version NumPy has."""


@dataclass(frozen=True, slots=True)
class PrintedRow:
    """A program for one environment.

    Attributes:
        args: what it is given, such as what the environment returned, and what that is called.
        read: the keys of what it reads of what was there before, and what that is called.
        lines: its statements, and the declarations that they come from.
        entries: an expression for each output.
        records: the records that it reads.
        uses: the names of its module that it reads.
    """

    args: dict[Symbol, str]
    read: dict[str, str]
    lines: tuple[tuple[str, str | None], ...]
    entries: tuple[str, ...]
    records: tuple[str, ...]
    uses: frozenset[str]


def print_row(program: Program, taken: Collection[str] = ()) -> PrintedRow | None:
    """A program as NumPy computes it for one environment; None where it might compute something else than torch.

    Args:
        program: straight-line, with outputs of one dimension or more, a trailing 1 included.
        taken: names that mean something else.
    """
    return _printed(program, taken, _Printer.row)


def print_update(program: Program, taken: Collection[str] = ()) -> PrintedRow | None:
    """The new values of what is learned of one environment, likewise; nothing is there that is not new.

    A value whose dimensions nobody knows is one of NumPy's numbers where it is stored as `(1,)`, here too.

    Args:
        program: of what a transform learns.
        taken: names that mean something else.
    """
    return _printed(program, taken, _Printer.update)


def _printed(program: Program, taken: Collection[str], of: Callable[..., PrintedRow]) -> PrintedRow | None:
    """What `of` prints; once more where a variable would hide a function of Python's that is called."""
    printer = _Printer(program, taken)
    try:
        made = of(printer)
    except _OnlyTorchError:
        return None
    hidden = hidden_builtins((text for text, _ in made.lines), printer.names.values())
    return of(_Printer(program, (*taken, *hidden))) if hidden else made


class _OnlyTorchError(Exception):
    """NumPy is not known to compute this as torch does."""


class _Printer:
    def __init__(self, program: Program, taken: Collection[str]) -> None:
        self.program = program
        self.texts = FunctionTexts()
        self.names: dict[Symbol, str] = {}
        self.taken: set[str] = {*taken, *(one.group for one in program.inputs if one.group)}
        self.inline: dict[Symbol, Typed] = {}
        self.learned: list[Symbol] = []
        self.memory: dict[str, str] = {}  # of names that are other places of what another name is
        self.uses = Counter(symbol for statement in program.body for symbol in reads(statement))
        self.uses.update(output.symbol for output in program.outputs)

    def row(self) -> PrintedRow:
        program = self.program
        args: dict[Symbol, str] = {}
        read: dict[str, str] = {}
        owned: set[str] = set()
        for one in program.inputs:
            key = one.symbol.key
            if one.group:
                self.names[one.symbol] = f"{one.group}.{one.symbol.name}"
            elif one.kind == "given":
                args[one.symbol] = self._name(one.symbol)
                owned.add(args[one.symbol])  # Gymnasium may write into it again
            elif one.kind == "witness":  # of a reset: nothing is done
                self.inline[one.symbol] = store(known(False), one.symbol.type)
            elif one.kind in ("state", "flag") and key is not None and len(key) == 1:
                # What was there is in the data already: what it is afterwards has memory of its own.
                read[key[0]] = self._name(one.symbol)
                owned.add(read[key[0]])
            else:
                raise _OnlyTorchError
        returned = {output.symbol for output in program.outputs if self.uses[output.symbol] == 1}
        lines = self._lines(program.body, returned)
        # Of what is learned nobody else has the memory.
        owned.update(self.names[one] for one in self.learned)
        entries = tuple(self._entry(output.symbol, owned) for output in program.outputs)
        records = dict.fromkeys(one.group for one in program.inputs if one.group)
        return PrintedRow(args, read, lines, entries, tuple(records), frozenset(self.texts.uses))

    def update(self) -> PrintedRow:
        program = self.program
        args: dict[Symbol, str] = {}
        for one in program.inputs:
            if one.symbol.key == (NEW_ROWS,):
                continue
            if one.group or one.kind == "network" or (one.kind == "param" and not one.symbol.type.python):
                raise _OnlyTorchError
            args[one.symbol] = self._name(one.symbol)
        lines = self._lines(program.body, ())
        entries = tuple(self.names[output.symbol] for output in program.outputs)
        return PrintedRow(args, {}, lines, entries, (), frozenset(self.texts.uses))

    def _lines(
        self, body: Iterable[Statement], inline: Collection[Symbol]
    ) -> tuple[tuple[str, str | None], ...]:
        """The statements, without those whose value stands where it is read."""
        lines: list[tuple[str, str | None]] = []
        for statement in body:
            if isinstance(statement, Call):
                lines.append((self._call(statement), statement.origin))
            elif not isinstance(statement, Assign):
                raise _OnlyTorchError
            elif statement.target in inline or self._is_part(statement):
                self.inline[statement.target] = statement.value
            else:
                start, changes = self._in_place(statement.value)
                texts = [f"= {self.show(start).text}"]
                texts += [f"{sign}= {self.show(value).text}" for sign, value in changes]
                of = self._memory_of(statement.value)
                name = self._name(statement.target)
                lines += [(f"{name} {text}", statement.origin) for text in texts]
                if of is not None:
                    self.memory[name] = of
        return tuple(lines)

    def _is_part(self, statement: Assign) -> bool:
        """Whether a large value is a term or a factor of another: with it, its memory is needed no longer."""
        target, value = statement.target, statement.value
        readers = [one for one in self.program.body if target in reads(one)]
        return (
            is_large(target.type)
            and self.uses[target] == len(readers) == 1
            and value.op in (*_ARITHMETIC, "cast")
            and isinstance(readers[0], Assign)
            and unstored(readers[0].value).op in _ARITHMETIC
            and sum(node.symbol is target for node in readers[0].value.nodes) == 1
        )

    def _in_place(self, value: Typed) -> tuple[Typed, list[tuple[str, Typed]]]:
        """What a large value begins as, and what is done to it in its memory, in order."""
        changes: list[tuple[str, Typed]] = []
        value = self._written(value)
        while value.op in _ARITHMETIC and is_large(value.type):
            left, right = map(self._written, value.args)
            if left.type.python and value.op in "+*":  # which NumPy adds and multiplies in either order
                left, right = right, left
            self._operands(value)  # are of one dtype
            if left.op not in (*_ARITHMETIC, "cast") or left.type != value.type or right.type.open:
                break
            changes.append((value.op, right))
            value = left
        return value, changes[::-1]

    def _written(self, value: Typed) -> Typed:
        """A value as it is computed, where that stands in place of its name."""
        value = unstored(value)
        if value.op == "name" and value.symbol in self.inline:
            return self._written(self.inline[value.symbol])
        return value

    def _call(self, call: Call) -> str:
        """A read or an update of what a transform has learned."""
        callee = call.callee
        if callee.receiver not in self.names or callee.about is None or not callee.returns_tuple:
            raise _OnlyTorchError
        if not all(arg.type.rank or arg.type.col for arg in call.args):
            raise _OnlyTorchError
        texts = [key_text(callee.about), *(self.show(arg).text for arg in call.args)]
        texts += [f"{name}={self.show(value).text}" for name, value in call.named]
        text = f"{self.names[callee.receiver]}.{callee.name}({', '.join(texts)})"
        if not any(self.uses[target] for target in call.targets):
            return text
        targets = [self._name(target) for target in call.targets]
        self.learned += call.targets
        return f"{', '.join(targets) if len(targets) > 1 else f'({targets[0]},)'} = {text}"

    def _name(self, symbol: Symbol) -> str:
        name = self.names[symbol] = numbered(symbol.name, self.taken)
        self.taken.add(name)
        return name

    def _entry(self, symbol: Symbol, owned: set[str]) -> str:
        if symbol.type.level != "batch" or not (symbol.type.rank or symbol.type.col):
            raise _OnlyTorchError
        value = self.inline.get(symbol)
        shown = Printed(self.names[symbol]) if value is None else None
        if shown is None:
            assert value is not None
            number = _constant(value) if _is_number(symbol.type) else None
            shown = self.show(value) if number is None else self.texts.static(number)
        if _is_number(symbol.type):
            return shown.text
        of = self.memory.get(shown.text, shown.text) if value is None else self._memory_of(value)
        if of in owned:
            return f"{shown.at(ATOM)}.copy()"
        if of is not None:
            owned.add(of)
        return shown.text

    def _memory_of(self, value: Typed) -> str | None:
        """The name that has the memory which a value is in, or a place in; None where that is its own."""
        if value.op in VIEWS or value.op == "store":
            return self._memory_of(value.args[0])
        if value.op != "name" or value.symbol is None:
            return None
        if value.symbol in self.inline:
            return self._memory_of(self.inline[value.symbol])
        name = self.names.get(value.symbol)
        return None if name is None else self.memory.get(name, name)

    # expressions -----------------------------------------------------------------------------------

    def show(self, node: Typed) -> Printed:
        if node.static is not None and node.type.python:
            return self.texts.static(node.static)
        if node.op == "name" and node.symbol in self.names:
            return Printed(self.names[node.symbol])
        if node.op == "name" and node.symbol in self.inline:
            return self.show(self.inline[node.symbol])
        number = _constant(node)
        if number is not None:
            return self._filled(node.type, number)
        if node.op == "store":
            return self._stored(node)
        if node.op in _ARITHMETIC:
            return self._arithmetic(node)
        if node.op == "neg" and _is_computed(node.type.dtype):
            return Printed(f"-{self._operands(node)[0].at(UNARY + 1)}", UNARY)
        if node.op in _COMPARISONS:
            left, right = self._operands(node)
            return Printed(f"{left.at(COMPARE + 1)} {node.op} {right.at(COMPARE + 1)}", COMPARE)
        if node.op in _LOGIC:
            sign, precedence = _LOGIC[node.op]
            left, right = self._flags(node)
            return Printed(f"{left.at(precedence)} {sign} {right.at(precedence + 1)}", precedence)
        if node.op == "not":
            return Printed(f"~{self._flags(node)[0].at(UNARY)}", UNARY)
        if node.op == "cast":
            return self._cast(node)
        if node.op == "sqrt" and node.type.dtype in _FLOATS:
            return self.texts.call("row_sqrt", self._operands(node)[0].text)
        if node.op in _BOUNDED:
            return self._bounded(node)
        if node.op == "batch_count":
            return self.texts.call("row_number", literal("float64"), "1.0")
        if node.op in _MEANS:
            inner = self.show(node.args[0])
            same = node.args[0].type.dtype == "float64"
            return inner if same else Printed(f"{inner.at(ATOM)}.astype({literal('float64')})")
        shaped = show_shape(node, self.show, self.texts)
        if shaped is None:
            raise _OnlyTorchError
        return shaped

    def _stored(self, node: Typed) -> Printed:
        value, kind = node.args[0], node.type
        if not _same_layout(value.type, kind) or value.type.dtype != kind.dtype:
            raise _OnlyTorchError
        return self.show(value)

    def _filled(self, kind: Type, value: float) -> Printed:
        if kind.open:
            raise _OnlyTorchError
        dtype, shown = literal(kind.dtype), self.texts.static(value).text
        if _is_number(kind):
            return self.texts.call("row_number", dtype, shown)
        dims = [*map(str, kind.sizes), *(["1"] if kind.col else [])]
        if not dims or not all(size.isdigit() for size in dims):
            raise _OnlyTorchError
        return self.texts.call("filled_row", dtype, shown, *dims)

    def _arithmetic(self, node: Typed) -> Printed:
        dtype = node.type.dtype
        if not _is_computed(dtype) or (node.op == "/" and dtype not in _FLOATS):
            raise _OnlyTorchError
        precedence = _ARITHMETIC[node.op]
        left, right = self._operands(node)
        return Printed(f"{left.at(precedence)} {node.op} {right.at(precedence + 1)}", precedence)

    def _bounded(self, node: Typed) -> Printed:
        """No less, or no more, than a number; of two zeros nobody knows which one it is."""
        if len(node.args) != 2 or not any(arg.type.python and arg.static for arg in node.args):
            raise _OnlyTorchError
        return self.texts.call(_BOUNDED[node.op], *(one.text for one in self._operands(node)))

    def _cast(self, node: Typed) -> Printed:
        (inner,) = node.args
        kind = inner.type.dtype
        exact = kind in ("bool", "number", "float", *_FLOATS) or is_int(kind)
        if "dtype" in node.options or node.type.python or not exact or node.type.dtype not in _FLOATS:
            raise _OnlyTorchError
        return Printed(f"{self.show(inner).at(ATOM)}.astype({literal(node.type.dtype)})")

    def _flags(self, node: Typed) -> list[Printed]:
        for arg in node.args:
            if arg.type.python or arg.type.dtype != "bool" or not _same_layout(arg.type, node.type):
                raise _OnlyTorchError
        return [self.show(arg) for arg in node.args]

    def _operands(self, node: Typed) -> list[Printed]:
        """The operands of one dtype, which broadcast as they are."""
        dtype = str(node.options["operand_dtype"])
        if not _is_computed(dtype):
            raise _OnlyTorchError
        for arg in node.args:
            kind = arg.type
            if kind.python:
                if isinstance(arg.static, bool | str) or arg.type.dtype in ("bool", "str"):
                    raise _OnlyTorchError
            elif kind.dtype != dtype or not (
                _same_layout(kind, node.type) or (kind.level == "const" and not kind.rank)
            ):
                raise _OnlyTorchError
        if all(arg.type.python for arg in node.args):
            raise _OnlyTorchError
        numbers = any(_is_number(arg.type) or arg.type.open for arg in node.args)
        return [self._operand(arg, dtype, numbers) for arg in node.args]

    def _operand(self, arg: Typed, dtype: str, numbers: bool) -> Printed:
        """An operand; Python's number beside NumPy's is one of the dtype that both have."""
        if not numbers or not arg.type.python or dtype in _KEEP_DTYPE:
            return self.show(arg)
        return self.texts.call("row_number", literal(dtype), self.show(arg).text)


def _constant(node: Typed) -> float | None:
    """The one number that a value consists of, in Python's type for its dtype; None of what is computed."""
    if node.op in _CONSTANTS:
        value: float | None = _CONSTANTS[node.op]
    elif node.op == "store" and node.args[0].type.python:
        static = node.args[0].static
        value = static if isinstance(static, bool | int | float) else None
    elif node.op == "store" and node.args[0].type == node.type:
        value = _constant(node.args[0])
    else:
        value = None
    if value is None:
        return None
    dtype = node.type.dtype
    return bool(value) if dtype == "bool" else float(value) if is_float(dtype) else value


def _is_number(kind: Type) -> bool:
    """Whether NumPy computes a value as one number: it is stored as `(1,)`, and has no dimension."""
    return kind.level == "batch" and kind.col and not kind.rank and not kind.open


def _is_computed(dtype: str) -> bool:
    """Whether NumPy's arithmetic of a dtype is torch's."""
    return dtype in _FLOATS or is_int(dtype)


def _same_layout(one: Type, other: Type) -> bool:
    return (one.dims, one.col) == (other.dims, other.col)
