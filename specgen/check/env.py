"""Environments: every name, type, domain and assignment of a declaration, checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from specgen.check.behaviour import before_step, check_behaviour
from specgen.check.consts import check_consts, check_dims
from specgen.check.domains import proved_values, report_certain_results, report_unproven_indices
from specgen.check.done_sets import check_done_sets, check_flag_shapes
from specgen.check.functions import check_functions
from specgen.check.groups import check_groups, check_key_group, for_all_agents, with_group_help
from specgen.check.hints import absent, not_yet, one_number, unassigned, wrong_reset_target, wrong_step_target
from specgen.check.lints.env import EnvToLint, lint_env
from specgen.check.masks import check_masks
from specgen.check.model import Checked, CheckedEnv, Declared, Entry, Parameter, Role, dotted, reward_entry
from specgen.check.names import Names, reserved_in_env
from specgen.check.params import OF_ENVS, check_params
from specgen.check.per_env import absent_in_functions, check_per_env, differing, wrong_targets
from specgen.check.refused import damaged, hand_over, lost_names
from specgen.check.render import UNDRAWN, check_render
from specgen.check.shared_functions import NO_FUNCTIONS, SharedFunctions
from specgen.check.specs import NamedSpec, check_spec, doc_of
from specgen.check.statements import Section, Target, check_section
from specgen.check.undeclared import undeclared_state
from specgen.diagnostics import Sink, Span
from specgen.diagnostics.rules import devices as done_rules
from specgen.diagnostics.rules import schema as rules
from specgen.expr import Binding, Function, SpecType, Type
from specgen.expr.sizes import ANY_DIMS
from specgen.expr.symbols import Key, Time
from specgen.program.program import ENDING_FLAGS
from specgen.schema.env import Env
from specgen.schema.fields import SpecField
from specgen.schema.load import SchemaFile, find
from specgen.values import dataclass, replace


def check_env(
    file: SchemaFile,
    name: str,
    module: str,
    named: Mapping[str, NamedSpec],
    sink: Sink,
    functions: SharedFunctions = NO_FUNCTIONS,
) -> Checked[CheckedEnv] | None:
    """Check an environment with native dynamics.

    Args:
        file: where it is declared.
        name: its name under `envs:`.
        module: the generated module that it goes to, dotted.
        named: the specs that may be called by name.
        sink: takes every mistake.
        functions: the functions of files that it may call.

    Returns:
        The checked environment, or ``None`` when there were errors.
    """
    mine = Sink()
    declared = file.module.envs[name]
    hurt = damaged(file, name, sink)
    env = EnvChecker(file, name, module, declared, named, mine, hurt, functions).run()
    node = file.node("envs", name)
    found = before_step(functions.said_of(node, mine), file, ("envs", name), declared)
    hand_over(found, file, ("envs", name), sink)
    lost = functions.lost(node) or lost_names(file, ("envs", name))
    return None if mine.has_errors or lost else Checked(env)


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
    functions: SharedFunctions = NO_FUNCTIONS

    def __post_init__(self) -> None:
        self.path = ("envs", self.name)
        reserved = reserved_in_env(self.name, self.env.functions)
        self.names = Names(self.sink, reserved, self.functions.words)

    def run(self) -> CheckedEnv:
        """The checked environment; it is right only if no mistake went to the sink."""
        env, file, sink = self.env, self.file, self.sink
        check_behaviour(file, self.path, env, sink, damaged=self.damaged)
        declared = self._declared()
        state, action, observation = declared.state, declared.action, declared.observation
        rewards, done, fixed, broken = declared.rewards, declared.done, declared.fixed, declared.broken
        functions, callables = check_functions(
            file,
            self.path,
            env.functions,
            self.sizes,
            fixed,
            self.names,
            sink,
            broken | self.functions.broken,
            absent_in_functions(env.params),
            self.functions.known,
        )
        broken |= _lost((env.functions, callables)) | self.functions.broken
        per_env = self._per_env(declared, callables, broken)
        broken |= _lost((differing(env.params), per_env))
        filled = {name: self._binding(param.entry, "reset") for name, param in per_env.items() if param.entry}
        kept = tuple(param.entry for param in per_env.values() if param.entry)
        now = {entry.dotted: self._binding(entry) for entry in (*state, *kept)}
        unassigned_in = partial(unassigned, env=env, state=state, rewards=rewards, done=done, action=action)
        broken |= undeclared_state(
            file, self.path, env, [entry.dotted for entry in state], rewards, broken, sink
        )

        def section(
            name: str,
            scope: Mapping[str, Binding],
            expected: str,
            known: Mapping[str, str],
            undrawn: str = "",
        ) -> Section:
            here, elsewhere = (*self.path, name), {**known, **unassigned_in(name)}
            scope = {**fixed, **scope}
            return Section(file, here, scope, callables, self.names, expected, broken, elsewhere, undrawn)

        reset = check_section(
            section("reset", filled, "a state key", absent("reset", env, observation, action, state)),
            {entry.dotted: self._target(entry) for entry in state},
            wrong_reset_target(state),
            sink,
        )
        found = Sink()
        step = check_section(
            section(
                "step",
                {**now, **{entry.dotted: self._binding(entry) for entry in action}},
                "`next.` and a state key, a reward, `terminated` or `truncated`",
                absent("step", env, observation),
            ),
            self._step_targets(state, rewards, done),
            wrong_step_target(state, observation, done, env.reward_keys) | wrong_targets(env.params),
            found,
        )
        observe = check_section(
            section(
                "observe",
                now,
                "an observation",
                absent("observe", env, (), action, state),
                "an observation is a function of the state: draw under `reset` or `step`, into a state key",
            ),
            {entry.dotted: self._target(entry) for entry in observation},
            {},
            found,
        )
        known = absent("render", env, observation, action, state)
        drawing, render = check_render(
            section("render", now, "a local value", known, UNDRAWN), env.render, found
        )
        shown = (observe, drawing)
        report_certain_results(found, reset, step, shown, state, sink)
        if not sink.has_errors and not self.damaged:
            self._all_assigned("reset", [entry.dotted for entry in state], reset.types)
            self._all_assigned("observe", [entry.dotted for entry in observation], observe.types)
            self._all_assigned("step", [dotted(key) for key in rewards], step.types)
            self._rewards_have_dones(rewards, done, step.types)
            check_flag_shapes(file, self.path, done, step.types, sink)
            check_masks(file, self.path, env, observation, action, self.groups, sink)
            report_unproven_indices(reset, step, shown, state, sink)
        if not sink.has_errors and not self.damaged:
            linted = EnvToLint(
                file, self.path, env, self.named, declared, functions, per_env, reset, step, observe, drawing
            )
            lint_env(linted, sink)
        values, step, (observe, drawing) = proved_values(reset, step, shown, state)
        return CheckedEnv(
            name=self.name,
            module=self.module,
            doc=" ".join(env.doc.split()),
            params=self._in_order(declared.params, per_env),
            consts=declared.consts,
            dims=dict(self.sizes),
            groups=self.groups.groups,
            functions=functions,
            state=(*state, *kept),
            action=action,
            observation=observation,
            reward=tuple(reward_entry(key, step.types.get(dotted(key), _REWARD).shape) for key in rewards),
            done=done,
            done_dims={prefix: self._done_dims(prefix, step.types) for prefix in done},
            masks=dict(env.masks),
            reset=reset.statements,
            step=step.statements,
            observe=observe.statements,
            render=render and replace(render, statements=drawing.statements),
            values=values,
        )

    def _declared(self) -> Declared:
        """Check all that is no behaviour."""
        env, file, sink = self.env, self.file, self.sink
        # A reward key that no one wrote is there first: what is called like one is the mistake.
        implied = [] if env.reward is not None else env.reward_keys
        rewards = [self._implied_reward(text) for text in implied if not env.groups]
        dims = check_dims(file, self.path, env.dims, self.names, sink)
        self.groups = check_groups(file, self.path, env, env.dims, self.names, sink)
        rewards += [self._implied_reward(text) for text in implied if env.groups]
        dims |= self.groups.scope
        self.sizes = {**env.dims, **self.groups.sizes}
        params, param_scope = check_params(file, self.path, env.params, OF_ENVS, self.names, sink)
        consts, const_scope = check_consts(file, self.path, env.consts, self.sizes, self.names, sink)
        state = self._entries("state", env.state)
        action = self._entries("action", env.action)
        observation = self._entries("observation", env.observation)
        if env.reward is not None:
            rewards = [self._reward(text, index) for index, text in enumerate(env.reward)]
        done, unclear = check_done_sets(file, self.path, env, sink)
        broken = unclear | _lost(
            ({**env.dims, **env.groups}, dims),
            (env.params, [*param_scope, *differing(env.params)]),
            (env.consts, const_scope),
            (env.state, [entry.dotted for entry in state]),
            (env.action, [entry.dotted for entry in action]),
            (env.observation, [entry.dotted for entry in observation]),
        )
        broken |= lost_names(self.file, self.path)
        broken |= self.groups.meant([*env.state, *env.action, *env.observation, *env.reward_keys])
        fixed = {**dims, **param_scope, **const_scope}
        return Declared(params, consts, state, action, observation, rewards, done, fixed, broken)

    def _unsized(self) -> frozenset[str]:
        """What is said of sizes that are declared with a mistake."""
        names = {*self.env.groups, *lost_names(self.file, self.path)} - self.sizes.keys()
        return frozenset(f"undefined name `{name}`" for name in names)

    def _per_env(
        self, declared: Declared, functions: Mapping[str, Function], broken: frozenset[str]
    ) -> dict[str, Parameter]:
        """Check the parameters that differ between environments; draws may call `functions`."""
        return check_per_env(
            self.file,
            self.path,
            self.env.params,
            self.sizes,
            declared.fixed,
            functions,
            broken,
            not_yet(declared.state, python=self.env.python is not None),
            self.sink,
        )

    def _in_order(
        self, params: tuple[Parameter, ...], per_env: Mapping[str, Parameter]
    ) -> tuple[Parameter, ...]:
        """All parameters, as they were declared."""
        order = list(self.env.params)
        return tuple(sorted((*params, *per_env.values()), key=lambda param: order.index(param.name)))

    def _entries(self, role: Role, declared: Mapping[str, SpecField]) -> tuple[Entry, ...]:
        entries = []
        for text, field in declared.items():
            here = (*self.path, role, text)
            claimed = check_key_group(self.groups, text, self.file.key_span(*here), self.sink)
            claimed = claimed and self.names.claim(text, f"{role} key", self.file.key_span(*here))
            mine = Sink()
            spec = check_spec(self.file, here, field, self.sizes, self.named, mine)
            unsized = self._unsized()
            if any(item.message in unsized for item in mine.items):
                continue  # the size that it reads has been reported
            with_group_help(mine, self.groups, text, self.sink)
            if claimed and spec is not None:
                key = tuple(text.split("."))
                spec = for_all_agents(spec, self.groups, text)
                entries.append(Entry(key, role, spec, spec.type(), doc_of(field), self.file.key_span(*here)))
        return tuple(entries)

    def _reward(self, text: str, index: int) -> Key:
        span = self.file.span(*self.path, "reward", index)
        if check_key_group(self.groups, text, span, self.sink):
            self.names.claim(text, "reward key", span)
        return tuple(text.split("."))

    def _implied_reward(self, text: str) -> Key:
        group = text.rpartition(".")[0]
        if not group or any(found.name == group for found in self.groups.groups):
            note = "this reward key is there unless `reward: […]` lists others"
            self.names.claim(text, "reward key", self._assigned_at(text), note)
        return tuple(text.split("."))

    def _assigned_at(self, reward: str) -> Span:
        """Where a reward key is that no one declared: where it is assigned, else what it belongs to."""
        group = reward.rpartition(".")[0]
        if reward in self.env.step:
            return self.file.key_span(*self.path, "step", reward)
        return self.file.key_span(*self.path, "groups", group) if group else self.file.key_span(*self.path)

    def _binding(self, entry: Entry, section: str = "") -> Binding:
        """What expressions see of an entry that `section` defines, by default that of its role."""
        symbol = entry.symbol(".".join((*self.path, section or entry.role, entry.dotted)))
        return Binding(entry.type, entry.spec.interval, what=entry.role, symbol=symbol)

    def _target(self, entry: Entry, time: Time = "now") -> Target:
        name = f"next.{entry.dotted}" if time == "next" else entry.dotted
        return Target(name, entry.spec, self.groups.help(entry.dotted), entry.key, time)

    def _step_targets(
        self, state: Iterable[Entry], rewards: Iterable[Key], done: Iterable[Key]
    ) -> dict[str, Target]:
        targets = {f"next.{entry.dotted}": self._target(entry, "next") for entry in state}
        for key in rewards:
            name = dotted(key)
            dims = self.groups.dims(name) or ANY_DIMS
            spec = SpecType("pattern", "float32", dims)
            targets[name] = Target(name, spec, self.groups.help(name), key, "next", col=True)
        for prefix in done:
            for flag in ENDING_FLAGS:
                key = (*prefix, flag)
                name = dotted(key)
                spec = SpecType("pattern", "bool", self.groups.dims(name) or (ANY_DIMS if prefix else ()))
                help = (
                    self.groups.help(name)
                    if prefix
                    else "at the root it is one truth value: reduce it, `any(…)` or `all(…)`"
                )
                targets[name] = Target(name, spec, help, key, "next", col=True)
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
        for flag in ENDING_FLAGS:
            if (found := types.get(dotted((*prefix, flag)))) is not None:
                return found.shape
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
                said = find(self.file.root, (*self.path, "step", dotted(key)))
                self.sink.add(
                    done_rules.DONE_SHAPE.at(
                        self.file.span(*self.path, "reward", index)
                        if self.env.reward is not None
                        else self._assigned_at(dotted(key)),
                        f"reward `{dotted(key)}` has shape {list(dims)}, but its done flags have shape {list(flags)}",
                        help=f'declare `done: ["", {group}]` and {self._ended(group)}'
                        if group
                        else f"a reward at the root is one number: {one_number(dims, said)}, or nest it in a group",
                    )
                )

    def _ended(self, group: str) -> str:
        """What else is to be done for the flags of a group."""
        return f"assign `{group}.terminated`"


def _lost(*groups: tuple[Iterable[str], Iterable[str]]) -> frozenset[str]:
    """The names of each group that are declared, but not among those found sound."""
    return frozenset(name for declared, sound in groups for name in set(declared) - set(sound))


_REWARD = Type("float32", ())
