"""Environments: every name, type, domain and assignment of a declaration, checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from specgen.check.done_sets import check_done_sets, check_flag_shapes
from specgen.check.functions import check_functions
from specgen.check.groups import check_groups, check_key_group, for_all_agents, with_group_help
from specgen.check.masks import check_masks
from specgen.check.model import Checked, CheckedEnv, Entry, Key, Role, dotted
from specgen.check.names import Names, env_words
from specgen.check.params import check_consts, check_dims, check_params
from specgen.check.per_env import absent_in_functions, check_per_env, differing, wrong_targets
from specgen.check.specs import NamedSpec, check_spec, doc_of
from specgen.check.statements import Section, Target, check_section
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import devices as done_rules
from specgen.diagnostics.rules import schema as rules
from specgen.expr import Binding, SpecType, Type
from specgen.schema.env import Env
from specgen.schema.fields import SpecField
from specgen.schema.load import SchemaFile


def check_env(
    file: SchemaFile, name: str, module: str, named: Mapping[str, NamedSpec], sink: Sink
) -> Checked[CheckedEnv] | None:
    """Check an environment with native dynamics.

    Args:
        file: where it is declared.
        name: its name under `envs:`.
        module: the generated module that it goes to, dotted.
        named: the specs that may be called by name.
        sink: takes every mistake.

    Returns:
        The checked environment, or ``None`` when there were errors.
    """
    mine = Sink()
    env = EnvChecker(file, name, module, file.module.envs[name], named, mine, damaged(file, name, sink)).run()
    sink.extend(mine.items)
    return None if mine.has_errors else Checked(env)


@dataclass
class EnvChecker:
    """The check of one environment; those of other kinds share its parts."""

    file: SchemaFile
    name: str
    module: str
    env: Env
    named: Mapping[str, NamedSpec]
    sink: Sink
    damaged: bool

    def run(self) -> CheckedEnv:
        """The checked environment; it is right only if no mistake went to the sink."""
        self.path = ("envs", self.name)
        self.names = Names(self.sink, env_words(self.name, self.env.functions))
        self._has_behaviour()
        env, file, sink = self.env, self.file, self.sink
        dims = check_dims(file, self.path, env.dims, self.names, sink)
        self.groups = check_groups(file, self.path, env, env.dims, self.names, sink)
        dims |= self.groups.scope
        self.sizes = {**env.dims, **self.groups.sizes}
        params, param_scope = check_params(file, self.path, env.params, self.names, sink)
        consts, const_scope = check_consts(file, self.path, env.consts, self.sizes, self.names, sink)
        state = self._entries("state", env.state)
        action = self._entries("action", env.action)
        observation = self._entries("observation", env.observation)
        rewards = [self._key(text, "reward", index) for index, text in enumerate(env.reward_keys)]
        done, unclear = check_done_sets(file, self.path, env, sink)
        fixed = {**dims, **param_scope, **const_scope}
        broken = unclear | _lost(
            ({**env.dims, **env.groups}, dims),
            (env.params, [*param_scope, *differing(env.params)]),
            (env.consts, const_scope),
            (env.state, [entry.dotted for entry in state]),
            (env.action, [entry.dotted for entry in action]),
            (env.observation, [entry.dotted for entry in observation]),
        )
        broken |= self.groups.meant([*env.state, *env.action, *env.observation, *env.reward_keys])
        functions, callables = check_functions(
            file,
            self.path,
            env.functions,
            self.sizes,
            fixed,
            self.names,
            sink,
            broken,
            absent_in_functions(env.params),
        )
        broken |= _lost((env.functions, callables))
        per_env = check_per_env(
            file, self.path, env.params, self.sizes, fixed, callables, broken, _not_yet(state), sink
        )
        broken |= _lost((differing(env.params), per_env))
        kept = {name: _binding(param.entry, name) for name, param in per_env.items() if param.entry}
        now = {entry.dotted: _binding(entry, entry.name) for entry in state} | kept
        reset = check_section(
            Section(
                file,
                (*self.path, "reset"),
                {**fixed, **kept},
                callables,
                self.names,
                "a state key",
                broken,
                _absent("reset", env, observation, action, state),
            ),
            {entry.dotted: self._target(entry) for entry in state},
            _wrong_reset_target(state),
            sink,
        )
        step = check_section(
            Section(
                file,
                (*self.path, "step"),
                {**fixed, **now, **{entry.dotted: _binding(entry, entry.name) for entry in action}},
                callables,
                self.names,
                "`next.` and a state key, a reward, `terminated` or `truncated`",
                broken,
                _absent("step", env, observation),
            ),
            self._step_targets(state, rewards, done),
            _wrong_step_target(state, observation, done) | wrong_targets(env.params),
            sink,
        )
        observe = check_section(
            Section(
                file,
                (*self.path, "observe"),
                {**fixed, **now},
                callables,
                self.names,
                "an observation",
                broken,
                _absent("observe", env, (), action, state),
                "an observation is a function of the state: draw under `reset` or `step`, into a state key",
            ),
            {entry.dotted: self._target(entry) for entry in observation},
            {},
            sink,
        )
        if not sink.has_errors and not self.damaged:
            self._all_assigned("reset", [entry.dotted for entry in state], reset.types)
            self._all_assigned("observe", [entry.dotted for entry in observation], observe.types)
            self._all_assigned("step", [dotted(key) for key in rewards], step.types)
            self._rewards_have_dones(rewards, done, step.types)
            check_flag_shapes(file, self.path, done, step.types, sink)
            check_masks(file, self.path, env, observation, action, self.groups, sink)
        reward_entries = tuple(
            Entry(
                key,
                "reward",
                SpecType("unbounded", "float32", step.types.get(dotted(key), _REWARD).dims or ()),
                Type("float32", step.types.get(dotted(key), _REWARD).dims or (), col=True),
            )
            for key in rewards
        )
        return CheckedEnv(
            name=self.name,
            module=self.module,
            doc=" ".join(env.doc.split()),
            params=tuple(
                sorted((*params, *per_env.values()), key=lambda param: list(env.params).index(param.name))
            ),
            consts=consts,
            dims=dict(self.sizes),
            groups=self.groups.groups,
            functions=functions,
            state=(*state, *(param.entry for param in per_env.values() if param.entry)),
            action=action,
            observation=observation,
            reward=reward_entries,
            done=done,
            done_dims={prefix: self._done_dims(prefix, step.types) for prefix in done},
            masks=dict(env.masks),
            reset=reset.statements,
            step=step.statements,
            observe=observe.statements,
        )

    def _has_behaviour(self) -> None:
        if not self.env.step:
            self.sink.add(
                rules.MISSING_FIELD.at(
                    self.file.key_span(*self.path),
                    f"`{self.name}` does not say where its behaviour comes from",
                    help="give it `step` (with `state`, `reset`, `observe`), `gymnasium: {id: …}`, "
                    "or `python: package.module:Class`",
                )
            )

    def _entries(self, role: Role, declared: Mapping[str, SpecField]) -> tuple[Entry, ...]:
        entries = []
        for text, field in declared.items():
            here = (*self.path, role, text)
            claimed = check_key_group(self.groups, text, self.file.key_span(*here), self.sink)
            claimed = self.names.claim(text, f"{role} key", self.file.key_span(*here)) and claimed
            mine = Sink()
            spec = check_spec(self.file, here, field, self.sizes, self.named, mine)
            with_group_help(mine, self.groups, text, self.sink)
            if claimed and spec is not None:
                key = tuple(text.split("."))
                spec = for_all_agents(spec, self.groups, text)
                entries.append(Entry(key, role, spec, spec.type(), doc_of(field)))
        return tuple(entries)

    def _key(self, text: str, what: str, index: int) -> Key:
        span = self.file.span(*self.path, what, index)
        check_key_group(self.groups, text, span, self.sink)
        self.names.claim(text, f"{what} key", span)
        return tuple(text.split("."))

    def _target(self, entry: Entry, lead: str = "") -> Target:
        return Target(f"{lead}{entry.dotted}", entry.spec, self.groups.help(entry.dotted))

    def _step_targets(
        self, state: Iterable[Entry], rewards: Iterable[Key], done: Iterable[Key]
    ) -> dict[str, Target]:
        targets = {f"next.{entry.dotted}": self._target(entry, "next.") for entry in state}
        for key in rewards:
            name = dotted(key)
            dims = self.groups.dims(name) or None
            targets[name] = Target(name, SpecType("pattern", "float32", dims), self.groups.help(name))
        for prefix in done:
            for flag in ("terminated", "truncated"):
                name = dotted((*prefix, flag))
                dims = self.groups.dims(name) or (None if prefix else ())
                targets[name] = Target(name, SpecType("pattern", "bool", dims), self.groups.help(name))
        return targets

    def _all_assigned(self, section: str, wanted: Iterable[str], types: Mapping[str, Type]) -> None:
        for key in wanted:
            if key in types:
                continue
            role = {"reset": "state", "observe": "observation", "step": "reward"}[section]
            place = (*self.path, role, key) if role != "reward" else (*self.path, "step")
            self.sink.add(
                rules.MISSING_ASSIGNMENT.at(
                    self.file.key_span(*place),
                    f"nothing under `{section}` assigns `{key}`",
                    help=f"add `{key}: …` under `{section}`",
                )
            )

    def _done_dims(self, prefix: Key, types: Mapping[str, Type]) -> tuple[int, ...]:
        for flag in ("terminated", "truncated"):
            if (found := types.get(dotted((*prefix, flag)))) is not None:
                return found.dims or ()
        return self.groups.dims(dotted((*prefix, "done")))

    def _rewards_have_dones(
        self, rewards: Iterable[Key], done: tuple[Key, ...], types: Mapping[str, Type]
    ) -> None:
        for index, key in enumerate(rewards):
            if dotted(key) not in types:
                continue  # said by `_all_assigned`
            dims = types[dotted(key)].dims or ()
            prefix = max((p for p in done if key[: len(p)] == p), key=len, default=())
            flags = self._done_dims(prefix, types)
            if dims != flags:
                group = dotted(key[:-1])
                self.sink.add(
                    done_rules.DONE_SHAPE.at(
                        self.file.span(*self.path, "reward", index),
                        f"reward `{dotted(key)}` has shape {list(dims)}, but its done flags have shape {list(flags)}",
                        help=f'declare `done: ["", {group}]` and assign `{group}.terminated`'
                        if group
                        else "a reward at the root is one number: reduce it, or nest it in a group",
                    )
                )


def damaged(file: SchemaFile, name: str, sink: Sink) -> bool:
    """Whether a mistake of YAML has cost the declaration entries, so that it can't be said what is missing."""
    here = file.span("envs", name)
    return any(
        item.span.file == here.file and here.line <= item.span.line <= here.end_line for item in sink.items
    )


def _not_yet(state: Iterable[Entry]) -> dict[str, str]:
    """What to say of a parameter's draw that reads the state."""
    help = "parameters are drawn before the state: assign what depends on it under `reset`, to a state key"
    return {entry.dotted: help for entry in state}


def _lost(*groups: tuple[Iterable[str], Iterable[str]]) -> frozenset[str]:
    """The names of each group that are declared, but not among those found sound."""
    return frozenset(name for declared, sound in groups for name in set(declared) - set(sound))


def _absent(
    section: str,
    env: Env,
    observation: Iterable[Entry] = (),
    action: Iterable[Entry] = (),
    state: Iterable[Entry] = (),
) -> dict[str, str]:
    """What to say about names of a declaration that a section can't read."""
    others = {"reset": env.reset, "step": env.step, "observe": env.observe}
    absent = {
        name: f"`{name}` is a local value of `{other}`; compute it again under `{section}`"
        for other, statements in others.items()
        if other != section
        for name in statements
        if "." not in name
    }
    when = "at a reset there is no action yet" if section == "reset" else "`observe` sees the new state only"
    for entry in observation:
        why = "observations are computed from the state, under `observe`; read the state"
        absent |= {entry.dotted: why, f"next.{entry.dotted}": why}
    absent |= {entry.dotted: f"{when}: keep what is needed in a state key" for entry in action}
    absent |= {
        f"next.{entry.dotted}": f"under `{section}` the state is the new one, written bare: `{entry.dotted}`"
        for entry in state
    }
    return absent


_REWARD = Type("float32", ())


def _binding(entry: Entry, text: str) -> Binding:
    return Binding(text, entry.type, entry.spec.interval, what=entry.role)


def _wrong_reset_target(state: Iterable[Entry]) -> dict[str, str]:
    return {
        f"next.{entry.dotted}": f"in `reset` a state key is written bare: `{entry.dotted}`" for entry in state
    }


def _wrong_step_target(
    state: Iterable[Entry], observation: Iterable[Entry], done: Iterable[Key]
) -> dict[str, str]:
    wrong = {
        entry.dotted: f"`{entry.dotted}` is the value at time t; write `next.{entry.dotted}`"
        for entry in state
    }
    wrong |= {
        f"next.{entry.dotted}": f"observations are assigned under `observe`: `{entry.dotted}`"
        for entry in observation
    }
    for prefix in done:
        key = dotted((*prefix, "done"))
        wrong[key] = (
            f"`{key}` is derived: it alone can't tell a time limit from an end; "
            f"assign `{dotted((*prefix, 'terminated'))}` or `{dotted((*prefix, 'truncated'))}`"
        )
    for key in ("next.reward", "next.terminated", "next.truncated", "next.done"):
        wrong[key] = f"in an environment's `step` this is written bare: `{key.removeprefix('next.')}`"
    return wrong
