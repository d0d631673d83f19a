"""`domain`: what a spec that the constructor is given says of a role: `low(action)`, `high(action)`, `dim(action)`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Final

from specgen.check.losses.model import LossNetwork, LossRole
from specgen.check.losses.numbers import CheckedDomain
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import loss_domains as rules
from specgen.expr import Binding, Expr, Interval, SourceText, Symbol, Type, full, tree
from specgen.schema.load import SchemaFile
from specgen.schema.loss import Loss, LossKey
from specgen.values import dataclass, replace

_BOUNDS: Final = ("low", "high")
_KEYWORDS: Final = ("action_spec", "bounds")
"""The keywords of constructors that say what the values of a role are."""
_FUNCTIONS: Final = (*_BOUNDS, "dim")


@dataclass
class Domains:
    """Reads the functions of domains in the expressions of one loss.

    Attributes:
        file, path: where the loss is declared.
        sink: takes every mistake.
        found: the domains, by role.
        read: the functions and roles that expressions read.
        broken: the roles whose domain is declared wrongly; reads of it are not reported again.
    """

    file: SchemaFile
    path: tuple[str, ...]
    sink: Sink
    found: dict[str, CheckedDomain] = field(default_factory=dict)
    read: set[tuple[str, str]] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)

    def declare(self, loss: Loss, roles: Iterable[LossRole], networks: Iterable[LossNetwork]) -> None:
        """Take in the roles that have a domain."""
        policies = [one.name for one in networks if one.policy]
        own = {one.output: one.name for one in networks}
        for role in roles:
            given = loss.keys.get(role.name)
            if not isinstance(given, LossKey) or not given.domain:
                continue
            if not self._known(given.domain, role.name, policies, loss):
                self.broken.add(role.name)
                continue
            path = ".".join((*self.path, "domains", role.name))
            low = high = None
            if role.type is not None:
                bound = Type(role.type.dtype, role.type.dims, "const")
                low = Symbol(f"{path}.low", f"min_{role.name}", bound, full(bound.dtype))
                high = Symbol(f"{path}.high", f"max_{role.name}", bound, full(bound.dtype))
            size = Symbol(f"{path}.dim", f"dim_{role.name}", Type("int64", (), "ctor"), Interval(1, 2**31))
            keywords = tuple((index, word) for index, word in enumerate(given.domain) if word in _KEYWORDS)
            network = next((word for word in given.domain if word in policies), own.get(role.name))
            if not keywords:
                low = high = None
            self.found[role.name] = CheckedDomain(role.name, keywords, network, low, high, size)

    def _known(self, words: Iterable[str], role: str, policies: list[str], loss: Loss) -> bool:
        """Whether a domain names keywords and policies; reported where it names something else."""
        for index, word in enumerate(words):
            if word in _KEYWORDS or word in policies:
                continue
            known = [*_KEYWORDS, *policies]
            message = f"the domain of `{role}` is what a keyword or a policy says, and `{word}` is neither"
            if word in loss.networks:
                message = f"the domain of `{role}` is what the spec of a policy says, and `{word}` is none"
            help = suggestion(word, known) or f"write some of {', '.join(known)}"
            span = self.file.span(*self.path, "keys", role, "domain", index)
            self.sink.add(rules.DOMAIN_OF.at(span, message, help=help))
            return False
        return True

    @property
    def bounds(self) -> dict[str, Binding]:
        """What `bounded` gives names to."""
        return {
            _named(function, role): Binding(symbol.type, symbol.interval, what="bound", symbol=symbol)
            for role, domain in self.found.items()
            for function, symbol in zip(_BOUNDS, (domain.low, domain.high), strict=True)
            if symbol is not None
        }

    @property
    def sizes(self) -> dict[str, Binding]:
        """What `sized` gives names to."""
        return {
            _named("dim", role): Binding(
                domain.size.type, domain.size.interval, what="size", symbol=domain.size
            )
            for role, domain in self.found.items()
        }

    def bounded(self, expr: Expr, source: SourceText) -> Expr | None:
        """An expression with names in the place of bounds; None after reporting a mistake."""
        return self._replaced(expr, source, _BOUNDS, "`{}` is of an `auto` alone; write size({})")

    def sized(self, expr: Expr, source: SourceText) -> Expr | None:
        """An `auto` with names in the place of sizes; None after reporting a mistake."""
        return self._replaced(expr, source, ("dim",), "the constructor computes no tensors, such as `{}({})`")

    def _replaced(
        self, expr: Expr, source: SourceText, allowed: tuple[str, ...], otherwise: str
    ) -> Expr | None:
        failed = False

        def change(part: Expr) -> Expr:
            nonlocal failed
            if not isinstance(part, tree.Call) or part.function.path not in _FUNCTIONS:
                return part
            function = part.function.path
            role = part.args[0].path if len(part.args) == 1 and isinstance(part.args[0], tree.Name) else ""
            domain = self.found.get(role)
            message = help = None
            if role in self.broken:
                failed = True
                return part
            if domain is None or part.keywords:
                message = f"`{function}` is of a role that has a domain"
                help = suggestion(role, self.found) or (
                    f"declare it: `{role or 'action'}: {{key: {role or 'action'}, domain: [action_spec]}}`"
                )
            elif function not in allowed:
                message = otherwise.format(function, role)
            elif function in _BOUNDS and not domain.keywords:
                message = f"nobody says what the bounds of `{role}` are, but how many numbers it has"
                help = f"add a keyword: `domain: [action_spec, {domain.network}]`"
            elif function in _BOUNDS and domain.low is None:
                message = f"nobody knows the shape of `{role}`"
                help = f'say its type: `{role}: {{…, type: "float32[n]"}}`'
            if message is not None:
                failed = True
                span = source.span_of(part.start, part.end)
                self.sink.add(rules.NO_DOMAIN.at(span, message, help=help))
                return part
            self.read.add((function, role))
            return tree.Name(_named(function, role), part.start, part.end)

        made = tree.changed(expr, change)
        return None if failed else made

    def used(self) -> tuple[CheckedDomain, ...]:
        """The domains, each with the bounds that expressions read."""
        return tuple(
            domain
            if ("low", role) in self.read or ("high", role) in self.read
            else replace(domain, low=None, high=None)
            for role, domain in self.found.items()
        )


def _named(function: str, role: str) -> str:
    """The name in a scope: one that nobody can write."""
    return f"{function} of {role}"
