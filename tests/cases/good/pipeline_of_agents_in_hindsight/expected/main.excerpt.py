# ...


def reward_in_hindsight(params: CarryParams, achieved_goal: Tensor, desired_goal: Tensor) -> Tensor:
    """The reward of a step that achieved this, for any goal."""
    next_carrier_x = achieved_goal[..., 0].to(torch.int64)
    next_carrier_y = achieved_goal[..., 1].to(torch.int64)
    carrier_goal = desired_goal.to(torch.int64)
    # envs.Carry.step
    distance = torch.abs(next_carrier_x - carrier_goal[..., 0]) + torch.abs(
        next_carrier_y - carrier_goal[..., 1]
    )
    return torch.where(
        distance.to(torch.float32) < params.near, 0.0, torch.full_like(distance, -1.0, dtype=torch.float32)
    ).unsqueeze(-1)


def terminated_in_hindsight(params: CarryParams, achieved_goal: Tensor, desired_goal: Tensor) -> Tensor:
    """Whether a step that achieved this ended the episode, for any goal."""
    next_carrier_x = achieved_goal[..., 0].to(torch.int64)
    next_carrier_y = achieved_goal[..., 1].to(torch.int64)
    carrier_goal = desired_goal.to(torch.int64)
    # envs.Carry.step
    distance = torch.abs(next_carrier_x - carrier_goal[..., 0]) + torch.abs(
        next_carrier_y - carrier_goal[..., 1]
    )
    carrier_terminated = distance.to(torch.float32) < params.near
    return carrier_terminated.unsqueeze(-1)


class Carrying(PipelineParts):
    # ...

    def __init__(self, config: CarryingConfig | None = None) -> None:
        config = CarryingConfig() if config is None else config
        self.device = available_device("device", config.device)
        torch.manual_seed(stream(config.seed, "networks"))
        self.config = config
        self.env: EnvBase[CarryTrainData, Any] = CarryTrain(batch_size=[config.num_envs], device=self.device)
        self.env.set_seed(stream(config.seed, "env"))
        self.eval_env: EnvBase[CarryTrainData, Any] = CarryTrain(
            batch_size=[config.evaluate_episodes], device=self.device
        )
        self.exploring = torch.Generator(self.device).manual_seed(stream(config.seed, "exploration"))
        self.carrier_value_network = carrier_value_network().to(self.device)
        self.exploration = EGreedyModule(
            self.env.full_action_spec_unbatched,
            eps_init=config.eps,
            eps_end=config.eps,
            action_key=("carrier", "action"),
            generator=self.exploring,
            device=self.device,
        )
        self.policy: nn.Module = SafeSequential(self.carrier_value_network, self.exploration)
        self.carrier_loss = DQNLoss(value_network=self.carrier_value_network).make_value_estimator(
            ValueEstimators.TD0, gamma=config.gamma
        )
        self.carrier_loss.set_keys(
            action=("carrier", "action"),
            reward=("carrier", "reward"),
            done=("carrier", "done"),
            terminated=("carrier", "terminated"),
            priority=("carrier", "td_error"),
            value=("carrier", "chosen_action_value"),
            advantage=("carrier", "advantage"),
            value_target=("carrier", "value_target"),
            action_value=("carrier", "action_value"),
        )
        self.carrier_updater: TargetNetUpdater = SoftUpdate(self.carrier_loss, tau=config.tau)
        self.optimizer: torch.optim.Optimizer = Adam(self.carrier_loss.parameters(), lr=config.lr)
        self.buffer = HERReplayBuffer(
            reward_fn=lambda step: reward_in_hindsight(
                self.env.params, step["next", "carrier", "achieved_goal"], step["carrier", "desired_goal"]
            ),
            terminated_fn=lambda step: terminated_in_hindsight(
                self.env.params, step["next", "carrier", "achieved_goal"], step["carrier", "desired_goal"]
            ),
            her_ratio=config.her_ratio,
            strategy="future",
            goal_key=("carrier", "desired_goal"),
            achieved_goal_key=("carrier", "achieved_goal"),
            reward_key=("next", "carrier", "reward"),
            terminated_key=("next", "carrier", "terminated"),
            storage=LazyTensorStorage(config.capacity, ndim=2),
            batch_size=config.batch_size,
            generator=torch.Generator().manual_seed(stream(config.seed, "buffer")),
        )

    # ...


# ...
