# ...


def scaled_loss(
    q: Tensor, next_value: Tensor, value_estimate: Callable[[Tensor], Tensor], *,
    loss_function: Literal["l1", "l2"], scale: float,
) -> ScaledLossTerms:
    """The terms of `ScaledLoss`, one value per sample.

    Args:
        q: float32 [*batch], from `value_network`.
        next_value: float32 [*batch], from `value_network`.
        value_estimate: from the value of the next state, [*batch], to the target, [*batch].
        loss_function: how far.
        scale: float.
    """
    # losses.ScaledLoss.let
    factor = scale * scale
    with torch.no_grad():
        goal = value_estimate(factor * next_value).detach()
    gap = goal - q
    # losses.ScaledLoss.terms
    loss = distance_loss(q, goal, loss_function) + gap
    return ScaledLossTerms(loss=loss)


class ScaledLoss(ValueLoss):
    # ...

    def __init__(
        self, value_network: nn.Module, *, loss_function: Literal["l1", "l2"] = "l1", scale: float = 2.0,
        reduction: Reduction | None = None, use_prioritized_weights: Literal["auto"] | bool = "auto",
        device: torch.device | str | int | None = None,
    ) -> None:
        """The loss `ScaledLoss`.

        Args:
            value_network: writes `state_value`.
            loss_function: how far. Defaults to "l1".
            scale: float. Defaults to 2.0.
            reduction: of the samples, "mean", "sum" or "none", which keeps one value per sample. Defaults
                to "mean".
            use_prioritized_weights: weight the samples by their importance: True, False, or "auto", if the
                data hold weights.
            device: of the buffers of the loss itself. Defaults to None: that of the parameters.

        Raises:
            TypeError: if a network is not a module, or something else is given for a number.
            ValueError: if a keyword has a value that it does not take, or they contradict each other.
        """
        LossModule.__init__(self)
        lag = True
        scale = float_param("scale", scale)
        if loss_function not in ("l1", "l2"):
            raise ValueError(f"loss_function must be one of 'l1', 'l2', got {loss_function!r}")
        self.loss_function = loss_function
        self.lag = lag
        self.scale = scale
        self.reduction = reduction
        self.use_prioritized_weights = use_prioritized_weights
        self.convert_to_functional(value_network, "value_network", create_target_params=lag)
        self._place_buffers(device)
        self.make_value_estimator()

    # ...


# ...
