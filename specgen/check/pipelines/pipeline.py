"""Pipelines: every part checked with what the others say of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from specgen.check.losses.model import CheckedLoss
from specgen.check.model import Checked, Parameter
from specgen.check.pipelines.acting import ActingReader
from specgen.check.pipelines.amounts import check_amounts, check_use
from specgen.check.pipelines.data import DataReader
from specgen.check.pipelines.entries import check_reads, written
from specgen.check.pipelines.envs import environment
from specgen.check.pipelines.episodes import check_episodes, check_evaluation, check_target_entropy
from specgen.check.pipelines.estimators import read_estimation
from specgen.check.pipelines.limits import read_limits
from specgen.check.pipelines.losses import LossArguments, read_loss, with_networks
from specgen.check.pipelines.model import (
    Acting,
    CheckedPipeline,
    Estimation,
    Limits,
    OnPolicyData,
    PipelineData,
    PipelineEnv,
    PipelineLoss,
    PipelineOptimizer,
    RecordedData,
)
from specgen.check.pipelines.networks import NetworkReader
from specgen.check.pipelines.numbers import Numbers
from specgen.check.pipelines.optimizers import OptimizerReader
from specgen.check.pipelines.params import declared_params
from specgen.check.pipelines.targets import read_targets
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import pipelines as rules
from specgen.schema.load import SchemaFile
from specgen.schema.pipeline import Pipeline
from specgen.values import dataclass


@dataclass(frozen=True)
class Visible:
    """What pipelines may name.

    Attributes:
        envs: checked environments and chains.
        losses: checked losses.
        declared_envs, declared_losses: the names of all in sight, those with mistakes included.
    """

    envs: Mapping[str, object]
    losses: Mapping[str, Checked[CheckedLoss]]
    declared_envs: Collection[str]
    declared_losses: Collection[str]


def check_pipeline(
    file: SchemaFile, name: str, module: str, visible: Visible, sink: Sink
) -> Checked[CheckedPipeline] | None:
    """Check a pipeline that is no preset.

    Args:
        file: where it is declared, made whole.
        name: its name under `pipelines:`.
        module: the generated module that it goes to, dotted.
        visible: what it may name.
        sink: takes every mistake.
    """
    mine = Sink()
    made = _Pipeline(file, name, module, visible, mine).check()
    sink.extend(mine.items)
    return None if made is None or mine.has_errors else Checked(made)


class _Pipeline:
    """Checks one pipeline, part after part; a part whose mistake stands in the way of others ends the check."""

    def __init__(self, file: SchemaFile, name: str, module: str, visible: Visible, sink: Sink) -> None:
        self.file, self.name, self.module, self.visible, self.sink = file, name, module, visible, sink
        self.path = ("pipelines", name)
        self.pipeline: Pipeline = file.module.pipelines[name]
        self.numbers = Numbers(file, self.path, sink)

    def check(self) -> CheckedPipeline | None:
        """The pipeline; None where a mistake stands in the way."""
        pipeline = self.pipeline
        complete = self._has_parts()
        params: Mapping[str, Parameter] = declared_params(self.file, self.path, pipeline.params, self.sink)
        self.numbers.declare(params)
        env = None if pipeline.env is None else self._env(("env",))
        arguments = None if pipeline.loss is None else self._loss()
        data = None
        if pipeline.data is not None:
            data = DataReader(self.file, self.path, pipeline, self.numbers, self.sink).data()
        networks = None
        if env is not None and arguments is not None:
            networks = NetworkReader(
                self.file, self.path, pipeline, env, arguments, self.numbers, self.sink
            ).networks()
        estimation = None
        if arguments is not None:
            estimation = read_estimation(
                self.file, self.path, pipeline, arguments.loss, data, self.numbers, self.sink
            )
        loss = None
        if arguments is not None and networks is not None:
            loss = with_networks(arguments, networks, self.file)
        acting = targets = None
        if loss is not None:
            reader = ActingReader(self.file, self.path, pipeline, self.numbers, self.sink)
            acting = reader.acting(loss, data)
            targets = read_targets(self.file, self.path, pipeline, loss, self.numbers, self.sink)
        optimizers: tuple[PipelineOptimizer, ...] = ()
        if pipeline.optimizer is not None:
            moving = OptimizerReader(self.file, self.path, loss, self.numbers, self.sink)
            optimizers = moving.optimizers(pipeline.optimizer)
        limits = None
        if pipeline.stop is not None:
            limits = read_limits(self.file, self.path, pipeline, data, self.numbers, self.sink)
        eval_env = self._eval_env(env)
        if not complete or env is None or arguments is None or loss is None or eval_env is None:
            return None
        if data is not None:
            self._check_data(loss, data)
        if data is None or acting is None or limits is None:
            return None
        self._check_env(env, eval_env, loss, acting, estimation, limits)
        rows = tuple(written(env, acting.network, estimation, loss, data))
        if not isinstance(data, RecordedData):
            check_reads(loss, arguments.given([one.name for one in loss.networks]), rows, env, self.sink)
        check_use(self.file, self.path, params, loss, self.numbers, self.sink)
        made = CheckedPipeline(
            name=self.name,
            module=self.module,
            doc=" ".join(pipeline.doc.split()),
            env=env,
            eval_env=eval_env,
            settings=tuple(self.numbers.settings.values()),
            networks=loss.networks,
            acting=acting,
            loss=loss,
            estimation=estimation,
            data=data,
            targets=targets,
            optimizers=optimizers,
            limits=limits,
            seed=pipeline.seed,
        )
        if not self.sink.has_errors:
            check_amounts(made, arguments.values, self.sink)
        return made

    def _env(self, place: tuple[str, ...]) -> PipelineEnv | None:
        visible = self.visible
        return environment(
            self.file, self.path, place, self.pipeline, visible.envs, visible.declared_envs, self.sink
        )

    def _eval_env(self, env: PipelineEnv | None) -> PipelineEnv | None:
        """The environment of evaluations: that of the training, where nothing is said."""
        evaluate = self.pipeline.evaluate
        return env if evaluate is None or evaluate.env is None else self._env(("evaluate", "env"))

    def _loss(self) -> LossArguments | None:
        losses, declared = dict(self.visible.losses), self.visible.declared_losses
        return read_loss(self.file, self.path, losses, declared, self.numbers, self.sink)

    def _check_env(
        self,
        env: PipelineEnv,
        eval_env: PipelineEnv,
        loss: PipelineLoss,
        acting: Acting,
        estimation: Estimation | None,
        limits: Limits,
    ) -> None:
        declared = self.visible.envs[eval_env.name]
        assert isinstance(declared, Checked)
        check_episodes(eval_env, declared.value, estimation, limits, self.sink)
        check_target_entropy(loss, acting, self.sink)
        if eval_env is not env:
            check_evaluation(env, eval_env, acting, self.sink)

    def _has_parts(self) -> bool:
        """Whether all parts are there that a pipeline needs."""
        pipeline = self.pipeline
        needed = {
            "env": "env: CartPoleTrain",
            "loss": "loss: {DQNLoss: {}}",
            "data": "data: {replay: {capacity: 100_000, batch_size: 128}}",
            "optimizer": "optimizer: {adam: {lr: 3.0e-4}}",
            "stop": "stop: {frames: 200_000}",
        }
        missing = {name: text for name, text in needed.items() if getattr(pipeline, name) is None}
        for name, text in missing.items():
            message = f"`{self.name}` says no `{name}`"
            self.sink.add(
                rules.MISSING_PART.at(self.file.key_span(*self.path), message, help=f"write `{text}`")
            )
        return not missing

    def _check_data(self, loss: PipelineLoss, data: PipelineData) -> None:
        """Whether the loss can learn from these data."""
        name = loss.loss.name
        if loss.on_policy and not isinstance(data, OnPolicyData):
            span = self.file.key_span(*self.path, "data")
            message = f"`{name}` learns from what the present policy did"
            help = "write `on_policy: {num_envs: 8, num_steps: 128, epochs: 4, minibatch_size: 256}`"
            self.sink.add(rules.WRONG_DATA.at(span, message, help=help))
        if getattr(data, "sampler", "") == "prioritized":
            span = self.file.key_span(*self.path, "data", "replay", "sampler")
            if not any(write.name == "priority" for write in loss.loss.writes):
                message = f"frames are drawn by priorities, and `{name}` writes none"
                self.sink.add(rules.PRIORITIES.at(span, message, help="leave out `sampler`"))
            elif not any(role.name == "priority_weight" for role in loss.loss.roles):
                message = (
                    f"`{name}` has no key `priority_weight`, and does not make up for how frames are drawn"
                )
                help = "declare it: `priority_weight: {key: priority_weight}`"
                self.sink.add(rules.PRIORITIES.at(span, message, help=help))
