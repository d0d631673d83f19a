"""`LossModule`: networks with functional and target parameters, renamable keys, value estimators, reductions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import InteractionType
from torch import Tensor, nn

from specgen_runtime.envs.packing import entries_of, peek
from specgen_runtime.objectives.coefficients import restore_adapted
from specgen_runtime.objectives.counted_samples import CountedSamples
from specgen_runtime.objectives.estimates import estimate_in, with_estimates
from specgen_runtime.objectives.keys import agents_of, checked_updates
from specgen_runtime.objectives.keyword_call import features_by_key, packed, unpacked
from specgen_runtime.objectives.modes import run_in_loss_modes
from specgen_runtime.objectives.parameters import device_of
from specgen_runtime.objectives.policy_keys import written_by_policy
from specgen_runtime.objectives.reduction import (
    Reduction,
    ScalarOutputMode,
    checked_reduction,
    checked_scalar_output_mode,
    without_scalars,
)
from specgen_runtime.objectives.replaced_keywords import refuse_replaced_keywords
from specgen_runtime.objectives.selection import SelectingModule
from specgen_runtime.objectives.value import (
    EstimatorType,
    ValueEstimatorBase,
    ValueEstimators,
    make_estimator,
)
from specgen_runtime.objectives.weighting import MaskKey, checked_mask_key, mask_of, weights_of
from specgen_runtime.ragged import with_padded_rows
from specgen_runtime.typing import NestedKey


class LossModule(SelectingModule):
    """Parent class of losses: reads a tensordict, returns a new one with entries ``"loss*"`` and other scalars.

    A subclass gives its networks to `convert_to_functional`, names its keys in a dataclass ``_AcceptedKeys`` and
    computes in `forward`. That, and methods whose names end in ``loss``, run in `deterministic_sampling_mode`, with
    recurrent networks in sequence mode, and draw from ``generator``. Called with tensors by keyword (names are keys joined by underscores,
    such as ``next_reward``), a loss returns the ``out_keys``, in order.

    Args:
        functional: whether the loss takes the parameters of its networks; see `convert_to_functional`.

    Attributes:
        default_value_estimator: the estimator that is built when none was asked for; None if the loss has none.
        supported_value_estimators: what `make_value_estimator` accepts; empty for all, None if the loss has no estimator.
        out_keys: what `forward` returns, or what `select_out_keys` chose of it.
        generator: what everything that runs in the loss draws its random numbers from, dropout in its networks included:
            one on their device; None for torch's default generator.
        feature_ranks: how many dimensions entries have behind those of the batch, by role; tensors by keyword are
            put into a batch by them.
        value_role: the role whose key the value estimator takes for the value that it reads and writes.
        trained: the networks, and other numbers, that each term trains.
        default_keys: the class of `tensor_keys`, whose attributes are the keys that losses read unless told otherwise.
        parts: the entries that are computed together, by the name of that part; empty where all are.
        reads_rows: whether it reads sequences of tokens, whose rows may be of different lengths in the data.
    """

    @dataclass
    class _AcceptedKeys:
        pass

    default_keys: ClassVar[type] = _AcceptedKeys
    default_value_estimator: ClassVar[ValueEstimators | None] = None
    supported_value_estimators: ClassVar[tuple[ValueEstimators, ...] | None] = ()
    feature_ranks: ClassVar[Mapping[str, int]] = {"reward": 1, "done": 1, "terminated": 1, "truncated": 1}
    value_role: ClassVar[str] = "value"
    trained: ClassVar[Mapping[str, Sequence[str]]] = {}
    reads_rows: ClassVar[bool] = False
    value_type: EstimatorType | None
    generator: torch.Generator | None

    if not TYPE_CHECKING:

        def __new__(cls, *_args: object, **keywords: object) -> Any:
            """A loss whose constructor is not asked for what was replaced."""
            refuse_replaced_keywords(cls, keywords)
            return super().__new__(cls)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.default_keys = cls._AcceptedKeys
        run_in_loss_modes(cls)

    def __init__(self, *, functional: bool = True) -> None:
        super().__init__(functional=functional)
        self._tensor_keys: Any = self._AcceptedKeys()
        self._default_keys: Any = self._AcceptedKeys()
        self._reduction: Reduction = "mean"
        self._scalar_output_mode: ScalarOutputMode | None = None
        self._mask_key: MaskKey = "auto"
        self._sampling_mode = InteractionType.DETERMINISTIC
        self.generator = None
        self.value_type = self.default_value_estimator
        self._estimates_own_values = False
        self.register_module("_value_estimator", None)

    @property
    def tensor_keys(self) -> Any:
        """The keys in use, by role: an ``_AcceptedKeys``."""
        return self._tensor_keys

    def set_keys(self, **keys: NestedKey | None) -> None:
        """Rename keys by role, the value estimator's too; ``None`` restores a default. All or nothing.

        Where the values of actions stand in a group of agents, ``("agents", "state_action_value")``, each agent is a
        sample, and log-probabilities of actions are of each.

        Raises:
            ValueError: for a role that ``_AcceptedKeys`` does not have, or a value that is not a key.
        """
        updates = checked_updates(
            self._AcceptedKeys, keys, owner=type(self).__name__, defaults=self._default_keys
        )
        for name, value in updates.items():
            setattr(self._tensor_keys, name, value)
        self._agents = agents_of(self._tensor_keys)
        for network in self._networks.values():
            network.agents = self._agents
        self._forward_value_estimator_keys(**updates)

    def _take_keys_of(self, policy: nn.Module, *, sample: str, log_prob: str | None = None) -> None:
        """Make the keys where a policy writes what it draws the defaults of roles.

        Args:
            policy: a policy; one that does not say its keys changes nothing.
            sample: the role of what it draws.
            log_prob: that of its log-probability.
        """
        found = written_by_policy(policy)
        for role, key in ((sample, found.sample), (log_prob, found.log_prob)):
            if role is not None and key is not None:
                setattr(self._default_keys, role, key)
                self.set_keys(**{role: None})

    def _forward_value_estimator_keys(self, **_keys: NestedKey) -> None:
        """Give the estimator those of its keys that the loss also names; override to rename them on the way."""
        estimator = self._modules["_value_estimator"]
        if isinstance(estimator, ValueEstimatorBase):
            roles = {
                name: self.value_role if name == "value" else name for name in vars(estimator.tensor_keys)
            }
            estimator.set_keys(
                **{
                    name: getattr(self._tensor_keys, role)
                    for name, role in roles.items()
                    if hasattr(self._tensor_keys, role)
                }
            )
            if self._estimates_own_values:
                estimator.value_network = self._frozen_network(
                    lambda network: estimator.tensor_keys.value in network.out_keys
                )

    def parameters_of(self, *terms: str) -> list[nn.Parameter]:
        """The parameters that these terms train, for an optimizer of their own.

        Raises:
            ValueError: for what is no term of the loss.
        """
        unknown = [term for term in terms if term not in self.trained]
        if unknown or not terms:
            raise ValueError(
                f"{type(self).__name__}.parameters_of takes some of {', '.join(self.trained) or 'no terms'}; "
                f"got {', '.join(map(repr, unknown)) or 'none'}"
            )
        return self._trainable({name: None for term in terms for name in self.trained[term]})

    def make_value_estimator(
        self,
        value_type: EstimatorType | ValueEstimatorBase | Enum | str | None = None,
        **hyperparams: Any,
    ) -> Self:
        """Build the value estimator, and return the loss.

        Args:
            value_type: a member of `ValueEstimators`, or of TorchRL's, or its name; an estimator, or a class of them;
                None for the default of the loss.
            **hyperparams: for the estimator's constructor, over its defaults (``gamma=0.99, lmbda=0.95,
                differentiable=True``). The ``value_network`` of a built one is by default the network of the loss that
                writes the value, and the ``actor_network`` of V-trace the one that has a distribution, both with their
                parameters of the moment: so ``loss.value_estimator(data)`` works.

        Raises:
            NotImplementedError: if the loss does not support that estimator, or has none.
            TypeError: for an unknown hyper-parameter, or if the loss has no default.
            ValueError: for a hyper-parameter out of range, or an unknown name.
        """
        estimator, self.value_type = make_estimator(
            self.default_value_estimator if value_type is None else value_type,
            hyperparams,
            supported=self.supported_value_estimators,
            actor=self._frozen_network(lambda network: hasattr(network.skeleton, "get_dist")),
            device=device_of(self.parameters()),
            owner=type(self).__name__,
        )
        self._modules["_value_estimator"] = estimator
        self._estimates_own_values = estimator is not value_type and "value_network" not in hyperparams
        self._forward_value_estimator_keys()
        return self

    @property
    def value_estimator(self) -> ValueEstimatorBase:
        """The estimator of the targets of the value network; the default one is built when first asked for.

        Assigning None makes it the default again.
        """
        estimator = (
            self._modules["_value_estimator"] or self.make_value_estimator()._modules["_value_estimator"]
        )
        assert isinstance(estimator, ValueEstimatorBase)
        return estimator

    @value_estimator.setter
    def value_estimator(self, value: ValueEstimatorBase | None) -> None:
        if value is not None:
            self.make_value_estimator(value)
            return
        self._modules["_value_estimator"], self.value_type = None, self.default_value_estimator

    @property
    def deterministic_sampling_mode(self) -> InteractionType:
        """How distributions are read inside the loss: networks that explore do not, here."""
        return self._sampling_mode

    @deterministic_sampling_mode.setter
    def deterministic_sampling_mode(self, value: InteractionType) -> None:
        if not isinstance(value, InteractionType):
            modes = ", ".join(map(str, InteractionType))
            raise ValueError(f"deterministic_sampling_mode must be one of {modes}, got {value!r}")
        self._sampling_mode = value

    if not TYPE_CHECKING:  # a subclass types its own calls, with the entries that it returns

        def __call__(self, tensordict: TensorDictBase | None = None, /, *more: Any, **inputs: Any) -> Any:
            """Run the loss on a tensordict, or on tensors by keyword; more arguments are for a `forward` that takes them."""
            if more:
                return super().__call__(tensordict, *more, **inputs)
            if tensordict is None:
                keys = self._keys_of_all_entries()
                features = features_by_key(self.feature_ranks, self._tensor_keys)
                data = packed(inputs, keys, owner=type(self).__name__, features=features)
            elif inputs:
                raise TypeError(f"{type(self).__name__} takes a tensordict, or tensors by keyword, not both")
            elif type(tensordict) is not TensorDict and not isinstance(tensordict, TensorDictBase):
                raise TypeError(f"{type(self).__name__} takes a tensordict, got {type(tensordict).__name__}")
            else:
                data = self._with_padded_rows(tensordict) if self.reads_rows else tensordict
            if not all(self._has_updater.values()) and not torch.compiler.is_compiling():
                self._warn_of_targets()
            outputs = super().__call__(data)
            if self._scalar_output_mode is not None and self._reduction == "none" and data.batch_dims:
                outputs = without_scalars(outputs, self._scalar_output_mode)
            chosen = self.__dict__.get("out_keys")
            if chosen is not None and not set(entries_of(outputs)).issubset(chosen):
                outputs = outputs.select(*chosen, strict=False)
            return outputs if tensordict is not None else unpacked(outputs, self.out_keys)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the loss.

        Args:
            tensordict: the data.

        Returns:
            A new tensordict without batch dimensions, with entries ``"loss*"`` and other scalars.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def reset(self) -> None:
        """Forget what was accumulated over calls: coefficients that were adapted are what they were at first."""
        restore_adapted(self)

    @property
    def reduction(self) -> Reduction:
        """``"mean"``, ``"sum"`` or ``"none"``, which keeps one value per sample."""
        return self._reduction

    @reduction.setter
    def reduction(self, value: Reduction | None) -> None:
        self._reduction = checked_reduction(value)

    @property
    def scalar_output_mode(self) -> ScalarOutputMode | None:
        """What becomes of outputs that are one number for the batch where the reduction is ``"none"``.

        ``"exclude"`` leaves them out, ``"non_tensor"`` returns them as data that are no tensors, None as they are.
        """
        return self._scalar_output_mode

    @scalar_output_mode.setter
    def scalar_output_mode(self, value: ScalarOutputMode | None) -> None:
        self._scalar_output_mode = checked_scalar_output_mode(value)

    @property
    def loss_mask_key(self) -> MaskKey:
        """The bool entry that marks the samples that count.

        ``"auto"`` uses those of `AUTO_MASK_KEYS` that are there, None none; ``("auto",)`` is an entry called auto.
        """
        return self._mask_key

    @loss_mask_key.setter
    def loss_mask_key(self, value: MaskKey) -> None:
        self._mask_key = checked_mask_key(value, owner=type(self).__name__)

    def _with_padded_rows(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The data with rows of different lengths padded on the left, in a copy if there are such."""
        mask = getattr(self._tensor_keys, "attention_mask", None)
        return with_padded_rows(tensordict, self._keys_of_all_entries(), mask)

    def _mask(self, tensordict: TensorDictBase) -> Tensor | None:
        """Which samples count; None if all do."""
        return mask_of(tensordict, self._mask_key, owner=type(self).__name__)

    def _samples(self, tensordict: TensorDictBase) -> CountedSamples:
        """Which samples of the data count, and what they weigh, by which terms are reduced."""
        key, owner = getattr(self._tensor_keys, "priority_weight", None), type(self).__name__
        weights = weights_of(tensordict, key, self._use_of_weights, owner=owner)
        return CountedSamples(self._reduction, self._mask(tensordict), weights)

    def _counted(self, tensordict: TensorDictBase, key: NestedKey, role: str) -> Tensor:
        """What plays ``role``, detached; with a mask only that of the samples that count, one behind the other."""
        value, mask = self._read(tensordict, key, role).detach(), self._mask(tensordict)
        if mask is None:
            return value
        while mask.ndim >= value.ndim and mask.shape[-1] == 1:
            mask = mask.squeeze(-1)
        return value[mask]

    def _with_estimates(self, tensordict: TensorDictBase, keys: Sequence[NestedKey]) -> TensorDictBase:
        """The data with ``keys``, by the value estimator where they are missing."""
        if all(isinstance(peek(tensordict, key), Tensor) for key in keys):
            return tensordict
        target = self._target_of(self.value_estimator.tensor_keys.value)
        return with_estimates(tensordict, keys, self.value_estimator, target)

    def _value_estimate(self, tensordict: TensorDictBase) -> Callable[[Tensor], Tensor]:
        """The value estimator as a function from the value of each sample's next state to its target."""
        return estimate_in(tensordict, self.value_estimator)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The state: parameters, targets, coefficients, the estimator's hyper-parameters.

        The default estimator is built first, so that the keys don't depend on whether the loss was called.
        """
        self._ensure_estimator()
        return super().state_dict(*args, **kwargs)

    def _ensure_estimator(self) -> None:
        if self._modules["_value_estimator"] is None and self.default_value_estimator is not None:
            self.make_value_estimator()

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        # Called for this module before its children are visited, also when a parent is loaded.
        self._ensure_estimator()
        estimator, of_estimator = self._modules["_value_estimator"], f"{prefix}_value_estimator."
        if estimator is not None and not any(key.startswith(of_estimator) for key in state_dict):
            # TorchRL's losses have no estimator before their first call: that of this loss stays as it is
            state_dict.update(estimator.state_dict(prefix=of_estimator))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
