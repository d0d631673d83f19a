"""The plain meaning of a typed tree: one environment at a time, with NumPy, by the table's references."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from specgen.expr.dtypes import is_abstract
from specgen.expr.types import At, NewAxis, Type, Typed


def interpret(
    node: Typed,
    names: Mapping[str, Any],
    draws: Mapping[str, Any] | None = None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> Any:
    """The value of `node` for one environment.

    Args:
        node: The typed tree.
        names: The value of each name by its printed text: arrays of the feature shape, and Python
            numbers for parameters.
        draws: The value of each random draw by its name.
        functions: What the declared functions do, by their printed names.

    Returns:
        An array of the node's dtype and dimensions; a Python number for what is one.

    Raises:
        KeyError: When a name or a draw has no value.

    """
    import numpy as np

    return _Interpreter(np, names, draws or {}, functions or {}).value(node)


class _Interpreter:
    def __init__(
        self,
        np: Any,
        names: Mapping[str, Any],
        draws: Mapping[str, Any],
        functions: Mapping[str, Callable[..., Any]],
    ) -> None:
        self._np = np
        self._names = names
        self._draws = draws
        self._functions = functions

    def value(self, node: Typed) -> Any:
        if node.static is not None:
            return node.static
        match node.op:
            case "name":
                return self._stored(self._names[node.text], node.type)
            case "site":
                return self._stored(self._draws[node.text], node.type)
            case "cast":
                return self._cast(node)
            case "in_range":
                return self.value(node.args[0])  # what indexes with it raises
            case "[]":
                return self._index(node)
            case _:
                return self._builtin(node)

    def _stored(self, value: Any, kind: Type) -> Any:
        return value if kind.python else self._np.asarray(value)

    def _cast(self, node: Typed) -> Any:
        inner = self.value(node.args[0])
        dtype = node.type.dtype
        if not node.type.python:
            with self._np.errstate(all="ignore"):
                return self._np.asarray(inner).astype(dtype)
        return bool(inner) if dtype == "bool" else float(inner) if dtype.startswith("float") else int(inner)

    def _index(self, node: Typed) -> Any:
        items: list[Any] = []
        for item in node.items:
            if isinstance(item, At):
                items.append(self.value(item.index))
            elif isinstance(item, NewAxis):
                items.append(None)
            else:
                items.append(slice(item.start, item.stop, item.step))
        assert node.builtin is not None
        return node.builtin.reference(self._np, self.value(node.args[0]), tuple(items))

    def _builtin(self, node: Typed) -> Any:
        builtin = node.builtin
        assert builtin is not None, node.op
        args = [self.value(arg) for arg in node.args]
        if node.function is not None:
            args.insert(0, self._functions[node.function.text])
        if node.type.python and builtin.python is not None:
            return builtin.python(*args)
        options = {key: self._option(value) for key, value in node.options.items() if key != "operand_dtype"}
        dtype = node.options.get("operand_dtype")
        if dtype is not None and builtin.name != "where":
            # A number takes the dtype of the tensor that it meets before anything is computed.
            args = [self._np.asarray(arg, dtype=str(dtype)) for arg in args]
        with self._np.errstate(all="ignore"):
            result = builtin.reference(self._np, *args, **options)
        if node.type.python:
            return result
        array = self._np.asarray(result)
        return array if is_abstract(node.type.dtype) else array.astype(node.type.dtype)

    def _option(self, value: object) -> Any:
        return self.value(value) if isinstance(value, Typed) else value
