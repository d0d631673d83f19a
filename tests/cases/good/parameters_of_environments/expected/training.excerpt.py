# ...


@dataclass(frozen=True)
class TrainingConfig:
    """Hyper-parameters of `Training`."""

    seed: int = 0
    """all random numbers follow from it"""
    heavy: float = 2.0
    """`mass` of the environment (> 0, <= 3)"""
    clip_epsilon: float = 0.2
    """how much likelier an action may become while it still pays, or how much less likely and how much
    likelier (>= 0, < 1)
    """
    critic_coeff: float = 0.5
    """the weight of the critic's term; 0 leaves it out (> 0)"""
    num_envs: int = 32
    """environments side by side (>= 1)"""
    num_steps: int = 16
    """steps of each environment between two updates of the policy (>= 1)"""
    epochs: int = 10
    """passes over each batch (>= 1)"""
    minibatch_size: int = 256
    """frames of an update; it divides num_envs * num_steps (>= 1)"""
    gamma: float = 0.99
    """discount of one step (>= 0, <= 1)"""
    lmbda: float = 0.95
    """decay of the trace of the estimator (>= 0, <= 1)"""
    actor_lr: float = 0.001
    """step size of the optimizer `actor` (> 0)"""
    actor_lr_end: float = 0.0
    """step size of the optimizer `actor`, at last (>= 0)"""
    actor_max_grad_norm: float = 0.5
    """gradients are scaled down to this norm, of `actor` (> 0)"""
    critic_lr: float = 0.005
    """step size of the optimizer `critic` (> 0)"""
    difficulty: float = 0.1
    """how hard the wind blows (>= 0, <= 1)"""
    difficulty_end: float = 0.9
    """how hard the wind blows, at last (>= 0, <= 1)"""
    difficulty_frames: int = 50_000
    """frames until `difficulty` is at its last value (>= 1)"""
    gusts: bool = False
    """whether it blows at all"""
    env_lr: float = 0.2
    """left and right (> 0)"""
    env_seed: int = 4
    """`seed` of the environment (>= 0)"""
    evaluate_difficulty: float = 1.0
    """how hard the wind blows, in evaluations (>= 0, <= 1)"""
    total_frames: int = 80_000
    """environment steps, of all environments together (>= 1)"""
    stop_return: float = -1.0
    """mean return of an evaluation that ends the training"""
    evaluate_every: int = 5120
    """frames between two evaluations (>= 1)"""
    evaluate_episodes: int = 50
    """episodes of an evaluation (>= 1)"""
    checkpoint_every: int = 8000
    """frames between two checkpoints (>= 1)"""
    device: str = "cpu"
    """where all of it runs: cpu, cuda, cuda:1, mps"""
    compile: bool = False
    """whether torch compiles the loss and its gradients, which takes seconds at the first update"""

    def __post_init__(self) -> None:
        float_param("heavy", self.heavy, above=0, at_most=3)
        float_param("clip_epsilon", self.clip_epsilon, at_least=0, below=1)
        float_param("critic_coeff", self.critic_coeff, above=0)
        int_param("num_envs", self.num_envs, at_least=1)
        int_param("num_steps", self.num_steps, at_least=1)
        int_param("epochs", self.epochs, at_least=1)
        int_param("minibatch_size", self.minibatch_size, at_least=1)
        float_param("gamma", self.gamma, at_least=0, at_most=1)
        float_param("lmbda", self.lmbda, at_least=0, at_most=1)
        float_param("actor_lr", self.actor_lr, above=0)
        float_param("actor_lr_end", self.actor_lr_end, at_least=0)
        float_param("actor_max_grad_norm", self.actor_max_grad_norm, above=0)
        float_param("critic_lr", self.critic_lr, above=0)
        float_param("difficulty", self.difficulty, at_least=0, at_most=1)
        float_param("difficulty_end", self.difficulty_end, at_least=0, at_most=1)
        int_param("difficulty_frames", self.difficulty_frames, at_least=1)
        bool_param("gusts", self.gusts)
        float_param("env_lr", self.env_lr, above=0)
        int_param("env_seed", self.env_seed, at_least=0)
        float_param("evaluate_difficulty", self.evaluate_difficulty, at_least=0, at_most=1)
        int_param("total_frames", self.total_frames, at_least=1)
        float_param("stop_return", self.stop_return)
        int_param("evaluate_every", self.evaluate_every, at_least=1)
        int_param("evaluate_episodes", self.evaluate_episodes, at_least=1)
        int_param("checkpoint_every", self.checkpoint_every, at_least=1)
        device_param("device", self.device)
        if self.num_envs * self.num_steps % self.minibatch_size:
            raise ValueError(f"minibatch_size must divide num_envs * num_steps, got {self.minibatch_size}")


# ...


class Training(PipelineParts):
    # ...

    def __init__(self, config: TrainingConfig | None = None) -> None:
        config = TrainingConfig() if config is None else config
        self.device = available_device("device", config.device)
        check_compiler("compile", config.compile, self.device)
        torch.manual_seed(stream(config.seed, "networks"))
        self.config = config
        self.env: EnvBase[SlideTrainData, Any] = SlideTrain(
            gains=[1.0, 0.5],
            difficulty=config.difficulty,
            gusts=config.gusts,
            lr=config.env_lr,
            seed=config.env_seed,
            mass=config.heavy,
            batch_size=[config.num_envs],
            device=self.device,
        )
        self.env.set_seed(stream(config.seed, "env"))
        self.eval_env: EnvBase[SlideTrainData, Any] = SlideTrain(
            difficulty=config.evaluate_difficulty,
            mass=config.heavy,
            batch_size=[config.evaluate_episodes],
            device=self.device,
        )
        self.exploring = torch.Generator(self.device).manual_seed(stream(config.seed, "exploration"))
        self.actor_network = actor_network(self.exploring).to(self.device)
        self.critic_network = critic_network().to(self.device)
        self.policy: nn.Module = self.actor_network
        self.drawing = torch.Generator(self.device).manual_seed(stream(config.seed, "loss"))
        self.loss = ClipPPOLoss(
            actor_network=self.actor_network,
            critic_network=self.critic_network,
            entropy_bonus=False,
            normalize_advantage=True,
            clip_epsilon=config.clip_epsilon,
            critic_coeff=config.critic_coeff,
        ).make_value_estimator(ValueEstimators.GAE, gamma=config.gamma, lmbda=config.lmbda)
        self.loss.generator = self.drawing
        self.estimator = self.loss.value_estimator
        self.actor_optimizer: torch.optim.Optimizer = Adam(
            self.actor_network.parameters(), lr=config.actor_lr
        )
        self.critic_optimizer: torch.optim.Optimizer = Adam(
            self.critic_network.parameters(), lr=config.critic_lr
        )
        self.shuffling = torch.Generator().manual_seed(stream(config.seed, "minibatches"))

    @cached_property
    def collector(self) -> BaseCollector[SlideTrainData]:
        """What collects: it is made when it is first asked for, of the parts as they are then."""
        config = self.config
        return Collector(
            self.env, self.policy, frames_per_batch=config.num_envs * config.num_steps, total_frames=-1
        )

    # ...


# ...
