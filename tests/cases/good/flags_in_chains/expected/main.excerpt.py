# ...


def last_reset(y: Tensor) -> Tensor:
    """`y` at the start of an episode.

    Args:
        y: floats [*batch, ...], read for its shape and dtype only.
    """
    # transforms.Last.reset
    return torch.zeros_like(y)


def last_step(next_x: Tensor, next_ends: Tensor) -> Tensor:
    """`y` after a step.

    Args:
        next_x: floats [*batch, ...], after the step.
        next_ends: bool [*batch, ...], after the step.
    """
    # transforms.Last.step
    return torch.where(next_ends, next_x, 0.0)


class Last(GeneratedTransform[LastKeys]):
    # ...

    def _bind(self, env: EnvBase | None) -> list[LastKeys]:
        x = self._select(env, self._in_keys, ("env.reward",), FLOAT_DTYPES)
        ends = self._flag_keys(env, x, "done")
        y = self._named(self._out_keys, [rename_leaf(key, "last_{}") for key in x], "out_keys")
        return [LastKeys(*keys) for keys in zip(x, ends, y, strict=True)]

    # ...

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for key in self.keys:
            y = last_reset(self._blank(key.y))
            self._write(tensordict_reset, key.y, y)
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key in self.keys:
            next_x = self._require(next_tensordict, key.x)
            next_ends = self._ended(next_tensordict, key.ends, key.x)
            next_y = last_step(next_x, next_ends)
            self._write(next_tensordict, key.y, next_y)
        return next_tensordict


class PulledRoot(NamedTuple):
    """What a step reads from one time to the next; observations follow from it."""

    x: Float32[Tensor, "*batch"]
    side_tired: Float32[Tensor, "*batch 2 2"]
    done: Bool[Tensor, "*batch 1"]
    terminated: Bool[Tensor, "*batch 1"]
    truncated: Bool[Tensor, "*batch 1"]
    side_done: Bool[Tensor, "*batch 2 1"]
    side_terminated: Bool[Tensor, "*batch 2 1"]
    side_truncated: Bool[Tensor, "*batch 2 1"]
    side_last_reward: Float32[Tensor, "*batch 2 1"]
    side_last_observation: Float32[Tensor, "*batch 2 2"]


class PulledNext(NamedTuple):
    """What a step computes for the step after it: the fields of `PulledRoot`, and more."""

    x: Float32[Tensor, "*batch"]
    side_tired: Float32[Tensor, "*batch 2 2"]
    done: Bool[Tensor, "*batch 1"]
    terminated: Bool[Tensor, "*batch 1"]
    truncated: Bool[Tensor, "*batch 1"]
    side_done: Bool[Tensor, "*batch 2 1"]
    side_terminated: Bool[Tensor, "*batch 2 1"]
    side_truncated: Bool[Tensor, "*batch 2 1"]
    side_last_reward: Float32[Tensor, "*batch 2 1"]
    side_last_observation: Float32[Tensor, "*batch 2 2"]
    side_reward: Float32[Tensor, "*batch 2 1"]


def pulled_reset(not_done: Tensor, draw_x: Tensor) -> PulledRoot:
    """A fresh episode in every row of the batch."""
    batch = not_done.shape[:-1]
    # envs.Pull
    base = pull_reset(not_done, draw_x)
    # chains.Pulled.transforms[0]
    side_last_reward = torch.zeros((*batch, 2, 1), dtype=torch.float32, device=not_done.device)
    side_last_observation = torch.zeros((*batch, 2, 2), dtype=torch.float32, device=not_done.device)
    return PulledRoot(
        x=base.x, side_tired=base.side_tired, done=base.done, terminated=base.terminated,
        truncated=base.truncated, side_done=base.side_done, side_terminated=base.side_terminated,
        side_truncated=base.side_truncated, side_last_reward=side_last_reward,
        side_last_observation=side_last_observation,
    )


def pulled_advance(x: Tensor, side_tired: Tensor, side_action: Tensor) -> PulledNext:
    """One step: all that the step after it depends on."""
    # envs.Pull
    base = pull_advance(x, side_tired, side_action)
    side_reward = pull_reward(x)
    next_side_observation = pull_observe(base.side_tired)
    # chains.Pulled.transforms[0]
    ends = base.done.squeeze(-1).unsqueeze(-1).tile((2,)).unsqueeze(-1)
    next_side_last_reward = torch.where(ends, side_reward, 0.0)
    ends_2 = base.done.squeeze(-1).unsqueeze(-1).tile((2,)).unsqueeze(-1).tile((2,))
    next_side_last_observation = torch.where(ends_2, next_side_observation, 0.0)
    return PulledNext(
        x=base.x, side_tired=base.side_tired, done=base.done, terminated=base.terminated,
        truncated=base.truncated, side_done=base.side_done, side_terminated=base.side_terminated,
        side_truncated=base.side_truncated, side_last_reward=next_side_last_reward,
        side_last_observation=next_side_last_observation, side_reward=side_reward,
    )


class Pulled(GeneratedEnv["PulledData", "PulledSpecs"]):
    """Flags of the root for each agent.

    Transforms, in order: Last.

    Groups of agents:
        side: side_0, side_1

    Keys:
        ("side", "observation"): float32 [*batch, 2, 2]
        x: float32 [*batch]
        ("side", "tired"): float32 [*batch, 2, 2]
        ("side", "last_reward"): float32 [*batch, 2, 1]
        ("side", "last_observation"): float32 [*batch, 2, 2]
        done, terminated, truncated: bool [*batch, 1]; the episode is over; it ended; it was cut off
        ("side", "done"), ("side", "terminated"), ("side", "truncated"): bool [*batch, 2, 1]; the
            episode is over; it ended; it was cut off
        ("side", "action"): float32 [*batch, 2] in [-1, 1]
        ("next", "side", "reward"): float32 [*batch, 2, 1]
    """

    _root_record = PulledRoot
    _root_keys = (
        "x",
        ("side", "tired"),
        "done",
        "terminated",
        "truncated",
        ("side", "done"),
        ("side", "terminated"),
        ("side", "truncated"),
        ("side", "last_reward"),
        ("side", "last_observation"),
    )
    group_map: ClassVar[dict[str, list[str]]] = {"side": ["side_0", "side_1"]}
    _columns = frozenset([("side", "last_reward")])

    def __init__(self, *, batch_size: Sequence[int] = (), device: DEVICE_TYPING | None = None) -> None:
        """Flags of the root for each agent.

        Args:
            batch_size: how many instances run side by side, any shape.
            device: where the tensors live.
        """
        super().__init__(batch_size=batch_size, device=device)
        self._build()

    def _specs(self) -> EnvSpecs:
        flag = Categorical(2, shape=(1,), dtype=torch.bool)
        side_flag = Categorical(2, shape=(2, 1), dtype=torch.bool)
        observation = Composite(
            side=Composite(
                observation=Unbounded(shape=(2, 2), dtype=torch.float32),
                tired=Unbounded(shape=(2, 2), dtype=torch.float32),
                last_reward=Unbounded(shape=(2, 1), dtype=torch.float32),
                last_observation=Unbounded(shape=(2, 2), dtype=torch.float32),
                shape=(2,),
            ),
            x=Unbounded(shape=(), dtype=torch.float32),
        )
        return EnvSpecs(
            action=Composite(
                side=Composite(
                    action=Bounded(low=-1.0, high=1.0, shape=(2,), dtype=torch.float32), shape=(2,)
                )
            ),
            observation=observation,
            state=observation.select("x", ("side", "tired")),
            reward=Composite(side=Composite(reward=Unbounded(shape=(2, 1), dtype=torch.float32), shape=(2,))),
            done=Composite(
                done=flag,
                terminated=flag,
                truncated=flag,
                side=Composite(done=side_flag, terminated=side_flag, truncated=side_flag, shape=(2,)),
            ),
        ).to(self.device)

    def _fresh(self) -> PulledRoot:
        return pulled_reset(
            torch.zeros((*self.batch_size, 1), dtype=torch.bool, device=self.device),
            self._uniform((), torch.float32),
        )

    def _advance(self, root: PulledRoot, actions: tuple[Tensor, ...]) -> PulledNext:
        return pulled_advance(root.x, root.side_tired, actions[0])

    def _root_entries(self, root: PulledRoot) -> dict[str, Any]:
        return {
            "side": {
                "observation": pull_observe(root.side_tired),
                "tired": root.side_tired,
                "done": root.side_done,
                "terminated": root.side_terminated,
                "truncated": root.side_truncated,
                "last_reward": root.side_last_reward,
                "last_observation": root.side_last_observation,
            },
            "x": root.x,
            "done": root.done,
            "terminated": root.terminated,
            "truncated": root.truncated,
        }

    def _next_entries(
        self, root: PulledRoot, actions: tuple[Tensor, ...], next_: PulledNext
    ) -> dict[str, Any]:
        return {
            "side": {
                "observation": pull_observe(next_.side_tired),
                "tired": next_.side_tired,
                "done": next_.side_done,
                "terminated": next_.side_terminated,
                "truncated": next_.side_truncated,
                "last_reward": next_.side_last_reward,
                "last_observation": next_.side_last_observation,
                "reward": next_.side_reward,
            },
            "x": next_.x,
            "done": next_.done,
            "terminated": next_.terminated,
            "truncated": next_.truncated,
        }

    def _unfused(self) -> Unfused:
        return Unfused(Pull, [Last(in_keys=[("side", "reward"), ("side", "observation")])])


# ...
