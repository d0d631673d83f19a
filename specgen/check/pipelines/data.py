"""Where the data of a pipeline come from, and whether the numbers of that fit together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from specgen.check.model import dotted
from specgen.check.pipelines.data_model import (
    HindsightData,
    OnPolicyData,
    PipelineData,
    RecordedData,
    ReplayData,
    SamplerKind,
)
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.fields import RECORDED_FRACTION
from specgen.check.pipelines.model import Amount, PipelineLoss, Setting
from specgen.check.pipelines.numbers import nearest_divisor
from specgen.check.pipelines.reader import PartReader, PipelineContext
from specgen.check.pipelines.recorded_conversations import read_conversations
from specgen.check.python_source import python_source
from specgen.diagnostics import Note, suggestion
from specgen.diagnostics.rules import pipeline_data as data_rules
from specgen.diagnostics.rules import pipeline_language_models as model_rules
from specgen.diagnostics.rules import pipeline_numbers as number_rules
from specgen.diagnostics.rules import pipelines as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.expr.symbols import Key
from specgen.schema.pipeline_data import Hindsight, OnlineAndRecorded, OnPolicy, Recorded, Replay, Sampler
from specgen.values import replace

_KINDS = ("on_policy", "replay", "recorded", "online_and_recorded")


class _SamplerNumbers(TypedDict, total=False):
    """The numbers of how frames are drawn."""

    alpha: Setting | None
    beta: Amount | None
    slice_length: Setting | None
    hindsight: HindsightData | None


class DataReader(PartReader):
    """Reads the `data` of one pipeline, around conversations (`group` about a prompt, of `turns` answers) or not."""

    def __init__(
        self, context: PipelineContext, *, chats: bool = False, group: int = 1, turns: int | None = 1
    ) -> None:
        super().__init__(context)
        self.chats, self.group, self.turns = chats, group, turns
        self._complete = True

    def data(self) -> PipelineData | None:
        """Where the data come from; None after reporting a mistake."""
        declared = self.pipeline.data
        assert declared is not None
        given = [kind for kind in _KINDS if getattr(declared, kind) is not None]
        if len(given) != 1:
            which = " and ".join(f"`{kind}`" for kind in given) or "none"
            message = f"data are one of {', '.join(f'`{kind}`' for kind in _KINDS)}; here is {which}"
            self.sink.add(rules.CHOICE.at(self.file.key_span(*self.path, "data"), message))
            return None
        made: PipelineData | None
        if declared.on_policy is not None:
            made = self._on_policy(declared.on_policy)
        elif declared.replay is not None:
            made = self._replay("replay", declared.replay, None)
        elif declared.online_and_recorded is not None:
            made = self._online_and_recorded(declared.online_and_recorded)
        else:
            assert declared.recorded is not None
            made = self._recorded(declared.recorded)
        return made if self._complete else None

    def _needed(self, kind: str, field: str, example: str) -> Setting | None:
        setting = self.numbers.setting("data", kind, field)
        if setting is None:
            declared = getattr(self.pipeline.data, kind)
            if getattr(declared, field) is None:
                span = self.file.key_span(*self.path, "data", kind)
                self.sink.add(
                    rules.MISSING_PART.at(
                        span, f"`{kind}` needs `{field}`", help=f"write `{field}: {example}`"
                    )
                )
            self._complete = False
        return setting

    def _or_default(self, kind: str, field: str, default: float, given: object) -> Setting:
        setting = self.numbers.setting("data", kind, field)
        if setting is None:
            self._complete = self._complete and given is None
            return self.numbers.default(field, default)
        return setting

    def _on_policy(self, declared: OnPolicy) -> OnPolicyData | None:
        kind = "on_policy"
        num_envs = self._or_default(kind, "num_envs", 1, declared.num_envs)
        if self.chats:
            num_steps: Setting | None = self._or_default(
                kind, "num_steps", self.turns or 1, declared.num_steps
            )
        else:
            num_steps = self._needed(kind, "num_steps", "128")
        epochs = self._or_default(kind, "epochs", 1, declared.epochs)
        size = self.numbers.setting("data", kind, "minibatch_size")
        count = self.numbers.setting("data", kind, "minibatches")
        accumulate = self.numbers.setting("data", kind, "accumulate")
        if num_steps is None:
            return None
        if size is not None and count is not None:
            span = self.file.key_span(*self.path, "data", kind, "minibatches")
            self.sink.add(
                rules.CHOICE.at(span, "`minibatches` says what `minibatch_size` says", help="leave out one")
            )
        if size is None and count is None:
            count = self.numbers.default("minibatches", 1)
        made = OnPolicyData(num_envs, num_steps, epochs, size, count, accumulate, declared.shuffle)
        frames = made.frames
        # where groups are not whole, or updates are of whole conversations, that alone is said
        whole = num_envs.default % self.group == 0 and self.turns == 1
        product = f"num_envs * num_steps = {num_envs.default} * {num_steps.default} = {frames}"
        for setting, message in (
            (size, f"minibatches of {size.default if size else 0} do not divide {product}"),
            (count, f"{count.default if count else 0} minibatches do not divide {product}"),
        ):
            if setting is not None and whole and frames % setting.default:
                best = nearest_divisor(frames, setting.default)
                self.sink.add(number_rules.DOES_NOT_FIT.at(setting.span, message, help=f"write {best}"))
        return made

    def _online_and_recorded(self, declared: OnlineAndRecorded) -> ReplayData | None:
        kind = "online_and_recorded"
        if declared.path is None:
            self._report_no_path(kind)
        fraction = self.numbers.setting("data", kind, "fraction", fact=RECORDED_FRACTION)
        made = self._replay(kind, declared, declared.path, apart=declared.fraction is not None)
        if made is None:
            return None
        self._check_recorded(made)
        if fraction is not None:
            self._check_fraction(made, fraction)
        return replace(made, fraction=fraction, keys=_keys(declared.keys))

    def _check_fraction(self, data: ReplayData, fraction: Setting) -> None:
        """Report a fraction that leaves no frame of one kind in a batch, or priorities of frames in two places."""
        size = data.batch_size.default
        if not 1 <= round(fraction.default * size) < size:
            message = f"a fraction of {fraction.default:g} of {size} frames is none of them, or all"
            help = f"write a fraction between {1 / size:g} and {1 - 1 / size:g}"
            self.sink.add(number_rules.DOES_NOT_FIT.at(fraction.span, message, help=help))
        if data.sampler == "prioritized":
            span = self.file.key_span(*self.path, "data", data.kind, "sampler")
            message = "with `fraction` recorded frames are in a place of their own, which keeps no priorities"
            self.sink.add(rules.PRIORITIES.at(span, message, help="leave out `sampler`, or `fraction`"))

    def _check_recorded(self, data: ReplayData) -> None:
        """Report buffers of sequences, which single transitions are none of."""
        wanted = {"sampler": data.slice_length, "hindsight": data.hindsight, "n_step": data.n_step}
        for field, said in wanted.items():
            if said is not None:
                message = (
                    f"`{field}` needs steps that follow each other, and recorded transitions are single ones"
                )
                help = "leave it out, or collect all data: `replay`"
                self.sink.add(data_rules.SINGLE_TRANSITIONS.at(said.span, message, help=help))

    def _replay(
        self, kind: str, declared: Replay, recorded: str | None, *, apart: bool = False
    ) -> ReplayData | None:
        full = recorded is not None and not apart  # when nothing is collected yet
        num_envs = self._or_default(kind, "num_envs", 1, declared.num_envs)
        num_steps = self._or_default(kind, "num_steps", 1, declared.num_steps)
        capacity = self._needed(kind, "capacity", "100_000")
        batch_size = self._needed(kind, "batch_size", "256")
        updates = self._or_default(kind, "updates", 1, declared.updates)
        n_step = self.numbers.setting("data", kind, "n_step")
        if capacity is None or batch_size is None:
            return None
        warm_up = self.numbers.setting("data", kind, "warm_up_frames")
        if warm_up is None:
            usual = 0 if full else batch_size.default
            warm_up = self.numbers.default("warm_up_frames", usual)
        sampler, numbers = self._sampler(kind, declared)
        length = numbers.get("slice_length")
        first = (
            batch_size.default
            if length is None
            else max(batch_size.default, num_envs.default * length.default)
        )
        self._compare(
            capacity, batch_size, "a buffer of {} frames holds no batch of {}", 10 * batch_size.default
        )
        if not full:
            self._compare(warm_up, batch_size, "after {} frames there is no batch of {} yet", first)
        if capacity.default >= batch_size.default:
            text = "a buffer of {} frames never holds the {} of the warm-up"
            self._compare(capacity, warm_up, text, warm_up.default)
        made = ReplayData(
            num_envs, num_steps, capacity, batch_size, warm_up, updates, declared.updates is not None,
            declared.storage, sampler, n_step=n_step, recorded=recorded, **numbers,
        )  # fmt: skip
        if recorded is None:  # where slices are refused themselves
            self._check_slices(made)
        return made

    def _sampler(self, kind: str, declared: Replay) -> tuple[SamplerKind, _SamplerNumbers]:
        """How frames are drawn, and the numbers of that."""
        if not isinstance(declared.sampler, Sampler):
            return declared.sampler, {}
        place = ("data", kind, "sampler")
        kinds = ("prioritized", "slices", "hindsight")
        given = [one for one in kinds if getattr(declared.sampler, one) is not None]
        if len(given) != 1:
            message = "frames are drawn `prioritized`, as `slices`, or with goals in `hindsight`"
            self.sink.add(rules.CHOICE.at(self.file.key_span(*self.path, *place), message))
            self._complete = False
            return "uniform", {}
        if declared.sampler.slices is not None:
            length = self.numbers.setting(*place, "slices", "length")
            if length is None and declared.sampler.slices.length is None:
                span = self.file.key_span(*self.path, *place, "slices")
                message = "`slices` needs `length`"
                self.sink.add(rules.MISSING_PART.at(span, message, help="write `length: 16`"))
            self._complete = self._complete and length is not None
            return "slices", {"slice_length": length}
        if declared.sampler.hindsight is not None:
            return "hindsight", {
                "hindsight": self._hindsight((*place, "hindsight"), declared.sampler.hindsight)
            }
        alpha = self.numbers.setting(*place, "prioritized", "alpha") or self.numbers.default("alpha", 0.6)
        beta = self.numbers.amount(*place, "prioritized", "beta") or Amount(self.numbers.default("beta", 0.4))
        return "prioritized", {"alpha": alpha, "beta": beta}

    def _hindsight(self, place: tuple[str, ...], declared: Hindsight) -> HindsightData:
        """How goals are replaced; functions that are not named are still missing."""
        her_ratio = self.numbers.setting(*place, "her_ratio") or self.numbers.default("her_ratio", 0.8)
        functions = {
            name: python_source(
                self.file.scalar(*self.path, *place, name), self.module, self.sink, "function", name
            )
            for name in ("reward", "terminated")
            if getattr(declared, name) is not None
        }
        span = self.file.key_span(*self.path, *place)
        keys = declared.goal_key, declared.achieved_goal_key
        return HindsightData(her_ratio, declared.strategy, functions, span, *keys)

    def _check_slices(self, data: ReplayData) -> None:
        """Report slices that do not fit the numbers of the buffer, or its other transitions."""
        length = data.slice_length
        if length is None:
            return
        steps, notes = length.default, [Note("the slices", length.span)]
        if data.batch_size.default % steps:
            message = f"slices of {steps} steps do not divide batches of {data.batch_size.default} frames"
            help = f"write {max(1, round(data.batch_size.default / steps)) * steps}"
            self.sink.add(number_rules.DOES_NOT_FIT.at(data.batch_size.span, message, notes=notes, help=help))
        needed = data.num_envs.default * steps
        if data.batch_size.default <= data.warm_up_frames.default < needed:  # fewer are reported already
            message = f"after {data.warm_up_frames.default} frames no environment has done {steps} steps"
            help = f"write `warm_up_frames: {max(needed, 10 * steps)}` or more"
            self.sink.add(
                number_rules.DOES_NOT_FIT.at(data.warm_up_frames.span, message, notes=notes, help=help)
            )
        if data.n_step is not None:
            message = "`n_step` sums the rewards of steps that lie in a slice themselves"
            help = "leave it out: over slices, `td_lambda` sums them"
            self.sink.add(data_rules.SLICES.at(data.n_step.span, message, notes=notes, help=help))
        workers = self.pipeline.workers
        if workers is not None and not workers.sync:
            span = self.file.span(*self.path, "workers", "sync")
            message = (
                "each batch is of another worker, and steps of its environments do not follow each other"
            )
            self.sink.add(data_rules.SLICES.at(span, message, notes=notes, help="write `sync: true`"))

    def _compare(self, larger: Setting, smaller: Setting, message: str, enough: float) -> None:
        """Report a number that is smaller than another one; `enough` is what would do."""
        if larger.default < smaller.default:
            notes = [Note("the other number", smaller.span)]
            text = message.format(larger.default, smaller.default)
            help = f"write `{larger.name}: {enough}` or more"
            self.sink.add(number_rules.DOES_NOT_FIT.at(larger.span, text, notes=notes, help=help))

    def _recorded(self, declared: Recorded) -> RecordedData | None:
        batch_size = self._needed("recorded", "batch_size", "256")
        here = (*self.path, "data", "recorded")
        for field in ("conversations", "ref_model"):
            if not self.chats and getattr(declared, field) is not None:
                message = f"`{field}` is for language models, and there are none here"
                help = "leave it out, and write `path`"
                span = self.file.key_span(*here, field)
                self.sink.add(model_rules.RECORDED_CONVERSATIONS.at(span, message, help=help))
                return None
        if self.chats and declared.keys:
            message = "`keys` says what entries of files are called, and conversations come from a function"
            span = self.file.key_span(*here, "keys")
            self.sink.add(model_rules.RECORDED_CONVERSATIONS.at(span, message, help="leave it out"))
        if (declared.conversations if self.chats else declared.path) is None:
            self._report_no_path("recorded")
        if batch_size is None or not self._complete:
            return None
        if self.chats:
            return read_conversations(
                *(self.file, self.path, declared, self.module, self.scopes, batch_size, self.sink)
            )
        return RecordedData(batch_size, declared.path, _keys(declared.keys))

    def _report_no_path(self, kind: str) -> None:
        span = self.file.key_span(*self.path, "data", kind)
        chats = self.chats and kind == "recorded"
        field, example = (
            ("conversations", '"package.module:function"') if chats else ("path", "data/pendulum")
        )
        message = f"`{kind}` needs `{field}`"
        self.sink.add(rules.MISSING_PART.at(span, message, help=f"write `{field}: {example}`"))
        self._complete = False


def check_keys(
    context: PipelineContext, data: PipelineData, env: PipelineEnv, losses: tuple[PipelineLoss, ...]
) -> None:
    """Report names of recorded entries that the pipeline does not have."""
    file, path, sink = context.file, context.path, context.sink
    if isinstance(data, OnPolicyData) or not data.keys:
        return
    here = [*env.entries, *(dotted(entry.key) for entry in env.actions)]
    here += [f"next.{name}" for name in env.entries]
    here += [dotted(role.key) for loss in losses for role in loss.loss.roles]
    for key in data.keys:
        if dotted(key) not in here:
            span = file.key_span(*path, "data", data.kind, "keys", dotted(key))
            message = f"there is no entry `{dotted(key)}` here that could have another name in the files"
            help = (
                suggestion(dotted(key), here)
                or f"`{env.name}` gives {', '.join(f'`{one}`' for one in env.entries)}"
            )
            sink.add(schema_rules.UNKNOWN_FIELD.at(span, message, help=help))


def _keys(declared: Mapping[str, str]) -> dict[Key, Key]:
    """What entries are called in the files, by what they are called in the training."""
    return {tuple(here.split(".")): tuple(there.split(".")) for here, there in declared.items()}


def discounted(
    context: PipelineContext, data: ReplayData, losses: tuple[PipelineLoss, ...]
) -> tuple[ReplayData, tuple[PipelineLoss, ...]]:
    """Data of several steps and the losses, which discount by one number; reported where none can be sampled in time."""
    if data.n_step is None:
        return data, losses
    waiting = data.n_step.default * data.num_envs.default
    if data.recorded is None and data.warm_up_frames.default <= waiting:
        message = (
            f"after {data.warm_up_frames.default} frames there may be nothing to sample yet: "
            f"n_step * num_envs = {waiting} of them wait for later steps"
        )
        context.sink.add(
            number_rules.DOES_NOT_FIT.at(data.n_step.span, message, help="write a larger `warm_up_frames`")
        )
    numbers = context.numbers
    gamma = numbers.settings.get("gamma") or numbers.default("gamma", 0.99)
    given = tuple(
        replace(one, settings={**one.settings, "gamma": gamma})
        if any(param.name == "gamma" for param in one.loss.params)
        else one
        for one in losses
    )
    return replace(data, gamma=gamma), given
