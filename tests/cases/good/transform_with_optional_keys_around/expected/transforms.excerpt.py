# ...


def reached_map_late(gain: float, goal: Tensor) -> Tensor:
    """`late` at any moment.

    Args:
        gain: constructor keyword.
        goal: float32 [*batch, n].
    """
    # transforms.Reached.map
    return gain * goal


def reached_until_goal(next_goal: Tensor) -> Tensor:
    """Where a row stops after a repetition.

    Args:
        next_goal: float32 [*batch, n], of this repetition.
    """
    # transforms.Reached.around
    return torch.abs(next_goal).amax(dim=-1) < 0.4


def reached_fold(gain: float, next_weight: Tensor | None, next_reward: Tensor, acc_reward: Tensor) -> Tensor:
    """`reward` of the repetitions so far.

    Args:
        gain: constructor keyword.
        next_weight, next_reward: float32 [*batch], of this repetition.
        acc_reward: float32 [*batch], of the repetitions before.
    """
    # transforms.Reached.around
    return acc_reward + (next_weight * next_reward if next_weight is not None else gain * next_reward)


def reached_fold_goal(next_goal: Tensor, acc_goal: Tensor) -> Tensor:
    """`goal` of the repetitions so far.

    Args:
        next_goal: float32 [*batch, n], of this repetition.
        acc_goal: float32 [*batch, n], of the repetitions before.
    """
    # transforms.Reached.around
    return torch.maximum(acc_goal, next_goal)


def reached_fold_hint(
    k: int, next_goal: Tensor | None, next_hint: Tensor, next_reward: Tensor, acc_goal: Tensor | None,
    acc_hint: Tensor,
) -> Tensor:
    """`hint` of the repetitions so far.

    Args:
        k: the size of `hint` along axis -1.
        next_goal: float32 [*batch, n], of this repetition.
        next_hint: float32 [*batch, k], of this repetition.
        next_reward: float32 [*batch], of this repetition.
        acc_goal: float32 [*batch, n], of the repetitions before.
        acc_hint: float32 [*batch, k], of the repetitions before.
    """
    # transforms.Reached.around
    drop = acc_goal.amin(dim=-1) if acc_goal is not None else 0.25 * next_reward
    return (
        acc_hint + (k * drop).unsqueeze(-1)
        if next_goal is not None
        else acc_hint - drop.unsqueeze(-1) * next_hint
    )


def reached_collect(x: Tensor, next_x: Tensor, next_hint: Tensor | None) -> Tensor:
    """`spans` of a repetition.

    Args:
        x: float32 [*batch, n], before the step.
        next_x: float32 [*batch, n], of this repetition.
        next_hint: float32 [*batch, k], of this repetition.
    """
    # transforms.Reached.around
    return next_x + next_hint.sum(dim=-1).unsqueeze(-1) if next_hint is not None else next_x - x


def reached_collect_goals(next_x: Tensor, next_goal: Tensor) -> Tensor:
    """`goals` of a repetition.

    Args:
        next_x, next_goal: float32 [*batch, n], of this repetition.
    """
    # transforms.Reached.around
    return next_goal - next_x


class Reached(RepeatTransform[ReachedKeys]):
    """Several steps are one, until a goal is reached where there is one.

    Reads, for each of `in_keys`:
        `x`, float32 [*batch, n]
        `goal`, if it is there, float32 [*batch, n]
        `weight`, float32 [*batch]
        `hint`, if it is there, float32 [*batch, k]
        `reward`, float32 [*batch]

    Writes, for each of them:
        `goal`, combined over the repetitions of a step
        `hint`, combined over the repetitions of a step
        `reward`, combined over the repetitions of a step
        `goals`, float32 [*batch, n]; only with `given(goal)`
        `spans`, float32 [*batch, n]
        `steps`, int64 [*batch]; only with `given(weight)`
        `late`, of the type that is computed; only with `given(goal)`
    """

    _reads = ("x",)
    _writes = ("goal", "hint", "reward", "goals", "spans", "steps", "late")
    _recalls_inputs = ("x",)
    _folds = ("goal", "hint", "reward")
    _extremes = ("goal",)
    _collects = ("goals", "spans")
    _taken = ("steps",)
    _optional = ("goals", "steps")
    _follows: ClassVar[Mapping[str, Follows]] = {"late": Follows("monotone")}
    _maps: ClassVar[Mapping[str, str]] = {"late": "goal"}
    _beside: ClassVar[Mapping[str, str]] = {"goal": "goal", "hint": "hint", "reward": "reward"}
    _logical = True
    _shapes: ClassVar[Mapping[str, str]] = {"x": "n", "goal": "n", "weight": "", "hint": "k", "reward": ""}

    def __init__(
        self, in_keys: Sequence[NestedKey] | None = None, weight_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None, goal_key: NestedKey | None = None,
        hint_key: NestedKey | None = None, reward_key: NestedKey = "reward", count: int = 3,
        gain: float = 0.5,
    ) -> None:
        """Several steps are one, until a goal is reached where there is one.

        Args:
            in_keys: the keys that it works on (default: `observation`).
            weight_keys: the keys of `weight` (default: `weight`, where the environment has it).
            out_keys: the keys of `spans`, one for each input (default: `spans_{}`, after the input's key).
            goal_key: the key of `goal` (default: `goal`, where the environment has it).
            hint_key: the key of `hint` (default: `hint`, where the environment has it).
            reward_key: the key of `reward`.
            count: int; >= 1.
            gain: float.

        Raises:
            ValueError: if `count` is not >= 1.
        """
        super().__init__(in_keys=in_keys, out_keys=out_keys)
        self.reward_key = normal_key(reward_key)
        self.goal_key = None if goal_key is None else normal_key(goal_key)
        self.weight_keys = None if weight_keys is None else normal_keys(weight_keys)
        self.hint_key = None if hint_key is None else normal_key(hint_key)
        if not count >= 1:
            raise ValueError(f"count must be >= 1, got {count}")
        self.count = count
        self.gain = gain

    def _bind(self, env: EnvBase | None) -> list[ReachedKeys]:
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
            env, [self.hint_key or "hint"] * len(x), (torch.float32,), named=self.hint_key is not None
        )
        goals = [
            key if goal_key is not None else None
            for key, goal_key in zip(["goals"] * len(x), goal, strict=True)
        ]
        spans = self._named(self._out_keys, [rename_leaf(key, "spans_{}") for key in x], "out_keys")
        steps = [
            key if weight_key is not None else None
            for key, weight_key in zip(["steps"] * len(x), weight, strict=True)
        ]
        late = [None if key is None else rename_leaf(key, "late_{}") for key in goal]
        return [
            ReachedKeys(*keys)
            for keys in zip(x, reward, goal, weight, hint, goals, spans, steps, late, strict=True)
        ]

    def _added_specs(self) -> dict[NestedKey, TensorSpec]:
        specs: dict[NestedKey, TensorSpec] = {}
        for key in self.keys:
            specs[key.spans] = unbounded_like(
                self._row_spec(key.spans, (self._spec(key.x).shape[-1],)), torch.float32
            )
            if key.goal is not None and key.goals is not None:
                specs[key.goals] = unbounded_like(
                    self._row_spec(key.goals, (self._spec(key.x).shape[-1],)), torch.float32
                )
            if key.weight is not None and key.steps is not None:
                specs[key.steps] = unbounded_like(self._row_spec(key.steps), torch.int64)
        return specs

    def _map(self, tensordict: TensorDictBase, tolerant: bool) -> TensorDictBase:
        seen = self._as_before(tensordict)
        for key in self.keys:
            if (
                key.goal is not None
                and key.late is not None
                and not (tolerant and self._lacks(seen, key.goal))
            ):
                goal = self._require(seen, key.goal)
                late = reached_map_late(self.gain, goal)
                self._write(tensordict, key.late, late)
        return tensordict

    def _repetitions(self) -> int:
        return self.count

    def _until(
        self, tensordict: TensorDictBase, next_tensordict: TensorDictBase, nth: int
    ) -> Iterator[Tensor]:
        for key in self.keys:
            if key.goal is not None:
                next_goal = self._require(next_tensordict, key.goal)
                yield reached_until_goal(next_goal)

    def _fold(
        self, tensordict: TensorDictBase, next_tensordict: TensorDictBase, acc: TensorDictBase,
        folded: TensorDictBase, nth: int,
    ) -> None:
        for key in self.keys:
            next_weight = None if key.weight is None else self._require(next_tensordict, key.weight)
            next_reward = self._require(next_tensordict, key.reward)
            acc_reward = self._require(acc, key.reward)
            reward = reached_fold(self.gain, next_weight, next_reward, acc_reward)
            self._write(folded, key.reward, reward)
            if key.goal is not None:
                next_goal = self._require(next_tensordict, key.goal)
                acc_goal = self._require(acc, key.goal)
                goal = reached_fold_goal(next_goal, acc_goal)
                self._write(folded, key.goal, goal)
            if key.hint is not None:
                next_goal = None if key.goal is None else self._require(next_tensordict, key.goal)
                next_hint = self._require(next_tensordict, key.hint)
                acc_goal = None if key.goal is None else self._require(acc, key.goal)
                acc_hint = self._require(acc, key.hint)
                hint = reached_fold_hint(
                    next_hint.shape[-1], next_goal, next_hint, next_reward, acc_goal, acc_hint
                )
                self._write(folded, key.hint, hint)

    def _collect(
        self, tensordict: TensorDictBase, next_tensordict: TensorDictBase, collected: TensorDictBase, nth: int
    ) -> None:
        for key in self.keys:
            x = self._recall_input(tensordict, key.x)
            next_x = self._require(next_tensordict, key.x)
            next_hint = None if key.hint is None else self._require(next_tensordict, key.hint)
            spans = reached_collect(x, next_x, next_hint)
            self._write(collected, key.spans, spans)
            if key.goal is not None and key.goals is not None:
                next_goal = self._require(next_tensordict, key.goal)
                goals = reached_collect_goals(next_x, next_goal)
                self._write(collected, key.goals, goals)


# ...


def still_skip(x: Tensor, goal: Tensor | None) -> Tensor:
    """Where a row does not step.

    Args:
        x, goal: float32 [*batch, n].
    """
    # transforms.Still.around
    return goal.sum(dim=-1) > 1 if goal is not None else torch.abs(x).amax(dim=-1) > 1.2


class Still(SkipTransform[StillKeys]):
    # ...

    def _skips(self, tensordict: TensorDictBase) -> Iterator[Tensor]:
        for key in self.keys:
            x = self._recall_input(tensordict, key.x)
            goal = None if key.goal is None else self._recall_input(tensordict, key.goal)
            yield still_skip(x, goal)


# ...


def stuck_skip_goal_weight(goal: Tensor, weight: Tensor) -> Tensor:
    """Where a row does not step.

    Args:
        goal: float32 [*batch, n].
        weight: float32 [*batch].
    """
    # transforms.Stuck.around
    return weight > 2.5 + 0 * goal.sum(dim=-1)


class Stuck(SkipTransform[StuckKeys]):
    # ...

    def _skips(self, tensordict: TensorDictBase) -> Iterator[Tensor]:
        for key in self.keys:
            if key.goal is not None and key.weight is not None:
                goal = self._recall_input(tensordict, key.goal)
                weight = self._recall_input(tensordict, key.weight)
                yield stuck_skip_goal_weight(goal, weight)


# ...


def warm_reset_steps_weight(weight: Tensor, draw_reset_steps: Tensor) -> Tensor:
    """How many steps a row takes after a reset.

    Args:
        weight: float32 [*batch].
        draw_reset_steps: int64 [*batch], uniform in 0..1.
    """
    # transforms.Warm.around
    return weight.to(torch.int64) + draw_reset_steps


def warm_reset_steps_no_weight(least: int) -> int:
    """How many steps a row takes after a reset.

    Args:
        least: constructor keyword.
    """
    # transforms.Warm.around
    return least


class Warm(ResetStepsTransform[WarmKeys]):
    # ...

    def _at_most(self) -> int:
        return 4

    def _counts(self, tensordict_reset: TensorDictBase) -> Iterator[Tensor | int]:
        for key in self.keys:
            if key.weight is not None:
                weight = self._require(tensordict_reset, key.weight)
                yield warm_reset_steps_weight(weight, self._randint(0, 2, (), torch.int64))
            if key.weight is None:
                yield warm_reset_steps_no_weight(self.least)
