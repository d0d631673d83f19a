"""The constructor keywords of a loss: numbers, truth values, and words of an `enum(…)`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from specgen.check.attributes import LOSS_ATTRIBUTES
from specgen.check.loss_model import LossParam
from specgen.check.names import Names, refused
from specgen.check.params import check_range, refused_text
from specgen.check.transform_params import interval_of
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import schema as rules
from specgen.expr import ANYTHING, Binding, Symbol, Type
from specgen.literals import literal
from specgen.schema.fields import Param, ParamField
from specgen.schema.load import SchemaFile

_ENUM = re.compile(r"enum\(\s*([A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)*)\s*\)\Z")
_DTYPES = {"float": "float32", "int": "int64", "bool": "bool"}


def check_loss_params(
    file: SchemaFile, path: tuple[str, ...], params: Mapping[str, ParamField], names: Names, sink: Sink
) -> tuple[tuple[LossParam, ...], dict[str, Binding]]:
    """Check the `params:` of a loss.

    Returns:
        The constructor keywords, and what expressions see: the parameters and the words of their enums.
    """
    checked: list[LossParam] = []
    scope: dict[str, Binding] = {}
    for name, given in params.items():
        here = (*path, "params", name)
        if name in LOSS_ATTRIBUTES:
            sink.add(refused(name, "every loss has it", "parameter", file.key_span(*here)))
            continue
        if not names.claim(name, "parameter", file.key_span(*here)):
            continue
        param = given if isinstance(given, Param) else Param(default=given)
        made = _check(file, here, name, param, sink)
        if made is None:
            continue
        checked.append(made)
        symbol = Symbol(".".join(here), name, made.type, made.interval, span=file.key_span(*here))
        scope[name] = Binding(name, made.type, made.interval, what="parameter", symbol=symbol)
        for word in made.choices:
            scope.setdefault(
                word, Binding(literal(word), Type("str", (), "lit"), ANYTHING, static=word, what="word")
            )
    return tuple(checked), scope


def _check(file: SchemaFile, here: tuple[str, ...], name: str, param: Param, sink: Sink) -> LossParam | None:
    if param.per_env or param.optional or param.draw is not None:
        what = "per_env: true" if param.per_env else "optional: true" if param.optional else "draw"
        sink.add(rules.NOT_AVAILABLE.at(file.span(*here), f"`{what}` is not available yet for a loss"))
        return None
    if param.type is not None and param.type.lstrip().startswith("enum"):
        return _check_enum(file, here, name, param, sink)
    if "(" not in str(param.default) and refused_text(file, here, param, sink):
        return None
    kind = param.type or _kind_of(param.default)
    if kind not in _DTYPES:
        sink.add(
            rules.WRONG_TYPE.at(
                file.span(*here, "type"),
                f"`{kind}` is no type of a parameter",
                help=f"the types are {', '.join(_DTYPES)} and enum(a, b)",
            )
        )
        return None
    if isinstance(param.default, str) and "(" in param.default:
        sink.add(
            rules.NOT_AVAILABLE.at(
                file.span(*here, "default"),
                f"a default that is computed (`{param.default}`) is not available yet",
                help="give a number, or leave the parameter to the caller",
            )
        )
        return None
    if not _fits(kind, param.default):
        sink.add(
            rules.WRONG_TYPE.at(
                file.span(*here, "default"),
                f"the default of `{name}` should be of type {kind}, got {param.default!r}",
            )
        )
        return None
    check_range(name, param, param.default, file.span(*here, "default"), sink)
    default = float(param.default) if kind == "float" else param.default
    bounds = ((">=", param.min), ("<=", param.max), (">", param.above), ("<", param.below))
    limits = tuple((sign, bound) for sign, bound in bounds if bound is not None)
    interval = interval_of(param, "bool" if kind == "bool" else "float")
    return LossParam(name, kind, default, Type(_DTYPES[kind], (), "ctor"), interval, (), limits, param.doc)


def _check_enum(
    file: SchemaFile, here: tuple[str, ...], name: str, param: Param, sink: Sink
) -> LossParam | None:
    found = _ENUM.match((param.type or "").strip())
    if found is None:
        message = f"`{param.type}` is no list of words"
        sink.add(rules.WRONG_TYPE.at(file.span(*here, "type"), message, help="write enum(l1, l2)"))
        return None
    words = tuple(word.strip() for word in found.group(1).split(","))
    if param.default not in words:
        sink.add(
            rules.PARAM_OUT_OF_RANGE.at(
                file.span(*here, "default"),
                f"the default of `{name}` is one of {', '.join(words)}, got {param.default!r}",
                help=suggestion(str(param.default), words),
            )
        )
        return None
    annotation = f"Literal[{', '.join(map(literal, words))}]"
    return LossParam(
        name, annotation, str(param.default), Type("str", (), "ctor"), ANYTHING, words, (), param.doc
    )


def _kind_of(default: object) -> str:
    if isinstance(default, bool):
        return "bool"
    return (
        "int"
        if isinstance(default, int)
        else "float"
        if isinstance(default, float)
        else type(default).__name__
    )


def _fits(kind: str, default: object) -> bool:
    if isinstance(default, bool):
        return kind == "bool"
    return isinstance(default, int) if kind in ("int", "bool") else isinstance(default, (int, float))
