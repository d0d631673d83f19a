"""Policies, value functions, and both of them in one module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import (
    CompositeDistribution,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictModuleBase,
    TensorDictSequential,
)
from torch import nn

from specgen_runtime.interop.torchrl_specs import own_spec
from specgen_runtime.modules.distributions import Delta
from specgen_runtime.modules.safe import SafeModule
from specgen_runtime.modules.safe_probabilistic import SafeProbabilisticModule
from specgen_runtime.modules.safe_sequences import SafeProbabilisticTensorDictSequential, SafeSequential
from specgen_runtime.specs import Composite, TensorSpec
from specgen_runtime.typing import NestedKey


class Actor(SafeModule):
    """A policy that is a function of the observation.

    Args:
        module: from observations to actions.
        in_keys: what it is given. Defaults to ``["observation"]``.
        out_keys: what it writes. Defaults to ``["action"]``.
        spec: of the action, or a composite by key.
        safe: project actions into their spec after each call.
        inplace: write into the tensordict that is read.

    Raises:
        TypeError: if ``spec`` is no spec.
        ValueError: if it does not fit the outputs, or ``safe`` is set and none of them has a spec.
    """

    def __init__(
        self,
        module: nn.Module,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        *,
        spec: TensorSpec | None = None,
        safe: bool = False,
        inplace: bool | str = True,
    ) -> None:
        outputs = ["action"] if out_keys is None else out_keys
        spec = own_spec(spec)
        if "action" in outputs and isinstance(spec, TensorSpec) and not isinstance(spec, Composite):
            spec = Composite(action=spec)
        super().__init__(
            module,
            ["observation"] if in_keys is None else in_keys,
            outputs,
            spec=spec,
            safe=safe,
            inplace=inplace,
        )

    def get_dist(self, tensordict: TensorDictBase) -> Delta:
        """The distribution of the action, which is certain; it writes the action.

        Raises:
            KeyError: if an input is missing.
        """
        return Delta(self(tensordict).get(self.out_keys[0]))


class ProbabilisticActor(SafeProbabilisticTensorDictSequential):
    """A policy that is a network of the parameters of a distribution, and a draw from it.

    Args:
        module: from observations to the parameters of the distribution.
        in_keys: the parameters: their last parts are keywords of the distribution, or a dict gives the keys by
            keyword.
        out_keys: what is drawn. Defaults to ``["action"]``, of a `tensordict.nn.CompositeDistribution` to the
            names of its parts.
        spec: of the action, or a composite by key.
        **kwargs: of `SafeProbabilisticModule`: ``distribution_class``, ``distribution_kwargs``,
            ``return_log_prob``, ``default_interaction_type``, ``safe``, ``generator`` and others.

    Raises:
        TypeError: if ``spec`` is no spec, or a keyword is not known.
        ValueError: if the spec does not fit what is drawn, or ``safe`` is set without one.
        KeyError: if a composite distribution has no ``distribution_map`` in ``distribution_kwargs``.
    """

    def __init__(
        self,
        module: TensorDictModuleBase,
        in_keys: NestedKey | Sequence[NestedKey] | dict[str, NestedKey],
        out_keys: Sequence[NestedKey] | None = None,
        *,
        spec: TensorSpec | None = None,
        **kwargs: Any,
    ) -> None:
        if out_keys is None:
            out_keys = ["action"]
            if kwargs.get("distribution_class") is CompositeDistribution:
                out_keys = _drawn_by_composite(kwargs.get("distribution_kwargs") or {})
        super().__init__(module, SafeProbabilisticModule(in_keys, out_keys, spec, **kwargs))

    @property
    def generator(self) -> torch.Generator | None:
        """What draws take their random numbers from; None for torch's default, or where a key says it."""
        found: torch.Generator | None = self.module[-1].generator
        return found

    @generator.setter
    def generator(self, generator: torch.Generator | None) -> None:
        self.module[-1].generator = generator


def _drawn_by_composite(keywords: dict[str, Any]) -> list[NestedKey]:
    """Names of what a composite distribution with these keywords draws."""
    if "distribution_map" not in keywords:
        raise KeyError("a CompositeDistribution needs 'distribution_map' in distribution_kwargs")
    names = keywords.get("name_map")
    return list(keywords["distribution_map"]) if names is None else list(names.values())


class ValueOperator(TensorDictModule):  # type: ignore[misc]
    """A value function.

    Args:
        module: from observations, or observations and actions, to values of shape ``(*batch, 1)``.
        in_keys: what it is given. Defaults to ``["observation"]``.
        out_keys: what it writes. Defaults to ``["state_action_value"]`` if it is given ``"action"``, else to
            ``["state_value"]``.
    """

    def __init__(
        self,
        module: nn.Module,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
    ) -> None:
        inputs = ["observation"] if in_keys is None else list(in_keys)
        default = "state_action_value" if "action" in inputs else "state_value"
        super().__init__(module, in_keys=inputs, out_keys=[default] if out_keys is None else out_keys)


class ActorValueOperator(SafeSequential):
    """A policy and a value function of states, both behind one network of the observation.

    Args:
        common_operator: from observations to features.
        policy_operator: from features to actions.
        value_operator: from features to values.
    """

    def __init__(
        self,
        common_operator: TensorDictModuleBase,
        policy_operator: TensorDictModuleBase,
        value_operator: TensorDictModuleBase,
    ) -> None:
        super().__init__(common_operator, policy_operator, value_operator)

    def get_policy_operator(self) -> TensorDictSequential:
        """The policy with the common network, from observations to actions; parameters are shared."""
        common, policy = self.module[0], self.module[1]
        if isinstance(policy, ProbabilisticTensorDictSequential):
            return SafeProbabilisticTensorDictSequential(common, *policy.module)
        return SafeSequential(common, policy)

    def get_value_operator(self) -> TensorDictSequential:
        """The value function with the common network, from observations to values; parameters are shared."""
        return SafeSequential(self.module[0], self.module[2])

    def get_policy_head(self) -> TensorDictModuleBase:
        """The policy without the common network, from features to actions."""
        return self.module[1]

    def get_value_head(self) -> TensorDictModuleBase:
        """The value function without the common network, from features to values."""
        return self.module[2]


class ActorCriticOperator(ActorValueOperator):
    """A policy and a value function of its actions, both behind one network of the observation.

    Args:
        common_operator: from observations to features.
        policy_operator: from features to actions.
        value_operator: from features and actions to values.

    Raises:
        RuntimeError: if the value function writes ``"state_value"``, which says that it knows no actions.
    """

    def __init__(
        self,
        common_operator: TensorDictModuleBase,
        policy_operator: TensorDictModuleBase,
        value_operator: TensorDictModuleBase,
    ) -> None:
        super().__init__(common_operator, policy_operator, value_operator)
        if self.module[2].out_keys[0] == "state_value":
            raise RuntimeError(
                "the value operator writes 'state_value'; one that reads the action should write "
                "'state_action_value', and one that does not belongs in an ActorValueOperator"
            )

    def get_critic_operator(self) -> ActorCriticOperator:
        """The value of the policy's actions, from observations: this module, as it needs the policy."""
        return self

    def get_value_operator(self) -> TensorDictSequential:
        """Not here: values are those of actions.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            "there are no values of states here; get_critic_operator() gives values of actions"
        )


class ActorCriticWrapper(SafeSequential):
    """A policy and a value function that share nothing.

    Args:
        policy_operator: from observations to actions.
        value_operator: from observations, or observations and actions, to values.
    """

    def __init__(self, policy_operator: TensorDictModuleBase, value_operator: TensorDictModuleBase) -> None:
        super().__init__(policy_operator, value_operator)

    def get_policy_operator(self) -> TensorDictModuleBase:
        """The policy, from observations to actions."""
        return self.module[0]

    def get_value_operator(self) -> TensorDictModuleBase:
        """The value function."""
        return self.module[1]

    get_policy_head = get_policy_operator
    get_value_head = get_value_operator
