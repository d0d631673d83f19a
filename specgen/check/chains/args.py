"""The arguments of a transform in a chain: parameters, keys and names, checked against its declaration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any

from specgen.check.chains.params import (
    ChainParams,
    is_free,
    named_param,
    names_a_refused_one,
    refusal,
    undeclared,
)
from specgen.check.names import key_refusal, shortened
from specgen.check.param_arguments import check_argument
from specgen.check.transforms.entries import Output
from specgen.check.transforms.model import CheckedTransform
from specgen.diagnostics import Sink, Span, suggestion
from specgen.diagnostics.rules import schema as rules
from specgen.expr.symbols import Key
from specgen.schema.load import SchemaFile, find
from specgen.schema.other_names import field_otherwise_called, meant_fields
from specgen.source import Mapping as MappingNode
from specgen.source import Node, Scalar, Sequence
from specgen.values import dataclass

_LISTS = ("in_keys", "out_keys", "in_keys_inv", "out_keys_inv")


@dataclass
class Arguments:
    """What a chain gives to a transform.

    Attributes:
        params: the value of every parameter; the chain's own where one is named.
        lists: keys chosen by the user, by the argument that lists them: `in_keys`, `out_keys`, `in_keys_inv`, …
        names: chosen names of outputs and roles, by their keyword.
        places: chosen keys, by their keyword.
        networks: the constructor keyword of each network.
        given: the keywords that are written out.
        span: where an argument stands; the transform itself when it is not given.
    """

    span: Callable[..., Span]
    params: dict[str, Any] = field(default_factory=dict)
    lists: dict[str, list[Key]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    places: dict[str, Key] = field(default_factory=dict)
    networks: dict[str, str] = field(default_factory=dict)
    given: tuple[str, ...] = ()

    @property
    def values(self) -> dict[str, Any]:
        """What is given, by keyword, in the order written."""
        known: dict[str, Any] = {**self.params, **self.lists, **self.places, **self.names, **self.networks}
        return {name: known[name] for name in self.given}

    def asked(self, outputs: Iterable[Output]) -> dict[str, Key]:
        """The keys of those of some outputs that are there only where users give one."""
        return {
            output.name: self.places[output.keyword]
            for output in outputs
            if output.left_out and output.keyword in self.places
        }


def read_arguments(
    file: SchemaFile,
    path: tuple[str | int, ...],
    transform: CheckedTransform,
    params_of_chain: ChainParams,
    sink: Sink,
) -> Arguments | None:
    """Read the arguments at `path`, some of which may be parameters of the chain.

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
        {key.text: value for key, value in node.entries} if isinstance(node, MappingNode) else {}
    )
    keywords = {o.keyword for o in transform.outputs if o.keyword is not None and not o.whole}
    keywords |= {r.keyword for r in transform.roles if r.keyword is not None and r.form == "key" and r.beside}
    places = {o.keyword for o in transform.outputs if o.keyword is not None and o.whole}
    places |= {
        r.keyword for r in transform.roles if r.keyword is not None and r.form == "key" and not r.beside
    }
    recorded = any(role.recorded for role in transform.roles)
    lists = [
        name
        for name in transform.signature
        if name in _LISTS and not (recorded and not name.endswith("_inv"))
    ]
    lists += [role.keyword for role in transform.roles if role.form == "all" and role.keyword is not None]
    lists += [role.keyword for role in transform.roles if role.form == "each" and role.keyword is not None]
    lists += ["in_keys_inv" if role.inverse else "in_keys" for role in transform.roles if role.varargs]
    params = {param.name: param for param in transform.params}
    arguments.networks = {network.name: network.name for network in transform.networks}
    known = [*params, *keywords, *places, *lists, *arguments.networks]
    arguments.given = tuple(given)
    for name, value in given.items():
        if name not in known:
            mine.add(
                rules.UNKNOWN_FIELD.at(
                    file.key_span(*path, name),
                    f"`{transform.name}` has no argument `{name}`",
                    help=field_otherwise_called(name, known)
                    or suggestion(name, known)
                    or f"its arguments are {', '.join(sorted(known))}",
                )
            )
        elif name in lists:
            arguments.lists[name] = _keys(value, name, mine)
        elif name in places:
            arguments.places[name] = _place(value, name, mine)
        elif name in keywords:
            arguments.names[name] = _name(value, name, mine)
        elif name in arguments.networks:
            arguments.networks[name] = _name(value, name, mine)
    sound = True
    misspelt = meant_fields(given, known)
    for param in transform.params:
        found = given.get(param.name)
        if found is not None and (own := named_param(found, params_of_chain.checked)) is not None:
            arguments.params[param.name] = own
            if reason := refusal(own, param, transform, found, given):
                mine.add(reason)
        elif found is not None and names_a_refused_one(found, params_of_chain):
            sound = False
        elif found is not None and (missing := undeclared(found, param, transform, params_of_chain, given)):
            mine.add(missing)
        elif found is not None:
            free = is_free(param, transform, given)
            arguments.params[param.name] = check_argument(param, found, transform.name, mine, free=free)
        elif param.required and param.name in misspelt:
            continue  # which is reported
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
    if sound and not mine.has_errors:
        _compare(transform, arguments, given, here, mine)
    sink.extend(mine.items)
    return arguments if sound and not mine.has_errors else None


def _compare(
    transform: CheckedTransform, arguments: Arguments, given: dict[str, Node], here: Span, sink: Sink
) -> None:
    """Report values below those that they are compared with, and those given without what goes with them."""
    for param in transform.params:
        if (
            param.with_ is not None
            and arguments.params[param.name] is not None
            and arguments.params[param.with_] is None
        ):
            message = f"`{param.name}` of `{transform.name}` is given together with `{param.with_}`, which is missing"
            sink.add(rules.MISSING_FIELD.at(given[param.name].span, message))
        if param.at_least is None:
            continue
        value, least = arguments.params[param.name], arguments.params[param.at_least]
        if not isinstance(value, int | float) or not isinstance(least, int | float):
            continue  # missing, or a parameter of the chain, which is within the other
        if value < least:
            node = given.get(param.name)
            message = f"`{param.name}` of `{transform.name}` must be >= `{param.at_least}`, {least:g}, got {value:g}"
            sink.add(rules.PARAM_OUT_OF_RANGE.at(here if node is None else node.span, message))


def _keys(node: Node, name: str, sink: Sink) -> list[Key]:
    if not isinstance(node, Sequence):
        sink.add(
            rules.WRONG_TYPE.at(
                node.span,
                f"`{name}` should be a list of keys",
                help=f"write `{name}: [{node.text if isinstance(node, Scalar) else 'observation'}]`",
            )
        )
        return []
    keys = []
    for item in node.items:
        if not isinstance(item, Scalar):
            parts = (
                [part.text for part in item.items if isinstance(part, Scalar)]
                if isinstance(item, Sequence)
                else []
            )
            sink.add(
                rules.WRONG_TYPE.at(
                    item.span,
                    "a key is a name, or names joined by dots",
                    help=f"write `{'.'.join(parts)}`" if parts else None,
                )
            )
            continue
        key = tuple(item.text.split("."))
        for part in key:
            if reason := key_refusal(part, foreign=True):
                sink.add(rules.NAME_REFUSED.at(item.span, f"`{shortened(part)}` can't be a key: {reason}"))
                break
        else:
            keys.append(key)
    return keys


def _place(node: Node, name: str, sink: Sink) -> Key:
    if not isinstance(node, Scalar):
        sink.add(rules.WRONG_TYPE.at(node.span, f"`{name}` should be a key: a name, or names joined by dots"))
        return ()
    key = tuple(node.text.split("."))
    for part in key:
        if reason := key_refusal(part, foreign=True):
            sink.add(rules.NAME_REFUSED.at(node.span, f"`{shortened(part)}` can't be a key: {reason}"))
            break
    return key


def _name(node: Node, name: str, sink: Sink) -> str:
    if not isinstance(node, Scalar):
        sink.add(rules.WRONG_TYPE.at(node.span, f"`{name}` should be a name"))
        return ""
    if reason := key_refusal(node.text, foreign=True):
        sink.add(rules.NAME_REFUSED.at(node.span, f"`{shortened(node.text)}` can't be a name: {reason}"))
    return node.text
