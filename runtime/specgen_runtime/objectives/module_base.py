"""`TensorDictModuleParent`: the parent of losses and estimators, as type checkers are to see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Tensordict has no types: a class of unknown parents has every attribute for a type checker, misspelt ones too.
    from torch.nn import Module as TensorDictModuleParent
else:
    from tensordict.nn import TensorDictModuleBase as TensorDictModuleParent

__all__ = ["TensorDictModuleParent"]
