"""The fields of pipelines that are numbers: their names as hyper-parameters, kinds, ranges and documentation."""

from __future__ import annotations

from specgen.check.pipelines.model import SettingKind
from specgen.values import dataclass, replace

_POSITIVE = ((">", 0.0),)
_COUNT = ((">=", 1.0),)
_FRACTION = ((">=", 0.0), ("<=", 1.0))
_NONNEGATIVE = ((">=", 0.0),)


@dataclass(frozen=True)
class Fact:
    """What is known of a field that is a number.

    Attributes:
        name: the hyper-parameter that it becomes.
        kind: whether it is a whole number, or a truth value.
        doc: one line.
        range: what must hold of it.
        scheduled: whether it may change in training.
        stays: why it may not, where that is not plain.
        shared: whether it is one number for the whole pipeline.
        ends_in_range: whether the last value of a schedule has the same range; else that may be 0.
        help: what to write where it is out of range.
        called: the field, where the hyper-parameter is called otherwise.
    """

    name: str
    kind: SettingKind
    doc: str
    range: tuple[tuple[str, float], ...] = ()
    scheduled: bool = False
    stays: str = ""
    shared: bool = False
    ends_in_range: bool = False
    help: str | None = None
    called: str = ""

    @property
    def field(self) -> str:
        """The field, as messages name it."""
        return self.called or self.name

    def of(self, owner: str) -> Fact:
        """The field of one of several owners, whose name stands in front."""
        return replace(self, name=f"{owner}_{self.name}", called=self.field)

    def ending(self) -> Fact:
        """The last value of a schedule, which may be 0 in most."""
        wider = {} if self.ends_in_range else {(">", 0.0): (">=", 0.0)}
        range = dict.fromkeys(wider.get(pair, pair) for pair in self.range)
        return replace(self, name=f"{self.name}_end", doc=f"{self.doc}, at last", range=tuple(range))

    def lasting(self, unit: str) -> Fact:
        """How long a schedule takes, in `frames` or `updates`."""
        return Fact(f"{self.name}_{unit}", "int", f"{unit} until `{self.name}` is at its last value", _COUNT)


_FACTS = (
    Fact("num_envs", "int", "environments side by side", _COUNT),
    Fact("num_steps", "int", "steps of each environment between two updates of the policy", _COUNT),
    Fact("epochs", "int", "passes over each batch", _COUNT),
    Fact("minibatch_size", "int", "frames of an update; it divides num_envs * num_steps", _COUNT),
    Fact("minibatches", "int", "updates of a pass; they divide num_envs * num_steps", _COUNT),
    Fact("accumulate", "int", "parts of an update, one after the other, whose gradients are summed", _COUNT),
    Fact("capacity", "int", "frames that the replay buffer holds", _COUNT),
    Fact("batch_size", "int", "frames of an update", _COUNT),
    Fact("warm_up_frames", "int", "frames before the first update", _NONNEGATIVE),
    Fact("random_frames", "int", "frames at first in which actions are random", _NONNEGATIVE),
    Fact("updates", "int", "updates for each batch that is collected", _COUNT),
    Fact("length", "int", "steps of a slice; they divide batch_size", ((">=", 2.0),)),
    Fact("her_ratio", "float", "how much of a batch has goals that were achieved", _FRACTION),
    Fact("n_step", "int", "steps whose rewards are summed", _COUNT),
    Fact("alpha", "float", "power of the priorities by which frames are drawn", _NONNEGATIVE),
    Fact("beta", "float", "power of the weights that make up for it", _FRACTION, scheduled=True),
    Fact("lr", "float", "step size of the optimizer", _POSITIVE, scheduled=True),
    Fact("eps", "float", "fraction of random actions", _FRACTION, scheduled=True),
    Fact("sigma", "float", "deviation of the noise on actions", _NONNEGATIVE, scheduled=True),
    Fact("theta", "float", "how fast the noise returns to 0", _NONNEGATIVE),
    Fact("dt", "float", "the time of a step in the process of the noise", _POSITIVE),
    Fact(
        "tau",
        "float",
        "how much of a network comes into its target at each update",
        ((">", 0.0), ("<=", 1.0)),
        scheduled=True,
    ),
    Fact(
        "interval", "int", "updates after which targets are replaced", _COUNT,
        help="a fraction at each update is `soft: {tau: …}`",
    ),
    Fact("gamma", "float", "discount of one step", _FRACTION, shared=True),
    Fact("lmbda", "float", "decay of the trace of the estimator", _FRACTION),
    Fact("every", "int", "updates between two steps of the optimizer", _COUNT),
    Fact("max_grad_norm", "float", "gradients are scaled down to this norm", _POSITIVE, scheduled=True),
    Fact("weight_decay", "float", "decay of the weights", _NONNEGATIVE),
    Fact("momentum", "float", "momentum of the optimizer", _FRACTION),
    Fact("beta1", "float", "decay of the mean of gradients", ((">=", 0.0), ("<", 1.0))),
    Fact("beta2", "float", "decay of the mean of squared gradients", ((">=", 0.0), ("<", 1.0))),
    Fact("parameter", "float", "standard deviation of the policy at first, before squashing", _POSITIVE, called="parameter"),
)  # fmt: skip

CONFIG_NAMES = frozenset({"seed", "recorded", "compile", "device", "env_device", "policy_device", "data_device", "loss_device"}) | {
    "folder", "resume",
}  # fmt: skip
"""What the configuration, or the command line, has besides numbers."""

FIELDS: dict[str, Fact] = {fact.name: fact for fact in _FACTS}
FIELDS["parameter"] = replace(FIELDS["parameter"], name="init_scale")
FIELDS["length"] = replace(FIELDS["length"], name="slice_length", called="length")

INIT_GAIN = Fact(
    "init_gain", "float", "factor of the first weights of hidden layers", _POSITIVE, called="gain"
)
HEAD_GAIN = Fact("head_gain", "float", "factor of the first weights of the last layer", _POSITIVE)
DROPOUT = Fact(
    "dropout",
    "float",
    "how likely an output of a hidden layer is left out in training",
    ((">=", 0.0), ("<", 1.0)),
)
ATOMS = Fact("atoms", "int", "values whose probabilities the network gives", ((">=", 2.0),))
V_MIN = Fact("v_min", "float", "the lowest of these values", called="low")
V_MAX = Fact("v_max", "float", "the highest of these values", called="high")
OPTIMIZER_EPS = Fact(
    "optimizer_eps", "float", "what is added to the optimizer's denominator", _POSITIVE, called="eps"
)
OPTIMIZER_ALPHA = Fact(
    "optimizer_alpha", "float", "decay of the mean of squared gradients", _FRACTION, called="alpha"
)
FIXED_SCALE = Fact(
    "scale", "float", "standard deviation of the policy, before squashing", _POSITIVE, called="fixed"
)
GSDE_EVERY = Fact(
    "noise_every",
    "int",
    "steps after which the noise of an environment is drawn anew",
    _COUNT,
    called="every",
)
GSDE_SIGMA = Fact(
    "init_sigma",
    "float",
    "deviation of the noise at first, before squashing, for features of mean square 1",
    _POSITIVE,
    called="sigma",
)
BONUS_COEFF = Fact(
    "coeff", "float", "what the bonus on the reward is multiplied with", _POSITIVE, scheduled=True
)
TARGETS_EVERY = Fact(
    "target_every", "int", "updates between two steps of the targets", _COUNT, called="every"
)
RECORDED_FRACTION = Fact(
    "recorded_fraction",
    "float",
    "how much of each batch is recorded",
    ((">", 0.0), ("<", 1.0)),
    called="fraction",
)
WORKERS = Fact("workers", "int", "processes that collect; they divide num_envs", _COUNT)
WORKER_CPUS = Fact("worker_cpus", "float", "processors of each worker", _NONNEGATIVE, called="cpus")
WORKER_GPUS = Fact("worker_gpus", "float", "GPUs of each worker", _NONNEGATIVE, called="gpus")
TOTAL_FRAMES = Fact(
    "total_frames", "int", "environment steps, of all environments together", _COUNT, called="frames"
)
TOTAL_UPDATES = Fact("total_updates", "int", "updates", _COUNT, called="updates")
STOP_RETURN = Fact(
    "stop_return", "float", "mean return of an evaluation that ends the training", called="return"
)
STOP_HOURS = Fact(
    "stop_hours", "float", "hours after which the training ends at the latest", _POSITIVE, called="hours"
)
EVALUATE_EVERY = Fact("evaluate_every", "int", "{unit} between two evaluations", _COUNT, called="every")
EVALUATE_EPISODES = Fact("evaluate_episodes", "int", "episodes of an evaluation", _COUNT, called="episodes")
EVALUATE_STEPS = Fact(
    "evaluate_episode_steps",
    "int",
    "steps after which an episode of an evaluation counts as it is",
    _COUNT,
    called="max_steps",
)
CHECKPOINT_EVERY = Fact("checkpoint_every", "int", "{unit} between two checkpoints", _COUNT, called="every")
