"""Which entries the layers of networks can read as they are, and what helps with others."""

from __future__ import annotations

from collections.abc import Sequence

from specgen.check.model import Entry

_CONVOLUTIONS = "put convolutions in front: `cnn: [[32, 8, 4], [64, 4, 2], [64, 3, 1]]`"

_SHAPES = "specgen_std/transforms/shapes"

_CASTABLE = ("uint8", "float64")
"""The dtypes whose vectors become float32 before they are read; whole numbers may be counts, or names of things."""


def is_image(entry: Entry) -> bool:
    """Whether an entry has three dimensions."""
    return len(entry.stored_shape) == 3 and entry.spec.kind not in ("categorical", "onehot")


def is_vector(entry: Entry) -> bool:
    """Whether linear layers can read an entry as it is."""
    onehot = entry.spec.kind == "onehot"
    return len(entry.stored_shape) == 1 and (
        entry.type.dtype == "float32" or (onehot and entry.role == "action")
    )


def is_index(entry: Entry) -> bool:
    """Whether an entry is one of finitely many, which stands one-hot in front of layers."""
    return entry.spec.kind == "categorical" and not entry.spec.shape


def how_to_read(entries: Sequence[Entry]) -> str:
    """What lets layers read one of these entries, none of which they can read."""
    if any(is_image(entry) for entry in entries):
        return _CONVOLUTIONS
    other = next((entry for entry in entries if _is_other_vector(entry)), None)
    return "say what it reads with `in`" if other is None else f"put {_cast(other)} into the chain"


def how_to_read_one(entry: Entry) -> str:
    """What lets layers read an entry that they can't read, and that their network names."""
    if is_image(entry):
        return _CONVOLUTIONS
    numbers = entry.spec.kind not in ("categorical", "onehot")
    steps = [] if entry.type.dtype == "float32" else [_cast(entry, f", in_keys: [{entry.dotted}]")]
    if numbers and len(entry.stored_shape) == 0:
        steps.append(f"`{{UnsqueezeTransform: {{dim: -1, in_keys: [{entry.dotted}]}}}}`, of {_SHAPES},")
    elif numbers and len(entry.stored_shape) > 1:
        first = f"first_dim: -{len(entry.stored_shape)}, last_dim: -1"
        steps.append(f"`{{FlattenObservation: {{{first}, in_keys: [{entry.dotted}]}}}}`, of {_SHAPES},")
    return f"put {' and '.join(steps)} into the chain" if steps else "name another entry in `in`"


def unread_observation(
    name: str, read: Sequence[Entry], observations: Sequence[Entry], observed: Sequence[Entry]
) -> tuple[str, str] | None:
    """What is said, and what helps, where a network that names nothing reads some observations and not others.

    Args:
        name: the network.
        read: what it reads.
        observations: the observations of the environment.
        observed: those of them that networks read where nothing is said, if they can.
    """
    seen = [entry for entry in read if entry.role != "action" and is_vector(entry)]
    listed = ", ".join(entry.dotted for entry in read)
    what = " and ".join(f"`{entry.dotted}`" for entry in seen)
    meant = f"or write `in: [{listed}]`, if this is meant"
    if (image := next((entry for entry in observations if is_image(entry)), None)) is not None and seen:
        message = f"`{name}` has no convolutions: it reads {what}, and not `{image.dotted}`, {image.type}"
        return message, f"give it convolutions, `cnn: [[32, 8, 4], [64, 4, 2]]`; {meant}"
    other = next(
        (entry for entry in observed if _is_other_vector(entry) and entry.type.dtype == "float64"), None
    )
    if other is not None and seen:
        message = f"`{name}` reads {what}, and not `{other.dotted}`, {other.type}: layers read float32"
        return message, f"put {_cast(other)} into the chain; {meant}"
    return None


def _is_other_vector(entry: Entry) -> bool:
    """Whether an entry is a vector of numbers in a dtype that layers do not read."""
    numbers = entry.spec.kind not in ("categorical", "onehot") and entry.role != "action"
    return numbers and len(entry.stored_shape) == 1 and entry.type.dtype in _CASTABLE


def _cast(entry: Entry, keys: str = "") -> str:
    """The transform of the library that makes float32 of an entry, and its file; of all entries of its dtype without `keys`."""
    if entry.type.dtype == "float64":
        return "`DoubleToFloat`, of specgen_std/transforms/double_to_float,"
    options = f"{{dtype_in: {entry.type.dtype}, dtype_out: float32{keys}}}"
    return f"`{{DTypeCastTransform: {options}}}`, of specgen_std/transforms/dtype_cast,"
