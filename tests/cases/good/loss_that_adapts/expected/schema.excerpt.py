# ...


def adaptive_loss(
    divergence: Tensor, dist_log_prob: Tensor, mask: Tensor | None, *, beta: Tensor, wanted: float
) -> AdaptiveLossTerms:
    """The terms of `AdaptiveLoss`, one value per sample.

    Args:
        divergence: float32 [*batch], from `actor`.
        dist_log_prob: float32 [*batch], from `actor`.
        mask: bool [*batch], which samples count in statistics of the batch; None: all.
        beta: the weight.
        wanted: how far it may go.
    """
    # losses.AdaptiveLoss.terms
    loss = beta * divergence - dist_log_prob
    # losses.AdaptiveLoss.update
    with torch.no_grad():
        next_beta = torch.where(sample_mean(divergence, mask) > wanted, 2 * beta, beta)
    return AdaptiveLossTerms(loss=loss, next_beta=next_beta)


class AdaptiveLoss(LossModule):
    # ...

    def __init__(
        self, actor: nn.Module, *, beta: float = 1.0, wanted: float = 0.1, reduction: Reduction | None = None,
        use_prioritized_weights: Literal["auto"] | bool = "auto", functional: bool = True,
        device: torch.device | str | int | None = None,
    ) -> None:
        """A policy stays near the one that chose the actions, by a weight that adapts itself.

        Args:
            actor: gives the distribution of `action`.
            beta: the weight. Defaults to 1.0, > 0.
            wanted: how far it may go. Defaults to 0.1, > 0.
            reduction: of the samples, "mean", "sum" or "none", which keeps one value per sample. Defaults
                to "mean".
            use_prioritized_weights: weight the samples by their importance: True, False, or "auto", if the
                data hold weights.
            functional: whether the loss takes the parameters of its networks. Defaults to True; otherwise
                they are ordinary children, without targets.
            device: of the buffers of the loss itself. Defaults to None: that of the parameters.

        Raises:
            TypeError: if a network is not a module, or a policy gives no distribution, or something else is
                given for a number.
            ValueError: if a keyword has a value that it does not take, or they contradict each other.
        """
        super().__init__(functional=functional)
        beta = float_param("beta", beta, above=0)
        wanted = float_param("wanted", wanted, above=0)
        self.wanted = wanted
        self.reduction = reduction
        self.use_prioritized_weights = use_prioritized_weights
        self.convert_to_functional(
            as_policy(actor, "actor", type(self).__name__), "actor", create_target_params=False
        )
        add_coefficient(self, "beta", beta, adapted=True)
        self._place_buffers(device)

    @property
    def in_keys(self) -> list[NestedKey]:
        """What the loss reads; what its keywords are called when it is called with tensors."""
        keys = self.tensor_keys
        return [*self._network_in_keys, *self.functional_network("actor").stored_keys, keys.action]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the loss of a batch.

        Raises:
            KeyError: if something that the loss reads is missing.
        """
        keys = self.tensor_keys
        actor = self.functional_network("actor")
        # losses.AdaptiveLoss.let
        dist = actor.dist("live", tensordict)
        actor_stored_now = actor.dist("stored", tensordict)
        divergence = actor_stored_now.kl(dist)
        # losses.AdaptiveLoss.terms
        dist_log_prob = self._log_prob_of(dist, tensordict, keys.action, "action")
        terms = adaptive_loss(
            divergence, dist_log_prob, self._mask(tensordict), beta=self.beta.clone(), wanted=self.wanted
        )
        if self.training:
            adapt(self, "beta", terms.next_beta)
        samples = self._samples(tensordict)
        return self._outputs({"loss": samples.reduced(terms.loss)})

    # ...


# ...
