"""Pipelines: every part checked with what the others say of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from specgen.check.model import Checked, Parameter
from specgen.check.pipelines.acting import ActingReader
from specgen.check.pipelines.amounts import check_amounts, check_use
from specgen.check.pipelines.assigned import assigned, names_of
from specgen.check.pipelines.bonuses import BonusReader
from specgen.check.pipelines.compiled import read_compiled
from specgen.check.pipelines.conversations import ConversationsCheck
from specgen.check.pipelines.data import DataReader, check_keys, discounted
from specgen.check.pipelines.data_model import OnPolicyData, PipelineData, RecordedData, ReplayData
from specgen.check.pipelines.devices import check_devices, read_devices
from specgen.check.pipelines.entries import check_reads, written
from specgen.check.pipelines.env_arguments import EnvArguments
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.envs import environment
from specgen.check.pipelines.episodes import (
    check_episodes,
    check_evaluation,
    check_returns,
    check_target_entropy,
)
from specgen.check.pipelines.estimators import with_estimators
from specgen.check.pipelines.groups import check_groups, measured_group
from specgen.check.pipelines.hindsight import HindsightReader
from specgen.check.pipelines.limits import read_limits
from specgen.check.pipelines.limits_model import Limits
from specgen.check.pipelines.loss_arguments import LossArguments, LossReader
from specgen.check.pipelines.losses import has_advantage, is_on_policy, with_networks
from specgen.check.pipelines.model import (
    Acting,
    CheckedPipeline,
    PipelineLoss,
    PipelineOptimizer,
)
from specgen.check.pipelines.network_names import check_network_names
from specgen.check.pipelines.networks import NetworkReader
from specgen.check.pipelines.next_actions import next_actions
from specgen.check.pipelines.numbers import Numbers
from specgen.check.pipelines.optimizers import OptimizerReader
from specgen.check.pipelines.params import declared_params
from specgen.check.pipelines.parts import check_parts
from specgen.check.pipelines.reader import PartReader, PipelineContext
from specgen.check.pipelines.recorded_conversations import imitating, is_taught
from specgen.check.pipelines.sequences import check_sequences
from specgen.check.pipelines.statistics import check_statistics
from specgen.check.pipelines.targets import read_targets
from specgen.check.pipelines.targets_model import TargetUpdates
from specgen.check.pipelines.teams import mixes_values
from specgen.check.pipelines.trunks import TrunkReader
from specgen.check.pipelines.unread_numbers import report_unread_numbers
from specgen.check.pipelines.until import read_until
from specgen.check.pipelines.visible import Scopes, report_two_of_a_name
from specgen.check.pipelines.workers import check_workers, read_workers
from specgen.check.refused import lost_names
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import pipeline_forms as forms
from specgen.diagnostics.rules import pipelines as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.schema.load import SchemaFile
from specgen.schema.pipeline_networks import NetworkBody
from specgen.values import replace


def check_pipeline(
    file: SchemaFile, name: str, module: str, scopes: Scopes, sink: Sink
) -> Checked[CheckedPipeline] | None:
    """Check a pipeline that is no preset.

    Args:
        file: where it is declared, made whole.
        name: its name under `pipelines:`.
        module: the generated module that it goes to, dotted.
        scopes: what its names mean.
        sink: takes every mistake.
    """
    mine = Sink()
    made = _Pipeline(file, name, module, scopes, mine).check()
    sink.extend(mine.items)
    return None if made is None or mine.has_errors else Checked(made)


class _Pipeline(PartReader):
    """Checks one pipeline, part after part: what a mistake stands in the way of is left out, all else is checked."""

    def __init__(self, file: SchemaFile, name: str, module: str, scopes: Scopes, sink: Sink) -> None:
        path, pipeline = ("pipelines", name), file.module.pipelines[name]
        numbers = Numbers(file, path, pipeline.unit, sink)
        super().__init__(PipelineContext(file, path, pipeline, module, scopes, numbers, sink))
        self.name = name

    def check(self) -> CheckedPipeline | None:
        """The pipeline; None where a mistake stands in the way."""
        pipeline = self.pipeline
        has_env, talks = self.env_place is not None, self._talks(None)
        complete = check_parts(self.context, has_env=has_env, talks=talks, imitates=self._imitates)
        params: Mapping[str, Parameter] = declared_params(self.file, self.path, pipeline.params, self.sink)
        refused = lost_names(self.file, self.path) | (pipeline.params.keys() - params)
        self.numbers.declare(params, refused)
        env = None if self.env_place is None else self._env(self.env_place)
        arguments = None if pipeline.loss is None else LossReader(self.context, env).losses()
        data = None
        if pipeline.data is not None:
            data = DataReader(
                self.context,
                chats=self._talks(env),
                group=1 if env is None or env.chat is None else env.chat.group,
                turns=1 if env is None or env.chat is None else env.chat.max_turns,
            ).data()
        workers = read_workers(self.context, data)
        losses = None if env is None or arguments is None else self._losses(env, arguments, data)
        if losses is not None and isinstance(data, ReplayData):
            data, losses = discounted(self.context, data, losses)
        acting: Acting | None = None
        targets: tuple[TargetUpdates, ...] = ()
        if losses is not None:
            reader = ActingReader(self.context)
            acting = reader.acting(losses, data)
            targets = read_targets(self.context, losses)
        else:
            self._read_numbers()
        optimizers: tuple[PipelineOptimizer, ...] = ()
        if pipeline.optimizer is not None:
            moving = OptimizerReader(self.context, losses or ())
            optimizers = moving.optimizers(pipeline.optimizer)
        devices = read_devices(self.context, losses or ())
        eval_env = self._eval_env(env)
        env, eval_env = self._with_arguments(env, eval_env)
        limits = None
        if pipeline.stop is not None:
            chat = None if eval_env is None else eval_env.chat
            group = 1 if chat is None else chat.group
            sound = data if losses is None or _fit(losses, data) else None
            limits = read_limits(self.context, sound, group)
        if not complete or env is None or arguments is None or losses is None or eval_env is None:
            return None
        named = [(one.name, one.module, one.span) for one in (env, eval_env)]
        named += [(one.loss.name, one.loss.module, one.span) for one in losses]
        models = [(one.language_model, one.span) for loss in losses for one in loss.networks]
        named += [(one.maker, one.module, span) for one, span in models if one is not None]
        report_two_of_a_name(named, self.module, self.sink)
        check_network_names(self.context, losses)
        measured = measured_group(self.context, arguments)
        if data is not None:
            goals = HindsightReader(self.context)
            data = goals.completed(data, env, losses, workers, evaluated=eval_env is env)
            self._check_data(losses, data)
            check_keys(self.context, data, env, losses)
            check_devices(self.context, devices, env, data)
            if env.chat is not None:
                values = tuple(one.values for one in arguments)
                conversations = ConversationsCheck(self.context, env, eval_env)
                conversations.check(losses, values, data, optimizers, limits, workers, devices)
        check_workers(self.context, workers, env, losses)
        if data is not None and acting is not None:
            check_sequences(self.context, losses, acting, data)
        if data is None:
            return None
        until = read_until(self.context, losses)
        bonuses = tuple(BonusReader(self.context).bonuses(losses, data))
        if acting is None or limits is None:
            return None
        self._check_env(env, eval_env, losses, acting, limits)
        check_statistics(env, eval_env, data, workers, devices, self.sink)
        rows = tuple(written(env, acting.networks, losses, data))
        if not isinstance(data, RecordedData):
            for one, loss in zip(arguments, losses, strict=True):
                conditions = one.conditions([network.role.name for network in loss.networks])
                estimating = pipeline.value_estimator is not None
                check_reads(loss, conditions, rows, env, self.sink, estimating=estimating)
        check_use(self.context, params, losses)
        for one, loss in zip(arguments, losses, strict=True):
            report_unread_numbers(self.context, one, loss)
        made = CheckedPipeline(
            name=self.name,
            module=self.module,
            doc=" ".join(pipeline.doc.split()),
            env=env,
            eval_env=eval_env,
            settings=tuple(self.numbers.settings.values()),
            networks=tuple(network for loss in losses for network in loss.networks),
            acting=acting,
            losses=losses,
            data=data,
            targets=targets,
            optimizers=optimizers,
            limits=replace(limits, measured=measured, until=until),
            devices=devices,
            bonuses=bonuses,
            seed=pipeline.seed,
            precision=pipeline.precision,
            compile=read_compiled(self.context, losses, data),
            workers=workers,
            next_actions=next_actions(losses, self.sink),
        )
        if not self.sink.has_errors:
            check_amounts(made, tuple(one.values for one in arguments), self.sink)
        return made

    def _read_numbers(self) -> None:
        """Report numbers out of range where the losses, which say what they mean, have mistakes themselves."""
        estimator = self.pipeline.value_estimator
        kinds = [] if estimator is None else sorted(type(estimator).model_fields.keys() - {"when"})
        for place in (
            *(("value_estimator", kind, field) for kind in kinds for field in ("gamma", "lmbda")),
            ("policy", "explore", "epsilon_greedy", "eps"),
            ("policy", "explore", "gaussian", "sigma"),
            *(("policy", "explore", "ornstein_uhlenbeck", field) for field in ("sigma", "theta", "dt")),
            ("policy", "random_frames"),
            ("target_updater", "soft", "tau"),
            ("target_updater", "hard", "interval"),
        ):
            self.numbers.amount(*place)

    @cached_property
    def env_place(self) -> tuple[str, ...] | None:
        """Where the environment is named; where data are recorded, that of the evaluations says what they hold."""
        pipeline = self.pipeline
        if pipeline.env is not None:
            return ("env",)
        recorded = pipeline.is_recorded or self._imitates
        evaluated = pipeline.evaluate is not None and pipeline.evaluate.env is not None
        return ("evaluate", "env") if recorded and evaluated else None

    def _env(self, place: tuple[str, ...]) -> PipelineEnv | None:
        return environment(self.context, place)

    def _eval_env(self, env: PipelineEnv | None) -> PipelineEnv | None:
        """The environment of evaluations: that of the training, where nothing is said."""
        place, evaluate = ("evaluate", "env"), self.pipeline.evaluate
        said = evaluate is not None and evaluate.env is not None
        return self._env(place) if said and self.env_place != place else env

    def _with_arguments(
        self, env: PipelineEnv | None, eval_env: PipelineEnv | None
    ) -> tuple[PipelineEnv | None, PipelineEnv | None]:
        """The environments with their arguments, whose names give way to those of all else that is a number."""
        reader = EnvArguments(self.context)
        stays = "workers step environments of their own" if self.pipeline.workers is not None else ""
        stays = "only evaluations step the environment" if self.pipeline.is_recorded else stays
        same = eval_env is env
        if env is not None and self.env_place is not None:
            env = reader.given(env, self.env_place, stays=stays)
        if eval_env is not None and not same:
            eval_env = reader.given(eval_env, ("evaluate", "env"), stays="it is that of evaluations")
        return env, env if same else eval_env

    def _losses(
        self, env: PipelineEnv, arguments: tuple[LossArguments, ...], data: PipelineData | None
    ) -> tuple[PipelineLoss, ...] | None:
        """The losses with their networks and estimators; None after reporting a mistake in those."""
        if not check_groups(self.context, env, arguments):
            return None
        roles = {name for one in arguments for name in names_of(one)}
        reader = TrunkReader(self.context, env, roles)
        declared = assigned(self.context, arguments, reader.names)
        if declared is None:
            return None
        trunks = reader.trunks(
            (one.group, name)
            for one, names in zip(arguments, declared, strict=True)
            for name in names.values()
        )
        made: list[PipelineLoss] = []
        for one, names in zip(arguments, declared, strict=True):
            networks = NetworkReader(self.context, env, one, names, trunks).networks()
            if networks is not None:
                made.append(with_networks(self.context, one, networks))
        if len(made) < len(arguments):
            return None
        self._check_terms(arguments)
        return with_estimators(self.context, tuple(made), data, env)

    def _check_env(
        self,
        env: PipelineEnv,
        eval_env: PipelineEnv,
        losses: tuple[PipelineLoss, ...],
        acting: Acting,
        limits: Limits,
    ) -> None:
        declared = self.scopes.at(eval_env.span).envs[eval_env.name]
        assert isinstance(declared, Checked)
        check_episodes(eval_env, declared.value, losses, limits, self.sink)
        check_target_entropy(losses, acting, self.sink)
        if eval_env is not env:
            trained = self.scopes.at(env.span).envs[env.name]
            assert isinstance(trained, Checked)
            if trained.value is not declared.value:
                check_returns(env, trained.value, None, self.sink)
            check_evaluation(env, eval_env, acting, self.sink)

    def _check_terms(self, losses: tuple[LossArguments, ...]) -> None:
        """Report terms that are of none of several losses."""
        for index, name in enumerate(self.pipeline.terms):
            if not any(name.startswith(f"{loss.name}.") or not loss.name for loss in losses):
                span = self.file.span(*self.path, "terms", index)
                message = f"`{name}` is a term of none of several losses"
                help = f"write the loss in front: `{losses[0].name}.{name}`"
                self.sink.add(forms.UNKNOWN_TERM.at(span, message, help=help))

    def _talks(self, env: PipelineEnv | None) -> bool:
        """Whether this is around conversations; where the environment has mistakes, its networks say it."""
        if env is not None:
            return env.chat is not None
        bodies = self.pipeline.networks.values()
        return any(isinstance(body, NetworkBody) and body.causal_lm is not None for body in bodies)

    @cached_property
    def _imitates(self) -> bool:
        """Whether a language model learns from answers of others, by losses that weigh none of its own."""
        here = (*self.path, "loss")
        losses = [
            self.scopes.at(self.file.key_span(*here, name)).losses.get(name)
            for name in self.pipeline.loss or ()
        ]
        known = [loss.value for loss in losses if loss is not None]
        data = self.pipeline.data
        if data is not None and data.on_policy is not None and any(map(is_taught, known)):
            return False  # of its own answers
        return self._talks(None) and 0 < len(known) == len(losses) and not any(map(has_advantage, known))

    def _check_data(self, losses: tuple[PipelineLoss, ...], data: PipelineData) -> None:
        """Whether the losses can learn from these data."""
        weighing = _weighing(losses, data)
        if weighing is not None:
            span = self.file.key_span(*self.path, "data")
            message = f"`{weighing.loss.name}` learns from what the present policy did"
            help = "write `on_policy: {num_envs: 8, num_steps: 128, epochs: 4, minibatch_size: 256}`"
            if any(network.language_model is not None for network in weighing.networks):
                help = "write `on_policy: {num_envs: 64}`"
            self.sink.add(rules.WRONG_DATA.at(span, message, help=help))
        if isinstance(data, ReplayData) and data.sampler == "prioritized":
            self._check_priorities(losses, data)
        apart = (loss.group for loss in losses if not mixes_values(loss.loss))  # with rewards of each agent
        group = next(filter(None, apart), None)
        if isinstance(data, ReplayData) and data.n_step is not None and group is not None:
            message = f"sums over several steps of rewards of `{group.name}` are not available yet"
            self.sink.add(schema_rules.NOT_AVAILABLE.at(data.n_step.span, message, help="leave out `n_step`"))

    def _check_priorities(self, losses: tuple[PipelineLoss, ...], data: ReplayData) -> None:
        span = self.file.key_span(*self.path, "data", data.kind, "sampler")
        writing = [loss for loss in losses if any(one.name == "priority" for one in loss.loss.writes)]
        if not writing:
            who = " and ".join(f"`{loss.loss.name}`" for loss in losses)
            message = f"frames are drawn by priorities, and {who} writes none"
            self.sink.add(rules.PRIORITIES.at(span, message, help="leave out `sampler`"))
        for loss in writing:
            if not any(role.name == "priority_weight" for role in loss.loss.roles):
                message = f"`{loss.loss.name}` has no key `priority_weight`, and does not make up for how frames are drawn"
                help = "declare it: `priority_weight: {key: priority_weight}`"
                self.sink.add(rules.PRIORITIES.at(span, message, help=help))
        if len(writing) > 1:
            who = " and ".join(f"`{loss.name}`" for loss in writing)
            message = f"a frame has one priority, and {who} each write one"
            self.sink.add(rules.PRIORITIES.at(span, message, help="leave out `sampler`"))


def _fit(losses: tuple[PipelineLoss, ...], data: PipelineData | None) -> bool:
    """Whether losses that tell of what kind the data are have such."""
    return _weighing(losses, data) is None and imitating(losses, data) is None


def _weighing(losses: tuple[PipelineLoss, ...], data: PipelineData | None) -> PipelineLoss | None:
    """A loss that needs what the present policy did, where the data are other ones."""
    if data is None or isinstance(data, OnPolicyData):
        return None
    return next((loss for loss in losses if is_on_policy(loss)), None)
