# ...


def bonus_loss(each: Tensor, *, weight: Tensor) -> BonusLossTerms:
    """The terms of `BonusLoss`, one value per sample.

    Args:
        each: float32 [*batch, n_parts], from `actor_network`.
        weight: a number, or one of each part
    """
    # losses.BonusLoss.terms
    loss_bonus = -(weight * each).sum(dim=-1)
    # losses.BonusLoss.metrics
    with torch.no_grad():
        entropy = each.sum(dim=-1)
        largest = each.amax(dim=-1)
    return BonusLossTerms(loss_bonus=loss_bonus, entropy=entropy, largest=largest)


class BonusLoss(LossModule):
    # ...

    def __init__(
        self, actor_network: nn.Module, *, weight: PartWeights | float = 0.1, samples: int = 1,
        reduction: Reduction | None = None, use_prioritized_weights: Literal["auto"] | bool = "auto",
        scalar_output_mode: ScalarOutputMode | None = None, functional: bool = True,
        device: torch.device | str | int | None = None,
    ) -> None:
        """The entropy of each part of an action, weighed by its own number.

        Args:
            actor_network: the policy
            weight: a number, or one of each part. Defaults to 0.1, >= 0.
            samples: how many draws estimate an entropy. Defaults to 1, >= 1.
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
            TypeError: if a network is not a module, or a policy gives no distribution, or something else is
                given for a number.
            ValueError: if a keyword has a value that it does not take, or they contradict each other.
        """
        super().__init__(functional=functional)
        weight = part_weights("weight", weight, at_least=0)
        samples = int_param("samples", samples, at_least=1)
        self.samples = samples
        self.reduction = reduction
        self.use_prioritized_weights = use_prioritized_weights
        self.scalar_output_mode = scalar_output_mode
        self.convert_to_functional(
            as_policy(actor_network, "actor_network", type(self).__name__),
            "actor_network",
            create_target_params=False,
        )
        add_part_weights(self, "weight", weight)
        self._place_buffers(device)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the loss of a batch.

        Raises:
            KeyError: if something that the loss reads is missing.
        """
        actor_network = self.functional_network("actor_network")
        # losses.BonusLoss.let
        actor_network_now = actor_network.dist("live", tensordict)
        each = actor_network_now.entropies(self.samples, parts=parts_of(self, "weight"))
        terms = bonus_loss(each, weight=self.weight)
        samples = self._samples(tensordict)
        return self._outputs(
            {
                "loss_bonus": samples.reduced(terms.loss_bonus),
                "entropy": samples.mean(terms.entropy),
                "largest": samples.mean(terms.largest),
            }
        )

    # ...


# ...
