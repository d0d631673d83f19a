# ...


class PointParams(NamedTuple):
    """Constructor keywords of `Point`, which says what they are."""

    dt: Tensor
    gains: Tensor
    spread: float = 0.5
    mass: Tensor | None = None
    slow: Tensor | None = None


# ...


def point_reset(
    params: PointParams, not_done: Tensor, draw_mass: Tensor, draw_slow: Tensor, draw_x: Tensor
) -> PointRoot:
    """A fresh episode in every row of the batch.

    Args:
        params: constructor keywords of the environment.
        not_done: bool [*batch, 1], all False; it tells the batch shape and the device.
        draw_mass, draw_slow, draw_x: float32 [*batch], uniform in [0, 1).
    """
    # envs.Point.params
    mass = (
        1 - params.spread + (1 + params.spread - (1 - params.spread)) * draw_mass
        if params.mass is None
        else params.mass.clone()
    )
    slow = (
        (draw_slow < 0.5 if params.spread > 0.5 else mass > 1) if params.slow is None else params.slow.clone()
    )
    dt = params.dt.clone()
    gains = params.gains.clone()
    # envs.Point.reset
    x = (-1 + 2 * draw_x) * dt
    return PointRoot(
        x=x, mass=mass, slow=slow, dt=dt, gains=gains, done=not_done, terminated=not_done.clone(),
        truncated=not_done.clone(),
    )


def point_advance(
    x: Tensor, mass: Tensor, slow: Tensor, dt: Tensor, gains: Tensor, done: Tensor, action: Tensor
) -> PointNext:
    """One step of the dynamics: all that the step after it depends on.

    Args:
        x, mass, slow, dt, gains, done: as in `PointRoot`.
        action: float32 [*batch, 2].
    """
    # envs.Point.step
    push = (gains * action).sum(dim=-1) / mass
    next_x = torch.clamp(x + dt * torch.where(slow, 0.1 * push, push), -10.0, 10.0)
    return PointNext(
        x=next_x, mass=mass, slow=slow, dt=dt, gains=gains, done=torch.zeros_like(done),
        terminated=torch.zeros_like(done), truncated=torch.zeros_like(done),
    )


# ...


class Point(GeneratedEnv["PointData", "PointSpecs"]):
    # ...

    def __init__(
        self, *, spread: float = 0.5, mass: ArrayLike | None = None, slow: ArrayLike | None = None,
        dt: ArrayLike = 0.1, gains: ArrayLike = (0.5, 1.0), batch_size: Sequence[int] = (),
        device: DEVICE_TYPING | None = None,
    ) -> None:
        """A point on a line, pushed left and right.

        Args:
            spread: float (default 0.5, >= 0, <= 0.9)
            mass: in kg (drawn at each reset from uniform(1 - spread, 1 + spread), > 0; a number, or a
                tensor that broadcasts to (*batch))
            slow: differs between environments (drawn at each reset from where(spread > 0.5, bernoulli(0.5),
                mass > 1); a number, or a tensor that broadcasts to (*batch))
            dt: seconds between two steps (default 0.1, > 0; a number, or a tensor that broadcasts to
                (*batch))
            gains: differs between environments (default (0.5, 1.0); a number, or a tensor that broadcasts
                to (*batch, 2))
            batch_size: how many instances run side by side, any shape.
            device: where the tensors live.
        """
        super().__init__(batch_size=batch_size, device=device)
        self.params = PointParams(
            spread=self._float("spread", spread, at_least=0, at_most=0.9),
            mass=None if mass is None else self._per_env("mass", mass, (), torch.float32, above=0),
            slow=None if slow is None else self._per_env("slow", slow, (), torch.bool),
            dt=self._per_env("dt", dt, (), torch.float32, above=0),
            gains=self._per_env("gains", gains, (2,), torch.float32),
        )
        self._build()

    # ...

    def _fresh(self) -> PointRoot:
        return point_reset(
            self.params, torch.zeros((*self.batch_size, 1), dtype=torch.bool, device=self.device),
            self._uniform((), torch.float32), self._uniform((), torch.float32),
            self._uniform((), torch.float32),
        )

    # ...


# ...


def point_train_reset(
    params: PointParams, not_done: Tensor, draw_mass: Tensor, draw_slow: Tensor, draw_x: Tensor
) -> PointTrainRoot:
    """A fresh episode in every row of the batch."""
    # envs.Point
    base = point_reset(params, not_done, draw_mass, draw_slow, draw_x)
    # chains.PointTrain.transforms[0]
    step_count = torch.zeros_like(not_done, dtype=torch.int64)
    return PointTrainRoot(
        x=base.x, mass=base.mass, slow=base.slow, dt=base.dt, gains=base.gains, done=base.done,
        terminated=base.terminated, truncated=base.truncated, step_count=step_count,
    )


# ...


class PointTrain(GeneratedEnv["PointTrainData", "PointTrainSpecs"]):
    # ...

    def __init__(
        self, *, spread: float = 0.5, mass: ArrayLike | None = None, slow: ArrayLike | None = None,
        dt: ArrayLike = 0.1, gains: ArrayLike = (0.5, 1.0), batch_size: Sequence[int] = (),
        device: DEVICE_TYPING | None = None,
    ) -> None:
        """`Point` with transforms.

        Args:
            spread: float (default 0.5, >= 0, <= 0.9)
            mass: in kg (drawn at each reset from uniform(1 - spread, 1 + spread), > 0; a number, or a
                tensor that broadcasts to (*batch))
            slow: differs between environments (drawn at each reset from where(spread > 0.5, bernoulli(0.5),
                mass > 1); a number, or a tensor that broadcasts to (*batch))
            dt: seconds between two steps (default 0.1, > 0; a number, or a tensor that broadcasts to
                (*batch))
            gains: differs between environments (default (0.5, 1.0); a number, or a tensor that broadcasts
                to (*batch, 2))
            batch_size: how many instances run side by side, any shape.
            device: where the tensors live.
        """
        super().__init__(batch_size=batch_size, device=device)
        self.params = PointParams(
            spread=self._float("spread", spread, at_least=0, at_most=0.9),
            mass=None if mass is None else self._per_env("mass", mass, (), torch.float32, above=0),
            slow=None if slow is None else self._per_env("slow", slow, (), torch.bool),
            dt=self._per_env("dt", dt, (), torch.float32, above=0),
            gains=self._per_env("gains", gains, (2,), torch.float32),
        )
        self._build()

    # ...


# ...
