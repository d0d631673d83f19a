"""What is given for a parameter: a value of its type, in its range."""

from __future__ import annotations

from typing import Any

from specgen.check.model import Parameter
from specgen.check.param_values import COMPARISONS, flatten_value
from specgen.check.params import LISTS
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import schema as rules
from specgen.schema.load import describe, to_data
from specgen.source import Node, Scalar, Sequence


def check_argument(param: Parameter, node: Node, owner: str, sink: Sink, *, free: bool = False) -> Any:
    """The value that is given for a parameter of `owner`, any of its type if `free`; what is wrong is reported."""
    value = to_data(node)
    what = f"`{param.name}` of `{owner}`"
    if value is None and param.optional:
        return None
    if param.kind == "enum":
        if value not in param.choices:
            message = f"{what} is one of {', '.join(param.choices)}, got {describe(node, value)}"
            sink.add(
                rules.PARAM_OUT_OF_RANGE.at(node.span, message, help=suggestion(str(value), param.choices))
            )
        return value
    numbers = list(flatten_value(value))
    listed = isinstance(value, list) and param.kind not in ("tensor", *LISTS.values())
    listed = listed or (param.kind == "ints" and not isinstance(value, list))
    if param.kind == "ints" and value == []:
        return ()
    if listed or not numbers or any(not _is_number(number, param) for number in numbers):
        text = _text_in(node)
        if text is not None:
            {"int": text.as_int, "bool": text.as_bool}.get(param.kind, text.as_float)(sink)
        else:
            message = f"{what} should be {_WANTED[param.kind]}, got {describe(node, value)}"
            sink.add(rules.WRONG_TYPE.at(node.span, message))
        return value
    for sign, bound in () if free else param.range:
        if wrong := [number for number in numbers if not COMPARISONS[sign](number, bound)]:
            but = f" unless `{param.unless}`" if param.unless else ""
            message = f"{what} must be {sign} {bound:g}{but}, got {wrong[0]}"
            sink.add(rules.PARAM_OUT_OF_RANGE.at(node.span, message))
            break
    return tuple(value) if isinstance(value, list) and param.kind in LISTS.values() else value


_WANTED = {
    "ints": "a list of whole numbers",
    "int_or_ints": "a whole number or a list of them",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "tensor": "a number or a list of numbers",
}


_WHOLE = ("int", *LISTS.values())


def _is_number(value: object, param: Parameter) -> bool:
    """Whether one value, or one element of a tensor, is of the type of a parameter."""
    if isinstance(value, bool) or param.kind == "bool":
        return isinstance(value, bool) and param.kind == "bool"
    return isinstance(value, int) or (isinstance(value, float) and param.kind not in _WHOLE)


def _text_in(node: Node) -> Scalar | None:
    """The first text of a value that should be made of numbers."""
    if isinstance(node, Scalar):
        return node if isinstance(node.value, str) else None
    items = node.items if isinstance(node, Sequence) else ()
    return next((found for item in items if (found := _text_in(item)) is not None), None)
