# ...


class MaskedLossTerms(NamedTuple):
    """What the loss is made of, one value per sample."""

    loss_model: Tensor
    """[*batch], before the reduction"""
    loss_outliers: Tensor | None
    """[*batch], before the reduction; None unless coeff"""
    mask: Tensor
    """bool [*batch], which samples count"""
    loss_outliers_mask: Tensor | None
    """bool [*batch], which samples count for it"""
    largest: Tensor
    """to be logged"""
    counted: Tensor
    """to be logged"""
    effective: Tensor
    """to be logged"""
    furthest: Tensor
    """to be logged"""
    error: Tensor
    """to be logged"""


def masked_loss(
    model_now: Tensor, target: Tensor, log_ratio: Tensor, mask: Tensor | None, *, coeff: float, limit: float
) -> MaskedLossTerms:
    """The terms of `MaskedLoss`, one value per sample.

    Args:
        model_now: float32 [*batch], from `model`.
        target: float32 [*batch, 1].
        log_ratio: float32 [*batch].
        mask: bool [*batch], which samples count in statistics of the batch; None: all.
        coeff: float.
        limit: float.
    """
    # losses.MaskedLoss.let
    finite = torch.isfinite(log_ratio)
    # losses.MaskedLoss.mask
    counted = combined_mask(finite & (torch.abs(log_ratio) < limit), mask)
    # losses.MaskedLoss.let
    error = distance_loss(model_now, target.squeeze(-1), "l2")
    spread = sample_std(target.squeeze(-1), counted)
    # losses.MaskedLoss.terms
    loss_model = error / spread
    loss_outliers_mask: Tensor | None = None
    loss_outliers: Tensor | None = None
    if coeff:
        loss_outliers_mask = combined_mask(error > sample_mean(error.detach(), counted), counted)
        loss_outliers = error
    # losses.MaskedLoss.metrics
    with torch.no_grad():
        largest = sample_max(error, counted)
        counted_2 = sample_count(target.squeeze(-1), counted)
        effective = sample_effective_fraction(log_ratio, counted)
        furthest = sample_max(sample_standardized(target.squeeze(-1), counted), counted)
        error_detached = error.detach()
    return MaskedLossTerms(
        mask=counted, loss_model=loss_model, loss_outliers=loss_outliers,
        loss_outliers_mask=loss_outliers_mask, largest=largest, counted=counted_2, effective=effective,
        furthest=furthest, error=error_detached,
    )


class MaskedLoss(LossModule):
    # ...

    def _mask(self, tensordict: TensorDictBase) -> Tensor | None:
        mask = super()._mask(tensordict)
        pad_mask = self._read_if_there(tensordict, self.tensor_keys.pad_mask, "pad_mask")
        if pad_mask is not None:
            mask = combined_mask(~pad_mask, mask)
        return mask

    # ...

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the loss of a batch.

        Raises:
            KeyError: if something that the loss reads is missing.
        """
        keys = self.tensor_keys
        model = self.functional_network("model")
        # losses.MaskedLoss.let
        model_now = model.live(tensordict, keys.prediction).squeeze(-1)
        terms = masked_loss(
            model_now,
            self._of_samples(self._read(tensordict, keys.target, "target"), model_now, (1,), "target"),
            self._of_samples(self._read(tensordict, keys.log_ratio, "log_ratio"), model_now, (), "log_ratio"),
            self._mask(tensordict), coeff=self.coeff, limit=self.limit,
        )
        samples = self._samples(tensordict)
        outputs = {
            "loss_model": samples.reduced(terms.loss_model, terms.mask),
            "largest": terms.largest,
            "counted": terms.counted,
            "effective": terms.effective,
            "furthest": terms.furthest,
            "error": samples.mean(terms.error, terms.mask),
        }
        if terms.loss_outliers is not None:
            outputs["loss_outliers"] = samples.reduced(terms.loss_outliers, terms.loss_outliers_mask)
        return self._outputs(outputs)

    # ...


# ...
