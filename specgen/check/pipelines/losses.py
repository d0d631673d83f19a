"""The losses of a pipeline: which terms, targets and trained parts they have with their arguments and networks."""

from __future__ import annotations

from specgen.check.losses.distributions import DISTRIBUTION_FUNCTIONS
from specgen.check.losses.forward import Bernoulli, Chosen, Draw, ForwardValue, Noise, Read
from specgen.check.losses.learnables import CheckedLearnable
from specgen.check.losses.model import CheckedLoss
from specgen.check.losses.trained import trained_by_terms
from specgen.check.pipelines.coefficients import (
    metrics_of_parts,
)
from specgen.check.pipelines.heads_model import ModelHead, PolicyHead
from specgen.check.pipelines.layers_model import trunks_of
from specgen.check.pipelines.loss_arguments import LossArguments
from specgen.check.pipelines.loss_conditions import LossConditions
from specgen.check.pipelines.model import PipelineLoss, PipelineNetwork
from specgen.check.pipelines.reader import PipelineContext
from specgen.check.pipelines.requirements import check_requirements
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import pipeline_forms as forms
from specgen.diagnostics.rules import pipeline_language_models as model_rules
from specgen.diagnostics.rules import pipeline_networks as layer_rules
from specgen.schema.load import SchemaFile


def _draws(value: ForwardValue) -> bool:
    """Whether a value is drawn; entropies and divergences of some distributions are estimated from draws."""
    estimated = isinstance(value, Read) and DISTRIBUTION_FUNCTIONS[value.function].counts
    return estimated or isinstance(value, Draw | Noise | Bernoulli | Chosen)


def _stays(learnable: CheckedLearnable, found: LossArguments, conditions: LossConditions) -> bool:
    """Whether a learned number stays as it is with these arguments, or is not there."""
    fixed = learnable.fixed
    return (bool(found.values.get(fixed)) if isinstance(fixed, str) else fixed) or not conditions.holds(
        learnable.when
    )


def with_networks(
    context: PipelineContext, found: LossArguments, networks: tuple[PipelineNetwork, ...]
) -> PipelineLoss:
    """The loss with its networks, and its terms that the pipeline chooses, or all where it chooses none."""
    file, sink, chosen = context.file, context.sink, context.pipeline.terms
    loss = found.loss
    names = {network.role.name: network.name for network in networks}
    conditions = found.conditions(names)
    terms = tuple(term.name for term in loss.terms if conditions.holds(loss.when.get(term.name)))
    prefix = f"{found.name}." if found.name else ""
    mine = [name.removeprefix(prefix) for name in chosen if name.startswith(prefix)]
    for index, full in enumerate(chosen):
        name = full.removeprefix(prefix)
        if full.startswith(prefix) and name not in terms:
            span = file.span(*context.path, "terms", index)
            help = suggestion(name, terms) or f"its terms are {', '.join(f'`{term}`' for term in terms)}"
            sink.add(forms.UNKNOWN_TERM.at(span, f"`{loss.name}` has no term `{name}` here", help=help))
    terms = tuple(term for term in terms if not mine or term in mine)
    _check_sum(found, file, sink)
    metrics = tuple(one.name for one in loss.metrics if conditions.holds(loss.when.get(one.name)))
    roles = loss.networks_by_name
    names |= {one.name: f"{found.name}.{one.name}" if found.name else one.name for one in loss.learnables}
    arguments = dict(found.arguments)
    actions = [
        one.head.only.action.spec
        for one in networks
        if isinstance(one.head, PolicyHead) and one.head.only is not None and one.head.discrete
    ]
    counts = any(param.name == "num_actions" for param in loss.params)
    if actions and counts and found.values.get("num_actions") is None:
        arguments["num_actions"] = actions[0].classes
    check_requirements(found, arguments, networks, file, sink)
    still = {one.name for one in loss.learnables if _stays(one, found, conditions)}
    below = {one.name: tuple(trunk.name for trunk in one.layers.trunks) for one in networks}
    frozen = {one.name for one in networks if one.layers.frozen or not one.has_parameters}
    frozen |= {trunk.name for trunk in trunks_of(networks) if trunk.layers.frozen}
    trained: dict[str, tuple[str, ...]] = {}
    still_terms: dict[str, tuple[str, ...]] = {}
    for term, parts in trained_by_terms(loss).items():
        moved = [names[name] for name in parts if name not in still and (name not in roles or name in names)]
        reached = tuple(dict.fromkeys(one for name in moved for one in (name, *below.get(name, ()))))
        trained[term] = tuple(one for one in reached if one not in frozen)
        if term in terms and reached and not trained[term]:
            still_terms[term] = reached
    if found.name or any(trained.values()):  # else it is the optimizer that has nothing to move
        for term, reached in still_terms.items():
            _report_frozen(term, reached, found, file, sink)
    return PipelineLoss(
        name=found.name,
        loss=loss,
        keys=found.keys,
        group=found.group,
        networks=networks,
        settings=found.settings,
        schedules=found.schedules,
        pairs=found.pairs,
        by_action=found.by_action,
        arguments=arguments,
        terms=terms,
        metrics=tuple(name for name in metrics if name not in loss.each and name not in loss.by_part),
        by_part=metrics_of_parts(loss, networks, (*terms, *metrics), conditions),
        each=tuple(name for name in metrics if name in loss.each),
        targets=tuple(
            one.name for one in networks if conditions.target(one.role.name) and one.has_parameters
        ),
        trained=trained,
        draws=any(_draws(made.value) for made in loss.forward),
        unread=frozenset(role.name for role in loss.roles if not conditions.holds(role.when)),
        span=file.key_span(*found.place),
    )


def _check_sum(found: LossArguments, file: SchemaFile, sink: Sink) -> None:
    """Report an argument with which terms are no single numbers."""
    means = found.loss.means
    if means is None:
        return
    value = found.values.get(means.by)
    if isinstance(value, str) and means.dims.get(value, ()) is None:
        others = " or ".join(f"`{name}`" for name, dims in means.dims.items() if dims is not None)
        message = f"with `{means.by}: {value}` the terms of `{found.loss.name}` are no single numbers"
        span = file.span(*found.place, means.by)
        sink.add(model_rules.NOT_A_NUMBER.at(span, message, help=f"write {others}"))


def _report_frozen(
    term: str, reached: tuple[str, ...], found: LossArguments, file: SchemaFile, sink: Sink
) -> None:
    """Report a term that only frozen networks follow from."""
    which = " and ".join(f"`{name}`" for name in reached)
    message = f"`{term}` trains nothing: {which} {'is' if len(reached) == 1 else 'are'} frozen"
    full = f"{found.name}.{term}" if found.name else term
    help = f"leave `{full}` out of `terms`, or `frozen` out of a network"
    sink.add(layer_rules.NOTHING_TRAINED.at(file.key_span(*found.place), message, help=help))


def is_on_policy(loss: PipelineLoss) -> bool:
    """Whether a loss weighs an advantage with the log-probability of what a policy did."""
    acting = any(isinstance(network.head, PolicyHead | ModelHead) for network in loss.networks)
    return acting and has_advantage(loss.loss)


def has_advantage(loss: CheckedLoss) -> bool:
    """Whether a loss reads an advantage."""
    return any(role.name == "advantage" and role.type is not None for role in loss.roles)
