# ...


def nested_loss(
    v: Tensor, p: Tensor | None, target: Tensor, old: Tensor | None, *, has_prior_network: bool, near: bool,
    clipped: bool, limit: float | None, scale: float,
) -> NestedLossTerms:
    """The terms of `NestedLoss`, one value per sample.

    Args:
        v: float32 [*batch], from `critic_network`.
        p: float32 [*batch], from `prior_network`; needed where has_prior_network.
        target: float32 [*batch, 1].
        old: float32 [*batch, 1]; needed where near.
        has_prior_network: whether `prior_network` was given.
        near: bool.
        clipped: bool.
        limit: float.
        scale: float.
    """
    # losses.NestedLoss.let
    step: Tensor | None = None
    from_old: Tensor | None = None
    if near:
        old = not_none(old)
        step = v - old.squeeze(-1)
        short = torch.clamp(step, -scale, scale) if clipped else None
        from_old = (not_none(short) if clipped else step) + old.squeeze(-1)
        error = (from_old - target.squeeze(-1)) ** 2
    else:
        error = (v - target.squeeze(-1)) ** 2
    if limit is not None:
        chosen = torch.clamp(error, max=limit)
    else:
        chosen = error
    # losses.NestedLoss.terms
    loss_value = chosen
    # losses.NestedLoss.let
    loss_prior: Tensor | None = None
    if has_prior_network:
        other = v - not_none(p)
        size = torch.abs(other)
        loss_prior = other * v + size
    # losses.NestedLoss.metrics
    with torch.no_grad():
        step_detached: Tensor | None = None
        moved: Tensor | None = None
        if near:
            step = not_none(step)
            step_detached = step.detach()
            moved = (
                torch.abs(not_none(from_old) - not_none(old).squeeze(-1)) + torch.abs(step)
                if clipped
                else None
            )
        far = error > limit if limit is not None else None
    return NestedLossTerms(
        loss_value=loss_value, loss_prior=loss_prior, step=step_detached, moved=moved, far=far
    )


# ...
