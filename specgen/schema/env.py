"""The `envs:` section: what an environment's state, actions and observations are, and how they change."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from specgen.schema.chat import Chat
from specgen.schema.fields import Const, Declaration, DeclaredClass, Expression, ParamField, SpecField
from specgen.schema.render import Render


def time_limit_help(name: str) -> str | None:
    """What to say of a `name` that is meant as a limit on the length of episodes, which no environment has."""
    if name.lower() not in _TIME_LIMITS:
        return None
    return (
        "the length of episodes is limited by a transform: import specgen_std/transforms/step_counter, and write "
        "`transforms: [{StepCounter: {max_steps: 500}}]` in a chain"
    )


_TIME_LIMITS = frozenset(
    {"max_steps", "max_episode_steps", "max_step", "max_length", "max_episode_length", "max_ep_len"}
    | {"episode_length", "episode_steps", "time_limit", "timelimit", "step_limit", "horizon"}
)


class Gymnasium(Declaration):
    """An environment whose behaviour is Gymnasium's; its spaces are recorded once and committed.

    Attributes:
        id: the registered id, as `gymnasium.make` takes it.
        kwargs: keyword arguments for `gymnasium.make`.
        categorical_action_encoding: discrete actions as an index (`true`) or one-hot (`false`, TorchRL's default).
    """

    id: str
    kwargs: dict[str, Any] = Field(default_factory=dict)
    categorical_action_encoding: bool = False


class Python(Declaration):
    """A class that an environment's behaviour comes from; it is imported when an environment is made.

    Attributes:
        class_: where it is, `package.module:Class` (`class` in YAML).
        stateful: whether its object is one instance that keeps its state (`reset(seed)`, `step(action)`), or
            steps a batch of states that it is given (the default).
    """

    class_: str = Field(alias="class")
    stateful: bool = False


PythonField = Annotated[
    Annotated[str, Tag("short")] | Annotated[Python, Tag("long")],
    Discriminator(lambda value: "short" if isinstance(value, str) else "long"),
]
"""A class by its name, or in full."""


class Function(Declaration):
    """A pure function of typed arguments: named intermediate values (`let`) and what it `returns`."""

    args: dict[str, str]
    let: dict[str, Expression] = Field(default_factory=dict)
    returns: Expression
    doc: str = ""


class Group(Declaration):
    """A group of agents with the same keys, whose specs are written for one agent.

    Attributes:
        agents: how many there are (a number, or a sum of numbers and `dims` as text), or their names.
        doc: one line for the documentation.
    """

    agents: int | str | list[str]
    doc: str = ""


class Env(DeclaredClass):
    """An environment, written for one instance; the generated class runs it for any batch.

    Attributes:
        dims: names for sizes, usable in types and expressions.
        groups: the groups of agents; what stands under one is declared for one agent.
        params: constructor keywords of the generated class.
        consts: constant tables.
        functions: pure functions that expressions may call.
        state: what the dynamics carry from step to step.
        action: what the policy chooses.
        observation: what the policy sees.
        reward: the reward keys (default: `reward`, or that of each group).
        done: the prefixes of the done sets (default: the root, written `""`, and each group).
        masks: which observation masks which action.
        reset: the state at the start of an episode.
        step: the state, rewards and terminations after an action.
        observe: the observations of a state.
        render: how a state is drawn.
        gymnasium: take the behaviour from Gymnasium instead.
        python: take the behaviour from a Python class instead.
        chat: conversations with a language model instead.
    """

    dims: dict[str, int] = Field(default_factory=dict)
    groups: dict[str, Group] = Field(default_factory=dict)
    params: dict[str, ParamField] = Field(default_factory=dict)
    consts: dict[str, Const] = Field(default_factory=dict)
    functions: dict[str, Function] = Field(default_factory=dict)
    state: dict[str, SpecField] = Field(default_factory=dict)
    action: dict[str, SpecField] = Field(default_factory=dict)
    observation: dict[str, SpecField] = Field(default_factory=dict)
    reward: list[str] | None = None
    done: list[str] | None = None
    masks: dict[str, str] = Field(default_factory=dict)
    reset: dict[str, Expression] = Field(default_factory=dict)
    step: dict[str, Expression] = Field(default_factory=dict)
    observe: dict[str, Expression] = Field(default_factory=dict)
    render: Render | None = None
    gymnasium: Gymnasium | None = None
    python: PythonField | None = None
    chat: Chat | None = None

    @property
    def reward_keys(self) -> list[str]:
        """The reward keys, those that no one wrote included."""
        return (
            self.reward
            if self.reward is not None
            else [f"{group}.reward" for group in self.groups] or ["reward"]
        )

    @property
    def done_sets(self) -> list[str]:
        """The prefixes of the done sets, those that no one wrote included."""
        return self.done if self.done is not None else ["", *self.groups]
