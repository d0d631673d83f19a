"""The functions that make the networks of a pipeline."""

from __future__ import annotations

import math
from collections.abc import Sequence

from specgen.check.model import Entry, dotted
from specgen.check.pipelines.distributions import choices_of
from specgen.check.pipelines.heads_model import (
    ActionHead,
    FeatureHead,
    MixerHead,
    ModelHead,
    PolicyHead,
    QValueHead,
    ValueHead,
    ValueQuantiles,
    ValueSupport,
)
from specgen.check.pipelines.layers_model import Layers, PipelineTrunk
from specgen.check.pipelines.model import PipelineNetwork, Setting
from specgen.code import Code, named, using
from specgen.expr import SpecType
from specgen.expr.symbols import Key
from specgen.literals import literal
from specgen.plan.docs import wrapped
from specgen.plan.model import Argument, FunctionPlan, Line
from specgen.plan.pipelines.layers import (
    MadeLayers,
    feature_layers,
    network_layers,
    noise_head,
    own_alias,
    reads_numbers,
)
from specgen.plan.spec_text import key_text

_QVALUE_ACTORS = {
    type(None): "QValueActor",
    ValueSupport: "DistributionalQValueActor",
    ValueQuantiles: "QuantileQValueActor",
}


def network_function(network: PipelineNetwork, config: str) -> FunctionPlan:
    """Plan `def value_network() -> QValueActor`, which makes a network with new weights."""
    policy = network.head if isinstance(network.head, PolicyHead) else None
    valued = policy is not None and any(one.value is not None for one in policy.actions)
    values = network.head.distribution if isinstance(network.head, QValueHead) else None
    distributional = values is not None and isinstance(values.count, Setting)
    sized = isinstance(network.head, MixerHead) and isinstance(network.head.hidden, Setting)
    sized = sized or bool(network.sizes)
    args = _arguments(network.layers, config, also=valued or distributional or sized)
    if policy is not None and not policy.certain:
        args = (*args, Argument("generator", using("torch.Generator", "torch")))
    lines, returns, uses = _body(network)
    return FunctionPlan(
        network.attribute,
        args,
        named(returns),
        tuple(_doc(network)),
        tuple(map(Line, lines)),
        uses=frozenset(uses),
    )


def trunk_function(trunk: PipelineTrunk, users: Sequence[str], config: str) -> FunctionPlan:
    """Plan `def encoder() -> Trunk`, which makes layers that others stand on, with new weights."""
    made = feature_layers(trunk.name, trunk.layers)
    whole = made.modules[0] if len(made.modules) == 1 else f"SafeSequential({', '.join(made.modules)})"
    uses = made.uses | {"Trunk"} | ({"SafeSequential"} if len(made.modules) > 1 else set())
    reads = [f"`{entry.dotted}`, {_type(entry)}" for entry in trunk.layers.inputs]
    reads += [] if trunk.layers.trunk is None else [f"the features of `{trunk.layers.trunk.name}`"]
    stand = " and ".join(f"`{one}`" for one in users) + (" stands" if len(users) == 1 else " stand")
    doc = f"{trunk.doc.rstrip('.')}. " if trunk.doc else ""
    size = trunk.features if isinstance(trunk.features, int) else f"`{trunk.features.name}`"
    doc += f"Make layers from {', '.join(reads)}, to {size} features, on which {stand}."
    return FunctionPlan(
        trunk.name,
        _arguments(trunk.layers, config),
        named("Trunk"),
        tuple(wrapped(doc)),
        (Line(f"return Trunk({whole})"),),
        uses=frozenset(uses),
    )


def _arguments(layers: Layers, config: str, *, also: bool = False) -> tuple[Argument, ...]:
    """What the function takes: the configuration, where it reads numbers, and the trunk."""
    args = (Argument("config", config),) if also or reads_numbers(layers) else ()
    return args if layers.trunk is None else (*args, Argument(layers.trunk.name, using("Trunk")))


def call_of(network: PipelineNetwork, generator: str, copied: str = "") -> Code:
    """The call of that function in the constructor of the parts.

    Args:
        network: the network.
        generator: the part that policies draw from.
        copied: what stands in front of the parts that are trunks, where it stands on copies.
    """
    return _call(network_function(network, ""), generator, copied)


def call_of_trunk(trunk: PipelineTrunk, copied: str = "") -> Code:
    """The call of the function of a trunk in the constructor of the parts."""
    return _call(trunk_function(trunk, (), ""), "", copied)


def _call(function: FunctionPlan, generator: str, copied: str) -> Code:
    known = {"config": "config", "generator": f"self.{generator}"}
    arguments = ", ".join(known.get(one.name, f"self.{copied}{one.name}") for one in function.args)
    return using(f"{function.name}({arguments})")


def _doc(network: PipelineNetwork) -> list[str]:
    layers = network.layers
    doc = f"{network.doc.rstrip('.')}. " if network.doc else ""
    if isinstance(network.head, MixerHead):
        head = network.head
        mixed = f"Make one value of the team of `{dotted(head.values)}`, those of its {head.agents} agents"
        if head.state is not None:
            mixed += f", and `{head.state.dotted}`, {_type(head.state)}"
        return list(wrapped(f"{doc}{mixed}."))
    found = [] if layers.trunk is None else [f"the features of `{layers.trunk.name}`"]
    rows = [sight.rows for sight in layers.sights] or [1] * len(layers.inputs)
    for entry, count in zip(layers.inputs, rows, strict=True):
        found.append(f"`{entry.dotted}`{f' of all {count}' if count > 1 else ''}, {_type(entry)}")
    reads = ", ".join(found)
    match network.head:
        case PolicyHead(actions):
            gives = ", and ".join(
                f"{'' if one.family.certain else f'a distribution ({one.family.name}) over '}"
                f"`{one.action.dotted}`, {_type(one.action)}"
                for one in actions
            )
        case QValueHead(distribution=ValueSupport()):
            gives = f"log-probabilities of the values of each of {network.outputs} actions"
        case QValueHead(distribution=ValueQuantiles()):
            gives = f"quantiles of the value of each of {network.outputs} actions"
        case QValueHead(choices=choices) if choices:
            gives = f"the values of {len(choices)} choices, {network.outputs} side by side"
        case QValueHead():
            gives = f"one value for each of {network.outputs} actions"
        case ValueHead(key):
            gives = f"`{'.'.join(key)}`, float32 [{_size(network)}]"
        case FeatureHead():
            gives = f"{_size(network)} features"
    if isinstance(network.head, QValueHead) and network.head.dueling:
        gives += ", by the value of the state and advantages"
    agents = {
        "group": " One for all agents, each by itself.",
        "agent": " Each agent has parameters of its own.",
        "all": " Each agent has parameters of its own, and sees what all observe.",
    }
    more = "" if network.group is None else agents[network.per]
    if layers.sights:
        more = " One for all agents." if network.per == "group" else " Each agent has parameters of its own."
    return list(wrapped(f"{doc}Make a network from {reads}, to {gives}.{more}"))


def _size(network: PipelineNetwork) -> str:
    """How many numbers a network gives: `64`, or `k`, which the configuration says."""
    known = [str(network.outputs)] if network.outputs != 1 or not network.sizes else []
    return " * ".join([*(size.name for size in network.sizes), *known])


def _type(entry: Entry) -> str:
    """`float32 [3] in [-2, 2]`."""
    spec = entry.spec
    if spec.kind in ("categorical", "onehot") and not spec.shape:
        return f"{spec.dtype}, one of {spec.n}" if spec.kind == "categorical" else f"one-hot [{spec.n}]"
    if spec.kind != "binary" and (choices := choices_of(spec)):
        form = "one-hot" if "onehot" in spec.kind else spec.dtype
        return f"{form}, one of each of {', '.join(map(str, choices))}"
    shape = f" [{', '.join(map(str, entry.stored_shape))}]"
    low, high = spec.low, spec.high
    finite = all(isinstance(bound, int | float) and math.isfinite(bound) for bound in (low, high))
    return f"{spec.dtype}{shape}" + (f" in [{low:g}, {high:g}]" if finite else "")


def _body(network: PipelineNetwork) -> tuple[list[str], str, set[str]]:
    """The statements, the class of what is returned, and the names that they use."""
    if isinstance(network.head, MixerHead):
        return _mixer(network.head, network.layers.precision)
    only = network.head.only if isinstance(network.head, PolicyHead) else None
    if only is not None and only.scale == "gsde" and only.value is not None:
        made = noise_head(network, only.value)
    else:
        made = network_layers(network)
    uses, layers, inputs = {"nn"} | made.uses, made.net, f"[{', '.join(made.reads)}]"
    match network.head:
        case FeatureHead():
            return [f"return {layers}"], "nn.Module", uses
        case ValueHead(key):
            uses.add("ValueOperator")
            value = f"ValueOperator({layers}, in_keys={inputs}, out_keys=[{key_text(key)}])"
            if not made.modules:
                return [f"return {value}"], "ValueOperator", uses
            uses.add("SafeSequential")
            return [f"return SafeSequential({', '.join((*made.modules, value))})"], "SafeSequential", uses
        case QValueHead(action, mask, distribution, choices):
            name = _QVALUE_ACTORS[type(distribution)]
            space = "one-hot" if action.spec.kind == "onehot" else "categorical"
            if choices:
                space = "mult-one-hot" if "onehot" in action.spec.kind else "multi-categorical"
            words = [layers, f"in_keys={inputs}"]
            if made.modules:
                uses |= {"SafeModule", "SafeSequential"}
                values = key_text((*action.key[:-1], "action_value"))
                last = f"SafeModule({layers}, in_keys={inputs}, out_keys=[{values}])"
                words = [f"SafeSequential({', '.join((*made.modules, last))})"]
            words.append(f"action_space={literal(space)}")
            if choices:
                rows = action.spec.kind == "onehot" or (
                    action.spec.kind == "categorical" and mask is not None
                )
                words += [f"var_nums={literal(choices)}", *(["stacked=True"] if rows else [])]
            lines = []
            if isinstance(distribution, ValueSupport):
                uses.add("torch")
                ends = (distribution.low, distribution.high, distribution.atoms)
                lines = [f"support = torch.linspace({', '.join(f'config.{one.name}' for one in ends)})"]
                words.append("support=support")
            if action.key != ("action",):
                words.append(f"action_key={key_text(action.key)}")
            if network.group is not None:
                beside = action.key[:-1]
                values = key_text((*beside, "action_value"))
                words.append(f"action_value_key={values}")
                if distribution is None:
                    words.append(f"chosen_action_value_key={key_text((*beside, 'chosen_action_value'))}")
            words += [f"action_mask_key={key_text(mask)}"] if mask is not None else []
            uses.add(name)
            return [*lines, f"return {name}({', '.join(words)})"], name, uses
        case ModelHead() | MixerHead():
            raise AssertionError("made elsewhere, without layers")
        case PolicyHead() as head:
            return _policy(network, head, made, uses)


def _mixer(head: MixerHead, precision: str) -> tuple[list[str], str, set[str]]:
    """The same of a mixer."""
    made, reads = f"VDNMixer({head.agents})", [key_text(head.values)]
    uses = {"VDNMixer", "SafeModule"}
    if head.state is not None and head.hidden is not None:
        hidden = f"config.{head.hidden.name}" if isinstance(head.hidden, Setting) else head.hidden
        shape = literal(tuple(head.state.stored_shape))
        made = f"QMixer({shape}, mixing_embed_dim={hidden}, n_agents={head.agents})"
        reads.append(key_text(head.state.key))
        uses = {"QMixer", "SafeModule"}
    if head.own is not None:
        alias = own_alias(head.own)
        shape = literal(None if head.state is None else tuple(head.state.stored_shape))
        made = f"own_mixer({alias}, n_agents={head.agents}, state_shape={shape})"
        reads += [] if head.state is None else [key_text(head.state.key)]
        uses = {"own_mixer", alias, "SafeModule"}
    if precision != "float32" and (head.hidden is not None or head.own is not None):
        made = f"Autocast({made}, torch.{precision})"
        uses |= {"Autocast", "torch"}
    keys = f"in_keys=[{', '.join(reads)}], out_keys=[{key_text(head.key)}]"
    return [f"return SafeModule({made}, {keys})"], "SafeModule", uses


def _policy(
    network: PipelineNetwork, head: PolicyHead, made: MadeLayers, uses: set[str]
) -> tuple[list[str], str, set[str]]:
    uses |= {"SafeModule", "ProbabilisticActor", "nn"}
    behind = None if head.only is None else _scaled(head.only, uses)
    if head.only is None:
        uses.add("OutputHeads")
        heads = [f"({one.outputs}, {_scaled(one, uses) or 'nn.Identity()'})" for one in head.actions]
        behind = f"OutputHeads({', '.join(heads)})"
    lines = [f"net = {made.net if behind is None else _followed(made, behind, uses)}"]
    names = [key_text(key) for one in head.actions for key in head.parameter_keys(one)]
    modules = [*made.modules]
    modules.append(f"SafeModule(net, in_keys=[{', '.join(made.reads)}], out_keys=[{', '.join(names)}])")
    if head.only is None:
        modules += [_mask_beside(head, one, one.mask) for one in head.actions if one.mask is not None]
    if len(modules) > 1:
        uses.add("SafeSequential")
        lines.append(f"module = SafeSequential({', '.join(modules)})")
    else:
        lines.append(f"module = {modules[0]}")
    words = ["module", *(_of_one(head.only, names, uses) if head.only else _of_several(head, uses))]
    if head.log_prob_key is not None:
        words += ["return_log_prob=True", f"log_prob_key={key_text(head.log_prob_key)}"]
    if not head.certain:
        words += ["default_interaction_type=ExplorationType.RANDOM", "generator=generator"]
        uses |= {"ExplorationType", "torch"}
    lines.append(f"return ProbabilisticActor({', '.join(words)})")
    return lines, "ProbabilisticActor", uses


def _scaled(one: ActionHead, uses: set[str]) -> str | None:
    """The module that makes several parameters of what the last layer gives for an action; None where that is the only one."""
    if one.family.extractor:
        uses.add(one.family.extractor)
        return f"{one.family.extractor}()"
    if one.scale == "state":
        uses.add("NormalParamExtractor")
        return "NormalParamExtractor()"
    if one.scale not in ("parameter", "fixed") or one.value is None:
        return None
    uses |= {"AddStateIndependentNormalScale", "math"}
    words = [str(one.outputs), f"init_value=math.log(config.{one.value.name})"]
    words += ["make_param=False"] if one.scale == "fixed" else []
    return f"AddStateIndependentNormalScale({', '.join(words)})"


def _mask_beside(head: PolicyHead, one: ActionHead, mask: Key) -> str:
    """The module that puts a mask beside the parameters of the distribution that keeps to it."""
    key = key_text((*head.parameters, *head.name_of(one), "mask"))
    return f"SafeModule(nn.Identity(), in_keys=[{key_text(mask)}], out_keys=[{key}])"


def _of_one(one: ActionHead, names: list[str], uses: set[str]) -> list[str]:
    """The keywords of a policy over one action, whose parameters have these names."""
    in_keys = f"[{', '.join(names)}]"
    if one.mask is not None:
        in_keys = f'{{"logits": {names[0]}, "mask": {key_text(one.mask)}}}'
    words = [f"in_keys={in_keys}", f"out_keys=[{key_text(one.action.key)}]"]
    words.append(f"distribution_class={one.family.class_name}")
    uses.add(one.family.class_name)
    if told := _told(one, uses):
        words.append(f"distribution_kwargs={told}")
    return words


def _of_several(head: PolicyHead, uses: set[str]) -> list[str]:
    """The keywords of a policy over several actions."""
    uses |= {"CompositeDistribution", *(one.family.class_name for one in head.actions)}
    names = {key_text(head.name_of(one)): one for one in head.actions}
    classes = ", ".join(f"{name}: {one.family.class_name}" for name, one in names.items())
    keys = ", ".join(f"{name}: {key_text(one.action.key)}" for name, one in names.items())
    kwargs = [f'"distribution_map": {{{classes}}}', f'"name_map": {{{keys}}}']
    told = [f"{name}: {what}" for name, one in names.items() if (what := _told(one, uses))]
    kwargs += [f'"extra_kwargs": {{{", ".join(told)}}}'] if told else []
    return [
        f"in_keys=[{key_text(head.parameters)}]",
        f"out_keys=[{', '.join(key_text(one.action.key) for one in head.actions)}]",
        "distribution_class=CompositeDistribution",
        f"distribution_kwargs={{{', '.join(kwargs)}}}",
    ]


def _told(one: ActionHead, uses: set[str]) -> str:
    """What a distribution is told of its action: the bounds, or how many values each of several choices has; empty for nothing."""
    spec = one.action.spec
    if one.family.several and one.family.support != "bits":
        rows = spec.kind in ("categorical", "onehot") and (one.mask is not None or spec.kind == "onehot")
        told = [f'"nvec": {literal(list(choices_of(spec)))}', *(['"stacked": True'] if rows else [])]
        return f"{{{', '.join(told)}}}"
    if not one.family.bounds:
        return ""
    low, high = _bound(one.action.spec, "low"), _bound(one.action.spec, "high")
    uses |= low.uses | high.uses
    return f'{{"low": {low}, "high": {high}}}'


def _followed(made: MadeLayers, module: str, uses: set[str]) -> str:
    """The layers with a module behind them."""
    if len(made.reads) == 1:
        return f"nn.Sequential({made.net}, {module})"
    uses.add("Sequential")
    return f"Sequential({made.net}, {module})"


def _bound(spec: SpecType, end: str) -> Code:
    """A bound of an action: a number, or a tensor where its elements differ."""
    bound = spec.low if end == "low" else spec.high
    if isinstance(bound, int | float):
        return Code(literal(float(bound)))
    assert bound is not None
    flat = set(bound)
    if len(flat) == 1 and isinstance(only := next(iter(flat)), int | float):
        return Code(literal(float(only)))
    return using(f"torch.tensor({literal(list(bound))})", "torch")
