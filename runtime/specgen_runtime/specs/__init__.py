"""Specs: what the tensors that go in and out of environments, policies and losses look like."""

from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.binary import Binary
from specgen_runtime.specs.bounded import Bounded
from specgen_runtime.specs.boxes import BinaryBox, Box, BoxList, CategoricalBox, ContinuousBox
from specgen_runtime.specs.categorical import Categorical
from specgen_runtime.specs.composite import Composite
from specgen_runtime.specs.leaf import LeafSpec
from specgen_runtime.specs.multi_categorical import MultiCategorical
from specgen_runtime.specs.onehot import OneHot
from specgen_runtime.specs.unbounded import Unbounded

__all__ = [
    "Binary",
    "BinaryBox",
    "Bounded",
    "Box",
    "BoxList",
    "Categorical",
    "CategoricalBox",
    "Composite",
    "ContinuousBox",
    "LeafSpec",
    "MultiCategorical",
    "OneHot",
    "TensorSpec",
    "Unbounded",
]
