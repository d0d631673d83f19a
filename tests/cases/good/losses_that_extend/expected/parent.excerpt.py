# ...


def value_loss(
    q: Tensor, next_value: Tensor, value_estimate: Callable[[Tensor], Tensor], *,
    loss_function: Literal["l1", "l2"],
) -> ValueLossTerms:
    """The terms of `ValueLoss`, one value per sample.

    Args:
        q: float32 [*batch], from `value_network`.
        next_value: float32 [*batch], from `value_network`.
        value_estimate: from the value of the next state, [*batch], to the target, [*batch].
        loss_function: how far.
    """
    # losses.ValueLoss.let
    with torch.no_grad():
        goal = value_estimate(next_value).detach()
        error = q - goal
    # losses.ValueLoss.terms
    loss = distance_loss(q, goal, loss_function)
    # losses.ValueLoss.metrics
    with torch.no_grad():
        distance_to_goal = torch.abs(error)
    # losses.ValueLoss.writes
    with torch.no_grad():
        priority = (error**2).unsqueeze(-1)
    return ValueLossTerms(loss=loss, distance_to_goal=distance_to_goal, priority=priority)


# ...
