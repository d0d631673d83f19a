# ...


def tokens_loss(
    dist_answered: Tensor, dist_log_prob: Tensor, dist_entropy: Tensor, advantage: Tensor,
    marked: Tensor | None, mask: Tensor | None,
) -> TokensLossTerms:
    """The terms of `TokensLoss`, one value per sample.

    Args:
        dist_answered: bool [*batch], from `model`.
        dist_log_prob: float32 [*batch], from `model`.
        dist_entropy: float32 [*batch], from `model`.
        advantage: float32 [*batch, 1].
        marked: bool [*batch].
        mask: bool [*batch], which samples count in statistics of the batch; None: all.
    """
    # losses.TokensLoss.let
    counts = marked & dist_answered if marked is not None else dist_answered
    # losses.TokensLoss.mask
    counted = combined_mask(counts, mask)
    # losses.TokensLoss.terms
    loss_objective = -dist_log_prob * advantage.squeeze(-1)
    # losses.TokensLoss.metrics
    with torch.no_grad():
        entropy = dist_entropy.detach()
    return TokensLossTerms(mask=counted, loss_objective=loss_objective, entropy=entropy)


class TokensLoss(LossModule):
    # ...

    means_first: ClassVar[Mapping[str, Sequence[int] | None]] = {
        "token_mean": (),
        "prompt_mean": (-1,),
        "none": None,
    }

    # ...

    def __init__(
        self, model: nn.Module, *, aggregation: Literal["token_mean", "prompt_mean", "none"] = "token_mean",
        reduction: Reduction | None = None, use_prioritized_weights: Literal["auto"] | bool = "auto",
        scalar_output_mode: ScalarOutputMode | None = None, functional: bool = False,
        device: torch.device | str | int | None = None,
    ) -> None:
        """Tokens with an advantage become likelier.

        Args:
            model: gives the distribution of `action`.
            aggregation: Literal["token_mean", "prompt_mean", "none"]. Defaults to "token_mean".
            reduction: of the samples, "mean", "sum" or "none", which keeps one value per sample. Defaults
                to "mean".
            use_prioritized_weights: weight the samples by their importance: True, False, or "auto", if the
                data hold weights.
            scalar_output_mode: what becomes of numbers that are one for the batch with the reduction
                "none": "exclude" leaves them out, "non_tensor" returns them as data that are no tensors.
                Defaults to None: as they are.
            functional: whether the loss takes the parameters of its networks. Defaults to False; otherwise
                they are ordinary children, without targets.
            device: of the buffers of the loss itself. Defaults to None: that of the parameters.

        Raises:
            TypeError: if a network is not a module, or a policy gives no distribution.
            ValueError: if a keyword has a value that it does not take, or they contradict each other.
        """
        super().__init__(functional=functional)
        if aggregation not in ("token_mean", "prompt_mean", "none"):
            raise ValueError(
                f"aggregation must be one of 'token_mean', 'prompt_mean', 'none', got {aggregation!r}"
            )
        self.aggregation = aggregation
        self.reduction = reduction
        self.use_prioritized_weights = use_prioritized_weights
        self.scalar_output_mode = scalar_output_mode
        self.convert_to_functional(
            as_policy(model, "model", type(self).__name__), "model", create_target_params=False
        )
        self._place_buffers(device)

    # ...

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the loss of a batch.

        Raises:
            KeyError: if something that the loss reads is missing.
        """
        keys = self.tensor_keys
        model = self.functional_network("model")
        # losses.TokensLoss.let
        dist = model.dist("live", tensordict, samples=1)
        with torch.no_grad():
            dist_answered = dist.answered()
        # losses.TokensLoss.terms
        dist_log_prob = self._log_prob_of(dist, tensordict, keys.action, "action")
        # losses.TokensLoss.metrics
        with torch.no_grad():
            dist_entropy = dist.entropy()
        terms = tokens_loss(
            dist_answered,
            dist_log_prob,
            dist_entropy,
            self._of_samples(
                self._read(tensordict, keys.advantage, "advantage"), dist_answered, (1,), "advantage"
            ),
            self._of_samples(
                self._read_if_there(tensordict, keys.marked, "marked"), dist_answered, (), "marked"
            ),
            self._mask(tensordict),
        )
        samples = self._samples(tensordict)
        return self._outputs(
            {
                "loss_objective": samples.reduced(
                    terms.loss_objective, terms.mask, first=self.means_first[self.aggregation]
                ),
                "entropy": samples.mean(terms.entropy, terms.mask),
            }
        )

    # ...


# ...
