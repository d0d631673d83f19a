# ...


def spread(box: Tensor, *, times: int = 2) -> Tensor:
    """Return `spread` of the schema.

    Args:
        box: float32 [*batch, k, 2].
        times: int (default 2).

    Returns:
        float32 [*batch].
    """
    # functions.spread.returns
    return half_width(box).sum(dim=-1) * times


# ...


def box_gain(r: Tensor) -> Tensor:
    """`gain` of the schema."""
    # envs.Box.functions
    return clipped_surrogate(r, torch.ones_like(r), epsilon=0.1)


def box_reset(not_done: Tensor, draw_box: Tensor) -> BoxRoot:
    """A fresh episode in every row of the batch.

    Args:
        not_done: bool [*batch, 1], all False; it tells the batch shape and the device.
        draw_box: float32 [*batch, 4, 2], uniform in [0, 1).
    """
    # envs.Box.reset
    box = draw_box
    within_2 = torch.zeros(not_done.shape[:-1], dtype=torch.float32, device=not_done.device)
    return BoxRoot(
        box=box, within_2=within_2, done=not_done, terminated=not_done.clone(), truncated=not_done.clone()
    )


def box_advance(box: Tensor, done: Tensor, push: Tensor) -> BoxNext:
    """One step of the dynamics: all that the step after it depends on.

    Args:
        box, done: as in `BoxRoot`.
        push: float32 [*batch].
    """
    # envs.Box.step
    next_box = torch.clamp(box + push[..., None, None], 0.0, 1.0)
    next_within_2 = within(push) + box_gain(push)
    return BoxNext(
        box=next_box, within_2=next_within_2, done=torch.zeros_like(done), terminated=torch.zeros_like(done),
        truncated=torch.zeros_like(done),
    )


def box_reward(params: BoxParams, within_2: Tensor, next_box: Tensor) -> Tensor:
    """The reward of a step, for any leading dimensions.

    Args:
        params: constructor keywords of the environment.
        within_2: as in `BoxRoot`.
        next_box: as in `BoxNext`, after the step.

    Returns:
        float32 [*batch, 1].
    """
    # envs.Box.step
    return (
        within_2
        - spread(next_box, times=3)
        - masked_mean(half_width(next_box), next_box[..., 0] > params.limit)
    ).unsqueeze(-1)


# ...


def scale_map(width: float, value: Tensor) -> Tensor:
    """`out` at any moment.

    Args:
        width: constructor keyword.
        value: floats [*batch, ...].
    """
    # transforms.Scale.map
    return within(value) / width


# ...


def policy_loss(
    actor_network_now_log_prob: Tensor, advantage: Tensor, sample_log_prob: Tensor, *, clip_epsilon: float
) -> PolicyLossTerms:
    """The terms of `PolicyLoss`, one value per sample.

    Args:
        actor_network_now_log_prob: float32 [*batch], from `actor_network`.
        advantage: float32 [*batch, 1].
        sample_log_prob: float32 [*batch].
        clip_epsilon: float.
    """
    # losses.PolicyLoss.let
    ratio = torch.exp(actor_network_now_log_prob - sample_log_prob)
    # losses.PolicyLoss.terms
    loss_objective = -clipped_surrogate(ratio, advantage.squeeze(-1), epsilon=clip_epsilon)
    return PolicyLossTerms(loss_objective=loss_objective)


# ...


def scaled_reset(not_done: Tensor, draw_box: Tensor) -> ScaledRoot:
    """A fresh episode in every row of the batch."""
    # envs.Box
    base = box_reset(not_done, draw_box)
    return ScaledRoot(
        raw_box=base.box, raw_within_2=base.within_2, done=base.done, terminated=base.terminated,
        truncated=base.truncated,
    )


def scaled_advance(raw_box: Tensor, done: Tensor, push: Tensor) -> ScaledNext:
    """One step: all that the step after it depends on."""
    # envs.Box
    base = box_advance(raw_box, done, push)
    return ScaledNext(
        raw_box=base.box, raw_within_2=base.within_2, done=base.done, terminated=base.terminated,
        truncated=base.truncated,
    )


def scaled_reward(params: BoxParams, raw_within_2: Tensor, next_box: Tensor) -> Tensor:
    """The reward of a step, for any leading dimensions."""
    # envs.Box
    return box_reward(params, raw_within_2, next_box)


# ...


def scaled_observe(raw_box: Tensor, raw_within_2: Tensor) -> ScaledObservation:
    """The observation of a state, for any leading dimensions."""
    # chains.Scaled.transforms[0]
    box = within(raw_box)
    within_2 = within(raw_within_2)
    return ScaledObservation(box=box, within_2=within_2)


# ...
