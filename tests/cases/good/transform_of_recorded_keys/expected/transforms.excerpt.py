# ...


class HalvedKeys(NamedTuple):
    """What one repetition reads and writes."""

    taken: NestedKey
    shown: NestedKey


class HalvedInverseKeys(NamedTuple):
    """What one repetition of the inverse writes and reads."""

    action: NestedKey
    written: NestedKey


def halved_map(taken: Tensor) -> Tensor:
    """`shown` at any moment.

    Args:
        taken: float32 [*batch, ...].
    """
    # transforms.Halved.map
    return taken / 2


def halved_outer_written(action: Tensor) -> Tensor:
    """`written`, of what the environment takes.

    Args:
        action: float32 [*batch, ...].
    """
    # transforms.Halved.out
    return action / 2


def halved_inverse(written: Tensor) -> Tensor:
    """`action`, as the environment takes it.

    Args:
        written: float32 [*batch, ...].
    """
    # transforms.Halved.inverse
    return 2 * written


class Halved(GeneratedTransform[HalvedKeys, HalvedInverseKeys]):
    """Show recorded actions as half of what they were; the policy writes them so.

    Reads, for each of `in_keys`, in recorded data:
        `taken`, float32 [*batch, ...]

    Writes, for each of them:
        `shown`, of the type that is computed

    Gives the environment, for each of `in_keys_inv`:
        `action`, float32 [*batch, ...]

    Reads, in its place:
        `written`, like `action / 2`
    """

    _reads = ("taken",)
    _writes = ("shown",)
    _gives = ("action",)
    _takes = ("written",)
    _follows: ClassVar[Mapping[str, Follows]] = {"shown": Follows("monotone")}
    _maps: ClassVar[Mapping[str, str]] = {"shown": "taken"}
    _recorded = True
    invertible = True

    def __init__(
        self, in_keys: Sequence[NestedKey] | None = None, out_keys: Sequence[NestedKey] | None = None,
        in_keys_inv: Sequence[NestedKey] | None = None, out_keys_inv: Sequence[NestedKey] | None = None,
    ) -> None:
        """Show recorded actions as half of what they were; the policy writes them so.

        Args:
            in_keys: the keys that it works on (default: none; they are of recorded data).
            out_keys: the keys of `shown`, one for each input (default: `in_keys`).
            in_keys_inv: the keys that it works on (default: `action`).
            out_keys_inv: the keys of `written`, one for each input (default: `in_keys_inv`).
        """
        super().__init__(
            in_keys=in_keys, out_keys=out_keys, in_keys_inv=in_keys_inv, out_keys_inv=out_keys_inv
        )

    def _bind(self, env: EnvBase | None) -> list[HalvedKeys]:
        taken = [] if env is not None else self._select(env, self._in_keys or [], (), (torch.float32,))
        shown = self._named(self._out_keys, taken, "out_keys")
        return [HalvedKeys(*keys) for keys in zip(taken, shown, strict=True)]

    def _bind_inv(self, env: EnvBase | None) -> list[HalvedInverseKeys]:
        action = self._select(env, self._in_keys_inv, ("action",), (torch.float32,), INPUTS)
        written = self._named(self._out_keys_inv, action, "out_keys_inv")
        return [HalvedInverseKeys(*keys) for keys in zip(action, written, strict=True)]

    def _apply_transform(self, taken: Tensor) -> Tensor:
        return halved_map(taken)

    def _inv_apply_transform(self, written: Tensor) -> Tensor:
        return halved_inverse(written)

    def _outer_specs(self, key: HalvedInverseKeys) -> dict[NestedKey, TensorSpec]:
        specs: dict[NestedKey, TensorSpec] = {}
        specs[key.written] = self._outer_spec(
            key.action, key.written, "monotone", partial(halved_outer_written)
        )
        return specs


class JoinedKeys(NamedTuple):
    """What one repetition reads and writes."""

    xs: list[NestedKey]
    y: NestedKey


# ...


class Joined(GeneratedTransform[JoinedKeys]):
    """Put entries side by side, in the order of their names; store none of them.

    Reads:
        `xs`, several together, float32 [*batch, ...]

    Writes:
        `y`, of the type that is computed

    Leaves out on the way to the environment, or into a replay buffer: `xs`, if not stored.
    """

    _reads = ("xs",)
    _writes = ("y",)
    _follows: ClassVar[Mapping[str, Follows]] = {"y": Follows("structural")}
    _logical = True

    def __init__(self, in_keys: Sequence[NestedKey], stored: bool = False) -> None:
        """Put entries side by side, in the order of their names; store none of them.

        Args:
            in_keys: the keys that it works on.
            stored: whether they are stored.
        """
        super().__init__(in_keys=in_keys)
        self.stored = stored
        if not self.stored:
            self._drops_inverse = (*self._drops_inverse, "xs")

    def _bind(self, env: EnvBase | None) -> list[JoinedKeys]:
        xs = [in_order(self._select(env, self._in_keys, (), (torch.float32,)))]
        y = ["joined"] * len(xs)
        return [JoinedKeys(*keys) for keys in zip(xs, y, strict=True)]

    def _map(self, tensordict: TensorDictBase, tolerant: bool) -> TensorDictBase:
        for key in self.keys:
            if tolerant and self._lacks(tensordict, key.xs):
                continue
            xs = self._vectors(tensordict, key.xs)
            y = joined_map(xs)
            self._write(tensordict, key.y, y)
        return tensordict


class BareKeys(NamedTuple):
    """What one repetition reads and writes."""

    flags: list[NestedKey]


class Bare(GeneratedTransform[BareKeys]):
    """Take done flags away from recorded data.

    Reads:
        `flags`, several together, any dtype [*batch, ...]

    Drops `flags`, if not flagged.
    """

    _reads = ("flags",)

    def __init__(self, in_keys: Sequence[NestedKey] | None = None, flagged: bool = True) -> None:
        """Take done flags away from recorded data.

        Args:
            in_keys: the keys that it works on (default: `env.flags`, of those with bool or uint8 or int8 or
                int16 or int32 or int64 or float32 or float64).
            flagged: whether they stay.
        """
        super().__init__(in_keys=in_keys)
        self.flagged = flagged
        if not self.flagged:
            self._drops = (*self._drops, "flags")

    def _bind(self, env: EnvBase | None) -> list[BareKeys]:
        flags = [self._select(env, self._in_keys, ("env.flags",), ANY_DTYPES)]
        return [BareKeys(key) for key in flags]


class LastKeys(NamedTuple):
    """What one repetition reads and writes."""

    x: NestedKey
    last: NestedKey
    seen: NestedKey


# ...


class Last(GeneratedTransform[LastKeys]):
    """The value before this one.

    Reads, for each of `in_keys`:
        `x`, float32 [*batch, ...]

    Writes, for each of them:
        `last`, of the same dtype
    """

    _reads = ("x",)
    _writes = ("last",)
    _recalls = ("seen",)
    _carries = ("seen",)
    _follows: ClassVar[Mapping[str, Follows]] = {"seen": Follows("structural")}
    _beside: ClassVar[Mapping[str, str]] = {"last": "x", "seen": "x"}
    _sequential = True
    _done_keyword = "over_key"
    _inverse_keyword = "at_extend"

    def __init__(
        self, in_keys: Sequence[NestedKey] | None = None, out_keys: Sequence[NestedKey] | None = None,
        over_key: NestedKey | None = None, at_extend: bool = False,
    ) -> None:
        """The value before this one.

        Args:
            in_keys: the keys that it works on (default: `observation`).
            out_keys: the keys of `last`, one for each input (default: `last`, after the input's key).
            over_key: the flag that ends the episodes of recorded data (default: the `done` of the root-most
                done set above a key).
            at_extend: whether recorded data are transformed by `inv`, on the way into a replay buffer, and
                left alone by `forward`; in no environment.
        """
        super().__init__(in_keys=in_keys, out_keys=out_keys)
        self.over_key = None if over_key is None else normal_key(over_key)
        self.at_extend = at_extend

    def _bind(self, env: EnvBase | None) -> list[LastKeys]:
        x = self._select(env, self._in_keys, ("observation",), (torch.float32,))
        last = self._named(self._out_keys, [rename_leaf(key, "last") for key in x], "out_keys")
        seen_ = [self._hidden(key, "seen") for key in x]
        return [LastKeys(*keys) for keys in zip(x, last, seen_, strict=True)]

    def _added_specs(self) -> dict[NestedKey, TensorSpec]:
        specs: dict[NestedKey, TensorSpec] = {}
        for key in self.keys:
            x = self._spec(key.x)
            specs[key.last] = unbounded_like(x)
        return specs

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for key in self.keys:
            x = self._require(tensordict_reset, key.x)
            last, seen_ = last_reset(x)
            self._write(tensordict_reset, key.last, last)
            self._write(tensordict_reset, key.seen, seen_)
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key in self.keys:
            seen_ = self._recall(tensordict, key.seen)
            next_x = self._require(next_tensordict, key.x)
            next_last, next_seen = last_step(seen_, next_x)
            self._write(next_tensordict, key.last, next_last)
            self._write(next_tensordict, key.seen, next_seen)
        return next_tensordict
