# ...


def looped_advance(
    params: PendulumParams, th: Tensor, thdot: Tensor, done: Tensor, step_count: Tensor, action: Tensor
) -> LoopedNext:
    """One step: all that the step after it depends on."""
    terminated = torch.zeros_like(done)
    truncated = torch.zeros_like(done)
    reward = torch.zeros_like(done, dtype=torch.float32)
    over = torch.zeros_like(done)
    # chains.Looped.transforms[1]
    for _ in range(3):
        terminated_2 = torch.zeros_like(done)
        truncated_2 = torch.zeros_like(done)
        reward_2 = torch.zeros_like(done, dtype=torch.float32)
        over_2 = torch.zeros_like(done)
        next_th = th
        next_thdot = thdot
        done_2 = done
        terminated_3 = terminated_2
        truncated_3 = truncated_2
        reward_3 = reward_2
        over_3 = over_2
        for nth in range(2):
            base = pendulum_advance(params, next_th, next_thdot, done_2, action)
            reward_4 = pendulum_reward(next_th, next_thdot, action)
            reward_5 = reward_4 if nth == 0 else torch.maximum(reward_3, reward_4)
            stops = reward_4 > -0.5
            over_4 = over_3 | base.done
            over_5 = over_4 | stops
            next_th = torch.where(over_3.squeeze(-1), next_th, base.th)
            next_thdot = torch.where(over_3.squeeze(-1), next_thdot, base.thdot)
            done_2 = torch.where(over_3, done_2, base.done)
            terminated_3 = torch.where(over_3, terminated_3, base.terminated)
            truncated_3 = torch.where(over_3, truncated_3, base.truncated)
            reward_3 = torch.where(over_3, reward_3, reward_5)
            over_3 = over_5
        reward_6 = reward + reward_3
        over_6 = over | done_2
        th = torch.where(over.squeeze(-1), th, next_th)
        thdot = torch.where(over.squeeze(-1), thdot, next_thdot)
        done = torch.where(over, done, done_2)
        terminated = torch.where(over, terminated, terminated_3)
        truncated = torch.where(over, truncated, truncated_3)
        reward = torch.where(over, reward, reward_6)
        over = over_6
    # chains.Looped.transforms[2]
    next_step_count = step_count + 1
    next_truncated = truncated | (next_step_count >= 66)
    return LoopedNext(
        th=th, thdot=thdot, done=done | next_truncated, terminated=terminated, truncated=next_truncated,
        step_count=next_step_count, reward=reward,
    )


# ...


def standing_advance(
    params: PendulumParams, th: Tensor, thdot: Tensor, done: Tensor, terminated: Tensor, truncated: Tensor,
    action: Tensor,
) -> StandingNext:
    """One step: all that the step after it depends on."""
    # envs.Pendulum
    observation = pendulum_observe(th, thdot)
    base = pendulum_advance(params, th, thdot, done, action)
    reward = pendulum_reward(th, thdot, action)
    # chains.Standing.transforms[0]
    skipped = (torch.abs(observation) > 4.0).any(dim=-1).unsqueeze(-1)
    reward_2 = torch.zeros_like(base.done, dtype=torch.float32)
    return StandingNext(
        th=torch.where(skipped.squeeze(-1), th, base.th),
        thdot=torch.where(skipped.squeeze(-1), thdot, base.thdot), done=torch.where(skipped, done, base.done),
        terminated=torch.where(skipped, terminated, base.terminated),
        truncated=torch.where(skipped, truncated, base.truncated),
        reward=torch.where(skipped, reward_2, reward),
    )


# ...
