# ...


class ChatGRPO(PipelineParts):
    # ...

    def __init__(self, config: ChatGRPOConfig | None = None) -> None:
        config = ChatGRPOConfig() if config is None else config
        self.device = available_device("device", config.device)
        torch.manual_seed(stream(config.seed, "networks"))
        self.config = config
        self.exploring = torch.Generator(self.device).manual_seed(stream(config.seed, "exploration"))
        self.actor_network = policy_model(device=self.device).get_new_version(autocast=torch.bfloat16)
        self.actor_network.generator = self.exploring
        self.reference_model = reference_model(device=self.device).get_new_version(autocast=torch.bfloat16)
        self.env: EnvBase[Any, Any] = ChatTrain(
            policy=self.actor_network,
            reference=self.reference_model,
            batch_size=[config.num_envs],
            device=self.device,
        )
        self.env.set_seed(stream(config.seed, "env"))
        self.eval_env: EnvBase[Any, Any] = ChatTrain(
            policy=self.actor_network,
            reference=self.reference_model,
            batch_size=[config.evaluate_episodes],
            device=self.device,
        )
        self.policy: nn.Module = self.actor_network
        self.drawing = torch.Generator(self.device).manual_seed(stream(config.seed, "loss"))
        self.loss = GRPOLoss(
            actor_network=self.actor_network.get_new_version(generate=False, input_mode="tokens")
        )
        self.loss.generator = self.drawing
        self.optimizer: torch.optim.Optimizer = AdamW(self.loss.parameters(), lr=config.lr)
        self.shuffling = torch.Generator().manual_seed(stream(config.seed, "minibatches"))

    @cached_property
    def collector(self) -> BaseCollector[Any]:
        """What collects: it is made when it is first asked for, of the parts as they are then."""
        config = self.config
        return Collector(
            self.env, self.policy, frames_per_batch=config.num_envs * config.num_steps, total_frames=-1
        )

    # ...


# ...
