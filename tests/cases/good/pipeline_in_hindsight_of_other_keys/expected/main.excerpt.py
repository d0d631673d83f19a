# ...


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
            reward_fn=lambda step: reward_in_hindsight(step["next", "hand", "place"], step["target"]),
            her_ratio=config.her_ratio,
            strategy="future",
            goal_key="target",
            achieved_goal_key=("hand", "place"),
            storage=LazyTensorStorage(config.capacity, ndim=2),
            batch_size=config.batch_size,
            generator=torch.Generator().manual_seed(stream(config.seed, "buffer")),
        )

    # ...


# ...
