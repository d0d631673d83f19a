"""Pipelines: every part checked with what the others say of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from specgen.check.losses.model import CheckedLoss
from specgen.check.model import Checked, Parameter
from specgen.check.pipelines.assigned import assigned
from specgen.check.pipelines.data import DataReader
from specgen.check.pipelines.entries import check_reads, written
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.envs import environment
from specgen.check.pipelines.estimators import with_estimators
from specgen.check.pipelines.fields import TARGETS_EVERY
from specgen.check.pipelines.groups import check_groups, measured_group
from specgen.check.pipelines.limits import read_limits
from specgen.check.pipelines.losses import LossArguments, read_losses, with_networks
from specgen.check.pipelines.model import (
    Acting,
    CheckedPipeline,
    Exploration,
    OnPolicyData,
    PipelineLoss,
    PipelineNetwork,
    PolicyHead,
    QValueHead,
    RecordedData,
    ReplayData,
    TargetUpdates,
)
from specgen.check.pipelines.networks import NetworkReader
from specgen.check.pipelines.numbers import Numbers
from specgen.check.pipelines.optimizers import OptimizerReader
from specgen.check.pipelines.params import declared_params
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import pipeline_forms as forms
from specgen.diagnostics.rules import pipelines as rules
from specgen.diagnostics.rules import schema as schema_rules
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
        if not self._has_parts():
            return None
        params: Mapping[str, Parameter] = declared_params(self.file, self.path, pipeline.params, self.sink)
        self.numbers.declare(params)
        env = environment(
            self.file, self.path, pipeline, self.visible.envs, self.visible.declared_envs, self.sink
        )
        arguments = read_losses(
            self.file,
            self.path,
            dict(self.visible.losses),
            self.visible.declared_losses,
            env,
            self.numbers,
            self.sink,
        )
        data = DataReader(self.file, self.path, pipeline, self.numbers, self.sink).data()
        if env is None or arguments is None:
            return None
        if not check_groups(self.file, self.path, env, arguments, self.sink):
            return None
        declared = assigned(self.file, self.path, pipeline.networks, arguments, self.sink)
        if declared is None:
            return None
        made: list[PipelineLoss] = []
        for one, names in zip(arguments, declared, strict=True):
            reader = NetworkReader(self.file, self.path, pipeline, env, one, names, self.numbers, self.sink)
            networks = reader.networks()
            if networks is not None:
                made.append(with_networks(one, networks, pipeline.terms, self.file, self.path, self.sink))
        if len(made) < len(arguments):
            return None
        self._check_terms(arguments)
        losses = with_estimators(self.file, self.path, pipeline, tuple(made), data, self.numbers, self.sink)
        acting = self._acting(env, losses, isinstance(data, RecordedData))
        targets = self._targets(losses)
        assert pipeline.optimizer is not None
        optimizers = OptimizerReader(self.file, self.path, losses, self.numbers, self.sink).optimizers(
            pipeline.optimizer
        )
        if isinstance(data, ReplayData) and data.n_step is not None:
            data, losses = self._discounted(data, losses)
        limits = read_limits(self.file, self.path, pipeline, data, self.numbers, self.sink)
        measured = measured_group(self.file, self.path, pipeline, arguments, self.sink)
        if data is None or acting is None or limits is None:
            return None
        self._check_data(losses, data, acting)
        rows = tuple(written(env, acting.networks, losses, data))
        if not isinstance(data, RecordedData):
            for one, loss in zip(arguments, losses, strict=True):
                given = one.given([network.role.name for network in loss.networks])
                check_reads(loss, given, rows, self.sink)
        return CheckedPipeline(
            name=self.name,
            module=self.module,
            doc=" ".join(pipeline.doc.split()),
            env=env,
            settings=tuple(self.numbers.settings.values()),
            networks=tuple(network for loss in losses for network in loss.networks),
            acting=acting,
            losses=losses,
            data=data,
            targets=targets,
            optimizers=optimizers,
            limits=replace(limits, measured=measured),
            seed=pipeline.seed,
        )

    def _check_terms(self, losses: tuple[LossArguments, ...]) -> None:
        """Report terms that are of none of several losses."""
        for index, name in enumerate(self.pipeline.terms):
            if not any(name.startswith(f"{loss.name}.") or not loss.name for loss in losses):
                span = self.file.span(*self.path, "terms", index)
                message = f"`{name}` is a term of none of several losses"
                help = f"write the loss in front: `{losses[0].name}.{name}`"
                self.sink.add(forms.UNKNOWN_TERM.at(span, message, help=help))

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

    def _discounted(
        self, data: ReplayData, losses: tuple[PipelineLoss, ...]
    ) -> tuple[ReplayData, tuple[PipelineLoss, ...]]:
        """Data of several steps and the losses, which discount by one number."""
        assert data.n_step is not None
        waiting = data.n_step.default * data.num_envs.default
        if data.warm_up_frames.default <= waiting:
            message = (
                f"after {data.warm_up_frames.default} frames there may be nothing to sample yet: "
                f"n_step * num_envs = {waiting} of them wait for later steps"
            )
            help = "write a larger `warm_up_frames`"
            self.sink.add(rules.DOES_NOT_FIT.at(data.n_step.span, message, help=help))
        gamma = self.numbers.settings.get("gamma") or self.numbers.default("gamma", 0.99)
        given = tuple(
            replace(one, settings={**one.settings, "gamma": gamma})
            if any(param.name == "gamma" for param in one.loss.params)
            else one
            for one in losses
        )
        return replace(data, gamma=gamma), given

    def _acting(self, env: PipelineEnv, losses: tuple[PipelineLoss, ...], recorded: bool) -> Acting | None:
        """Who acts, and how it explores."""
        declared = self.pipeline.policy
        able = [
            one for loss in losses for one in loss.networks if isinstance(one.head, PolicyHead | QValueHead)
        ]
        able.sort(key=lambda network: not isinstance(network.head, PolicyHead))
        place = (*self.path, "policy")
        if declared is not None and declared.of is not None:
            chosen = [one for one in able if one.name == declared.of]
            if not chosen:
                span = self.file.span(*place, "of")
                names = [network.name for network in able]
                help = suggestion(declared.of, names) or f"write one of {', '.join(names)}"
                self.sink.add(rules.NETWORK.at(span, f"`{declared.of}` is no network that acts", help=help))
                return None
        elif not able:
            span = self.file.key_span(*self.path, "loss")
            who = " and ".join(f"`{loss.loss.name}`" for loss in losses)
            self.sink.add(rules.NETWORK.at(span, f"no network of {who} gives an action"))
            return None
        else:
            chosen = list({one.group: one for one in reversed(able)}.values())
            chosen.sort(key=able.index)
        exploration = self._exploration(chosen)
        random_frames = self.numbers.setting("policy", "random_frames")
        sure = [one for one in chosen if not isinstance(one.head, PolicyHead) or one.head.family.certain]
        if exploration is None and sure and not recorded and not self._said_explore():
            span = self.file.key_span(*self.path)
            action = (
                "epsilon_greedy: {eps: 0.1}"
                if isinstance(sure[0].head, QValueHead)
                else "gaussian: {sigma: 0.1}"
            )
            message = f"`{sure[0].name}` acts by what it holds for best, and never tries anything else"
            help = f"write `policy: {{explore: {{{action}}}}}`"
            self.sink.add(rules.NEVER_EXPLORES.at(span, message, help=help))
        return Acting(tuple(chosen), exploration, random_frames)

    def _said_explore(self) -> bool:
        return self.pipeline.policy is not None and self.pipeline.policy.explore is not None

    def _exploration(self, networks: list[PipelineNetwork]) -> Exploration | None:
        declared = None if self.pipeline.policy is None else self.pipeline.policy.explore
        if declared is None:
            return None
        place = ("policy", "explore")
        span = self.file.key_span(*self.path, *place)
        kinds = [kind for kind in ("epsilon_greedy", "gaussian") if getattr(declared, kind) is not None]
        if len(kinds) != 1:
            self.sink.add(rules.CHOICE.at(span, "a policy explores by `epsilon_greedy` or by `gaussian`"))
            return None
        (kind,) = kinds
        if len(networks) > 1:
            message = "a policy of several groups explores by drawing; other ways are not available yet"
            self.sink.add(schema_rules.NOT_AVAILABLE.at(span, message, help="leave out `explore`"))
            return None
        head = networks[0].head
        discrete = isinstance(head, QValueHead) or (isinstance(head, PolicyHead) and head.family.discrete)
        action = head.action.dotted if isinstance(head, PolicyHead | QValueHead) else ""
        if discrete != (kind == "epsilon_greedy"):
            what = "one of a finite set" if discrete else "numbers"
            other = "epsilon_greedy: {eps: 0.1}" if discrete else "gaussian: {sigma: 0.1}"
            message = f"`{kind}` does not fit `{action}`, which is {what}"
            self.sink.add(rules.EXPLORATION.at(span, message, help=f"write `{other}`"))
            return None
        field = "eps" if kind == "epsilon_greedy" else "sigma"
        amount = self.numbers.amount(*place, kind, field)
        if amount is None:
            if getattr(getattr(declared, kind), field) is None:
                message = f"`{kind}` needs `{field}`"
                self.sink.add(rules.MISSING_PART.at(span, message, help=f"write `{kind}: {{{field}: 0.1}}`"))
            return None
        if kind == "epsilon_greedy":
            return Exploration("epsilon_greedy", amount)
        return Exploration("gaussian", amount)

    def _targets(self, losses: tuple[PipelineLoss, ...]) -> TargetUpdates | None:
        """How target parameters follow; reported where there are none, or nobody moves them."""
        declared = self.pipeline.target_updater
        moved = next((loss for loss in losses if loss.targets), None)
        if declared is None:
            if moved is not None:
                names = ", ".join(f"`{name}`" for name in moved.targets)
                message = f"`{moved.loss.name}` has targets of {names}, and nobody moves them"
                help = "write `target_updater: {soft: {tau: 0.005}}`"
                self.sink.add(rules.NO_TARGET_UPDATER.at(moved.span, message, help=help))
            return None
        span = self.file.key_span(*self.path, "target_updater")
        if moved is None:
            message = f"`{losses[0].loss.name}` has no targets that could be moved"
            self.sink.add(rules.NO_TARGETS.at(span, message, help="leave out `target_updater`"))
            return None
        kinds = [kind for kind in ("soft", "hard") if getattr(declared, kind) is not None]
        if len(kinds) != 1:
            self.sink.add(rules.CHOICE.at(span, "targets follow `soft` or `hard`"))
            return None
        (kind,) = kinds
        field = "tau" if kind == "soft" else "interval"
        amount = self.numbers.setting("target_updater", kind, field)
        if amount is None:
            if getattr(getattr(declared, kind), field) is None:
                self.sink.add(rules.MISSING_PART.at(span, f"`{kind}` needs `{field}`"))
            return None
        every = self.numbers.setting("target_updater", "every", fact=TARGETS_EVERY)
        return TargetUpdates("soft" if kind == "soft" else "hard", amount, every)

    def _check_data(self, losses: tuple[PipelineLoss, ...], data: object, acting: Acting) -> None:
        """Whether the losses can learn from these data."""
        for loss in losses:
            weighs = any(role.name == "advantage" and role.type is not None for role in loss.loss.roles)
            policy = any(one in loss.networks and isinstance(one.head, PolicyHead) for one in acting.networks)
            if weighs and policy and not isinstance(data, OnPolicyData):
                span = self.file.key_span(*self.path, "data")
                message = f"`{loss.loss.name}` learns from what the present policy did"
                help = "write `on_policy: {num_envs: 8, num_steps: 128, epochs: 4, minibatch_size: 256}`"
                self.sink.add(rules.WRONG_DATA.at(span, message, help=help))
                break
        if getattr(data, "sampler", "") == "prioritized" and not any(
            write.name == "priority" for loss in losses for write in loss.loss.writes
        ):
            span = self.file.key_span(*self.path, "data", "replay", "sampler")
            who = " and ".join(f"`{loss.loss.name}`" for loss in losses)
            message = f"frames are drawn by priorities, and {who} writes none"
            self.sink.add(rules.PRIORITIES.at(span, message, help="leave out `sampler`"))
