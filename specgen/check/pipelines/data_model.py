"""Where the data of a pipeline come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from specgen.check.language_models.model import CheckedLanguageModel
from specgen.check.sources import PythonSource
from specgen.diagnostics import Span
from specgen.expr.symbols import Key
from specgen.program.program import Program
from specgen.values import dataclass

if TYPE_CHECKING:
    from specgen.check.pipelines.model import Amount, Setting

SamplerKind = Literal["uniform", "without_replacement", "prioritized", "slices", "hindsight"]


@dataclass(frozen=True)
class HindsightKeys:
    """The keys of the data that hindsight is about.

    Attributes:
        achieved: what was achieved.
        desired: the goal.
        reward: the reward of a step.
        terminated: whether an episode ended there.
        done: the flag at the end of an episode.
    """

    achieved: Key
    desired: Key
    reward: Key
    terminated: Key
    done: Key


@dataclass(frozen=True)
class HindsightData:
    """How goals are replaced by what was achieved.

    Attributes:
        her_ratio: how much of a batch has other goals.
        strategy: which goals.
        goal_key, achieved_goal_key: what the two observations are called, as the pipeline says it; None where it does not.
        functions: what gives `reward`, and where goals end episodes `terminated`: functions of what was achieved and of goals.
        params: the generated module, and the record in it, of the parameters that they read; None where they read none.
        span: where it is said.
        keys: the keys of the data that the buffer reads or replaces; None before they are known.
    """

    her_ratio: Setting
    strategy: Literal["future", "final", "episode", "random"]
    functions: Mapping[str, Program | PythonSource]
    span: Span
    goal_key: str | None = None
    achieved_goal_key: str | None = None
    params: tuple[str, str] | None = None
    keys: HindsightKeys | None = None


@dataclass(frozen=True)
class OnPolicyData:
    """Batches of what the present policy did; `minibatches` or `minibatch_size` is None, `accumulate` for updates in one.

    Attributes:
        shuffle: whether the order of frames is drawn for each pass.
    """

    num_envs: Setting
    num_steps: Setting
    epochs: Setting
    minibatch_size: Setting | None
    minibatches: Setting | None
    accumulate: Setting | None = None
    shuffle: bool = True

    @property
    def frames(self) -> int:
        """The frames of a batch."""
        return int(self.num_envs.default * self.num_steps.default)

    @property
    def frames_of_update(self) -> int:
        """The frames of an update."""
        if self.minibatch_size is not None:
            return int(self.minibatch_size.default)
        return self.frames // (1 if self.minibatches is None else int(self.minibatches.default))


@dataclass(frozen=True)
class ReplayData:
    """A replay buffer, and how it is filled and sampled.

    Attributes:
        updates_said: whether the pipeline says how many updates there are.
        gamma: discounts the rewards of `n_step` steps.
        slice_length: how many steps of an episode are drawn together; None where frames are drawn one by one.
        recorded: the folder of the transitions that it holds at first; None where all are collected.
        keys: what their entries are called there, by what they are called here.
        fraction: how much of each batch is drawn of them, where they are not in the buffer themselves.
        hindsight: how goals are replaced; None where they stay.
    """

    num_envs: Setting
    num_steps: Setting
    capacity: Setting
    batch_size: Setting
    warm_up_frames: Setting
    updates: Setting
    updates_said: bool
    storage: Literal["memory", "memmap", "device"]
    sampler: SamplerKind
    alpha: Setting | None = None
    beta: Amount | None = None
    n_step: Setting | None = None
    gamma: Setting | None = None
    slice_length: Setting | None = None
    recorded: str | None = None
    keys: Mapping[Key, Key] = field(default_factory=dict)
    fraction: Setting | None = None
    hindsight: HindsightData | None = None

    @property
    def in_order(self) -> bool:
        """Whether the steps of an environment lie one behind the other in the buffer."""
        return self.sampler in ("slices", "hindsight")

    @property
    def kind(self) -> str:
        """How the schema calls such data."""
        return "replay" if self.recorded is None else "online_and_recorded"


@dataclass(frozen=True)
class RecordedData:
    """Data that are there already.

    Attributes:
        batch_size: the frames of an update, or conversations.
        path: their folder; None where they are conversations.
        keys: what their entries are called there, by what they are called here.
        conversations: the function that gives these.
        ref_model: the language model whose log-probabilities of them the loss reads.
    """

    batch_size: Setting
    path: str | None = None
    keys: Mapping[Key, Key] = field(default_factory=dict)
    conversations: PythonSource | None = None
    ref_model: CheckedLanguageModel | None = None

    @property
    def kind(self) -> str:
        """How the schema calls such data."""
        return "recorded"


PipelineData = OnPolicyData | ReplayData | RecordedData
