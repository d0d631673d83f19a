# ...


class ChatGRPO(PipelineParts):
    # ...

    def __init__(self, config: ChatGRPOConfig | None = None) -> None:
        config = ChatGRPOConfig() if config is None else config
        self.env_device = available_device("env_device", config.env_device)
        self.policy_device = available_device("policy_device", config.policy_device)
        self.data_device = available_device("data_device", config.data_device)
        self.loss_device = available_device("loss_device", config.loss_device)
        torch.manual_seed(stream(config.seed, "networks"))
        self.config = config
        self.exploring = torch.Generator(self.policy_device).manual_seed(stream(config.seed, "exploration"))
        self.drawing = torch.Generator(self.loss_device).manual_seed(stream(config.seed, "loss"))
        self.actor_network = policy_model(device=self.loss_device)
        self.acting_actor_network = policy_model(device=self.policy_device)
        load_weights(self.acting_actor_network, self.actor_network)
        self.acting_actor_network.generator = self.exploring
        self.reference_model = reference_model()
        self.env: EnvBase[Any, Any] = ChatTrain(
            policy=self.acting_actor_network,
            reference=self.reference_model,
            batch_size=[config.num_envs],
            device=self.env_device,
        )
        self.env.set_seed(stream(config.seed, "env"))
        self.eval_env: EnvBase[Any, Any] = ChatTrain(
            policy=self.acting_actor_network,
            reference=self.reference_model,
            batch_size=[config.evaluate_episodes],
            device=self.policy_device,
        )
        self.loss = GRPOLoss(
            actor_network=self.actor_network.get_new_version(generate=False, input_mode="tokens")
        )
        self.loss.generator = self.drawing
        self.optimizer: torch.optim.Optimizer = AdamW(self.loss.parameters(), lr=config.lr)
        self.policy: nn.Module = self.acting_actor_network
        self.shuffling = torch.Generator().manual_seed(stream(config.seed, "minibatches"))

    @cached_property
    def collector(self) -> BaseCollector[Any]:
        """What collects: it is made when it is first asked for, of the parts as they are then."""
        config = self.config
        return Collector(
            self.env, self.policy, frames_per_batch=config.num_envs * config.num_steps, total_frames=-1,
            policy_device=self.policy_device, storing_device=self.data_device,
        )

    # ...


# ...
