# ...


def skip_frames_until(bright: float, x: Tensor, next_x: Tensor, nth: int) -> Tensor:
    """Where a row stops after a repetition.

    Args:
        bright: constructor keyword.
        x: floats [*batch, ...], before the step.
        next_x: floats [*batch, ...], of this repetition.
        nth: the number of the repetition, from 0.
    """
    # transforms.SkipFrames.around
    return (next_x > bright) | (next_x > 4 * torch.abs(x) + nth)


def skip_frames_fold(next_x: Tensor, acc_x: Tensor) -> Tensor:
    """`x` of the repetitions so far.

    Args:
        next_x: floats [*batch, ...], of this repetition.
        acc_x: floats [*batch, ...], of the repetitions before.
    """
    # transforms.SkipFrames.around
    return torch.maximum(acc_x, next_x)


class SkipFrames(RepeatTransform[SkipFramesKeys]):
    """Repeat an action until something is seen; of the frames the brightest pixels are shown.

    Reads, for each of `in_keys`:
        `x`, floats [*batch, ...]

    Writes, for each of them:
        `x`, combined over the repetitions of a step
    """

    _reads = ("x",)
    _writes = ("x",)
    _recalls_inputs = ("x",)
    _folds = ("x",)
    _extremes = ("x",)
    _beside: ClassVar[Mapping[str, str]] = {"x": "x"}

    def __init__(
        self, in_keys: Sequence[NestedKey] | None = None, count: int = 4, bright: float = 9.0
    ) -> None:
        """Repeat an action until something is seen; of the frames the brightest pixels are shown.

        Args:
            in_keys: the keys that it works on (default: `position`).
            count: int; >= 1.
            bright: float.

        Raises:
            ValueError: if `count` is not >= 1.
        """
        super().__init__(in_keys=in_keys)
        if not count >= 1:
            raise ValueError(f"count must be >= 1, got {count}")
        self.count = count
        self.bright = bright

    def _bind(self, env: EnvBase | None) -> list[SkipFramesKeys]:
        x = self._select(env, self._in_keys, ("position",), FLOAT_DTYPES)
        return [SkipFramesKeys(key) for key in x]

    def _repetitions(self) -> int:
        return 2 * self.count

    def _until(
        self, tensordict: TensorDictBase, next_tensordict: TensorDictBase, nth: int
    ) -> Iterator[Tensor]:
        for key in self.keys:
            x = self._recall_input(tensordict, key.x)
            next_x = self._require(next_tensordict, key.x)
            yield skip_frames_until(self.bright, x, next_x, nth)

    def _fold(
        self, tensordict: TensorDictBase, next_tensordict: TensorDictBase, acc: TensorDictBase,
        folded: TensorDictBase, nth: int,
    ) -> None:
        for key in self.keys:
            next_x = self._require(next_tensordict, key.x)
            acc_x = self._require(acc, key.x)
            x = skip_frames_fold(next_x, acc_x)
            self._write(folded, key.x, x)


# ...


def collected_fold(next_reward: Tensor, acc_reward: Tensor, nth: int) -> Tensor:
    """`reward` of the repetitions so far.

    Args:
        next_reward: floats [*batch, ...], of this repetition.
        acc_reward: floats [*batch, ...], of the repetitions before.
        nth: the number of the repetition, from 0.
    """
    # transforms.Collected.around
    discount = 0.5**nth
    return acc_reward + discount * next_reward


def collected_collect(next_reward: Tensor) -> Tensor:
    """`rewards` of a repetition.

    Args:
        next_reward: floats [*batch, ...], of this repetition.
    """
    # transforms.Collected.around
    return next_reward


class Collected(RepeatTransform[CollectedKeys]):
    # ...

    @property
    def length_keys(self) -> list[NestedKey]:
        """The keys of `lengths`."""
        return self._keys_of("lengths")

    def _added_specs(self) -> dict[NestedKey, TensorSpec]:
        specs: dict[NestedKey, TensorSpec] = {}
        for key in self.keys:
            reward = self._spec(key.reward)
            specs[key.rewards] = unbounded_like(reward)
            specs[key.lengths] = unbounded_like(reward, torch.int64)
        return specs

    # ...

    def _fold(
        self, tensordict: TensorDictBase, next_tensordict: TensorDictBase, acc: TensorDictBase,
        folded: TensorDictBase, nth: int,
    ) -> None:
        for key in self.keys:
            next_reward = self._require(next_tensordict, key.reward)
            acc_reward = self._require(acc, key.reward)
            reward = collected_fold(next_reward, acc_reward, nth)
            self._write(folded, key.reward, reward)

    def _collect(
        self, tensordict: TensorDictBase, next_tensordict: TensorDictBase, collected: TensorDictBase, nth: int
    ) -> None:
        for key in self.keys:
            next_reward = self._require(next_tensordict, key.reward)
            rewards = collected_collect(next_reward)
            self._write(collected, key.rewards, rewards)


# ...


def freeze_skip(far: float, x: Tensor) -> Tensor:
    """Where a row does not step.

    Args:
        far: constructor keyword.
        x: floats [*batch, ...].
    """
    # transforms.Freeze.around
    return torch.abs(x) > far


class Freeze(SkipTransform[FreezeKeys]):
    # ...

    def _skips(self, tensordict: TensorDictBase) -> Iterator[Tensor]:
        for key in self.keys:
            x = self._recall_input(tensordict, key.x)
            yield freeze_skip(self.far, x)


# ...


def ramp_fold(next_reward: Tensor, acc_reward: Tensor) -> Tensor:
    """`reward` of the repetitions so far.

    Args:
        next_reward: floats [*batch, ...], of this repetition.
        acc_reward: floats [*batch, ...], of the repetitions before.
    """
    # transforms.Ramp.around
    return acc_reward + next_reward


def ramp_action(v: Tensor, nth: int) -> Tensor:
    """`u` of a repetition, as the environment takes it.

    Args:
        v: float32 [*batch, ...].
        nth: the number of the repetition, from 0.
    """
    # transforms.Ramp.around
    return 0.25 * (nth + 1) * v


class Ramp(RepeatTransform[RampKeys, RampInverseKeys]):
    # ...

    def _fold(
        self, tensordict: TensorDictBase, next_tensordict: TensorDictBase, acc: TensorDictBase,
        folded: TensorDictBase, nth: int,
    ) -> None:
        for key in self.keys:
            next_reward = self._require(next_tensordict, key.reward)
            acc_reward = self._require(acc, key.reward)
            reward = ramp_fold(next_reward, acc_reward)
            self._write(folded, key.reward, reward)

    def _act(self, tensordict: TensorDictBase, root: TensorDictBase, nth: int, tolerant: bool) -> None:
        for key in self.keys_inv:
            if tolerant and self._lacks(tensordict, *self._fields(self._takes, [key])):
                continue
            v = self._require(tensordict, key.v)
            u = ramp_action(v, nth)
            self._write(root, key.u, u)
