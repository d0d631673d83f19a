# ...


def train_advance(
    params: CartPoleParams, x: Tensor, x_dot: Tensor, theta: Tensor, theta_dot: Tensor, step_count: Tensor,
    episode_reward: Tensor, action: Tensor,
) -> TrainNext:
    """One step: all that the step after it depends on."""
    # envs.CartPole
    base = cart_pole_advance(params, x, x_dot, theta, theta_dot, action)
    reward = cart_pole_reward(base.terminated)
    # chains.Train.transforms[0]
    next_step_count = step_count + 1
    next_truncated = base.truncated | (next_step_count >= 500)
    # chains.Train.transforms[1]
    next_episode_reward = episode_reward + reward
    return TrainNext(
        x=base.x, x_dot=base.x_dot, theta=base.theta, theta_dot=base.theta_dot,
        done=base.done | next_truncated, terminated=base.terminated, truncated=next_truncated,
        step_count=next_step_count, episode_reward=next_episode_reward,
    )


def train_reward(consts: TrainConsts, terminated: Tensor) -> Tensor:
    """The reward of a step, for any leading dimensions."""
    # envs.CartPole
    reward = cart_pole_reward(terminated)
    # chains.Train.transforms[2]
    return reward * consts.reward_scaling_2_scale + consts.reward_scaling_2_loc


# ...
