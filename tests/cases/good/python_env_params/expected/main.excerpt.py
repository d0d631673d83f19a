# ...


class SlideParams(NamedTuple):
    """Constructor keywords of `Slide`, which says what they are."""

    gains: Tensor
    dt: float = 0.1
    mass: Tensor | None = None


# ...


class SlideSetupParams(NamedTuple):
    """Constructor keywords that are one value for all environments."""

    dt: float = 0.1


class SlideSetup(NamedTuple):
    """What `Slide` is made from."""

    params: SlideSetupParams
    """The same for all environments."""
    consts: SlideConsts
    """The constant tables."""
    device: torch.device | None
    """Where the tensors live; None is torch's default."""


class SlideEpisodeParams(NamedTuple):
    """The parameters of the episode in each row: they keep their values until the next reset."""

    mass: Float32[Tensor, "rows"]
    """float32 [rows]: in kg."""
    gains: Float32[Tensor, "rows 2"]
    """float32 [rows, 2]."""


# ...


class SlideProtocol(Protocol):
    """What `mypackage.slide:Slide` has to be.

    It is made from a `SlideSetup`. It is stateless: what changes from step to step is in the state that
    it is given and returns. Tensors have one batch dimension in front, the rows, whatever the batch
    size of the environment; tensors that it is given must not be changed in place. Subclass this to
    have type checkers show mistakes where they are.
    """

    @abstractmethod
    def reset(self, rows: int, params: SlideEpisodeParams, generator: torch.Generator) -> SlideReset:
        """New episodes, one in each row.

        Args:
            rows: how many.
            params: those of each row.
            generator: draw from it; it is on the device of the data.
        """
        ...

    @abstractmethod
    def step(
        self, state: SlideState, push: Float32[Tensor, "rows 2"], params: SlideEpisodeParams,
        generator: torch.Generator,
    ) -> SlideStep:
        """One step in each row.

        Args:
            state: what it returned last, or what a reset has put in its place.
            push: float32 [rows, 2] in [-1, 1].
            params: those of each row.
            generator: draw from it; it is on the device of the data.
        """
        ...


# ...


def slide_reset(
    dynamics: VectorDynamics[SlideProtocol], params: SlideParams, consts: SlideConsts, not_done: Tensor,
    draw_mass: Tensor,
) -> SlideRoot:
    """A fresh episode in every row of the batch, by `mypackage.slide:Slide`.

    Args:
        dynamics: the class's object.
        params: constructor keywords of the environment.
        consts: constant tables of the environment.
        not_done: bool [*batch, 1], all False; it tells the batch shape and the device.
        draw_mass: int64 [*batch], uniform in 0..1.
    """
    # envs.Slide.params
    mass = consts.weights[draw_mass].clone() if params.mass is None else params.mass.clone()
    gains = params.gains.clone()
    (x,) = dynamics.reset(not_done, SlideEpisodeParams(mass=mass, gains=gains))
    return SlideRoot(
        x=x, mass=mass, gains=gains, done=not_done, terminated=not_done.clone(), truncated=not_done.clone()
    )


# ...


class Slide(GeneratedPythonEnv["SlideData", "SlideSpecs"]):
    # ...

    def __init__(
        self, *, dt: float = 0.1, mass: ArrayLike | None = None, gains: ArrayLike = (0.5, 1.0),
        batch_size: Sequence[int] = (), device: DEVICE_TYPING | None = None, check_domains: bool = False,
    ) -> None:
        """A block that is pushed along a plane.

        Args:
            dt: float (default 0.1, > 0)
            mass: in kg (drawn at each reset from weights[randint(0, 2)]; a number, or a tensor that
                broadcasts to (*batch))
            gains: differs between environments (default (0.5, 1.0); a number, or a tensor that broadcasts
                to (*batch, 2))
            batch_size: how many instances run side by side, any shape.
            device: where the tensors live.
            check_domains: refuse NaN and values outside their domain; for debugging.
        """
        super().__init__(batch_size=batch_size, device=device, check_domains=check_domains)
        self.params = SlideParams(
            dt=self._float("dt", dt, above=0),
            mass=None if mass is None else self._per_env("mass", mass, (), torch.float32),
            gains=self._per_env("gains", gains, (2,), torch.float32),
        )
        self._build()

    # ...

    def _make_python(self) -> SlideProtocol:
        from mypackage.slide import Slide

        make: Callable[[SlideSetup], SlideProtocol] = Slide
        return make(
            SlideSetup(params=SlideSetupParams(dt=self.params.dt), consts=self.consts, device=self.device)
        )

    # ...


class CraneParams(NamedTuple):
    """Constructor keywords of `Crane`, which says what they are."""

    load: Tensor | None = None


# ...


class CraneEpisodeParams(NamedTuple):
    """The parameters of an episode: they keep their values until the next reset."""

    load: Float32[Tensor, ""]
    """float32 in [0, inf]: in tons."""


# ...


def crane_reset(
    dynamics: SimulatorDynamics[CraneProtocol], params: CraneParams, not_done: Tensor, draw_load: Tensor
) -> CraneRoot:
    """A fresh episode in every row of the batch, by `mypackage.crane:Crane`.

    Args:
        dynamics: the class's object.
        params: constructor keywords of the environment.
        not_done: bool [*batch, 1], all False; it tells the batch shape and the device.
        draw_load: float32 [*batch], uniform in [0, 1).
    """
    # envs.Crane.params
    load = 1 + 2 * draw_load if params.load is None else params.load.clone()
    (height,) = dynamics.reset(not_done, CraneEpisodeParams(load=load))
    return CraneRoot(
        height=height, load=load, done=not_done, terminated=not_done.clone(), truncated=not_done.clone()
    )


# ...


class CraneTrain(GeneratedPythonEnv["CraneTrainData", "CraneTrainSpecs"]):
    # ...

    def __init__(
        self, *, load: ArrayLike | None = None, device: DEVICE_TYPING | None = None,
        check_domains: bool = False,
    ) -> None:
        """`Crane` with transforms.

        Args:
            load: in tons (drawn at each reset from uniform(1, 3), > 0; a number, or a tensor that
                broadcasts to (*batch))
            device: where the tensors live.
            check_domains: refuse NaN and values outside their domain; for debugging.
        """
        super().__init__(device=device, check_domains=check_domains)
        self.params = CraneParams(
            load=None if load is None else self._per_env("load", load, (), torch.float32, above=0)
        )
        self._build()

    # ...


# ...
