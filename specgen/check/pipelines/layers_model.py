"""The layers of a network of a pipeline, and the trunks that several networks stand on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from specgen.check.model import Entry
from specgen.check.sources import PythonSource
from specgen.expr.symbols import Key
from specgen.values import dataclass

if TYPE_CHECKING:
    from specgen.check.pipelines.model import PipelineNetwork, Setting
    from specgen.diagnostics import Span


@dataclass(frozen=True)
class Convolution:
    """A convolution without padding: how many channels it gives, and the two sizes of its window."""

    channels: int
    kernel: int
    stride: int


@dataclass(frozen=True)
class OwnLayers:
    """Layers of a Python class, and how many numbers they give."""

    source: PythonSource
    features: int | Setting


@dataclass(frozen=True)
class Recurrence:
    """A recurrent layer, with the size of its state and of what it gives; each of so many agents has a state of its own."""

    kind: Literal["gru", "lstm"]
    size: int | Setting
    agents: int | None = None

    @property
    def states(self) -> tuple[str, ...]:
        """What is carried from one step to the next, as the names of entries end."""
        return ("h",) if self.kind == "gru" else ("h", "c")


@dataclass(frozen=True)
class Sight:
    """How agents see an entry that a network of theirs reads.

    Attributes:
        kind: `each` its own row, all of them `all` rows of a group, or what is of no group, at the `root`.
        rows: how many each agent sees.
    """

    kind: Literal["each", "all", "root"]
    rows: int = 1


@dataclass(frozen=True)
class Layers:
    """The layers between what a network reads and its head, in their order.

    Attributes:
        inputs: what they read of the data, in order.
        trunk: whose features they read before that.
        embedding: the size of the learned vectors that stand for an input that is an index; None for vectors of zeros
            with a one.
        own: layers of a Python class.
        convolutions: over an input of channels, height and width.
        image: the channels of that input, and how many numbers the last convolution gives.
        recurrence: the recurrent layer behind them.
        cells: the sizes of the hidden layers behind that.
        activation: what stands behind each convolution and each hidden layer.
        layer_norm: whether outputs of hidden layers are normalised.
        dropout: how likely each output of a hidden layer is left out in training.
        frozen: whether their weights stay as they are.
        orthogonal: the gains of hidden layers and of the last one, where first weights are orthogonal.
        precision: of what they compute, but for the recurrent layer.
        sights: how agents see each of the inputs; empty where each sees its own alone, or all of its group by `per: all`.
    """

    inputs: tuple[Entry, ...]
    trunk: PipelineTrunk | None
    embedding: int | Setting | None
    own: OwnLayers | None
    convolutions: tuple[Convolution, ...]
    image: tuple[int, int] | None
    recurrence: Recurrence | None
    cells: tuple[int | Setting, ...]
    activation: str
    layer_norm: bool
    dropout: Setting | None
    frozen: bool
    orthogonal: tuple[Setting, Setting] | None
    precision: Literal["float32", "bfloat16"]
    sights: tuple[Sight, ...] = ()

    @property
    def reads(self) -> tuple[Entry, ...]:
        """All that is read of the data, that of trunks first."""
        below = () if self.trunk is None else self.trunk.layers.reads
        return tuple({entry.dotted: entry for entry in (*below, *self.inputs)}.values())

    @property
    def joins_nothing(self) -> bool:
        """Whether several entries, or features and entries, reach the head as they are."""
        count = len(self.inputs) + (self.trunk is not None)
        return count > 1 and not (self.cells or self.recurrence or self.own)

    @property
    def trunks(self) -> tuple[PipelineTrunk, ...]:
        """The trunks below, the lowest first."""
        return () if self.trunk is None else (*self.trunk.layers.trunks, self.trunk)


@dataclass(frozen=True)
class PipelineTrunk:
    """Layers that networks stand on, which have the same parameters in all of them.

    Attributes:
        name: its name under `networks:`.
        layers: the layers.
        doc: one line.
        span: where it is declared.
    """

    name: str
    layers: Layers
    doc: str
    span: Span

    @property
    def features(self) -> int | Setting:
        """How many numbers it gives."""
        layers = self.layers
        if layers.cells:
            return layers.cells[-1]
        if layers.recurrence is not None:
            return layers.recurrence.size
        if layers.own is not None:
            return layers.own.features
        if layers.image is not None:
            return layers.image[1]
        assert layers.embedding is not None
        return layers.embedding

    @property
    def key(self) -> Key:
        """Where it writes its features."""
        return (f"{self.name}_features",)


NO_LAYERS = Layers(
    inputs=(),
    trunk=None,
    embedding=None,
    own=None,
    convolutions=(),
    image=None,
    recurrence=None,
    cells=(),
    activation="relu",
    layer_norm=False,
    dropout=None,
    frozen=False,
    orthogonal=None,
    precision="float32",
)
"""What a network has whose head is all of it: a language model, or a mixer."""


def state_keys(name: str, layers: Layers) -> Iterator[Key]:
    """Where the recurrent layer of a network or trunk keeps its state, one entry for each part."""
    if layers.recurrence is not None:
        for state in layers.recurrence.states:
            yield (f"{name}_{state}",)


def inner_key(name: str, stage: str) -> Key:
    """Where layers of a network write what its further layers read."""
    return (f"{name}_{stage}",)


def trunks_of(networks: Iterable[PipelineNetwork]) -> tuple[PipelineTrunk, ...]:
    """What networks stand on, each behind those that it stands on itself."""
    return tuple(dict.fromkeys(trunk for network in networks for trunk in network.layers.trunks))


def users_of(trunk: PipelineTrunk, networks: Sequence[PipelineNetwork]) -> tuple[str, ...]:
    """The trunks and networks that stand on a trunk, by name."""
    stand = [(one.name, one.layers) for one in trunks_of(networks)]
    stand += [(one.name, one.layers) for one in networks]
    return tuple(name for name, layers in stand if layers.trunk == trunk)


def are_recurrent(networks: Iterable[PipelineNetwork]) -> bool:
    """Whether a network, or a trunk below one, carries a state from step to step."""
    return any(
        layers.recurrence is not None
        for network in networks
        for layers in (network.layers, *(trunk.layers for trunk in network.layers.trunks))
    )
