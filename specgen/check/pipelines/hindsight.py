"""Replay buffers whose goals are replaced by what was achieved: whether that can be, and the rewards for other goals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specgen.check.chains.model import CheckedChain, Instance
from specgen.check.model import Checked, CheckedEnv, Entry, dotted
from specgen.check.pipelines.data_model import HindsightData, HindsightKeys, PipelineData, ReplayData
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.goals import goal_of, made_of_goals
from specgen.check.pipelines.heads_model import MixerHead
from specgen.check.pipelines.model import PipelineLoss
from specgen.check.pipelines.reader import PartReader
from specgen.check.pipelines.workers_model import CollectingWorkers
from specgen.check.programs.hindsight import Obstacle, hindsight_program
from specgen.check.sources import PythonSource
from specgen.diagnostics import Note, Span, suggestion
from specgen.diagnostics.rules import pipeline_hindsight as rules
from specgen.diagnostics.rules import pipeline_numbers as number_rules
from specgen.expr.symbols import Key
from specgen.program.program import Program
from specgen.values import replace

ACHIEVED, DESIRED = "achieved_goal", "desired_goal"

_FIELDS = {ACHIEVED: "achieved_goal_key", DESIRED: "goal_key"}
"""What says how the observations are called, where they have other names."""

_BY_HAND = (
    'name a function of `(achieved_goal, desired_goal)`: `hindsight: {{{}: "package.module:function"}}`'
)


class HindsightReader(PartReader):
    """Reads how the goals of one pipeline are replaced."""

    def completed(
        self,
        data: PipelineData,
        env: PipelineEnv,
        losses: tuple[PipelineLoss, ...],
        workers: CollectingWorkers | None,
        *,
        evaluated: bool,
    ) -> PipelineData:
        """The data with the functions of rewards for other goals; with mistakes, which are reported, as they are.

        Args:
            data: where the data come from.
            env: the environment that is learned in.
            losses: the losses, with their networks.
            workers: what collects, if not this process.
            evaluated: whether evaluations have that environment, too.
        """
        if not isinstance(data, ReplayData) or data.hindsight is None or data.recorded is not None:
            return data
        span = data.hindsight.span
        before = self.sink.errors
        self._check_steps(data, workers, span)
        declared = self.scopes.at(env.span).envs[env.name]
        assert isinstance(declared, Checked)
        keys = self._keys(data.hindsight, env, losses)
        if keys is None:
            return data
        check = _GoalCheck(self, env, declared.value, keys, span)
        check.check_goals(losses)
        if self.sink.errors > before:
            return data
        functions = dict(data.hindsight.functions)
        if "reward" in functions:
            check.check_changed_rewards()
        for name in ("reward", "terminated"):
            if name not in functions and self.sink.errors == before:  # one mistake stands in the way of both
                found = check.function(name)
                functions |= {name: found} if found is not None else {}
        params = _params(functions, declared.value)
        if params is not None and workers is not None and not evaluated:
            message = f"the reward in hindsight reads the parameters of `{env.name}`, which workers have"
            self.report(span, message, _BY_HAND.format("reward"))
        completed = replace(data.hindsight, functions=functions, params=params, keys=keys)
        return replace(data, hindsight=completed)

    def report(self, span: Span, message: str, help: str, *notes: Note) -> None:
        """Report goals that can't be replaced."""
        self.sink.add(rules.HINDSIGHT.at(span, message, notes=list(notes), help=help))

    def _check_steps(self, data: ReplayData, workers: CollectingWorkers | None, span: Span) -> None:
        """Report data whose steps do not follow each other, and a part of a batch that is nothing of it."""
        assert data.hindsight is not None
        ratio, size = data.hindsight.her_ratio, int(data.batch_size.default)
        if int(ratio.default * size) == 0:
            message = f"{ratio.default:g} of {size} frames is none of them: no goal is ever replaced"
            help = "write `her_ratio: 0.8`, or leave out `sampler`"
            self.sink.add(number_rules.DOES_NOT_FIT.at(ratio.span, message, help=help))
        note = Note("goals are replaced here", span)
        if data.n_step is not None:
            message = "`n_step` sums rewards for the goal that there was, which can't be replaced behind it"
            self.report(data.n_step.span, message, "leave it out", note)
        if workers is not None and not workers.sync:
            message = (
                "each batch is of another worker, and steps of its environments do not follow each other"
            )
            self.report(self.file.span(*self.path, "workers", "sync"), message, "write `sync: true`", note)

    def _keys(
        self, data: HindsightData, env: PipelineEnv, losses: tuple[PipelineLoss, ...]
    ) -> HindsightKeys | None:
        """The keys of the data that hindsight is about; None where there are none, which is reported."""
        groups = list(dict.fromkeys(loss.group.name for loss in losses if loss.group is not None))
        if len(groups) > 1:
            message = f"goals of one group are replaced, and {' and '.join(f'`{one}`' for one in groups)} have losses"
            self.report(data.span, message, "leave out `sampler`")
            return None
        found: dict[str, Key] = {}
        for name, said in ((ACHIEVED, data.achieved_goal_key), (DESIRED, data.goal_key)):
            key = name if said is None else said
            if said is None and groups and f"{groups[0]}.{name}" in env.entries:
                key = f"{groups[0]}.{name}"
            if not _is_seen(env.entries.get(key)):
                self._report_unseen(name, key, data, env)
                return None
            found[name] = tuple(key.split("."))
        signals = {name: _signal(losses, name) for name in ("reward", "terminated")}
        done = ("done",) if "done" in env.entries else (*signals["terminated"][:-1], "done")
        return HindsightKeys(found[ACHIEVED], found[DESIRED], signals["reward"], signals["terminated"], done)

    def _report_unseen(self, name: str, key: str, data: HindsightData, env: PipelineEnv) -> None:
        """Report an environment that does not show what was achieved, or the goal."""
        note, field = Note("the environment", env.span), _FIELDS[name]
        message = f"`{env.name}` observes no `{key}`"
        shown = [one.dotted for one in env.observations]
        if (data.achieved_goal_key if name == ACHIEVED else data.goal_key) is not None:
            span = self.file.span(*self.path, "data", "replay", "sampler", "hindsight", field)
            help = suggestion(key, shown) or f"it observes {', '.join(f'`{one}`' for one in shown)}"
            self.report(span, message, help, note)
            return
        what = "what was achieved" if name == ACHIEVED else "the goal"
        help = f"let it observe {what} as `{name}`, say which observation that is (`{field}: …`), or leave out `sampler`"
        self.report(data.span, message, help, note)


class _GoalCheck:
    """Checks goals that there are: whether one can become the other, and which rewards there are for others."""

    def __init__(
        self,
        reader: HindsightReader,
        env: PipelineEnv,
        declared: CheckedEnv | CheckedChain,
        keys: HindsightKeys,
        span: Span,
    ) -> None:
        self._reader, self._env, self._declared, self._keys, self._span = reader, env, declared, keys, span
        self._note = Note("the environment", env.span)
        self._achieved = goal_of(declared, dotted(keys.achieved))
        self._desired = goal_of(declared, dotted(keys.desired))

    def _report(self, message: str, help: str, span: Span | None = None) -> None:
        notes = [self._note] if span is None else []
        self._reader.report(self._span if span is None else span, message, help, *notes)

    def check_goals(self, losses: tuple[PipelineLoss, ...]) -> None:
        """Report goals of which one can't become the other, and networks that do not read these."""
        names, env = (self._achieved.key, self._desired.key), self._env
        achieved, desired = (env.entries[name] for name in names)
        if names[0] == names[1]:
            message = f"`{names[0]}` is what was achieved, and the goal"
            self._report(message, "name two observations: `goal_key` and `achieved_goal_key`")
            return
        if (achieved.stored_shape, achieved.type.dtype) != (desired.stored_shape, desired.type.dtype):
            texts = [f"{one.type.dtype} {list(one.stored_shape)}" for one in (achieved, desired)]
            message = f"`{names[0]}` of `{env.name}` is {texts[0]} and `{names[1]}` {texts[1]}: the one can't become the other"
            self._report(message, "let both be of one type")
            return
        if (apart := self._changed_apart()) is not None:
            help = f"leave `{names[0]}` and `{names[1]}` out of its `in_keys`"
            self._report(f"{apart}: the one can't become the other", help)
        rewarded = [loss for loss in losses if any(role.name == "reward" for role in loss.loss.roles)]
        for network in (one for loss in rewarded for one in loss.networks):
            reads = {entry.dotted for entry in network.layers.reads}
            if names[1] not in reads and not isinstance(network.head, MixerHead):
                message = f"`{network.name}` does not read `{names[1]}`, whose values are replaced"
                wanted = _with_goal([one.dotted for one in network.layers.inputs], names[1])
                place = self._reader.file.key_span(*self._reader.path, "networks", network.name)
                self._report(message, f"write `in: [{', '.join(wanted)}]`", place)
        read = {entry.dotted for loss in losses for one in loss.networks for entry in one.layers.reads}
        for name in dict.fromkeys(self._desired.names[:-1]):
            if name in read - {names[1]}:
                message = f"`{name}` is the goal that there was, and `{names[1]}` the one that is replaced"
                self._report(message, f"let networks read `{names[1]}` itself")
        for made, by in made_of_goals(self._declared, self._desired).items():
            if made in read:
                message = f"{by} makes `{made}` of the goal, and that is not made again for other goals"
                self._report(message, f"let networks read `{names[1]}` itself")

    def _changed_apart(self) -> str | None:
        """Who changes what was achieved otherwise than the goal, or by statistics that each has of its own; None if nobody does."""
        if not isinstance(self._declared, CheckedChain):
            return None
        goals = (self._achieved, self._desired)
        types = {one.origin.type.dtype for one in goals if one.origin is not None}
        for instance in self._declared.instances:
            changed = [one for one in goals if instance in one.changed]
            who = instance.described(self._declared.name)
            if len(changed) == 1 and len(types) == 1:  # else it may give one the type of the other
                (other,) = (one.key for one in goals if one is not changed[0])
                return f"{who}, changes `{changed[0].key}`, and not `{other}`"
            if changed and who in self._env.learned:
                return f"{who}, learns statistics of `{goals[0].key}` and others of `{goals[1].key}`"
        return None

    def check_changed_rewards(self) -> None:
        """Report transforms that change rewards beside a function of the user's, which does not know of them.

        Where no function can give what they do that is an error, else a warning.
        """
        if self._reports_rewards_out_of_reach():
            return
        changing = list(self._rewarding())
        if changing:
            who = " and ".join(dict.fromkeys(f"`{one.transform.name}`" for one in changing))
            message = (
                f"the buffer keeps rewards as they are behind {who}, and `reward` gives those for other goals"
            )
            help = "let the function give what the chain does, and write `allow: [SG653]`; or leave the transform out"
            self._reader.sink.add(rules.REWARDS_CHANGED.at(self._span, message, help=help))

    def _reports_rewards_out_of_reach(self) -> bool:
        """Whether a transform makes rewards that no function of goals gives, which is reported."""
        for instance in self._rewarding():
            if (why := _out_of_reach(instance)) is not None:
                who = instance.described(self._declared.name)
                message = f"{who}, {why}: no function of goals gives those for others"
                self._report(message, "leave the transform out")
                return True
        return False

    def _rewarding(self) -> Iterator[Instance]:
        """The transforms that change rewards."""
        name = dotted(self._keys.reward)
        chain = self._declared if isinstance(self._declared, CheckedChain) else None
        yield from (one for one in (chain.instances if chain else ()) if name in _written(one, name))

    def function(self, name: str) -> Program | None:
        """A function of goals that an environment declares; None where goals do not decide it, or after a mistake."""
        declared, key = self._declared, self._keys.reward if name == "reward" else self._keys.terminated
        base = declared.env.value if isinstance(declared, CheckedChain) else declared
        by_hand = _BY_HAND.format(name)
        if base.gymnasium is not None or base.python is not None:
            if name == "reward":  # else episodes end where they did
                self._report(f"what `{base.name}` rewards is known to its own code alone", by_hand)
            return None
        if name == "reward" and self._reports_rewards_out_of_reach():
            return None
        achieved, desired = self._achieved.origin, self._desired.origin
        found = None
        if achieved is not None and desired is not None:
            found = hindsight_program(base, key, achieved, desired)
            if name == "terminated" and found == Obstacle():
                return None
        changed = next(self._changing(dotted(key)), None)
        if changed is None and found is None:
            unknown = self._achieved if achieved is None else self._desired
            changed = f"a transform of `{self._env.name}`", unknown.key
        if changed is not None:
            by, written = changed
            message = f"{by} writes `{written}`: `{name}` for other goals does not follow"
            given = "(achieved_goal, desired_goal)`"
            help = by_hand.replace(given, f"{given} that gives it as the chain does")
            help += (
                ", and `allow: [SG653]`" if written == dotted(self._keys.reward) and name == "reward" else ""
            )
            self._report(message, help)
            return None
        assert found is not None
        if isinstance(found, Program):
            return found
        self._report_obstacle(found, name, base.name, by_hand)
        return None

    def _report_obstacle(self, found: Obstacle, name: str, env: str, by_hand: str) -> None:
        """Report why a reward, or an end, is no function of the goals."""
        achieved, desired = self._achieved.key, self._desired.key
        if found.hidden:
            message = f"`{found.hidden}` of `{env}` shows nothing of its state as it is"
            self._report(f"{message}: `{name}` for other goals does not follow", by_hand)
        elif found.moves:
            message = f"a step of `{env}` changes the goal: `{name}` for other goals does not follow"
            self._report(message, by_hand)
        elif found.reads:
            message = f"`{name}` of `{env}` reads {', '.join(found.reads)}, which `{achieved}` does not show"
            self._report(message, by_hand)
        else:
            message = f"the reward of `{env}` does not read the goal: it is the same for all"
            self._report(message, f"let it compare `{achieved}` with `{desired}`, or leave out `sampler`")

    def _changing(self, name: str) -> Iterator[tuple[str, str]]:
        """The transforms that write what the environment gave, or its goals, each with what it writes."""
        if not isinstance(self._declared, CheckedChain):
            return
        for instance in self._declared.instances:
            goals = [one.key for one in (self._achieved, self._desired) if instance in one.changed]
            for key in (*(one for one in _written(instance, name) if one == name), *goals):
                yield instance.described(self._declared.name), key


def _is_seen(entry: Entry | None) -> bool:
    return entry is not None and entry.role in ("observation", "state")


def _signal(losses: tuple[PipelineLoss, ...], name: str) -> Key:
    """The key under which losses read the reward, or whether an episode ended, of the next record."""
    keys = (role.key for loss in losses for role in loss.loss.roles if role.name == name)
    key = next(keys, (name,))
    return key[1:] if key[0] == "next" else key


def _written(instance: Instance, name: str) -> Iterator[str]:
    """What a transform writes; of one that takes several steps also what these give."""
    around = instance.transform.around
    yield from (dotted(entry.key) for row in instance.rows for entry in row.outputs.values())
    if around is not None and around.kind != "reset_steps":
        yield name


def _out_of_reach(instance: Instance) -> str | None:
    """Why no function of one step's goals gives the rewards behind a transform; None where one may."""
    if instance.transform.around is not None and instance.transform.around.kind == "repeat":
        return "sums the rewards of several steps"
    return "gives rewards by statistics that it learns" if instance.learns else None


def _params(
    functions: Mapping[str, Program | PythonSource], declared: CheckedEnv | CheckedChain
) -> tuple[str, str] | None:
    """The module and the record of the parameters that the functions read; None where they read none."""
    programs = [one for one in functions.values() if isinstance(one, Program)]
    if not any(given.group == "params" for one in programs for given in one.inputs):
        return None
    owner: CheckedEnv | CheckedChain = declared
    if isinstance(declared, CheckedChain) and not declared.params:
        owner = declared.env.value
    return owner.module, f"{owner.name}Params"


def _with_goal(reads: list[str], goal: str) -> list[str]:
    """What a network is to read: what it does, and the goal behind the observations."""
    first = next((index for index, one in enumerate(reads) if "action" in one.split(".")), len(reads))
    return [*reads[:first], goal, *reads[first:]]
