"""The functions that make the networks of a pipeline."""

from __future__ import annotations

import math

from specgen.check.model import Entry
from specgen.check.pipelines.model import PipelineNetwork, PolicyHead, QValueHead, Setting, ValueHead
from specgen.check.pipelines.networks import is_index
from specgen.code import Code, named, using
from specgen.expr import SpecType
from specgen.literals import literal
from specgen.plan.docs import wrapped
from specgen.plan.model import Argument, FunctionPlan, Line
from specgen.plan.spec_text import key_text

_ACTIVATIONS = {
    "relu": "nn.ReLU",
    "tanh": "nn.Tanh",
    "elu": "nn.ELU",
    "gelu": "nn.GELU",
    "silu": "nn.SiLU",
    "leaky_relu": "nn.LeakyReLU",
    "mish": "nn.Mish",
}


def network_function(network: PipelineNetwork, config: str) -> FunctionPlan:
    """Plan `def value_network() -> QValueActor`, which makes a network with new weights."""
    sizes = any(isinstance(cell, Setting) for cell in network.cells)
    valued = isinstance(network.head, PolicyHead) and network.head.value is not None
    distributional = isinstance(network.head, QValueHead) and network.head.support is not None
    args = (Argument("config", config),) if sizes or valued or distributional or network.orthogonal else ()
    draws = isinstance(network.head, PolicyHead) and not network.head.family.certain
    if draws:
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


def call_of(network: PipelineNetwork, generator: str) -> Code:
    """The call of that function in the constructor of the parts, where `generator` is what policies draw from."""
    function = network_function(network, "")
    arguments = {"config": "config", "generator": f"self.{generator}"}
    return using(f"{network.attribute}({', '.join(arguments[one.name] for one in function.args)})")


def _doc(network: PipelineNetwork) -> list[str]:
    reads = ", ".join(f"`{entry.dotted}`, {_type(entry)}" for entry in network.inputs)
    match network.head:
        case PolicyHead(family, action):
            what = "an action" if family.certain else f"a distribution ({family.name}) over"
            gives = (
                f"{what} `{action.dotted}`, {_type(action)}"
                if not family.certain
                else f"`{action.dotted}`, {_type(action)}"
            )
        case QValueHead(support=support) if support is not None:
            gives = f"log-probabilities of the values of each of {network.outputs} actions"
        case QValueHead():
            gives = f"one value for each of {network.outputs} actions"
        case ValueHead(key):
            gives = f"`{'.'.join(key)}`, float32 [{network.outputs}]"
    agents = {
        "group": " One for all agents, each by itself.",
        "agent": " Each agent has parameters of its own.",
        "all": " Each agent has parameters of its own, and sees what all observe.",
    }
    more = "" if network.group is None else agents[network.per]
    return list(wrapped(f"Make a network from {reads}, to {gives}.{more}"))


def _type(entry: Entry) -> str:
    """`float32 [3] in [-2, 2]`."""
    spec = entry.spec
    if spec.kind in ("categorical", "onehot"):
        return f"{spec.dtype}, one of {spec.n}" if spec.kind == "categorical" else f"one-hot [{spec.n}]"
    shape = f" [{', '.join(map(str, entry.stored_shape))}]"
    low, high = spec.low, spec.high
    finite = all(isinstance(bound, int | float) and math.isfinite(bound) for bound in (low, high))
    return f"{spec.dtype}{shape}" + (f" in [{low:g}, {high:g}]" if finite else "")


def _layers(network: PipelineNetwork, uses: set[str]) -> str:
    """The call of `MLP`, or of `MultiAgentMLP` for agents that don't share all of it, and what stands in front of it."""
    index = network.inputs[0].spec if is_index(network.inputs[0]) else None
    inputs = index.classes if index is not None else sum(entry.stored_shape[0] for entry in network.inputs)
    name = "MLP" if network.group is None or network.per == "group" else "MultiAgentMLP"
    uses.add(name)
    cells = ", ".join(f"config.{one.name}" if isinstance(one, Setting) else str(one) for one in network.cells)
    outputs = str(network.outputs)
    if isinstance(network.head, QValueHead) and network.head.support is not None:
        outputs = f"(config.{network.head.support.atoms.name}, {outputs})"
    words = [f"in_features={inputs}", f"out_features={outputs}"]
    if network.group is not None and name == "MultiAgentMLP":
        central = literal(network.per == "all")
        words = [f"n_agent_inputs={inputs}", f"n_agent_outputs={network.outputs}"]
        words += [f"n_agents={network.group.size}", f"centralized={central}", "share_params=False"]
    words.append(f"num_cells=[{cells}]")
    words.append(f"activation_class={_ACTIVATIONS[network.activation]}")
    if network.layer_norm:
        words.append("norm_class=nn.LayerNorm")
        words.append(
            f"norm_kwargs=[{', '.join(f'dict(normalized_shape={cell})' for cell in cells.split(', '))}]"
        )
    layers = f"{name}({', '.join(words)})"
    if network.orthogonal is not None:
        gain, head_gain = network.orthogonal
        uses.add("orthogonal")
        layers = f"orthogonal({layers}, gain=config.{gain.name}, head_gain=config.{head_gain.name})"
    if index is None:
        return layers
    uses.add("OneHotLayer")
    return f"nn.Sequential(OneHotLayer({index.classes}), {layers})"


def _keys(entries: tuple[Entry, ...]) -> str:
    return f"[{', '.join(key_text(entry.key) for entry in entries)}]"


def _body(network: PipelineNetwork) -> tuple[list[str], str, set[str]]:
    """The statements, the class of what is returned, and the names that they use."""
    uses = {"nn"}
    layers, inputs = _layers(network, uses), _keys(network.inputs)
    match network.head:
        case ValueHead(key):
            uses.add("ValueOperator")
            made = f"ValueOperator({layers}, in_keys={inputs}, out_keys=[{key_text(key)}])"
            return [f"return {made}"], "ValueOperator", uses
        case QValueHead(action, mask, support):
            name = "QValueActor" if support is None else "DistributionalQValueActor"
            space = "one-hot" if action.spec.kind == "onehot" else "categorical"
            words = [layers, f"in_keys={inputs}", f"action_space={literal(space)}"]
            lines = []
            if support is not None:
                uses.add("torch")
                ends = f"config.{support.low.name}, config.{support.high.name}, config.{support.atoms.name}"
                lines = [f"support = torch.linspace({ends})"]
                words.append("support=support")
            elif action.key != ("action",):
                words.append(f"action_key={key_text(action.key)}")
            words += [f"action_mask_key={key_text(mask)}"] if mask is not None else []
            uses.add(name)
            return [*lines, f"return {name}({', '.join(words)})"], name, uses
        case PolicyHead() as head:
            return _policy(network, head, layers, inputs, uses)


def _policy(
    network: PipelineNetwork, head: PolicyHead, layers: str, inputs: str, uses: set[str]
) -> tuple[list[str], str, set[str]]:
    family = head.family
    uses |= {"SafeModule", "ProbabilisticActor", "nn"}
    lines = [f"net = {layers}"]
    size = network.outputs // 2 if head.scale == "state" else network.outputs
    if head.scale == "state":
        uses.add("NormalParamExtractor")
        lines = [f"net = nn.Sequential({layers}, NormalParamExtractor())"]
    elif head.scale in ("parameter", "fixed") and head.value is not None:
        uses |= {"AddStateIndependentNormalScale", "math"}
        words = [str(size), f"init_value=math.log(config.{head.value.name})"]
        words += ["make_param=False"] if head.scale == "fixed" else []
        lines = [f"net = nn.Sequential({layers}, AddStateIndependentNormalScale({', '.join(words)}))"]
    names = [key_text(key) for key in head.parameter_keys]
    lines.append(f"module = SafeModule(net, in_keys={inputs}, out_keys=[{', '.join(names)}])")
    in_keys = f"[{', '.join(names)}]"
    if head.mask is not None:
        in_keys = f'{{"logits": {names[0]}, "mask": {key_text(head.mask)}}}'
    uses.add(family.class_name)
    words = ["module", f"in_keys={in_keys}", f"out_keys=[{key_text(head.action.key)}]"]
    words.append(f"distribution_class={family.class_name}")
    if family.bounds:
        low, high = _bound(head.action.spec, "low"), _bound(head.action.spec, "high")
        words.append(f'distribution_kwargs={{"low": {low}, "high": {high}}}')
        uses |= {"torch"} if "torch" in low + high else set()
    if head.log_prob_key is not None:
        words += ["return_log_prob=True", f"log_prob_key={key_text(head.log_prob_key)}"]
    if not family.certain:
        words += ["default_interaction_type=ExplorationType.RANDOM", "generator=generator"]
        uses |= {"ExplorationType", "torch"}
    lines.append(f"return ProbabilisticActor({', '.join(words)})")
    return lines, "ProbabilisticActor", uses


def _bound(spec: SpecType, end: str) -> str:
    """A bound of an action: a number, or a tensor where its elements differ."""
    bound = spec.low if end == "low" else spec.high
    if isinstance(bound, int | float):
        return literal(float(bound))
    assert bound is not None
    flat = set(bound)
    if len(flat) == 1 and isinstance(only := next(iter(flat)), int | float):
        return literal(float(only))
    return f"torch.tensor({literal(list(bound))})"
