# ...


class TwoSteps(PipelineParts):
    # ...

    def __init__(self, config: TwoStepsConfig | None = None) -> None:
        config = TwoStepsConfig() if config is None else config
        self.device = available_device("device", config.device)
        torch.manual_seed(stream(config.seed, "networks"))
        self.config = config
        self.env: EnvBase[TwoStepGameData, Any] = TwoStepGame(
            batch_size=[config.num_envs], device=self.device
        )
        self.env.set_seed(stream(config.seed, "env"))
        self.eval_env: EnvBase[TwoStepGameData, Any] = TwoStepGame(
            batch_size=[config.evaluate_episodes], device=self.device
        )
        self.exploring = torch.Generator(self.device).manual_seed(stream(config.seed, "exploration"))
        self.local_value_network = local_value_network().to(self.device)
        self.mixer_network = mixer_network().to(self.device)
        self.exploration = EGreedyModule(
            self.env.full_action_spec_unbatched,
            eps_init=config.eps,
            eps_end=config.eps,
            action_key=("robot", "action"),
            generator=self.exploring,
            device=self.device,
        )
        self.policy: nn.Module = SafeSequential(self.local_value_network, self.exploration)
        self.robot_loss = QMixerLoss(
            local_value_network=self.local_value_network, mixer_network=self.mixer_network
        ).make_value_estimator(ValueEstimators.TD0, gamma=config.gamma)
        self.robot_loss.set_keys(
            action=("robot", "action"),
            action_value=("robot", "action_value"),
            local_value=("robot", "chosen_action_value"),
        )
        self.robot_updater: TargetNetUpdater = HardUpdate(
            self.robot_loss, value_network_update_interval=config.interval
        )
        self.optimizer: torch.optim.Optimizer = Adam(self.robot_loss.parameters(), lr=config.lr)
        self.buffer = TensorDictReplayBuffer(
            storage=LazyTensorStorage(config.capacity),
            batch_size=config.batch_size,
            generator=torch.Generator().manual_seed(stream(config.seed, "buffer")),
        )

    @cached_property
    def collector(self) -> BaseCollector[TwoStepGameData]:
        """What collects: it is made when it is first asked for, of the parts as they are then."""
        config = self.config
        return Collector(
            self.env, self.policy, frames_per_batch=config.num_envs * config.num_steps, total_frames=-1
        )

    # ...


# ...
