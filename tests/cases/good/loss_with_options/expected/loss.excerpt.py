# ...


class PolicyObjectiveTerms(NamedTuple):
    """`loss_objective`, `loss_entropy`, `kl_approx`, `entropy`, `ESS` and `max_ratio` of `PolicyLoss`, one
    value per sample.
    """

    loss_objective: Tensor
    """[*batch], before the reduction"""
    loss_entropy: Tensor | None
    """[*batch], before the reduction; None unless entropy_bonus"""
    kl_approx: Tensor
    """to be logged"""
    entropy: Tensor | None
    """to be logged; None unless entropy_bonus"""
    ESS: Tensor
    """to be logged"""
    max_ratio: Tensor
    """to be logged"""


def policy_objective(
    log_p: Tensor, advantage: Tensor, sample_log_prob: Tensor, mask: Tensor | None, *,
    normalize_advantage: bool, exclude_dims: Sequence[int], entropy_bonus: bool, clip_epsilon: float,
) -> PolicyObjectiveTerms:
    """`loss_objective`, `loss_entropy`, `kl_approx`, `entropy`, `ESS` and `max_ratio` of `PolicyLoss`, one
    value per sample.

    Args:
        log_p: float32 [*batch], from `actor_network`.
        advantage: float32 [*batch, 1].
        sample_log_prob: float32 [*batch].
        mask: bool [*batch], which samples count in statistics of the batch; None: all.
        normalize_advantage: bool.
        exclude_dims: Sequence[int].
        entropy_bonus: bool.
        clip_epsilon: float.
    """
    # losses.PolicyLoss.let
    step = log_p - sample_log_prob
    near_step = torch.clamp(step, math.log1p(-clip_epsilon), math.log1p(clip_epsilon))
    count = sample_count(advantage.squeeze(-1), mask)
    if normalize_advantage:
        centred = advantage.squeeze(-1) - sample_mean(advantage.squeeze(-1), mask, keep=exclude_dims)
        gain = torch.where(
            count > 1,
            centred / torch.clamp(sample_std(advantage.squeeze(-1), mask, keep=exclude_dims), min=1.0e-6),
            advantage.squeeze(-1),
        )
    else:
        gain = advantage.squeeze(-1)
    ratio = torch.exp(step)
    # losses.PolicyLoss.terms
    loss_objective = -torch.minimum(ratio * gain, torch.exp(near_step) * gain)
    # losses.PolicyLoss.let
    h: Tensor | None = None
    loss_entropy: Tensor | None = None
    if entropy_bonus:
        h = -log_p
        loss_entropy = -0.01 * h
    # losses.PolicyLoss.metrics
    with torch.no_grad():
        kl_approx = -step
        entropy = not_none(h).detach() if entropy_bonus else None
        ESS = torch.exp(2 * sample_logsumexp(step, mask) - sample_logsumexp(2 * step, mask)) / count.to(
            torch.float32
        )
        max_ratio = sample_max(ratio, mask)
    return PolicyObjectiveTerms(
        loss_objective=loss_objective, loss_entropy=loss_entropy, kl_approx=kl_approx, entropy=entropy,
        ESS=ESS, max_ratio=max_ratio,
    )


class PolicyCriticTerms(NamedTuple):
    """`loss_critic`, `explained_variance` and `value_clip_fraction` of `PolicyLoss`, one value per sample."""

    loss_critic: Tensor
    """[*batch], before the reduction"""
    explained_variance: Tensor | None
    """to be logged; None unless log_explained_variance"""
    value_clip_fraction: Tensor | None
    """to be logged; None unless given(clip_value)"""


def policy_critic(
    v: Tensor, value_target: Tensor, old_value: Tensor | None, mask: Tensor | None, *,
    loss_critic_type: Literal["smooth_l1", "l2", "l1"], clip_value: float | None, critic_coeff: float,
    log_explained_variance: bool,
) -> PolicyCriticTerms:
    """`loss_critic`, `explained_variance` and `value_clip_fraction` of `PolicyLoss`, one value per sample.

    Args:
        v: float32 [*batch], from `critic_network`.
        value_target: float32 [*batch, 1].
        old_value: float32 [*batch, 1]; needed where given(clip_value).
        mask: bool [*batch], which samples count in statistics of the batch; None: all.
        loss_critic_type: one of smooth_l1, l2, l1.
        clip_value: float.
        critic_coeff: float.
        log_explained_variance: bool.
    """
    # losses.PolicyLoss.let
    far = distance_loss(value_target.squeeze(-1), v, loss_critic_type)
    if clip_value is not None:
        old_value = not_none(old_value)
        near = old_value.squeeze(-1) + torch.clamp(v - old_value.squeeze(-1), -clip_value, clip_value)
        critic = torch.maximum(far, distance_loss(value_target.squeeze(-1), near, loss_critic_type))
    else:
        critic = far
    # losses.PolicyLoss.terms
    loss_critic = critic_coeff * critic
    # losses.PolicyLoss.metrics
    with torch.no_grad():
        explained_variance = (
            1
            - sample_var(value_target.squeeze(-1) - v, mask)
            / (sample_var(value_target.squeeze(-1), mask) + torch.finfo(value_target.dtype).eps)
            if log_explained_variance
            else None
        )
        value_clip_fraction = (
            torch.abs(v - not_none(old_value).squeeze(-1)) > clip_value if clip_value is not None else None
        )
    return PolicyCriticTerms(
        loss_critic=loss_critic, explained_variance=explained_variance,
        value_clip_fraction=value_clip_fraction,
    )


class PolicyLoss(LossModule):
    # ...

    def __init__(
        self, actor_network: nn.Module, critic_network: nn.Module | None = None, *,
        loss_critic_type: Literal["smooth_l1", "l2", "l1"] = "smooth_l1", clip_value: float | None = None,
        critic_coeff: float | None = 1.0, normalize_advantage: bool = False, exclude_dims: Sequence[int] = (),
        entropy_bonus: bool = True, clip_epsilon: float = 0.2, log_explained_variance: bool = True,
        reduction: Reduction | None = None, use_prioritized_weights: Literal["auto"] | bool = "auto",
        scalar_output_mode: ScalarOutputMode | None = None, functional: bool = True,
        device: torch.device | str | int | None = None,
    ) -> None:
        """A critic and an objective with options.

        Args:
            actor_network: writes `log_prob`.
            critic_network: writes `value`.
            loss_critic_type: Literal["smooth_l1", "l2", "l1"]. Defaults to "smooth_l1".
            clip_value: float | None. Defaults to None, > 0.
            critic_coeff: float | None. Defaults to 1.0, >= 0.
            normalize_advantage: bool. Defaults to False.
            exclude_dims: Sequence[int]. Defaults to ().
            entropy_bonus: bool. Defaults to True.
            clip_epsilon: float. Defaults to 0.2.
            log_explained_variance: bool. Defaults to True.
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
        if clip_value is not None:
            clip_value = float_param("clip_value", clip_value, above=0)
        if critic_coeff is not None:
            critic_coeff = float_param("critic_coeff", critic_coeff, at_least=0)
        exclude_dims = as_ints(exclude_dims, "exclude_dims")
        clip_epsilon = float_param("clip_epsilon", clip_epsilon)
        if loss_critic_type not in ("smooth_l1", "l2", "l1"):
            raise ValueError(
                f"loss_critic_type must be one of 'smooth_l1', 'l2', 'l1', got {loss_critic_type!r}"
            )
        if critic_coeff and critic_network is None:
            raise ValueError("critic_coeff needs a critic_network")
        self.loss_critic_type = loss_critic_type
        self.clip_value = clip_value
        self.critic_coeff = critic_coeff
        self.normalize_advantage = normalize_advantage
        self.exclude_dims = exclude_dims
        self.entropy_bonus = entropy_bonus
        self.clip_epsilon = clip_epsilon
        self.log_explained_variance = log_explained_variance
        self.reduction = reduction
        self.use_prioritized_weights = use_prioritized_weights
        self.scalar_output_mode = scalar_output_mode
        self.convert_to_functional(actor_network, "actor_network", create_target_params=False)
        if critic_network is not None:
            self.convert_to_functional(critic_network, "critic_network", create_target_params=False)
        else:
            self.critic_network = None
            self.critic_network_params = None
        self._place_buffers(device)
        self.reset_out_keys()

    def _is_returned(self, name: str) -> bool:
        match name:
            case "loss_entropy":
                return bool(self.entropy_bonus)
            case "loss_critic":
                return bool(self.critic_coeff)
            case "entropy":
                return bool(self.entropy_bonus)
            case "explained_variance":
                return bool(self.log_explained_variance and self.critic_coeff)
            case "value_clip_fraction":
                return bool(self.clip_value is not None and self.critic_coeff)
            case _:
                return True

    @property
    def in_keys(self) -> list[NestedKey]:
        """What the loss reads; what its keywords are called when it is called with tensors."""
        keys = self.tensor_keys
        return [
            *self._network_in_keys,
            *([keys.advantage] if self._wants("objective") else []),
            *([keys.value_target] if self._wants("critic") else []),
            *([keys.value] if self._wants("critic") and self.clip_value is not None else []),
            *([keys.sample_log_prob] if self._wants("objective") else []),
        ]

    # ...

    def _policy_critic_terms(self, tensordict: TensorDictBase) -> PolicyCriticTerms:
        """`loss_critic`, `explained_variance` and `value_clip_fraction` of `PolicyLoss`, one value per sample."""
        keys = self.tensor_keys
        # losses.PolicyLoss.let
        v = self.functional_network("critic_network").live(tensordict, keys.value).squeeze(-1)
        return policy_critic(
            v, self._read_column(tensordict, keys.value_target, "value_target"),
            self._read_column(tensordict, keys.value, "old_value") if self.clip_value is not None else None,
            self._mask(tensordict), loss_critic_type=self.loss_critic_type, clip_value=self.clip_value,
            critic_coeff=not_none(self.critic_coeff), log_explained_variance=self.log_explained_variance,
        )

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the loss of a batch.

        Raises:
            KeyError: if something that the loss reads is missing.
        """
        samples = self._samples(tensordict)
        outputs: dict[str, Tensor] = {}
        if self._wants("objective"):
            objective_terms = self._policy_objective_terms(tensordict)
            outputs["loss_objective"] = samples.reduced(objective_terms.loss_objective)
            outputs["kl_approx"] = samples.mean(objective_terms.kl_approx)
            outputs["ESS"] = objective_terms.ESS
            outputs["max_ratio"] = objective_terms.max_ratio
            if objective_terms.loss_entropy is not None:
                outputs["loss_entropy"] = samples.reduced(objective_terms.loss_entropy)
            if objective_terms.entropy is not None:
                outputs["entropy"] = samples.mean(objective_terms.entropy)
        if self._wants("critic"):
            critic_terms = self._policy_critic_terms(tensordict)
            outputs["loss_critic"] = samples.reduced(critic_terms.loss_critic)
            if critic_terms.explained_variance is not None:
                outputs["explained_variance"] = critic_terms.explained_variance
            if critic_terms.value_clip_fraction is not None:
                outputs["value_clip_fraction"] = samples.mean(critic_terms.value_clip_fraction)
        return self._outputs(outputs)

    # ...


# ...
