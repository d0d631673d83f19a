"""Where the data of a pipeline come from, and whether the numbers of that fit together."""

from __future__ import annotations

from dataclasses import replace

from specgen.check.pipelines.model import (
    Amount,
    OnPolicyData,
    PipelineData,
    PipelineLoss,
    RecordedData,
    ReplayData,
    SamplerKind,
    Setting,
)
from specgen.check.pipelines.numbers import Numbers, nearest_divisor
from specgen.diagnostics import Note, Sink
from specgen.diagnostics.rules import pipeline_numbers as number_rules
from specgen.diagnostics.rules import pipelines as rules
from specgen.schema.load import SchemaFile
from specgen.schema.pipeline import Pipeline
from specgen.schema.pipeline_data import OnPolicy, Recorded, Replay, Sampler

_KINDS = ("on_policy", "replay", "recorded")


class DataReader:
    """Reads the `data` of one pipeline, around conversations or not."""

    def __init__(
        self,
        file: SchemaFile,
        path: tuple[str, ...],
        pipeline: Pipeline,
        numbers: Numbers,
        sink: Sink,
        *,
        chats: bool = False,
    ) -> None:
        self.file, self.path, self.pipeline, self.numbers, self.sink = file, path, pipeline, numbers, sink
        self.chats = chats
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
            made = self._replay(declared.replay)
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
            num_steps: Setting | None = self._or_default(kind, "num_steps", 1, declared.num_steps)
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
        made = OnPolicyData(num_envs, num_steps, epochs, size, count, accumulate)
        frames = made.frames
        product = f"num_envs * num_steps = {num_envs.default} * {num_steps.default} = {frames}"
        for setting, message in (
            (size, f"minibatches of {size.default if size else 0} do not divide {product}"),
            (count, f"{count.default if count else 0} minibatches do not divide {product}"),
        ):
            if setting is not None and frames % setting.default:
                best = nearest_divisor(frames, setting.default)
                self.sink.add(number_rules.DOES_NOT_FIT.at(setting.span, message, help=f"write {best}"))
        return made

    def _replay(self, declared: Replay) -> ReplayData | None:
        kind = "replay"
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
            warm_up = self.numbers.default("warm_up_frames", batch_size.default)
        self._compare(capacity, batch_size, "a buffer of {} frames holds no batch of {}")
        self._compare(warm_up, batch_size, "after {} frames there is no batch of {} yet")
        self._compare(capacity, warm_up, "a buffer of {} frames never holds the {} of the warm-up")
        sampler, alpha, beta = self._sampler(declared)
        return ReplayData(
            num_envs, num_steps, capacity, batch_size, warm_up, updates, declared.storage, sampler, alpha, beta, n_step
        )  # fmt: skip

    def _sampler(self, declared: Replay) -> tuple[SamplerKind, Setting | None, Amount | None]:
        """How frames are drawn, and the two powers of a prioritized sampler."""
        if not isinstance(declared.sampler, Sampler):
            return declared.sampler, None, None
        place = ("data", "replay", "sampler", "prioritized")
        alpha = self.numbers.setting(*place, "alpha") or self.numbers.default("alpha", 0.6)
        beta = self.numbers.amount(*place, "beta") or Amount(self.numbers.default("beta", 0.4))
        return "prioritized", alpha, beta

    def _compare(self, larger: Setting, smaller: Setting, message: str) -> None:
        if larger.default < smaller.default:
            notes = [Note("the other number", smaller.span)]
            text = message.format(larger.default, smaller.default)
            self.sink.add(number_rules.DOES_NOT_FIT.at(larger.span, text, notes=notes))

    def _recorded(self, declared: Recorded) -> RecordedData | None:
        batch_size = self._needed("recorded", "batch_size", "256")
        if declared.path is None:
            span = self.file.key_span(*self.path, "data", "recorded")
            self.sink.add(
                rules.MISSING_PART.at(span, "`recorded` needs `path`", help="write `path: data/pendulum`")
            )
            self._complete = False
        if batch_size is None or declared.path is None:
            return None
        return RecordedData(declared.path, batch_size)


def discounted(
    data: ReplayData, losses: tuple[PipelineLoss, ...], numbers: Numbers, sink: Sink
) -> tuple[ReplayData, tuple[PipelineLoss, ...]]:
    """Data of several steps and the losses, which discount by one number; reported where none can be sampled in time."""
    if data.n_step is None:
        return data, losses
    waiting = data.n_step.default * data.num_envs.default
    if data.warm_up_frames.default <= waiting:
        message = (
            f"after {data.warm_up_frames.default} frames there may be nothing to sample yet: "
            f"n_step * num_envs = {waiting} of them wait for later steps"
        )
        sink.add(
            number_rules.DOES_NOT_FIT.at(data.n_step.span, message, help="write a larger `warm_up_frames`")
        )
    gamma = numbers.settings.get("gamma") or numbers.default("gamma", 0.99)
    given = tuple(
        replace(one, settings={**one.settings, "gamma": gamma})
        if any(param.name == "gamma" for param in one.loss.params)
        else one
        for one in losses
    )
    return replace(data, gamma=gamma), given
