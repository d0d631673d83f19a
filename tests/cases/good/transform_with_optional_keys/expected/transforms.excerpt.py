# ...


class TowardKeys(NamedTuple):
    """What one repetition reads and writes."""

    x: NestedKey
    reward: NestedKey
    goal: NestedKey | None
    weight: NestedKey | None
    hint: NestedKey | None
    error: NestedKey | None
    shaped: NestedKey
    scaled: NestedKey | None
    plain: NestedKey | None
    best: NestedKey | None
    reached: NestedKey | None


def toward_reset_best(x: Tensor, goal: Tensor) -> Tensor:
    """`best` at the start of an episode.

    Args:
        x, goal: float32 [*batch, n].
    """
    # transforms.Toward.reset
    return ((goal - x) ** 2).sum(dim=-1)


def toward_reset_reached(reached: Tensor) -> Tensor:
    """`reached` at the start of an episode.

    Args:
        reached: bool [*batch], read for its shape and dtype only.
    """
    # transforms.Toward.reset
    return torch.zeros_like(reached)


def toward_step(
    gain: float, k: int, hint: Tensor | None, next_x: Tensor, next_goal: Tensor | None,
    next_weight: Tensor | None, next_hint: Tensor | None, next_reward: Tensor,
) -> Tensor:
    """`shaped` after a step.

    Args:
        gain: constructor keyword.
        k: the size of `hint` along axis -1.
        hint: float32 [*batch, k], before the step.
        next_x, next_goal: float32 [*batch, n], after the step.
        next_weight: float32 [*batch], after the step.
        next_hint: float32 [*batch, k], after the step.
        next_reward: float32 [*batch], after the step.
    """
    # transforms.Toward.step
    w = next_weight if next_weight is not None else torch.ones_like(next_reward)
    bonus = (
        next_reward + (next_hint - hint).sum(dim=-1) / k
        if hint is not None and next_hint is not None
        else torch.zeros_like(next_reward)
    )
    return bonus - w * gain * (
        ((next_goal - next_x) ** 2).sum(dim=-1) if next_goal is not None else torch.zeros_like(bonus)
    )


def toward_step_best(best: Tensor, next_x: Tensor, next_goal: Tensor) -> Tensor:
    """`best` after a step.

    Args:
        best: float32 [*batch], before the step.
        next_x, next_goal: float32 [*batch, n], after the step.
    """
    # transforms.Toward.step
    d = ((next_goal - next_x) ** 2).sum(dim=-1)
    return torch.minimum(best, d)


def toward_step_reached(next_best: Tensor) -> Tensor:
    """`reached` after a step.

    Args:
        next_best: float32 [*batch], after the step.
    """
    # transforms.Toward.step
    return next_best < 0.1


def toward_map_error(x: Tensor, goal: Tensor) -> Tensor:
    """`error` at any moment.

    Args:
        x, goal: float32 [*batch, n].
    """
    # transforms.Toward.map
    return goal - x


def toward_map_plain(x: Tensor) -> Tensor:
    """`plain` at any moment.

    Args:
        x: float32 [*batch, n].
    """
    # transforms.Toward.map
    return 2 * x


def toward_map_scaled(gain: float, goal: Tensor) -> Tensor:
    """`scaled` at any moment.

    Args:
        gain: constructor keyword.
        goal: float32 [*batch, n].
    """
    # transforms.Toward.map
    return gain * goal


class Toward(GeneratedTransform[TowardKeys]):
    """A reward for coming closer to a goal, where there is one.

    Reads, for each of `in_keys`:
        `x`, float32 [*batch, n]
        `goal`, if it is there, float32 [*batch, n]
        `weight`, float32 [*batch]
        `hint`, if it is there, float32 [*batch, k]
        `reward`, float32 [*batch]

    Writes, for each of them:
        `error`, of the type that is computed; only with `given(goal)`
        `shaped`, float32 [*batch]
        `scaled`, of the type that is computed; only with `given(goal) and loud`
        `plain`, of the type that is computed; only with `not given(goal)`
        `best`, float32 [*batch]; carried from step to step; only with `given(goal)`
        `reached`, bool [*batch]; only with `given(goal) and not loud`
    """

    _reads = ("x",)
    _writes: tuple[str, ...] = ("error", "shaped", "plain", "best")
    _recalls = ("best",)
    _recalls_inputs = ("hint",)
    _carries = ("best",)
    _rewards = ("shaped",)
    _optional = ("best", "reached")
    _follows: ClassVar[Mapping[str, Follows]] = {
        "error": Follows("monotone"),
        "scaled": Follows("monotone"),
        "plain": Follows("monotone"),
    }
    _maps: ClassVar[Mapping[str, str]] = {"error": "x", "scaled": "goal", "plain": "x"}
    _logical = True
    _shapes: ClassVar[Mapping[str, str]] = {"x": "n", "goal": "n", "weight": "", "hint": "k", "reward": ""}
    _sequential = True

    def __init__(
        self, in_keys: Sequence[NestedKey] | None = None, weight_keys: Sequence[NestedKey] | None = None,
        goal_key: NestedKey | None = None, hint_key: str | None = None, reward_key: NestedKey = "reward",
        scaled_key: str = "scaled_{}", gain: float = 1.0, loud: bool = False,
    ) -> None:
        """A reward for coming closer to a goal, where there is one.

        Args:
            in_keys: the keys that it works on (default: `observation`).
            weight_keys: the keys of `weight` (default: `weight`, where the environment has it).
            goal_key: the key of `goal` (default: `goal`, where the environment has it).
            hint_key: the key of `hint`, beside `x` (default: `hint`, where the environment has it).
            reward_key: the key of `reward`.
            scaled_key: the name of `scaled`.
            gain: float.
            loud: bool.

        Raises:
            ValueError: if `scaled_key` or `hint_key` is no name.
        """
        super().__init__(in_keys=in_keys)
        self.reward_key = normal_key(reward_key)
        self.goal_key = None if goal_key is None else normal_key(goal_key)
        self.weight_keys = None if weight_keys is None else normal_keys(weight_keys)
        self.hint_key = None if hint_key is None else leaf_name(hint_key, "hint_key")
        self.scaled_key = leaf_name(scaled_key, "scaled_key")
        self.gain = gain
        self.loud = loud
        if self.loud:
            self._writes = (*self._writes, "scaled")
        if not self.loud:
            self._writes = (*self._writes, "reached")

    def _bind(self, env: EnvBase | None) -> list[TowardKeys]:
        x = self._select(env, self._in_keys, ("observation",), (torch.float32,))
        weight = self._if_there(
            env,
            self._paired_with(x, self.weight_keys or ["weight"], "weight_keys"),
            (torch.float32,),
            named=self.weight_keys is not None,
        )
        reward = self._checked(env, [self.reward_key] * len(x), (torch.float32,))
        goal = self._if_there(
            env, [self.goal_key or "goal"] * len(x), (torch.float32,), named=self.goal_key is not None
        )
        hint = self._if_there(
            env,
            [sibling(key, self.hint_key or "hint") for key in x],
            (torch.float32,),
            named=self.hint_key is not None,
        )
        error = [
            key if goal_key is not None else None
            for key, goal_key in zip([rename_leaf(key, "error") for key in x], goal, strict=True)
        ]
        shaped = ["reward"] * len(x)
        scaled = [None if key is None else rename_leaf(key, self.scaled_key) for key in goal]
        plain = [
            key if goal_key is None else None
            for key, goal_key in zip([rename_leaf(key, "plain") for key in x], goal, strict=True)
        ]
        best = [
            key if goal_key is not None else None
            for key, goal_key in zip(["best"] * len(x), goal, strict=True)
        ]
        reached = [
            key if goal_key is not None else None
            for key, goal_key in zip(["reached"] * len(x), goal, strict=True)
        ]
        return [
            TowardKeys(*keys)
            for keys in zip(
                x, reward, goal, weight, hint, error, shaped, scaled, plain, best, reached, strict=True
            )
        ]

    @property
    def scaled_keys(self) -> list[NestedKey]:
        """The keys of `scaled`."""
        return self._keys_of("scaled")

    def _added_specs(self) -> dict[NestedKey, TensorSpec]:
        specs: dict[NestedKey, TensorSpec] = {}
        for key in self.keys:
            specs[key.shaped] = unbounded_like(self._row_spec(key.shaped), torch.float32)
            if key.goal is not None and key.best is not None:
                specs[key.best] = unbounded_like(self._row_spec(key.best), torch.float32)
            if key.goal is not None and not self.loud and key.reached is not None:
                specs[key.reached] = flag_like(self._row_spec(key.reached))
        return specs

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for key in self.keys:
            if key.goal is not None and key.best is not None:
                x = self._require(tensordict_reset, key.x)
                goal = self._require(tensordict_reset, key.goal)
                best = toward_reset_best(x, goal)
                self._keep(tensordict_reset, key.best, best)
            if key.goal is not None and not self.loud and key.reached is not None:
                reached = toward_reset_reached(self._blank(key.reached))
                self._write(tensordict_reset, key.reached, reached)
            self._stash(tensordict_reset, key.hint)
        return self._without_rewards(self._map(tensordict_reset, tolerant=True))

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key in self.keys:
            hint = None if key.hint is None else self._recall_input(tensordict, key.hint)
            next_x = self._require(next_tensordict, key.x)
            next_goal = None if key.goal is None else self._require(next_tensordict, key.goal)
            next_weight = None if key.weight is None else self._require(next_tensordict, key.weight)
            next_hint = None if key.hint is None else self._require(next_tensordict, key.hint)
            next_reward = self._require(next_tensordict, key.reward)
            next_shaped = toward_step(
                self.gain, 0 if hint is None else hint.shape[-1], hint, next_x, next_goal, next_weight,
                next_hint, next_reward,
            )
            self._write(next_tensordict, key.shaped, next_shaped)
            if key.goal is not None and key.best is not None:
                best = self._recall(tensordict, key.best)
                next_goal = self._require(next_tensordict, key.goal)
                next_best = toward_step_best(best, next_x, next_goal)
                self._keep(next_tensordict, key.best, next_best)
            if key.goal is not None and not self.loud and key.reached is not None and key.best is not None:
                next_best = self._just_written(next_tensordict, key.best)
                next_reached = toward_step_reached(next_best)
                self._write(next_tensordict, key.reached, next_reached)
            self._stash(next_tensordict, key.hint)
        return self._map(next_tensordict, self._missing_tolerance)

    def _map(self, tensordict: TensorDictBase, tolerant: bool) -> TensorDictBase:
        seen = self._as_before(tensordict)
        for key in self.keys:
            if (
                key.goal is not None
                and key.error is not None
                and not (tolerant and self._lacks(seen, key.x, key.goal))
            ):
                x = self._require(seen, key.x)
                goal = self._require(seen, key.goal)
                error = toward_map_error(x, goal)
                self._write(tensordict, key.error, error)
            if key.goal is None and key.plain is not None and not (tolerant and self._lacks(seen, key.x)):
                x = self._require(seen, key.x)
                plain = toward_map_plain(x)
                self._write(tensordict, key.plain, plain)
            if (
                key.goal is not None
                and self.loud
                and key.scaled is not None
                and not (tolerant and self._lacks(seen, key.goal))
            ):
                goal = self._require(seen, key.goal)
                scaled = toward_map_scaled(self.gain, goal)
                self._write(tensordict, key.scaled, scaled)
        return tensordict


# ...


def sizes_map(x: Tensor) -> Tensor:
    """`y` at any moment.

    Args:
        x: float32 [*batch, ...].
    """
    # transforms.Sizes.map
    return torch.abs(x)


class Sizes(GeneratedTransform[SizesKeys]):
    # ...

    def _bind(self, env: EnvBase | None) -> list[SizesKeys]:
        x = self._select_optional(env, self._in_keys, ("position", "velocity"), (torch.float32,))
        y = self._named(self._out_keys, [rename_leaf(key, "abs_{}") for key in x], "out_keys")
        return [SizesKeys(*keys) for keys in zip(x, y, strict=True)]

    # ...
