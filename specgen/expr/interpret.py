"""The plain meaning of a typed tree: one environment at a time, with NumPy, by the table's references."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from specgen.expr.dtypes import is_abstract
from specgen.expr.sizes import Sym
from specgen.expr.types import At, NewAxis, Others, Typed


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

    return _ByText(np, names, draws or {}, functions or {}).value(node)


class Interpreter:
    """Computes typed trees; what names and declared functions stand for is left to those who derive from it.

    Args:
        np: the module `numpy`.
    """

    def __init__(self, np: Any) -> None:
        self.np = np

    def leaf(self, node: Typed) -> Any:
        """The value of a `name` or a `site` that is not known at build."""
        raise NotImplementedError

    def function(self, node: Typed) -> Callable[..., Any]:
        """What the declared function that a node calls, or integrates, does."""
        raise NotImplementedError

    def value(self, node: Typed) -> Any:
        """The value of a node: an array, or a Python number for what is one."""
        if node.static is not None:
            return node.static
        match node.op:
            case "name" | "site":
                found = self.leaf(node)
                return found if node.type.python else self.np.asarray(found)
            case "cast" if "dtype" not in node.options:
                return self._cast(node)
            case "in_range" | "spread" | "among":
                return self.value(node.args[0])  # what indexes with it raises; one number meets any shape
            case "[]":
                return self._index(node)
            case _:
                return self._builtin(node)

    def _cast(self, node: Typed) -> Any:
        inner = self.value(node.args[0])
        dtype = node.type.dtype
        if not node.type.python:
            with self.np.errstate(all="ignore"):
                return self.np.asarray(inner).astype(dtype)
        return bool(inner) if dtype == "bool" else float(inner) if dtype.startswith("float") else int(inner)

    def _index(self, node: Typed) -> Any:
        items: list[Any] = []
        sizes = iter(node.args[0].type.dims)
        for item in node.items:
            size = None if isinstance(item, NewAxis) else next(sizes)
            if isinstance(item, At):
                items.append(self.value(item.index))
            elif isinstance(item, NewAxis):
                items.append(None)
            elif isinstance(item, Others):
                items.append(...)
            else:
                assert isinstance(size, int | Sym)
                items.append(item.slice_of(size))
        assert node.builtin is not None
        return node.builtin.reference(self.np, self.value(node.args[0]), tuple(items))

    def _builtin(self, node: Typed) -> Any:
        builtin = node.builtin
        assert builtin is not None, node.op
        args: list[Any] = []
        for arg in node.args:
            args += map(self.np.asarray, self.leaf(arg)) if arg.several else [self.value(arg)]
        if node.function is not None:
            args.insert(0, self.function(node))
        if node.type.python and builtin.python is not None:
            return builtin.python(*args)
        options = {key: self._option(value) for key, value in node.options.items() if key != "operand_dtype"}
        dtype = node.options.get("operand_dtype")
        if dtype is not None and builtin.name != "where" and not is_abstract(str(dtype)):
            # A number takes the dtype of the tensor that it meets before anything is computed.
            args = [self.np.asarray(arg, dtype=str(dtype)) for arg in args]
        with self.np.errstate(all="ignore"):
            result = builtin.reference(self.np, *args, **options)
        if node.type.python:
            return result
        array = self.np.asarray(result)
        return array if is_abstract(node.type.dtype) else array.astype(node.type.dtype)

    def _option(self, value: object) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._option, value))
        return self.value(value) if isinstance(value, Typed) else value


class _ByText(Interpreter):
    """Names, draws and declared functions by the texts that are printed for them."""

    def __init__(
        self,
        np: Any,
        names: Mapping[str, Any],
        draws: Mapping[str, Any],
        functions: Mapping[str, Callable[..., Any]],
    ) -> None:
        super().__init__(np)
        self._names = names
        self._draws = draws
        self._functions = functions

    def leaf(self, node: Typed) -> Any:
        return self._names[node.text] if node.op == "name" else self._draws[node.text]

    def function(self, node: Typed) -> Callable[..., Any]:
        assert node.function is not None
        return self._functions[node.function.text]
