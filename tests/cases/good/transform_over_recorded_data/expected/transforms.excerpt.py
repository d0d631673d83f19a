# ...


class ReturnsKeys(NamedTuple):
    """What one repetition reads and writes."""

    reward: NestedKey
    togo: NestedKey
    steps: NestedKey


def returns_open(gamma: float, next_reward: Tensor) -> tuple[Tensor, Tensor]:
    """`togo` and `steps` behind the last moment, where the data end without `done`.

    Args:
        gamma: constructor keyword.
        next_reward: floats [*batch, ...], under `next`.
    """
    # transforms.Returns.offline
    open_togo = next_reward / (1.0 - gamma + 1.0e-6)
    open_steps = torch.full_like(next_reward, 100, dtype=torch.int64)
    return open_togo, open_steps


def returns_offline(
    gamma: float, next_reward: Tensor, ends: Tensor, open_togo: Tensor, open_steps: Tensor
) -> tuple[Tensor, Tensor]:
    """`togo` and `steps` of all moments, computed from the last to the first.

    Args:
        gamma: constructor keyword.
        next_reward: floats [time, *batch, ...], under `next`.
        ends: bool [time, *batch, ...], where an episode ends.
        open_togo: floats [*batch, ...], behind the last moment.
        open_steps: int64 [*batch, ...], behind the last moment.
    """
    # transforms.Returns.offline
    togo = torch.empty_like(next_reward)
    steps_of_each: list[Tensor] = []
    for t in reversed(range(next_reward.shape[0])):
        acc_togo = torch.where(ends[t], 0.0, open_togo)
        acc_steps = torch.where(ends[t], 0, open_steps)
        tail = gamma * acc_togo
        open_togo = next_reward[t] + tail
        open_steps = acc_steps + 1
        togo[t] = open_togo
        steps_of_each.append(open_steps)
    steps = torch.stack(steps_of_each[::-1])
    return togo, steps


class Returns(RecursionTransform[ReturnsKeys]):
    """The transform `Returns`.

    Reads, for each of `in_keys`:
        `reward`, floats [*batch, ...]

    Writes, for each of them:
        `togo`, of the same dtype
        `steps`, int64
    """

    _reads = ("reward",)
    _writes = ("togo", "steps")
    _out_keys_of_each = 2
    _at = "both"
    _may_end_open = True

    def __init__(
        self, in_keys: Sequence[NestedKey] | None = None, out_keys: Sequence[NestedKey] | None = None,
        done_key: NestedKey = "done", gamma: float = 0.99,
    ) -> None:
        """The transform `Returns`.

        Args:
            in_keys: the keys that it works on (default: every reward, of those with float32 or float64).
            out_keys: the keys of `togo`, one for each input (default: `{}_to_go`, after the input's key).
            done_key: the flag that ends an episode; a plain name is looked up at the level of each key and
                above it.
            gamma: float; >= 0 and <= 1.

        Raises:
            ValueError: if `gamma` is not >= 0 and <= 1.
        """
        super().__init__(in_keys=in_keys, out_keys=out_keys, done_key=done_key)
        if not gamma >= 0:
            raise ValueError(f"gamma must be >= 0, got {gamma}")
        if not gamma <= 1:
            raise ValueError(f"gamma must be <= 1, got {gamma}")
        self.gamma = gamma

    def _bind(self, env: EnvBase | None) -> list[ReturnsKeys]:
        reward = self._select(env, self._in_keys, ("env.reward",), FLOAT_DTYPES)
        togo = self._named(
            self._out_keys, [rename_leaf(key, "{}_to_go") for key in reward], "out_keys", (0, 2)
        )
        steps = self._named(
            self._out_keys, [rename_leaf(key, "{}_steps") for key in reward], "out_keys", (1, 2)
        )
        return [ReturnsKeys(*keys) for keys in zip(reward, togo, steps, strict=True)]

    def _recur(self, recorded: RecordedTimes, key: ReturnsKeys) -> Mapping[str, Tensor]:
        made: dict[str, Tensor] = {}
        next_reward = recorded.following(key.reward)
        open_togo, open_steps = returns_open(self.gamma, next_reward[-1])
        togo, steps = returns_offline(
            self.gamma, next_reward, recorded.restarts(key.reward, next_reward), open_togo, open_steps
        )
        made["togo"] = togo
        made["steps"] = steps
        return made


class ElapsedKeys(NamedTuple):
    """What one repetition reads and writes."""

    x: NestedKey
    mean: NestedKey
    change: NestedKey


def elapsed_offline(x: Tensor, next_x: Tensor, begins: Tensor) -> tuple[Tensor, Tensor]:
    """`mean` and `change` of all moments, computed from the first to the last.

    Args:
        x: float32 [time, *batch, 3], at the root.
        next_x: float32 [time, *batch, 3], under `next`.
        begins: bool [time, *batch, ...], where an episode begins.
    """
    # transforms.Elapsed.offline
    previous_mean = torch.zeros_like(x[0])
    mean = torch.empty_like(x)
    change = torch.empty_like(x)
    for t in range(x.shape[0]):
        acc_mean = torch.where(begins[t], 0.0, previous_mean)
        previous_mean = 0.5 * acc_mean + x[t]
        change_now = next_x[t] - x[t]
        mean[t] = previous_mean
        change[t] = change_now
    return mean, change


class Elapsed(RecursionTransform[ElapsedKeys]):
    """The transform `Elapsed`.

    Reads, for each of `in_keys`:
        `x`, float32 [*batch, 3]

    Writes, for each of them:
        `mean`, of the same dtype
        `change`, of the same dtype
    """

    _reads = ("x",)
    _writes = ("mean", "change")
    _beside: ClassVar[Mapping[str, str]] = {"mean": "x", "change": "x"}
    _logical = True
    _shapes: ClassVar[Mapping[str, str]] = {"x": "3"}
    _at = "root"
    _backward = False

    def __init__(
        self, in_keys: Sequence[NestedKey] | None = None, out_keys: Sequence[NestedKey] | None = None,
        change_key: str = "change_{}", done_key: NestedKey = "done",
    ) -> None:
        """The transform `Elapsed`.

        Args:
            in_keys: the keys that it works on (default: `observation`).
            out_keys: the keys of `mean`, one for each input (default: `mean_{}`, after the input's key).
            change_key: the name of `change`.
            done_key: the flag that ends an episode; a plain name is looked up at the level of each key and
                above it.

        Raises:
            ValueError: if `change_key` is no name.
        """
        super().__init__(in_keys=in_keys, out_keys=out_keys, done_key=done_key)
        self.change_key = leaf_name(change_key, "change_key")

    def _bind(self, env: EnvBase | None) -> list[ElapsedKeys]:
        x = self._select(env, self._in_keys, ("observation",), (torch.float32,))
        mean = self._named(self._out_keys, [rename_leaf(key, "mean_{}") for key in x], "out_keys")
        change = [rename_leaf(key, self.change_key) for key in x]
        return [ElapsedKeys(*keys) for keys in zip(x, mean, change, strict=True)]

    @property
    def change_keys(self) -> list[NestedKey]:
        """The keys of `change`."""
        return self._keys_of("change")

    def _recur(self, recorded: RecordedTimes, key: ElapsedKeys) -> Mapping[str, Tensor]:
        made: dict[str, Tensor] = {}
        x = recorded.now(key.x)
        next_x = recorded.following(key.x)
        mean, change = elapsed_offline(x, next_x, recorded.restarts(key.x, x))
        made["mean"] = mean
        made["change"] = change
        return made
