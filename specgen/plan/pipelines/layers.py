"""The layers of the networks of a pipeline, as the calls that make them."""

from __future__ import annotations

import re

from specgen.check.pipelines.heads_model import QValueHead
from specgen.check.pipelines.layers_model import (
    Layers,
    OwnLayers,
    Recurrence,
    inner_key,
    state_keys,
)
from specgen.check.pipelines.model import PipelineNetwork, Setting
from specgen.check.pipelines.readable import is_index
from specgen.check.sources import PythonSource
from specgen.literals import literal
from specgen.plan.spec_text import key_text
from specgen.values import dataclass, replace

_ACTIVATIONS = {
    "relu": "nn.ReLU",
    "tanh": "nn.Tanh",
    "elu": "nn.ELU",
    "gelu": "nn.GELU",
    "silu": "nn.SiLU",
    "leaky_relu": "nn.LeakyReLU",
    "mish": "nn.Mish",
}


@dataclass(frozen=True)
class MadeLayers:
    """Layers of a network.

    Attributes:
        modules: those that read and write tensordicts, in front of the rest: trunks and recurrent layers.
        net: the rest, which ends in the head; empty where the last of the modules writes the features of a trunk.
        reads: the keys that it reads, or of features where they stand.
        uses: the names that they use.
        size: how many features there are; empty of layers with a head.
    """

    modules: tuple[str, ...]
    net: str
    reads: tuple[str, ...]
    uses: frozenset[str]
    size: str = ""


def reads_numbers(layers: Layers) -> bool:
    """Whether the configuration says something of the layers."""
    sizes = [*layers.cells, layers.embedding]
    if layers.own is not None:
        sizes.append(layers.own.features)
    if layers.recurrence is not None:
        sizes.append(layers.recurrence.size)
    if layers.trunk is not None:
        sizes.append(layers.trunk.features)
    return any(isinstance(size, Setting) for size in sizes) or bool(layers.orthogonal or layers.dropout)


def network_layers(network: PipelineNetwork) -> MadeLayers:
    """The layers of a network with a head."""
    uses: set[str] = set()
    layers = network.layers
    modules, front, size, reads = _front(network.name.replace(".", "_"), layers, uses)
    outputs = " * ".join(map(_number, network.sizes)) or str(network.outputs)
    if network.sizes and network.outputs != 1:
        outputs += f" * {network.outputs}"
    head = network.head if isinstance(network.head, QValueHead) else None
    if head is not None and head.dueling:
        outputs = str(network.outputs + 1)
    if head is not None and head.distribution is not None:
        outputs = f"({_number(head.distribution.count)}, {outputs})"
    words = [f"in_features={size}", f"out_features={outputs}"]
    name = "MLP"
    if network.group is not None and network.per != "group":
        name, central = "MultiAgentMLP", literal(network.per == "all" and not layers.sights)
        words = [f"n_agent_inputs={size}", f"n_agent_outputs={outputs}"]
        words += [f"n_agents={network.group.size}", f"centralized={central}", "share_params=False"]
    cells = [_number(cell) for cell in layers.cells]
    uses.add(name)
    made = f"{name}({', '.join((*words, *_hidden(layers, cells, cells)))})"
    net = _weights(layers, made if not front else f"nn.Sequential({', '.join((*front, made))})", uses)
    net = _cast(layers, net, uses)
    if layers.sights:
        assert network.group is not None
        uses.add("CentralizedNet")
        kinds = literal([sight.kind for sight in layers.sights])
        net = f"CentralizedNet({net}, n_agents={network.group.size}, inputs={kinds})"
    if head is not None and head.dueling:
        sequential = "nn.Sequential" if len(reads) == 1 else "Sequential"
        uses |= {"DuelingValues", sequential.split(".")[0]}
        net = f"{sequential}({net}, DuelingValues({literal(head.choices) if head.choices else ''}))"
    return MadeLayers(tuple(modules), net, tuple(reads), frozenset(uses))


def feature_layers(name: str, layers: Layers) -> MadeLayers:
    """Layers without a head, all of which are modules of tensordicts; the last one writes their features.

    Args:
        name: the trunk, or the network whose head stands apart.
        layers: its layers.
    """
    uses: set[str] = set()
    key = key_text(inner_key(name, "features"))
    modules, front, size, reads = _front(name, layers, uses, last=not layers.cells)
    if layers.cells:
        cells = [_number(cell) for cell in layers.cells]
        words = [f"in_features={size}", f"out_features={cells[-1]}", *_hidden(layers, cells[:-1], cells)]
        uses.add("MLP")
        front, size = [*front, f"MLP({', '.join((*words, 'activate_last_layer=True'))})"], cells[-1]
    if front:
        uses |= {"SafeModule", "nn"}
        one = layers if layers.orthogonal is None else replace(layers, orthogonal=(layers.orthogonal[0],) * 2)
        net = _weights(one, front[0] if len(front) == 1 else f"nn.Sequential({', '.join(front)})", uses)
        net = _cast(layers, net, uses)
        modules.append(f"SafeModule({net}, in_keys=[{', '.join(reads)}], out_keys=[{key}])")
        reads = [key]
    return MadeLayers(tuple(modules), "", tuple(reads), frozenset(uses), size)


def noise_head(network: PipelineNetwork, sigma: Setting) -> MadeLayers:
    """The layers of a policy whose noise is linear in its features, with the head that gives the mean and the deviation."""
    made = feature_layers(network.attribute, network.layers)
    uses = {*made.uses, "GSDEHead"}
    layers = network.layers
    last = layers if layers.orthogonal is None else replace(layers, orthogonal=(layers.orthogonal[1],) * 2)
    head = f"GSDEHead({made.size}, {network.outputs}, sigma=config.{sigma.name})"
    return replace(made, net=_weights(last, head, uses), uses=frozenset(uses))


def _number(size: int | Setting) -> str:
    return f"config.{size.name}" if isinstance(size, Setting) else str(size)


def _front(
    name: str, layers: Layers, uses: set[str], *, last: bool = False
) -> tuple[list[str], list[str], str, list[str]]:
    """What stands in front of the hidden layers.

    Args:
        name: the network.
        layers: its layers.
        uses: takes the names that they use.
        last: whether no hidden layers follow: the features of a trunk are written.

    Returns:
        The modules of tensordicts; the layers behind them; how many numbers these give; the keys that they read.
    """
    modules = [] if layers.trunk is None else [layers.trunk.name]
    reads = [] if layers.trunk is None else [key_text(layers.trunk.key)]
    reads += [key_text(entry.key) for entry in layers.inputs]
    if layers.own is not None:
        stage = "inputs" if not last or layers.recurrence is not None else "features"
        write = key_text(inner_key(name, stage))
        modules.append(_own(name, layers, layers.own, reads, write, uses))
        reads = [write]
        front, size = list[str](), _number(layers.own.features)
    else:
        front, size = _plain(layers, uses)
    if layers.recurrence is None:
        return modules, front, size, reads
    if front:
        inner = key_text(inner_key(name, "inputs"))
        uses.add("SafeModule")
        whole = front[0] if len(front) == 1 else f"nn.Sequential({', '.join(front)})"
        whole = _cast(layers, whole, uses)
        modules.append(f"SafeModule({whole}, in_keys=[{', '.join(reads)}], out_keys=[{inner}])")
        reads = [inner]
    features = key_text(inner_key(name, "features" if last else "memory"))
    modules.append(_recurrent(name, layers, layers.recurrence, size, reads[0], features, uses))
    return modules, [], _number(layers.recurrence.size), [features]


def _own(name: str, layers: Layers, own: OwnLayers, reads: list[str], write: str, uses: set[str]) -> str:
    """The call that makes layers of a Python class."""
    below = () if layers.trunk is None else (f"({_number(layers.trunk.features)},)",)
    shapes = [*below, *(literal(tuple(entry.stored_shape)) for entry in layers.inputs)]
    uses |= {"SafeModule", "own_layers", own_alias(own.source)}
    keys = f"in_keys=[{', '.join(reads)}]"
    words = f"in_shapes=[{', '.join(shapes)}], out_features={_number(own.features)}, network={literal(name)}, {keys}"
    return f"SafeModule(own_layers({own_alias(own.source)}, {words}), {keys}, out_keys=[{write}])"


def own_alias(source: PythonSource) -> str:
    """What the class is called in the module, where others have names of their own."""
    module = "".join(part.title() for part in re.split(r"[._]", source.module))
    return f"{module}{source.name}"


def _recurrent(
    name: str, layers: Layers, recurrence: Recurrence, size: str, read: str, write: str, uses: set[str]
) -> str:
    """The call that makes a recurrent layer."""
    states = [key_text(key) for key in state_keys(name, layers)]
    after = [key_text(("next", *key)) for key in state_keys(name, layers)]
    made = "GRUModule" if recurrence.kind == "gru" else "LSTMModule"
    uses.add(made)
    words = [f"input_size={size}", f"hidden_size={_number(recurrence.size)}"]
    words += [f"in_keys=[{', '.join((read, *states))}]", f"out_keys=[{', '.join((write, *after))}]"]
    words += [] if recurrence.agents is None else [f"agents={recurrence.agents}"]
    return f"{made}({', '.join(words)})"


def _plain(layers: Layers, uses: set[str]) -> tuple[list[str], str]:
    """Layers that make vectors of what is read, and how many numbers all of that is."""
    if layers.convolutions:
        assert layers.image is not None
        channels, count = layers.image
        columns = zip(*((one.channels, one.kernel, one.stride) for one in layers.convolutions), strict=True)
        cells, kernels, strides = (list(column) for column in columns)
        words = [
            f"in_features={channels}",
            f"num_cells={cells}",
            f"kernel_sizes={kernels}",
            f"strides={strides}",
        ]
        words.append(f"activation_class={_ACTIVATIONS[layers.activation]}")
        uses |= {"ConvNet", "nn"}
        return [f"ConvNet({', '.join(words)})"], str(count)
    if layers.inputs and is_index(layers.inputs[0]):
        classes = layers.inputs[0].spec.classes
        if layers.embedding is not None:
            uses.add("nn")
            return [f"nn.Embedding({classes}, {_number(layers.embedding)})"], _number(layers.embedding)
        uses |= {"OneHotLayer", "nn"}
        return [f"OneHotLayer({classes})"], str(classes)
    below = 0 if layers.trunk is None else layers.trunk.features
    rows = [sight.rows for sight in layers.sights] or [1] * len(layers.inputs)
    own = sum(entry.stored_shape[0] * count for entry, count in zip(layers.inputs, rows, strict=True))
    if isinstance(below, Setting):
        return [], _number(below) + (f" + {own}" if own else "")
    return [], str(below + own)


def _hidden(layers: Layers, hidden: list[str], activated: list[str]) -> list[str]:
    """The keywords of hidden layers: their sizes, and those of all that are activated."""
    words = [f"num_cells=[{', '.join(hidden)}]", f"activation_class={_ACTIVATIONS[layers.activation]}"]
    if layers.layer_norm:
        sizes = ", ".join(f"dict(normalized_shape={cell})" for cell in activated)
        words += ["norm_class=nn.LayerNorm", f"norm_kwargs=[{sizes}]"]
    if layers.dropout is not None:
        words.append(f"dropout=config.{layers.dropout.name}")
    return words


def _cast(layers: Layers, made: str, uses: set[str]) -> str:
    """The layers, in a lower precision where they have such."""
    if layers.precision == "float32":
        return made
    uses |= {"Autocast", "torch"}
    return f"Autocast({made}, torch.{layers.precision})"


def _weights(layers: Layers, made: str, uses: set[str]) -> str:
    """The layers, with orthogonal first weights where they have such."""
    if layers.orthogonal is None:
        return made
    gain, head_gain = layers.orthogonal
    uses.add("orthogonal")
    return f"orthogonal({made}, gain=config.{gain.name}, head_gain=config.{head_gain.name})"
