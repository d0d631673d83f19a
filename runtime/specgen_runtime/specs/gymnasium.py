"""Gymnasium's spaces as specs, and specs as spaces: `space_to_spec` and `spec_to_space`.

Gymnasium is imported only where a space is made: given ones are recognised by the names of their classes.
Values between the two worlds are converted in `specgen_runtime.envs.gym.values` and `.actions`.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch

from specgen_runtime.extras import import_extra
from specgen_runtime.specs.arguments import as_dtype
from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.bounded import Bounded
from specgen_runtime.specs.classes.categorical import Binary, Categorical
from specgen_runtime.specs.classes.multi_categorical import MultiCategorical
from specgen_runtime.specs.classes.multi_onehot import MultiOneHot
from specgen_runtime.specs.classes.onehot import OneHot
from specgen_runtime.specs.composites.composite import Composite
from specgen_runtime.specs.non_tensors.non_tensor import NonTensor
from specgen_runtime.specs.stacks.stacked import Stacked
from specgen_runtime.specs.stacks.stacked_composite import StackedComposite
from specgen_runtime.specs.stacks.stacking import stack_specs
from specgen_runtime.specs.unbounded import Unbounded
from specgen_runtime.specs.variable_dims import has_variable
from specgen_runtime.typing import DEVICE_TYPING

__all__ = [
    "NOT_ARRAYS",
    "UnsupportedSpaceError",
    "has_parts",
    "import_gymnasium",
    "register_gym_spec_conversion",
    "space_kind",
    "space_to_spec",
    "spec_to_space",
]

_KINDS = (
    "Box",
    "Discrete",
    "MultiDiscrete",
    "MultiBinary",
    "Dict",
    "Tuple",
    "Text",
    "Sequence",
)

# A Text has to say how long its strings can be and of which characters; a NonTensor says neither.
_TEXT_LENGTH = 4096
_TEXT_CHARACTERS = string.printable


class UnsupportedSpaceError(TypeError, KeyError):
    """A Gymnasium space that no spec describes: a Graph, a OneOf, a class of one's own."""

    __str__ = Exception.__str__  # KeyError would show the message in quotes


SpaceConversion = TypeVar("SpaceConversion", bound=Callable[..., TensorSpec])

_conversions: dict[type | str, Callable[..., TensorSpec]] = {}


def register_gym_spec_conversion(space_type: type | str) -> Callable[[SpaceConversion], SpaceConversion]:
    """Decorate the function that makes the spec of a kind of space; it is asked before those that are built in.

    The function is called with the space and the keyword arguments `dtype`, `device`, `categorical_action_encoding`,
    `remap_state_to_observation` and `batch_size`; it may gather those that it does not need in `**kwargs`. Values
    go through the spec's `encode` and `to_numpy` then.

    ```python
    @register_gym_spec_conversion(MySpace)
    def my_space(space, device=None, **kwargs):
        return Unbounded(space.shape, device=device)
    ```

    Args:
        space_type: the class of the space, which counts for its subclasses too; or where it stands in
            `gymnasium.spaces`, such as `"box.Box"`.
    """

    def register(conversion: SpaceConversion) -> SpaceConversion:
        _conversions[space_type] = conversion
        return conversion

    return register


def _registered(space: Any) -> Callable[..., TensorSpec] | None:
    """The function that was registered for the class of a space, or for the nearest that it derives from."""
    for cls in type(space).__mro__ if _conversions else ():
        found = _conversions.get(cls) or _conversions.get(
            f"{cls.__module__}.{cls.__name__}".removeprefix("gymnasium.spaces.")
        )
        if found is not None:
            return found
    return None


def import_gymnasium() -> Any:
    """Return the `gymnasium` module.

    Raises:
        ImportError: it is not installed; the message says which extra brings it.
    """
    return import_extra("gymnasium", "Gymnasium environments and spaces need the package 'gymnasium'", "gym")


NOT_ARRAYS = ("Dict", "Tuple", "Text", "Sequence", "registered")
"""The kinds of spaces whose values may be something else than one array."""


def space_kind(space: Any) -> str:
    """Which kind of space it is: the name of the Gymnasium class that it is or derives from.

    `"registered"` where a function was registered that makes its spec.

    Raises:
        UnsupportedSpaceError: a kind that no spec describes.
    """
    if _registered(space) is not None:
        return "registered"
    for cls in type(space).__mro__:
        if cls.__name__ in _KINDS and cls.__module__.startswith("gymnasium."):
            return cls.__name__
    raise UnsupportedSpaceError(
        f"no spec describes the Gymnasium space {type(space).__name__}; supported are {', '.join(_KINDS)},"
        " and what register_gym_spec_conversion was told of"
    )


def has_parts(space: Any) -> bool:
    """Whether a space consists of others, each with values of its own: a Dict or a Tuple.

    Raises:
        UnsupportedSpaceError: as `space_kind`.
    """
    return space_kind(space) in ("Dict", "Tuple")


def space_to_spec(
    space: Any,
    *,
    categorical_action_encoding: bool = False,
    device: DEVICE_TYPING | None = None,
) -> TensorSpec:
    """Describe a Gymnasium space.

    | space | spec |
    |---|---|
    | Box | `Bounded` of the same shape and dtype; `Unbounded` if its bounds are infinite or the dtype's |
    | Discrete | `OneHot` of int64, or `Categorical` of the same dtype |
    | MultiBinary | `Binary` of int8 |
    | MultiDiscrete, all sizes `n` | `OneHot` of shape `(*shape, n)`, or `Categorical` of the same shape |
    | MultiDiscrete, other sizes | `MultiOneHot` of int64, or `MultiCategorical`; its rows stacked if it has any |
    | Dict | `Composite` |
    | Tuple | the specs of its parts stacked along dimension 0, by `torch.stack` |
    | Text | `NonTensor` of shape `()`, with a text of the space as its example |
    | Sequence with `stack=True` | the spec of an element with a dimension -1 in front |
    | what `register_gym_spec_conversion` was told of | what that function makes |

    A spec counts classes from 0. Where a Discrete or a MultiDiscrete starts elsewhere, the spec describes
    `value - start`; `envs.gym.values.value_encoder` and `envs.gym.actions.action_decoder` shift the values.
    A spec does not keep the lengths and characters of a Text.

    Args:
        space: the space.
        categorical_action_encoding: class indices instead of one-hot vectors, at every depth.
        device: the device of the spec; torch's default device if None (a `Composite` leaves it open).

    Raises:
        UnsupportedSpaceError: a TypeError and a KeyError; no spec describes this kind of space.
        TypeError: the dtype of the space is none that specs have.
        ValueError: a Sequence without `stack=True`: its values are tuples, not arrays.
        RuntimeError: a Tuple that is empty, or whose parts cannot be stacked.
    """
    return _Reader(categorical_action_encoding, device).read(space)


class _Reader:
    def __init__(self, categorical: bool, device: DEVICE_TYPING | None) -> None:
        self.categorical = categorical
        self.device = device

    def read(self, space: Any) -> TensorSpec:
        match space_kind(space):
            case "registered":
                return self.registered(space)
            case "Box":
                return self.box(space)
            case "Discrete":
                return self.classes(int(space.n), (), space)
            case "MultiBinary":
                return Binary(shape=space.shape, device=self.device)
            case "MultiDiscrete":
                return self.multi_discrete(space)
            case "Dict":
                entries = {name: self.read(part) for name, part in space.spaces.items()}
                return Composite(entries, device=self.device)
            case "Tuple":
                return self.tuple(space)
            case "Text":
                return self.text(space)
            case _:
                return self.sequence(space)

    def registered(self, space: Any) -> TensorSpec:
        conversion = _registered(space)
        assert conversion is not None
        spec = conversion(
            space,
            dtype=None,
            device=self.device,
            categorical_action_encoding=self.categorical,
            remap_state_to_observation=True,
            batch_size=torch.Size(()),
        )
        if not isinstance(spec, TensorSpec):
            raise TypeError(
                f"what was registered for {type(space).__name__} must return a spec, returned {type(spec).__name__}"
            )
        return spec

    def box(self, space: Any) -> TensorSpec:
        dtype = _torch_dtype(space)
        low, high = np.asarray(space.low), np.asarray(space.high)
        if dtype.is_floating_point:
            limits = np.finfo(space.dtype)
            free = bool(np.all((low <= limits.min) & (high >= limits.max)))
        elif dtype is torch.bool:
            free = bool(np.all(~low & high))
        else:
            whole = np.iinfo(space.dtype)
            free = bool(np.all((low == whole.min) & (high == whole.max)))
        if free:
            return Unbounded(shape=space.shape, dtype=dtype, device=self.device)
        return Bounded(
            low=torch.from_numpy(low.copy()),
            high=torch.from_numpy(high.copy()),
            shape=space.shape,
            dtype=dtype,
            device=self.device,
        )

    def classes(self, n: int, shape: tuple[int, ...], space: Any) -> TensorSpec:
        if self.categorical:
            return Categorical(n, shape, self.device, _torch_dtype(space))
        return OneHot(n, (*shape, n), self.device, torch.int64)

    def multi_discrete(self, space: Any) -> TensorSpec:
        sizes = np.asarray(space.nvec)
        if sizes.size == 0:
            raise UnsupportedSpaceError(f"no spec describes {space}: it has no elements")
        if bool((sizes == sizes.flat[0]).all()):
            return self.classes(int(sizes.flat[0]), sizes.shape, space)
        alike = sizes.ndim > 1 and bool((sizes == sizes[..., :1]).all())
        return self.rows(sizes, alike, space)

    def rows(self, sizes: np.ndarray[Any, Any], alike: bool, space: Any) -> TensorSpec:
        """Read sizes that differ.

        Args:
            sizes: the numbers of classes.
            alike: whether each row has only one of them. All rows have to give specs of one class.
            space: the whole space.
        """
        if sizes.ndim > 1:
            return stack_specs([self.rows(row, alike, space) for row in sizes])
        if alike:
            return self.classes(int(sizes[0]), sizes.shape, space)
        counts = [int(size) for size in sizes]
        if self.categorical:
            return MultiCategorical(counts, device=self.device, dtype=_torch_dtype(space))
        return MultiOneHot(counts, device=self.device, dtype=torch.int64)

    def tuple(self, space: Any) -> TensorSpec:
        parts = [self.read(part) for part in space.spaces]
        try:
            return stack_specs(parts)
        except (RuntimeError, TypeError, ValueError) as error:
            raise RuntimeError(
                f"no spec describes {space}: the specs of its parts cannot be stacked: {error}"
            ) from error

    def text(self, space: Any) -> TensorSpec:
        # `rand` gives the example: it belongs to the space.
        example = "".join(space.character_list[:1]) * min(max(space.min_length, 1), space.max_length)
        return NonTensor((), device=self.device, example_data=example)

    def sequence(self, space: Any) -> TensorSpec:
        if not space.stack:
            raise ValueError(
                f"no spec describes {space}: its values are tuples of any length; pass stack=True to Sequence"
            )
        return self.read(space.feature_space).unsqueeze(0).make_neg_dim(0)


def _torch_dtype(space: Any) -> torch.dtype:
    try:
        return as_dtype(torch.from_numpy(np.zeros((), dtype=space.dtype)).dtype)
    except TypeError as error:
        raise TypeError(f"no spec describes {space}: {error}") from None


def spec_to_space(spec: TensorSpec) -> Any:
    """Return the Gymnasium space with the values of a spec: the inverse of `space_to_spec`.

    | spec | space |
    |---|---|
    | `Bounded`, `Unbounded` | Box of the same bounds (infinite ones, or the dtype's), shape and dtype |
    | `Categorical`, `OneHot` | Discrete, or MultiDiscrete where there are several of them |
    | `MultiCategorical`, `MultiOneHot` | MultiDiscrete |
    | `Binary` | MultiBinary; Discrete(2) for the shape `()` |
    | `Composite` | Dict; entries that are None are left out |
    | `NonTensor` whose example is a text | Text of at most 4096 printable ASCII characters |
    | `Stacked`, `StackedComposite` | Tuple |
    | shape `(-1, ...)` | Sequence of what it is along that dimension, with `stack=True` |
    | another -1 in the shape | Tuple of what it is along dimension 0 |

    Classes keep their dtype if it is an integer dtype that holds their number; else they are int64. Discrete
    spaces start at 0. Masks are not part of a space. A batch dimension of a `Composite` stays in its entries.

    Raises:
        ImportError: Gymnasium is not installed.
        NotImplementedError: Gymnasium has no space for the spec.
        RuntimeError: the number of classes of a `Categorical` is unknown.
    """
    return _space_of(spec, import_gymnasium().spaces)


def _space_of(spec: TensorSpec, spaces: Any) -> Any:
    if spec.shape[:1] == (-1,):
        sequence: Any = spec
        return spaces.Sequence(_space_of(sequence[0], spaces), stack=True)
    if isinstance(spec, Stacked | StackedComposite) or has_variable(spec.shape):
        return spaces.Tuple([_space_of(part, spaces) for part in spec.unbind(0)])
    match spec:
        case Composite():
            return spaces.Dict(
                {name: _space_of(part, spaces) for name, part in spec.items() if part is not None}
            )
        case Bounded() | Unbounded():
            return _box_of(spec, spaces)
        case Categorical():
            return _classes_of(np.full(spec.shape, spec.n), spec, spaces)
        case MultiOneHot():
            sizes = np.asarray(spec.nvec)
            return _classes_of(np.broadcast_to(sizes, (*spec.shape[:-1], *sizes.shape[-1:])), spec, spaces)
        case OneHot():
            return _classes_of(np.full(spec.shape[:-1], spec.n), spec, spaces)
        case MultiCategorical():
            return _classes_of(spec.nvec.cpu().numpy(), spec, spaces)
        case Binary():
            return _bits_of(tuple(spec.shape), spaces)
        case NonTensor() if isinstance(spec.example_data, str):
            if spec.shape:
                return spaces.Tuple([_space_of(part, spaces) for part in spec.unbind(0)])
            characters = _TEXT_CHARACTERS + spec.example_data
            longest = max(_TEXT_LENGTH, len(spec.example_data))
            return spaces.Text(longest, min_length=0, charset=characters)
    raise NotImplementedError(f"Gymnasium has no space for {spec!r}")


def _box_of(spec: Bounded | Unbounded, spaces: Any) -> Any:
    dtype = spec.dtype
    if dtype is torch.bfloat16:
        raise NotImplementedError(f"Gymnasium has no space for {spec!r}: NumPy has no bfloat16")
    low, high = (bound.cpu().numpy() for bound in (spec.space.low, spec.space.high))
    if isinstance(spec, Unbounded) and dtype.is_floating_point:
        low, high = np.full_like(low, -np.inf), np.full_like(high, np.inf)
    return spaces.Box(low, high, tuple(spec.shape), low.dtype)


def _bits_of(shape: tuple[int, ...], spaces: Any) -> Any:
    if not shape:
        return spaces.Discrete(2)
    return spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)


def _classes_of(sizes: np.ndarray[Any, Any], spec: TensorSpec, spaces: Any) -> Any:
    held = isinstance(spec, Categorical | MultiCategorical) and not (
        spec.dtype.is_floating_point
        or spec.dtype is torch.bool
        or int(sizes.max(initial=0)) > torch.iinfo(spec.dtype).max
    )
    dtype = torch.empty((), dtype=spec.dtype).numpy().dtype if held else np.dtype(np.int64)
    if sizes.ndim == 0:
        return spaces.Discrete(int(sizes), dtype=dtype)
    return spaces.MultiDiscrete(sizes, dtype=dtype)
