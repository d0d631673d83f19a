# ...


def norm_loss(v: Tensor, value_target: Tensor, value_norm: ValueNorm | None) -> NormLossTerms:
    """The terms of `NormLoss`, one value per sample.

    Args:
        v: float32 [*batch], from `critic_network`.
        value_target: float32 [*batch, 1].
        value_norm: brings values to one scale.
    """
    # losses.NormLoss.let
    near = value_norm.normalize(v.unsqueeze(-1)).squeeze(-1) if value_norm is not None else v
    goal = (
        value_norm.normalize(value_target).squeeze(-1) if value_norm is not None else value_target.squeeze(-1)
    )
    # losses.NormLoss.terms
    loss_critic = distance_loss(near, goal, "l2")
    return NormLossTerms(loss_critic=loss_critic)


class NormLoss(LossModule):
    # ...

    def __init__(
        self, critic_network: nn.Module, *, value_norm: ValueNorm | None = None,
        reduction: Reduction | None = None, use_prioritized_weights: Literal["auto"] | bool = "auto",
        functional: bool = True, device: torch.device | str | int | None = None,
    ) -> None:
        """The value of a state moves towards a target, both on a common scale.

        Args:
            critic_network: writes `value`.
            value_norm: brings values to one scale. Defaults to None.
            reduction: of the samples, "mean", "sum" or "none", which keeps one value per sample. Defaults
                to "mean".
            use_prioritized_weights: weight the samples by their importance: True, False, or "auto", if the
                data hold weights.
            functional: whether the loss takes the parameters of its networks. Defaults to True; otherwise
                they are ordinary children, without targets.
            device: of the buffers of the loss itself. Defaults to None: that of the parameters.

        Raises:
            TypeError: if a network is not a module, or an object lacks a method.
            ValueError: if a keyword has a value that it does not take, or they contradict each other.
        """
        super().__init__(functional=functional)
        self.value_norm = (
            with_methods(value_norm, ValueNorm, "value_norm", type(self).__name__)
            if value_norm is not None
            else None
        )
        self.reduction = reduction
        self.use_prioritized_weights = use_prioritized_weights
        self.convert_to_functional(critic_network, "critic_network", create_target_params=False)
        self._place_buffers(device)

    # ...

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the loss of a batch.

        Raises:
            KeyError: if something that the loss reads is missing.
        """
        keys = self.tensor_keys
        if self.training and self.value_norm is not None:
            self.value_norm.update(self._counted(tensordict, keys.value_target, "value_target"))
        critic_network = self.functional_network("critic_network")
        # losses.NormLoss.let
        v = critic_network.live(tensordict, keys.value).squeeze(-1)
        terms = norm_loss(
            v, self._read_column(tensordict, keys.value_target, "value_target"), value_norm=self.value_norm
        )
        samples = self._samples(tensordict)
        return self._outputs({"loss_critic": samples.reduced(terms.loss_critic)})

    # ...


# ...
