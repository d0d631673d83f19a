# ...


def actor_network(config: PushingConfig, generator: torch.Generator) -> ProbabilisticActor:
    """Make a network from `robot.observation`, float32 [2], to a distribution (tanh_normal) over
    `robot.action`, float32 [1] in [-1, 1]. Each agent has parameters of its own.
    """
    net = nn.Sequential(
        MultiAgentMLP(
            n_agent_inputs=2, n_agent_outputs=1, n_agents=2, centralized=False, share_params=False,
            num_cells=[8], activation_class=nn.ReLU,
        ),
        AddStateIndependentNormalScale(1, init_value=math.log(config.init_scale)),
    )
    module = SafeModule(
        net, in_keys=[("robot", "observation")], out_keys=[("robot", "loc"), ("robot", "scale")]
    )
    return ProbabilisticActor(
        module, in_keys=[("robot", "loc"), ("robot", "scale")], out_keys=[("robot", "action")],
        distribution_class=TanhNormal, distribution_kwargs={"low": -1.0, "high": 1.0}, return_log_prob=True,
        log_prob_key=("robot", "action_log_prob"), default_interaction_type=ExplorationType.RANDOM,
        generator=generator,
    )


def critic_network() -> ValueOperator:
    """Make a network from `robot.observation`, float32 [2], to `robot.state_value`, float32 [1].

    Each agent has parameters of its own, and sees what all observe.
    """
    return ValueOperator(
        MultiAgentMLP(
            n_agent_inputs=2, n_agent_outputs=1, n_agents=2, centralized=True, share_params=False,
            num_cells=[8], activation_class=nn.ReLU,
        ),
        in_keys=[("robot", "observation")],
        out_keys=[("robot", "state_value")],
    )


class Pushing(PipelineParts):
    """The pipeline `Pushing`.

    These are its parts; `train` is the loop over them, and any other loop may be written over them.
    """

    returns: ClassVar[Mapping[str, NestedKey]] = {"robot": ("robot", "episode_reward")}

    stored: ClassVar[Sequence[NestedKey]] = (
        ("robot", "observation"),
        ("robot", "action"),
        ("robot", "advantage"),
        ("robot", "value_target"),
        ("robot", "action_log_prob"),
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
        self.actor_network = actor_network(config, self.exploring).to(self.device)
        self.critic_network = critic_network().to(self.device)
        self.policy: nn.Module = self.actor_network
        self.drawing = torch.Generator(self.device).manual_seed(stream(config.seed, "loss"))
        self.robot_loss = MAPPOLoss(
            actor_network=self.actor_network, critic_network=self.critic_network, entropy_bonus=False
        ).make_value_estimator(ValueEstimators.GAE, gamma=config.gamma, lmbda=config.lmbda)
        self.robot_loss.set_keys(
            action=("robot", "action"),
            advantage=("robot", "advantage"),
            value_target=("robot", "value_target"),
            value=("robot", "state_value"),
            sample_log_prob=("robot", "action_log_prob"),
            reward=("robot", "reward"),
            done=("robot", "done"),
            terminated=("robot", "terminated"),
        )
        self.robot_loss.generator = self.drawing
        self.robot_estimator = self.robot_loss.value_estimator
        self.optimizer: torch.optim.Optimizer = Adam(self.robot_loss.parameters(), lr=config.lr)
        self.shuffling = torch.Generator().manual_seed(stream(config.seed, "minibatches"))

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


def update(parts: Pushing, batch: TensorDictBase) -> PushingMetrics:
    """Take a step of the optimizer on a batch.

    Args:
        parts: the parts; they change.
        batch: [batch]; what the loss reads.
    """
    robot_losses = parts.robot_loss(batch)
    loss = robot_losses["loss_objective"] + robot_losses["loss_critic"]
    parts.optimizer.zero_grad()
    torch.autograd.backward(loss)
    parts.optimizer.step()
    return PushingMetrics(
        robot_loss_objective=robot_losses["loss_objective"].detach(),
        robot_loss_critic=robot_losses["loss_critic"].detach(),
        robot_kl_approx=robot_losses["kl_approx"].detach(),
        robot_explained_variance=robot_losses["explained_variance"].detach(),
        robot_clip_fraction=robot_losses["clip_fraction"].detach(),
        robot_ESS=robot_losses["ESS"].detach(),
        robot_max_ratio=robot_losses["max_ratio"].detach(),
        robot_mean_ratio=robot_losses["mean_ratio"].detach(),
    )


# ...
