"""Names that TorchRL's specs had before version 0.6, for code that still uses them."""

from __future__ import annotations

import warnings
from typing import TypeAlias

from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.bounded import Bounded
from specgen_runtime.specs.boxes import Box, CategoricalBox
from specgen_runtime.specs.classes.categorical import Binary, Categorical
from specgen_runtime.specs.classes.multi_categorical import MultiCategorical
from specgen_runtime.specs.classes.multi_onehot import MultiOneHot
from specgen_runtime.specs.classes.onehot import OneHot
from specgen_runtime.specs.composites.composite import Composite
from specgen_runtime.specs.non_tensors.non_tensor import NonTensor
from specgen_runtime.specs.stacks.stacked import Stacked
from specgen_runtime.specs.stacks.stacked_composite import StackedComposite
from specgen_runtime.specs.unbounded import UnboundedContinuous, UnboundedDiscrete

__all__ = [
    "BinaryDiscreteTensorSpec",
    "BoundedTensorSpec",
    "CompositeSpec",
    "DiscreteBox",
    "DiscreteTensorSpec",
    "LazyStackedCompositeSpec",
    "LazyStackedTensorSpec",
    "MultiDiscreteTensorSpec",
    "MultiOneHotDiscreteTensorSpec",
    "NonTensorSpec",
    "OneHotDiscreteTensorSpec",
    "UnboundedContinuousTensorSpec",
    "UnboundedDiscreteTensorSpec",
    "older_name",
]

BinaryDiscreteTensorSpec: TypeAlias = Binary
BoundedTensorSpec: TypeAlias = Bounded
CompositeSpec: TypeAlias = Composite
DiscreteBox: TypeAlias = CategoricalBox
DiscreteTensorSpec: TypeAlias = Categorical
LazyStackedCompositeSpec: TypeAlias = StackedComposite
LazyStackedTensorSpec: TypeAlias = Stacked
MultiDiscreteTensorSpec: TypeAlias = MultiCategorical
MultiOneHotDiscreteTensorSpec: TypeAlias = MultiOneHot
NonTensorSpec: TypeAlias = NonTensor
OneHotDiscreteTensorSpec: TypeAlias = OneHot
UnboundedContinuousTensorSpec: TypeAlias = UnboundedContinuous
UnboundedDiscreteTensorSpec: TypeAlias = UnboundedDiscrete


def older_name(module: str, name: str) -> type[TensorSpec] | type[Box]:
    """The class that had this name, with a DeprecationWarning at the line that asked a module for it.

    Raises:
        AttributeError: no class had it, and the module has no such attribute.
    """
    if name not in __all__ or name == "older_name":
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    found: type[TensorSpec] | type[Box] = globals()[name]
    # 1 is this function, 2 the __getattr__ of the module, 3 the line that asked.
    warnings.warn(f"{name} is now called {found.__name__}", DeprecationWarning, stacklevel=3)
    return found
