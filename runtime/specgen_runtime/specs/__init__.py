"""Specs: what the tensors that go in and out of environments, policies and losses look like."""

from typing import TYPE_CHECKING

from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.bounded import Bounded, BoundedContinuous, BoundedDiscrete
from specgen_runtime.specs.boxes import BinaryBox, Box, BoxList, CategoricalBox, ContinuousBox
from specgen_runtime.specs.choice import Choice
from specgen_runtime.specs.classes.categorical import Binary, Categorical
from specgen_runtime.specs.classes.multi_categorical import MultiCategorical
from specgen_runtime.specs.classes.multi_onehot import MultiOneHot
from specgen_runtime.specs.classes.onehot import OneHot
from specgen_runtime.specs.composites.composite import Composite
from specgen_runtime.specs.composites.from_tensordict import make_composite_from_td
from specgen_runtime.specs.leaf import LeafSpec
from specgen_runtime.specs.non_tensors.non_tensor import NonTensor
from specgen_runtime.specs.stacks.exclusive_keys import (
    check_no_exclusive_keys,
    consolidate_spec,
    contains_lazy_spec,
)
from specgen_runtime.specs.stacks.stacked import Stacked
from specgen_runtime.specs.stacks.stacked_composite import StackedComposite
from specgen_runtime.specs.unbounded import Unbounded, UnboundedContinuous, UnboundedDiscrete

if TYPE_CHECKING:
    from specgen_runtime.specs.legacy import *  # noqa: F403

__all__ = [
    "Binary",
    "BinaryBox",
    "Bounded",
    "BoundedContinuous",
    "BoundedDiscrete",
    "Box",
    "BoxList",
    "Categorical",
    "CategoricalBox",
    "Choice",
    "Composite",
    "ContinuousBox",
    "LeafSpec",
    "MultiCategorical",
    "MultiOneHot",
    "NonTensor",
    "OneHot",
    "Stacked",
    "StackedComposite",
    "TensorSpec",
    "Unbounded",
    "UnboundedContinuous",
    "UnboundedDiscrete",
    "check_no_exclusive_keys",
    "consolidate_spec",
    "contains_lazy_spec",
    "make_composite_from_td",
]

if not TYPE_CHECKING:  # a type checker would take every misspelt name for one of these

    def __getattr__(name):
        """Names that were used before; with a DeprecationWarning."""
        from specgen_runtime.specs.legacy import older_name

        return older_name(__name__, name)
