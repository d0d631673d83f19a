# ...


@dataclass(frozen=True)
class TrainingConfig:
    """Hyper-parameters of `Training`."""

    seed: int = 0
    """all random numbers follow from it"""
    num_envs: int = 4
    """environments side by side (>= 1)"""
    num_steps: int = 32
    """steps of each environment between two updates of the policy (>= 1)"""
    epochs: int = 2
    """passes over each batch (>= 1)"""
    minibatch_size: int = 32
    """frames of an update; it divides num_envs * num_steps (>= 1)"""
    gamma: float = 0.9
    """discount of one step (>= 0, <= 1)"""
    lmbda: float = 0.95
    """decay of the trace of the estimator (>= 0, <= 1)"""
    lr: float = 0.001
    """step size of the optimizer (> 0)"""
    max_steps: int = 100
    """the length at which an episode is truncated (>= 1, <= 1000)"""
    reward_scale: float = 0.1
    """the factor of rewards (> 0)"""
    reward_scale_end: float = 1.0
    """the factor of rewards, at last (> 0)"""
    evaluate_max_steps: int = 200
    """the length at which an episode is truncated, in evaluations (>= 1, <= 1000)"""
    total_frames: int = 10_000
    """environment steps, of all environments together (>= 1)"""
    evaluate_every: int = 500
    """frames between two evaluations (>= 1)"""
    evaluate_episodes: int = 20
    """episodes of an evaluation (>= 1)"""
    checkpoint_every: int = 1000
    """frames between two checkpoints (>= 1)"""
    device: str = "cpu"
    """where all of it runs: cpu, cuda, cuda:1, mps"""

    def __post_init__(self) -> None:
        int_param("num_envs", self.num_envs, at_least=1)
        int_param("num_steps", self.num_steps, at_least=1)
        int_param("epochs", self.epochs, at_least=1)
        int_param("minibatch_size", self.minibatch_size, at_least=1)
        float_param("gamma", self.gamma, at_least=0, at_most=1)
        float_param("lmbda", self.lmbda, at_least=0, at_most=1)
        float_param("lr", self.lr, above=0)
        int_param("max_steps", self.max_steps, at_least=1, at_most=1000)
        float_param("reward_scale", self.reward_scale, above=0)
        float_param("reward_scale_end", self.reward_scale_end, above=0)
        int_param("evaluate_max_steps", self.evaluate_max_steps, at_least=1, at_most=1000)
        int_param("total_frames", self.total_frames, at_least=1)
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
        torch.manual_seed(stream(config.seed, "networks"))
        self.config = config
        self.env: EnvBase[TaskData, Any] = Task(
            max_steps=config.max_steps,
            reward_scale=config.reward_scale,
            batch_size=[config.num_envs],
            device=self.device,
        )
        self.env.set_seed(stream(config.seed, "env"))
        self.eval_env: EnvBase[TaskData, Any] = Task(
            max_steps=config.evaluate_max_steps, batch_size=[config.evaluate_episodes], device=self.device
        )
        self.exploring = torch.Generator(self.device).manual_seed(stream(config.seed, "exploration"))
        self.actor_network = actor_network(self.exploring).to(self.device)
        self.critic_network = critic_network().to(self.device)
        self.policy: nn.Module = self.actor_network
        self.drawing = torch.Generator(self.device).manual_seed(stream(config.seed, "loss"))
        self.loss = ClipPPOLoss(
            actor_network=self.actor_network, critic_network=self.critic_network
        ).make_value_estimator(ValueEstimators.GAE, gamma=config.gamma, lmbda=config.lmbda)
        self.loss.generator = self.drawing
        self.estimator = self.loss.value_estimator
        self.optimizer: torch.optim.Optimizer = Adam(self.loss.parameters(), lr=config.lr)
        self.shuffling = torch.Generator().manual_seed(stream(config.seed, "minibatches"))

    # ...


# ...


def train(
    config: TrainingConfig = TrainingConfig(), *, folder: Path = Path("runs/training"), resume: bool = False,
    parts_class: type[Training] = Training,
) -> Training:
    """Train until `total_frames` are over.

    Args:
        config: hyper-parameters.
        folder: where the log, the curve and the checkpoints are kept.
        resume: go on from the last checkpoint in `folder`, if there is one.
        parts_class: makes the parts; a class that extends `Training` may put others in their places.

    Raises:
        FileExistsError: if `folder` holds a training, and `resume` is not set.
    """
    parts = parts_class(config)
    with Run(
        folder,
        config,
        parts,
        total_frames=config.total_frames,
        resume=resume,
        keep=2,
        may_change=(
            "evaluate_every",
            "evaluate_episodes",
            "checkpoint_every",
            "device",
            "lr",
            "reward_scale",
            "reward_scale_end",
        ),
    ) as run:
        batches = iter(parts.collector)
        while run.frames < config.total_frames:
            parts.optimizer.param_groups[0]["lr"] = config.lr
            parts.env.params = parts.env.params._replace(
                reward_scale=linear(
                    run.frames, config.reward_scale, config.reward_scale_end, config.total_frames
                )
            )
            # act
            batch = next(batches)
            run.count(batch)
            # estimate
            with torch.no_grad():
                parts.estimator(batch)
            # learn
            for minibatch in minibatches(
                batch.select(*parts.stored),
                config.minibatch_size,
                generator=parts.shuffling,
                epochs=config.epochs,
            ):
                run.add(update(parts, minibatch))
            # look
            if run.due("evaluate", config.evaluate_every):
                score = evaluate(
                    parts.eval_env, parts.policy, seed=stream(config.seed, f"evaluate/{run.frames}"),
                    episodes=config.evaluate_episodes,
                )
                run.best = max(run.best, score)
                run.log(evaluation=score)
            if run.due("checkpoint", config.checkpoint_every):
                run.save()
        run.save()
    draw_curve(folder)
    return parts


# ...
