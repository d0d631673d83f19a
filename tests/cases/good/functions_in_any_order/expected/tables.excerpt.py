# ...


class SlopeConsts(NamedTuple):
    """Constant tables of `Slope`."""

    heights: Tensor
    """float32[3]"""
    moves: Tensor
    """int64[3]"""


# ...


def slope_slope(params: SlopeParams, consts: SlopeConsts, x: Tensor, i: Tensor) -> Tensor:
    """`slope` of the schema."""
    # envs.Slope.functions
    return slope_pulled(params, consts, x) + consts.heights[torch.clamp(i, 0, 2)]


def slope_pulled(params: SlopeParams, consts: SlopeConsts, x: Tensor) -> Tensor:
    """`pulled` of the schema."""
    # envs.Slope.functions
    y = params.gain * x
    return slope_level(params, consts) - y


def slope_level(params: SlopeParams, consts: SlopeConsts) -> Tensor:
    """`level` of the schema."""
    # envs.Slope.functions
    return consts.heights.sum(dim=-1) * params.dt


def slope_row(params: SlopeParams) -> Tensor:
    """`row` of the schema."""
    # envs.Slope.functions
    return torch.tensor((params.gain, params.dt), dtype=torch.float32).expand(2).clone()


def slope_still(x: Tensor) -> Tensor:
    """`still` of the schema."""
    # envs.Slope.functions
    return torch.zeros_like(x)


def slope_reset(
    params: SlopeParams, consts: SlopeConsts, not_done: Tensor, draw_x: Tensor, draw_y: Tensor, draw_i: Tensor
) -> SlopeRoot:
    """A fresh episode in every row of the batch.

    Args:
        params: constructor keywords of the environment.
        consts: constant tables of the environment.
        not_done: bool [*batch, 1], all False; it tells the batch shape and the device.
        draw_x: float32 [*batch], uniform in [0, 1).
        draw_y: float32 [*batch], standard normal.
        draw_i: int64 [*batch], uniform in 0..2.
    """
    # envs.Slope.reset
    x = -1 + 2 * draw_x + slope_level(params, consts)
    y = draw_y
    i = draw_i
    return SlopeRoot(x=x, y=y, i=i, done=not_done, terminated=not_done.clone(), truncated=not_done.clone())


def slope_advance(
    params: SlopeParams, consts: SlopeConsts, x: Tensor, y: Tensor, i: Tensor, done: Tensor, action: Tensor
) -> SlopeNext:
    """One step of the dynamics: all that the step after it depends on.

    Args:
        params: constructor keywords of the environment.
        consts: constant tables of the environment.
        x, y, i, done: as in `SlopeRoot`.
        action: int64 [*batch].
    """
    # envs.Slope.step
    next_i = torch.clamp(i + consts.moves[action], 0, 2)
    next_x = torch.clamp(rk4(partial(slope_slope, params, consts), x, params.dt, i), -10.0, 10.0)
    next_y = torch.clamp(euler(slope_still, y, params.dt), -10.0, 10.0)
    return SlopeNext(
        x=next_x, y=next_y, i=next_i, done=torch.zeros_like(done), terminated=torch.zeros_like(done),
        truncated=torch.zeros_like(done),
    )


def slope_reward(params: SlopeParams, consts: SlopeConsts, next_x: Tensor) -> Tensor:
    """The reward of a step, for any leading dimensions.

    Args:
        params: constructor keywords of the environment.
        consts: constant tables of the environment.
        next_x: as in `SlopeNext`, after the step.

    Returns:
        float32 [*batch, 1].
    """
    # envs.Slope.step
    return slope_pulled(params, consts, next_x).unsqueeze(-1)


def slope_observe(params: SlopeParams, x: Tensor) -> Tensor:
    """The observation of a state, for any leading dimensions.

    Args:
        params: constructor keywords of the environment.
        x: as in `SlopeRoot`.

    Returns:
        float32 [*batch, 2].
    """
    # envs.Slope.observe
    return slope_row(params).to(x.device) * x.unsqueeze(-1)


# ...
