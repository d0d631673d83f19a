"""Conditions of a loss, decided by what a pipeline gives it."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Mapping

from specgen.check.losses.model import CheckedLoss
from specgen.expr import Typed


def asked_numbers(condition: Typed) -> Iterator[str]:
    """The parameters of which a condition asks whether they are 0."""
    if condition.op == "nonzero" and (symbol := condition.args[0].symbol) is not None:
        yield symbol.path.rsplit(".", 1)[-1]
    elif condition.symbol is not None and ".nonzero." in condition.symbol.path:
        yield condition.symbol.path.rsplit(".", 1)[-1]
    else:
        for part in condition.args:
            yield from asked_numbers(part)


_COMPARED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class LossConditions:
    """The conditions of a loss with what a pipeline gives it.

    Args:
        loss: the loss.
        values: the value of every parameter.
        networks: the networks that it is given.
    """

    def __init__(self, loss: CheckedLoss, values: Mapping[str, object], networks: Collection[str]) -> None:
        self._loss, self._values, self._networks = loss, values, networks

    def holds(self, condition: Typed | None) -> bool:
        """Whether a condition holds; one that no parameter decides is taken to."""
        return condition is None or bool(self._value(condition, unknown=True))

    def target(self, name: str) -> bool:
        """Whether a network has target parameters."""
        target = self._loss.networks_by_name[name].target
        return bool(self._values[target]) if isinstance(target, str) else target

    def _value(self, node: Typed, unknown: object) -> object:
        match node.op:
            case "literal":
                return node.static
            case "given":
                return self._is_given(node.args[0])
            case "name" if node.symbol is not None:
                return self._read(node.symbol.path, unknown)
            case "name":  # one of the choices of a parameter
                return node.static
            case "nonzero":
                return bool(self._value(node.args[0], unknown))
            case "not":
                return not self._value(node.args[0], unknown=not unknown)
            case "and":
                return all(self._value(arg, unknown) for arg in node.args)
            case "or":
                return any(self._value(arg, unknown) for arg in node.args)
            case "eq" | "==":
                left, right = (self._value(arg, None) for arg in node.args)
                return left == right
            case "<" | "<=" | ">" | ">=":
                left, right = (self._value(arg, None) for arg in node.args)
                if not isinstance(left, int | float) or not isinstance(right, int | float):
                    return unknown
                return _COMPARED[node.op](left, right)
            case _:
                return unknown

    def _read(self, path: str, unknown: object) -> object:
        _, _, section, name = path.split(".", 3)
        if section == "params":
            return self._number(name) if name in self._values else unknown
        if section == "nonzero":
            value = self._number(name)
            return unknown if value is None and name not in self._values else bool(value)
        return unknown

    def _number(self, name: str) -> object:
        """The value of a parameter; where None stands for a number, that."""
        value = self._values.get(name)
        kept = self._loss.coefficients.get(name)
        if value is None and kept is not None and kept.auto is not None and self.holds(kept.auto_when):
            return kept.auto.static if kept.auto.static is not None else True
        return value

    def _is_given(self, node: Typed) -> bool:
        assert node.symbol is not None
        _, _, section, name = node.symbol.path.split(".", 3)
        return name in self._networks if section == "networks" else self._number(name) is not None
