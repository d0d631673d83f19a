"""Environments whose behaviour is a Python class: what its data are; the class itself is never imported here."""

from __future__ import annotations

from collections.abc import Mapping

from specgen.check.env import EnvChecker
from specgen.check.masks import check_masks
from specgen.check.model import Checked, CheckedEnv, Entry, dotted, identifier, reward_entry
from specgen.check.per_env import differing
from specgen.check.python_source import python_source
from specgen.check.refused import damaged, hand_over, lost_names
from specgen.check.shared_functions import NO_FUNCTIONS, SharedFunctions
from specgen.check.sources import PythonSource
from specgen.check.specs import NamedSpec
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import python_env as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.expr import Type
from specgen.program.program import ENDING_FLAGS
from specgen.schema.env import Python
from specgen.schema.load import SchemaFile
from specgen.values import replace

_SAID_BY_CLASS = ("functions", "reset", "step", "observe", "render")
_KEYWORD = "check_domains"
_TAKEN = frozenset({"dynamics"})
"""What generated code calls something else."""

_TAKEN_BY_STEP = frozenset({"state", "generator"})
"""The arguments of the class's `step` besides the actions."""


def check_python_env(
    file: SchemaFile,
    name: str,
    module: str,
    named: Mapping[str, NamedSpec],
    sink: Sink,
    functions: SharedFunctions = NO_FUNCTIONS,
) -> Checked[CheckedEnv] | None:
    """Check an environment with a `python:` field; see `check_env` for the arguments."""
    mine = Sink()
    declared = file.module.envs[name]
    hurt = damaged(file, name, sink)
    env = _Checker(file, name, module, declared, named, mine, hurt, functions).run()
    node = file.node("envs", name)
    hand_over(functions.said_of(node, mine), file, ("envs", name), sink)
    lost = functions.lost(node) or lost_names(file, ("envs", name))
    return None if mine.has_errors or lost else Checked(env)


class _Checker(EnvChecker):
    def run(self) -> CheckedEnv:
        env, file, sink, path = self.env, self.file, self.sink, self.path
        source = self._source()
        self._refuse_behaviour(source)
        declared = self._declared()
        self._refuse_keyword()
        broken = declared.broken | frozenset(env.functions) | self.functions.broken
        per_env = self._per_env(declared, self.functions.known, broken)
        kept = [param.entry for param in per_env.values() if param.entry]
        state, action, observation = declared.state, declared.action, declared.observation
        rewards, done = declared.rewards, declared.done
        types = {dotted(key): Type("float32", self.groups.dims(dotted(key)), col=True) for key in rewards}
        flags = {prefix: self.groups.dims(dotted((*prefix, "done"))) for prefix in done}
        if not sink.has_errors and not self.damaged:
            self._refuse_names((*state, *action, *observation), action)
            self._has_data(action, observation, stateful=source.stateful)
            all_flags = {
                dotted((*prefix, "terminated")): Type("bool", dims) for prefix, dims in flags.items()
            }
            self._rewards_have_dones(rewards, done, {**types, **all_flags})
            check_masks(file, path, env, observation, action, self.groups, sink)
        if source.stateful:
            # it is told at a reset only: what a step finds in its tensordict has no effect
            observation = (*observation, *(replace(entry, role="observation") for entry in kept))
        else:
            state = (*state, *kept)
        return CheckedEnv(
            name=self.name,
            module=self.module,
            doc=" ".join(env.doc.split()),
            params=self._in_order(declared.params, per_env),
            consts=declared.consts,
            dims=dict(self.sizes),
            groups=self.groups.groups,
            state=state,
            action=action,
            observation=observation,
            reward=tuple(reward_entry(key, self.groups.dims(dotted(key))) for key in rewards),
            done=done,
            done_dims=flags,
            masks=dict(env.masks),
            python=source,
        )

    def _source(self) -> PythonSource:
        """The class behind the declaration; a mistake in its name goes to the sink."""
        python = self.env.python
        here = (*self.path, "python", "class") if isinstance(python, Python) else (*self.path, "python")
        stateful = isinstance(python, Python) and python.stateful
        return replace(python_source(self.file.scalar(*here), self.module, self.sink), stateful=stateful)

    def _refuse_behaviour(self, source: PythonSource) -> None:
        refused = [field for field in _SAID_BY_CLASS if getattr(self.env, field)]
        for field in refused:
            self.sink.add(
                rules.SAID_BY_CLASS.at(
                    self.file.key_span(*self.path, field),
                    f"`{field}` has no place beside `python`",
                    help=f"`{source.name}` says what happens; leave one of the two out",
                )
            )
        if source.stateful and self.env.state:
            self.sink.add(
                rules.SAID_BY_CLASS.at(
                    self.file.key_span(*self.path, "state"),
                    "`state` has no place in an environment that keeps it to itself (`stateful: true`)",
                    help="what the policy may see is an observation",
                )
            )

    def _refuse_keyword(self) -> None:
        if _KEYWORD in self.env.params:
            self.sink.add(
                schema_rules.NAME_REFUSED.at(
                    self.file.key_span(*self.path, "params", _KEYWORD),
                    f"`{_KEYWORD}` can't be a parameter: every environment with `python` has this keyword",
                    help="give this parameter another name",
                )
            )

    def _ended(self, group: str) -> str:
        flags = (identifier(f"{group}.{flag}") for flag in ENDING_FLAGS)
        return f"return {' and '.join(f'`{flag}`' for flag in flags)} from the class's `step`"

    def _refuse_names(self, entries: tuple[Entry, ...], actions: tuple[Entry, ...]) -> None:
        named: dict[str, tuple[str, frozenset[str]]] = {
            entry.dotted: (entry.role, _TAKEN | _TAKEN_BY_STEP if entry in actions else _TAKEN)
            for entry in entries
        }
        named |= dict.fromkeys(differing(self.env.params), ("params", _TAKEN))
        for name, (section, taken) in named.items():
            if identifier(name) in taken:
                what = "parameter" if section == "params" else f"{section} key"
                self.sink.add(
                    schema_rules.NAME_REFUSED.at(
                        self.file.key_span(*self.path, section, name),
                        f"`{name}` can't be a name: generated code calls something else so",
                        help=f"give this {what} another name",
                    )
                )

    def _has_data(self, action: tuple[Entry, ...], observation: tuple[Entry, ...], *, stateful: bool) -> None:
        missing = [] if action else ["action"]
        if stateful and not observation:
            missing.append("observation")
        for field in missing:
            self.sink.add(
                schema_rules.MISSING_FIELD.at(
                    self.file.key_span(*self.path),
                    f"`{self.name}` needs a field `{field}`",
                    help=f"say what the class {'is given' if field == 'action' else 'returns'}: `{field}: {{…}}`",
                )
            )
