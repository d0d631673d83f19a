# ...


def counter_reset(not_done: Tensor, draw_k: Tensor) -> CounterRoot:
    """A fresh episode in every row of the batch.

    Args:
        not_done: bool [*batch, 1], all False; it tells the batch shape and the device.
        draw_k: int64 [*batch], uniform in 0..2.
    """
    # envs.Counter.reset
    k = draw_k
    return CounterRoot(k=k, done=not_done, terminated=not_done.clone(), truncated=not_done.clone())


def counter_advance(params: CounterParams, k: Tensor, action: Tensor) -> CounterNext:
    """One step of the dynamics: all that the step after it depends on.

    Args:
        params: constructor keywords of the environment.
        k: as in `CounterRoot`.
        action: int64 [*batch].
    """
    # envs.Counter.step
    next_k = k + action
    late = ~(next_k < params.last)
    terminated = late.unsqueeze(-1)
    return CounterNext(
        k=next_k, done=terminated.clone(), terminated=terminated, truncated=torch.zeros_like(terminated)
    )


def counter_reward(k: Tensor) -> Tensor:
    """The reward of a step, for any leading dimensions.

    Args:
        k: as in `CounterRoot`.

    Returns:
        float32 [*batch, 1].
    """
    # envs.Counter.step
    return (
        torch.arange(11, dtype=torch.int64, device=k.device)
        .to(torch.float32)[index_in_range(k, 11)]
        .unsqueeze(-1)
    )


def counter_observe(k: Tensor) -> Tensor:
    """The observation of a state, for any leading dimensions.

    Args:
        k: as in `CounterRoot`.

    Returns:
        int64 [*batch, 11].
    """
    # envs.Counter.observe
    return torch.nn.functional.one_hot(index_in_range(k, 11), 11)


# ...


def board_advance(consts: BoardConsts, pos: Tensor, action: Tensor) -> BoardNext:
    """One step of the dynamics: all that the step after it depends on.

    Args:
        consts: constant tables of the environment.
        pos: as in `BoardRoot`.
        action: int64 [*batch].
    """
    # envs.Board.step
    want = pos + consts.moves[action]
    inside = torch.clamp(want, 0, 3)
    lost = (want < 0).any(dim=-1)
    next_pos = torch.where(consts.walls[inside[..., 0], inside[..., 1]].unsqueeze(-1), pos, inside)
    terminated = lost.unsqueeze(-1)
    return BoardNext(
        pos=next_pos, done=terminated.clone(), terminated=terminated, truncated=torch.zeros_like(terminated)
    )


def board_reward(consts: BoardConsts, pos: Tensor, action: Tensor, next_pos: Tensor) -> Tensor:
    """The reward of a step, for any leading dimensions.

    Args:
        consts: constant tables of the environment.
        pos: as in `BoardRoot`.
        action: int64 [*batch].
        next_pos: as in `BoardNext`, after the step.

    Returns:
        float32 [*batch, 1].
    """
    # envs.Board.step
    want = pos + consts.moves[action]
    lost = (want < 0).any(dim=-1)
    return torch.where(
        lost, -1.0, consts.walls[next_pos[..., 0], next_pos[..., 1]].to(torch.float32)
    ).unsqueeze(-1)


# ...
