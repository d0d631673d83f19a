# ...


class Actor(PythonTransform[tuple[NestedKey, ...], ActorInverseKeys]):
    """A class makes the action of what the policy wrote.

    Gives the environment, for each of `in_keys_inv`:
        `u`, float32 [*batch, n]

    Reads, in its place:
        `choice`, categorical(3) [*batch]
        `force`, float32 [*batch, n] in [0, 1]
    """

    _gives = ("u",)
    _takes = ("choice", "force")
    _logical = True
    _inverse_shapes: ClassVar[Mapping[str, str]] = {"u": "n"}
    _out_keys_inv_of_each = 2
    invertible = True
    _python_class = "mypackage.act:Actor"
    _python_written = ReadRows(ActorWritten, ((), ("n",)))
    _python_methods: ClassVar[Mapping[str, GivenRows]] = {
        "inverse": GivenRows(ActorInverse, (torch.float32,), (("n",),))
    }
    python: ActorProtocol

    def __init__(
        self, in_keys_inv: Sequence[NestedKey] | None = None, out_keys_inv: Sequence[NestedKey] | None = None
    ) -> None:
        """A class makes the action of what the policy wrote.

        Args:
            in_keys_inv: the keys that it works on (default: `action`).
            out_keys_inv: the keys of `choice`, one for each input (default: `choice`, after the input's
                key).
        """
        super().__init__(in_keys_inv=in_keys_inv, out_keys_inv=out_keys_inv)
        self._begin_python()

    def _make_python(self, device: torch.device | None) -> ActorProtocol:
        from mypackage.act import Actor as Behaviour

        make: Callable[[ActorSetup], ActorProtocol] = Behaviour
        return make(ActorSetup(device=device))

    def _bind_inv(self, env: EnvBase | None) -> list[ActorInverseKeys]:
        u = self._select(env, self._in_keys_inv, ("action",), (torch.float32,), INPUTS)
        choice = self._named(
            self._out_keys_inv, [rename_leaf(key, "choice") for key in u], "out_keys_inv", (0, 2)
        )
        force = self._named(
            self._out_keys_inv, [rename_leaf(key, "force") for key in u], "out_keys_inv", (1, 2)
        )
        return [ActorInverseKeys(*keys) for keys in zip(u, choice, force, strict=True)]

    def _outer_specs(self, key: ActorInverseKeys) -> dict[NestedKey, TensorSpec]:
        specs: dict[NestedKey, TensorSpec] = {}
        u = self._spec(key.u, INPUTS)
        specs[key.choice] = choices_like(u, "categorical", 3, drop=self._inner_rank(key.u), dtype=torch.int64)
        specs[key.force] = bounded_like(self._row_spec(key.force, (u.shape[-1],)), 0, 1, torch.float32)
        return specs


# ...


class SidedReset(NamedTuple):
    """What `Sided.reset` returns."""

    last: Float32[Tensor, "rows"] | None
    """float32 [rows]; None unless given(limit)."""
    away: Float32[Tensor, "rows"] | None
    """float32 [rows]; None unless given(goal)."""
    offset: Float32[Tensor, "rows n"] | None
    """float32 [rows, n]; None unless `offset_key` is given."""


# ...


class SidedProtocol(Protocol):
    """What `mypackage.near:Sided` has to be.

    It is made from a `SidedSetup`, and stateless unless it is an `nn.Module`, which becomes a
    submodule. Tensors have one batch dimension in front, the rows, whatever the batch size of the
    environment and however many times are computed at once; tensors that it is given must not be
    changed in place. Subclass this to have type checkers show mistakes where they are.
    """

    @abstractmethod
    def reset(self, inputs: SidedInputs) -> SidedReset:
        """The outputs at the start of an episode.

        Args:
            inputs: the entries.
        """
        ...

    @abstractmethod
    def step(self, carried: SidedCarried, inputs: SidedInputs) -> SidedStep:
        """The outputs after a step.

        Args:
            carried: what was returned before the step.
            inputs: the entries after the step.
        """
        ...


class Sided(PythonTransform[SidedKeys]):
    """Each row has a side of its own, and what is made of a key that may be missing is there where that
    is.

    Reads:
        `x`, float32 [*batch, n]
        `goal`, if it is there, float32 [*batch, n]

    Writes:
        `last`, float32 [*batch]; carried from step to step; only with `given(limit)`
        `away`, float32 [*batch]; only with `given(goal)`
        `side_reward`, float32 [*batch]
        `offset`, float32 [*batch, n]; only with `offset_key`
    """

    _writes: tuple[str, ...] = ("away", "side_reward", "offset")
    _rewards = ("side_reward",)
    _optional = ("last", "away", "offset")
    _logical = True
    _shapes: ClassVar[Mapping[str, str]] = {"x": "n", "goal": "n"}
    _sequential = True
    _python_class = "mypackage.near:Sided"
    _python_inputs = ReadRows(SidedInputs, (("n",), ("n",), ()), optional=("goal",), params=("side",))
    _python_carried = ReadRows(SidedCarried, ((),), optional=("last",))
    _python_methods: ClassVar[Mapping[str, GivenRows]] = {
        "reset": GivenRows(
            SidedReset,
            (torch.float32, torch.float32, torch.float32),
            ((), (), ("n",)),
            when={"away": (("goal", True),)},
        ),
        "step": GivenRows(
            SidedStep,
            (torch.float32, torch.float32, torch.float32, torch.float32),
            ((), (), (), ("n",)),
            when={"away": (("goal", True),)},
        ),
    }
    _python_asked: ClassVar[Mapping[str, str]] = {"offset": "offset_key"}
    python: SidedProtocol
    side: Tensor

    def __init__(
        self, side: ArrayLike, x_key: NestedKey = "observation", goal_key: NestedKey | None = None,
        offset_key: NestedKey | None = None, limit: int | None = None,
    ) -> None:
        """Each row has a side of its own, and what is made of a key that may be missing is there where that
        is.

        Args:
            side: float; one for all, or one for each environment.
            x_key: the key of `x`.
            goal_key: the key of `goal` (default: `goal`, where the environment has it).
            offset_key: the key of `offset` (default: none, and there is none).
            limit: int.
        """
        super().__init__()
        self.x_key = normal_key(x_key)
        self.goal_key = None if goal_key is None else normal_key(goal_key)
        self.offset_key = None if offset_key is None else normal_key(offset_key)
        self.register_buffer("side", as_numbers(side, "side", torch.float32))
        self.limit = limit
        if self.limit is not None:
            self._writes = (*self._writes, "last")
            self._recalls = (*self._recalls, "last")
            self._carries = (*self._carries, "last")
        self._begin_python()

    def _make_python(self, device: torch.device | None) -> SidedProtocol:
        from mypackage.near import Sided as Behaviour

        make: Callable[[SidedSetup], SidedProtocol] = Behaviour
        return make(SidedSetup(params=SidedParams(limit=self.limit), device=device, outputs=self._asked()))

    def _bind(self, env: EnvBase | None) -> list[SidedKeys]:
        x = self._checked(env, [self.x_key], (torch.float32,))
        goal = self._if_there(
            env, [self.goal_key or "goal"] * len(x), (torch.float32,), named=self.goal_key is not None
        )
        last = ["last"] * len(x)
        away = [
            key if goal_key is not None else None
            for key, goal_key in zip(["away"] * len(x), goal, strict=True)
        ]
        side_reward = ["side_reward"] * len(x)
        offset = [self.offset_key] * len(x)
        return [SidedKeys(*keys) for keys in zip(x, goal, last, away, side_reward, offset, strict=True)]

    def _added_specs(self) -> dict[NestedKey, TensorSpec]:
        specs: dict[NestedKey, TensorSpec] = {}
        for key in self.keys:
            specs[key.side_reward] = unbounded_like(self._row_spec(key.side_reward), torch.float32)
            if key.goal is not None and key.away is not None:
                specs[key.away] = unbounded_like(self._row_spec(key.away), torch.float32)
            if self.limit is not None:
                specs[key.last] = unbounded_like(self._row_spec(key.last), torch.float32)
            if key.offset is not None:
                specs[key.offset] = unbounded_like(
                    self._row_spec(key.offset, (self._spec(key.x).shape[-1],)), torch.float32
                )
        return specs


# ...


def siding_reset(objects: SidingObjects, not_done: Tensor, observation: Tensor) -> SidingRoot:
    """A fresh episode in every row of the batch."""
    # chains.Siding.transforms[0]
    last, off = objects.sided_0.reset(observation)
    return SidingRoot(
        observation=observation, done=not_done, terminated=not_done.clone(), truncated=not_done.clone(),
        last=last, off=off,
    )


def siding_advance(
    objects: SidingObjects, last: Tensor, next_observation: Tensor, reward: Tensor, terminated: Tensor,
    truncated: Tensor,
) -> SidingNext:
    """One step: all that the step after it depends on."""
    # chains.Siding.transforms[0]
    next_last, side_reward_rows, next_off = objects.sided_0.step(next_observation, last=last)
    side_reward = side_reward_rows.unsqueeze(-1)
    return SidingNext(
        observation=next_observation, done=terminated | truncated, terminated=terminated, truncated=truncated,
        last=next_last, off=next_off, reward=reward, side_reward=side_reward,
    )


class Siding(GeneratedGymEnv["SidingData", "SidingSpecs"]):
    # ...

    def _specs(self) -> EnvSpecs:
        observation = Composite(
            observation=Bounded(
                low=[-1.0, -1.0, -8.0], high=[1.0, 1.0, 8.0], shape=(3,), dtype=torch.float32
            ),
            last=Unbounded(shape=(), dtype=torch.float32),
            off=Unbounded(shape=(3,), dtype=torch.float32),
        )
        return EnvSpecs(
            action=Composite(action=Bounded(low=-2.0, high=2.0, shape=(1,), dtype=torch.float32)),
            observation=observation,
            state=observation.select("last"),
            reward=Composite(
                reward=Unbounded(shape=(1,), dtype=torch.float32),
                side_reward=Unbounded(shape=(1,), dtype=torch.float32),
            ),
        ).to(self.device)

    # ...


# ...


def nearing_reset(not_done: Tensor, observation: Tensor) -> NearingRoot:
    """A fresh episode in every row of the batch."""
    return NearingRoot(
        observation=observation, done=not_done, terminated=not_done.clone(), truncated=not_done.clone()
    )


def nearing_advance(
    next_observation: Tensor, reward: Tensor, terminated: Tensor, truncated: Tensor
) -> NearingNext:
    """One step: all that the step after it depends on."""
    return NearingNext(
        observation=next_observation, done=terminated | truncated, terminated=terminated, truncated=truncated,
        reward=reward,
    )


# ...


def nearing_observe(objects: NearingObjects, observation: Tensor) -> NearingObservation:
    """The observation of a state, for any leading dimensions."""
    # chains.Nearing.transforms[0]
    goal = observation
    # chains.Nearing.transforms[1]
    (near,) = objects.near_1.map(observation, goal=goal)
    return NearingObservation(goal=goal, near=near)


class Nearing(GeneratedGymEnv["NearingData", "NearingSpecs"]):
    # ...

    def _gym_lift(
        self, firsts: NearingRoot, lengths: Sequence[int], observation: Tensor, reward: Tensor,
        terminated: Tensor, truncated: Tensor,
    ) -> NearingNext:
        return nearing_advance(observation, reward, terminated, truncated)

    def _root_entries(self, root: NearingRoot) -> dict[str, Any]:
        observed = nearing_observe(self.objects, root.observation)
        return {"goal": observed.goal, "near": observed.near, **root._asdict()}

    # ...


# ...


def alone_reset(not_done: Tensor, observation: Tensor) -> AloneRoot:
    """A fresh episode in every row of the batch."""
    return AloneRoot(
        observation=observation, done=not_done, terminated=not_done.clone(), truncated=not_done.clone()
    )


def alone_advance(
    next_observation: Tensor, reward: Tensor, terminated: Tensor, truncated: Tensor
) -> AloneNext:
    """One step: all that the step after it depends on."""
    return AloneNext(
        observation=next_observation, done=terminated | truncated, terminated=terminated, truncated=truncated,
        reward=reward,
    )


def alone_observe(objects: AloneObjects, observation: Tensor) -> Tensor:
    """The observation of a state, for any leading dimensions."""
    # chains.Alone.transforms[0]
    (near,) = objects.near_0.map(observation)
    return near


# ...


def acting_reset(not_done: Tensor, observation: Tensor) -> ActingRoot:
    """A fresh episode in every row of the batch."""
    # chains.Acting.transforms[0]
    step_count = torch.zeros_like(not_done, dtype=torch.int64)
    return ActingRoot(
        observation=observation, done=not_done, terminated=not_done.clone(), truncated=not_done.clone(),
        step_count=step_count,
    )


def acting_inverse(objects: ActingObjects, choice: Tensor, force: Tensor) -> Tensor:
    """What Gymnasium is given, of what the policy wrote."""
    # chains.Acting.transforms[2]
    (action_u,) = objects.actor_2.inverse(choice, force)
    return action_u


def acting_advance(
    objects: ActingObjects, step_count: Tensor, next_observation: Tensor, reward: Tensor, terminated: Tensor,
    truncated: Tensor,
) -> ActingNext:
    """One step: all that the step after it depends on."""
    done = terminated | truncated
    # chains.Acting.transforms[0]
    next_step_count = step_count + 1
    next_truncated = truncated | (next_step_count >= 9)
    next_done = done | next_truncated
    # chains.Acting.transforms[1]
    (next_truncated_rows,) = objects.ends_1.step(next_done.squeeze(-1))
    next_truncated_truncated = next_truncated_rows.unsqueeze(-1)
    next_truncated = next_truncated | next_truncated_truncated
    return ActingNext(
        observation=next_observation, done=next_done | next_truncated, terminated=terminated,
        truncated=next_truncated, step_count=next_step_count, reward=reward,
    )


class Acting(GeneratedGymEnv["ActingData", "ActingSpecs"]):
    # ...

    def _gym_action(self, actions: tuple[Tensor, ...]) -> Tensor:
        return acting_inverse(self.objects, actions[0], actions[1])

    # ...


# ...
