"""The functions of a file as pure functions of its module, for generated code and for users."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.model import Parameter
from specgen.check.programs.body import Body
from specgen.check.programs.function import function_program
from specgen.check.shared_functions import CheckedSharedFunction
from specgen.code import Code, value_code
from specgen.expr import Interval, Type
from specgen.literals import literal
from specgen.plan.docs import items_doc, wrapped
from specgen.plan.functions import plan_function
from specgen.plan.model import Argument, FunctionPlan
from specgen.plan.short_texts import shape_text
from specgen.program.program import Input
from specgen.program.torch_blocks import PYTHON_TYPES
from specgen.values import replace


def plan_shared_function(checked: CheckedSharedFunction) -> FunctionPlan:
    """Plan a function of a file: tensors first, then numbers by keyword."""
    function = checked.function
    path = f"functions.{function.name}"
    numbers = tuple(Input(number.symbol(path), "param") for number in checked.numbers)
    plan = plan_function(function_program(function, Body(path), numbers), "", {}).plan
    tensors = plan.args[: len(function.args)]
    return replace(plan, args=tensors, keyword_only=tuple(map(_keyword, checked.numbers)), doc=_doc(checked))


def _keyword(number: Parameter) -> Argument:
    default = None if number.required else value_code(number.default)
    return Argument(number.name, Code(PYTHON_TYPES[number.type.dtype]), default)


def _doc(checked: CheckedSharedFunction) -> tuple[str, ...]:
    function = checked.function
    args = [
        _item(name, kind, checked.docs.get(name, ""), checked.domains.get(name))
        for name, kind in function.args.items()
    ]
    args += map(_number_doc, checked.numbers)
    return (
        *wrapped(function.doc or f"Return `{function.name}` of the schema."),
        "",
        "Args:",
        *items_doc(args),
        "",
        "Returns:",
        *items_doc([f"{_type_text(function.function.result)}."]),
    )


def _item(name: str, kind: Type, doc: str, domain: Interval | None) -> str:
    return f"{name}: {_type_text(kind)}" + "".join(_ends(domain)) + (f": {doc}." if doc else ".")


def _ends(domain: Interval | None) -> Iterator[str]:
    if domain is not None:
        yield f" in [{domain.low:g}, {domain.high:g}]"


def _number_doc(number: Parameter) -> str:
    limits = ", ".join(f"{sign} {bound:g}" for sign, bound in number.range)
    default = "" if number.required else f"default {literal(number.default)}"
    said = ", ".join(filter(None, (default, limits)))
    text = f"{number.name}: {number.doc or PYTHON_TYPES[number.type.dtype]}"
    return f"{text} ({said})." if said else f"{text}."


def _type_text(kind: Type) -> str:
    return f"{kind.dtype} {shape_text('*batch', kind.dims)}"
