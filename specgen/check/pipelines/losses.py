"""The losses of a pipeline: their arguments, and which terms, targets and trained parts they have with these."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from specgen.check.losses.distributions import DISTRIBUTION_FUNCTIONS
from specgen.check.losses.forward import Bernoulli, Chosen, Draw, ForwardValue, Noise, Read
from specgen.check.losses.learnables import CheckedLearnable
from specgen.check.losses.model import CheckedLoss, LossRole
from specgen.check.losses.trained import trained_by_terms
from specgen.check.losses.updates import NEXT
from specgen.check.model import REQUIRED, AgentGroup, Parameter, dotted
from specgen.check.names import Names
from specgen.check.param_arguments import check_argument
from specgen.check.pipelines.coefficients import (
    metrics_of_parts,
    numbers_of_actions,
    numbers_of_pair,
    parts_of,
    weighs_actions,
)
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.heads_model import ModelHead, PolicyHead
from specgen.check.pipelines.layers_model import trunks_of
from specgen.check.pipelines.loss_conditions import LossConditions, asked_numbers
from specgen.check.pipelines.meant_by_arguments import meant_by_argument
from specgen.check.pipelines.model import Amount, PipelineLoss, PipelineNetwork, Setting
from specgen.check.pipelines.numbers import Numbers, fact_of
from specgen.check.pipelines.requirements import check_requirements
from specgen.check.pipelines.teams import mixes_values, of_team
from specgen.check.pipelines.visible import Scopes
from specgen.check.unseen import unseen
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import pipeline_forms as forms
from specgen.diagnostics.rules import pipeline_language_models as model_rules
from specgen.diagnostics.rules import pipeline_networks as layer_rules
from specgen.diagnostics.rules import pipelines as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.expr import Typed
from specgen.expr.symbols import Key
from specgen.schema.load import SchemaFile, find
from specgen.schema.other_names import meant_fields
from specgen.schema.pipeline import names_losses
from specgen.source import Mapping as MappingNode
from specgen.source import Scalar
from specgen.source import Sequence as SequenceNode
from specgen.values import dataclass, replace


@dataclass(frozen=True)
class LossArguments:
    """What a pipeline gives its loss besides networks.

    Attributes:
        name: its name; empty for the only one.
        group: the agents that it is of, those of the group that it is named like.
        loss: the loss, with the keys that its roles have in this pipeline.
        keys: those of them that are not the loss's own, by what `set_keys` calls the roles.
        settings: numbers, by keyword.
        schedules: those that change in training, by keyword.
        pairs: pairs of numbers, by keyword.
        by_action: numbers for each of several actions, by keyword and the key of the action below what holds all of them.
        arguments: other values, by keyword.
        values: the value of every parameter of the loss.
        place: where they stand.
    """

    name: str
    group: AgentGroup | None
    loss: CheckedLoss
    keys: dict[str, Key]
    settings: dict[str, Setting]
    schedules: dict[str, Amount]
    pairs: dict[str, tuple[Setting, ...]]
    by_action: dict[str, dict[Key, Amount]]
    arguments: dict[str, object]
    values: dict[str, object]
    place: tuple[str, ...]

    def conditions(self, networks: Collection[str]) -> LossConditions:
        """What the conditions of the loss are with these."""
        return LossConditions(self.loss, self.values, networks)


def read_losses(
    file: SchemaFile,
    path: tuple[str, ...],
    scopes: Scopes,
    env: PipelineEnv | None,
    numbers: Numbers,
    sink: Sink,
) -> tuple[LossArguments, ...] | None:
    """The losses that the pipeline at `path` names, with their arguments; None where one is none, or has mistakes itself."""
    place = (*path, "loss")
    node = file.node(*place)
    assert isinstance(node, MappingNode)
    if not names_losses(key.text for key, _ in node.entries):
        found = [("", place)]
    else:
        found = [(key.text, (*place, key.text)) for key, _ in node.entries]
    made = [_read_loss(file, name, here, scopes, env, numbers, sink) for name, here in found]
    complete = tuple(one for one in made if one is not None)
    return complete if len(complete) == len(made) else None


def _read_loss(
    file: SchemaFile,
    name: str,
    place: tuple[str, ...],
    scopes: Scopes,
    env: PipelineEnv | None,
    numbers: Numbers,
    sink: Sink,
) -> LossArguments | None:
    """The loss at a place, which is that of its only class."""
    node = file.node(*place)
    if not isinstance(node, MappingNode) or len(node.entries) != 1:
        named = ", ".join(f"`{key.text}`" for key, _ in node.entries) if isinstance(node, MappingNode) else ""
        help = "give several losses names: `{agent: {ClipPPOLoss: {}}, bonus: {RNDLoss: {}}}`"
        message = f"a loss is of one class, this one names {named}"
        if not named:
            message, help = "a loss is of one class, and this one names none", "name it: `{ClipPPOLoss: {}}`"
        sink.add(rules.CHOICE.at(node.span, message, help=help))
        return None
    key, value = node.entries[0]
    if not isinstance(value, MappingNode):
        message = f"arguments of `{key.text}` should be a mapping"
        sink.add(schema_rules.WRONG_TYPE.at(value.span, message, help=f"write `{{{key.text}: {{}}}}`"))
        return None
    visible = scopes.at(key.span)
    if key.text not in visible.losses:
        if key.text not in visible.declared_losses:
            sink.add(unseen("loss", key.text, ("losses",), visible.declared_losses, key.span))
        return None
    if name and not Names(sink).claim(name, "loss", file.key_span(*place)):
        return None
    loss = visible.losses[key.text].value
    group = None if env is None else next((one for one in env.groups if one.name == name), None)
    keys: dict[str, Key] = {}
    if group is not None and env is not None:
        loss, keys = of_group(loss, group, env)
    elif env is not None and env.chat is None:  # losses over conversations say which tokens are the action
        loss, keys = _of_action(loss, env)
    seen = None if env is None else env.of_agent(group)
    return _arguments(file, name, (*place, key.text), loss, keys, group, seen, numbers, sink)


def _of_action(loss: CheckedLoss, env: PipelineEnv) -> tuple[CheckedLoss, dict[str, Key]]:
    """The loss with the key of an environment's action, or of what holds several, and that key if it is not the loss's own."""
    key = env.action_key
    named = [role for role in loss.roles if role.name == "action" and role.key != key]
    if key is None or not named:
        return loss, {}
    found = {role.accepted: key for role in named}
    return replace(loss, roles=_with_keys(loss, found)), found


def _with_keys(loss: CheckedLoss, keys: Mapping[str, Key]) -> tuple[LossRole, ...]:
    return tuple(replace(role, key=keys.get(role.accepted, role.key)) for role in loss.roles)


def of_group(loss: CheckedLoss, group: AgentGroup, env: PipelineEnv) -> tuple[CheckedLoss, dict[str, Key]]:
    """The loss with the keys of a group, and those of its keys that are not its own.

    All stands below the group's name, but for flags and rewards that the environment gives for all together, and for the
    weight of a frame, which a sampler gives. A loss that mixes the values of the group's agents has rewards, flags and a
    value of all together.
    """
    if mixes_values(loss):
        made, named = of_team(loss, group)
        return replace(made, roles=_with_keys(made, named)), named
    keys: dict[str, Key] = {}
    for role in loss.roles:
        below = (group.name, *role.key)
        root = env.entries.get(dotted(role.key))
        of_all = root is not None and root.role in ("done", "reward") and dotted(below) not in env.entries
        if not of_all and role.name != "priority_weight":
            keys[role.accepted] = below
    return replace(loss, roles=_with_keys(loss, keys)), keys


def _arguments(
    file: SchemaFile,
    name: str,
    place: tuple[str, ...],
    loss: CheckedLoss,
    keys: dict[str, Key],
    group: AgentGroup | None,
    env: PipelineEnv | None,
    numbers: Numbers,
    sink: Sink,
) -> LossArguments:
    params = {param.name: param for param in loss.params if param.name not in loss.fixed}
    values = {param.name: _default(param) for param in loss.params}
    made = LossArguments(name, group, loss, keys, {}, {}, {}, {}, {}, values, place)
    changing = frozenset(may_change(loss))
    asked = {name for condition in loss.when.values() for name in asked_numbers(condition)}
    node = find(file.root, place)
    written = node.entries if isinstance(node, MappingNode) else ()
    for key, value in written:
        param = params.get(key.text)
        if param is None:
            help = meant_by_argument(loss, key.text, params, file, place)
            message = f"`{loss.name}` has no argument `{key.text}`"
            sink.add(schema_rules.UNKNOWN_FIELD.at(key.span, message, help=help))
        elif _is_number(param, value):
            nonzero = key.text in asked and not (isinstance(value, Scalar) and value.value == 0)
            here = place[2:]
            fact = fact_of(param, nonzero=nonzero)
            if parts := parts_of(loss, key.text):  # one number is both
                bounds = dict.fromkeys(bound for one in parts for bound in one.range)
                fact = replace(fact, range=tuple(bounds))
            fact = fact.of(name) if name and not fact.shared else fact
            if key.text in changing:
                fact = replace(fact, scheduled=True)
            amount = numbers.amount(*here, key.text, owner=name or "loss", fact=fact)
            if amount is None:
                continue
            setting = amount.setting
            if amount.schedule is not None:
                made.schedules[key.text] = amount
            made.values[key.text] = setting.default
            if key.text in asked and setting.default == 0:
                made.arguments[key.text] = setting.default  # it decides which terms there are
                numbers.settings.pop(setting.name, None)
            else:
                made.settings[key.text] = setting
        elif isinstance(value, SequenceNode) and len(value.items) == len(parts_of(loss, key.text)):
            made.pairs[key.text] = tuple(numbers_of_pair(name, loss, place, key.text, param, numbers))
            made.values[key.text] = tuple(one.default for one in made.pairs[key.text])
        elif isinstance(value, MappingNode | SequenceNode) and weighs_actions(loss, key.text):
            if env is None:
                continue  # its own mistakes are reported
            here = (*place, key.text)
            changes = key.text in changing
            found = numbers_of_actions(file, here, value, param, env, name, numbers, sink, changing=changes)
            if found is not None:
                made.by_action[key.text] = found
        elif not numbers.refuses(value):
            made.arguments[key.text] = made.values[key.text] = check_argument(param, value, loss.name, sink)
    misspelt = meant_fields((key.text for key, _ in written), params)
    for name, param in params.items():
        if param.required and name not in made.values and name not in misspelt:
            message = f"`{loss.name}` needs `{name}`"
            help = f"write `{loss.name}: {{{name}: …}}`"
            sink.add(schema_rules.MISSING_FIELD.at(file.key_span(*place), message, help=help))
    return made


def may_change(loss: CheckedLoss) -> Iterator[str]:
    """The numbers of a loss that it reads at each call, and neither learns from then on nor changes itself."""
    read = {name for one in (*loss.let, *loss.terms, *loss.metrics) for name in one.reads}
    own = {
        name for one in loss.learnables for value in (one.init, one.low, one.high) for name in _names(value)
    }
    own |= {one.target.removeprefix(NEXT) for one in loss.update}
    for one in loss.param_reads:
        if one.param.kind in ("float", "float64") and one.symbol.name in read - own and not one.late:
            yield one.param.name


def _names(value: Typed | None) -> Iterator[str]:
    return iter(()) if value is None else (symbol.name for symbol in value.symbols_read)


def _default(param: Parameter) -> object:
    return None if param.default is REQUIRED else param.default


def _is_number(param: Parameter, node: object) -> bool:
    """Whether an argument is a hyper-parameter: a number, the name of one, or a schedule."""
    if param.kind not in ("float", "int", "float64") or not isinstance(node, Scalar):
        return False
    return not isinstance(node.value, bool) and not (param.optional and node.value == "null")


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
    found: LossArguments,
    networks: tuple[PipelineNetwork, ...],
    chosen: Sequence[str],
    file: SchemaFile,
    path: tuple[str, ...],
    sink: Sink,
) -> PipelineLoss:
    """The loss with its networks, and its terms that are `chosen`, or all where none is."""
    loss = found.loss
    names = {network.role.name: network.name for network in networks}
    conditions = found.conditions(names)
    terms = tuple(term.name for term in loss.terms if conditions.holds(loss.when.get(term.name)))
    prefix = f"{found.name}." if found.name else ""
    mine = [name.removeprefix(prefix) for name in chosen if name.startswith(prefix)]
    for index, full in enumerate(chosen):
        name = full.removeprefix(prefix)
        if full.startswith(prefix) and name not in terms:
            span = file.span(*path, "terms", index)
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
