# ...


class DeltaKeys(NamedTuple):
    """What one repetition reads and writes."""

    x: NestedKey
    """what changes"""
    change: NestedKey
    """the change since the step before"""
    peak: NestedKey
    age: NestedKey


def delta_reset(change: Tensor) -> Tensor:
    """`change` at the start of an episode.

    Args:
        change: floats [*batch, ...], read for its shape and dtype only.
    """
    # transforms.Delta.reset
    return torch.zeros_like(change)


def delta_reset_peak_age(x: Tensor, age: Tensor) -> tuple[Tensor, Tensor]:
    """`peak` and `age` at the start of an episode.

    Args:
        x: floats [*batch, ...].
        age: int64 [*batch, ...], read for its shape and dtype only.
    """
    # transforms.Delta.reset
    peak = torch.abs(x)
    age = torch.zeros_like(age, dtype=torch.int64)
    return peak, age


def delta_step(gain: float, clipped: bool, x: Tensor, next_x: Tensor) -> Tensor:
    """`change` after a step.

    Args:
        gain: the factor \"\"\" of the change.
        clipped: constructor keyword.
        x: floats [*batch, ...], before the step.
        next_x: floats [*batch, ...], after the step.
    """
    # transforms.Delta.step
    raw = gain * (next_x - x)
    return torch.clamp(raw, -1.0, 1.0) if clipped else raw


def delta_step_age_peak(window: int, peak: Tensor, age: Tensor, next_x: Tensor) -> tuple[Tensor, Tensor]:
    """`age` and `peak` after a step.

    Args:
        window: steps until the peak is forgotten.
        peak: floats [*batch, ...], before the step.
        age: int64 [*batch, ...], before the step.
        next_x: floats [*batch, ...], after the step.
    """
    # transforms.Delta.step
    stale = age + 1 >= window
    next_age = torch.where(stale, 0, age + 1)
    next_peak = torch.where(stale, torch.abs(next_x), torch.maximum(peak, torch.abs(next_x)))
    return next_age, next_peak


class Delta(GeneratedTransform[DeltaKeys]):
    # ...

    def __init__(
        self, in_keys: Sequence[NestedKey] | None = None, null_key: str = "delta_{}",
        peak_key: str = "peak_{}", age_key: str = "age_{}", gain: float = 2.0, window: int | None = None,
        clipped: bool = False,
    ) -> None:
        """How much an observation has changed, with a running peak.

        Args:
            in_keys: the keys that it works on (default: `observation`).
            null_key: the name of `change`.
            peak_key: the name of `peak`.
            age_key: the name of `age`.
            gain: the factor \"\"\" of the change; > 0.
            window: steps until the peak is forgotten; >= 1.
            clipped: bool.

        Raises:
            ValueError: if `gain` is not > 0, or `window` is not >= 1, or `null_key` or `peak_key` or
                `age_key` is no name.
        """
        super().__init__(in_keys=in_keys)
        self.null_key = leaf_name(null_key, "null_key")
        self.peak_key = leaf_name(peak_key, "peak_key")
        self.age_key = leaf_name(age_key, "age_key")
        if not gain > 0:
            raise ValueError(f"gain must be > 0, got {gain}")
        self.gain = gain
        if window is not None and not window >= 1:
            raise ValueError(f"window must be >= 1, got {window}")
        self.window = window
        self.clipped = clipped
        if self.window is not None:
            self._writes = (*self._writes, "peak", "age")
            self._recalls = (*self._recalls, "peak", "age")
            self._carries = (*self._carries, "peak", "age")

    # ...


class HalveInverseKeys(NamedTuple):
    """What one repetition of the inverse writes and reads."""

    inner: NestedKey
    outer: NestedKey


def halve_inverse(outer: Tensor) -> Tensor:
    """`inner`, as the environment takes it.

    Args:
        outer: floats [*batch, ...].
    """
    # transforms.Halve.inverse
    return outer / 2


# ...
