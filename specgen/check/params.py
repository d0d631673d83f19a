"""Constructor parameters of every kind of declaration: how they are declared, and what is given for them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from specgen.check.attributes import LOSS_ATTRIBUTES, TRANSFORM_ATTRIBUTES
from specgen.check.model import PARAM_DTYPES, REQUIRED, Parameter, ParamKind
from specgen.check.names import Names, refused
from specgen.check.param_values import (
    check_range,
    empty_range,
    fits_others,
    misfit,
    param_interval,
    range_of,
    refused_text,
)
from specgen.diagnostics import Sink, Span, suggestion
from specgen.diagnostics.rules import schema as rules
from specgen.expr import ANYTHING, Binding, Interval, Type, full
from specgen.expr.dtypes import holds
from specgen.schema.fields import Param, ParamField
from specgen.schema.load import SchemaFile, describe
from specgen.source import Mapping as MappingNode
from specgen.values import dataclass

_TENSOR: Final = "float[...]"
_ENUM: Final = "enum(a, b)"
_INTS: Final = "list[int]"
_INT_OR_INTS: Final = "int | list[int]"
LISTS: Final[Mapping[str, ParamKind]] = {_INTS: "ints", "int|list[int]": "int_or_ints"}
_WORDS = re.compile(
    r"enum(?:\s+(?P<name>[A-Za-z_]\w*))?\s*\(\s*(?P<words>[A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)*)\s*\)\Z"
)


@dataclass(frozen=True)
class ParamRules:
    """What the parameters of one kind of declaration can be.

    Attributes:
        owner: the kind of declaration, in words.
        taken: names that they can't have, and `reason` why.
        types: the types that may be declared, as they are written.
        later: fields that are not available yet, with what to do instead.
        required: whether one without a default has to be given.
        finite: whether the default is a finite number.
        tensor: what to write where a tensor is meant, if that is declared in another way.
        entries: whether those that differ between environments are kept as entries.
        shapes: whether lists of numbers shape types, so that they have to be static.
        enum_classes: whether the generated class can have enumerations of an enum's words.
    """

    owner: str
    taken: frozenset[str]
    reason: str
    types: tuple[str, ...]
    later: Mapping[str, str | None]
    required: bool = False
    finite: bool = False
    tensor: str | None = None
    entries: bool = False
    shapes: bool = True
    enum_classes: bool = False


OF_OTHERS: Final = dict.fromkeys(("unless", "at_least", "with_"))
"""Fields that say how a parameter goes with another."""

OF_ENVS = ParamRules(
    "an environment",
    frozenset({"batch_size", "device"}),
    "every environment has this keyword",
    tuple(PARAM_DTYPES),
    {"optional": "leave it out, and give a default that is a number", **OF_OTHERS},
    finite=True,
    tensor="write `per_env: true` beside it, for a tensor; a fixed table is declared under `consts`",
    entries=True,
)
OF_TRANSFORMS = ParamRules(
    "a transform",
    TRANSFORM_ATTRIBUTES,
    "every transform has it",
    ("float", "int", "bool", _TENSOR, _ENUM, _INTS, _INT_OR_INTS),
    {"draw": None},
    required=True,
    enum_classes=True,
)
OF_LOSSES = ParamRules(
    "a loss",
    LOSS_ATTRIBUTES,
    "every loss has it",
    ("float", "int", "bool", _ENUM, _INTS),
    {"per_env": None, "draw": None, **OF_OTHERS},
    shapes=False,
)

OF_FUNCTIONS = ParamRules(
    "a function",
    frozenset(),
    "",
    ("float", "int", "bool"),
    {**dict.fromkeys(("optional", "static", "per_env", "draw")), **OF_OTHERS},
    required=True,
)


def check_params(
    file: SchemaFile,
    path: tuple[str, ...],
    params: Mapping[str, ParamField],
    allowed: ParamRules,
    names: Names,
    sink: Sink,
) -> tuple[tuple[Parameter, ...], dict[str, Binding]]:
    """Check the `params:` of the declaration at `path`.

    Returns:
        The constructor keywords, and what expressions see under their names, words of enums included. Parameters of
        an environment that differ between instances are left to `check_per_env`; only their names are claimed.
    """
    checked: list[Parameter] = []
    scope: dict[str, Binding] = {}
    words: dict[str, Binding] = {}
    for name, given in params.items():
        here = (*path, "params", name)
        param = given if isinstance(given, Param) else Param(default=given)
        per_env = allowed.entries and (param.per_env or param.draw is not None)
        if name in allowed.taken:
            sink.add(refused(name, allowed.reason, "parameter", file.key_span(*here)))
            continue
        # what differs between environments is also a key of the tensordict: see `check_per_env`
        what = "parameter key" if per_env else "parameter"
        if not names.claim(name, what, file.key_span(*here)) or per_env:
            continue
        kind = _kind(file, here, param, allowed, sink)
        if kind is not None and not fits_others(file, here, param, params, sink):
            continue
        if kind is None or not _default_fits(file, here, param, kind, allowed, sink):
            continue
        if param.per_env and not _one_for_each_row(file, here, param, kind, sink):
            continue
        if not _enum_class_fits(file, here, param, allowed, names, sink):
            continue
        made = _parameter(name, kind, param, allowed, file.key_span(*here))
        checked.append(made)
        scope[name] = Binding(
            made.type,
            made.interval,
            what="parameter",
            symbol=made.symbol(".".join(path)),
            choices=made.choices,
            optional=made.optional,
        )
        for word in made.choices:
            words[word] = Binding(Type("str", (), "lit"), ANYTHING, static=word, what="word")
    return tuple(checked), words | scope


def _parameter(name: str, kind: ParamKind, param: Param, allowed: ParamRules, span: Span) -> Parameter:
    default = param.default
    if kind in ("float", "float64") and isinstance(default, int):
        default = float(default)
    missing = allowed.required and default is None and not param.optional
    interval = ANYTHING if kind == "enum" else param_interval(param, kind)
    if kind in LISTS.values() and default is not None:
        default = tuple(default) if isinstance(default, list) else default
    if not allowed.finite and interval == Interval(-math.inf, math.inf):
        interval = full("float32")  # infinity and NaN may be given, too
    return Parameter(
        name,
        kind,
        REQUIRED if missing else default,
        param.doc,
        range_of(param),
        param.unless,
        param.at_least,
        param.with_,
        interval,
        words_of(param),
        enum_class_of(param),
        optional=param.optional,
        static=param.static,
        per_env=param.per_env,
        span=span,
    )


def _enum_class_fits(
    file: SchemaFile, here: tuple[str, ...], param: Param, allowed: ParamRules, names: Names, sink: Sink
) -> bool:
    """Whether the generated class can have the enumeration of an enum's words; reported where it can't."""
    name, words = enum_class_of(param), words_of(param)
    if name is None:
        return True
    place = file.span(*here, "type")
    if not allowed.enum_classes:
        message = f"{allowed.owner} has no enumerations: `{param.type}` names one"
        sink.add(rules.WRONG_TYPE.at(place, message, help=f"write enum({', '.join(words)})"))
        return False
    if name in allowed.taken:
        sink.add(refused(name, allowed.reason, "enumeration", place))
        return False
    if len({word.upper() for word in words}) < len(words):
        message = f"the members of `{name}` are the words in capitals, and two of them are the same then"
        sink.add(rules.WRONG_TYPE.at(place, message))
        return False
    return names.claim(name, "enumeration", place)


def _one_for_each_row(
    file: SchemaFile, here: tuple[str, ...], param: Param, kind: ParamKind, sink: Sink
) -> bool:
    """Whether each row can have a value of its own; reported where it can't."""
    name = here[-1]
    wrong = "it may be missing" if param.optional else "it is known when the transform is made"
    if kind not in ("float", "int", "bool"):
        wrong = f"it is {param.type}"
    elif not (param.optional or param.static):
        return True
    message = f"`{name}` can't have a value for each environment: {wrong}"
    help = "`per_env` goes with a number or a truth value: type float, int or bool"
    sink.add(rules.PARAM_SOURCE.at(file.span(*here, "per_env"), message, help=help))
    return False


def _kind(
    file: SchemaFile, here: tuple[str, ...], param: Param, allowed: ParamRules, sink: Sink
) -> ParamKind | None:
    """The type of a parameter; None after reporting that there is none of that name, or not yet."""
    for field, help in allowed.later.items():
        if (value := getattr(param, field)) not in (False, None):
            shown = "true" if value is True else value
            message = f"`{field.rstrip('_')}: {shown}` is not available yet for {allowed.owner}"
            place = (*here, field) if help else here
            sink.add(rules.NOT_AVAILABLE.at(file.span(*place), message, help=help))
            return None
    if param.type is None:
        default = param.default
        if isinstance(default, bool) and "bool" not in allowed.types:
            message = (
                f"`{here[-1]}` is {str(default).lower()}, and the parameters of {allowed.owner} are numbers"
            )
            help = "write the truth value where it is meant"
            sink.add(rules.WRONG_TYPE.at(file.span(*here, "default"), message, help=help))
            return None
        return "bool" if isinstance(default, bool) else "int" if isinstance(default, int) else "float"
    kind = param.type.strip()
    if kind in PARAM_DTYPES and kind in allowed.types:
        return kind
    if kind.replace(" ", "") == _TENSOR and _TENSOR in allowed.types:
        return "tensor"
    if (listed := LISTS.get(kind.replace(" ", ""))) is not None and _INTS in allowed.types:
        return _static_list(file, here, param, listed, sink) if allowed.shapes else listed
    if kind.startswith("enum") and _ENUM in allowed.types:
        if words_of(param):
            return "enum"
        message = f"`{param.type}` is no list of words"
        sink.add(rules.WRONG_TYPE.at(file.span(*here, "type"), message, help="write enum(l1, l2)"))
        return None
    message = f"`{kind}` is no type of a parameter"
    help = f"did you mean '{_MEANT[kind]}'?" if _MEANT.get(kind) in allowed.types else None
    if " in " in kind:
        help = "the range goes into `min`, `max`, `above` and `below` beside it"
    elif "[" in kind and allowed.tensor is not None:
        message, help = f"{message} that is one value for all environments", allowed.tensor
    help = (
        help or suggestion(kind, allowed.types) or f"the types of parameters are {', '.join(allowed.types)}"
    )
    sink.add(rules.WRONG_TYPE.at(file.span(*here, "type"), message, help=help))
    return None


def _static_list(
    file: SchemaFile, here: tuple[str, ...], param: Param, kind: ParamKind, sink: Sink
) -> ParamKind | None:
    """The kind of a parameter that is a list: it shapes types, so it has to be static."""
    if param.static:
        return kind
    sink.add(
        rules.MISSING_FIELD.at(
            file.span(*here, "type"),
            f"`{here[-1]}` is a list, which is known when the transform is made: say `static: true`",
        )
    )
    return None


_MEANT = {
    "float32": "float",
    "number": "float",
    "double": "float64",
    "int32": "int",
    "int64": "int",
    "integer": "int",
    "boolean": "bool",
}


def words_of(param: Param) -> tuple[str, ...]:
    """The words of a type `enum(a, b)`."""
    found = _WORDS.match((param.type or "").strip())
    return tuple(word.strip() for word in found["words"].split(",")) if found is not None else ()


def enum_class_of(param: Param) -> str | None:
    """The name of a type `enum Name(a, b)`."""
    found = _WORDS.match((param.type or "").strip())
    return None if found is None else found["name"]


def _default_fits(
    file: SchemaFile,
    here: tuple[str, ...],
    param: Param,
    kind: ParamKind,
    allowed: ParamRules,
    sink: Sink,
) -> bool:
    """Whether the default is there, of the type, and some value is in the range; other defaults are reported."""
    name, default, place = here[-1], param.default, file.span(*here, "default")
    if kind == "enum" and default is None and (allowed.required or param.optional):
        return True
    if kind == "enum":
        words = words_of(param)
        if default not in words:
            message = f"the default of `{name}` is one of {', '.join(words)}, got {default!r}"
            help = suggestion(str(default), words)
            sink.add(rules.PARAM_OUT_OF_RANGE.at(place, message, help=help))
        return default in words
    if default is None:
        node = file.node(*here)
        if isinstance(node, MappingNode) and node.lost & {"default", "draw"}:
            return False  # it has one, which was refused itself
        if allowed.required or param.optional:
            return kind == "tensor" or not empty_range(
                file, here, param, PARAM_DTYPES.get(kind, "int64"), sink
            )
        message = f"parameter `{name}` needs a default"
        help = "write `default:` and a number or a truth value"
        help += ", or `draw:` and an expression" if "draw" not in allowed.later else ""
        sink.add(rules.MISSING_FIELD.at(file.key_span(*here), message, help=help))
        return False
    if kind in LISTS.values() and (kind == "ints" or isinstance(default, list)):
        return _list_fits(file, here, param, sink)
    if isinstance(default, (list, dict)):
        message = (
            f"the default of `{name}` should be a number or a truth value, got {describe(None, default)}"
        )
        help = allowed.tensor if isinstance(default, list) else None
        sink.add(rules.WRONG_TYPE.at(place, message, help=help))
        return False
    if refused_text(file, here, param, sink, drawn="draw" not in allowed.later):
        return False
    if not _fits(kind, default, allowed):
        message, help = misfit(file, here, kind, default)
        sink.add(rules.WRONG_TYPE.at(place, message, help=help))
        return False
    if empty_range(file, here, param, PARAM_DTYPES.get(kind, "float32"), sink):
        return False
    check_range(name, param, default, place, sink)
    return True


def _list_fits(file: SchemaFile, here: tuple[str, ...], param: Param, sink: Sink) -> bool:
    """Whether the default is a list of whole numbers in the range; reported otherwise."""
    default, place = param.default, file.span(*here, "default")
    numbers = default if isinstance(default, list) else [default]
    whole = all(isinstance(one, int) and not isinstance(one, bool) for one in numbers)
    if not isinstance(default, list) or not whole:
        message = (
            f"the default of `{here[-1]}` should be a list of whole numbers, got {describe(None, default)}"
        )
        sink.add(rules.WRONG_TYPE.at(place, message))
        return False
    for number in numbers:
        check_range(here[-1], param, number, place, sink)
    return True


def _fits(kind: ParamKind, default: object, allowed: ParamRules) -> bool:
    if isinstance(default, bool):
        return kind == "bool"
    if kind in ("int", "bool"):
        return kind == "int" and isinstance(default, int) and holds("int64", default)
    if kind == "int_or_ints":
        return isinstance(default, int) and holds("int64", default)
    return isinstance(default, (int, float)) and (not allowed.finite or math.isfinite(default))
