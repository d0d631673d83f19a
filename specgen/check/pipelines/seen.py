"""What the networks of a pipeline may read: what an agent observes, what others of several groups do, and what is of no group."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from specgen.check.model import AgentGroup, Entry
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.layers_model import Sight
from specgen.diagnostics import Diagnostic, suggestion
from specgen.diagnostics.rules import pipeline_groups as rules
from specgen.schema.load import SchemaFile
from specgen.schema.pipeline_networks import NetworkBody
from specgen.values import dataclass


@dataclass(frozen=True)
class Seen:
    """What a network may read.

    Attributes:
        whole: the environment.
        group: the agents that the network is of; None where there is one only.
    """

    whole: PipelineEnv
    group: AgentGroup | None

    @property
    def env(self) -> PipelineEnv:
        """The environment as one of the agents sees it."""
        return self.whole.of_agent(self.group)

    def of(self, body: NetworkBody) -> tuple[str, ...]:
        """The groups that a network says it sees; its own where it says none."""
        return tuple(body.of) or (() if self.group is None else (self.group.name,))

    def group_of(self, key: str) -> str | None:
        """The other group of agents that has an entry, for a network of a group."""
        found = self.whole.entries.get(key)
        group = None if found is None or self.group is None else self.owner(found)
        return None if group is None or group == self.group else group.name

    def readable(self, body: NetworkBody) -> dict[str, Entry]:
        """What `in` may name, by dotted key; entries of groups without the dimension of agents."""
        found = [*self.env.observations, *self.env.actions]
        if self.group is not None:
            found += [entry for entry in self.whole.observations if self.owner(entry) is None]
            found += [entry for name in body.of if name != self.group.name for entry in self._of(name)]
        return {entry.dotted: entry for entry in found}

    def with_other_groups(self, body: NetworkBody, own: Sequence[Entry]) -> list[Entry]:
        """What a network reads of all groups that it sees, where it reads this of its own; actions last."""
        if self.group is None or not body.of:
            return list(own)
        found: list[Entry] = []
        leaves = {entry.key[1:] for entry in own}
        acts = any(entry.role == "action" for entry in own)
        for name in body.of:
            theirs = self._of(name)
            named = [entry for entry in theirs if entry.key[1:] in leaves and entry.role != "action"]
            seen = named or [entry for entry in theirs if entry.role != "action"]
            actions = [entry for entry in theirs if entry.role == "action"] if acts else []
            found += own if name == self.group.name else (*seen, *actions)
        return sorted(found, key=lambda entry: entry.role == "action")

    def sights(self, body: NetworkBody, inputs: Sequence[Entry]) -> tuple[Sight, ...]:
        """How agents see each input; empty where each sees its own alone, or all of its group by `per: all`."""
        if self.group is None:
            return ()
        all_rows = bool(body.of) or body.per == "all"
        found: list[Sight] = []
        for entry in inputs:
            group = self.owner(entry)
            if group is None:
                found.append(Sight("root"))
            else:
                found.append(Sight("all", group.size) if all_rows else Sight("each"))
        own = all(self.owner(entry) == self.group for entry in inputs)
        return () if own and (not body.of or body.per == "all") else tuple(found)

    def owner(self, entry: Entry) -> AgentGroup | None:
        """The group that an entry is of."""
        return next((group for group in self.whole.groups if (group.name,) == entry.key[:-1][:1]), None)

    def example(self, name: str) -> str:
        """The dotted key of something that agents of a group observe."""
        return self._of(name)[0].dotted

    def _of(self, name: str) -> list[Entry]:
        """What agents of a group observe and do, without their dimension."""
        group = next(group for group in self.whole.groups if group.name == name)
        env = self.whole.of_agent(group)
        return [*env.observations, *env.actions]


def wrong_groups(
    file: SchemaFile, place: tuple[str, ...], body: NetworkBody, seen: Seen
) -> Diagnostic | None:
    """What is wrong with the groups that a network is to see; None if nothing is."""
    name = place[-1]
    known = [group.name for group in seen.whole.groups]
    if seen.group is None:
        message = f"`{name}` is of no group of agents"
        return rules.AGENTS_OF_NETWORK.at(file.key_span(*place, "of"), message, help="leave out `of`")
    for index, one in enumerate(body.of):
        span = file.span(*place, "of", index)
        if one not in known:
            message = f"`{seen.whole.name}` has no group of agents `{one}`"
            help = suggestion(one, known) or f"its groups are {', '.join(f'`{each}`' for each in known)}"
            return rules.GROUPS_SEEN.at(span, message, help=help)
        if one in body.of[:index]:
            return rules.GROUPS_SEEN.at(span, f"`{one}` is named twice", help="leave one out")
    if seen.group.name not in body.of:
        message = f"`{name}` is of `{seen.group.name}`, and would not see what these agents observe and do"
        help = f"write `of: [{', '.join((seen.group.name, *body.of))}]`"
        return rules.GROUPS_SEEN.at(file.key_span(*place, "of"), message, help=help)
    return None


def unread_group(
    file: SchemaFile, place: tuple[str, ...], body: NetworkBody, inputs: Sequence[Entry], seen: Seen
) -> Diagnostic | None:
    """What is wrong with a group that a network says it sees, of which its `in` names nothing; None if all are read.

    A group's own agents may be told by what is of no group.
    """
    if not (body.of and body.in_) or seen.group is None:
        return None
    read = {None if (group := seen.owner(entry)) is None else group.name for entry in inputs}
    if None in read:
        read.add(seen.group.name)
    index, name = next(((index, one) for index, one in enumerate(body.of) if one not in read), (0, None))
    if name is None:
        return None
    message = f"`{place[-1]}` sees `{name}`, and its `in` names nothing of these agents"
    help = f"add what they observe, such as `{seen.example(name)}`, to `in`"
    if name != seen.group.name:
        help += f", or leave `{name}` out of `of`"
    return rules.GROUPS_SEEN.at(file.span(*place, "of", index), message, help=help)


def wrong_layers(
    file: SchemaFile,
    place: tuple[str, ...],
    body: NetworkBody,
    inputs: Sequence[Entry],
    vectors: Collection[str],
) -> Diagnostic | None:
    """What stands in the way of joining what agents see of others; None if nothing does.

    Args:
        file: where the network is declared.
        place: the network in it.
        body: its declaration.
        inputs: what it reads.
        vectors: the dotted keys of those that linear layers read as they are.
    """
    name = place[-1]
    for field in ("trunk", "embedding", "python", "cnn", "gru", "lstm"):
        if getattr(body, field) is not None:
            message = (
                f"`{name}` joins what its agents see of others into one vector, which `{field}` does not read"
            )
            help = f"leave out `{field}`; `mlp` reads it"
            return rules.JOINED_INPUTS.at(file.key_span(*place, field), message, help=help)
    wrong = next((entry for entry in inputs if entry.dotted not in vectors), None)
    if wrong is None:
        return None
    message = f"`{name}` joins what its agents see of others, vectors of float32, and `{wrong.dotted}` is {wrong.type}"
    help = "say with `in` what it reads"
    return rules.JOINED_INPUTS.at(file.key_span(*place), message, help=help)
