# ...


def masked_mean(value: Tensor, marked: Tensor) -> Tensor:
    """Return the mean of what is marked, and 0 where nothing is.

    Args:
        value: float [*batch, time]: of each token.
        marked: bool [*batch, time]: which tokens count.

    Returns:
        float [*batch].
    """
    # functions.masked_mean.let
    count = marked.to(torch.int64).sum(dim=-1)
    # functions.masked_mean.returns
    return torch.where(marked, value, 0.0).sum(dim=-1) / torch.clamp(count, min=1)


def clipped_surrogate(ratio: Tensor, advantage: Tensor, *, epsilon: float = 0.2) -> Tensor:
    """Return the smaller of two gains (Schulman et al., "Proximal Policy Optimization Algorithms", 2017,
    eq. 7).

    Args:
        ratio: float [*batch].
        advantage: float [*batch].
        epsilon: how far the ratio may be from 1 (default 0.2, >= 0).

    Returns:
        float [*batch].
    """
    # functions.clipped_surrogate.let
    near = torch.clamp(ratio, 1 - epsilon, 1 + epsilon)
    # functions.clipped_surrogate.returns
    return torch.minimum(ratio * advantage, near * advantage)


def half_width(box: Tensor) -> Tensor:
    """Return `half_width` of the schema.

    Args:
        box: float [*batch, n, 2].

    Returns:
        float [*batch, n].
    """
    # functions.half_width.returns
    return within(box[..., 1] - box[..., 0]) / 2


def within(x: Tensor) -> Tensor:
    """Return `within` of the schema.

    Args:
        x: float [*batch].

    Returns:
        float [*batch].
    """
    # functions.within.returns
    return torch.clamp(x, 0.0, 10.0)
