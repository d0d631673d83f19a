"""The environment of a pipeline, as its policy sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from itertools import takewhile
from typing import TYPE_CHECKING

from specgen.check.language_models.model import CheckedLanguageModel
from specgen.check.language_models.transforms import ModelInstance, given_models
from specgen.check.model import AgentGroup, Entry
from specgen.check.rewards import ChatSource
from specgen.diagnostics import Span
from specgen.expr.symbols import Key
from specgen.values import dataclass, replace

if TYPE_CHECKING:
    from specgen.check.pipelines.model import Amount


@dataclass(frozen=True)
class PipelineEnv:
    """The environment of a pipeline, native, Gymnasium's or a chain, as its policy sees it.

    Attributes:
        name: its class.
        module: the dotted module of that.
        entries: what it returns, by dotted key; done flags and rewards among them.
        actions: what it is given.
        masks: the actions that have a mask, each with the key of that.
        lost_masks: the actions whose mask a transform drops, each with the key of that.
        groups: its groups of agents.
        arguments: what its constructor is given, but for `settings`.
        settings: those arguments that are hyper-parameters, by keyword.
        dropped: the keys that a transform drops, each with which one does.
        span: where the pipeline names it.
        chat: what is behind its conversations; None of an environment of numbers.
        runs: the transforms that run language models.
        rewarding: the transforms that write its reward, by name.
        counted: the keys of what transforms make of rewards and flags alone: sums of rewards, counts of steps.
        learned: the transforms whose statistics of observations data decide, as messages call them, each with whether
            steps teach it, and not `init_stats` alone.
        single: whether it is one environment at a time, whose state is not in its data: a simulator.
        gymnasium: whether what it steps is Gymnasium's.
    """

    name: str
    module: str
    entries: Mapping[str, Entry]
    actions: tuple[Entry, ...]
    masks: Mapping[str, str]
    groups: tuple[AgentGroup, ...]
    span: Span
    single: bool = False
    gymnasium: bool = False
    arguments: Mapping[str, object] = field(default_factory=dict)
    settings: Mapping[str, Amount] = field(default_factory=dict)
    dropped: Mapping[str, str] = field(default_factory=dict)
    lost_masks: Mapping[str, str] = field(default_factory=dict)
    chat: ChatSource | None = None
    runs: tuple[ModelInstance, ...] = ()
    rewarding: tuple[str, ...] = ()
    counted: frozenset[str] = frozenset()
    learned: Mapping[str, bool] = field(default_factory=dict)

    @property
    def changing(self) -> Mapping[str, Amount]:
        """The arguments that change in training, by keyword."""
        return {name: one for name, one in self.settings.items() if one.schedule is not None}

    @property
    def observations(self) -> tuple[Entry, ...]:
        """What a policy may read."""
        return tuple(entry for entry in self.entries.values() if entry.role in ("observation", "state"))

    @property
    def observed(self) -> tuple[Entry, ...]:
        """What a policy reads that does not say it: neither states, which a task may hide, nor sums and counts of its steps."""
        shown = [entry for entry in self.entries.values() if entry.role == "observation"]
        return tuple(entry for entry in shown if entry.dotted not in self.counted)

    @property
    def action_key(self) -> Key | None:
        """The key of its action; of several ones, of what holds all of them, and nothing of the agents that it is not of.

        None where there is none, or nothing holds them.
        """
        if len(self.actions) == 1:
            return self.actions[0].key
        levels = zip(*(entry.key[:-1] for entry in self.actions), strict=False)
        key = tuple(level[0] for level in takewhile(lambda level: len(set(level)) == 1, levels))
        return None if key in {(), *((group.name,) for group in self.groups)} else key

    @property
    def models(self) -> tuple[CheckedLanguageModel, ...]:
        """The language models that its constructor is given, in the order in which they are named."""
        return given_models(self.runs)

    def of_agent(self, group: AgentGroup | None) -> PipelineEnv:
        """The environment as one agent of a group sees it: the group's entries, without the dimension of agents."""
        if group is None:
            return self
        return replace(
            self,
            entries={
                key: _of_agent(one) for key, one in self.entries.items() if one.key[:-1][:1] == (group.name,)
            },
            actions=tuple(_of_agent(one) for one in self.actions if one.key[:-1][:1] == (group.name,)),
        )


def _of_agent(entry: Entry) -> Entry:
    """An entry of a group without the dimension of agents."""
    return replace(
        entry,
        spec=replace(entry.spec, shape=entry.spec.shape[1:]),
        type=replace(entry.type, dims=entry.type.dims[1:]),
    )
