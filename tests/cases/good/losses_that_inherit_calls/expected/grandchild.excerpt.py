# ...


def nearest(value_network_now: Tensor, goal: Tensor) -> NearestTerms:
    """The terms of `Nearest`, one value per sample.

    Args:
        value_network_now: float32 [*batch], from `value_network`.
        goal: float32 [*batch, 1].
    """
    # losses.Nearest.let
    error = halved(value_network_now - goal.squeeze(-1))
    # losses.Nearest.terms
    loss = huber(error)
    return NearestTerms(loss=loss)


# ...
