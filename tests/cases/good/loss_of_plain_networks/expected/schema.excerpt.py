# ...


def model_model(
    model_now: Tensor, model_next: Tensor, features_frozen_now_of_observation: Callable[[Tensor], Tensor],
    kept: Tensor, observation: Tensor, mask: Tensor | None,
) -> ModelModelTerms:
    """`loss_model` of `ModelLoss`, one value per sample.

    Args:
        model_now: float32 [*batch, k], from `model`.
        model_next: float32 [*batch, k], from `model`.
        features_frozen_now_of_observation: `observation` to float32 [*batch, k], from `features`.
        kept: bool [*batch], drawn.
        observation: float32 [*batch, n].
        mask: bool [*batch], which samples count in statistics of the batch; None: all.
    """
    # losses.ModelLoss.let
    predicted = model_now + model_next
    wanted = features_frozen_now_of_observation(2 * observation)
    # losses.ModelLoss.terms
    loss_model_mask = combined_mask(kept, mask)
    loss_model = ((predicted - wanted) ** 2).sum(dim=-1)
    return ModelModelTerms(loss_model=loss_model, loss_model_mask=loss_model_mask)


# ...


def model_reward(reward_model_now: Tensor, fixed_frozen_now: Tensor, reward: Tensor) -> ModelRewardTerms:
    """`loss_reward` of `ModelLoss`, one value per sample.

    Args:
        reward_model_now: float32 [*batch], from `reward_model`.
        fixed_frozen_now: float32 [*batch], from `fixed`.
        reward: float32 [*batch, 1].
    """
    # losses.ModelLoss.terms
    loss_reward = (reward_model_now - reward.squeeze(-1) + fixed_frozen_now) ** 2
    return ModelRewardTerms(loss_reward=loss_reward)


class ModelLoss(LossModule):
    # ...

    def __init__(
        self, model: nn.Module, features: nn.Module, reward_model: nn.Module, fixed: nn.Module, *,
        fraction: float = 0.5, reduction: Reduction | None = None,
        use_prioritized_weights: Literal["auto"] | bool = "auto", functional: bool = True,
        device: torch.device | str | int | None = None,
    ) -> None:
        """A network learns what follows from an action, in the features of another one.

        Args:
            model: gives `after`.
            features: gives `now`.
            reward_model: gives `guess`.
            fixed: writes `value`.
            fraction: float. Defaults to 0.5, >= 0, <= 1.
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
        fraction = float_param("fraction", fraction, at_least=0, at_most=1)
        self.fraction = fraction
        self.reduction = reduction
        self.use_prioritized_weights = use_prioritized_weights
        self._keep_module("model", model)
        self._keep_module("features", features)
        self._keep_module("reward_model", reward_model)
        self.convert_to_functional(fixed, "fixed", create_target_params=False)
        self._stop_training("features")
        self._stop_training("fixed")
        self._place_buffers(device)

    @property
    def in_keys(self) -> list[NestedKey]:
        """What the loss reads; what its keywords are called when it is called with tensors."""
        keys = self.tensor_keys
        return [
            *self._network_in_keys,
            keys.observation,
            *([keys.action] if self._wants("model") else []),
            *([next_key(keys.reward)] if self._wants("reward") else []),
            *([next_key(keys.observation)] if self._wants("model") else []),
            *([next_key(keys.action)] if self._wants("model") else []),
        ]

    def _model_model_terms(self, tensordict: TensorDictBase) -> ModelModelTerms:
        """`loss_model` of `ModelLoss`, one value per sample."""
        keys = self.tensor_keys
        next_tensordict = self._next(tensordict)
        # losses.ModelLoss.let
        model_now = self.model(
            self._read(tensordict, keys.observation, "observation"),
            self._read(tensordict, keys.action, "action"),
        )
        model_next = self.model(
            self._read(next_tensordict, keys.observation, "observation"),
            self._read(next_tensordict, keys.action, "action"),
        )
        kept = bernoulli_of(tensordict, self.fraction)
        return model_model(
            model_now, model_next, lambda observation: self.features(observation), kept,
            self._read(tensordict, keys.observation, "observation"), self._mask(tensordict),
        )

    def _model_reward_terms(self, tensordict: TensorDictBase) -> ModelRewardTerms:
        """`loss_reward` of `ModelLoss`, one value per sample."""
        keys = self.tensor_keys
        next_tensordict = self._next(tensordict)
        fixed = self.functional_network("fixed")
        # losses.ModelLoss.terms
        reward_model_now = self.reward_model(self._read(tensordict, keys.observation, "observation")).squeeze(
            -1
        )
        fixed_frozen_now = fixed.frozen(tensordict, keys.value).squeeze(-1)
        return model_reward(
            reward_model_now, fixed_frozen_now, self._read_signal(next_tensordict, keys.reward, "reward")
        )

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the loss of a batch.

        Raises:
            KeyError: if something that the loss reads is missing.
        """
        samples = self._samples(tensordict)
        outputs: dict[str, Tensor] = {}
        if self._wants("model"):
            model_terms = self._model_model_terms(tensordict)
            outputs["loss_model"] = samples.reduced(model_terms.loss_model, model_terms.loss_model_mask)
        if self._wants("reward"):
            reward_terms = self._model_reward_terms(tensordict)
            outputs["loss_reward"] = samples.reduced(reward_terms.loss_reward)
        return self._outputs(outputs)

    # ...


# ...
