# ...


class RingParams(NamedTuple):
    """Constructor keywords of `Ring`, which says what they are."""

    gain: float = 0.5
    noisy: bool = True


class RingConsts(NamedTuple):
    """Constant tables of `Ring`."""

    height: Tensor
    """of each cell in m"""
    moves: Tensor
    """int64[3]"""


# ...


def ring_push(params: RingParams, distance: Tensor) -> Tensor:
    """A force that fades with the distance."""
    # envs.Ring.functions
    near = torch.clamp(1 - torch.abs(distance), 0.0, 1.0)
    return params.gain * near


def ring_reset(not_done: Tensor, draw_cell: Tensor) -> RingRoot:
    """A fresh episode in every row of the batch.

    Args:
        not_done: bool [*batch, 1], all False; it tells the batch shape and the device.
        draw_cell: int64 [*batch, 2], uniform in 0..5.
    """
    # envs.Ring.reset
    cell = draw_cell
    shake = torch.zeros((*not_done.shape[:-1], 2), dtype=torch.float32, device=not_done.device)
    return RingRoot(
        cell=cell, shake=shake, done=not_done, terminated=not_done.clone(), truncated=not_done.clone()
    )


def ring_advance(
    params: RingParams, consts: RingConsts, cell: Tensor, action: Tensor, draw_next_shake: Tensor
) -> RingNext:
    """One step of the dynamics: all that the step after it depends on.

    Args:
        params: constructor keywords of the environment.
        consts: constant tables of the environment.
        cell: as in `RingRoot`.
        action: int64 [*batch, 2].
        draw_next_shake: float32 [*batch, 2], standard normal.
    """
    # envs.Ring.step
    next_cell = (cell + consts.moves[action]) % 6
    next_shake = 0.1 * draw_next_shake if params.noisy else torch.zeros_like(draw_next_shake)
    terminated = (consts.height[next_cell] > 2.5).any(dim=-1).unsqueeze(-1)
    return RingNext(
        cell=next_cell, shake=next_shake, done=terminated.clone(), terminated=terminated,
        truncated=torch.zeros_like(terminated),
    )


def ring_reward(params: RingParams, consts: RingConsts, cell: Tensor, next_cell: Tensor) -> Tensor:
    """The reward of a step, for any leading dimensions.

    Args:
        params: constructor keywords of the environment.
        consts: constant tables of the environment.
        cell: as in `RingRoot`.
        next_cell: as in `RingNext`, after the step.

    Returns:
        float32 [*batch, 1].
    """
    # envs.Ring.step
    far = next_cell.to(torch.float32) - cell.to(torch.float32)
    return (consts.height[next_cell] - ring_push(params, far)).sum(dim=-1).unsqueeze(-1)


def ring_observe(consts: RingConsts, cell: Tensor, shake: Tensor) -> Tensor:
    """The observation of a state, for any leading dimensions.

    Args:
        consts: constant tables of the environment.
        cell, shake: as in `RingRoot`.

    Returns:
        float32 [*batch, 2, 2].
    """
    # envs.Ring.observe
    return torch.stack((consts.height[cell] + shake, cell.to(torch.float32)), dim=-1)


class Ring(GeneratedEnv["RingData", "RingSpecs"]):
    # ...

    def __init__(
        self, *, gain: float = 0.5, noisy: bool = True, batch_size: Sequence[int] = (),
        device: DEVICE_TYPING | None = None,
    ) -> None:
        """Walkers on a ring of cells that push each other.

        Args:
            gain: how much of the push arrives (default 0.5, >= 0, <= 1)
            noisy: whether a walker is shaken (default True)
            batch_size: how many instances run side by side, any shape.
            device: where the tensors live.
        """
        super().__init__(batch_size=batch_size, device=device)
        self.params = RingParams(
            gain=self._float("gain", gain, at_least=0, at_most=1), noisy=self._bool("noisy", noisy)
        )
        self._build()

    # ...


# ...
