# ...


from generated.point import Point, PointParams, point_advance, point_observe, point_reset, point_reward


# ...


def timed_reset(not_done: Tensor, draw_x: Tensor) -> TimedRoot:
    """A fresh episode in every row of the batch."""
    # envs.Point
    base = point_reset(not_done, draw_x)
    # chains.Timed.transforms[0]
    time = torch.zeros_like(not_done, dtype=torch.int64)
    return TimedRoot(
        x=base.x, v=base.v, done=base.done, terminated=base.terminated, truncated=base.truncated, time=time
    )


def timed_advance(params: PointParams, x: Tensor, v: Tensor, time: Tensor, action: Tensor) -> TimedNext:
    """One step: all that the step after it depends on."""
    # envs.Point
    base = point_advance(params, x, v, action)
    # chains.Timed.transforms[0]
    next_time = time + 1
    next_truncated = base.truncated | (next_time >= 20)
    return TimedNext(
        x=base.x, v=base.v, done=base.done | next_truncated, terminated=base.terminated,
        truncated=next_truncated, time=next_time,
    )


def timed_reward(next_x: Tensor) -> Tensor:
    """The reward of a step, for any leading dimensions."""
    # envs.Point
    return point_reward(next_x)


# ...
