"""Networks of several agents: with parameters of their own or shared, each for itself or with what all observe."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from specgen_runtime.modules.networks.convnet import ConvNet
from specgen_runtime.modules.networks.layers import Layer
from specgen_runtime.modules.networks.mlp import MLP
from specgen_runtime.modules.networks.stacked import run_stacked, stack_networks, unstack_networks
from specgen_runtime.typing import DEVICE_TYPING


class MultiAgentNetBase(nn.Module):
    """A network for each of several agents, or one for all of them.

    A subclass says what a single network is (`_build_single_net`), and checks its input (`_pre_forward_check`), in
    which it joins what the agents observe if `centralized`.

    The parameters are those of `params`: of one network if they are shared, else of one whose parameters have the agents
    as their first dimension.

    Args:
        n_agents: number of agents.
        centralized: each agent's output follows from what all agents observe.
        share_params: one network for all agents; if `centralized` as well, they all have the same output.
        agent_dim: the dimension of agents in the input.
        vmap_randomness: whether the agents' networks draw different numbers in dropout, where parameters are not shared.
        kwargs: for `_build_single_net`.
    """

    params: nn.Module

    def __init__(
        self,
        *,
        n_agents: int,
        centralized: bool,
        share_params: bool,
        agent_dim: int,
        vmap_randomness: Literal["different", "same", "error"] = "different",
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.n_agents = n_agents
        self.centralized = centralized
        self.share_params = share_params
        self.agent_dim = agent_dim
        self.vmap_randomness = vmap_randomness
        networks = [self._build_single_net(**kwargs) for _ in range(1 if share_params else n_agents)]
        self.params = networks[0] if share_params else stack_networks(networks)
        # The first call makes the parameters of lazy networks, of each by itself: a list, so no part of this module.
        lazy = not share_params and any(is_lazy(p) for p in networks[0].parameters())
        self._lazy_networks = networks if lazy else []

    @abstractmethod
    def _build_single_net(self, **kwargs: Any) -> nn.Module:
        """One agent's network."""

    @abstractmethod
    def _pre_forward_check(self, inputs: Tensor) -> Tensor:
        """The input of the networks; with the agents' dimension joined to another if `centralized`."""

    def forward(self, *inputs: Tensor) -> Tensor:
        """The outputs of all agents, whose dimension stands where it was in the input.

        Args:
            inputs: one tensor, or several that are joined along their last dimension.

        Raises:
            ValueError: the input has another number of agents, or too few dimensions.
        """
        joined = inputs[0] if len(inputs) == 1 else torch.cat(inputs, -1)
        agents = self.agent_dim % joined.ndim
        value = self._pre_forward_check(joined)
        if self.share_params:
            out: Tensor = self.params(value)
            if not self.centralized:
                return out
            out = out.unsqueeze(agents)
            return out.expand(*out.shape[:agents], self.n_agents, *out.shape[agents + 1 :])
        by_agent = (
            value.expand(self.n_agents, *value.shape)  # what all observe, for each of them
            if self.centralized
            else value.movedim(agents, 0)
        )
        if self._lazy_networks:
            self._make_parameters(by_agent)
        return run_stacked(self.params, by_agent, self.vmap_randomness).movedim(0, agents)

    def _make_parameters(self, by_agent: Tensor) -> None:
        """Give the parameters their sizes and values; they stay the same objects, as optimizers may have them."""
        known = dict(self.params.named_parameters())
        like = next(iter(known.values()))
        with torch.no_grad():
            for network, value in zip(self._lazy_networks, by_agent, strict=True):
                network.to(like.device, like.dtype)(value)
        self.params = stack_networks(self._lazy_networks, known)
        self._lazy_networks = []

    def get_stateful_net(self, copy: bool = True) -> nn.Module:
        """The network with the parameters of this module, to initialize them in place.

        Parameters that are not shared have the agents as their first dimension, so that it can't be called.

        Args:
            copy: a network of its own, whose parameters are the same tensors; False: this module's `params`.
        """
        return _with_same_tensors(self.params) if copy else self.params

    def from_stateful_net(self, stateful_net: nn.Module) -> None:
        """Take the values of a network's parameters.

        Args:
            stateful_net: as `get_stateful_net` returns it.

        Raises:
            ValueError: its parameters have other names.
        """
        mine, given = self.params.state_dict(), stateful_net.state_dict()
        if mine.keys() != given.keys():
            raise ValueError(
                f"parameters differ: {sorted(mine.keys() - given.keys())} are only here,"
                f" {sorted(given.keys() - mine.keys())} only in the network that was given"
            )
        self.params.load_state_dict(given)

    def reset_parameters(self) -> None:
        """Draw all parameters again, of each agent as its layers do."""
        networks = [self.params] if self.share_params else unstack_networks(self.params, self.n_agents)
        for network in networks:
            for layer in network.modules():
                reset = getattr(layer, "reset_parameters", None)
                if callable(reset):
                    reset()

    def extra_repr(self) -> str:
        """The agents' options."""
        return (
            f"n_agents={self.n_agents}, share_params={self.share_params}, centralized={self.centralized},"
            f" agent_dim={self.agent_dim}"
        )


class MultiAgentMLP(MultiAgentNetBase):
    """A perceptron for each of several agents, or one for all: `(*batch, n_agents, n_agent_inputs)` to
    `(*batch, n_agents, n_agent_outputs)`.

    Args:
        n_agent_inputs: size of an agent's input. None: that of the first call.
        n_agent_outputs: size of an agent's output, or its shape.
        n_agents: number of agents.
        centralized: each agent's output follows from the inputs of all, joined.
        share_params: one perceptron for all agents.
        device: of the parameters.
        depth: as `MLP`.
        num_cells: as `MLP`.
        activation_class: as `MLP`.
        kwargs: others of `MLP`, and `vmap_randomness` of `MultiAgentNetBase`.

    Raises:
        ValueError: as `MLP`.

    Example:
        >>> net = MultiAgentMLP(3, 2, n_agents=4, centralized=False, share_params=False, depth=1)
        >>> net(torch.zeros(8, 4, 3)).shape
        torch.Size([8, 4, 2])
    """

    def __init__(
        self,
        n_agent_inputs: int | None,
        n_agent_outputs: int | Sequence[int],
        n_agents: int,
        *,
        centralized: bool,
        share_params: bool,
        device: DEVICE_TYPING | None = None,
        depth: int | None = None,
        num_cells: Sequence[int] | int | None = None,
        activation_class: Layer = nn.Tanh,
        **kwargs: Any,
    ) -> None:
        of_all = n_agents if centralized else 1
        super().__init__(
            n_agents=n_agents,
            centralized=centralized,
            share_params=share_params,
            agent_dim=-2,
            in_features=None if n_agent_inputs is None else n_agent_inputs * of_all,
            out_features=n_agent_outputs,
            depth=depth,
            num_cells=num_cells,
            activation_class=activation_class,
            device=device,
            **kwargs,
        )

    def _build_single_net(self, **kwargs: Any) -> nn.Module:
        return MLP(**kwargs)

    def _pre_forward_check(self, inputs: Tensor) -> Tensor:
        _check_agents(self, inputs)
        return inputs.flatten(-2, -1) if self.centralized else inputs


class MultiAgentConvNet(MultiAgentNetBase):
    """A convolutional network for each of several agents, or one for all: `(*batch, n_agents, channels, height, width)`
    to `(*batch, n_agents, features)`.

    Args:
        n_agents: number of agents.
        centralized: each agent's output follows from the images of all, whose channels are joined.
        share_params: one network for all agents.
        in_features: channels of an agent's images. None: those of the first call.
        device: of the parameters.
        num_cells: as `ConvNet`.
        kernel_sizes: as `ConvNet`.
        strides: as `ConvNet`.
        paddings: as `ConvNet`.
        activation_class: as `ConvNet`.
        kwargs: others of `ConvNet`, and `vmap_randomness` of `MultiAgentNetBase`.

    Raises:
        ValueError: as `ConvNet`.
    """

    def __init__(
        self,
        n_agents: int,
        centralized: bool,
        share_params: bool,
        *,
        in_features: int | None = None,
        device: DEVICE_TYPING | None = None,
        num_cells: Sequence[int] | int | None = None,
        kernel_sizes: Sequence[int | Sequence[int]] | int = 5,
        strides: Sequence[int | Sequence[int]] | int = 2,
        paddings: Sequence[int | Sequence[int]] | int = 0,
        activation_class: Layer = nn.ELU,
        **kwargs: Any,
    ) -> None:
        of_all = n_agents if centralized else 1
        super().__init__(
            n_agents=n_agents,
            centralized=centralized,
            share_params=share_params,
            agent_dim=-4,
            in_features=None if in_features is None else in_features * of_all,
            num_cells=num_cells,
            kernel_sizes=kernel_sizes,
            strides=strides,
            paddings=paddings,
            activation_class=activation_class,
            device=device,
            **kwargs,
        )

    def _build_single_net(self, **kwargs: Any) -> nn.Module:
        return ConvNet(**kwargs)

    def _pre_forward_check(self, inputs: Tensor) -> Tensor:
        _check_agents(self, inputs)
        return inputs.flatten(-4, -3) if self.centralized else inputs


def _check_agents(network: MultiAgentNetBase, inputs: Tensor) -> None:
    name, dim = type(network).__name__, network.agent_dim
    if inputs.ndim < -dim or inputs.shape[dim] != network.n_agents:
        raise ValueError(
            f"{name} reads {network.n_agents} agents in dimension {dim}, got shape {tuple(inputs.shape)}"
        )


def _with_same_tensors(network: nn.Module) -> nn.Module:
    tensors = [*network.parameters(), *network.buffers()]
    return copy.deepcopy(network, {id(tensor): tensor for tensor in tensors})
