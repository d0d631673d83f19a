# ...


def memory() -> Trunk:
    """Make layers from `robot.observation`, float32 [2], to 16 features, on which `actor_network` stands."""
    return Trunk(
        GRUModule(
            input_size=2, hidden_size=16, in_keys=[("robot", "observation"), "memory_h"],
            out_keys=["memory_features", ("next", "memory_h")], agents=2,
        )
    )


# ...


class Pushing(PipelineParts):
    """The pipeline `Pushing`.

    These are its parts; `train` is the loop over them, and any other loop may be written over them.
    """

    returns: ClassVar[Mapping[str, NestedKey]] = {"robot": "episode_reward"}

    def __init__(self, config: PushingConfig | None = None) -> None:
        config = PushingConfig() if config is None else config
        self.device = available_device("device", config.device)
        torch.manual_seed(stream(config.seed, "networks"))
        self.config = config
        self.exploring = torch.Generator(self.device).manual_seed(stream(config.seed, "exploration"))
        self.memory = memory().to(self.device)
        self.actor_network = actor_network(self.memory, self.exploring).to(self.device)
        self.critic_network = critic_network().to(self.device)
        self.env: EnvBase[Any, Any] = with_primers(
            TransformedEnv(Team(batch_size=[config.num_envs], device=self.device), InitTracker()),
            self.actor_network,
        )
        self.env.set_seed(stream(config.seed, "env"))
        self.eval_env: EnvBase[Any, Any] = with_primers(
            TransformedEnv(Team(batch_size=[config.evaluate_episodes], device=self.device), InitTracker()),
            self.actor_network,
        )
        self.policy: nn.Module = self.actor_network
        self.drawing = torch.Generator(self.device).manual_seed(stream(config.seed, "loss"))
        self.robot_loss = MAPPOLoss(
            actor_network=self.actor_network, critic_network=self.critic_network
        ).make_value_estimator(ValueEstimators.MAGAE, gamma=config.gamma, lmbda=config.lmbda)
        self.robot_loss.set_keys(
            action=("robot", "action"),
            advantage=("robot", "advantage"),
            value_target=("robot", "value_target"),
            value=("robot", "state_value"),
            sample_log_prob=("robot", "action_log_prob"),
            done=("robot", "done"),
            terminated=("robot", "terminated"),
        )
        self.robot_loss.generator = self.drawing
        self.robot_estimator = self.robot_loss.value_estimator
        self.optimizer: torch.optim.Optimizer = Adam(self.robot_loss.parameters(), lr=config.lr)
        self.shuffling = torch.Generator().manual_seed(stream(config.seed, "minibatches"))

    @cached_property
    def collector(self) -> BaseCollector[Any]:
        """What collects: it is made when it is first asked for, of the parts as they are then."""
        config = self.config
        return Collector(
            self.env, self.policy, frames_per_batch=config.num_envs * config.num_steps, total_frames=-1
        )

    def state_dict(self) -> dict[str, Any]:
        """All that a training goes on from, bit by bit; buffers are kept beside it."""
        return {
            "robot_loss": self.robot_loss.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "collector": self.collector.state_dict(),
            "exploring": self.exploring.get_state(),
            "drawing": self.drawing.get_state(),
            "shuffling": self.shuffling.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self._check_state(state, "robot_loss", "optimizer", "collector", "exploring", "drawing", "shuffling")
        self.robot_loss.load_state_dict(state["robot_loss"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.collector.load_state_dict(state["collector"])
        load_generator(self.exploring, state["exploring"])
        load_generator(self.drawing, state["drawing"])
        load_generator(self.shuffling, state["shuffling"])


# ...
