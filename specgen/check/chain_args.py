"""The arguments of a transform in a chain: parameters, keys and names, checked against its declaration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from specgen.check.names import key_refusal, shortened
from specgen.check.params import check_argument
from specgen.check.transform_model import CheckedTransform
from specgen.diagnostics import Sink, Span, suggestion
from specgen.diagnostics.rules import schema as rules
from specgen.expr.symbols import Key
from specgen.schema.load import SchemaFile, find
from specgen.source import Mapping, Node, Scalar, Sequence


@dataclass
class Arguments:
    """What a chain gives to a transform.

    Attributes:
        params: the value of every parameter.
        in_keys, out_keys, in_keys_inv: keys chosen by the user.
        names: chosen names of outputs, by their keyword.
        span: where an argument stands; the transform itself when it is not given.
    """

    span: Callable[..., Span]
    params: dict[str, Any] = field(default_factory=dict)
    in_keys: list[Key] | None = None
    out_keys: list[Key] | None = None
    in_keys_inv: list[Key] | None = None
    names: dict[str, str] = field(default_factory=dict)


def read_arguments(
    file: SchemaFile, path: tuple[str | int, ...], transform: CheckedTransform, sink: Sink
) -> Arguments | None:
    """Read the arguments at `path`.

    Returns:
        The arguments, or ``None`` when any of them is wrong.
    """
    node = find(file.root, path)
    here = file.key_span(*path)

    def span(*inner: str | int) -> Span:
        found = find(file.root, (*path, *inner)) if inner else None
        return found.span if found is not None else here

    arguments = Arguments(span)
    mine = Sink()
    given: dict[str, Node] = (
        {key.text: value for key, value in node.entries} if isinstance(node, Mapping) else {}
    )
    keywords = {o.keyword for o in transform.outputs if o.keyword is not None}
    lists = ["in_keys", "out_keys"] if any(not role.structural for role in transform.forward) else []
    lists += ["in_keys_inv"] if transform.backward else []
    params = {param.name: param for param in transform.params}
    known = [*params, *keywords, *lists]
    for name, value in given.items():
        if name not in known:
            mine.add(
                rules.UNKNOWN_FIELD.at(
                    file.key_span(*path, name),
                    f"`{transform.name}` has no argument `{name}`",
                    help=suggestion(name, known) or f"its arguments are {', '.join(sorted(known))}",
                )
            )
        elif name in lists:
            setattr(arguments, name, _keys(value, name, mine))
        elif name in keywords:
            arguments.names[name] = _name(value, name, mine)
    for param in transform.params:
        found = given.get(param.name)
        if found is not None:
            arguments.params[param.name] = check_argument(param, found, transform.name, mine)
        elif param.required:
            mine.add(
                rules.MISSING_FIELD.at(
                    here,
                    f"`{transform.name}` needs `{param.name}`",
                    help=f"write `{transform.name}: {{{param.name}: …}}`",
                )
            )
        else:
            arguments.params[param.name] = param.default
    sink.extend(mine.items)
    return None if mine.has_errors else arguments


def _keys(node: Node, name: str, sink: Sink) -> list[Key]:
    if not isinstance(node, Sequence):
        sink.add(
            rules.WRONG_TYPE.at(
                node.span, f"`{name}` should be a list of keys", help=f"write `{name}: [observation]`"
            )
        )
        return []
    keys = []
    for item in node.items:
        if not isinstance(item, Scalar):
            sink.add(rules.WRONG_TYPE.at(item.span, "a key is a name, or names joined by dots"))
            continue
        key = tuple(item.text.split("."))
        for part in key:
            if reason := key_refusal(part, foreign=True):
                sink.add(rules.NAME_REFUSED.at(item.span, f"`{shortened(part)}` can't be a key: {reason}"))
                break
        else:
            keys.append(key)
    return keys


def _name(node: Node, name: str, sink: Sink) -> str:
    if not isinstance(node, Scalar):
        sink.add(rules.WRONG_TYPE.at(node.span, f"`{name}` should be a name"))
        return ""
    if reason := key_refusal(node.text, foreign=True):
        sink.add(rules.NAME_REFUSED.at(node.span, f"`{shortened(node.text)}` can't be a name: {reason}"))
    return node.text
