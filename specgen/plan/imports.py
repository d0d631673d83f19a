"""The imports of a generated module: found in the finished strings, so that none is missing or unused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace

from specgen.expr.torch_text import FUNCTIONAL
from specgen.plan.model import Import, Item, RecordPlan, TypingPlan

_RUNTIME_SPECS = (
    "Binary",
    "Bounded",
    "Categorical",
    "Composite",
    "MultiCategorical",
    "MultiOneHot",
    "OneHot",
    "TensorSpec",
    "Unbounded",
)
_RUNTIME_TRANSFORMS = {
    "arguments": ("as_float_tensor",),
    "generated": ("INPUTS", "GeneratedTransform"),
    "keys": ("leaf_name", "rename_leaf", "sibling"),
    "like": ("bounded_like", "cast_like", "flag_like", "mapped_like", "unbounded_like"),
}
_RUNTIME_ENVS = (
    "EnvBase",
    "EnvSpecs",
    "GeneratedEnv",
    "GeneratedGymEnv",
    "GeneratedPythonEnv",
    "SimulatorDynamics",
    "VectorDynamics",
)
_RUNTIME_LIFTING = ("counts_before", "sums_before")
_RUNTIME_TYPING = ("ArrayLike", "DEVICE_TYPING", "Entries", "NestedKey", "TensorDict", "TensorDictBase")
_RUNTIME_TYPED = ("TypedComposite", "TypedTensorDict")
_RUNTIME_LOSSES = ("LossModule", "Reduction", "ValueEstimators", "distance_loss", "next_key")
_RUNTIME_MODULES = ("ActionSpace", "ActionSpaceName", "action_index", "qvalue_network")
_JAXTYPING = ("Bool", "Float", "Float32", "Float64", "Int8", "Int16", "Int32", "Int64", "UInt8", "Shaped")

KNOWN: dict[str, Import] = {
    "math": Import("math"),
    "torch": Import("torch"),
    "Tensor": Import("torch", "Tensor"),
    "nn": Import("torch", "nn"),
    "NamedTuple": Import("typing", "NamedTuple"),
    "Protocol": Import("typing", "Protocol"),
    "SupportsFloat": Import("typing", "SupportsFloat"),
    "abstractmethod": Import("abc", "abstractmethod"),
    "Any": Import("typing", "Any"),
    "Literal": Import("typing", "Literal"),
    "Never": Import("typing", "Never"),
    "overload": Import("typing", "overload", typing_only=True),
    "ClassVar": Import("typing", "ClassVar"),
    "Callable": Import("collections.abc", "Callable"),
    "Sequence": Import("collections.abc", "Sequence"),
    "Mapping": Import("collections.abc", "Mapping"),
    "dataclass": Import("dataclasses", "dataclass"),
    "partial": Import("functools", "partial"),
    **{name: Import("specgen_runtime.functional", name) for name in FUNCTIONAL},
    **{name: Import("specgen_runtime.specs", name) for name in _RUNTIME_SPECS},
    **{name: Import("specgen_runtime.envs", name) for name in _RUNTIME_ENVS},
    **{name: Import("specgen_runtime.envs.generated.lifting", name) for name in _RUNTIME_LIFTING},
    **{name: Import("specgen_runtime.typing", name) for name in _RUNTIME_TYPING},
    **{name: Import("specgen_runtime.typed", name, typing_only=True) for name in _RUNTIME_TYPED},
    **{
        name: Import(f"specgen_runtime.transforms.{module}", name)
        for module, names in _RUNTIME_TRANSFORMS.items()
        for name in names
    },
    **{name: Import("specgen_runtime.objectives", name) for name in _RUNTIME_LOSSES},
    **{name: Import("specgen_runtime.modules", name) for name in _RUNTIME_MODULES},
    "KeyTypes": Import("specgen_runtime.envs.spec_types", "KeyTypes", typing_only=True),
    "TensorDictParams": Import("specgen_runtime.typing", "TensorDictParams", typing_only=True),
    "TensorDictModuleBase": Import("specgen_runtime.typing", "TensorDictModuleBase", typing_only=True),
    **{name: Import("jaxtyping", name, typing_only=True) for name in _JAXTYPING},
}
"""Names that generated code may use, and where each comes from."""

_WORD = re.compile(r"(?<![\w.\"'])[A-Za-z_][A-Za-z0-9_]*")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def imports_of(items: Iterable[Item], further: Mapping[str, Import] | None = None) -> frozenset[Import]:
    """The imports that `items` need.

    Args:
        items: everything that stands in the module.
        further: names from other generated modules.
    """
    known = {**KNOWN, **(further or {})}
    items = list(items)
    own = {item.name for item in items}
    used: set[str] = set()
    typing_only: set[str] = set()
    for item in items:
        names = typing_only if isinstance(item, TypingPlan) else used
        for text in _texts(item):
            names.update(_WORD.findall(_STRING.sub('""', text)))
        if isinstance(item, RecordPlan):
            used.add("NamedTuple")
        if isinstance(item, TypingPlan) and item.runtime is not None:
            used.add(item.runtime)
    return frozenset(
        [known[name] for name in used - own if name in known]
        + [replace(known[name], typing_only=True) for name in typing_only - own if name in known]
    )


def _texts(value: object) -> Iterator[str]:
    """Every string of a plan that is code, not documentation."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _texts(item)
    elif is_dataclass(value):
        for field in fields(value):
            if field.name not in ("doc", "origin", "key", "name"):
                yield from _texts(getattr(value, field.name))
