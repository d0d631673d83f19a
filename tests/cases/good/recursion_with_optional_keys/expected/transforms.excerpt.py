# ...


def togo_open(next_reward: Tensor, next_weight: Tensor | None) -> Tensor:
    """`togo` behind the last moment, where the data end without `done`.

    Args:
        next_reward, next_weight: float32 [*batch], under `next`.
    """
    # transforms.Togo.offline
    return next_weight if next_weight is not None else torch.zeros_like(next_reward)


def togo_offline(
    gamma: float, next_reward: Tensor, next_weight: Tensor | None, ends: Tensor, open_togo: Tensor
) -> Tensor:
    """`togo` of all moments, computed from the last to the first.

    Args:
        gamma: constructor keyword.
        next_reward, next_weight: float32 [time, *batch], under `next`.
        ends: bool [time, *batch, ...], where an episode ends.
        open_togo: float32 [*batch], behind the last moment.
    """
    # transforms.Togo.offline
    togo = torch.empty_like(next_reward)
    for t in reversed(range(next_reward.shape[0])):
        next_weight_now = None if next_weight is None else next_weight[t]
        acc_togo = torch.where(ends[t], 0.0, open_togo)
        mine = next_weight_now * next_reward[t] if next_weight_now is not None else next_reward[t]
        open_togo = mine + gamma * acc_togo
        togo[t] = open_togo
    return togo


def togo_open_closest(next_goal: Tensor) -> Tensor:
    """`closest` behind the last moment, where the data end without `done`.

    Args:
        next_goal: float32 [*batch, n], under `next`.
    """
    # transforms.Togo.offline
    return next_goal.sum(dim=-1)


def togo_offline_closest(
    goal: Tensor, next_reward: Tensor, next_goal: Tensor, ends: Tensor, open_closest: Tensor
) -> Tensor:
    """`closest` of all moments, computed from the last to the first.

    Args:
        goal: float32 [time, *batch, n], at the root.
        next_reward: float32 [time, *batch], under `next`.
        next_goal: float32 [time, *batch, n], under `next`.
        ends: bool [time, *batch, ...], where an episode ends.
        open_closest: float32 [*batch], behind the last moment.
    """
    # transforms.Togo.offline
    closest = torch.empty_like(next_reward)
    for t in reversed(range(goal.shape[0])):
        acc_closest = torch.where(ends[t], 1.0e6, open_closest)
        open_closest = torch.minimum(acc_closest, torch.abs(next_goal[t] - goal[t]).sum(dim=-1))
        closest[t] = open_closest
    return closest


def togo_open_gained(
    next_reward: Tensor, next_weight: Tensor, next_goal: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """`togo` and `closest` and `gained` behind the last moment, where the data end without `done`.

    Args:
        next_reward, next_weight: float32 [*batch], under `next`.
        next_goal: float32 [*batch, n], under `next`.
    """
    # transforms.Togo.offline
    open_togo = next_weight
    open_closest = next_goal.sum(dim=-1)
    open_gained = next_weight
    return open_togo, open_closest, open_gained


def togo_offline_gained(
    gamma: float, goal: Tensor, next_reward: Tensor, next_weight: Tensor, next_goal: Tensor, ends: Tensor,
    open_togo: Tensor, open_closest: Tensor, open_gained: Tensor,
) -> Tensor:
    """`gained` of all moments, computed from the last to the first.

    Args:
        gamma: constructor keyword.
        goal: float32 [time, *batch, n], at the root.
        next_reward, next_weight: float32 [time, *batch], under `next`.
        next_goal: float32 [time, *batch, n], under `next`.
        ends: bool [time, *batch, ...], where an episode ends.
        open_togo, open_closest, open_gained: float32 [*batch], behind the last moment.
    """
    # transforms.Togo.offline
    gained = torch.empty_like(next_reward)
    for t in reversed(range(goal.shape[0])):
        acc_togo = torch.where(ends[t], 0.0, open_togo)
        acc_closest = torch.where(ends[t], 1.0e6, open_closest)
        acc_gained = torch.where(ends[t], 0.0, open_gained)
        mine = next_weight[t] * next_reward[t]
        open_togo = mine + gamma * acc_togo
        open_closest = torch.minimum(acc_closest, torch.abs(next_goal[t] - goal[t]).sum(dim=-1))
        open_gained = acc_gained + next_weight[t] * open_togo - acc_closest
        gained[t] = open_gained
    return gained


def togo_open_double(next_reward: Tensor, next_weight: Tensor | None) -> Tensor:
    """`togo` behind the last moment, where the data end without `done`.

    Args:
        next_reward, next_weight: float32 [*batch], under `next`.
    """
    # transforms.Togo.offline
    return next_weight if next_weight is not None else torch.zeros_like(next_reward)


def togo_offline_double(
    gamma: float, next_reward: Tensor, next_weight: Tensor | None, ends: Tensor, open_togo: Tensor
) -> Tensor:
    """`double` of all moments, computed from the last to the first.

    Args:
        gamma: constructor keyword.
        next_reward, next_weight: float32 [time, *batch], under `next`.
        ends: bool [time, *batch, ...], where an episode ends.
        open_togo: float32 [*batch], behind the last moment.
    """
    # transforms.Togo.offline
    double = torch.empty_like(next_reward)
    for t in reversed(range(next_reward.shape[0])):
        next_weight_now = None if next_weight is None else next_weight[t]
        acc_togo = torch.where(ends[t], 0.0, open_togo)
        mine = next_weight_now * next_reward[t] if next_weight_now is not None else next_reward[t]
        open_togo = mine + gamma * acc_togo
        double_now = 2 * open_togo
        double[t] = double_now
    return double


class Togo(RecursionTransform[TogoKeys]):
    """Discounted sums of rewards, weighted where there are weights, and how close a goal comes, where
    there is one.

    Reads, for each of `in_keys`:
        `reward`, float32 [*batch]
        `weight`, if it is there, float32 [*batch]
        `goal`, if it is there, float32 [*batch, n]

    Writes, for each of them:
        `togo`, of the same dtype
        `double`, of the same dtype; only with `twice`
        `closest`, float32 [*batch]; only with `given(goal)`
        `gained`, float32 [*batch]; only with `given(goal) and given(weight)`
    """

    _reads = ("reward",)
    _writes: tuple[str, ...] = ("togo", "closest", "gained")
    _optional = ("double", "closest", "gained")
    _beside: ClassVar[Mapping[str, str]] = {"togo": "reward", "double": "reward"}
    _logical = True
    _shapes: ClassVar[Mapping[str, str]] = {"reward": "", "weight": "", "goal": "n"}
    _out_keys_of_each = None
    _may_end_open = True

    def __init__(
        self, in_keys: Sequence[NestedKey] | None = None, out_keys: Sequence[NestedKey] | None = None,
        weight_key: NestedKey | None = None, goal_key: NestedKey | None = None, done_key: NestedKey = "done",
        gamma: float = 0.5, twice: bool = False,
    ) -> None:
        """Discounted sums of rewards, weighted where there are weights, and how close a goal comes, where
        there is one.

        Args:
            in_keys: the keys that it works on (default: `reward`).
            out_keys: the keys of `togo`, one for each input (default: `to_go`, after the input's key).
            weight_key: the key of `weight` (default: `weight`, where the environment has it).
            goal_key: the key of `goal` (default: `goal`, where the environment has it).
            done_key: the flag that ends an episode; a plain name is looked up at the level of each key and
                above it.
            gamma: float.
            twice: bool.
        """
        super().__init__(in_keys=in_keys, out_keys=out_keys, done_key=done_key)
        self.weight_key = None if weight_key is None else normal_key(weight_key)
        self.goal_key = None if goal_key is None else normal_key(goal_key)
        self.gamma = gamma
        self.twice = twice
        if self.twice:
            self._writes = (*self._writes, "double")
        self._refuse_unequal("keys", self._in_keys, self._out_keys, 1 + self.twice)

    def _bind(self, env: EnvBase | None) -> list[TogoKeys]:
        reward = self._select(env, self._in_keys, ("reward",), (torch.float32,))
        weight = self._if_there(
            env,
            [self.weight_key or "weight"] * len(reward),
            (torch.float32,),
            named=self.weight_key is not None,
        )
        goal = self._if_there(
            env, [self.goal_key or "goal"] * len(reward), (torch.float32,), named=self.goal_key is not None
        )
        togo = self._named(
            self._out_keys, [rename_leaf(key, "to_go") for key in reward], "out_keys", (0, 1 + self.twice)
        )
        double = (
            self._named(
                self._out_keys,
                [rename_leaf(key, "double") for key in reward],
                "out_keys",
                (1, 1 + self.twice),
            )
            if self.twice
            else [rename_leaf(key, "double") for key in reward]
        )
        closest = [
            key if goal_key is not None else None
            for key, goal_key in zip(["closest"] * len(reward), goal, strict=True)
        ]
        gained = [
            key if goal_key is not None and weight_key is not None else None
            for key, goal_key, weight_key in zip(["gained"] * len(reward), goal, weight, strict=True)
        ]
        return [
            TogoKeys(*keys) for keys in zip(reward, weight, goal, togo, double, closest, gained, strict=True)
        ]

    def _recur(self, recorded: RecordedTimes, key: TogoKeys) -> Mapping[str, Tensor]:
        made: dict[str, Tensor] = {}
        next_reward = recorded.following(key.reward)
        next_weight = None if key.weight is None else recorded.following(key.weight)
        open_togo = togo_open(next_reward[-1], None if next_weight is None else next_weight[-1])
        togo = togo_offline(
            self.gamma, next_reward, next_weight, recorded.restarts(key.reward, next_reward), open_togo
        )
        made["togo"] = togo
        if key.goal is not None and key.closest is not None:
            next_goal = recorded.following(key.goal)
            goal = recorded.now(key.goal)
            open_closest = togo_open_closest(next_goal[-1])
            closest = togo_offline_closest(
                goal, next_reward, next_goal, recorded.restarts(key.reward, next_reward), open_closest
            )
            made["closest"] = closest
        if key.goal is not None and key.weight is not None and key.gained is not None:
            next_weight = recorded.following(key.weight)
            next_goal = recorded.following(key.goal)
            goal = recorded.now(key.goal)
            open_togo, open_closest, open_gained = togo_open_gained(
                next_reward[-1], next_weight[-1], next_goal[-1]
            )
            gained = togo_offline_gained(
                self.gamma, goal, next_reward, next_weight, next_goal,
                recorded.restarts(key.reward, next_reward), open_togo, open_closest, open_gained,
            )
            made["gained"] = gained
        if self.twice:
            next_weight = None if key.weight is None else recorded.following(key.weight)
            open_togo = togo_open_double(next_reward[-1], None if next_weight is None else next_weight[-1])
            double = togo_offline_double(
                self.gamma, next_reward, next_weight, recorded.restarts(key.reward, next_reward), open_togo
            )
            made["double"] = double
        return made


# ...


def farthest_offline(x: Tensor, aim: Tensor | None, begins: Tensor) -> Tensor:
    """`far` of all moments, computed from the first to the last.

    Args:
        x, aim: float32 [time, *batch, n], at the root.
        begins: bool [time, *batch, ...], where an episode begins.
    """
    # transforms.Farthest.offline
    previous_far = torch.zeros(x[0].shape[:-1], dtype=torch.float32, device=x[0].device)
    far_of_each: list[Tensor] = []
    for t in range(x.shape[0]):
        aim_now = None if aim is None else aim[t]
        acc_far = torch.where(begins[t], 0.0, previous_far)
        previous_far = torch.maximum(
            acc_far, torch.abs(x[t] - aim_now if aim_now is not None else x[t]).sum(dim=-1)
        )
        far_of_each.append(previous_far)
    far = torch.stack(far_of_each)
    return far


class Farthest(RecursionTransform[FarthestKeys]):
    # ...

    def _recur(self, recorded: RecordedTimes, key: FarthestKeys) -> Mapping[str, Tensor]:
        made: dict[str, Tensor] = {}
        x = recorded.now(key.x)
        aim = None if key.aim is None else recorded.now(key.aim)
        far = farthest_offline(x, aim, recorded.restarts(key.x, x, 0))
        made["far"] = far
        return made
