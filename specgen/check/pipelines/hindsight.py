"""Replay buffers whose goals are replaced by what was achieved: whether that can be, and the rewards for other goals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specgen.check.chains.model import CheckedChain
from specgen.check.model import Checked, CheckedEnv, dotted
from specgen.check.pipelines.data_model import PipelineData, ReplayData
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.model import PipelineLoss
from specgen.check.pipelines.reader import PartReader
from specgen.check.pipelines.workers_model import CollectingWorkers
from specgen.check.programs.hindsight import Obstacle, hindsight_program
from specgen.check.sources import PythonSource
from specgen.diagnostics import Note, Span
from specgen.diagnostics.rules import pipeline_hindsight as rules
from specgen.diagnostics.rules import pipeline_numbers as number_rules
from specgen.program.program import Program
from specgen.values import replace

ACHIEVED, DESIRED = "achieved_goal", "desired_goal"

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
        before = len(self.sink.items)
        self._check_steps(data, workers, span)
        self._check_goals(env, losses, span)
        if len(self.sink.items) > before:
            return data
        declared = self.scopes.at(env.span).envs[env.name]
        assert isinstance(declared, Checked)
        functions = dict(data.hindsight.functions)
        if "reward" in functions:
            self._warn_of_changed_rewards(declared.value, span)
        for name in ("reward", "terminated"):
            if (
                name not in functions and len(self.sink.items) == before
            ):  # one mistake stands in the way of both
                found = self._function(name, declared.value, env, span)
                functions |= {name: found} if found is not None else {}
        params = self._params(functions, declared.value)
        if params is not None and workers is not None and not evaluated:
            message = f"the reward in hindsight reads the parameters of `{env.name}`, which workers have"
            self._report(span, message, _BY_HAND.format("reward"))
        return replace(data, hindsight=replace(data.hindsight, functions=functions, params=params))

    def _report(self, span: Span, message: str, help: str, *notes: Note) -> None:
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
            self._report(data.n_step.span, message, "leave it out", note)
        if workers is not None and not workers.sync:
            message = (
                "each batch is of another worker, and steps of its environments do not follow each other"
            )
            self._report(self.file.span(*self.path, "workers", "sync"), message, "write `sync: true`", note)

    def _check_goals(self, env: PipelineEnv, losses: tuple[PipelineLoss, ...], span: Span) -> None:
        """Report environments without goals that can be replaced, and networks that do not read these."""
        note = Note("the environment", env.span)
        group = next((loss.group for loss in losses if loss.group is not None), None)
        if group is not None:
            message = f"goals of the agents of `{group.name}` can't be replaced yet"
            self._report(span, message, "leave out `sampler`")
            return
        goals = [env.entries.get(name) for name in (ACHIEVED, DESIRED)]
        for name, entry in zip((ACHIEVED, DESIRED), goals, strict=True):
            if entry is None or entry.role not in ("observation", "state"):
                what = "what was achieved" if name == ACHIEVED else "the goal"
                help = f"let it observe {what} as `{name}`, or leave out `sampler`"
                self._report(span, f"`{env.name}` observes no `{name}`", help, note)
                return
        achieved, desired = goals
        assert achieved is not None
        assert desired is not None
        if (achieved.stored_shape, achieved.type.dtype) != (desired.stored_shape, desired.type.dtype):
            texts = [f"{one.type.dtype} {list(one.stored_shape)}" for one in (achieved, desired)]
            message = f"`{ACHIEVED}` of `{env.name}` is {texts[0]} and `{DESIRED}` {texts[1]}: the one can't become the other"
            self._report(span, message, "let both be of one type", note)
            return
        if (apart := self._changed_apart(env)) is not None:
            help = f"leave `{ACHIEVED}` and `{DESIRED}` out of its `in_keys`"
            self._report(span, f"{apart}: the one can't become the other", help, note)
        for network in (one for loss in losses if loss.estimation is not None for one in loss.networks):
            if DESIRED not in {entry.dotted for entry in network.layers.reads}:
                message = f"`{network.name}` does not read `{DESIRED}`, whose values are replaced"
                help = f"write `in: [{', '.join(_with_goal([one.dotted for one in network.layers.inputs]))}]`"
                place = self.file.key_span(*self.path, "networks", network.name)
                self._report(place, message, help)
        read = {entry.dotted for loss in losses for one in loss.networks for entry in one.layers.reads}
        for made, by in _made_of_goals(self.scopes.at(env.span).envs[env.name]):
            if made in read:
                message = f"{by} makes `{made}` of the goal, and that is not made again for other goals"
                self._report(span, message, f"let networks read `{DESIRED}` itself", note)

    def _warn_of_changed_rewards(self, declared: CheckedEnv | CheckedChain, span: Span) -> None:
        """Warn where a function of the user gives rewards beside those that transforms have changed."""
        changing = [by.partition(",")[0] for by, key in _changing(declared, "reward") if key == "reward"]
        if changing:
            who = " and ".join(dict.fromkeys(changing))
            message = (
                f"the buffer keeps rewards as they are behind {who}, and `reward` gives those for other goals"
            )
            help = "let the function give what the chain does, and write `allow: [SG653]`; or leave the transform out"
            self.sink.add(rules.REWARDS_CHANGED.at(span, message, help=help))

    def _changed_apart(self, env: PipelineEnv) -> str | None:
        """Who changes what was achieved otherwise than the goal, or by statistics that each has of its own; None if nobody does."""
        declared = self.scopes.at(env.span).envs[env.name]
        assert isinstance(declared, Checked)
        if not isinstance(declared.value, CheckedChain):
            return None
        given = declared.value.env.value.returned
        types = {given[key].type.dtype for key in (ACHIEVED, DESIRED) if key in given}
        for instance in declared.value.instances:
            rows = (entry.dotted for row in instance.rows for entry in row.outputs.values())
            changed = [key for key in rows if key in (ACHIEVED, DESIRED)]
            who = instance.described(declared.value.name)
            if len(changed) == 1 and len(types) == 1:  # else it may give one the type of the other
                (other,) = {ACHIEVED, DESIRED} - {*changed}
                return f"{who}, changes `{changed[0]}`, and not `{other}`"
            if changed and who in env.learned:
                return f"{who}, learns statistics of `{ACHIEVED}` and others of `{DESIRED}`"
        return None

    def _function(
        self, name: str, declared: CheckedEnv | CheckedChain, env: PipelineEnv, span: Span
    ) -> Program | None:
        """A function of goals that an environment declares; None where goals do not decide it, or after a mistake."""
        note = Note("the environment", env.span)
        base = declared.env.value if isinstance(declared, CheckedChain) else declared
        by_hand = _BY_HAND.format(name)
        if base.gymnasium is not None or base.python is not None:
            if name == "reward":  # else episodes end where they did
                message = f"what `{base.name}` rewards is known to its own code alone"
                self._report(span, message, by_hand, note)
            return None
        entries = base.returned
        found = None
        if {ACHIEVED, DESIRED} <= entries.keys():
            found = hindsight_program(base, name, entries[ACHIEVED], entries[DESIRED])
            if name == "terminated" and found == Obstacle():
                return None
        changed = next(_changing(declared, name), None)
        if changed is None and found is None:
            changed = f"a transform of `{env.name}`", ACHIEVED if ACHIEVED not in entries else DESIRED
        if changed is not None:
            by, key = changed
            message = f"{by} writes `{key}`: `{name}` for other goals does not follow"
            self._report(
                span,
                message,
                by_hand.replace(
                    "(achieved_goal, desired_goal)`",
                    "(achieved_goal, desired_goal)` that gives it as the chain does",
                )
                + (", and `allow: [SG653]`" if name == key == "reward" else ""),
                note,
            )
            return None
        assert found is not None
        if isinstance(found, Program):
            return found
        if found.hidden:
            message = f"`{found.hidden}` of `{base.name}` shows nothing of its state as it is"
            self._report(span, f"{message}: `{name}` for other goals does not follow", by_hand, note)
        elif found.moves:
            message = f"a step of `{base.name}` changes the goal: `{name}` for other goals does not follow"
            self._report(span, message, by_hand, note)
        elif found.reads:
            message = (
                f"`{name}` of `{base.name}` reads {', '.join(found.reads)}, which `{ACHIEVED}` does not show"
            )
            self._report(span, message, by_hand, note)
        else:
            message = f"the reward of `{base.name}` does not read the goal: it is the same for all"
            self._report(
                span, message, f"let it compare `{ACHIEVED}` with `{DESIRED}`, or leave out `sampler`", note
            )
        return None

    def _params(
        self, functions: Mapping[str, Program | PythonSource], declared: CheckedEnv | CheckedChain
    ) -> tuple[str, str] | None:
        """The module and the record of the parameters that the functions read; None where they read none."""
        programs = [one for one in functions.values() if isinstance(one, Program)]
        if not any(given.group == "params" for one in programs for given in one.inputs):
            return None
        owner: CheckedEnv | CheckedChain = declared
        if isinstance(declared, CheckedChain) and not declared.params:
            owner = declared.env.value
        return owner.module, f"{owner.name}Params"


def _with_goal(reads: list[str]) -> list[str]:
    """What a network is to read: what it does, and the goal behind the observations."""
    first = next((index for index, one in enumerate(reads) if one.split(".")[0] == "action"), len(reads))
    return [*reads[:first], DESIRED, *reads[first:]]


def _made_of_goals(declared: object) -> Iterator[tuple[str, str]]:
    """What transforms make of the goal, each with which one does."""
    chain = declared.value if isinstance(declared, Checked) else None
    if not isinstance(chain, CheckedChain):
        return
    made: set[str] = {DESIRED}
    for instance in chain.instances:
        for row in instance.rows:
            if made & {entry.dotted for entry in row.inputs.values()}:
                for entry in row.outputs.values():
                    made.add(entry.dotted)
                    if entry.dotted != DESIRED:
                        yield entry.dotted, instance.described(chain.name)


def _changing(declared: CheckedEnv | CheckedChain, name: str) -> Iterator[tuple[str, str]]:
    """The transforms that write what the environment gave, or its goals, each with what it writes."""
    if not isinstance(declared, CheckedChain):
        return
    for instance in declared.instances:
        around = instance.transform.around
        written = [dotted(entry.key) for row in instance.rows for entry in row.outputs.values()]
        written += [name] if around is not None and around.kind != "reset_steps" else []
        for key in written:
            if key in (name, ACHIEVED, DESIRED):
                yield instance.described(declared.name), key
