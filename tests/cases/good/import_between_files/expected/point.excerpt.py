# ...


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


# ...
