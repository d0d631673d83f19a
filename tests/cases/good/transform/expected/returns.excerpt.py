# ...


class DiscountedKeys(NamedTuple):
    """What one repetition reads and writes."""

    reward: NestedKey
    weight: NestedKey
    """the weight of the next reward"""
    total: NestedKey


def discounted_reset(weight: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
    """`weight` and `total` at the start of an episode.

    Args:
        weight, total: floats [*batch, ...], read for its shape and dtype only.
    """
    # transforms.Discounted.reset
    weight = torch.ones_like(weight)
    total = torch.zeros_like(total)
    return weight, total


def discounted_step(
    gamma: float, weight: Tensor, total: Tensor, next_reward: Tensor
) -> tuple[Tensor, Tensor]:
    """`weight` and `total` after a step.

    Args:
        gamma: the discount factor.
        weight, total: floats [*batch, ...], before the step.
        next_reward: floats [*batch, ...], after the step.
    """
    # transforms.Discounted.step
    next_weight = weight * gamma
    next_total = total + weight * next_reward
    return next_weight, next_total


# ...


def squashed_map(observation: Tensor) -> Tensor:
    """`squashed` at any moment.

    Args:
        observation: floats [*batch, ...].
    """
    # transforms.Squashed.map
    return torch.tanh(observation)


class Squashed(GeneratedTransform[SquashedKeys]):
    # ...

    def __init__(
        self, in_keys: Sequence[NestedKey] | None = None, out_keys: Sequence[NestedKey] | None = None
    ) -> None:
        """Observations between -1 and 1.

        Args:
            in_keys: the keys that it works on (default: every observation, of those with float32 or
                float64).
            out_keys: the keys of `squashed`, one for each input (default: `{}_squashed`, after the input's
                key).
        """
        super().__init__(in_keys=in_keys, out_keys=out_keys)

    # ...
