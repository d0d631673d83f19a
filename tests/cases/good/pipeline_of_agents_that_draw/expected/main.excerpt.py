# ...


def qvalue_network() -> ValueOperator:
    """Make a network from `robot.observation`, float32 [2], `robot.action`, float32 [1] in [-1, 1], to
    `robot.state_action_value`, float32 [1]. Each agent has parameters of its own, and sees what all
    observe.
    """
    return ValueOperator(
        MultiAgentMLP(
            n_agent_inputs=3, n_agent_outputs=1, n_agents=2, centralized=True, share_params=False,
            num_cells=[32], activation_class=nn.ReLU,
        ),
        in_keys=[("robot", "observation"), ("robot", "action")],
        out_keys=[("robot", "state_action_value")],
    )


class Pushing(PipelineParts):
    """The pipeline `Pushing`.

    These are its parts; `train` is the loop over them, and any other loop may be written over them.
    """

    returns: ClassVar[Mapping[str, NestedKey]] = {"robot": "episode_reward"}

    stored: ClassVar[Sequence[NestedKey]] = (
        ("robot", "observation"),
        ("next", "robot", "observation"),
        ("robot", "action"),
        ("next", "reward"),
        ("next", "robot", "done"),
        ("next", "robot", "terminated"),
    )

    def __init__(self, config: PushingConfig | None = None) -> None:
        config = PushingConfig() if config is None else config
        self.device = available_device("device", config.device)
        torch.manual_seed(stream(config.seed, "networks"))
        self.config = config
        self.env: EnvBase[TeamData, Any] = Team(batch_size=[config.num_envs], device=self.device)
        self.env.set_seed(stream(config.seed, "env"))
        self.eval_env: EnvBase[TeamData, Any] = Team(
            batch_size=[config.evaluate_episodes], device=self.device
        )
        self.exploring = torch.Generator(self.device).manual_seed(stream(config.seed, "exploration"))
        self.actor_network = actor_network(self.exploring).to(self.device)
        self.qvalue_network = qvalue_network().to(self.device)
        self.policy: nn.Module = self.actor_network
        self.drawing = torch.Generator(self.device).manual_seed(stream(config.seed, "loss"))
        self.robot_loss = SACLoss(
            actor_network=self.actor_network,
            qvalue_network=self.qvalue_network,
            action_spec=self.env.full_action_spec_unbatched,
        ).make_value_estimator(ValueEstimators.TD0, gamma=config.gamma)
        self.robot_loss.set_keys(
            action=("robot", "action"),
            done=("robot", "done"),
            terminated=("robot", "terminated"),
            priority=("robot", "td_error"),
            value=("robot", "state_value"),
            advantage=("robot", "advantage"),
            value_target=("robot", "value_target"),
            log_prob=("robot", "action_log_prob"),
            state_action_value=("robot", "state_action_value"),
        )
        self.robot_loss.generator = self.drawing
        self.robot_updater: TargetNetUpdater = SoftUpdate(self.robot_loss, tau=config.tau)
        self.optimizer: torch.optim.Optimizer = Adam(self.robot_loss.parameters(), lr=config.lr)
        self.sampler = PrioritizedSampler(config.capacity, alpha=config.alpha, beta=config.beta)
        self.buffer = TensorDictReplayBuffer(
            storage=LazyTensorStorage(config.capacity),
            sampler=self.sampler,
            priority_key=("robot", "td_error"),
            batch_size=config.batch_size,
            generator=torch.Generator().manual_seed(stream(config.seed, "buffer")),
        )

    @cached_property
    def collector(self) -> BaseCollector[TeamData]:
        """What collects: it is made when it is first asked for, of the parts as they are then."""
        config = self.config
        return Collector(
            self.env, self.policy, frames_per_batch=config.num_envs * config.num_steps, total_frames=-1
        )

    def state_dict(self) -> dict[str, Any]:
        """All that a training goes on from, bit by bit; buffers are kept beside it."""
        return {
            "robot_loss": self.robot_loss.state_dict(),
            "robot_updater": self.robot_updater.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "collector": self.collector.state_dict(),
            "exploring": self.exploring.get_state(),
            "drawing": self.drawing.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self._check_state(
            state, "robot_loss", "robot_updater", "optimizer", "collector", "exploring", "drawing"
        )
        self.robot_loss.load_state_dict(state["robot_loss"])
        self.robot_updater.load_state_dict(state["robot_updater"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.collector.load_state_dict(state["collector"])
        load_generator(self.exploring, state["exploring"])
        load_generator(self.drawing, state["drawing"])


# ...
