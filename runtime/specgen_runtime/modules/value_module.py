"""Networks of action values as tensordict modules."""

from __future__ import annotations

from collections.abc import Sequence

from tensordict.nn import TensorDictModule, TensorDictModuleBase
from torch import nn

from specgen_runtime.typing import NestedKey


def value_module(
    module: nn.Module, in_keys: Sequence[NestedKey] | None, action_value_key: NestedKey
) -> TensorDictModuleBase:
    """A network of action values as a tensordict module that writes them.

    Args:
        module: a plain module, or a tensordict module that writes ``action_value_key``.
        in_keys: what a plain module reads. Defaults to ``["observation"]``.
        action_value_key: what it writes.

    Raises:
        KeyError: if a tensordict module does not write the action values.
        TypeError: if ``module`` is not a module.
    """
    if isinstance(module, TensorDictModuleBase):
        if action_value_key not in module.out_keys:
            raise KeyError(f"the module does not write {action_value_key!r}; it writes {module.out_keys}")
        return module
    if isinstance(module, nn.Module):
        inputs = ["observation"] if in_keys is None else list(in_keys)
        return TensorDictModule(module, in_keys=inputs, out_keys=[action_value_key])
    raise TypeError(f"module must be an nn.Module, got {type(module).__name__}")
