"""The keys at one position of a chain: those of the environment, and what transforms have made of them so far."""

from __future__ import annotations

from collections.abc import Iterable

from specgen.check.chains.model import Row
from specgen.check.chains.writes import WrittenKeys
from specgen.check.model import CheckedEnv, Entry
from specgen.diagnostics import Sink, Span
from specgen.expr.symbols import Key


class Position:
    """The entries at the present position of a chain.

    Attributes:
        entries: what the environment returns, by dotted key.
        actions: what it is given.
        dropped: the keys that are gone, each with the transform that dropped it.
        masks: the actions that have a mask, each with the key of that.
        standing: a transform so far that leaves out steps of an environment that keeps its state; None where there is none.
    """

    def __init__(self, name: str, env: CheckedEnv, span: Span, sink: Sink) -> None:
        self.env = env
        self.written_keys = WrittenKeys(name, env, span, sink)
        self.entries = env.returned
        self.dropped: dict[str, str] = {}
        self.actions = {entry.dotted: entry for entry in env.action}
        self.masks = dict(env.masks)
        self.standing: str | None = None

    def take_actions(self, rows: Iterable[Row]) -> None:
        """Let what the policy writes stand in the place of what an inverse gives."""
        rows = list(rows)
        gone = {entry.dotted for row in rows for entry in row.inputs.values()}
        first = {next(iter(row.inputs.values())).dotted: row for row in rows}
        found: dict[str, Entry] = {}
        for name, action in self.actions.items():
            if name in first:
                found.update((entry.dotted, entry) for entry in first[name].outputs.values())
            elif name not in gone:
                found[name] = action
        self.actions = found

    def group(self, selector: str) -> list[Entry]:
        """The keys of `env.observation`, `env.reward`, `env.done`, `env.flags`, `env.state` or `env.action`."""
        group = selector.removeprefix("env.")
        if group == "done":
            return [
                entry
                for key, entry in self.entries.items()
                if entry.role == "done" and entry.key[-1] == "done" and self._root_most(entry.key)
            ]
        if group == "flags":
            return [entry for entry in self.entries.values() if entry.role == "done"]
        if group == "action":
            return list(self.actions.values())
        groups = ("observation", "state") if group == "observation" else (group,)
        return [entry for entry in self.entries.values() if entry.role in groups]

    def _root_most(self, key: Key) -> bool:
        prefix = key[:-1]
        return not any(other != prefix and prefix[: len(other)] == other for other in self.env.done)
