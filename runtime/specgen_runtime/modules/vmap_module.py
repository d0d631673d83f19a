"""`VmapModule`: a module of tensordicts that is given a batch dimension which it does not know."""

from __future__ import annotations

from typing import Any, Literal, cast

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase

__all__ = ["VmapModule"]


class VmapModule(TensorDictModuleBase):  # type: ignore[misc]
    """Calls a module under `torch.vmap` over a batch dimension, so that the module sees data without it.

    Args:
        module: reads and writes tensordicts.
        vmap_dim: the batch dimension; None: the last.
        mock: whether the module is called once for each entry of the dimension instead, and the results are stacked: for
            modules that `torch.vmap` can't map.
        randomness: what a module that draws does: `"different"`, each entry has draws of its own, as a module that
            knows the dimension; `"same"`, or `"error"`, which refuses draws. Without effect with `mock`.

    Raises:
        ValueError: another `randomness`.

    Example:
        >>> first = TensorDictModule(lambda x: x[0], in_keys=["x"], out_keys=["y"])
        >>> VmapModule(first, 0)(TensorDict({"x": torch.ones(10, 3)}, [10]))["y"].shape
        torch.Size([10])
    """

    def __init__(
        self,
        module: TensorDictModuleBase,
        vmap_dim: int | None = None,
        mock: bool = False,
        *,
        randomness: Literal["different", "same", "error"] = "different",
    ) -> None:
        super().__init__()
        if randomness not in ("different", "same", "error"):
            raise ValueError(f"randomness is 'different', 'same' or 'error', got {randomness!r}")
        self.in_keys = module.in_keys
        self.out_keys = module.out_keys
        self.module = module
        self.vmap_dim = vmap_dim
        self.mock = mock
        self.randomness = randomness

    def mock_(self, value: bool = True) -> None:
        """Call the module once for each entry from now on, or no longer."""
        self.mock = value

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """What the module writes, in the tensordict.

        Raises:
            ValueError: the tensordict has no such batch dimension.
        """
        dim = -1 if self.vmap_dim is None else self.vmap_dim
        if not -tensordict.ndim <= dim < tensordict.ndim:
            raise ValueError(
                f"VmapModule maps batch dimension {dim}, got a tensordict of batch size {list(tensordict.batch_size)}"
            )
        dim %= tensordict.ndim
        read: Any = tensordict.select(*self.in_keys, strict=False)
        made: Any
        if self.mock:
            made = torch.stack([self.module(each.copy()) for each in read.unbind(dim)], dim)
        else:
            made = torch.vmap(self.module, (dim,), (dim,), randomness=self.randomness)(read)
        return cast("TensorDictBase", tensordict.update(made.select(*self.out_keys, strict=False)))
