"""Where the data of pipelines come from, as it is declared."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from specgen.schema.fields import Declaration
from specgen.schema.pipeline_networks import Quantity


class OnPolicy(Declaration):
    """Batches of what the present policy did, gone through several times.

    Attributes:
        num_envs: environments side by side.
        num_steps: steps of each between two updates of the policy.
        epochs: passes over each batch.
        minibatch_size: frames of an update.
        minibatches: how many of them there are in a pass; in place of `minibatch_size`.
        accumulate: parts of an update that are computed one after the other, and their gradients summed: less memory.
        until: what ends the passes before: a metric of an update that is above a number, `kl_approx > 0.03`.
        shuffle: whether the order of frames is drawn anew for each pass; else minibatches are of neighbours.
    """

    num_envs: Quantity | None = None
    num_steps: Quantity | None = None
    epochs: Quantity | None = None
    minibatch_size: Quantity | None = None
    minibatches: Quantity | None = None
    accumulate: Quantity | None = None
    until: str | None = None
    shuffle: bool = True


class Prioritized(Declaration):
    """Frames are drawn by priority to the power `alpha`, and weighted with the power `beta`."""

    alpha: Quantity | None = None
    beta: Quantity | None = None


class Slices(Declaration):
    """Slices of `length` steps are drawn, each of one episode."""

    length: Quantity | None = None


class Hindsight(Declaration):
    """Frames are drawn uniformly, a part of them with another goal: what was achieved.

    Attributes:
        her_ratio: how much of a batch has other goals.
        strategy: whose achieved goal that is: of a step behind in the episode, of its last, of any, of any in the buffer.
        goal_key: the observation of the goal, `desired_goal` unless said.
        achieved_goal_key: that of what was achieved, `achieved_goal` unless said.
        reward: the function of `(achieved_goal, desired_goal)` that gives rewards, `package.module:function`.
        terminated: the one that says whether an episode ended there.
    """

    her_ratio: Quantity | None = None
    strategy: Literal["future", "final", "episode", "random"] = "future"
    goal_key: str | None = None
    achieved_goal_key: str | None = None
    reward: str | None = None
    terminated: str | None = None


class Sampler(Declaration):
    """How frames are drawn, in full; one of these."""

    prioritized: Prioritized | None = None
    slices: Slices | None = None
    hindsight: Hindsight | None = None


class Replay(Declaration):
    """A replay buffer.

    Attributes:
        num_envs: environments side by side.
        num_steps: steps of each between two rounds of updates.
        capacity: how many frames it holds.
        batch_size: frames of an update.
        warm_up_frames: frames before the first update.
        updates: updates for each batch that is collected.
        storage: where it lies.
        sampler: how frames are drawn.
        n_step: steps whose rewards are summed.
    """

    num_envs: Quantity | None = None
    num_steps: Quantity | None = None
    capacity: Quantity | None = None
    batch_size: Quantity | None = None
    warm_up_frames: Quantity | None = None
    updates: Quantity | None = None
    storage: Literal["memory", "memmap", "device"] = "memory"
    sampler: Annotated[
        Literal["uniform", "without_replacement"] | Sampler, Field(union_mode="left_to_right")
    ] = "uniform"
    n_step: Quantity | None = None


class OnlineAndRecorded(Replay):
    """A replay buffer that holds recorded transitions at first, and then what is collected, too.

    Attributes:
        path: a folder with a tensordict that was saved with `memmap`, a data set of Minari, or an HDF5 or NumPy file of arrays.
        keys: what entries are called there, by what they are called here: `{next.reward: reward}`.
        fraction: how much of each batch is recorded, where the recorded transitions are kept apart.
    """

    path: str | None = None
    keys: dict[str, str] = Field(default_factory=dict)
    fraction: Quantity | None = None


class Recorded(Declaration):
    """Data that are there already.

    Attributes:
        path: a folder with a tensordict that was saved with `memmap`, a data set of Minari, or an HDF5 or NumPy file of arrays.
        keys: what entries are called there, by what they are called here: `{next.reward: reward}`.
        conversations: the function that gives conversations in place of that, `package.module:function`.
        ref_model: a frozen language model whose log-probabilities of them the loss reads.
        batch_size: frames of an update, or conversations.
    """

    path: str | None = None
    keys: dict[str, str] = Field(default_factory=dict)
    conversations: str | None = None
    ref_model: str | None = None
    batch_size: Quantity | None = None


class Data(Declaration):
    """Where the data come from; one of these."""

    on_policy: OnPolicy | None = None
    replay: Replay | None = None
    recorded: Recorded | None = None
    online_and_recorded: OnlineAndRecorded | None = None
