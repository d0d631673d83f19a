# ...


def dial_value_network() -> QValueActor:
    """Make a network from `dial.observation`, float32 [3], to the values of 3 choices, 9 side by side, by
    the value of the state and advantages. One for all agents, each by itself.
    """
    return QValueActor(
        nn.Sequential(
            MLP(in_features=3, out_features=10, num_cells=[32], activation_class=nn.Tanh),
            DuelingValues((3, 2, 4)),
        ),
        in_keys=[("dial", "observation")],
        action_space="multi-categorical",
        var_nums=(3, 2, 4),
        action_key=("dial", "action"),
        action_value_key=("dial", "action_value"),
        chosen_action_value_key=("dial", "chosen_action_value"),
    )


def lever_value_network(config: MachinesConfig) -> DistributionalQValueActor:
    """Make a network from `lever.observation`, float32 [2], to log-probabilities of the values of each of
    4 actions, by the value of the state and advantages. Each agent has parameters of its own.
    """
    support = torch.linspace(config.v_min, config.v_max, config.atoms)
    return DistributionalQValueActor(
        nn.Sequential(
            MultiAgentMLP(
                n_agent_inputs=2, n_agent_outputs=(config.atoms, 5), n_agents=3, centralized=False,
                share_params=False, num_cells=[32], activation_class=nn.ReLU,
            ),
            DuelingValues(),
        ),
        in_keys=[("lever", "observation")],
        action_space="categorical",
        support=support,
        action_key=("lever", "action"),
        action_value_key=("lever", "action_value"),
    )


def pedal_value_network() -> QuantileQValueActor:
    """Make a network from `lever.observation` of all 3, float32 [2], `pedal.observation`, float32 [1], to
    quantiles of the value of each of 3 actions. Each agent has parameters of its own.
    """
    return QuantileQValueActor(
        CentralizedNet(
            MultiAgentMLP(
                n_agent_inputs=7, n_agent_outputs=(8, 3), n_agents=1, centralized=False, share_params=False,
                num_cells=[32], activation_class=nn.ReLU,
            ),
            n_agents=1,
            inputs=["all", "all"],
        ),
        in_keys=[("lever", "observation"), ("pedal", "observation")],
        action_space="categorical",
        action_key=("pedal", "action"),
        action_value_key=("pedal", "action_value"),
    )


# ...


def arm_qvalue_network() -> ValueOperator:
    """Make a network from `arm.observation`, float32 [1] in [-1, 1], `arm.action`, float32 [1] in [-1, 1],
    to `arm.state_action_value`, float32 [8]. Each agent has parameters of its own, and sees what all
    observe.
    """
    return ValueOperator(
        MultiAgentMLP(
            n_agent_inputs=2, n_agent_outputs=8, n_agents=2, centralized=True, share_params=False,
            num_cells=[32], activation_class=nn.ReLU,
        ),
        in_keys=[("arm", "observation"), ("arm", "action")],
        out_keys=[("arm", "state_action_value")],
    )


class Machines(PipelineParts):
    """The pipeline `Machines`.

    These are its parts; `train` is the loop over them, and any other loop may be written over them.
    """

    returns: ClassVar[Mapping[str, NestedKey]] = {
        "dial": ("dial", "episode_reward"),
        "lever": ("lever", "episode_reward"),
        "pedal": ("pedal", "episode_reward"),
        "arm": ("arm", "episode_reward"),
    }

    stored: ClassVar[Sequence[NestedKey]] = (
        ("dial", "observation"),
        ("next", "dial", "observation"),
        ("dial", "action"),
        ("lever", "observation"),
        ("next", "lever", "observation"),
        ("lever", "action"),
        ("pedal", "observation"),
        ("next", "pedal", "observation"),
        ("pedal", "action"),
        ("arm", "observation"),
        ("next", "arm", "observation"),
        ("arm", "action"),
        ("next", "dial", "reward"),
        ("next", "dial", "done"),
        ("next", "dial", "terminated"),
        ("next", "lever", "reward"),
        ("next", "lever", "done"),
        ("next", "lever", "terminated"),
        ("next", "pedal", "reward"),
        ("next", "pedal", "done"),
        ("next", "pedal", "terminated"),
        ("next", "arm", "reward"),
        ("next", "arm", "done"),
        ("next", "arm", "terminated"),
    )

    def __init__(self, config: MachinesConfig | None = None) -> None:
        config = MachinesConfig() if config is None else config
        self.device = available_device("device", config.device)
        torch.manual_seed(stream(config.seed, "networks"))
        self.config = config
        self.env: EnvBase[WorkshopTrainData, Any] = WorkshopTrain(
            batch_size=[config.num_envs], device=self.device
        )
        self.env.set_seed(stream(config.seed, "env"))
        self.eval_env: EnvBase[WorkshopTrainData, Any] = WorkshopTrain(
            batch_size=[config.evaluate_episodes], device=self.device
        )
        self.exploring = torch.Generator(self.device).manual_seed(stream(config.seed, "exploration"))
        self.dial_value_network = dial_value_network().to(self.device)
        self.lever_value_network = lever_value_network(config).to(self.device)
        self.pedal_value_network = pedal_value_network().to(self.device)
        self.arm_actor_network = arm_actor_network(self.exploring).to(self.device)
        self.arm_qvalue_network = arm_qvalue_network().to(self.device)
        self.dial_exploration = EGreedyModule(
            self.env.full_action_spec_unbatched,
            eps_init=config.eps,
            eps_end=config.eps,
            action_key=("dial", "action"),
            generator=self.exploring,
            device=self.device,
        )
        self.lever_exploration = EGreedyModule(
            self.env.full_action_spec_unbatched,
            eps_init=config.eps,
            eps_end=config.eps,
            action_key=("lever", "action"),
            generator=self.exploring,
            device=self.device,
        )
        self.pedal_exploration = EGreedyModule(
            self.env.full_action_spec_unbatched,
            eps_init=config.eps,
            eps_end=config.eps,
            action_key=("pedal", "action"),
            generator=self.exploring,
            device=self.device,
        )
        self.policy: nn.Module = SafeSequential(
            self.arm_actor_network,
            self.dial_value_network,
            self.dial_exploration,
            self.lever_value_network,
            self.lever_exploration,
            self.pedal_value_network,
            self.pedal_exploration,
        )
        self.drawing = torch.Generator(self.device).manual_seed(stream(config.seed, "loss"))
        self.dial_loss = BranchingDQNLoss(value_network=self.dial_value_network).make_value_estimator(
            ValueEstimators.TD0, gamma=config.gamma
        )
        self.dial_loss.set_keys(
            action=("dial", "action"),
            reward=("dial", "reward"),
            done=("dial", "done"),
            terminated=("dial", "terminated"),
            priority=("dial", "td_error"),
            value=("dial", "chosen_action_value"),
            advantage=("dial", "advantage"),
            value_target=("dial", "value_target"),
            action_value=("dial", "action_value"),
        )
        self.lever_loss = DistributionalDQNLoss(value_network=self.lever_value_network)
        self.lever_loss.set_keys(
            action=("lever", "action"),
            reward=("lever", "reward"),
            done=("lever", "done"),
            terminated=("lever", "terminated"),
            priority=("lever", "td_error"),
            steps_to_next_obs=("lever", "steps_to_next_obs"),
            action_value=("lever", "action_value"),
        )
        self.pedal_loss = QRDQNLoss(value_network=self.pedal_value_network)
        self.pedal_loss.set_keys(
            action=("pedal", "action"),
            reward=("pedal", "reward"),
            done=("pedal", "done"),
            terminated=("pedal", "terminated"),
            priority=("pedal", "td_error"),
            steps_to_next_obs=("pedal", "steps_to_next_obs"),
            action_value=("pedal", "action_value"),
        )
        self.arm_loss = TQCLoss(
            actor_network=self.arm_actor_network,
            qvalue_network=self.arm_qvalue_network,
            num_qvalue_nets=config.arm_num_qvalue_nets,
            target_entropy=config.arm_target_entropy,
            action_spec=self.env.full_action_spec_unbatched,
        ).make_value_estimator(ValueEstimators.TD0, gamma=config.gamma)
        self.arm_loss.set_keys(
            action=("arm", "action"),
            reward=("arm", "reward"),
            done=("arm", "done"),
            terminated=("arm", "terminated"),
            priority=("arm", "td_error"),
            value=("arm", "state_value"),
            advantage=("arm", "advantage"),
            value_target=("arm", "value_target"),
            log_prob=("arm", "action_log_prob"),
            state_action_value=("arm", "state_action_value"),
        )
        self.arm_loss.generator = self.drawing
        self.dial_updater: TargetNetUpdater = SoftUpdate(self.dial_loss, tau=config.tau)
        self.lever_updater: TargetNetUpdater = SoftUpdate(self.lever_loss, tau=config.tau)
        self.pedal_updater: TargetNetUpdater = SoftUpdate(self.pedal_loss, tau=config.tau)
        self.arm_updater: TargetNetUpdater = SoftUpdate(self.arm_loss, tau=config.tau)
        self.optimizer: torch.optim.Optimizer = Adam(
            [
                *self.dial_loss.parameters(),
                *self.lever_loss.parameters(),
                *self.pedal_loss.parameters(),
                *self.arm_loss.parameters(),
            ],
            lr=config.lr,
        )
        self.buffer = TensorDictReplayBuffer(
            storage=LazyTensorStorage(config.capacity),
            batch_size=config.batch_size,
            generator=torch.Generator().manual_seed(stream(config.seed, "buffer")),
        )

    @cached_property
    def collector(self) -> BaseCollector[WorkshopTrainData]:
        """What collects: it is made when it is first asked for, of the parts as they are then."""
        config = self.config
        return Collector(
            self.env, self.policy, frames_per_batch=config.num_envs * config.num_steps, total_frames=-1
        )

    def state_dict(self) -> dict[str, Any]:
        """All that a training goes on from, bit by bit; buffers are kept beside it."""
        return {
            "dial_loss": self.dial_loss.state_dict(),
            "lever_loss": self.lever_loss.state_dict(),
            "pedal_loss": self.pedal_loss.state_dict(),
            "arm_loss": self.arm_loss.state_dict(),
            "dial_updater": self.dial_updater.state_dict(),
            "lever_updater": self.lever_updater.state_dict(),
            "pedal_updater": self.pedal_updater.state_dict(),
            "arm_updater": self.arm_updater.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "collector": self.collector.state_dict(),
            "exploring": self.exploring.get_state(),
            "drawing": self.drawing.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self._check_state(
            state,
            "dial_loss",
            "lever_loss",
            "pedal_loss",
            "arm_loss",
            "dial_updater",
            "lever_updater",
            "pedal_updater",
            "arm_updater",
            "optimizer",
            "collector",
            "exploring",
            "drawing",
        )
        self.dial_loss.load_state_dict(state["dial_loss"])
        self.lever_loss.load_state_dict(state["lever_loss"])
        self.pedal_loss.load_state_dict(state["pedal_loss"])
        self.arm_loss.load_state_dict(state["arm_loss"])
        self.dial_updater.load_state_dict(state["dial_updater"])
        self.lever_updater.load_state_dict(state["lever_updater"])
        self.pedal_updater.load_state_dict(state["pedal_updater"])
        self.arm_updater.load_state_dict(state["arm_updater"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.collector.load_state_dict(state["collector"])
        load_generator(self.exploring, state["exploring"])
        load_generator(self.drawing, state["drawing"])


# ...
