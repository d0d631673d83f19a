"""Names of the batch dimensions of a `Composite`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.specs import Composite, Unbounded

NAMED: list[Callable[[Any], Any]] = [
    lambda it: it.expand(5, 2, 1, 3),
    lambda it: it.expand(2, 4, 3),
    lambda it: it.unsqueeze(0),
    lambda it: it.unsqueeze(-1),
    lambda it: it.squeeze(1),
    lambda it: it.squeeze(),
    lambda it: it.unbind(0)[0],
    lambda it: it[0],
    lambda it: it[:, 0],
    lambda it: it[..., 1],
    lambda it: it[None],
    lambda it: it[1:],
    lambda it: it[torch.tensor([0, 1, 1])],
    lambda it: it.clone(),
    lambda it: it.to("meta"),
]


class TestNames:
    @pytest.mark.parametrize("change", NAMED)
    def test_they_follow_as_in_a_tensordict(self, change: Callable[[Any], Any]) -> None:
        spec = Composite(
            x=Unbounded((2, 1, 3)),
            n=Composite(y=Unbounded((2, 1, 3, 4)), shape=(2, 1, 3, 4)),
            shape=(2, 1, 3),
            names=["env", None, "time"],
        )
        spec["n"].names = ["env", None, "time", "agent"]  # type: ignore[attr-defined]  # a Composite
        changed = change(spec)
        assert changed.names == change(spec.zero()).names
        assert changed.zero().names == changed.names
        assert changed["n"].names == [*changed.names, "agent"]
        assert changed["n"].zero().names == changed["n"].names

    def test_dimensions_in_front_have_none(self) -> None:
        spec = Composite(x=Unbounded((2, 3)), shape=(2,), names=["env"])
        assert spec.rand((4,)).names == [None, "env"]
        assert spec.encode({"x": torch.zeros(4, 2, 3)}).names == [None, "env"]

    def test_parts_share_them(self) -> None:
        part = Composite(y=Unbounded((2, 3)), shape=(2, 3))
        spec = Composite(n=part, shape=(2,), names=["env"])
        nested = spec["n"]
        assert isinstance(nested, Composite)
        assert nested.names == ["env", None]
        assert part.names == [None, None]
        spec.names = ["e"]
        assert nested.names == ["e", None]
        spec["new", "z"] = Unbounded((2,))
        assert spec.zero()["new"].names == ["e"]
        spec.names = None
        assert spec.names == [None]
        assert spec.zero().names == [None]
        spec.names = ["e"]
        spec.shape = (2,)
        assert spec.names == ["e"]
        spec.shape = ()
        assert spec.names == []

    def test_refine(self) -> None:
        spec = Composite(shape=(1, 2, 3))
        assert spec.refine_names("a", ...) is spec
        assert spec.refine_names(..., "c").names == ["a", None, "c"]
        with pytest.raises(RuntimeError, match="dimension 0 is named 'a'"):
            spec.refine_names("b", ...)
        with pytest.raises(ValueError, match="at most one"):
            spec.refine_names(..., ...)
        for names in (["a"], ["a", "a", "b"]):
            with pytest.raises(ValueError, match="names must"):
                spec.names = names
        with pytest.raises(ValueError, match="names must be 1"):
            Composite(shape=(2,), names=["a", "b"])
        with pytest.raises(TypeError, match="names must be strings"):
            Composite(shape=(2,), names=[3])  # type: ignore[list-item]
        assert spec.names == ["a", None, "c"]
