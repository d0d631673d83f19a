"""The networks of pipelines, as they are declared."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from specgen.schema.fields import Declaration
from specgen.schema.loss import Droppable

Quantity = Annotated[int | float | str, Field(union_mode="left_to_right")]
"""A number, the name of one of `params`, or a schedule: `linear(1.0, 0.05, over=20_000)`."""

Size = Annotated[int | str, Field(union_mode="left_to_right")]
"""A whole number, or the name of one of `params`."""

Activation = Literal["relu", "tanh", "elu", "gelu", "silu", "leaky_relu", "mish"]


class Scale(Declaration):
    """The scale of a normal policy that does not depend on the observation.

    Attributes:
        parameter: its first value, before squashing; it is trained.
        fixed: its value, which stays.
    """

    parameter: Quantity | None = None
    fixed: Quantity | None = None


Distribution = Literal[
    "categorical", "onehot_categorical", "masked_categorical", "masked_onehot_categorical", "bernoulli", "normal", "tanh_normal",
    "truncated_normal", "beta", "ordinal", "onehot_ordinal", "delta", "tanh_delta",
]  # fmt: skip

ScaleField = Annotated[Literal["state"] | Scale | None, Field(union_mode="left_to_right")]


class ActionDistribution(Declaration):
    """How a policy over several actions chooses one of them.

    Attributes:
        dist: its distribution.
        scale: of a normal one, its scale: `state`, numbers of the last layer, a trained `parameter`, or `fixed`.
    """

    dist: Distribution | None = None
    scale: ScaleField = None


class Support(Declaration):
    """The values whose probabilities a network of distributional action values gives: `atoms` of them, evenly from `low` to `high`."""

    atoms: Quantity | None = None
    low: Quantity | None = None
    high: Quantity | None = None


class Orthogonal(Declaration):
    """Orthogonal weights: `gain` for those of hidden layers, `head_gain` for those of the last one."""

    gain: Quantity | None = None
    head_gain: Quantity | None = None


class Init(Declaration):
    """The first weights of a network."""

    orthogonal: Orthogonal | None = None


class Mixer(Declaration):
    """What makes the value of a team of the values of its agents, with a state of all of them; one of these.

    Attributes:
        qmix: how many hidden numbers it has (`mixing_embed_dim`), whose weights follow from the state.
        python: a mixer of a class of one's own, `package.module:Class`.
    """

    qmix: Size | None = None
    python: str | None = None


class NetworkBody(Declaration):
    """A network: what lies between what it reads and its head, which follow from its role; or a trunk, which has none.

    Its layers stand in the order `trunk`, `embedding`, `cnn` or `python`, `gru` or `lstm`, `mlp`, of which each may be left out.

    Attributes:
        causal_lm: a language model of `models`, in place of layers and head.
        trunk: a network without a role, whose features it reads.
        embedding: the size of the learned vectors that stand for an input that is one of finitely many.
        python: layers of a class of one's own, `package.module:Class`, in the place of `embedding` and `cnn`.
        features: how many numbers those give.
        cnn: convolutions, `[channels, kernel, stride]` each.
        gru: the size of a gated recurrent layer.
        lstm: the size of a recurrent layer with long short-term memory.
        mlp: the sizes of the hidden layers.
        activation: what stands behind each of them, and behind each convolution.
        layer_norm: whether outputs of hidden layers are normalised before that.
        dropout: how likely each of them is left out in training.
        frozen: whether it keeps its first weights, which no optimizer moves.
        init: its first weights; by default those of the layers' classes.
        dist: of a policy, its distribution.
        scale: of a normal one, its scale: `state`, a head of its own, a trained `parameter`, or `fixed`.
        actions: of a policy over several actions, what is said of some of them, by their names.
        dueling: of the values of actions, whether they are made of the value of the state and of advantages.
        support: of distributional action values, the values whose probabilities it gives.
        mixer: of a network that mixes the values of a team, which it is, in place of layers and head: `vdn`, their sum,
            `qmix`, or a class of one's own.
        in_: what it reads (`in`); by default what the loss says, or else all that is observed.
        out: sizes that the loss leaves open, by their names: of features, or how many quantiles of a value there are.
        per: how the agents of a group share it: `group`, one for all, each by itself; `agent`, parameters of its own for each;
            `all`, parameters of its own for each, which sees what all observe.
        of: of a network of a group, the groups all of whose agents it sees.
        doc: one line.
    """

    causal_lm: str | None = None
    trunk: str | None = None
    embedding: Size | None = None
    python: str | None = None
    features: Size | None = None
    cnn: list[list[int]] | None = None
    gru: Size | None = None
    lstm: Size | None = None
    mlp: list[Size] | None = None
    activation: Activation = "relu"
    layer_norm: bool = False
    dropout: Quantity | None = None
    frozen: bool = False
    init: Init | None = None
    dist: Distribution | None = None
    scale: ScaleField = None
    actions: dict[str, Droppable[ActionDistribution]] = Field(default_factory=dict)
    dueling: bool = False
    support: Support | None = None
    mixer: Annotated[Literal["vdn"] | Mixer | None, Field(union_mode="left_to_right")] = None
    in_: list[str] = Field(default_factory=list, alias="in")
    out: dict[str, Size] = Field(default_factory=dict)
    per: Literal["group", "agent", "all"] | None = None
    of: list[str] = Field(default_factory=list)
    doc: str = ""
