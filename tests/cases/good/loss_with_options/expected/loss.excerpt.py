# ...


class PolicyLossTerms(NamedTuple):
    """What the loss is made of, one value per sample."""

    loss_objective: Tensor
    """[*batch], before the reduction"""
    loss_entropy: Tensor | None
    """[*batch], before the reduction; None unless entropy_bonus"""
    loss_critic: Tensor | None
    """[*batch], before the reduction; None unless critic_coeff"""
    kl_approx: Tensor
    """to be logged"""
    entropy: Tensor | None
    """to be logged; None unless entropy_bonus"""
    explained_variance: Tensor | None
    """to be logged; None unless log_explained_variance and critic_coeff"""
    value_clip_fraction: Tensor | None
    """to be logged; None unless given(clip_value) and critic_coeff"""
    ESS: Tensor
    """to be logged"""
    max_ratio: Tensor
    """to be logged"""


def policy_loss(
    log_p: Tensor, v: Tensor | None, advantage: Tensor, value_target: Tensor | None, old_value: Tensor | None,
    sample_log_prob: Tensor, mask: Tensor | None, *, loss_critic_type: Literal["smooth_l1", "l2", "l1"],
    clip_value: float | None, critic_coeff: float | None, normalize_advantage: bool,
    exclude_dims: Sequence[int], entropy_bonus: bool, clip_epsilon: float, log_explained_variance: bool,
) -> PolicyLossTerms:
    """The terms of `PolicyLoss`, one value per sample.

    Args:
        log_p: float32 [*batch], from `actor_network`.
        v: float32 [*batch], from `critic_network`; needed where critic_coeff.
        advantage: float32 [*batch, 1].
        value_target: float32 [*batch, 1]; needed where critic_coeff.
        old_value: float32 [*batch, 1]; needed where given(clip_value) and critic_coeff.
        sample_log_prob: float32 [*batch].
        mask: bool [*batch], which samples count in statistics of the batch; None: all.
        loss_critic_type: one of smooth_l1, l2, l1.
        clip_value: float.
        critic_coeff: float.
        normalize_advantage: bool.
        exclude_dims: Sequence[int].
        entropy_bonus: bool.
        clip_epsilon: float.
        log_explained_variance: bool.
    """
    # losses.PolicyLoss.let
    near = (
        not_none(old_value).squeeze(-1)
        + torch.clamp(not_none(v) - not_none(old_value).squeeze(-1), -clip_value, clip_value)
        if clip_value is not None and critic_coeff
        else None
    )
    far = (
        distance_loss(not_none(value_target).squeeze(-1), not_none(v), loss_critic_type)
        if critic_coeff
        else None
    )
    critic = (
        (
            torch.maximum(
                not_none(far),
                distance_loss(not_none(value_target).squeeze(-1), not_none(near), loss_critic_type),
            )
            if clip_value is not None
            else not_none(far)
        )
        if critic_coeff
        else None
    )
    step = log_p - sample_log_prob
    near_step = torch.clamp(step, math.log1p(-clip_epsilon), math.log1p(clip_epsilon))
    centred = (
        advantage.squeeze(-1) - sample_mean(advantage.squeeze(-1), mask, keep=exclude_dims)
        if normalize_advantage
        else None
    )
    count = sample_count(advantage.squeeze(-1), mask)
    gain = (
        torch.where(
            count > 1,
            not_none(centred)
            / torch.clamp(sample_std(advantage.squeeze(-1), mask, keep=exclude_dims), min=1.0e-6),
            advantage.squeeze(-1),
        )
        if normalize_advantage
        else advantage.squeeze(-1)
    )
    ratio = torch.exp(step)
    H = -log_p if entropy_bonus else None
    # losses.PolicyLoss.terms
    loss_objective = -torch.minimum(ratio * gain, torch.exp(near_step) * gain)
    loss_entropy = -0.01 * not_none(H) if entropy_bonus else None
    loss_critic = critic_coeff * not_none(critic) if critic_coeff else None
    # losses.PolicyLoss.metrics
    with torch.no_grad():
        kl_approx = -step
        entropy = not_none(H).detach() if entropy_bonus else None
        explained_variance = (
            1
            - sample_var(not_none(value_target).squeeze(-1) - not_none(v), mask)
            / (
                sample_var(not_none(value_target).squeeze(-1), mask)
                + torch.finfo(not_none(value_target).dtype).eps
            )
            if log_explained_variance and critic_coeff
            else None
        )
        value_clip_fraction = (
            torch.abs(not_none(v) - not_none(old_value).squeeze(-1)) > clip_value
            if clip_value is not None and critic_coeff
            else None
        )
        ESS = torch.exp(2 * sample_logsumexp(step, mask) - sample_logsumexp(2 * step, mask)) / count.to(
            torch.float32
        )
        max_ratio = sample_max(ratio, mask)
    return PolicyLossTerms(
        loss_objective=loss_objective, loss_entropy=loss_entropy, loss_critic=loss_critic,
        kl_approx=kl_approx, entropy=entropy, explained_variance=explained_variance,
        value_clip_fraction=value_clip_fraction, ESS=ESS, max_ratio=max_ratio,
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

        Raises:
            TypeError: if a network is not a module.
            ValueError: if a keyword has a value that it does not take, or they contradict each other.
        """
        super().__init__(functional=functional)
        if loss_critic_type not in ("smooth_l1", "l2", "l1"):
            raise ValueError(
                f"loss_critic_type must be one of 'smooth_l1', 'l2', 'l1', got {loss_critic_type!r}"
            )
        if clip_value is not None and not clip_value > 0:
            raise ValueError(f"clip_value must be > 0, got {clip_value}")
        if critic_coeff is not None and not critic_coeff >= 0:
            raise ValueError(f"critic_coeff must be >= 0, got {critic_coeff}")
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
            keys.advantage,
            *([keys.value_target] if self.critic_coeff else []),
            *([keys.value] if self.clip_value is not None and self.critic_coeff else []),
            keys.sample_log_prob,
        ]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the loss of a batch.

        Raises:
            KeyError: if something that the loss reads is missing.
        """
        keys = self.tensor_keys
        actor_network = self.functional_network("actor_network")
        # losses.PolicyLoss.let
        log_p = actor_network.live(tensordict, keys.log_prob)
        v = (
            self.functional_network("critic_network").live(tensordict, keys.value).squeeze(-1)
            if self.critic_coeff
            else None
        )
        terms = policy_loss(
            log_p,
            v,
            self._read(tensordict, keys.advantage, "advantage"),
            self._read(tensordict, keys.value_target, "value_target") if self.critic_coeff else None,
            self._read(tensordict, keys.value, "old_value")
            if self.clip_value is not None and self.critic_coeff
            else None,
            self._read_number(tensordict, keys.sample_log_prob, "sample_log_prob"),
            self._mask(tensordict),
            loss_critic_type=self.loss_critic_type,
            clip_value=self.clip_value,
            critic_coeff=self.critic_coeff,
            normalize_advantage=self.normalize_advantage,
            exclude_dims=self.exclude_dims,
            entropy_bonus=self.entropy_bonus,
            clip_epsilon=self.clip_epsilon,
            log_explained_variance=self.log_explained_variance,
        )
        outputs = {
            "loss_objective": self._reduce_loss(terms.loss_objective, tensordict),
            "kl_approx": self._mean(terms.kl_approx, tensordict),
            "ESS": torch.as_tensor(terms.ESS),
            "max_ratio": torch.as_tensor(terms.max_ratio),
        }
        if terms.loss_entropy is not None:
            outputs["loss_entropy"] = self._reduce_loss(terms.loss_entropy, tensordict)
        if terms.loss_critic is not None:
            outputs["loss_critic"] = self._reduce_loss(terms.loss_critic, tensordict)
        if terms.entropy is not None:
            outputs["entropy"] = self._mean(terms.entropy, tensordict)
        if terms.explained_variance is not None:
            outputs["explained_variance"] = torch.as_tensor(terms.explained_variance)
        if terms.value_clip_fraction is not None:
            outputs["value_clip_fraction"] = self._mean(terms.value_clip_fraction, tensordict)
        return TensorDict(outputs)

    # ...


# ...
