"""The transforms that give environments the states of all recurrent modules of a policy."""

from __future__ import annotations

import warnings

from torch import nn

from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.compose import Compose


def get_primers_from_module(module: nn.Module, warn: bool = True) -> Transform | None:
    """The primers of all modules within a module that can make one (`make_tensordict_primer`).

    Args:
        module: a policy, say.
        warn: warn if there are none.

    Returns:
        The primer of the only such module, a `Compose` of several, None if there are none.

    Example:
        >>> env.append_transform(get_primers_from_module(policy))
    """
    makers = [getattr(part, "make_tensordict_primer", None) for part in module.modules()]
    primers: list[Transform] = [make() for make in makers if callable(make)]
    if not primers:
        if warn:
            warnings.warn(f"no module within the {type(module).__name__} makes primers", stacklevel=2)
        return None
    return primers[0] if len(primers) == 1 else Compose(*primers)
