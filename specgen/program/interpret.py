"""The plain meaning of a whole program: one environment, NumPy, the references of the built-ins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from specgen.expr import Symbol, Typed
from specgen.expr.dtypes import is_abstract
from specgen.expr.interpret import Interpreter
from specgen.program.program import Assign, Call, Program, Region, Statement


def run(
    program: Program,
    given: Mapping[Symbol, Any],
    functions: Mapping[str, Program] | None = None,
    callees: Mapping[str, Callable[..., Any]] | None = None,
) -> dict[str, Any]:
    """The outputs of a program for one environment, by name.

    Reductions over the rows of a batch have no meaning for one environment. A value along an axis of time has the
    axis in front; what is computed of it outside a `scan` is computed for all times at once.

    Args:
        program: the program.
        given: the value of each input: arrays of the feature shape, without the trailing 1 of a column, and Python
            numbers for parameters.
        functions: the declared functions that expressions call, by their printed names.
        callees: what calls without a known program do, by the callee's name: from the receiver, where there is one,
            and the arguments to one value, or a sequence of one for each target. `draw` gets the receiver and the site.

    Raises:
        KeyError: for an input that has no value, or a function or callee that is not known.
    """
    import numpy as np

    missing = [one.symbol for one in program.inputs if one.symbol not in given]
    if missing:
        raise KeyError(*missing)
    values = {one.symbol: given[one.symbol] for one in program.inputs}
    _Run(np, values, functions or {}, callees or {}).block(program.body)
    return {output.name: values[output.symbol] for output in program.outputs}


class _Run(Interpreter):
    """The statements of one program; `values` grows with every one."""

    def __init__(
        self,
        np: Any,
        values: dict[Symbol, Any],
        functions: Mapping[str, Program],
        callees: Mapping[str, Callable[..., Any]],
    ) -> None:
        super().__init__(np)
        self.values = values
        self.functions = functions
        self.callees = callees

    # expressions -----------------------------------------------------------------------------------

    def leaf(self, node: Typed) -> Any:
        assert node.symbol is not None, node.text
        return self.values[node.symbol]

    def value(self, node: Typed) -> Any:
        if node.op == "store":
            return self._stored(node)
        if node.op in ("place", "copy"):
            return self.value(node.args[0])
        if node.op == "given_or":
            given = self.value(node.args[0])
            return self.value(node.args[1]) if given is None else given
        if node.op == "when":
            return self.value(node.args[1]) if self.value(node.args[0]) else None
        if node.op == "given":
            assert node.args[0].symbol is not None
            return self.values[node.args[0].symbol] is not None
        if node.op == "record":
            names = cast("tuple[str, ...]", node.options["fields"])
            return dict(zip(names, map(self.value, node.args), strict=True))
        return super().value(node)

    def _stored(self, node: Typed) -> Any:
        kind, dtype = node.type, node.type.dtype
        value = self.np.asarray(self.value(node.args[0]))
        if is_abstract(dtype):
            dtype = value.dtype if len(node.args) == 1 else self.np.asarray(self.value(node.args[1])).dtype
        with self.np.errstate(all="ignore"):
            value = value.astype(dtype)
        if kind.open:
            like = () if len(node.args) == 1 else self.np.shape(self.value(node.args[1]))
            return self.np.broadcast_to(value, self.np.broadcast_shapes(value.shape, like)).copy()
        leading = value.shape[: max(0, value.ndim - kind.rank)]  # times, where the value is of several
        return self.np.broadcast_to(value, leading + kind.shape).copy()

    def function(self, node: Typed) -> Callable[..., Any]:
        assert node.function is not None
        program = self.functions[node.function.text]
        own = [one.symbol for one in program.inputs if one.kind != "data"]
        fixed = dict(zip(own, (self.values[symbol] for symbol in node.captured), strict=True))
        args = [one.symbol for one in program.inputs if one.kind == "data"]

        def called(*values: Any) -> Any:
            made = run(program, fixed | dict(zip(args, values, strict=True)), self.functions, self.callees)
            (result,) = made.values()
            return result

        return called

    # statements ------------------------------------------------------------------------------------

    def block(self, body: Sequence[Statement]) -> None:
        """Run statements, one after the other."""
        for statement in body:
            match statement:
                case Assign():
                    self.values[statement.target] = self.value(statement.value)
                case Call():
                    self._call(statement)
                case Region():
                    self._region(statement)

    def _call(self, call: Call) -> None:
        callee = call.callee
        args = [self.value(arg) for arg in call.args]
        if callee.program is not None:
            symbols = (one.symbol for one in callee.program.inputs)
            made = run(callee.program, dict(zip(symbols, args, strict=True)), self.functions, self.callees)
            if len(call.targets) == 1 and call.targets[0].type.dtype == "record":
                self.values[call.targets[0]] = made
            else:
                self.values.update(zip(call.targets, made.values(), strict=True))
            return
        receiver = [] if callee.receiver is None else [self.values[callee.receiver]]
        if callee.draw is not None:
            self.values[call.targets[0]] = self.callees["draw"](*receiver, callee.draw)
            return
        named = {name: self.value(value) for name, value in call.named}
        result = self.callees[callee.name](*receiver, *args, **named)
        results = [result] if len(call.targets) == 1 else result
        self.values.update(zip(call.targets, results, strict=True))

    def _region(self, region: Region) -> None:
        match region.kind:
            case "no_grad":
                self.block(region.body)
                self.values.update((outer, self.values[inner]) for outer, inner in region.results)
            case "repeat":
                self._repeat(region)
            case "scan":
                self._scan(region)
            case "when":
                self._begin(region)
                assert region.condition is not None
                if bool(self.value(region.condition)):
                    self.block(region.body)
                    self._carry(region)
                self._end(region)

    def _repeat(self, region: Region) -> None:
        assert region.count is not None
        self._begin(region)
        count = int(self.value(region.count))
        found: dict[Symbol, list[Any]] = {outer: [] for outer, _ in region.results}
        for number in range(count):
            if region.index is not None:
                self.values[region.index] = number
            over = region.mask is not None and bool(self.np.all(self.values[region.mask]))
            if over and region.leaves:
                break
            self.block(region.body)
            for outer, inner in region.results:
                found[outer].append(self.values[inner])
            if not over:  # one environment: a finished one keeps what it has, and draws with the others
                self._carry(region)
        for outer, values in found.items():
            values += [self.np.zeros_like(values[0])] * (count - len(values))
            self.values[outer] = self.np.stack(values)
        self._end(region)

    def _scan(self, region: Region) -> None:
        count = len(self.values[region.over[0][0]])
        found: dict[Symbol, list[Any]] = {outer: [None] * count for outer, _ in region.results}
        self._begin(region)
        for time in reversed(range(count)) if region.backward else range(count):
            self.values.update((inner, self.values[outer][time]) for outer, inner in region.over)
            self.block(region.body)
            for outer, inner in region.results:
                found[outer][time] = self.values[inner]
            self._carry(region)
        self.values.update((outer, self.np.stack(values)) for outer, values in found.items())
        self._end(region)

    def _begin(self, region: Region) -> None:
        firsts = [self.value(one.init) for one in region.carried]
        self.values.update(zip((one.inner for one in region.carried), firsts, strict=True))

    def _carry(self, region: Region) -> None:
        after = [self.values[one.after] for one in region.carried]
        self.values.update(zip((one.inner for one in region.carried), after, strict=True))

    def _end(self, region: Region) -> None:
        self.values.update(
            (one.result, self.values[one.inner]) for one in region.carried if one.result is not None
        )
