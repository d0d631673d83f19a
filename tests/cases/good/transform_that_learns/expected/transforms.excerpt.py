# ...


class SeenKeys(NamedTuple):
    """What one repetition reads and writes."""

    x: NestedKey
    least: NestedKey


def seen_reset(begun: Tensor, x: Tensor) -> Tensor:
    """`least` at the start of an episode.

    Args:
        begun: what was learned.
        x: float32 [*batch, ...].
    """
    # transforms.Seen.reset
    return torch.where(begun, x, 0.0)


def seen_step(least: Tensor, next_x: Tensor) -> Tensor:
    """`least` after a step.

    Args:
        least: float32 [*batch, ...], before the step.
        next_x: float32 [*batch, ...], after the step.
    """
    # transforms.Seen.step
    return torch.minimum(least, next_x)


def seen_update(seen: Tensor, begun: Tensor, new_rows: NewRows) -> tuple[Tensor, Tensor]:
    """`seen` and `begun` with what the rows that are new tell.

    Args:
        seen: how many rows were seen.
        begun: what was learned so far.
        new_rows: the rows that count.
    """
    # transforms.Seen.update
    next_seen = seen + batch_count(new_rows).to(torch.int64)
    next_begun = torch.full_like(begun, True)
    return next_seen, next_begun


class Seen(LearningTransform[SeenKeys]):
    """Number what was seen, and show whether anything was.

    Reads, for each of `in_keys`:
        `x`, float32 [*batch, ...]

    Writes, for each of them:
        `least`, of the same dtype; carried from step to step
    """

    _reads = ("x",)
    _writes = ("least",)
    _recalls = ("least",)
    _carries = ("least",)
    _beside: ClassVar[Mapping[str, str]] = {"least": "x"}
    _sequential = True
    _learns_from = ()

    def __init__(
        self, in_keys: Sequence[NestedKey] | None = None, out_keys: Sequence[NestedKey] | None = None
    ) -> None:
        """Number what was seen, and show whether anything was.

        Args:
            in_keys: the keys that it works on (default: `observation`).
            out_keys: the keys of `least`, one for each input (default: `least_{}`, after the input's key).
        """
        super().__init__(in_keys=in_keys, out_keys=out_keys)

    def _bind(self, env: EnvBase | None) -> list[SeenKeys]:
        x = self._select(env, self._in_keys, ("observation",), (torch.float32,))
        least = self._named(self._out_keys, [rename_leaf(key, "least_{}") for key in x], "out_keys")
        return [SeenKeys(*keys) for keys in zip(x, least, strict=True)]

    def _added_specs(self) -> dict[NestedKey, TensorSpec]:
        specs: dict[NestedKey, TensorSpec] = {}
        for key in self.keys:
            x = self._spec(key.x)
            specs[key.least] = unbounded_like(x)
        return specs

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        with self._statistics.locked():
            for key in self.keys:
                held = self._held(key.x)
                x = self._require(tensordict_reset, key.x)
                least = seen_reset(held["begun"], x)
                self._keep(tensordict_reset, key.least, least)
            self._learn_of(tensordict_reset, self._reset_rows(tensordict))
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key in self.keys:
            least = self._recall(tensordict, key.least)
            next_x = self._require(next_tensordict, key.x)
            next_least = seen_step(least, next_x)
            self._keep(next_tensordict, key.least, next_least)
        self._learn_of(next_tensordict, self._stepped_rows(tensordict))
        return next_tensordict

    def _buffer_specs(self) -> tuple[BufferSpec, ...]:
        return (
            BufferSpec("seen", None, torch.int64, False, 0),
            BufferSpec("begun", None, torch.bool, False, False),
        )

    def _updated(self, held: Mapping[str, Tensor], new_rows: NewRows, *values: Tensor) -> tuple[Tensor, ...]:
        return seen_update(held["seen"], held["begun"], new_rows)


class CentreKeys(NamedTuple):
    """What one repetition reads and writes."""

    x: NestedKey
    y: NestedKey


def centre_map(mean: Tensor, x: Tensor) -> Tensor:
    """`y` at any moment.

    Args:
        mean: what was learned.
        x: floats [*batch, ...].
    """
    # transforms.Centre.map
    return x - mean


def centre_update(slow: float, new_rows: NewRows, x: Tensor) -> Tensor:
    """`mean` with what the rows that are new tell.

    Args:
        slow: constructor keyword.
        new_rows: the rows that count.
        x: floats [*batch, ...].
    """
    # transforms.Centre.update
    return slow * batch_mean(x, new_rows)


class Centre(LearningTransform[CentreKeys]):
    """The transform `Centre`.

    Reads, for each of `in_keys`:
        `x`, floats [*batch, ...]

    Writes, for each of them:
        `y`, of the same dtype
    """

    _reads = ("x",)
    _writes = ("y",)
    _follows: ClassVar[Mapping[str, Follows]] = {"y": Follows("monotone")}
    _maps: ClassVar[Mapping[str, str]] = {"y": "x"}
    _learns_from = ("x",)
    _learns = "when_called"
    _values_of: ClassVar[Mapping[str, str]] = {"loc": "mean"}
    loc: Tensor | None

    def __init__(
        self, in_keys: Sequence[NestedKey], out_keys: Sequence[NestedKey] | None = None,
        loc: ArrayLike | None = None, slow: float = 0.9,
    ) -> None:
        """The transform `Centre`.

        Args:
            in_keys: the keys that it works on.
            out_keys: the keys of `y`, one for each input (default: `in_keys`).
            loc: the mean.
            slow: float; >= 0 and <= 1.

        Raises:
            ValueError: if `slow` is not >= 0 and <= 1.
        """
        super().__init__(in_keys=in_keys, out_keys=out_keys)
        self.register_buffer("loc", None if loc is None else as_float_tensor(loc, "loc"))
        if not slow >= 0:
            raise ValueError(f"slow must be >= 0, got {slow}")
        if not slow <= 1:
            raise ValueError(f"slow must be <= 1, got {slow}")
        self.slow = slow

    def _bind(self, env: EnvBase | None) -> list[CentreKeys]:
        x = self._select(env, self._in_keys, (), FLOAT_DTYPES)
        y = self._named(self._out_keys, x, "out_keys")
        return [CentreKeys(*keys) for keys in zip(x, y, strict=True)]

    def _added_specs(self) -> dict[NestedKey, TensorSpec]:
        specs: dict[NestedKey, TensorSpec] = {}
        for key in self.keys:
            x = self._spec(key.x)
            specs[key.y] = unbounded_like(x)
        return specs

    def _map(self, tensordict: TensorDictBase, tolerant: bool) -> TensorDictBase:
        seen = self._as_before(tensordict)
        for key in self.keys:
            if tolerant and self._lacks(seen, key.x):
                continue
            held = self._held(key.x)
            x = self._require(seen, key.x)
            y = centre_map(held["mean"], x)
            self._write(tensordict, key.y, y)
        return tensordict

    def _buffer_specs(self) -> tuple[BufferSpec, ...]:
        return (BufferSpec("mean", "x", None, True, self._buffers["loc"], True),)

    def _updated(self, held: Mapping[str, Tensor], new_rows: NewRows, *values: Tensor) -> tuple[Tensor, ...]:
        return (centre_update(self.slow, new_rows, *values),)


class OrderKeys(NamedTuple):
    """What one repetition reads and writes."""

    done: NestedKey
    number: NestedKey


def order_reset(first: int, begun: Tensor, done: Tensor, new_rows: NewRows) -> Tensor:
    """`number` at the start of an episode.

    Args:
        first: the number of the first episode.
        begun: what was learned.
        done: bool [*batch, ...].
        new_rows: the rows that are being reset.
    """
    # transforms.Order.reset
    place = batch_rank(done, new_rows)
    return first + begun + place


def order_step(number: Tensor) -> Tensor:
    """`number` after a step.

    Args:
        number: int64 [*batch, ...], before the step.
    """
    # transforms.Order.step
    return number


def order_update(begun: Tensor, new_rows: NewRows) -> Tensor:
    """`begun` with what the rows that are new tell.

    Args:
        begun: how many episodes have begun.
        new_rows: the rows that count.
    """
    # transforms.Order.update
    return begun + batch_count(new_rows).to(torch.int64)


class Order(LearningTransform[OrderKeys]):
    """Number episodes, from a first number.

    Reads, for the done flag of every root-most done set:
        `done`, bool [*batch, ...]

    Writes, for each of them:
        `number`, int64; carried from step to step
    """

    _writes = ("number",)
    _recalls = ("number",)
    _carries = ("number",)
    _beside: ClassVar[Mapping[str, str]] = {"number": "done"}
    _sequential = True
    _refuses_offline = True
    _learns_from = ()
    _learns = "at_reset"

    def __init__(self, number_key: str = "number", first: int = 0) -> None:
        """Number episodes, from a first number.

        Args:
            number_key: the name of `number`.
            first: the number of the first episode.

        Raises:
            ValueError: if `number_key` is no name.
        """
        super().__init__()
        self.number_key = leaf_name(number_key, "number_key")
        self.first = first

    def _bind(self, env: EnvBase | None) -> list[OrderKeys]:
        done = self._select(env, None, ("env.done",), (torch.bool,))
        number = [sibling(key, self.number_key) for key in done]
        return [OrderKeys(*keys) for keys in zip(done, number, strict=True)]

    @property
    def number_keys(self) -> list[NestedKey]:
        """The keys of `number`."""
        return self._keys_of("number")

    def _added_specs(self) -> dict[NestedKey, TensorSpec]:
        specs: dict[NestedKey, TensorSpec] = {}
        for key in self.keys:
            done = self._spec(key.done)
            specs[key.number] = unbounded_like(done, torch.int64)
        return specs

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        with self._statistics.locked():
            for key in self.keys:
                held = self._held(key.done)
                done = self._require(tensordict_reset, key.done)
                number = order_reset(
                    self.first, held["begun"], done, self._reset_rows(tensordict)(key, tensordict_reset)
                )
                self._keep(tensordict_reset, key.number, number)
            self._learn_of(tensordict_reset, self._reset_rows(tensordict))
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key in self.keys:
            number = self._recall(tensordict, key.number)
            next_number = order_step(number)
            self._keep(next_tensordict, key.number, next_number)
        return next_tensordict

    def _buffer_specs(self) -> tuple[BufferSpec, ...]:
        return (BufferSpec("begun", "done", torch.int64, False, 0),)

    def _updated(self, held: Mapping[str, Tensor], new_rows: NewRows, *values: Tensor) -> tuple[Tensor, ...]:
        return (order_update(held["begun"], new_rows),)
