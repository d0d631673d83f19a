# ...


def reward_in_hindsight(params: CarryTrainParams, achieved_goal: Tensor, desired_goal: Tensor) -> Tensor:
    """The reward of a step that achieved this, for any goal."""
    next_x = achieved_goal[..., 0].to(torch.int64)
    next_y = achieved_goal[..., 1].to(torch.int64)
    next_goal_x = desired_goal[..., 0].to(torch.int64)
    goal_y = desired_goal[..., 1].to(torch.int64)
    # envs.Carry.step
    distance = torch.abs(next_x - next_goal_x) + torch.abs(next_y - goal_y)
    return torch.where(
        distance.to(torch.float32) < params.near, 0.0, torch.full_like(distance, -1.0, dtype=torch.float32)
    ).unsqueeze(-1)


class Carrying(PipelineParts):
    # ...

    def __init__(self, config: CarryingConfig | None = None) -> None:
        config = CarryingConfig() if config is None else config
        self.device = available_device("device", config.device)
        torch.manual_seed(stream(config.seed, "networks"))
        self.config = config
        self.env: EnvBase[CarryTrainData, Any] = CarryTrain(
            near=config.near, batch_size=[config.num_envs], device=self.device
        )
        self.env.set_seed(stream(config.seed, "env"))
        self.eval_env: EnvBase[CarryTrainData, Any] = CarryTrain(
            near=config.near, batch_size=[config.evaluate_episodes], device=self.device
        )
        self.exploring = torch.Generator(self.device).manual_seed(stream(config.seed, "exploration"))
        self.value_network = value_network().to(self.device)
        self.exploration = EGreedyModule(
            self.env.action_spec_unbatched,
            eps_init=config.eps,
            eps_end=config.eps,
            generator=self.exploring,
            device=self.device,
        )
        self.policy: nn.Module = SafeSequential(self.value_network, self.exploration)
        self.loss = DQNLoss(value_network=self.value_network).make_value_estimator(
            ValueEstimators.TD0, gamma=config.gamma
        )
        self.updater: TargetNetUpdater = SoftUpdate(self.loss, tau=config.tau)
        self.optimizer: torch.optim.Optimizer = Adam(self.loss.parameters(), lr=config.lr)
        self.buffer = HERReplayBuffer(
            reward_fn=lambda step: reward_in_hindsight(
                self.env.params, step["next", "achieved_goal"], step["desired_goal"]
            ),
            her_ratio=config.her_ratio,
            strategy="episode",
            storage=LazyTensorStorage(config.capacity, ndim=2),
            batch_size=config.batch_size,
            generator=torch.Generator().manual_seed(stream(config.seed, "buffer")),
        )

    # ...


# ...
