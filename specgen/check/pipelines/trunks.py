"""The trunks of a pipeline: networks without a role, which others stand on."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from specgen.check.model import AgentGroup
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.layers import LayersReader
from specgen.check.pipelines.layers_model import PipelineTrunk, state_keys
from specgen.check.pipelines.network_numbers import NetworkNumbers
from specgen.check.pipelines.reader import PartReader, PipelineContext
from specgen.check.pipelines.seen import Seen
from specgen.check.pipelines.unused_settings import report_unused_settings
from specgen.diagnostics import suggestion
from specgen.diagnostics.rules import pipeline_networks as rules
from specgen.schema.pipeline import Pipeline
from specgen.schema.pipeline_networks import NetworkBody

_OF_HEADS = ("mixer", "dist", "scale", "dueling", "support", "out", "per", "of")


def trunk_names(pipeline: Pipeline, roles: Collection[str]) -> tuple[str, ...]:
    """The networks that others name as their trunk, without those that are of a loss."""
    named = {body.trunk for body in pipeline.networks.values()}
    return tuple(name for name in pipeline.networks if name in named and name not in roles)


class TrunkReader(PartReader):
    """Reads the trunks of one pipeline.

    Args:
        context: what all readers of the pipeline are given.
        env: its environment.
        roles: what networks of its losses may be called.
    """

    def __init__(self, context: PipelineContext, env: PipelineEnv, roles: Collection[str]) -> None:
        super().__init__(context)
        self.env, self.names = env, trunk_names(self.pipeline, roles)
        self.found: dict[str, PipelineTrunk] = {}

    def trunks(self, of_losses: Iterable[tuple[AgentGroup | None, str]]) -> dict[str, PipelineTrunk]:
        """The trunks that are sound, by name; what is wrong with others is reported.

        Args:
            of_losses: the networks of losses, each with the group of agents that it is of.
        """
        groups = self._groups(of_losses)
        if groups is None:
            return self.found
        for name, body in self.pipeline.networks.items():
            if body.trunk is not None and body.trunk not in self.names:
                self._report_unknown(name, body.trunk)
        left = list(self.names)
        while left:
            ready = [name for name in left if self.pipeline.networks[name].trunk not in left]
            if not ready:
                circle = " -> ".join([*left, left[0]])
                span = self.file.span(*self.path, "networks", left[0], "trunk")
                message = f"these stand on each other: {circle}"
                self.sink.add(rules.TRUNK.at(span, message, help="let one of them read the data itself"))
                return self.found
            for name in ready:
                made = self._trunk(name, self.pipeline.networks[name], groups.get(name))
                if made is not None:
                    self.found[name] = made
            left = [name for name in left if name not in ready]
        return self.found

    def _groups(
        self, of_losses: Iterable[tuple[AgentGroup | None, str]]
    ) -> dict[str, AgentGroup | None] | None:
        """The group of agents that each trunk is of; None after reporting one that is of two."""
        found: dict[str, tuple[AgentGroup | None, str]] = {}
        for group, user in of_losses:
            name, seen = self.pipeline.networks[user].trunk, set[str]()
            while name in self.names and name not in seen:
                other, first = found.setdefault(name, (group, user))
                if other != group:
                    span = self.file.key_span(*self.path, "networks", name)
                    message = f"`{first}` and `{user}` stand on `{name}`, and each group observes by itself"
                    help = "give the networks of each group a trunk of their own"
                    self.sink.add(rules.TRUNK.at(span, message, help=help))
                    return None
                seen.add(name)
                name = self.pipeline.networks[name].trunk
        return {name: group for name, (group, _) in found.items()}

    def _report_unknown(self, name: str, trunk: str) -> None:
        span = self.file.span(*self.path, "networks", name, "trunk")
        if trunk in self.pipeline.networks:
            message = f"`{trunk}` is a network of the loss, and has a head of its own"
            help = f"put what both share into a network without a role: `encoder: {{mlp: [64]}}`, `{name}: {{trunk: encoder}}`"
        else:
            message = f"`{name}` stands on `{trunk}`, which nobody declares"
            others = [one for one in self.pipeline.networks if one != name]
            help = suggestion(trunk, others) or f"declare it: `networks: {{{trunk}: {{mlp: [64]}}}}`"
        self.sink.add(rules.TRUNK.at(span, message, help=help))

    def _trunk(self, name: str, body: NetworkBody, group: AgentGroup | None) -> PipelineTrunk | None:
        for field in _OF_HEADS:
            if getattr(body, field):
                span = self.file.key_span(*self.path, "networks", name, "in" if field == "in_" else field)
                message = f"`{name}` is a trunk, which has no head, and so no `{field}`"
                self.sink.add(
                    rules.TRUNK.at(span, message, help="write it for the networks that stand on it")
                )
                return None
        span = self.file.key_span(*self.path, "networks", name)
        if not name.isidentifier():
            self.sink.add(rules.TRUNK.at(span, f"a trunk is of no loss, and `{name}` names one in front"))
            return None
        own = NetworkNumbers(self.context, name, body, "")
        reader = LayersReader(self.context, Seen(self.env, group), self.found)
        layers = reader.layers(name, body, None, own)
        if layers is None:
            return None
        made = PipelineTrunk(name, layers, " ".join(body.doc.split()), span)
        if not (layers.cells or layers.recurrence or layers.own or layers.image or layers.embedding):
            message = f"`{name}` has no layers of its own"
            self.sink.add(rules.TRUNK.at(span, message, help=f"name `{body.trunk}` in its place"))
            return None
        report_unused_settings(self.file, self.path, name, body, layers, self.sink, is_trunk=True)
        for key in (made.key, *state_keys(name, layers)):
            if key[0] in self.env.entries:
                message = f"`{name}` writes `{key[0]}`, and so does `{self.env.name}`"
                self.sink.add(rules.TRUNK.at(span, message, help="call it otherwise"))
                return None
        return made
