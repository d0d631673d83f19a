"""`FunctionalModule`: owns the parameters of its networks, with copies of them as targets, and ensembles."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import torch
from tensordict import TensorDict, TensorDictBase, TensorDictParams
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn

from specgen_runtime.objectives.module_base import TensorDictModuleParent
from specgen_runtime.objectives.networks import FunctionalNetwork
from specgen_runtime.objectives.parameters import (
    assigned_number,
    coefficient,
    common_parameters,
    copy_values,
    device_of,
    network_of_target,
    take_parameters,
    target_parameters,
)
from specgen_runtime.objectives.part_weights import weights_of_parts
from specgen_runtime.objectives.randomness import VmapRandomness, checked_randomness
from specgen_runtime.objectives.shared_parameters import SharedParameter, shared_parameters
from specgen_runtime.params import NumberRange


class FunctionalModule(TensorDictModuleParent):
    """A module that takes networks apart: their parameters are its own, and so are copies of them as targets.

    Args:
        functional: whether it does; otherwise networks are ordinary children and have no targets.
    """

    evaluated_networks: ClassVar[Sequence[str]] = ()
    """The networks that the module calls in evaluation mode besides."""

    ranges: ClassVar[Mapping[str, NumberRange]] = {}
    """The limits of its numbers, by their names; what is outside, or no number, can't be assigned."""

    def __init__(self, *, functional: bool = True) -> None:
        super().__init__()
        self._functional = functional
        self._networks: dict[str, FunctionalNetwork] = {}
        self._has_updater: dict[str, bool] = {}
        self._shared: list[SharedParameter] = []
        self._randomness: VmapRandomness | None = None

    if not TYPE_CHECKING:

        def __new__(cls, *_args: object, **_kwargs: object) -> Any:
            """A module whose class keeps its list of keys; tensordict would make a property of it."""
            return nn.Module.__new__(cls)

    @property
    def functional(self) -> bool:
        """Whether the parameters live in the loss rather than in the modules."""
        return self._functional

    def convert_to_functional(
        self,
        module: nn.Module | Sequence[nn.Module],
        module_name: str,
        expand_dim: int | None = None,
        create_target_params: bool = False,
        compare_against: Iterable[nn.Parameter] | None = None,
    ) -> None:
        """Take a network into the loss: its parameters, a stateless copy of its structure, its targets.

        Makes these attributes, for the name ``critic``: ``critic``, a module without parameters that is no
        registered child; ``critic_params``, the very parameters of ``module`` (trainable) and its buffers;
        ``target_critic_params`` (also ``critic_target_params``), copies in buffers that an updater moves, or,
        without ``create_target_params``, a detached view of the parameters.

        If the loss is not `functional`, ``critic`` is ``module`` itself, a registered child, and the parameters are None.

        Args:
            module: a tensordict module, or ``expand_dim`` of them. It keeps working, on the same parameters.
            module_name: the name of the network in the loss.
            expand_dim: make an ensemble of so many, along a new first dimension of each parameter; the members'
                parameters are drawn uniformly between the minimum and the maximum of the given ones.
            create_target_params: whether the targets are copies.
            compare_against: parameters that another network of the loss trains: they are detached here.

        Raises:
            TypeError: if ``module`` is not a module.
            ValueError: if ``expand_dim`` is not positive, or ``module_name`` is taken; if the loss is not `functional`
                and an ensemble, targets or parameters of another network are asked for.
            RuntimeError: if a list of modules has another length than ``expand_dim``.
        """
        if (
            not module_name.isidentifier()
            or module_name in self._networks
            or hasattr(type(self), module_name)
        ):
            raise ValueError(
                f"{module_name!r} cannot name a network of {type(self).__name__}: it must be a new identifier"
            )
        compared = None if compare_against is None else list(compare_against)
        if not self._functional:
            self._add_child(
                module, module_name, compared or [], alone=expand_dim is None and not create_target_params
            )
            return
        params = take_parameters(module, name=module_name, expand_dim=expand_dim, compare_against=compared)
        others = {other: self._params(other) for other in self._networks}
        self._shared += shared_parameters(module_name, module, compared or [], others)
        structure = module if isinstance(module, nn.Module) else module[0]
        network = FunctionalNetwork(
            module_name,
            structure,
            expanded=expand_dim is not None,
            evaluated=module_name in self.evaluated_networks,
        )
        self._networks[module_name] = network
        self.__dict__[module_name] = network.skeleton
        self._modules[f"{module_name}_params"] = params
        if create_target_params:
            self._modules[f"target_{module_name}_params"] = target_parameters(params)
            self._has_updater[module_name] = params.is_empty()  # nothing of it could be moved
        self._bind_networks()

    def _add_child(
        self,
        module: nn.Module | Sequence[nn.Module],
        name: str,
        compared: Collection[nn.Parameter],
        *,
        alone: bool,
    ) -> None:
        """Take a network with its parameters inside."""
        if not isinstance(module, nn.Module):
            raise TypeError(f"{name} must be an nn.Module, got {type(module).__name__}")
        if not alone or not {*map(id, compared)}.isdisjoint(map(id, module.parameters())):
            raise ValueError(
                f"{name}: functional=False leaves networks as they are: without members, targets, or parameters that "
                "another network trains alone"
            )
        self._modules[name] = module
        for missing in (f"{name}_params", f"target_{name}_params", f"{name}_target_params"):
            object.__setattr__(self, missing, None)
        self._networks[name] = FunctionalNetwork(
            name, module, expanded=False, functional=False, evaluated=name in self.evaluated_networks
        )

    @staticmethod
    def shared_by_members(modules: nn.Module | Sequence[nn.Module]) -> list[nn.Parameter]:
        """The users' own parameters in an ensemble: what all ``modules`` share. The others of an ensemble are new ones."""
        if isinstance(modules, nn.Module) or len(modules) < 2:
            return []
        found = common_parameters(modules).values()
        return [tensor for tensor in found if isinstance(tensor, nn.Parameter)]

    def functional_network(self, name: str) -> FunctionalNetwork:
        """The network called ``name``, to be called with its live, frozen or target parameters.

        Inside ``with parameters.to_module(loss):`` those are the ones given there, for `torch.vmap` over several.

        Raises:
            AttributeError: if there is none.
        """
        network = self._networks.get(name)
        if network is None:
            raise AttributeError(self._no_network(name))
        if self._functional and not network.is_bound(self._params(name), self._target(name)):
            self._bind_networks()
        return network

    def get_stateful_net(self, network_name: str, copy: bool | None = None) -> nn.Module:
        """A network with its parameters inside, for example to initialise them or to act with.

        Args:
            network_name: one of the loss's networks. An ensemble's parameters have a leading dimension: such a
                network is rarely callable without `torch.vmap`.
            copy: True (the default) gives copies of the parameters, whose changes go back by
                `from_stateful_net`; False gives the loss's own. If the loss is not `functional`, the network itself
                is returned.

        Raises:
            AttributeError: if there is no such network.
        """
        network = self.functional_network(network_name)
        if not self._functional:
            return network.skeleton
        return network.stateful(self._params(network_name), copied=copy is not False)

    def from_stateful_net(self, network_name: str, stateful_net: nn.Module) -> None:
        """Copy the values of the parameters and buffers of ``stateful_net`` into the loss's network; its targets become copies.

        Raises:
            AttributeError: if there is no such network.
            RuntimeError: if the names, shapes or dtypes differ; nothing is copied then.
        """
        self.functional_network(network_name)
        copy_values(self._tensors(network_name), TensorDict.from_module(stateful_net), name=network_name)
        self._copy_to_targets(network_name)

    def reset_parameters_recursive(self) -> None:
        """Draw the parameters of all networks anew, as their modules do when they are made; targets become copies."""
        for name, network in self._networks.items():
            network.reset_parameters(self._tensors(name))
            self._copy_to_targets(name)

    def _copy_to_targets(self, name: str) -> None:
        """Make the targets of a network, where it has such, what its parameters are."""
        if (target := self._target(name)) is not None:
            copy_values(target.data, self._params(name).data, name=name)

    def _trainable(self, names: Iterable[str]) -> list[nn.Parameter]:
        """The parameters of networks, and single ones, by their names: each once, those that require gradients."""
        found: dict[nn.Parameter, None] = {}
        for name in names:
            if name in self._networks:
                found |= dict.fromkeys(
                    p for p in self._tensors(name).values(True, True) if isinstance(p, nn.Parameter)
                )
            elif isinstance(one := getattr(self, name, None), nn.Parameter):
                found[one] = None
            elif isinstance(one, nn.Module):
                found |= dict.fromkeys(one.parameters())
        return [parameter for parameter in found if parameter.requires_grad]

    def _keep_module(self, name: str, module: nn.Module) -> None:
        """Hold a network as an ordinary child.

        Raises:
            TypeError: if it is no module.
        """
        if not isinstance(module, nn.Module):
            raise TypeError(f"{name} must be an nn.Module, got {type(module).__name__}")
        setattr(self, name, module)

    def _stop_training(self, name: str) -> None:
        """Let the parameters of a network require no gradients; they stay in the state."""
        for parameter in self._trainable([name]):
            parameter.requires_grad_(False)

    def target_networks(self) -> list[str]:
        """The networks that have target parameters of their own."""
        return list(self._has_updater)

    def _frozen_network(self, wanted: Callable[[FunctionalNetwork], bool]) -> TensorDictModuleBase | None:
        """The one network of the loss that is ``wanted``, with its parameters of the moment, which it doesn't train.

        None if there are none or several, or if it is an ensemble.
        """
        found = [network for network in self._networks.values() if wanted(network)]
        return found[0].frozen_module if len(found) == 1 else None

    def _warn_of_targets(self) -> None:
        names = [name for name, updated in self._has_updater.items() if not updated]
        warnings.warn(
            f"No target network updater has been made for this {type(self).__name__}: the target parameters of "
            f"{', '.join(names)} never change unless you move them yourself. Make a SoftUpdate or a HardUpdate of it.",
            UserWarning,
            stacklevel=3,
        )

    def _params(self, name: str) -> TensorDictParams:
        params = self._modules[f"{name}_params"]
        assert isinstance(params, TensorDictParams)
        return params

    def _target(self, name: str) -> TensorDictParams | None:
        return cast("TensorDictParams | None", self._modules.get(f"target_{name}_params"))

    def _tensors(self, name: str) -> TensorDictBase:
        """The parameters and buffers of a network, wherever they live."""
        return (
            self._params(name) if self._functional else TensorDict.from_module(self._networks[name].skeleton)
        )

    def _bind_networks(self) -> None:
        """Point the networks' copies at the tensors of the loss, which moving or copying it replaces."""
        for shared in self._shared:
            shared.link(self._params(shared.name), self._params(shared.source))
        for name, network in self._networks.items() if self._functional else ():
            network.bind(self._params(name), self._target(name))

    def _no_network(self, name: str) -> str:
        return f"{type(self).__name__} has no network {name!r}; it has {', '.join(self._networks) or 'none'}"

    @property
    def vmap_randomness(self) -> VmapRandomness:
        """What `torch.vmap` does with random draws in ensembles: ``"error"``, ``"different"`` or ``"same"``.

        By default ``"different"`` if a network holds a random module such as dropout (see `add_random_module`),
        else ``"error"``.
        """
        if self._randomness is not None:
            return self._randomness
        return "different" if any(network.is_random for network in self._networks.values()) else "error"

    @vmap_randomness.setter
    def vmap_randomness(self, value: VmapRandomness) -> None:
        self._randomness = checked_randomness(value)

    def set_vmap_randomness(self, value: VmapRandomness) -> None:
        """Set `vmap_randomness`."""
        self.vmap_randomness = value

    @property
    def deactivate_vmap(self) -> bool:
        """Whether the members of ensembles are called one after another where `torch.vmap` would call them at once."""
        return any(network.apart for network in self._networks.values())

    @deactivate_vmap.setter
    def deactivate_vmap(self, value: bool) -> None:
        for network in self._networks.values():
            network.apart = bool(value)

    def register_coeff_buffer(
        self,
        name: str,
        value: float | Tensor | None,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Register a scalar coefficient as a buffer; ``None`` makes the attribute None.

        Assigning a number to it later changes the buffer in place, keeping device and dtype.

        Raises:
            ValueError: if ``value`` is not one number.
        """
        if value is None:
            object.__setattr__(self, name, None)
            return
        self.register_buffer(name, coefficient(name, value, device=device, dtype=dtype))

    def train(self, mode: bool = True) -> Self:
        """Set the mode of the loss and of its networks (not of the modules they were made from)."""
        super().train(mode)
        for network in self._networks.values():
            for module in network.copies():
                module.train(mode)
        return self

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """As `torch.nn.Module.load_state_dict`."""
        result = super().load_state_dict(state_dict, strict=strict, assign=assign)
        self._bind_networks()
        return result

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._bind_networks()
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        # After copying or unpickling, the networks' copies hold other tensors than the parameters.
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._bind_networks()

    def _place_buffers(self, device: torch.device | str | int | None) -> None:
        """Move the buffers of the loss itself, such as coefficients, to a device; None leaves them where they are."""
        for name, buffer in self._buffers.items() if device is not None else ():
            self._buffers[name] = None if buffer is None else buffer.to(device)

    def __setattr__(self, name: str, value: Any) -> None:
        if (message := self.__dict__.get("_not_assigned", {}).get(name)) is not None:
            raise AttributeError(message)
        buffer = (buffers := self.__dict__.get("_buffers", {})).get(name)
        if (limits := self.ranges.get(name)) is not None:
            value = weights_of_parts(self, name, value) if isinstance(value, Mapping) else value
            value = assigned_number(name, self.__dict__.get(name), buffer, value, limits)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and name in buffers:
            if buffer is None:
                place = device_of(self.parameters())
                value = coefficient(name, value, device=place, dtype=torch.get_default_dtype())
            elif buffer.numel() == 1:
                buffer.fill_(value)
                return
        super().__setattr__(name, value)
        if isinstance(value, TensorDictParams) and name in self._modules and "_networks" in self.__dict__:
            self._bind_networks()

    if TYPE_CHECKING:
        __getattr__: None  # type: ignore[misc,assignment]
    else:

        def __getattr__(self, name: str) -> Any:
            """Target parameters under both their names, also where they are a view; whether there are own ones (``delay_…``)."""
            if name in (
                buffers := self.__dict__.get("_buffers", {})
            ):  # coefficients, which each forward reads
                return buffers[name]
            networks = self.__dict__.get("_networks", {})
            network = network_of_target(name) if name.endswith("_params") else None
            if network is not None and network in networks:
                own = self._modules.get(f"target_{network}_params")
                return self._params(network).data if own is None else own
            if name.startswith("delay_") and (delayed := f"{name[6:]}_network") in networks:
                return delayed in self._has_updater
            return super().__getattr__(name)
