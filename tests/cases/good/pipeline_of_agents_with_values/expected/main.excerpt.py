# ...


def robot_value_network() -> ValueOperator:
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


# ...


class Crossings(PipelineParts):
    """The pipeline `Crossings`.

    These are its parts; `train` is the loop over them, and any other loop may be written over them.
    """

    returns: ClassVar[Mapping[str, NestedKey]] = {
        "robot": ("robot", "episode_reward"),
        "walker": ("walker", "episode_reward"),
    }

    stored: ClassVar[Sequence[NestedKey]] = (
        ("robot", "observation"),
        ("next", "robot", "observation"),
        ("robot", "action"),
        ("walker", "observation"),
        ("next", "walker", "observation"),
        ("walker", "action"),
        ("next", "robot", "reward"),
        ("next", "robot", "done"),
        ("next", "robot", "terminated"),
        ("next", "walker", "reward"),
        ("next", "walker", "done"),
        ("next", "walker", "terminated"),
    )

    def __init__(self, config: CrossingsConfig | None = None) -> None:
        config = CrossingsConfig() if config is None else config
        self.device = available_device("device", config.device)
        torch.manual_seed(stream(config.seed, "networks"))
        self.config = config
        self.env: EnvBase[CrossingTrainData, Any] = CrossingTrain(
            batch_size=[config.num_envs], device=self.device
        )
        self.env.set_seed(stream(config.seed, "env"))
        self.eval_env: EnvBase[CrossingTrainData, Any] = CrossingTrain(
            batch_size=[config.evaluate_episodes], device=self.device
        )
        self.exploring = torch.Generator(self.device).manual_seed(stream(config.seed, "exploration"))
        self.robot_actor_network = robot_actor_network().to(self.device)
        self.robot_value_network = robot_value_network().to(self.device)
        self.walker_actor_network = walker_actor_network().to(self.device)
        self.walker_value_network = walker_value_network().to(self.device)
        self.robot_exploration = AdditiveGaussianModule(
            self.env.full_action_spec_unbatched,
            sigma_init=config.sigma,
            sigma_end=config.sigma,
            safe=True,
            action_key=("robot", "action"),
            generator=self.exploring,
            device=self.device,
        )
        self.walker_exploration = AdditiveGaussianModule(
            self.env.full_action_spec_unbatched,
            sigma_init=config.sigma,
            sigma_end=config.sigma,
            safe=True,
            action_key=("walker", "action"),
            generator=self.exploring,
            device=self.device,
        )
        self.policy: nn.Module = SafeSequential(
            self.robot_actor_network,
            self.robot_exploration,
            self.walker_actor_network,
            self.walker_exploration,
        )
        self.robot_loss = DDPGLoss(
            actor_network=self.robot_actor_network, value_network=self.robot_value_network
        ).make_value_estimator(ValueEstimators.TD0, gamma=config.gamma)
        self.robot_loss.set_keys(
            action=("robot", "action"),
            reward=("robot", "reward"),
            done=("robot", "done"),
            terminated=("robot", "terminated"),
            priority=("robot", "td_error"),
            state_action_value=("robot", "state_action_value"),
        )
        self.walker_loss = DDPGLoss(
            actor_network=self.walker_actor_network, value_network=self.walker_value_network
        ).make_value_estimator(ValueEstimators.TD0, gamma=config.gamma)
        self.walker_loss.set_keys(
            action=("walker", "action"),
            reward=("walker", "reward"),
            done=("walker", "done"),
            terminated=("walker", "terminated"),
            priority=("walker", "td_error"),
            state_action_value=("walker", "state_action_value"),
        )
        self.robot_updater: TargetNetUpdater = SoftUpdate(self.robot_loss, tau=config.tau)
        self.walker_updater: TargetNetUpdater = SoftUpdate(self.walker_loss, tau=config.tau)
        self.actors_optimizer: torch.optim.Optimizer = Adam(
            [*self.robot_actor_network.parameters(), *self.walker_actor_network.parameters()],
            lr=config.actors_lr,
        )
        self.critics_optimizer: torch.optim.Optimizer = Adam(
            [*self.robot_value_network.parameters(), *self.walker_value_network.parameters()],
            lr=config.critics_lr,
        )
        self.buffer = TensorDictReplayBuffer(
            storage=LazyTensorStorage(config.capacity),
            batch_size=config.batch_size,
            generator=torch.Generator().manual_seed(stream(config.seed, "buffer")),
        )

    @cached_property
    def collector(self) -> BaseCollector[CrossingTrainData]:
        """What collects: it is made when it is first asked for, of the parts as they are then."""
        config = self.config
        return Collector(
            self.env, self.policy, frames_per_batch=config.num_envs * config.num_steps, total_frames=-1
        )

    def state_dict(self) -> dict[str, Any]:
        """All that a training goes on from, bit by bit; buffers are kept beside it."""
        return {
            "robot_loss": self.robot_loss.state_dict(),
            "walker_loss": self.walker_loss.state_dict(),
            "robot_updater": self.robot_updater.state_dict(),
            "walker_updater": self.walker_updater.state_dict(),
            "actors_optimizer": self.actors_optimizer.state_dict(),
            "critics_optimizer": self.critics_optimizer.state_dict(),
            "collector": self.collector.state_dict(),
            "exploring": self.exploring.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self._check_state(
            state,
            "robot_loss",
            "walker_loss",
            "robot_updater",
            "walker_updater",
            "actors_optimizer",
            "critics_optimizer",
            "collector",
            "exploring",
        )
        self.robot_loss.load_state_dict(state["robot_loss"])
        self.walker_loss.load_state_dict(state["walker_loss"])
        self.robot_updater.load_state_dict(state["robot_updater"])
        self.walker_updater.load_state_dict(state["walker_updater"])
        self.actors_optimizer.load_state_dict(state["actors_optimizer"])
        self.critics_optimizer.load_state_dict(state["critics_optimizer"])
        self.collector.load_state_dict(state["collector"])
        load_generator(self.exploring, state["exploring"])


# ...
