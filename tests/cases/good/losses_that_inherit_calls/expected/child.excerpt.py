# ...


def nearer(value_network_now: Tensor, goal: Tensor) -> NearerTerms:
    """The terms of `Nearer`, one value per sample.

    Args:
        value_network_now: float32 [*batch], from `value_network`.
        goal: float32 [*batch, 1].
    """
    # losses.Nearer.let
    error = halved(value_network_now - goal.squeeze(-1))
    # losses.Nearer.terms
    loss = huber(error)
    # losses.Nearer.metrics
    with torch.no_grad():
        same = other(error)
    return NearerTerms(loss=loss, same=same)


# ...
