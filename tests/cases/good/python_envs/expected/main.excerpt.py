# ...


class FleetSetup(NamedTuple):
    """What `FleetDynamics` is made from."""

    params: FleetParams
    """The constructor keywords."""
    consts: FleetConsts
    """The constant tables."""
    dims: FleetDims
    """The named sizes."""
    device: torch.device | None
    """Where the tensors live; None is torch's default."""


class FleetState(NamedTuple):
    """The state in each row: what `FleetDynamics.step` is given."""

    robots_pos: Int64[Tensor, "rows 3 2"]
    """int64 [rows, 3, 2] in [0, 9]: row and column."""


# ...


class FleetStep(NamedTuple):
    """What `FleetDynamics.step` returns."""

    robots_pos: Int64[Tensor, "rows 3 2"]
    """int64 [rows, 3, 2] in [0, 9]: row and column."""
    robots_observation: Float32[Tensor, "rows 3 2"]
    """float32 [rows, 3, 2] in [0, 1]."""
    robots_action_mask: Bool[Tensor, "rows 3 4"]
    """bool [rows, 3, 4]."""
    robots_reward: Float32[Tensor, "rows 3"]
    """float32 [rows, 3]."""
    terminated: Bool[Tensor, "rows"]
    """bool [rows]: it ended."""
    truncated: Bool[Tensor, "rows"]
    """bool [rows]: it was cut off."""
    robots_terminated: Bool[Tensor, "rows 3"]
    """bool [rows, 3]: it ended."""
    robots_truncated: Bool[Tensor, "rows 3"]
    """bool [rows, 3]: it was cut off."""


class FleetProtocol(Protocol):
    """What `mypackage.warehouse:FleetDynamics` has to be.

    It is made from a `FleetSetup`. It is stateless: what changes from step to step is in the state that
    it is given and returns. Tensors have one batch dimension in front, the rows, whatever the batch
    size of the environment; tensors that it is given must not be changed in place. Subclass this to
    have type checkers show mistakes where they are.
    """

    @abstractmethod
    def reset(self, rows: int, generator: torch.Generator) -> FleetReset:
        """New episodes, one in each row.

        Args:
            rows: how many.
            generator: draw from it; it is on the device of the data.
        """
        ...

    @abstractmethod
    def step(
        self, state: FleetState, robots_action: Int64[Tensor, "rows 3"], generator: torch.Generator
    ) -> FleetStep:
        """One step in each row.

        Args:
            state: what it returned last, or what a reset has put in its place.
            robots_action: int64 [rows, 3] in 0..3.
            generator: draw from it; it is on the device of the data.
        """
        ...


# ...


def fleet_reset(dynamics: VectorDynamics[FleetProtocol], not_done: Tensor) -> FleetRoot:
    """A fresh episode in every row of the batch, by `mypackage.warehouse:FleetDynamics`.

    Args:
        dynamics: the class's object.
        not_done: bool [*batch, 1], all False; it tells the batch shape and the device.
    """
    robots_pos, robots_observation, robots_action_mask = dynamics.reset(not_done)
    robots_done = torch.zeros((*not_done.shape[:-1], 3, 1), dtype=torch.bool, device=not_done.device)
    return FleetRoot(
        robots_pos=robots_pos, robots_observation=robots_observation, robots_action_mask=robots_action_mask,
        done=not_done, terminated=not_done.clone(), truncated=not_done.clone(), robots_done=robots_done,
        robots_terminated=robots_done.clone(), robots_truncated=robots_done.clone(),
    )


def fleet_advance(
    dynamics: VectorDynamics[FleetProtocol], done: Tensor, robots_pos: Tensor, robots_action: Tensor
) -> FleetNext:
    """One step, by `mypackage.warehouse:FleetDynamics`.

    Args:
        dynamics: the class's object.
        done: bool [*batch, 1]; it tells the batch shape.
        robots_pos: as in `FleetRoot`.
        robots_action: int64 [*batch, 3].
    """
    (
        next_robots_pos,
        robots_observation,
        robots_action_mask,
        robots_reward,
        terminated,
        truncated,
        robots_terminated,
        robots_truncated,
    ) = dynamics.step(done, FleetState(robots_pos=robots_pos), robots_action)
    robots_terminated = robots_terminated | terminated.unsqueeze(-1)
    robots_truncated = robots_truncated | truncated.unsqueeze(-1)
    return FleetNext(
        robots_pos=next_robots_pos, robots_observation=robots_observation,
        robots_action_mask=robots_action_mask, done=terminated | truncated, terminated=terminated,
        truncated=truncated, robots_done=robots_terminated | robots_truncated,
        robots_terminated=robots_terminated, robots_truncated=robots_truncated, robots_reward=robots_reward,
    )


class Fleet(GeneratedPythonEnv["FleetData", "FleetSpecs"]):
    # ...

    def _make_python(self) -> FleetProtocol:
        from mypackage.warehouse import FleetDynamics

        make: Callable[[FleetSetup], FleetProtocol] = FleetDynamics
        return make(FleetSetup(params=self.params, consts=self.consts, dims=FleetDims(), device=self.device))

    # ...


# ...


class ArmProtocol(Protocol):
    """What `mypackage.arm:Arm` has to be.

    It is made from a `ArmSetup`. One instance, which keeps its state to itself. Numbers, lists, arrays
    and tensors may be returned; they are copied and take the declared dtype if it holds them. If it has
    a method `close`, that is called when the environment is closed. Subclass this to have type checkers
    show mistakes where they are.
    """

    @abstractmethod
    def reset(self, seed: int | None) -> ArmReset:
        """Begin a new episode.

        Args:
            seed: begin anew with the random numbers of this seed; None goes on with those that follow.
        """
        ...

    @abstractmethod
    def step(self, torque: Float64[Tensor, "2"]) -> ArmStep:
        """One step.

        Args:
            torque: float64 [2] in [-1, 1]; a copy on the CPU.
        """
        ...


# ...


def arm_reset(dynamics: SimulatorDynamics[ArmProtocol], not_done: Tensor) -> ArmRoot:
    """A fresh episode in every row of the batch, by `mypackage.arm:Arm`.

    Args:
        dynamics: the class's object.
        not_done: bool [*batch, 1], all False; it tells the batch shape and the device.
    """
    angle, image = dynamics.reset(not_done)
    return ArmRoot(
        angle=angle, image=image, done=not_done, terminated=not_done.clone(), truncated=not_done.clone()
    )


def arm_advance(dynamics: SimulatorDynamics[ArmProtocol], torque: Tensor) -> ArmNext:
    """One step, by `mypackage.arm:Arm`.

    Args:
        dynamics: the class's object.
        torque: float64 [*batch, 2].
    """
    angle, image, reward, terminated, truncated = dynamics.step(torque)
    return ArmNext(
        angle=angle, image=image, done=terminated | truncated, terminated=terminated, truncated=truncated,
        reward=reward,
    )


# ...


def arm_train_reset(dynamics: SimulatorDynamics[ArmProtocol], not_done: Tensor) -> ArmTrainRoot:
    """A fresh episode in every row of the batch."""
    # envs.Arm
    base = arm_reset(dynamics, not_done)
    # chains.ArmTrain.transforms[1]
    step_count = torch.zeros_like(not_done, dtype=torch.int64)
    return ArmTrainRoot(
        raw_angle=base.angle, image=base.image, done=base.done, terminated=base.terminated,
        truncated=base.truncated, step_count=step_count,
    )


def arm_train_advance(
    dynamics: SimulatorDynamics[ArmProtocol], step_count: Tensor, torque: Tensor
) -> ArmTrainNext:
    """One step: all that the step after it depends on."""
    # chains.ArmTrain.transforms[0]
    torque_double_in = torque.to(torch.float64)
    # envs.Arm
    base = arm_advance(dynamics, torque_double_in)
    # chains.ArmTrain.transforms[1]
    next_step_count = step_count + 1
    next_truncated = base.truncated | (next_step_count >= 50)
    return ArmTrainNext(
        raw_angle=base.angle, image=base.image, done=base.done | next_truncated, terminated=base.terminated,
        truncated=next_truncated, step_count=next_step_count, reward=base.reward,
    )


def arm_train_observe(raw_angle: Tensor) -> Tensor:
    """The observation of a state, for any leading dimensions."""
    # chains.ArmTrain.transforms[0]
    return raw_angle.to(torch.float32)


# ...


def arm_skip_reset(dynamics: SimulatorDynamics[ArmProtocol], not_done: Tensor) -> ArmSkipRoot:
    """A fresh episode in every row of the batch."""
    # envs.Arm
    base = arm_reset(dynamics, not_done)
    return ArmSkipRoot(
        angle=base.angle, image=base.image, done=base.done, terminated=base.terminated,
        truncated=base.truncated,
    )


def arm_skip_advance(
    dynamics: SimulatorDynamics[ArmProtocol], angle: Tensor, image: Tensor, done: Tensor, torque: Tensor
) -> ArmSkipNext:
    """One step: all that the step after it depends on."""
    next_angle = torch.zeros_like(angle)
    next_image = torch.zeros_like(image)
    done_2 = torch.zeros_like(done)
    terminated = torch.zeros_like(done)
    truncated = torch.zeros_like(done)
    reward = torch.zeros_like(done, dtype=torch.float32)
    over = torch.zeros_like(done)
    # chains.ArmSkip.transforms[0]
    for _ in range(4):
        if bool(over):
            break
        base = arm_advance(dynamics, torque)
        reward = reward + base.reward
        over = over | base.done
        next_angle = base.angle
        next_image = base.image
        done_2 = base.done
        terminated = base.terminated
        truncated = base.truncated
    return ArmSkipNext(
        angle=next_angle, image=next_image, done=done_2, terminated=terminated, truncated=truncated,
        reward=reward,
    )


# ...
