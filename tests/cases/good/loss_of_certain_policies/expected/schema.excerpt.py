# ...


def imitation_loss(
    dist_log_prob: Tensor | None, dist_mode: Tensor | None, action: Tensor, *, random_actor_network: bool,
    weight: float | None,
) -> ImitationLossTerms:
    """The terms of `ImitationLoss`, one value per sample.

    Args:
        dist_log_prob: float32 [*batch], from `actor_network`; needed where random_actor_network.
        dist_mode: float32 [*batch, a], from `actor_network`; needed where not random_actor_network.
        action: float32 [*batch, a].
        random_actor_network: whether `actor_network` gives a distribution.
        weight: float.
    """
    # losses.ImitationLoss.terms
    loss = (
        -not_none(dist_log_prob) if random_actor_network else distance_loss(not_none(dist_mode), action, "l2")
    )
    loss_size = (
        weight * (not_none(dist_mode) ** 2).sum(dim=-1)
        if weight is not None and not random_actor_network
        else None
    )
    return ImitationLossTerms(loss=loss, loss_size=loss_size)


class ImitationLoss(LossModule):
    # ...

    def __init__(
        self, actor_network: nn.Module, *, weight: float | None = None, reduction: Reduction | None = None,
        use_prioritized_weights: Literal["auto"] | bool = "auto", functional: bool = True,
        device: torch.device | str | int | None = None,
    ) -> None:
        """Actions in the data become likely, or near.

        Args:
            actor_network: gives the distribution of `action`.
            weight: float | None. Defaults to None, > 0.
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
        if weight is not None:
            weight = float_param("weight", weight, above=0)
        self.weight = weight
        self.reduction = reduction
        self.use_prioritized_weights = use_prioritized_weights
        self.random_actor_network = is_random_policy(actor_network)
        self.convert_to_functional(actor_network, "actor_network", create_target_params=False)
        self._place_buffers(device)
        self.reset_out_keys()

    # ...

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the loss of a batch.

        Raises:
            KeyError: if something that the loss reads is missing.
        """
        keys = self.tensor_keys
        actor_network = self.functional_network("actor_network")
        # losses.ImitationLoss.let
        dist = actor_network.dist("live", tensordict, plain=keys.action)
        # losses.ImitationLoss.terms
        dist_log_prob = (
            self._log_prob_of(dist, tensordict, keys.action, "action") if self.random_actor_network else None
        )
        dist_mode = dist.mode() if not self.random_actor_network else None
        terms = imitation_loss(
            dist_log_prob, dist_mode, self._read_without_gradient(tensordict, keys.action, "action"),
            random_actor_network=self.random_actor_network, weight=self.weight,
        )
        samples = self._samples(tensordict)
        outputs = {
            "loss": samples.reduced(terms.loss),
        }
        if terms.loss_size is not None:
            outputs["loss_size"] = samples.reduced(terms.loss_size)
        return self._outputs(outputs)

    # ...


# ...
