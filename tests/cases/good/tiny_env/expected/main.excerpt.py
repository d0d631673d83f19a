# ...


class PointParams(NamedTuple):
    """Constructor keywords of `Point`, which says what they are."""

    dt: float = 0.1


class PointRoot(NamedTuple):
    """What a step reads from one time to the next; observations follow from it."""

    x: Float32[Tensor, "*batch"]
    v: Float32[Tensor, "*batch"]
    done: Bool[Tensor, "*batch 1"]
    terminated: Bool[Tensor, "*batch 1"]
    truncated: Bool[Tensor, "*batch 1"]


# ...


def point_reset(not_done: Tensor, draw_x: Tensor) -> PointRoot:
    """A fresh episode in every row of the batch.

    Args:
        not_done: bool [*batch, 1], all False; it tells the batch shape and the device.
        draw_x: float32 [*batch], uniform in [0, 1).
    """
    # envs.Point.reset
    x = -1 + 2 * draw_x
    v = torch.zeros(not_done.shape[:-1], dtype=torch.float32, device=not_done.device)
    return PointRoot(x=x, v=v, done=not_done, terminated=not_done.clone(), truncated=not_done.clone())


def point_advance(params: PointParams, x: Tensor, v: Tensor, action: Tensor) -> PointNext:
    """One step of the dynamics: all that the step after it depends on.

    Args:
        params: constructor keywords of the environment.
        x, v: as in `PointRoot`.
        action: float32 [*batch, 1].
    """
    # envs.Point.step
    next_v = torch.clamp(v + action[..., 0] * params.dt, -1.0, 1.0)
    next_x = torch.clamp(x + next_v * params.dt, -10.0, 10.0)
    terminated = (torch.abs(next_x) > 9).unsqueeze(-1)
    return PointNext(
        x=next_x, v=next_v, done=terminated.clone(), terminated=terminated,
        truncated=torch.zeros_like(terminated),
    )


def point_reward(next_x: Tensor) -> Tensor:
    """The reward of a step, for any leading dimensions.

    Args:
        next_x: as in `PointNext`, after the step.

    Returns:
        float32 [*batch, 1].
    """
    # envs.Point.step
    return (-torch.abs(next_x)).unsqueeze(-1)


def point_observe(x: Tensor, v: Tensor) -> Tensor:
    """The observation of a state, for any leading dimensions.

    Args:
        x, v: as in `PointRoot`.

    Returns:
        float32 [*batch, 2].
    """
    # envs.Point.observe
    return torch.stack((x, v), dim=-1)


class Point(GeneratedEnv["PointData", "PointSpecs"]):
    """A point on a line, pushed left and right.

    Keys:
        observation: float32 [*batch, 2] in [[-10, -1], [10, 1]]
        x: float32 [*batch] in [-10, 10]
        v: float32 [*batch] in [-1, 1]
        done, terminated, truncated: bool [*batch, 1]; the episode is over; it ended; it was cut off
        action: float32 [*batch, 1] in [-1, 1]
        ("next", "reward"): float32 [*batch, 1]
    """

    # ...


# ...
