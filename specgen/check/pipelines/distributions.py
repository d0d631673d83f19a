"""The distributions that a policy may have: which actions they are over, and what their networks give."""

from __future__ import annotations

import math
from typing import Literal

from specgen.check.model import Entry
from specgen.expr import SpecType
from specgen.expr.spec_limits import flatten
from specgen.values import dataclass

Support = Literal[
    "unbounded", "bounded", "half_bounded", "index", "onehot", "several_indices", "several_onehots", "bits"
]


@dataclass(frozen=True)
class Family:
    """A family of distributions.

    Attributes:
        name: its name in the language, which one over several such choices shares.
        class_name: its class.
        support: the actions that it is over.
        parameters: what its network gives.
        bounds: whether it is told the bounds of the action.
        masked: whether it keeps to what is allowed.
        certain: whether it gives one action for sure, so that there is no log-probability.
        extractor: the class of the layer that makes all parameters of what the last layer gives; empty where that is one
            parameter, or a `scale` says where the other comes from.
    """

    name: str
    class_name: str
    support: Support
    parameters: tuple[str, ...]
    bounds: bool = False
    masked: bool = False
    certain: bool = False
    extractor: str = ""

    @property
    def discrete(self) -> bool:
        """Whether it is over finitely many actions."""
        return self.support in ("index", "onehot") or self.several

    @property
    def several(self) -> bool:
        """Whether it is over several choices at once, or bits."""
        return self.support in SEVERAL

    @property
    def scaled(self) -> bool:
        """Whether it has a scale."""
        return "scale" in self.parameters


SEVERAL: tuple[Support, ...] = ("several_indices", "several_onehots", "bits")
"""Actions that are several choices at once."""

_NORMAL = ("loc", "scale")
_WEIGHTS = ("concentration1", "concentration0")

FAMILIES = (
    Family("categorical", "CategoricalDistribution", "index", ("logits",)),
    Family("categorical", "MultiCategoricalDistribution", "several_indices", ("logits",)),
    Family("onehot_categorical", "OneHotCategorical", "onehot", ("logits",)),
    Family("onehot_categorical", "MultiOneHotCategorical", "several_onehots", ("logits",)),
    Family("bernoulli", "IndependentBernoulli", "bits", ("logits",)),
    Family("masked_categorical", "MaskedCategorical", "index", ("logits",), masked=True),
    Family("masked_categorical", "MultiCategoricalDistribution", "several_indices", ("logits",), masked=True),
    Family("masked_onehot_categorical", "MaskedOneHotCategorical", "onehot", ("logits",), masked=True),
    Family(
        "masked_onehot_categorical", "MultiOneHotCategorical", "several_onehots", ("logits",), masked=True
    ),
    Family("normal", "IndependentNormal", "unbounded", _NORMAL),
    Family("tanh_normal", "TanhNormal", "bounded", _NORMAL, bounds=True),
    Family("truncated_normal", "TruncatedNormal", "bounded", _NORMAL, bounds=True),
    Family("beta", "ScaledBeta", "bounded", _WEIGHTS, bounds=True, extractor="BetaParamExtractor"),
    Family("ordinal", "Ordinal", "index", ("scores",)),
    Family("onehot_ordinal", "OneHotOrdinal", "onehot", ("scores",)),
    Family("delta", "Delta", "unbounded", ("param",), certain=True),
    Family("tanh_delta", "TanhDelta", "bounded", ("param",), bounds=True, certain=True),
)


def families_called(name: str) -> tuple[Family, ...]:
    """The families that a name of the language means: of one choice first, where there is one of several, too."""
    return tuple(family for family in FAMILIES if family.name == name)


def support_of(spec: SpecType) -> Support | None:
    """The kind of actions that a spec holds; None where policies have none over them, as over rows of choices."""
    match spec.kind:
        case "categorical" if len(spec.shape) < 2:
            return "several_indices" if spec.shape else "index"
        case "onehot" if len(spec.shape) < 2:
            return "several_onehots" if spec.shape else "onehot"
        case "multi_categorical" if not spec.shape:
            return "several_indices"
        case "multi_onehot" if not spec.shape:
            return "several_onehots"
        case "binary" if len(spec.shape) == 1:
            return "bits"
        case "bounded" if spec.dtype.startswith("float"):
            finite = [
                all(map(math.isfinite, flatten(end))) for end in (spec.low, spec.high) if end is not None
            ]
            return "bounded" if all(finite) else "half_bounded" if any(finite) else "unbounded"
        case "unbounded" if spec.dtype.startswith("float"):
            return "unbounded"
        case _:
            return None


def choices_of(spec: SpecType) -> tuple[int, ...]:
    """How many values each choice of an action has; none of an action of numbers, and bits have two."""
    match spec.kind:
        case "categorical" | "onehot":
            return (spec.classes,) * math.prod(spec.sizes)
        case "multi_categorical" | "multi_onehot":
            return spec.counts * math.prod(spec.sizes)
        case "binary":
            return (2,) * math.prod(spec.sizes)
        case _:
            return ()


def default_family(action: Entry, *, masked: bool, certain: bool) -> Family | None:
    """The family of a policy that says none: the one that is over its actions, and keeps to their mask."""
    support = support_of(action.spec)
    found = (
        family
        for family in FAMILIES
        if family.support == support and family.masked == masked and family.certain == certain
    )
    return next(found, None)
