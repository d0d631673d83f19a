# ...


class DiceParams(NamedTuple):
    """Constructor keywords of `Dice`, which says what they are."""

    sigmoid: float = 0.5


class DiceConsts(NamedTuple):
    """Constant tables of `Dice`."""

    outer: Tensor
    """float32[3]"""


# ...


def dice_constants(consts: DiceConsts) -> DiceConstants:
    """What follows from constant tables alone.

    Args:
        consts: constant tables of the environment.
    """
    # envs.Dice.step
    reward_constant = consts.outer.mean(dim=-1)
    return DiceConstants(reward_constant=reward_constant)


# ...


def dice_softmax(x: Tensor, sort: Tensor) -> Tensor:
    """`softmax` of the schema."""
    # envs.Dice.functions
    total = torch.abs(x).sum(dim=-1) + sort
    return x / (1 + total).unsqueeze(-1)


def dice_reset(not_done: Tensor, draw_roll: Tensor, draw_std: Tensor, draw_std_2: Tensor) -> DiceRoot:
    """A fresh episode in every row of the batch.

    Args:
        not_done: bool [*batch, 1], all False; it tells the batch shape and the device.
        draw_roll: int64 [*batch, 3], uniform in 1..6.
        draw_std, draw_std_2: float32 [*batch], uniform in [0, 1).
    """
    # envs.Dice.reset
    roll = draw_roll
    std = -torch.log1p(-draw_std) / (1 + -torch.log1p(-draw_std_2))
    return DiceRoot(
        roll=roll, std=std, done=not_done, terminated=not_done.clone(), truncated=not_done.clone()
    )


def dice_advance(params: DiceParams, roll: Tensor, std: Tensor, done: Tensor, draw_where: Tensor) -> DiceNext:
    """One step of the dynamics: all that the step after it depends on.

    Args:
        params: constructor keywords of the environment.
        roll, std, done: as in `DiceRoot`.
        draw_where: int64 [*batch, 3], uniform in 1..6.
    """
    # envs.Dice.step
    where = draw_where
    next_roll = torch.maximum(roll, where)
    next_std = torch.clamp(std + params.sigmoid, 0.0, 10.0)
    return DiceNext(
        roll=next_roll, std=next_std, done=torch.zeros_like(done), terminated=torch.zeros_like(done),
        truncated=torch.zeros_like(done),
    )


def dice_reward(constants: DiceConstants, next_roll: Tensor) -> Tensor:
    """The reward of a step, for any leading dimensions.

    Args:
        constants: what is computed of constant tables alone.
        next_roll: as in `DiceNext`, after the step.

    Returns:
        float32 [*batch, 1].
    """
    # envs.Dice.step
    return (next_roll.to(torch.float32).mean(dim=-1) + constants.reward_constant).unsqueeze(-1)


# ...


def dice_observe(roll: Tensor, std: Tensor) -> DiceObservation:
    """The observation of a state, for any leading dimensions.

    Args:
        roll, std: as in `DiceRoot`.

    Returns:
        permutation: float32 [*batch, 3].
        var: float32 [*batch].
    """
    # envs.Dice.observe
    permutation = dice_softmax(roll.to(torch.float32), std)
    var = std * 2
    return DiceObservation(permutation=permutation, var=var)


class Dice(GeneratedEnv["DiceData", "DiceSpecs"]):
    # ...

    def __init__(
        self, *, sigmoid: float = 0.5, batch_size: Sequence[int] = (), device: DEVICE_TYPING | None = None
    ) -> None:
        """Keys, parameters, sizes, constants, functions and values of its own that are called like built-in
        functions.

        Args:
            sigmoid: float (default 0.5)
            batch_size: how many instances run side by side, any shape.
            device: where the tensors live.
        """
        super().__init__(batch_size=batch_size, device=device)
        self.params = DiceParams(sigmoid=self._float("sigmoid", sigmoid))
        self._build()

    # ...


# ...
