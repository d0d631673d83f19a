# ...


def clock_step(limit: int, time: Tensor, next_truncated: Tensor) -> tuple[Tensor, Tensor]:
    """`time` and `truncated` after a step.

    Args:
        limit: constructor keyword.
        time: int64 [*batch, ...], before the step.
        next_truncated: bool [*batch, ...], so far.
    """
    # transforms.Clock.step
    next_time = time + 1
    next_truncated = next_truncated | (next_time >= limit)
    return next_time, next_truncated


# ...
