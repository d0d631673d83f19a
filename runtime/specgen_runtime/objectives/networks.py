"""`FunctionalNetwork`: a network of a loss, called with its live, its frozen or its target parameters."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal, cast

import torch
from tensordict import TensorDict, TensorDictBase, TensorDictParams
from tensordict.nn import ProbabilisticTensorDictModule, TensorDictModuleBase
from torch import Tensor, nn

from specgen_runtime.objectives.composites import writes_parts_of
from specgen_runtime.objectives.copies import called_directly, stateless, structure_copied
from specgen_runtime.objectives.draws import drawn_members
from specgen_runtime.objectives.inputs import Replaced, input_record, input_tensors
from specgen_runtime.objectives.keys import agent_dims, with_keys
from specgen_runtime.objectives.layers import with_call_overhead
from specgen_runtime.objectives.members import Members, can_be_called_apart
from specgen_runtime.objectives.parameters import bind, meta_tensors, own_tensors, without_gradients
from specgen_runtime.objectives.policies import (
    CertainPolicy,
    PolicyDistribution,
    distribution_module,
    policy_of,
    stored_distribution,
)
from specgen_runtime.objectives.randomness import is_random, random_modules
from specgen_runtime.objectives.steps import Steps, steps_to, steps_to_distribution
from specgen_runtime.objectives.written_entries import WrittenEntries
from specgen_runtime.typing import NestedKey


class FunctionalNetwork:
    """A module whose parameters live outside it, with one bound copy of its structure per set of parameters.

    Swapping parameters in and out of one module costs more than a small forward does. Here each set of parameters
    has its own copy of the module's structure, which holds these very tensors: calling is a plain module call, and
    of plain modules only those are called that what is asked for needs, without tensordicts between them.
    The copies also have their own training mode, so that ``loss.eval()`` and the policy's do not meet.

    Args:
        name: the name of the network in its loss, for messages.
        module: the module given by the user; it is left as it is.
        expanded: whether its parameters have a leading ensemble dimension, over which calls are vmapped.
        functional: False leaves the parameters in the module, which is called itself.
        evaluated: whether it is called in evaluation mode, too: see `evaluated`.
    """

    def __init__(
        self,
        name: str,
        module: nn.Module,
        *,
        expanded: bool,
        functional: bool = True,
        evaluated: bool = False,
    ) -> None:
        self.name = name
        self.expanded = expanded
        self._functional = functional
        if functional:
            self.skeleton = stateless(name, module)
            self._live = called_directly(name, module, own_tensors(module))
        else:
            self.skeleton = self._live = module
        self._frozen = called_directly(name, module, own_tensors(module))
        self._target: nn.Module | None = None
        self._params: dict[str, TensorDictBase] = {}
        self._members: Members | None = None
        if expanded and can_be_called_apart(module):
            self._members = Members(called_directly(name, module, meta_tensors(module)))
        self._steps: dict[tuple[str, NestedKey], Steps | None] = {}
        self._dist_steps: dict[str, tuple[Steps, ProbabilisticTensorDictModule] | None] = {}
        self._bound: tuple[object, object] = (None, None)
        self._is_random: tuple[int, bool] | None = None
        # such as states of recurrent modules, which begin as zeros
        self._optional = {key for part in module.modules() for key in getattr(part, "optional_in_keys", ())}
        self.apart = False  # whether members are called one after another, without `torch.vmap`
        self.agents: NestedKey | None = None  # the group whose agents are samples
        self._evaluated: FunctionalNetwork | None = None
        if evaluated:
            self._evaluated = FunctionalNetwork(name, module, expanded=expanded, functional=functional)
            self._evaluated._stay_in_evaluation()

    @property
    def evaluated(self) -> FunctionalNetwork:
        """The network in evaluation mode, whatever the mode of the loss is: running statistics stay as they are.

        Raises:
            RuntimeError: if it was not made with ``evaluated``.
        """
        if self._evaluated is None:
            raise RuntimeError(f"network {self.name} has no copy in evaluation mode")
        self._evaluated.apart, self._evaluated.agents = self.apart, self.agents
        return self._evaluated

    def _stay_in_evaluation(self) -> None:
        """Set the mode of all copies but the module itself."""
        for module in self.copies():
            if self._functional or module is self._frozen:
                module.eval()

    @property
    def in_keys(self) -> list[NestedKey]:
        """What the network reads, without that whose entries it writes itself."""
        module = with_keys(self.skeleton, self.name)
        written = module.out_keys
        return [key for key in module.in_keys if not writes_parts_of(key, written)]

    @property
    def out_keys(self) -> list[NestedKey]:
        """What the network writes."""
        return list(with_keys(self.skeleton, self.name).out_keys)

    @property
    def stored_keys(self) -> list[NestedKey]:
        """Where a policy writes the parameters of its distribution."""
        return cast("list[NestedKey]", list(distribution_module(self.skeleton, self.name).in_keys))

    @property
    def is_random(self) -> bool:
        """Whether it draws random numbers when called; see `add_random_module`."""
        known = random_modules()
        if not self._functional:
            return is_random(self.skeleton)  # which is the user's, who may change it
        if self._is_random is None or self._is_random[0] != len(known):
            self._is_random = len(known), is_random(self.skeleton)
        return self._is_random[1]

    @property
    def frozen_module(self) -> TensorDictModuleBase | None:
        """A module that computes with the parameters of the moment, without gradients to them; None for ensembles."""
        return None if self.expanded else cast("TensorDictModuleBase", self._frozen)

    def bind(self, params: TensorDictParams, target: TensorDictParams | None) -> None:
        """Bind the copies to the parameters of the loss; once more whenever those tensors were replaced."""
        self._bound = _tensors_of(params), _tensors_of(target)
        if self._evaluated is not None:
            self._evaluated.bind(params, target)
        if self.expanded:
            detached = without_gradients(params)
            self._params = {
                "live": params,
                "frozen": detached,
                "target": detached if target is None else without_gradients(target),
            }
            if self._members is not None:
                for which, tensors in self._params.items():
                    self._members.bind(which, tensors)
            return
        bind(self._live, params)
        bind(self._frozen, without_gradients(params))
        if (target is None) is not (self._target is None):
            self._steps, self._dist_steps = {}, {}  # those of the targets are of other modules from now on
        if target is None:
            self._target = None
            return
        if self._target is None:
            self._target = structure_copied(self.name, self._live, own_tensors(self._live))
        bind(self._target, target)

    def is_bound(self, params: TensorDictParams, target: TensorDictParams | None) -> bool:
        """Whether these are the parameters that the copies hold: `TensorDict.to_module` exchanges what is in them."""
        live, delayed = self._bound
        return params._param_td is live and (None if target is None else target._param_td) is delayed

    def copies(self) -> list[nn.Module]:
        """Every copy of the structure, to set their mode."""
        members = None if self._members is None else self._members.module
        copies = (self.skeleton, self._live, self._frozen, self._target, members)
        return [module for module in copies if module is not None]

    def live(
        self,
        record: TensorDictBase,
        key: NestedKey,
        replaced: Replaced | None = None,
        *,
        draws: bool = False,
        randomness: str = "error",
        choose: int | None = None,
    ) -> Tensor:
        """Entry ``key`` of what the network writes for ``record``, with gradients to its parameters.

        Args:
            record: holds the network's ``in_keys`` at its root; it is not written to.
            key: one of the network's ``out_keys``.
            replaced: what it reads instead of entries of the record, by their keys; gradients go through.
            draws: whether what is replaced has a dimension of draws in front of the batch, and so has the result.
            randomness: for ensembles, what `torch.vmap` is told.
            choose: for ensembles, of how many members, which are drawn; None for all.

        Raises:
            KeyError: if ``record`` lacks an input, the network does not read what is replaced, or does not write
                ``key``.
            ValueError: if there are fewer members than are to be drawn.
        """
        return self._call("live", self._live, record, key, replaced, draws, randomness, choose)

    def frozen(
        self,
        record: TensorDictBase,
        key: NestedKey,
        replaced: Replaced | None = None,
        *,
        draws: bool = False,
        randomness: str = "error",
        choose: int | None = None,
    ) -> Tensor:
        """As `live`, with the same values of the parameters but no gradients to them."""
        self._follow()
        return self._call("frozen", self._frozen, record, key, replaced, draws, randomness, choose)

    def target(
        self,
        record: TensorDictBase,
        key: NestedKey,
        replaced: Replaced | None = None,
        *,
        draws: bool = False,
        randomness: str = "error",
        choose: int | None = None,
    ) -> Tensor:
        """As `live`, with the target parameters; without any, the same as `frozen`."""
        if self._target is None and not self.expanded:
            return self.frozen(record, key, replaced, draws=draws)
        return self._call(
            "target", self._target or self._frozen, record, key, replaced, draws, randomness, choose
        )

    def outputs(
        self,
        copy: Literal["live", "frozen", "target"],
        record: TensorDictBase,
        replaced: Replaced | None = None,
        *,
        draws: bool = False,
    ) -> WrittenEntries:
        """What the network writes for ``record``, of one run with one of its sets of parameters.

        Args:
            copy: which parameters: see the methods of these names.
            record: holds the network's ``in_keys`` at its root; it is not written to.
            replaced: what it reads instead of entries of the record, by their keys.
            draws: whether what is replaced has a dimension of draws in front of the batch.

        Raises:
            KeyError: as `live`; an entry that is not written, when it is asked for.
        """
        if copy != "live":
            self._follow()
        module = {"live": self._live, "frozen": self._frozen, "target": self._target or self._frozen}[copy]
        return WrittenEntries(self, module(self.inputs(record, replaced, draws)))

    def dist(
        self,
        copy: Literal["live", "frozen", "target", "stored"],
        record: TensorDictBase,
        replaced: Replaced | None = None,
        *,
        draws: bool = False,
        samples: int = 0,
        plain: NestedKey | None = None,
    ) -> PolicyDistribution:
        """The distribution that the network gives for each sample of ``record``, with one of its sets of parameters.

        Args:
            copy: which parameters: see the methods of these names; ``"stored"`` is the distribution that the policy wrote
                into the record, which is not run.
            record: holds the network's ``in_keys`` at its root; it is not written to.
            replaced: what it reads instead of entries of the record, by their keys.
            draws: whether what is replaced has a dimension of draws in front of the batch.
            samples: how many dimensions samples have behind those of the batch, such as one of agents or tokens.
            plain: the entry of which a network that gives no distribution is certain.

        Raises:
            KeyError: if ``record`` lacks an input, or the network does not read what is replaced.
            ValueError: if the batch size of the group lacks the dimension of the agents.
        """
        samples = samples if self.agents is None else agent_dims(record, self.agents)
        if copy == "stored":
            return stored_distribution(self.skeleton, record, self.name, samples)
        if copy != "live":
            self._follow()
        module = {"live": self._live, "frozen": self._frozen, "target": self._target or self._frozen}[copy]
        if plain is not None and not hasattr(module, "get_dist"):
            output = self._call(copy, module, record, plain, replaced, draws, "error")
            return CertainPolicy(output, record.batch_dims + (draws and bool(replaced)))
        if copy not in self._dist_steps:
            self._dist_steps[copy] = steps_to_distribution(module) if self._functional else None
        known = self._dist_steps[copy]
        if known is not None:
            steps, last = known
            tensors = input_tensors(record, steps.reads, replaced, draws)
            if tensors is not None and (values := steps(tensors)) is not None:
                dims = record.batch_dims + (draws and bool(replaced)) + samples
                return policy_of(last.get_dist(cast("Any", values)), dims, self.agents, record)
        inputs = self.inputs(record, replaced, draws)
        distribution = cast("Any", module).get_dist(inputs)
        return policy_of(distribution, inputs.batch_dims + samples, self.agents, record)

    def _follow(self) -> None:
        """Let the frozen copy have the parameters of the moment, where the loss does not hold them itself."""
        if not self._functional:
            bind(self._frozen, without_gradients(cast("TensorDictBase", TensorDict.from_module(self._live))))

    def stateful(self, params: TensorDictParams, *, copied: bool) -> nn.Module:
        """A module of this structure that holds ``params``: themselves, or copies of them."""
        module = structure_copied(self.name, self._live, own_tensors(self._live))
        with_call_overhead(module)
        bind(module, params)
        return copy.deepcopy(module) if copied else module

    def reset_parameters(self, params: TensorDictParams) -> None:
        """Draw ``params`` anew, in place, by the modules' own ``reset_parameters``; each member of an ensemble alone."""
        detached = params.data
        for member in detached.unbind(0) if self.expanded else [detached]:
            with member.to_module(self.skeleton, preserve_module_state=False):
                for module in self.skeleton.modules():
                    reset = getattr(module, "reset_parameters", None)
                    if callable(reset):
                        reset()

    def _call(
        self,
        which: str,
        module: nn.Module,
        record: TensorDictBase,
        key: NestedKey,
        replaced: Replaced | None,
        draws: bool,
        randomness: str,
        choose: int | None = None,
    ) -> Tensor:
        chosen = None if choose is None else drawn_members(self._params[which], choose)
        if (value := self._by_steps(which, module, record, key, replaced, draws, chosen)) is not None:
            return value
        inputs = self.inputs(record, replaced, draws)
        if not self.expanded:
            return WrittenEntries(self, module(inputs))[key]
        params = self._params[which] if chosen is None else self._params[which][chosen]
        return WrittenEntries(self, self._vmapped(params, inputs, randomness))[key]

    def _by_steps(
        self,
        which: str,
        module: nn.Module,
        record: TensorDictBase,
        key: NestedKey,
        replaced: Replaced | None,
        draws: bool,
        chosen: Tensor | None = None,
    ) -> Tensor | None:
        """The entry, by the modules that it needs; None if the network can only be called as a whole."""
        members = self._members
        if not self._functional or (self.expanded and (members is None or not members.can_call(which, key))):
            return None
        place = (which, key)
        if place not in self._steps:
            self._steps[place] = steps_to(module if members is None else members.module, key)
        steps = self._steps[place]
        inputs = None if steps is None else input_tensors(record, steps.reads, replaced, draws)
        if steps is None or inputs is None:
            return None
        if members is not None:
            value = members(which, steps, inputs, key, chosen)
        else:
            outputs = steps(inputs)
            value = None if outputs is None else cast("Tensor", outputs[key])
        size = record.batch_size
        start = self.expanded + (draws and bool(replaced))
        if value is not None and value.shape[start : start + len(size)] != size:
            raise RuntimeError(
                f"network {self.name} gives {key!r} of shape {list(value.shape)} for a batch of size {list(size)}"
            )
        return value

    def inputs(
        self, record: TensorDictBase, replaced: Replaced | None = None, draws: bool = False
    ) -> TensorDictBase:
        """What the network reads of ``record``, as `live` takes it, in a new tensordict; errors are those of `live`."""
        return input_record(record, self.in_keys, replaced, draws, optional=self._optional, name=self.name)

    def _vmapped(self, params: TensorDictBase, inputs: TensorDictBase, randomness: str) -> TensorDictBase:
        def member(parameters: TensorDictBase, tensordict: TensorDictBase) -> TensorDictBase:
            with parameters.to_module(self.skeleton, preserve_module_state=False):
                return cast("TensorDictBase", self.skeleton(tensordict))

        if self.apart:
            each = [member(one, inputs.copy()) for one in params.unbind(0)]
            return cast("TensorDictBase", torch.stack(each))
        vmapped: Callable[..., Any] = torch.vmap(member, (0, None), randomness=randomness)
        return cast("TensorDictBase", vmapped(params, inputs))


def _tensors_of(params: TensorDictParams | None) -> object:
    """What holds the tensors of parameters."""
    return None if params is None else params._param_td
