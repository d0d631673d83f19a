"""The `envs:` section: what an environment's state, actions and observations are, and how they change."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from specgen.schema.fields import Const, Declaration, Expression, ParamField, SpecField


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


class Function(Declaration):
    """A pure function of typed arguments: named intermediate values (`let`) and what it `returns`."""

    args: dict[str, str]
    let: dict[str, Expression] = Field(default_factory=dict)
    returns: Expression
    doc: str = ""


class Env(Declaration):
    """An environment, written for one instance; the generated class runs it for any batch.

    Attributes:
        dims: names for sizes, usable in types and expressions.
        params: constructor keywords of the generated class.
        consts: constant tables.
        functions: pure functions that expressions may call.
        state: what the dynamics carry from step to step.
        action: what the policy chooses.
        observation: what the policy sees.
        reward: the reward keys (default: `reward`).
        done: the prefixes of the done sets (default: the root, written `""`).
        masks: which observation masks which action.
        reset: the state at the start of an episode.
        step: the state, rewards and terminations after an action.
        observe: the observations of a state.
        gymnasium: take the behaviour from Gymnasium instead.
        python: take the behaviour from a Python class instead.
    """

    doc: str = ""
    dims: dict[str, int] = Field(default_factory=dict)
    params: dict[str, ParamField] = Field(default_factory=dict)
    consts: dict[str, Const] = Field(default_factory=dict)
    functions: dict[str, Function] = Field(default_factory=dict)
    state: dict[str, SpecField] = Field(default_factory=dict)
    action: dict[str, SpecField] = Field(default_factory=dict)
    observation: dict[str, SpecField] = Field(default_factory=dict)
    reward: list[str] = Field(default_factory=lambda: ["reward"])
    done: list[str] = Field(default_factory=lambda: [""])
    masks: dict[str, str] = Field(default_factory=dict)
    reset: dict[str, Expression] = Field(default_factory=dict)
    step: dict[str, Expression] = Field(default_factory=dict)
    observe: dict[str, Expression] = Field(default_factory=dict)
    gymnasium: Gymnasium | None = None
    python: str | None = None
