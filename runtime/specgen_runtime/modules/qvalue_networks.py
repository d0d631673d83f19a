"""Networks of the values of discrete actions, as losses take them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase, TensorDictSequential
from torch import Tensor, nn

from specgen_runtime.interop.torchrl_specs import own_spec
from specgen_runtime.modules.action_space import (
    SEVERAL_CHOICES,
    ActionSpace,
    ActionSpaceName,
    entry,
    find_action_space,
    find_var_nums,
)
from specgen_runtime.modules.choices import joint_log_probs, joint_values, values_by_choice
from specgen_runtime.modules.qvalue import QValueActor
from specgen_runtime.specs import Composite, TensorSpec
from specgen_runtime.typing import NestedKey

MOST_JOINT_ACTIONS = 2**16
"""Values of more joint actions are not computed: they would take the memory of several gigabytes for a batch."""


class JointActionValues(TensorDictModuleBase):  # type: ignore[misc]
    """Replaces the values of each choice of an action of several by those of all joint actions, `prod(var_nums)`.

    Values, `(*batch, sum(var_nums))`, are summed over the choices; of log-probabilities of atoms,
    `(*batch, n_atoms, sum(var_nums))`, the mixture in equal parts is made.

    Args:
        action_value_key: what it reads and writes.
        var_nums: how many values each choice has.
        of_atoms: whether they are log-probabilities of atoms.

    Raises:
        ValueError: there are more than `MOST_JOINT_ACTIONS` joint actions.
    """

    def __init__(self, action_value_key: NestedKey, var_nums: Sequence[int], *, of_atoms: bool) -> None:
        super().__init__()
        if math.prod(var_nums) > MOST_JOINT_ACTIONS:
            raise ValueError(
                f"choices of {list(var_nums)} values make {math.prod(var_nums)} joint actions, a loss computes the values"
                f" of {MOST_JOINT_ACTIONS} at most"
            )
        self.in_keys = [action_value_key]
        self.out_keys = [action_value_key]
        self.var_nums = tuple(var_nums)
        self.of_atoms = of_atoms

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Replace the action values.

        Raises:
            KeyError: they are missing.
            ValueError: there are not `sum(var_nums)` of them.
        """
        (key,) = self.in_keys
        values = entry(tensordict, key, owner="JointActionValues", role="the action value")
        joint = joint_log_probs if self.of_atoms else joint_values
        tensordict.set(key, joint(values, self.var_nums))
        return tensordict


class ValuesByChoice(TensorDictModuleBase):  # type: ignore[misc]
    """Puts the values of each choice of an action of several into a row: `(*batch, choices, most)`, as `values_by_choice`.

    Args:
        action_value_key: what it reads, `(*batch, sum(var_nums))`, and writes.
        var_nums: how many values each choice has.
    """

    def __init__(self, action_value_key: NestedKey, var_nums: Sequence[int]) -> None:
        super().__init__()
        self.in_keys = [action_value_key]
        self.out_keys = [action_value_key]
        self.var_nums = tuple(var_nums)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Replace the action values.

        Raises:
            KeyError: they are missing.
            ValueError: there are not `sum(var_nums)` of them.
        """
        (key,) = self.in_keys
        values = entry(tensordict, key, owner="ValuesByChoice", role="the action value")
        tensordict.set(key, values_by_choice(values, self.var_nums))
        return tensordict


def as_qvalue_ensemble(
    networks: nn.Module | list[nn.Module],
    action_space: ActionSpaceName | TensorSpec | None = None,
    action_key: NestedKey = "action",
) -> tuple[nn.Module | list[nn.Module], ActionSpace]:
    """As `as_qvalue_network`, of one module or of one for each member of an ensemble, whose actions are one choice.

    Raises:
        TypeError, ValueError: as `as_qvalue_network`; ValueError also if members choose actions of several kinds, or
            make several choices.
    """
    given = [networks] if isinstance(networks, nn.Module) else networks
    if not isinstance(given, (list, tuple)):
        raise TypeError(
            f"a network of action values must be an nn.Module, or a list of them, got {type(given).__name__}"
        )
    made = [as_qvalue_network(network, action_space, action_key) for network in given]
    spaces = {space for _, space, _ in made}
    if len(spaces) != 1:
        raise ValueError(f"the members of an ensemble choose actions of one kind, got {sorted(spaces)}")
    space = spaces.pop()
    if space in SEVERAL_CHOICES:
        raise ValueError(
            "the members of an ensemble choose 'one-hot' or 'categorical' actions, got "
            f"{space.replace('_', '-')!r}"
        )
    return made[0][0] if isinstance(networks, nn.Module) else [network for network, _, _ in made], space


def as_qvalue_network(
    network: nn.Module,
    action_space: ActionSpaceName | TensorSpec | None = None,
    action_key: NestedKey = "action",
) -> tuple[TensorDictModuleBase, ActionSpace, tuple[int, ...] | None]:
    """A network of action values as a tensordict module, how its actions are stored, and how many values choices have.

    If actions make several choices, the module writes the values of joint actions, see `JointActionValues`.

    Args:
        network: a plain module from ``"observation"`` to action values, or a tensordict module.
        action_space: ``"one-hot"``, ``"mult-one-hot"``, ``"categorical"``, ``"multi-categorical"`` or a spec; by default what
            the network says itself (its ``spec`` or ``action_space``).
        action_key: where specs that are composites hold the action.

    Raises:
        TypeError: if ``network`` is not a module.
        ValueError: if the action space is neither given nor known to the network, the two differ, or it is of several
            choices and the numbers of values are not known, or make too many joint actions.
    """
    found = _valued(network, action_space, action_key)
    if found.var_nums is None:
        return found.network, found.space, None
    of_atoms = found.support is not None
    made = JointActionValues(found.key, found.var_nums, of_atoms=of_atoms)
    joint = TensorDictSequential(found.network, made)
    if of_atoms:
        joint.register_buffer("support", found.support)
    return joint, found.space, found.var_nums


def as_choice_network(
    network: nn.Module,
    action_space: ActionSpaceName | TensorSpec | None = None,
    action_key: NestedKey = "action",
) -> tuple[TensorDictModuleBase, ActionSpace, tuple[int, ...]]:
    """As `as_qvalue_network`, of actions that make several choices; the module writes the values of each in a row of its own.

    Raises:
        TypeError: if ``network`` is not a module.
        ValueError: as `as_qvalue_network`; also if actions make one choice, or the network gives distributions of values.
    """
    found = _valued(network, action_space, action_key)
    if found.var_nums is None:
        raise ValueError(
            f"action_space is {found.space.replace('_', '-')!r}, which is one choice; actions of several are "
            "'mult-one-hot' or 'multi-categorical'"
        )
    if found.support is not None:
        raise ValueError("the network of the values of each choice gives values, not their distributions")
    made = TensorDictSequential(found.network, ValuesByChoice(found.key, found.var_nums))
    return made, found.space, found.var_nums


class _Valued(NamedTuple):
    """A network of action values: how actions are stored, how many values choices have, where values are, their support."""

    network: TensorDictModuleBase
    space: ActionSpace
    var_nums: tuple[int, ...] | None
    key: NestedKey
    support: Tensor | None


def _valued(
    network: nn.Module, action_space: ActionSpaceName | TensorSpec | None, action_key: NestedKey
) -> _Valued:
    if not isinstance(network, nn.Module):
        raise TypeError(f"a network of action values must be an nn.Module, got {type(network).__name__}")
    given = action_space if isinstance(action_space, TensorSpec) else None
    if not isinstance(network, TensorDictModuleBase):
        space = find_action_space(action_space, action_key=action_key)
        made: TensorDictModuleBase = QValueActor(
            network, action_space=space, var_nums=find_var_nums(space, None, given, action_key=action_key)
        )
    else:
        space, made = _stored_as(network, action_space, action_key), network
    if space not in SEVERAL_CHOICES:
        return _Valued(made, space, None, "action_value", None)
    choosing = next(
        (module for module in made.modules() if getattr(module, "var_nums", None) is not None), None
    )
    own = None if choosing is None else tuple(choosing.var_nums)
    var_nums = find_var_nums(space, own, given, action_key=action_key)
    key: NestedKey = getattr(made if choosing is None else choosing, "action_value_key", "action_value")
    return _Valued(made, space, var_nums, key, getattr(choosing, "support", None))


def _stored_as(
    network: TensorDictModuleBase, action_space: ActionSpaceName | TensorSpec | None, action_key: NestedKey
) -> ActionSpace:
    known = getattr(network, "action_space", None)
    if known is None:
        spec = own_spec(getattr(network, "spec", None))
        if isinstance(spec, Composite) and action_key not in spec.keys(True, True):
            spec = None  # its action has another key, which the loss may be told later
        return find_action_space(action_space, spec, action_key=action_key)
    if action_space is None:
        return find_action_space(known, action_key=action_key)
    space = find_action_space(action_space, action_key=action_key)
    if find_action_space(known, action_key=action_key) != space:
        raise ValueError(f"action_space is {space!r}, but the network chooses {known!r} actions")
    return space
