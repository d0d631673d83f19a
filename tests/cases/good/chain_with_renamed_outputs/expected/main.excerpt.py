# ...


class RenamedConsts(NamedTuple):
    """Constant tables of `Renamed`."""

    reward_scaling_0_loc: Tensor
    """`loc` of RewardScaling"""
    reward_scaling_0_scale: Tensor
    """`scale` of RewardScaling"""


class RenamedRoot(NamedTuple):
    """What a step reads from one time to the next; observations follow from it."""

    x: Float32[Tensor, "*batch"]
    done: Bool[Tensor, "*batch 1"]
    terminated: Bool[Tensor, "*batch 1"]
    truncated: Bool[Tensor, "*batch 1"]
    late: Bool[Tensor, "*batch 1"]
    """the episode was cut off"""
    episode_reward: Float32[Tensor, "*batch 1"]
    """the sum of `reward` since the last reset"""
    stats_episode_scaled: Float32[Tensor, "*batch 1"]
    """the sum of `reward` since the last reset"""
    age: Int64[Tensor, "*batch 1"]
    """steps since the last reset"""


class RenamedNext(NamedTuple):
    """What a step computes for the step after it: the fields of `RenamedRoot`, and more."""

    x: Float32[Tensor, "*batch"]
    done: Bool[Tensor, "*batch 1"]
    terminated: Bool[Tensor, "*batch 1"]
    truncated: Bool[Tensor, "*batch 1"]
    late: Bool[Tensor, "*batch 1"]
    episode_reward: Float32[Tensor, "*batch 1"]
    stats_episode_scaled: Float32[Tensor, "*batch 1"]
    age: Int64[Tensor, "*batch 1"]
    reward: Float32[Tensor, "*batch 1"]
    stats_scaled: Float32[Tensor, "*batch 1"]


def renamed_reset(not_done: Tensor, draw_x: Tensor) -> RenamedRoot:
    """A fresh episode in every row of the batch."""
    # envs.Point
    base = point_reset(not_done, draw_x)
    late = not_done.clone()
    # chains.Renamed.transforms[1]
    episode_reward = torch.zeros_like(not_done, dtype=torch.float32)
    stats_episode_scaled = torch.zeros_like(not_done, dtype=torch.float32)
    # chains.Renamed.transforms[2]
    age = torch.zeros_like(not_done, dtype=torch.int64)
    return RenamedRoot(
        x=base.x, done=base.done, terminated=base.terminated, truncated=base.truncated, late=late,
        episode_reward=episode_reward, stats_episode_scaled=stats_episode_scaled, age=age,
    )


def renamed_advance(
    consts: RenamedConsts, x: Tensor, episode_reward: Tensor, stats_episode_scaled: Tensor, age: Tensor,
    action: Tensor,
) -> RenamedNext:
    """One step: all that the step after it depends on."""
    # envs.Point
    base = point_advance(x, action)
    reward = point_reward(base.x)
    # chains.Renamed.transforms[0]
    stats_scaled = reward * consts.reward_scaling_0_scale + consts.reward_scaling_0_loc
    # chains.Renamed.transforms[1]
    next_episode_reward = episode_reward + reward
    next_stats_episode_scaled = stats_episode_scaled + stats_scaled
    # chains.Renamed.transforms[2]
    next_age = age + 1
    next_late = next_age >= 20
    return RenamedNext(
        x=base.x, done=base.done | next_late, terminated=base.terminated, truncated=base.truncated,
        late=next_late, episode_reward=next_episode_reward, stats_episode_scaled=next_stats_episode_scaled,
        age=next_age, reward=reward, stats_scaled=stats_scaled,
    )


class Renamed(GeneratedEnv["RenamedData", "RenamedSpecs"]):
    """`Point` with transforms.

    Transforms, in order: RewardScaling, RewardSum, StepCounter.

    Keys:
        observation: float32 [*batch, 1]
        x: float32 [*batch]
        episode_reward: float32 [*batch, 1]; the sum of `reward` since the last reset
        ("stats", "episode_scaled"): float32 [*batch, 1]; the sum of `reward` since the last reset
        age: int64 [*batch, 1]; steps since the last reset
        done: bool [*batch, 1]; the episode is over
        terminated: bool [*batch, 1]; it ended
        truncated: bool [*batch, 1]; it was cut off
        late: bool [*batch, 1]; the episode was cut off
        action: float32 [*batch, 1] in [-1, 1]
        ("next", "reward"): float32 [*batch, 1]
        ("next", "stats", "scaled"): float32 [*batch, 1]
    """

    consts: RenamedConsts
    _root_record = RenamedRoot
    _root_keys = (
        "x",
        "done",
        "terminated",
        "truncated",
        "late",
        "episode_reward",
        ("stats", "episode_scaled"),
        "age",
    )
    _columns = frozenset(["episode_reward", ("stats", "episode_scaled"), "age"])

    def __init__(self, *, batch_size: Sequence[int] = (), device: DEVICE_TYPING | None = None) -> None:
        """`Point` with transforms.

        Args:
            batch_size: how many instances run side by side, any shape.
            device: where the tensors live.
        """
        super().__init__(batch_size=batch_size, device=device)
        self._build()

    def _build(self) -> None:
        self.consts = RenamedConsts(
            reward_scaling_0_loc=torch.tensor(0.0, dtype=torch.float32, device=self.device),
            reward_scaling_0_scale=torch.tensor(0.1, dtype=torch.float32, device=self.device),
        )
        super()._build()

    def _specs(self) -> EnvSpecs:
        flag = Categorical(2, shape=(1,), dtype=torch.bool)
        observation = Composite(
            observation=Unbounded(shape=(1,), dtype=torch.float32),
            x=Unbounded(shape=(), dtype=torch.float32),
            episode_reward=Unbounded(shape=(1,), dtype=torch.float32),
            stats=Composite(episode_scaled=Unbounded(shape=(1,), dtype=torch.float32)),
            age=Bounded(low=0, high=2**63 - 1, shape=(1,), dtype=torch.int64),
        )
        return EnvSpecs(
            action=Composite(action=Bounded(low=-1.0, high=1.0, shape=(1,), dtype=torch.float32)),
            observation=observation,
            state=observation.select("x", "episode_reward", ("stats", "episode_scaled"), "age"),
            reward=Composite(
                reward=Unbounded(shape=(1,), dtype=torch.float32),
                stats=Composite(scaled=Unbounded(shape=(1,), dtype=torch.float32)),
            ),
            done=Composite(done=flag, terminated=flag, truncated=flag, late=flag),
        ).to(self.device)

    def _fresh(self) -> RenamedRoot:
        return renamed_reset(
            torch.zeros((*self.batch_size, 1), dtype=torch.bool, device=self.device),
            self._uniform((), torch.float32),
        )

    def _advance(self, root: RenamedRoot, actions: tuple[Tensor, ...]) -> RenamedNext:
        return renamed_advance(
            self.consts, root.x, root.episode_reward, root.stats_episode_scaled, root.age, actions[0]
        )

    def _root_entries(self, root: RenamedRoot) -> dict[str, Any]:
        return {
            "observation": point_observe(root.x),
            "x": root.x,
            "done": root.done,
            "terminated": root.terminated,
            "truncated": root.truncated,
            "late": root.late,
            "episode_reward": root.episode_reward,
            "stats": {"episode_scaled": root.stats_episode_scaled},
            "age": root.age,
        }

    def _next_entries(
        self, root: RenamedRoot, actions: tuple[Tensor, ...], next_: RenamedNext
    ) -> dict[str, Any]:
        return {
            "observation": point_observe(next_.x),
            "x": next_.x,
            "done": next_.done,
            "terminated": next_.terminated,
            "truncated": next_.truncated,
            "late": next_.late,
            "episode_reward": next_.episode_reward,
            "stats": {"episode_scaled": next_.stats_episode_scaled, "scaled": next_.stats_scaled},
            "age": next_.age,
            "reward": next_.reward,
        }

    def _unfused(self) -> Unfused:
        return Unfused(
            Point,
            [
                RewardScaling(loc=0.0, scale=0.1, out_keys=[("stats", "scaled")]),
                RewardSum(),
                StepCounter(max_steps=20, truncated_key="late", step_count_key="age"),
            ],
        )


# ...
