# ...


class GainRoot(NamedTuple):
    """The entries at the root."""

    value: Float32[Tensor, "rows time"]
    """float32 [rows, time]."""
    gamma: Float32[Tensor, "rows"]
    """float32 [rows]."""


class GainNext(NamedTuple):
    """The entries under `next`."""

    reward: Float32[Tensor, "rows time"]
    """float32 [rows, time]."""
    value: Float32[Tensor, "rows time"]
    """float32 [rows, time]."""
    goal: Float32[Tensor, "rows time n"] | None
    """float32 [rows, time, n]; None where its key is missing."""


class GainRecorded(NamedTuple):
    """What `Gain` is given of recorded data."""

    root: GainRoot
    """What stands at the root."""
    next: GainNext
    """What stands under `next`."""
    done: Bool[Tensor, "rows time"]
    """bool [rows, time]: where episodes end; where it is false at the last moment, the data end inside of
    one.
    """


class GainOffline(NamedTuple):
    """What `Gain.offline` returns."""

    gain: Float32[Tensor, "rows time"]
    """float32 [rows, time]."""
    near: Float32[Tensor, "rows time n"] | None
    """float32 [rows, time, n]; None unless given(goal)."""
    length: Int64[Tensor, "rows time"] | None
    """int64 [rows, time]; None unless `length_key` is given."""


class GainProtocol(Protocol):
    """What `tests.transforms.python_classes:Gain` has to be.

    It is made from a `GainSetup`, and stateless unless it is an `nn.Module`, which becomes a submodule.
    Tensors have two dimensions in front, the rows and the time, whatever the batch size of the data;
    tensors that it is given must not be changed in place. Subclass this to have type checkers show
    mistakes where they are.
    """

    @abstractmethod
    def offline(self, recorded: GainRecorded) -> GainOffline:
        """The outputs at all moments.

        Args:
            recorded: the recorded data.
        """
        ...


class Gain(PythonRecursion[GainKeys]):
    """Advantages, as a class computes them.

    Reads, for each of `in_keys`:
        `reward`, float32 [*batch]
        `value`, float32 [*batch]
        `goal`, if it is there, float32 [*batch, n]

    Writes, for each of them:
        `gain`, float32 [*batch]
        `near`, float32 [*batch, n]; only with `given(goal)`
        `length`, int64 [*batch]; only with `length_key`
    """

    _reads = ("reward",)
    _writes = ("gain", "near", "length")
    _optional = ("near", "length")
    _logical = True
    _shapes: ClassVar[Mapping[str, str]] = {"reward": "", "value": "", "goal": "n"}
    _python_class = "tests.transforms.python_classes:Gain"
    _python_recorded = RecordedRows(
        GainRecorded,
        root=ReadRows(GainRoot, ((), ()), params=("gamma",)),
        next=ReadRows(GainNext, ((), (), ("n",)), optional=("goal",)),
    )
    _python_methods: ClassVar[Mapping[str, GivenRows]] = {
        "offline": GivenRows(
            GainOffline,
            (torch.float32, torch.float32, torch.int64),
            ((), ("n",), ()),
            when={"near": (("goal", True),)},
        )
    }
    _python_asked: ClassVar[Mapping[str, str]] = {"length": "length_key"}
    python: GainProtocol
    _at = "root"
    gamma: Tensor

    def __init__(
        self, gamma: ArrayLike, in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None, value_key: NestedKey = "state_value",
        goal_key: NestedKey | None = None, length_key: NestedKey | None = None, done_key: NestedKey = "done",
        scale: float = 1.0,
    ) -> None:
        """Advantages, as a class computes them.

        Args:
            gamma: float; one for all, or one for each environment.
            in_keys: the keys that it works on (default: `reward`).
            out_keys: the keys of `gain`, one for each input (default: `gain`, after the input's key).
            value_key: the key of `value`.
            goal_key: the key of `goal` (default: `goal`, where the environment has it).
            length_key: the key of `length` (default: none, and there is none).
            done_key: the flag that ends an episode; a plain name is looked up at the level of each key and
                above it.
            scale: float.
        """
        super().__init__(in_keys=in_keys, out_keys=out_keys, done_key=done_key)
        self.value_key = normal_key(value_key)
        self.goal_key = None if goal_key is None else normal_key(goal_key)
        self.length_key = None if length_key is None else normal_key(length_key)
        self.register_buffer("gamma", as_numbers(gamma, "gamma", torch.float32))
        self.scale = scale
        self._begin_python()

    def _make_python(self, device: torch.device | None) -> GainProtocol:
        from tests.transforms.python_classes import Gain as Behaviour

        make: Callable[[GainSetup], GainProtocol] = Behaviour
        return make(GainSetup(params=GainParams(scale=self.scale), device=device, outputs=self._asked()))

    def _bind(self, env: EnvBase | None) -> list[GainKeys]:
        reward = self._select(env, self._in_keys, ("reward",), (torch.float32,))
        value = self._checked(env, [self.value_key] * len(reward), (torch.float32,))
        goal = self._if_there(
            env, [self.goal_key or "goal"] * len(reward), (torch.float32,), named=self.goal_key is not None
        )
        gain = self._named(self._out_keys, [rename_leaf(key, "gain") for key in reward], "out_keys")
        near = [
            key if goal_key is not None else None
            for key, goal_key in zip(["near"] * len(reward), goal, strict=True)
        ]
        length = [self.length_key] * len(reward)
        return [GainKeys(*keys) for keys in zip(reward, value, goal, gain, near, length, strict=True)]


# ...


class Spread(PythonRecursion[SpreadKeys]):
    """What is under `next` only.

    Reads, for each of `in_keys`:
        `x`, float32 [*batch, ..., n]

    Writes, for each of them:
        `spread`, float32 [*batch, ..., n]
    """

    _reads = ("x",)
    _writes = ("spread",)
    _beside: ClassVar[Mapping[str, str]] = {"spread": "x"}
    _logical = True
    _shapes: ClassVar[Mapping[str, str]] = {"x": "..., n"}
    _python_class = "tests.transforms.python_classes:Last"
    _python_recorded = RecordedRows(SpreadRecorded, next=ReadRows(SpreadNext, (("n",),)))
    _python_methods: ClassVar[Mapping[str, GivenRows]] = {
        "offline": GivenRows(SpreadOffline, (torch.float32,), (("n",),))
    }
    python: SpreadProtocol

    def __init__(
        self, in_keys: Sequence[NestedKey] | None = None, out_keys: Sequence[NestedKey] | None = None,
        done_key: NestedKey = "done",
    ) -> None:
        """What is under `next` only.

        Args:
            in_keys: the keys that it works on (default: `observation`).
            out_keys: the keys of `spread`, one for each input (default: `{}_spread`, after the input's
                key).
            done_key: the flag that ends an episode; a plain name is looked up at the level of each key and
                above it.
        """
        super().__init__(in_keys=in_keys, out_keys=out_keys, done_key=done_key)
        self._begin_python()

    def _make_python(self, device: torch.device | None) -> SpreadProtocol:
        from tests.transforms.python_classes import Last

        make: Callable[[SpreadSetup], SpreadProtocol] = Last
        return make(SpreadSetup(device=device))

    def _bind(self, env: EnvBase | None) -> list[SpreadKeys]:
        x = self._select(env, self._in_keys, ("observation",), (torch.float32,))
        spread = self._named(self._out_keys, [rename_leaf(key, "{}_spread") for key in x], "out_keys")
        return [SpreadKeys(*keys) for keys in zip(x, spread, strict=True)]
