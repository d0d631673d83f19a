"""Small texts of generated code and documentation: dtypes, draws, shapes, domains."""

from __future__ import annotations

from collections.abc import Sequence

from specgen.code import Code, using
from specgen.expr import DrawSite, SpecType
from specgen.program.printed import draw_arguments

TORCH_DTYPES = {
    "bool": "torch.bool",
    "uint8": "torch.uint8",
    "int8": "torch.int8",
    "int16": "torch.int16",
    "int32": "torch.int32",
    "int64": "torch.int64",
    "float32": "torch.float32",
    "float64": "torch.float64",
}


def draw_text(site: DrawSite) -> Code:
    """The class's call that makes a draw."""
    return using(f"self._{site.kind}({draw_arguments(site)})", "torch")


def shape_text(batch: str, dims: Sequence[object]) -> str:
    """A shape for a docstring: `[*batch, 3]`."""
    return f"[{', '.join([batch, *map(str, dims)])}]"


def domain_text(spec: SpecType) -> str:
    """The domain of a spec in words, or nothing when it is everything."""
    if spec.kind == "categorical":
        return f" in 0..{spec.classes - 1}"
    if spec.kind == "onehot":
        return " one-hot"
    if spec.kind == "multi_categorical":
        return " in " + ", ".join(f"0..{count - 1}" for count in spec.counts)
    if spec.kind == "multi_onehot":
        return f" one-hot {' + '.join(map(str, spec.nvec))}"
    if spec.kind == "bounded":
        return f" in [{bound_text(spec.low)}, {bound_text(spec.high)}]"
    return ""


def bound_text(bound: object) -> str:
    """A bound of a domain in words."""
    if isinstance(bound, (list, tuple)):
        return f"[{', '.join(map(bound_text, bound))}]"
    if isinstance(bound, float):
        return f"{bound:g}"
    return "2**63 - 1" if bound == 2**63 - 1 else str(bound)
