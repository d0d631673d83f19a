# ...


def tempered_loss(
    critic_now: Tensor, reward: Tensor, *, log_alpha: Tensor, offset: Tensor, free: Tensor
) -> TemperedLossTerms:
    """The terms of `TemperedLoss`, one value per sample.

    Args:
        critic_now: float32 [*batch], from `critic`.
        reward: float32 [*batch, 1].
        log_alpha: float32 []; logarithm of the temperature.
        offset: float32 [].
        free: float32 [].
    """
    # losses.TemperedLoss.let
    alpha = torch.exp(log_alpha).detach()
    error = reward.squeeze(-1) - critic_now
    # losses.TemperedLoss.terms
    loss_critic = alpha * error**2
    loss_alpha = -log_alpha * error.detach() + offset * error.detach() + free
    return TemperedLossTerms(loss_critic=loss_critic, loss_alpha=loss_alpha, alpha=alpha)


class TemperedLoss(LossModule):
    # ...

    def __init__(
        self, critic: nn.Module, *, alpha_init: float = 1.0, max_alpha: float = 2.0,
        fixed_alpha: bool = False, reduction: Reduction | None = None,
        use_prioritized_weights: Literal["auto"] | bool = "auto",
        scalar_output_mode: ScalarOutputMode | None = None, functional: bool = True,
        device: torch.device | str | int | None = None,
    ) -> None:
        """The loss `TemperedLoss`.

        Args:
            critic: writes `state_value`.
            alpha_init: float. Defaults to 1.0, > 0.
            max_alpha: float. Defaults to 2.0, > 0.
            fixed_alpha: bool. Defaults to False.
            reduction: of the samples, "mean", "sum" or "none", which keeps one value per sample. Defaults
                to "mean".
            use_prioritized_weights: weight the samples by their importance: True, False, or "auto", if the
                data hold weights.
            scalar_output_mode: what becomes of numbers that are one for the batch with the reduction
                "none": "exclude" leaves them out, "non_tensor" returns them as data that are no tensors.
                Defaults to None: as they are.
            functional: whether the loss takes the parameters of its networks. Defaults to True; otherwise
                they are ordinary children, without targets.
            device: of the buffers of the loss itself. Defaults to None: that of the parameters.

        Raises:
            TypeError: if a network is not a module, or something else is given for a number.
            ValueError: if a keyword has a value that it does not take, or they contradict each other.
        """
        super().__init__(functional=functional)
        alpha_init = float_param("alpha_init", alpha_init, above=0)
        max_alpha = float_param("max_alpha", max_alpha, above=0)
        self.alpha_init = alpha_init
        self.max_alpha = max_alpha
        self.fixed_alpha = fixed_alpha
        self.reduction = reduction
        self.use_prioritized_weights = use_prioritized_weights
        self.scalar_output_mode = scalar_output_mode
        self.convert_to_functional(critic, "critic", create_target_params=False)
        add_learnable(self, "log_alpha", math.log(alpha_init), high=math.log(max_alpha), fixed=fixed_alpha)
        add_learnable(self, "offset", 0.5, low=0, high=1)
        add_learnable(self, "free", -1)
        self._place_buffers(device)

    # ...

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the loss of a batch.

        Raises:
            KeyError: if something that the loss reads is missing.
        """
        keys = self.tensor_keys
        next_tensordict = self._next(tensordict)
        critic = self.functional_network("critic")
        # losses.TemperedLoss.let
        critic_now = critic.live(tensordict, keys.state_value).squeeze(-1)
        terms = tempered_loss(
            critic_now, self._read_signal(next_tensordict, keys.reward, "reward"),
            log_alpha=moved_between(self.log_alpha, self.min_log_alpha, self.max_log_alpha),
            offset=read_between(self.offset, self.min_offset, self.max_offset), free=self.free,
        )
        samples = self._samples(tensordict)
        return self._outputs(
            {
                "loss_critic": samples.reduced(terms.loss_critic),
                "loss_alpha": samples.reduced(terms.loss_alpha),
                "alpha": terms.alpha,
            }
        )

    # ...


# ...
