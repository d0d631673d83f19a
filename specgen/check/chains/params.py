"""The parameters of a chain: constructor keywords that arguments of its transforms name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from specgen.check.lints.declared import warn_unread
from specgen.check.model import CheckedEnv, Parameter
from specgen.check.names import Names, reserved_in_env
from specgen.check.param_values import COMPARISONS
from specgen.check.params import OF_OTHERS, ParamRules, check_params
from specgen.check.refused import lost_names
from specgen.check.transforms.model import CheckedTransform
from specgen.diagnostics import Diagnostic, Note, Sink, suggestion
from specgen.diagnostics.rules import schema as rules
from specgen.expr import Interval
from specgen.schema.chain import Chain
from specgen.schema.load import SchemaFile, find, to_data
from specgen.schema.other_names import meant_fields
from specgen.source import Mapping as MappingNode
from specgen.source import Node, Scalar
from specgen.source.resolve import NONE
from specgen.values import dataclass, replace

OF_CHAINS = ParamRules(
    "a chain",
    frozenset({"batch_size", "device", "check_domains", "gym_kwargs"}),
    "every environment has this keyword",
    ("float", "int", "bool"),
    {
        "optional": "leave it out, and give a default",
        "static": "what shapes types is written at the transform, as a number",
        "per_env": "a chain has one number for all environments",
        "draw": None,
        **OF_OTHERS,
    },
    finite=True,
)


@dataclass(frozen=True)
class ChainParams:
    """What an argument of a transform may name.

    Attributes:
        checked: the parameters of the chain, by name.
        refused: the names of those with a mistake, which is reported where they are declared.
        of_env: the names of those of its environment, which arguments can't name.
        env: what the environment is called.
    """

    checked: Mapping[str, Parameter]
    refused: frozenset[str]
    of_env: frozenset[str]
    env: str


_KINDS = {"int": "a whole number", "float": "a number", "bool": "a truth value"}
_LOWS, _HIGHS = (">=", ">"), ("<=", "<")


def chain_params(
    file: SchemaFile,
    path: tuple[str, ...],
    chain: Chain,
    env: CheckedEnv,
    transforms: Mapping[str, CheckedTransform],
    sink: Sink,
) -> ChainParams:
    """The parameters of the chain at `path`, each in the ranges of all arguments that name it.

    Args:
        file: where it is declared.
        path: the chain.
        chain: the declaration.
        env: its environment, whose parameters are keywords, too.
        transforms: those in sight.
        sink: takes every mistake.
    """
    if chain.params and env.chat is not None:
        message = "parameters of a chain over conversations are not available yet"
        help = "write the numbers at the transforms"
        sink.add(rules.NOT_AVAILABLE.at(file.key_span(*path, "params"), message, help=help))
        return ChainParams({}, frozenset(chain.params), frozenset(), env.name)
    of_env = frozenset(one.name for one in env.params)
    taken = reserved_in_env(path[-1], ())
    taken |= dict.fromkeys(of_env, f"it is a parameter of {env.name}")
    kwargs = () if env.gymnasium is None else env.gymnasium.kwargs
    taken |= dict.fromkeys(kwargs, "`gymnasium.make` has it as a keyword")
    checked, _ = check_params(file, path, chain.params, OF_CHAINS, Names(sink, taken), sink)
    found = {one.name: one for one in checked}
    named = _named_in_unknown(file, path, chain, transforms)
    for transform, param, node, given in _arguments(file, path, chain, transforms):
        own = named_param(node, found)
        if own is None:
            named |= meant_fields([_text_of(node)], found)
            continue
        named.add(own.name)
        if not refusal(own, param, transform, node, given):
            bounds = tuple(_bounds(param, transform, given))
            found[own.name] = _within(own, param, transform, bounds, sink)
    for name, one in found.items():
        if name not in named and one.span is not None:
            help = f"name it as an argument of a transform, `{{StepCounter: {{max_steps: {name}}}}}`, or leave it out"
            warn_unread(one.span, "parameter", name, sink, help)
    return ChainParams(found, lost_names(file, path) | (chain.params.keys() - found), of_env, env.name)


def named_param(node: Node, params: Mapping[str, Parameter]) -> Parameter | None:
    """The parameter of a chain that an argument of a transform is; None where it is a value."""
    return params.get(_text_of(node))


def names_a_refused_one(node: Node, params: ChainParams) -> bool:
    """Whether an argument names a parameter of the chain whose mistake is reported where it is declared."""
    return _text_of(node) in params.refused


def _text_of(node: Node) -> str:
    """The word that an argument is; empty where it is a number or a list."""
    return node.text if isinstance(node, Scalar) and isinstance(node.value, str) else ""


def undeclared(
    node: Node,
    param: Parameter,
    transform: CheckedTransform,
    params: ChainParams,
    given: Mapping[str, Node],
) -> Diagnostic | None:
    """What to say of an argument that names a parameter which the chain has not; None of any other."""
    name = _text_of(node)
    if (
        not name.isidentifier()
        or name.lower() in ("inf", "nan")
        or _fixed(param, transform, given) is not None
    ):
        return None
    message = f"the chain has no parameter `{name}` for `{param.name}` of `{transform.name}`"
    help = suggestion(name, params.checked)
    if name in params.of_env:
        message += f": it is one of {params.env}, which transforms don't read"
        help = f"write a number, or declare one of another name in the chain: `params: {{chain_{name}: …}}`"
    elif help is None and name == NONE.lower():
        help = f"write a number, or leave `{param.name}` out if it has none"
    elif help is None:
        help = f"write a number, or declare it in the chain: `params: {{{name}: …}}`"
    return rules.UNKNOWN_FIELD.at(node.span, message, help=help)


def refusal(
    own: Parameter, param: Parameter, transform: CheckedTransform, node: Node, given: Mapping[str, Node]
) -> Diagnostic | None:
    """Why the parameter `own` of a chain can't be the parameter `param` of a transform; None where it can.

    Args:
        own: that of the chain.
        param: that of the transform.
        transform: the transform.
        node: the argument.
        given: all arguments of the transform, by name.
    """
    what = f"`{param.name}` of `{transform.name}`"
    why = _fixed(param, transform, given)
    if why is not None:
        help = "write its value here"
        return rules.WRONG_TYPE.at(node.span, f"{what} can't be a parameter of the chain: {why}", help=help)
    kind = "float" if param.kind == "tensor" else param.kind
    if own.kind == kind:
        return None
    notes = [Note("declared here", own.span)] if own.span is not None else []
    message = f"{what} should be {_KINDS[kind]}, and `{own.name}` is {_KINDS[own.kind]}"
    return rules.WRONG_TYPE.at(
        node.span, message, notes=notes, help=f"declare it with `type: {kind}`, or one of that type beside it"
    )


def _fixed(param: Parameter, transform: CheckedTransform, given: Mapping[str, Node]) -> str | None:
    """Why an argument has to be known when a chain is checked; None where it need not be."""
    if param.kind not in ("int", "float", "bool", "tensor"):
        return "it is no number"
    if param.static:
        return "shapes and keys follow from it"
    if param.name == transform.derive_done:
        return "whether episodes end follows from it"
    if transform.python is not None and param.per_env:
        return "each environment has a number of its own"
    if transform.buffers and param.kind == "tensor":
        return "the transform keeps it beside its statistics"
    for buffer in transform.buffers:
        if buffer.init == param.name or (buffer.like is not None and param.name in buffer.like.reads):
            return f"what is known of `{buffer.name}` at first follows from it"
    for _, other in _compared(param, transform):
        if (node := given.get(other.name)) is not None and isinstance(to_data(node), str):
            return f"it is compared with `{other.name}`, which is one, too"
    return None


def _compared(param: Parameter, transform: CheckedTransform) -> Iterator[tuple[str, Parameter]]:
    """The parameters of a transform that one of them is compared with, and what is to hold."""
    for one in transform.params:
        if one.name == param.at_least:
            yield ">=", one
        elif one.at_least == param.name:
            yield "<=", one


def is_free(param: Parameter, transform: CheckedTransform, given: Mapping[str, Node]) -> bool:
    """Whether the range of a parameter does not hold here, as the truth value says that it names with `unless`."""
    unless = next((one for one in transform.params if one.name == param.unless), None)
    if unless is None:
        return False
    node = given.get(unless.name)
    return bool(unless.default if node is None else to_data(node) is True)


def _bounds(
    param: Parameter, transform: CheckedTransform, given: Mapping[str, Node]
) -> Iterator[tuple[str, float]]:
    """What is to hold of an argument: its range, and the numbers that it is compared with."""
    if not is_free(param, transform, given):
        yield from param.range
    for sign, other in _compared(param, transform):
        node = given.get(other.name)
        bound = other.default if node is None else to_data(node)
        if isinstance(bound, int | float) and math.isfinite(bound):
            yield sign, bound


def _arguments(
    file: SchemaFile, path: tuple[str, ...], chain: Chain, transforms: Mapping[str, CheckedTransform]
) -> Iterator[tuple[CheckedTransform, Parameter, Node, dict[str, Node]]]:
    """The arguments of transforms that are parameters of these, in order, each with all those of its transform."""
    for index, entry in enumerate(chain.transforms):
        for kind in () if isinstance(entry, str) else entry:
            node = find(file.root, (*path, "transforms", index, kind))
            transform = transforms.get(kind)
            if transform is not None and isinstance(node, MappingNode):
                given = {key.text: value for key, value in node.entries}
                for param in transform.params:
                    if param.name in given:
                        yield transform, param, given[param.name], given


def _named_in_unknown(
    file: SchemaFile, path: tuple[str, ...], chain: Chain, transforms: Mapping[str, CheckedTransform]
) -> set[str]:
    """The words among arguments of transforms that are not known, or have a mistake: any may name a parameter."""
    nodes = (
        find(file.root, (*path, "transforms", index, kind))
        for index, entry in enumerate(chain.transforms)
        for kind in (() if isinstance(entry, str) else entry)
        if kind not in transforms
    )
    return {_text_of(value) for node in nodes if isinstance(node, MappingNode) for _, value in node.entries}


def _within(
    own: Parameter,
    param: Parameter,
    transform: CheckedTransform,
    bounds: tuple[tuple[str, float], ...],
    sink: Sink,
) -> Parameter:
    """A parameter of a chain, in the bounds of an argument that it is, too; a default outside them is reported."""
    for sign, bound in bounds:
        if not COMPARISONS[sign](own.default, bound):
            message = f"the default of `{own.name}` must be {sign} {bound:g}, as `{param.name}` of `{transform.name}`, got {own.default}"
            assert own.span is not None
            sink.add(rules.PARAM_OUT_OF_RANGE.at(own.span, message))
            return own
    both = (*own.range, *bounds)
    low = max((one for one in both if one[0] in _LOWS), key=lambda one: (one[1], one[0] == ">"), default=None)
    high = min(
        (one for one in both if one[0] in _HIGHS), key=lambda one: (one[1], one[0] != "<"), default=None
    )
    range_ = tuple(one for one in (low, high) if one is not None)
    interval = own.interval
    if low is not None and own.kind != "bool":
        interval = Interval(max(interval.low, low[1]), interval.high)
    if high is not None and own.kind != "bool":
        interval = Interval(interval.low, min(interval.high, high[1]))
    return replace(own, range=range_, interval=interval, doc=own.doc or param.doc)
