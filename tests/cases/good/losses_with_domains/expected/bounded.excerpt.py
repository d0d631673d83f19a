# ...


def bounded_loss(
    actor_now: Tensor, value_frozen_now_of_action: Callable[[Tensor], Tensor], reward: Tensor, *,
    weight: Tensor, target: Tensor, rest: Tensor, min_action: Tensor, max_action: Tensor,
) -> BoundedLossTerms:
    """The terms of `BoundedLoss`, one value per sample.

    Args:
        actor_now: float32 [*batch, a], from `actor`.
        value_frozen_now_of_action: `action` to float32 [*batch], from `value`.
        reward: float32 [*batch, 1].
        weight: float.
        target: what is aimed at.
        rest: float.
        min_action: float32 [a].
        max_action: float32 [a].
    """
    # losses.BoundedLoss.let
    near = torch.clamp(actor_now, min_action, max_action)
    error = reward.squeeze(-1) - value_frozen_now_of_action(near)
    # losses.BoundedLoss.terms
    loss = weight * error**2 + target + rest
    return BoundedLossTerms(loss=loss)


class BoundedLoss(LossModule):
    # ...

    def __init__(
        self, actor: nn.Module, value: nn.Module, *, action_spec: TensorSpec | None = None,
        bounds: tuple[float | Tensor, float | Tensor] | None = None, weight: float = 2.0,
        target: float | Literal["auto"] = "auto", num_actions: int = 4,
        rest: float | Literal["auto"] = "auto", reduction: Reduction | None = None,
        use_prioritized_weights: Literal["auto"] | bool = "auto", functional: bool = True,
        device: torch.device | str | int | None = None,
    ) -> None:
        """The loss `BoundedLoss`.

        Args:
            actor: writes `action`.
            value: writes `state_action_value`.
            action_spec: the spec of `action`, or a composite that holds it.
            bounds: the lowest and the highest value of `action`, instead of its spec.
            weight: float. Defaults to 2.0.
            target: what is aimed at. Defaults to "auto", which is -dim(action).
            num_actions: int. Defaults to 4, >= 2.
            rest: float. Defaults to "auto", which is math.log(num_actions).
            reduction: of the samples, "mean", "sum" or "none", which keeps one value per sample. Defaults
                to "mean".
            use_prioritized_weights: weight the samples by their importance: True, False, or "auto", if the
                data hold weights.
            functional: whether the loss takes the parameters of its networks. Defaults to True; otherwise
                they are ordinary children, without targets.
            device: of the buffers of the loss itself. Defaults to None: that of the parameters.

        Raises:
            TypeError: if a network is not a module, or something else is given for a number.
            ValueError: if a keyword has a value that it does not take, or they contradict each other.
        """
        super().__init__(functional=functional)
        weight = float_param("weight", weight)
        if not isinstance(target, str):
            target = float_param("target", target)
        num_actions = int_param("num_actions", num_actions, at_least=2)
        if not isinstance(rest, str):
            rest = float_param("rest", rest)
        self.num_actions = num_actions
        self.reduction = reduction
        self.use_prioritized_weights = use_prioritized_weights
        self.convert_to_functional(actor, "actor", create_target_params=False)
        self.convert_to_functional(value, "value", create_target_params=False)
        self._action_spec = action_spec
        add_bounds(self, "action", self.tensor_keys.action, action_spec=action_spec, bounds=bounds)
        add_coefficient(self, "weight", weight)
        settle(self, "_target", target, self._auto_target)
        add_coefficient(self, "rest_buffer", math.log(num_actions) if rest == "auto" else rest)
        self._place_buffers(device)

    def _auto_target(self) -> float:
        return -action_size(self, "action", self.tensor_keys.action, self._action_spec, self.actor)

    @property
    def target(self) -> Tensor:
        """The buffer `_target`; "auto" stands for -dim(action).

        Raises:
            RuntimeError: if that is wanted, and nobody says what is needed of the spec.
        """
        return settled(self, "_target", self._auto_target)

    # ...


# ...
