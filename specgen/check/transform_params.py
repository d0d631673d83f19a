"""The constructor parameters of a transform: numbers, truth values and tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping

from specgen.check.attributes import TRANSFORM_ATTRIBUTES
from specgen.check.names import Names, refused
from specgen.check.params import check_range, refused_text
from specgen.check.transform_model import REQUIRED, ParamKind, TransformParam
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import schema as rules
from specgen.expr import Binding, Interval, Symbol, Type, full
from specgen.schema.fields import Param, ParamField
from specgen.schema.load import SchemaFile

_DTYPES = {"float": "float32", "int": "int64", "bool": "bool"}
_TENSOR = "float[...]"


def check_transform_params(
    file: SchemaFile, path: tuple[str, ...], params: Mapping[str, ParamField], names: Names, sink: Sink
) -> tuple[tuple[TransformParam, ...], dict[str, Binding]]:
    """Check the `params:` of a transform.

    A parameter without a default has to be given, unless it is `optional`: then its default is ``None``.

    Returns:
        The constructor keywords, and what expressions see under their names.
    """
    checked: list[TransformParam] = []
    scope: dict[str, Binding] = {}
    for name, given in params.items():
        here = (*path, "params", name)
        if name in TRANSFORM_ATTRIBUTES:
            sink.add(refused(name, "every transform has it", "parameter", file.key_span(*here)))
            continue
        if not names.claim(name, "parameter", file.key_span(*here)):
            continue
        param = given if isinstance(given, Param) else Param(default=given)
        per_env = "per_env" if param.per_env else "draw" if param.draw is not None else None
        if per_env is None and not param.static and refused_text(file, here, param, sink):
            continue
        if per_env or param.static or isinstance(param.default, (str, list)):
            what = per_env or ("static" if param.static else "default")
            sink.add(
                rules.NOT_AVAILABLE.at(
                    file.span(*here), f"`{what}: {getattr(param, what)}` is not available yet for a transform"
                )
            )
            continue
        kind = _kind(param)
        if kind is None:
            sink.add(
                rules.WRONG_TYPE.at(
                    file.span(*here, "type"),
                    f"`{param.type}` is no type of a parameter",
                    help=f"the types are {', '.join(_DTYPES)} and {_TENSOR}",
                )
            )
            continue
        if not _fits(kind, param.default):
            sink.add(
                rules.WRONG_TYPE.at(
                    file.span(*here, "default"),
                    f"the default of `{name}` should be of type {kind}, got {param.default!r}",
                )
            )
            continue
        if isinstance(param.default, (int, float)):
            check_range(name, param, param.default, file.span(*here, "default"), sink)
        interval = interval_of(param, kind)
        checked.append(
            TransformParam(
                name=name,
                kind=kind,
                default=REQUIRED if param.default is None and not param.optional else param.default,
                optional=param.optional,
                range=_range_of(param),
                interval=interval,
                doc=param.doc,
            )
        )
        # A tensor is converted to the dtype of what it meets before the function sees it.
        type_ = Type("float", None, "const") if kind == "tensor" else Type(_DTYPES[kind], (), "ctor")
        symbol = Symbol(".".join(here), name, type_, interval, span=file.key_span(*here))
        scope[name] = Binding(name, type_, interval, what="parameter", symbol=symbol)
    return tuple(checked), scope


def interval_of(param: Param, kind: ParamKind) -> Interval:
    """The values that a parameter admits."""
    if kind == "bool":
        return Interval(0, 1)
    low = max(bound for bound in (param.min, param.above, -math.inf) if bound is not None)
    high = min(bound for bound in (param.max, param.below, math.inf) if bound is not None)
    return full("float32") if (low, high) == (-math.inf, math.inf) else Interval(low, high)


def _kind(param: Param) -> ParamKind | None:
    if param.type is None:
        default = param.default
        return "bool" if isinstance(default, bool) else "int" if isinstance(default, int) else "float"
    if param.type.replace(" ", "") == _TENSOR:
        return "tensor"
    kinds: dict[str, ParamKind] = {"float": "float", "int": "int", "bool": "bool"}
    return kinds.get(param.type)


def _fits(kind: ParamKind, default: object) -> bool:
    if default is None:
        return True
    if isinstance(default, bool):
        return kind == "bool"
    return isinstance(default, int) if kind in ("int", "bool") else isinstance(default, (int, float))


def _range_of(param: Param) -> tuple[tuple[str, float], ...]:
    bounds = ((">=", param.min), ("<=", param.max), (">", param.above), ("<", param.below))
    return tuple((sign, bound) for sign, bound in bounds if bound is not None)
