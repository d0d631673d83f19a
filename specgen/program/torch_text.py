"""Readable torch functions from programs: the only place that chooses names and knows Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeGuard, cast

from specgen.code import Code, named, using
from specgen.expr import Symbol, Type, Typed, to_torch
from specgen.expr.dtypes import is_abstract
from specgen.expr.printer import FunctionTexts, is_made
from specgen.program.blocks import Block, Laid, in_blocks, in_order, known_there
from specgen.program.guards import ABSENT
from specgen.program.names import called_functions, hidden_builtins, numbered, with_names
from specgen.program.printed import PrintedArgument, PrintedFunction, PrintedLine, told
from specgen.program.program import Assign, Call, Input, Output, Program, Region, Statement
from specgen.program.torch_blocks import PYTHON_TYPES, BlockPrinter, block_lines
from specgen.program.torch_regions import FunctionPrinter, region_lines
from specgen.program.verify import verified
from specgen.program.walk import reads, targets
from specgen.values import replace

RECORDS: Final = (
    "dynamics",
    "draws",
    "env_params",
    "params",
    "env_consts",
    "consts",
    "constants",
    "networks",
    "learned",
    "objects",
    "firsts",
)
"""The records that functions take before all else, in this order."""


@verified()
def print_function(
    program: Program, annotations: Mapping[str, Code] | None = None, *, reuse: bool = False
) -> PrintedFunction:
    """A program as a readable torch function, for any leading batch dimensions.

    Args:
        program: what is printed. Parameters of losses (programs with terms) become keywords.
        annotations: types of arguments that are no tensors, by name.
        reuse: whether large values are computed in memory that nobody reads again, which `torch.vmap` may refuse.
    """
    annotations = annotations or {}
    printer = _Printer(program, annotations, FunctionTexts(reuse=reuse))
    function = printer.function()
    hidden = hidden_builtins((line.text for line in function.lines), printer.names.values())
    hidden -= {argument.name for argument in function.keyword_only}
    if hidden:
        printer = _Printer(program, annotations, FunctionTexts(reuse=reuse), hidden)
        function = printer.function()
    several = [tensor for tensor, count in printer.texts.shape_reads.items() if count > 1]
    given = {argument.name for argument in function.args}
    if len(several) != 1 or several[0] not in given or "batch" in printer.taken:
        return function
    # Printed again, with a name for the one batch shape that several statements read.
    printer = _Printer(program, annotations, FunctionTexts({several[0]: "batch"}, reuse=reuse), hidden)
    function = printer.function()
    return replace(function, lines=(PrintedLine(f"batch = {printer.shape_of(several[0])}"), *function.lines))


def print_expression(expr: Typed, name: Callable[[Symbol], str]) -> Code:
    """One expression by itself; `name` is the text that reads a symbol."""
    texts = FunctionTexts()
    printed = to_torch(with_names(expr, name), texts=texts)
    return using(printed.text, *texts.uses, precedence=printed.precedence)


class _Printer:
    def __init__(
        self,
        program: Program,
        annotations: Mapping[str, Code],
        texts: FunctionTexts,
        taken: Iterable[str] = (),
    ) -> None:
        self.program = program
        self.texts = texts
        self.annotations = annotations
        self.names: dict[Symbol, str] = {}
        self.forced: dict[Symbol, str] = {}
        self.taken: set[str] = {*RECORDS, *texts.shape_names.values(), *called_functions(program.body)}
        self.taken.update(taken)
        self.records = {one.symbol: one.group for one in program.inputs if one.group}
        self.lines: list[PrintedLine] = []
        self.there: frozenset[Symbol] = frozenset()
        self.laid = in_blocks(program.body, (output.symbol for output in program.outputs))
        self.last_reader = {symbol: one for one in in_order(self.laid) for symbol in reads(one)}
        readers = Counter(symbol for one in program.body for symbol in reads(one))
        made = {
            one.target
            for one in program.body
            if isinstance(one, Assign) and readers[one.target] == 1 and _makes(one.value)
        }
        self.returned = Counter(output.symbol for output in program.outputs)
        self.in_return = {
            statement.target: statement.value
            for statement in program.body
            if isinstance(statement, Assign) and self._prints_inline(statement)
        }
        inline = (symbol for value in self.in_return.values() for symbol in value.symbols_read)
        self.kept = {*self.returned, *inline}
        self.owned = made - self.kept

    def function(self) -> PrintedFunction:
        args, keywords = self._arguments()
        program = self.program
        single = program.record is None and len(program.outputs) == 1
        for index, statement in enumerate(self.laid):
            last = index == len(self.laid) - 1
            if isinstance(statement, Block):
                self._if(statement)
            elif single and last and self._is_result(statement):
                text = (
                    self._expr(statement.value)
                    if isinstance(statement, Assign)
                    else self._call_text(statement)
                )
                self.lines.append(PrintedLine(f"return {text}", statement.origin))
                break
            elif not isinstance(statement, Assign) or statement.target not in self.in_return:
                self._statement(statement)
        else:
            self.lines.append(PrintedLine(self._return()))
        several = using(f"tuple[{', '.join('Tensor' for _ in program.outputs)}]", "Tensor")
        returns = named(program.record or "Tensor") if program.record or single else several
        uses = frozenset(self.texts.uses)
        return PrintedFunction(program.name, args, keywords, tuple(self.lines), returns, uses)

    # names -----------------------------------------------------------------------------------------

    def _new_name(self, symbol: Symbol, statement: Statement | None = None) -> str:
        if symbol in self.forced:
            return self.forced[symbol]
        if symbol.name in self.taken and symbol.alias:
            return self._unused(symbol.alias)
        if statement is not None and self._is_free(symbol.name, statement):
            return symbol.name
        return self._unused(symbol.name)

    def _is_free(self, name: str, statement: Statement) -> bool:
        """Whether a name can be taken again: what has it is read in this statement for the last time."""
        holders = [symbol for symbol, held in self.names.items() if held == name]
        return bool(holders) and all(
            self.last_reader.get(symbol) is statement and symbol not in self.kept for symbol in holders
        )

    def _unused(self, wanted: str) -> str:
        name = numbered(wanted, self.taken)
        self.taken.add(name)
        return name

    def _arguments(self) -> tuple[tuple[PrintedArgument, ...], tuple[PrintedArgument, ...]]:
        keywords_too = any(output.role == "term" for output in self.program.outputs)
        records: set[str] = set()
        args: list[PrintedArgument] = []
        keywords: list[PrintedArgument] = []
        for one in self.program.inputs:
            if one.group:
                records.add(one.group)
                self.names[one.symbol] = f"{one.group}.{one.symbol.name}" if one.symbol.name else one.group
                continue
            name = self.names[one.symbol] = self._new_name(one.symbol)
            made = PrintedArgument(name, self.annotations.get(name) or _annotation(one), one)
            (keywords if keywords_too and one.kind in ("param", "learnable") else args).append(made)
        leading = [PrintedArgument(name, self.annotations[name]) for name in RECORDS if name in records]
        return (*leading, *args), tuple(keywords)

    def shape_of(self, tensor: str) -> str:
        """The text of an input's batch shape."""
        type = next(symbol.type for symbol, name in self.names.items() if name == tensor)
        return FunctionTexts().batch_shape(tensor, type.rank + type.col)

    # statements ------------------------------------------------------------------------------------

    def _is_result(self, statement: Statement) -> TypeGuard[Assign | Call]:
        """Whether a statement makes what the function returns, and nothing else reads that."""
        result = self.program.outputs[0].symbol
        if isinstance(statement, Region) or result in self.last_reader or targets(statement) != (result,):
            return False
        return isinstance(statement, Assign) or not (statement.fields or statement.callee.returns_tuple)

    def _prints_inline(self, statement: Assign) -> bool:
        """Whether a value that only the record takes is printed in the `return`: what no declaration names."""
        value, returned = statement.value, self.returned[statement.target]
        if statement.origin is not None or not returned or statement.target in self.last_reader:
            return False
        if value.op != "store":
            return value.op == "or" and returned == 1
        # A constant can be made again for each field; anything else is made once and copied.
        inner, *like = value.args
        return returned == 1 or (inner.static is not None and bool(like) and _alike(like[0].type, value.type))

    def _statement(self, statement: Statement) -> None:
        match statement:
            case Assign():
                self.texts.spent = self._spent(statement)
                text = self._expr(statement.value)
                self.texts.spent = set()
                name = self.names[statement.target] = self._new_name(statement.target, statement)
                self.lines.append(PrintedLine(f"{name} = {text}", statement.origin))
            case Call():
                self._call(statement)
            case Region():
                self._region(statement)

    def _spent(self, statement: Assign) -> set[str]:
        """The variables whose memory a statement can take: it reads them once, and nothing else does."""
        value = statement.value
        owned = [
            one for one in value.symbols_read if one in self.owned and self.last_reader[one] is statement
        ]
        places = [symbol for node in value.nodes for symbol in (node.symbol, *node.captured)] if owned else []
        return {self.names[one] for one in owned if places.count(one) == 1}

    def _call_text(self, call: Call) -> str:
        callee = call.callee
        texts = told(callee, self.texts.uses)
        records: set[str] = set()
        for index, arg in enumerate(call.args):
            whole = callee.program is not None and bool(callee.program.inputs[index].group)
            record = self.records.get(arg.symbol) if whole and arg.symbol is not None else None
            if record is None:
                texts.append(self._expr(arg))
            elif record not in records:  # a record is passed once, whichever of its fields are read
                records.add(record)
                texts.append(record)
        texts += [f"{name}={self._expr(value)}" for name, value in call.named]
        if callee.receiver is None:
            return self.texts.call(callee.name, *texts).text
        return f"{self.names[callee.receiver]}.{callee.name}({', '.join(texts)})"

    def _call(self, call: Call) -> None:
        callee, text = call.callee, self._call_text(call)
        if call.fields:
            made = self._unused(call.called)
            for target, field in zip(call.targets, call.fields, strict=True):
                self.names[target] = f"{made}.{field}"
            if callee.record:
                self.texts.uses.add(callee.record)
            typed = f"{made}: {callee.record}" if callee.record else made
            self.lines.append(PrintedLine(f"{typed} = {text}", call.origin))
            return
        # What is learned and not read is learned all the same.
        read = callee.effect != "writes_buffer" or any(one in self.last_reader for one in call.targets)
        for target in call.targets if read else ():
            self.names[target] = self._new_name(target)
        names = [self.names[target] for target in call.targets] if read else []
        made = f"({names[0]},)" if callee.returns_tuple and len(names) == 1 else ", ".join(names)
        self.lines.append(PrintedLine(f"{made} = {text}" if made else text, call.origin))

    def _region(self, region: Region) -> None:
        printer = FunctionPrinter(
            self.names,
            self.forced,
            self.texts,
            self._expr,
            self._block,
            self._new_name,
            self._unused,
            self._is_free,
        )
        self.lines += [PrintedLine(line, region.origin) for line in region_lines(region, printer)]

    def _block(self, body: Sequence[Statement], kept: Iterable[Symbol] = ()) -> str:
        """The statements of a region as an indented block; `kept` is what it hands on."""
        return self._indented(in_blocks(body, kept))

    def _indented(self, body: Iterable[Laid], first: Sequence[str] = ()) -> str:
        """Statements as an indented block, behind lines that come first."""
        outside, self.lines = self.lines, [PrintedLine(line) for line in first]
        for one in body:
            if isinstance(one, Block):
                self._if(one)
            else:
                self._statement(one)
        inside, self.lines = self.lines, outside
        return "".join("\n    " + line.text.replace("\n", "\n    ") for line in inside)

    def _if(self, block: Block) -> None:
        origin = next((one.origin for one in in_order([block]) if one.origin is not None), None)
        self.lines += [PrintedLine(line, origin) for line in block_lines(block, self._of_blocks())]

    def _of_blocks(self) -> BlockPrinter:
        return BlockPrinter(
            self.names, self.forced, self.texts, self._expr, self._result_name, self._branch, self.there
        )

    def _result_name(self, symbol: Symbol) -> str:
        """The name of what a block makes: type checkers let names in capitals be assigned only once."""
        return self._unused(symbol.name.lower()) if symbol.name.isupper() else self._new_name(symbol)

    def _branch(self, body: Sequence[Laid], there: frozenset[Symbol], first: Sequence[str]) -> str:
        """One side of a block, where some values are known not to be None."""
        before, self.there = self.there, there
        text = self._indented(body, first)
        self.there = before
        return text

    def _return(self) -> str:
        """The `return`. Every output is a tensor of its own: where two are one value, all but one are copies."""
        program = self.program
        owner: dict[Symbol, Output] = {}
        for output in program.outputs:
            if output.key is not None and output.symbol.key == output.key:
                owner.setdefault(output.symbol, output)
        for output in program.outputs:
            owner.setdefault(output.symbol, output)
        texts = []
        for output in program.outputs:
            value = self.in_return.get(output.symbol)
            if value is not None:
                texts.append(self._expr(value))
            else:
                copied = owner[output.symbol] is not output
                texts.append(self.names[output.symbol] + (".clone()" if copied else ""))
        if program.record is None:
            return f"return {', '.join(texts)}"
        pairs = (f"{output.name}={text}" for output, text in zip(program.outputs, texts, strict=True))
        return f"return {self.texts.call(program.record, *pairs).text}"

    # expressions -----------------------------------------------------------------------------------

    def _expr(self, expr: Typed) -> str:
        if expr.op == "store":
            return self._stored(expr)
        if expr.op == "place":
            value, like = expr.args
            return to_torch(self._named(value), like=self._named(like), texts=self.texts).text
        if expr.op == "record":
            names = cast("tuple[str, ...]", expr.options["fields"])
            pairs = (f"{name}={self._expr(arg)}" for name, arg in zip(names, expr.args, strict=True))
            return self.texts.call(str(expr.options["name"]), *pairs).text
        if expr.op == "copy":
            return f"{self._expr(expr.args[0])}.clone()"
        if expr.op == "when":
            condition, value = expr.args
            return f"{self._inner(value)} if {self._expr(condition)} else None"
        if expr.op == "given_or":
            given, drawn = expr.args
            return f"{self._inner(drawn)} if {self._expr(given)} is None else {self._expr(given)}.clone()"
        return to_torch(self._named(expr), col=expr.type.col, texts=self.texts).text

    def _inner(self, expr: Typed) -> str:
        """An expression inside a conditional one, in parentheses where it is such itself."""
        chosen = expr.args[0] if expr.op in ("store", "place") else expr
        conditional = chosen.op == "where" and chosen.args[0].type.python
        return f"({self._expr(expr)})" if conditional else self._expr(expr)

    def _stored(self, expr: Typed) -> str:
        value, kind = expr.args[0], expr.type
        like = self._named(expr.args[1]) if len(expr.args) > 1 else None
        inner = self._named(value)
        if kind.open:
            return self._stored_like_key(value, inner, kind, like)
        return to_torch(
            inner, cast=kind.dtype, dims=kind.dims, col=kind.col, like=like, texts=self.texts
        ).text

    def _stored_like_key(self, value: Typed, inner: Typed, kind: Type, like: Typed | None) -> str:
        """A value for whatever shape its key will have: its own, or that of the tensor that stands for the key."""
        if value.type.level == "batch":
            return to_torch(inner, cast=kind.dtype, texts=self.texts).text
        text = to_torch(inner, texts=self.texts).text
        assert like is not None, text
        if value.type.level == "const":
            return f"{text}.expand_as({like.text})"
        dtype = None if is_abstract(kind.dtype) else kind.dtype
        return self.texts.full_like(like.text, text, dtype).text

    def _named(self, expr: Typed) -> Typed:
        if self.there:
            expr = known_there(expr, self.there)
        if any(node.options.get(ABSENT) == ABSENT for node in expr.nodes):
            self.texts.uses.add("not_none")
        return with_names(expr, self.names.__getitem__)


def _makes(value: Typed) -> bool:
    """Whether a statement makes a tensor of its own, as a computation gives it."""
    inner = value.args[0] if value.op == "store" else value
    return is_made(inner) and inner.type == value.type


def _alike(one: Type, other: Type) -> bool:
    return (one.dims, one.col) == (other.dims, other.col)


def _annotation(one: Input) -> Code:
    if one.kind == "function":
        return using("Callable[[Tensor], Tensor]", "Callable", "Tensor")
    return Code(PYTHON_TYPES[one.symbol.type.dtype]) if one.symbol.type.python else named("Tensor")
