# ...


def adversary_value_network() -> QValueActor:
    """Make a network from `adversary.observation`, float32 [16], to one value for each of 5 actions.

    Each agent has parameters of its own.
    """
    return QValueActor(
        MultiAgentMLP(
            n_agent_inputs=16, n_agent_outputs=5, n_agents=3, centralized=False, share_params=False,
            num_cells=[32], activation_class=nn.ReLU,
        ),
        in_keys=[("adversary", "observation")],
        action_space="categorical",
        action_key=("adversary", "action"),
        action_value_key=("adversary", "action_value"),
        chosen_action_value_key=("adversary", "chosen_action_value"),
    )


# ...


class Hunting(PipelineParts):
    """The pipeline `Hunting`.

    These are its parts; `train` is the loop over them, and any other loop may be written over them.
    """

    returns: ClassVar[Mapping[str, NestedKey]] = {
        "adversary": ("adversary", "episode_reward"),
        "agent": ("agent", "episode_reward"),
    }

    stored: ClassVar[Sequence[NestedKey]] = (
        ("adversary", "observation"),
        ("next", "adversary", "observation"),
        ("adversary", "action"),
        ("agent", "observation"),
        ("next", "agent", "observation"),
        ("agent", "action"),
        ("next", "adversary", "reward"),
        ("next", "adversary", "done"),
        ("next", "adversary", "terminated"),
        ("next", "agent", "reward"),
        ("next", "agent", "done"),
        ("next", "agent", "terminated"),
    )

    def __init__(self, config: HuntingConfig | None = None) -> None:
        config = HuntingConfig() if config is None else config
        self.device = available_device("device", config.device)
        torch.manual_seed(stream(config.seed, "networks"))
        self.config = config
        self.env: EnvBase[SimpleTagTrainData, Any] = SimpleTagTrain(
            batch_size=[config.num_envs], device=self.device
        )
        self.env.set_seed(stream(config.seed, "env"))
        self.eval_env: EnvBase[SimpleTagTrainData, Any] = SimpleTagTrain(
            batch_size=[config.evaluate_episodes], device=self.device
        )
        self.exploring = torch.Generator(self.device).manual_seed(stream(config.seed, "exploration"))
        self.adversary_value_network = adversary_value_network().to(self.device)
        self.agent_value_network = agent_value_network().to(self.device)
        self.adversary_exploration = EGreedyModule(
            self.env.full_action_spec_unbatched,
            eps_init=config.eps,
            eps_end=config.eps,
            action_key=("adversary", "action"),
            generator=self.exploring,
            device=self.device,
        )
        self.agent_exploration = EGreedyModule(
            self.env.full_action_spec_unbatched,
            eps_init=config.eps,
            eps_end=config.eps,
            action_key=("agent", "action"),
            generator=self.exploring,
            device=self.device,
        )
        self.policy: nn.Module = SafeSequential(
            self.adversary_value_network,
            self.adversary_exploration,
            self.agent_value_network,
            self.agent_exploration,
        )
        self.adversary_loss = DQNLoss(value_network=self.adversary_value_network).make_value_estimator(
            ValueEstimators.TD0, gamma=config.gamma
        )
        self.adversary_loss.set_keys(
            action=("adversary", "action"),
            reward=("adversary", "reward"),
            done=("adversary", "done"),
            terminated=("adversary", "terminated"),
            priority=("adversary", "td_error"),
            value=("adversary", "chosen_action_value"),
            advantage=("adversary", "advantage"),
            value_target=("adversary", "value_target"),
            action_value=("adversary", "action_value"),
        )
        self.agent_loss = DQNLoss(
            value_network=self.agent_value_network, double_dqn=True
        ).make_value_estimator(ValueEstimators.TD0, gamma=config.gamma)
        self.agent_loss.set_keys(
            action=("agent", "action"),
            reward=("agent", "reward"),
            done=("agent", "done"),
            terminated=("agent", "terminated"),
            priority=("agent", "td_error"),
            value=("agent", "chosen_action_value"),
            advantage=("agent", "advantage"),
            value_target=("agent", "value_target"),
            action_value=("agent", "action_value"),
        )
        self.adversary_updater: TargetNetUpdater = SoftUpdate(self.adversary_loss, tau=config.tau)
        self.agent_updater: TargetNetUpdater = SoftUpdate(self.agent_loss, tau=config.tau)
        self.optimizer: torch.optim.Optimizer = Adam(
            [*self.adversary_loss.parameters(), *self.agent_loss.parameters()], lr=config.lr
        )
        self.buffer = TensorDictReplayBuffer(
            storage=LazyTensorStorage(config.capacity),
            batch_size=config.batch_size,
            generator=torch.Generator().manual_seed(stream(config.seed, "buffer")),
        )

    @cached_property
    def collector(self) -> BaseCollector[SimpleTagTrainData]:
        """What collects: it is made when it is first asked for, of the parts as they are then."""
        config = self.config
        return Collector(
            self.env, self.policy, frames_per_batch=config.num_envs * config.num_steps, total_frames=-1
        )

    def state_dict(self) -> dict[str, Any]:
        """All that a training goes on from, bit by bit; buffers are kept beside it."""
        return {
            "adversary_loss": self.adversary_loss.state_dict(),
            "agent_loss": self.agent_loss.state_dict(),
            "adversary_updater": self.adversary_updater.state_dict(),
            "agent_updater": self.agent_updater.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "collector": self.collector.state_dict(),
            "exploring": self.exploring.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self._check_state(
            state,
            "adversary_loss",
            "agent_loss",
            "adversary_updater",
            "agent_updater",
            "optimizer",
            "collector",
            "exploring",
        )
        self.adversary_loss.load_state_dict(state["adversary_loss"])
        self.agent_loss.load_state_dict(state["agent_loss"])
        self.adversary_updater.load_state_dict(state["adversary_updater"])
        self.agent_updater.load_state_dict(state["agent_updater"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.collector.load_state_dict(state["collector"])
        load_generator(self.exploring, state["exploring"])


# ...
