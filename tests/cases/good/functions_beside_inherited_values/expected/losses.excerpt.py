# ...


def watched_objective(
    log_p: Tensor, H_parts: Tensor | None, old: Tensor, advantage: Tensor, sample_log_prob: Tensor,
    mask: Tensor | None, advantage_norm: ValueNorm | None, *, entropy_bonus: bool, entropy_coeff: Tensor,
    normalize_advantage: bool, normalize_advantage_exclude_dims: Sequence[int], delay_actor: bool,
    max_importance_ratio: Tensor | None, clip_epsilon_low: Tensor, clip_epsilon_high: Tensor,
) -> WatchedObjectiveTerms:
    """`loss_objective`, `loss_entropy`, `kl_approx`, `entropy`, `composite_entropy`, `clip_fraction`,
    `ESS`, `max_ratio`, `mean_ratio` and `largest` of `Watched`, one value per sample.

    Args:
        log_p: float32 [*batch], from `actor_network`.
        H_parts: float32 [*batch, n_parts], from `actor_network`; needed where entropy_bonus.
        old: float32 [*batch], from `actor_network`.
        advantage: float32 [*batch, 1]; how much better the action was than expected; by the value
            estimator if it is missing.
        sample_log_prob: float32 [*batch]; the log-probability of the action when it was chosen.
        mask: bool [*batch], which samples count in statistics of the batch; None: all.
        advantage_norm: a scale that advantages are divided by, of the returns; who computes advantages
            beforehand updates it by their value targets, once for each rollout.
        entropy_bonus: reward the policy for being random.
        entropy_coeff: the weight of the bonus, one number or one for each of several actions.
        normalize_advantage: give the advantages of a batch mean 0 and deviation 1.
        normalize_advantage_exclude_dims: dimensions of the advantage whose entries are normalized each
            by itself.
        delay_actor: measure steps from a target copy of the policy, which a `SoftUpdate` or
            `HardUpdate` moves.
        max_importance_ratio: what the weight of an action is at most; None for any weight.
        clip_epsilon_low: how much likelier an action may become while it still pays, or how much less
            likely and how much likelier.
        clip_epsilon_high: how much likelier an action may become while it still pays, or how much less
            likely and how much likelier.
    """
    # losses.Watched.let
    standard = (
        sample_standardized(advantage.squeeze(-1), mask, keep=normalize_advantage_exclude_dims)
        if normalize_advantage
        else None
    )
    if not normalize_advantage:
        scaled = advantage / advantage_norm.scale().squeeze(-1) if advantage_norm is not None else advantage
        gain = scaled.squeeze(-1)
    else:
        gain = not_none(standard)
    step = log_p - old
    weight: Tensor | None = None
    if max_importance_ratio is not None or delay_actor:
        drift = old - sample_log_prob
        weight = (
            torch.minimum(drift, torch.log(max_importance_ratio) - step.detach())
            if max_importance_ratio is not None
            else drift
        )
        log_ratio = step + weight
    else:
        log_ratio = step
    ratio = torch.exp(log_ratio)
    near_step = torch.clamp(step, torch.log1p(-clip_epsilon_low), torch.log1p(clip_epsilon_high))
    near_log_ratio = (
        near_step + not_none(weight) if delay_actor or max_importance_ratio is not None else near_step
    )
    # losses.Watched.terms
    loss_objective = -torch.minimum(ratio * gain, torch.exp(near_log_ratio) * gain)
    loss_entropy = (-entropy_coeff * not_none(H_parts)).sum(dim=-1) if entropy_bonus else None
    # losses.Watched.metrics
    with torch.no_grad():
        kl_approx = -step
        entropy: Tensor | None = None
        composite_entropy: Tensor | None = None
        if entropy_bonus:
            H_parts = not_none(H_parts)
            H = H_parts.sum(dim=-1)
            entropy = H.detach()
            composite_entropy = H_parts.detach()
        clip_fraction = near_step != step
        ESS = sample_effective_fraction(log_ratio, mask)
        max_ratio = sample_max(ratio, mask)
        mean_ratio = ratio.detach()
        largest = max_ratio
    return WatchedObjectiveTerms(
        loss_objective=loss_objective, loss_entropy=loss_entropy, kl_approx=kl_approx, entropy=entropy,
        composite_entropy=composite_entropy, clip_fraction=clip_fraction, ESS=ESS, max_ratio=max_ratio,
        mean_ratio=mean_ratio, largest=largest,
    )


# ...
