# ...


@dataclass(frozen=True)
class PushingConfig:
    """Hyper-parameters of `Pushing`."""

    seed: int = 0
    """all random numbers follow from it"""
    num_envs: int = 4
    """environments side by side (>= 1)"""
    num_steps: int = 25
    """steps of each environment between two updates of the policy (>= 1)"""
    epochs: int = 2
    """passes over each batch (>= 1)"""
    minibatches: int = 2
    """updates of a pass; they divide num_envs * num_steps (>= 1)"""
    init_scale: float = 0.5
    """standard deviation of the policy at first, before squashing (> 0)"""
    gamma: float = 0.9
    """discount of one step (>= 0, <= 1)"""
    lmbda: float = 0.95
    """decay of the trace of the estimator (>= 0, <= 1)"""
    lr: float = 0.0003
    """step size of the optimizer (> 0)"""
    total_frames: int = 10_000
    """environment steps, of all environments together (>= 1)"""
    stop_return: float = -5.0
    """mean return of an evaluation that ends the training"""
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
        int_param("minibatches", self.minibatches, at_least=1)
        float_param("init_scale", self.init_scale, above=0)
        float_param("gamma", self.gamma, at_least=0, at_most=1)
        float_param("lmbda", self.lmbda, at_least=0, at_most=1)
        float_param("lr", self.lr, above=0)
        int_param("total_frames", self.total_frames, at_least=1)
        float_param("stop_return", self.stop_return)
        int_param("evaluate_every", self.evaluate_every, at_least=1)
        int_param("evaluate_episodes", self.evaluate_episodes, at_least=1)
        int_param("checkpoint_every", self.checkpoint_every, at_least=1)
        device_param("device", self.device)
        if self.num_envs * self.num_steps % self.minibatches:
            raise ValueError(f"minibatches must divide num_envs * num_steps, got {self.minibatches}")


# ...
