"""What groups of agents do next, for critics of other groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from specgen_runtime.typing import TensorDictBase

if TYPE_CHECKING:
    from specgen_runtime.objectives import LossModule


def write_next_actions(loss: LossModule, network: str, batch: TensorDictBase) -> None:
    """Write what a policy does in the next states of a batch, under the key of the loss's action (Lowe et al. 2017, equation 6).

    It acts with its target parameters where the loss has such, and without gradients.

    Args:
        loss: the loss that the policy is of.
        network: what the loss calls the policy.
        batch: transitions; `next` gets the action.

    Raises:
        KeyError: there are no next states, or they lack what the policy reads.
        AttributeError: the loss has no such network.
    """
    key = loss.tensor_keys.action
    following = batch["next"]
    with torch.no_grad():
        following.set(key, loss.functional_network(network).target(following, key))
