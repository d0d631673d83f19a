# ...


class TrainConsts(NamedTuple):
    """Constant tables of `Train`."""

    observation_norm_1_loc: Tensor
    """`loc` of ObservationNorm"""
    observation_norm_1_scale: Tensor
    """`scale` of ObservationNorm"""
    reward_scaling_2_loc: Tensor
    """`loc` of RewardScaling"""
    reward_scaling_2_scale: Tensor
    """`scale` of RewardScaling"""


# ...


def train_advance(
    params: CartPoleParams, consts: TrainConsts, x: Tensor, x_dot: Tensor, theta: Tensor, theta_dot: Tensor,
    step_count: Tensor, episode_reward: Tensor, action: Tensor,
) -> TrainNext:
    """One step: all that the step after it depends on."""
    # envs.CartPole
    base = cart_pole_advance(params, x, x_dot, theta, theta_dot, action)
    reward = cart_pole_reward(base.terminated)
    # chains.Train.transforms[0]
    next_step_count = step_count + 1
    next_truncated = base.truncated | (next_step_count >= 500)
    # chains.Train.transforms[2]
    reward_scaled = reward * consts.reward_scaling_2_scale + consts.reward_scaling_2_loc
    # chains.Train.transforms[3]
    next_episode_reward = episode_reward + reward_scaled
    return TrainNext(
        x=base.x, x_dot=base.x_dot, theta=base.theta, theta_dot=base.theta_dot,
        done=base.done | next_truncated, terminated=base.terminated, truncated=next_truncated,
        step_count=next_step_count, episode_reward=next_episode_reward, reward=reward_scaled,
    )


def train_observe(consts: TrainConsts, x: Tensor, x_dot: Tensor, theta: Tensor, theta_dot: Tensor) -> Tensor:
    """The observation of a state, for any leading dimensions."""
    # envs.CartPole
    observation = cart_pole_observe(x, x_dot, theta, theta_dot)
    # chains.Train.transforms[1]
    return observation * consts.observation_norm_1_scale + consts.observation_norm_1_loc


# ...


def two_maps_on_one_key_advance(
    params: CartPoleParams, consts: TwoMapsOnOneKeyConsts, x: Tensor, x_dot: Tensor, theta: Tensor,
    theta_dot: Tensor, episode_reward: Tensor, action: Tensor,
) -> TwoMapsOnOneKeyNext:
    """One step: all that the step after it depends on."""
    # envs.CartPole
    base = cart_pole_advance(params, x, x_dot, theta, theta_dot, action)
    reward = cart_pole_reward(base.terminated)
    # chains.TwoMapsOnOneKey.transforms[0]
    reward_scaled = reward * consts.reward_scaling_0_scale + consts.reward_scaling_0_loc
    # chains.TwoMapsOnOneKey.transforms[1]
    reward_scaled_2 = reward_scaled * consts.reward_scaling_1_scale + consts.reward_scaling_1_loc
    # chains.TwoMapsOnOneKey.transforms[4]
    next_episode_reward = episode_reward + reward_scaled_2
    return TwoMapsOnOneKeyNext(
        x=base.x, x_dot=base.x_dot, theta=base.theta, theta_dot=base.theta_dot, done=base.done,
        terminated=base.terminated, truncated=base.truncated, episode_reward=next_episode_reward,
        reward=reward_scaled_2,
    )


def two_maps_on_one_key_observe(
    consts: TwoMapsOnOneKeyConsts, x: Tensor, x_dot: Tensor, theta: Tensor, theta_dot: Tensor
) -> Tensor:
    """The observation of a state, for any leading dimensions."""
    # envs.CartPole
    observation = cart_pole_observe(x, x_dot, theta, theta_dot)
    # chains.TwoMapsOnOneKey.transforms[2]
    observation_normed = observation * consts.observation_norm_2_scale + consts.observation_norm_2_loc
    # chains.TwoMapsOnOneKey.transforms[3]
    return observation_normed * consts.observation_norm_3_scale + consts.observation_norm_3_loc


# ...
