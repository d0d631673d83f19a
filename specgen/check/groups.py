"""Groups of agents: who is in them, and that what stands under one is declared for one agent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from specgen.check.model import AgentGroup
from specgen.check.names import Names, refusal
from specgen.check.specs import is_size, parse_spec
from specgen.diagnostics import Note, Sink, Span, suggestion
from specgen.diagnostics.rules import agents as rules
from specgen.diagnostics.rules import expressions as expression_rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.diagnostics.rules import specs as spec_rules
from specgen.expr import Binding, SpecType, Type, point
from specgen.expr.source_text import SourceText
from specgen.schema.env import Env
from specgen.schema.fields import Spec, SpecField
from specgen.schema.load import SchemaFile
from specgen.values import dataclass, replace

MAX_AGENTS = 100_000
"""A group of more is a mistake: each agent has a name in the generated class."""


@dataclass(frozen=True)
class Groups:
    """The groups of an environment, by name.

    Attributes:
        groups: those whose declaration is right.
        declared: the names of all.
        repeated: actions under a group whose spec has the group's name in brackets, each with that name.
    """

    groups: tuple[AgentGroup, ...] = ()
    declared: tuple[str, ...] = ()
    repeated: Mapping[str, str] = field(default_factory=dict)

    def around(self, key: str) -> AgentGroup | None:
        """The group that a dotted key stands in."""
        first, dot, _ = key.partition(".")
        return next((group for group in self.groups if dot and group.name == first), None)

    def meant(self, keys: Iterable[str]) -> frozenset[str]:
        """What keys of no group may be called by who writes the rest of the declaration."""
        parts = [key.partition(".") for key in keys]
        return frozenset(
            f"{group}.{rest}"
            for first, dot, rest in parts
            if dot and first not in self.declared
            for group in self.declared
        )

    def dims(self, key: str) -> tuple[int, ...]:
        """The dimension that a key has for its agents: none outside of a group."""
        group = self.around(key)
        return (group.size,) if group is not None else ()

    @property
    def sizes(self) -> dict[str, int]:
        """The groups' names as names of sizes."""
        return {group.name: group.size for group in self.groups}

    @property
    def scope(self) -> dict[str, Binding]:
        """The groups' names as expressions read them: how many agents there are."""
        return {
            name: Binding(Type("int64", (), "lit"), point(size), static=size, what="group")
            for name, size in self.sizes.items()
        }

    def help(self, key: str) -> str:
        """What to say where a shape does not fit a key of a group."""
        group = self.around(key)
        if group is None:
            return ""
        twice = [f"`{name}`" for name, of in self.repeated.items() if of == group.name]
        more = f": leave `[{group.name}]` out of {' and '.join(twice)}" if twice else ""
        return (
            f"under `{group.name}` a spec is written for one agent; expressions see all {group.size}, "
            f"in the first dimension{more}"
        )


def check_groups(
    file: SchemaFile, path: tuple[str, ...], env: Env, dims: Mapping[str, int], names: Names, sink: Sink
) -> Groups:
    """Check the `groups:` of the declaration at `path`."""
    found: list[AgentGroup] = []
    agents: dict[str, Span] = {}
    for name, group in env.groups.items():
        here = (*path, "groups", name)
        if not names.claim(name, "group", file.key_span(*here)):
            continue
        listed = isinstance(group.agents, list)
        members = _members(file, here, name, group.agents, dims, sink)
        sound = bool(members)
        for index, member in enumerate(members):
            span = file.span(*here, "agents", index) if listed else file.span(*here, "agents")
            if (first := agents.setdefault(member, span)) is not span:
                sound = False
                sink.add(
                    rules.AGENT_TWICE.at(
                        span,
                        f"there are two agents `{member}`",
                        notes=[Note("first named here", first)],
                        help="each agent is in one group, once",
                    )
                )
        if sound:
            found.append(AgentGroup(name, tuple(members), " ".join(group.doc.split())))
    repeated = {
        key: group.name
        for group in found
        for key, spec in env.action.items()
        if key.startswith(f"{group.name}.") and _counts(spec, group.name)
    }
    return Groups(tuple(found), tuple(env.groups), repeated)


def _counts(spec: SpecField, group: str) -> bool:
    """Whether a spec has a dimension of the size of a group."""
    if isinstance(spec, Spec):
        return group in map(str, spec.shape)
    return isinstance(spec, str) and re.search(rf"\[[^\]]*\b{re.escape(group)}\b", spec) is not None


def _members(
    file: SchemaFile,
    here: tuple[str, ...],
    name: str,
    agents: int | str | list[str],
    dims: Mapping[str, int],
    sink: Sink,
) -> list[str]:
    """The names of a group's agents; none when there is a mistake."""
    span = file.span(*here, "agents")
    if isinstance(agents, list):
        for index, agent in enumerate(agents):
            if reason := refusal(agent, foreign=True):
                sink.add(
                    schema_rules.NAME_REFUSED.at(
                        file.span(*here, "agents", index), f"`{agent}` can't be a name: {reason}"
                    )
                )
                return []
        count = len(agents)
    elif isinstance(agents, str) and agents.isidentifier() and agents not in dims:
        message = f"`{agents}` is neither a number nor a name of `dims`"
        near = suggestion(agents, dims)
        help = near or f"write a number; names of agents are a list: `agents: [{agents}]`"
        sink.add(expression_rules.UNDEFINED.at(span, message, help=help))
        return []
    elif isinstance(agents, str):
        if not is_size(agents):
            sink.add(spec_rules.BAD_SHAPE.at(span, f"`{agents}` is not a whole number"))
            return []
        vector = parse_spec(_Vector(agents, file.scalar(*here, "agents")), sink, dims)
        if vector is None or not vector.shape:
            return []
        count = vector.sizes[0]
    else:
        count = agents
    if not 1 <= count <= MAX_AGENTS:
        sink.add(
            rules.GROUP_SIZE.at(
                span,
                f"group `{name}` has {count if count else 'no'} agents",
                help="leave the group out, or say how many agents it has"
                if count < 1
                else f"a group has at most {MAX_AGENTS} agents",
            )
        )
        return []
    return agents if isinstance(agents, list) else [f"{name}_{index}" for index in range(count)]


@dataclass(frozen=True)
class _Vector:
    """A number of agents as the size of a vector; its mistakes point into the number."""

    size: str
    source: SourceText
    _before = "float32["

    @property
    def text(self) -> str:
        return f"{self._before}{self.size}]"

    def span_of(self, start: int, end: int) -> Span:
        lead, length = len(self._before), max(len(self.size), 1)
        first = min(max(start - lead, 0), length - 1)
        return self.source.span_of(first, max(min(end - lead, length), first + 1))


def check_key_group(groups: Groups, key: str, span: Span, sink: Sink) -> bool:
    """Whether a key stands in one of the groups, or in none; a group that does not exist is reported."""
    first, dot, _ = key.partition(".")
    if not groups.declared or not dot:
        return True
    if first in groups.declared:
        return groups.around(key) is not None
    near = suggestion(first, groups.declared)
    sink.add(
        rules.NO_GROUP.at(
            span,
            f"`{key}` stands under `{first}`, which is no group",
            help=near or f"the groups are {', '.join(groups.declared)}; outside of them keys are not nested",
        )
    )
    return False


def for_all_agents(spec: SpecType, groups: Groups, key: str) -> SpecType:
    """The spec of all agents of a group, from that of one; other specs stay as they are."""
    group = groups.around(key)
    if group is None:
        return spec
    shape = (group.size, *spec.sizes)
    return replace(
        spec,
        shape=shape,
        low=_repeated(spec.low, group.size),
        high=_repeated(spec.high, group.size),
        n=shape[-1] if spec.kind == "binary" else spec.n,
    )


def _repeated(bound: Any, count: int) -> Any:
    return (bound,) * count if isinstance(bound, tuple) else bound


def with_group_help(mine: Sink, groups: Groups, key: str, sink: Sink) -> None:
    """Hand on the mistakes of a key's spec; bounds by agent are told that a group has one spec."""
    group = groups.around(key)
    for item in mine.items:
        if group is not None and item.rule is spec_rules.BOUND_SHAPE and item.help is None:
            help = f"a spec under `{group.name}` is written for one agent; agents that differ are groups of their own"
            item = replace(item, help=help)
        sink.add(item)
