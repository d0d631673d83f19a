"""`DecisionTransformerInferenceWrapper`: a policy over sequences that acts."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase, unravel_key
from tensordict.nn import TensorDictModuleBase, TensorDictModuleWrapper, dispatch
from torch import Tensor

from specgen_runtime.interop.torchrl_specs import own_spec
from specgen_runtime.modules.action_space import entry
from specgen_runtime.params import int_param
from specgen_runtime.specs import Composite, TensorSpec
from specgen_runtime.typing import DEVICE_TYPING, NestedKey

__all__ = ["DecisionTransformerInferenceWrapper"]

_INPUTS = ("observation", "action", "return_to_go")


class DecisionTransformerInferenceWrapper(TensorDictModuleWrapper):  # type: ignore[misc]
    """Lets a policy over sequences act (Chen et al. 2021, arXiv:2106.01345): it gives the last action of what it predicts.

    The policy reads observations, actions and returns to go, `[*batch, time, n]`. Of the actions each is the one that was done
    before its step, as `CatFrames` has them: they are moved by one step, and the last one, which is to be said, is 0. All but
    the last `inference_context` steps are 0, too. The tensordict that is given stays as it is. The one that is returned has what
    the policy writes, but of actions and returns to go the last alone, and no dimension of time among its batch dimensions.

    Args:
        policy: reads and writes tensordicts.
        inference_context: how many steps the policy sees, the present one included.
        spec: of the action, or a composite of what is written.
        device: where the spec is put; None: where it is.

    Attributes:
        observation_key, action_key, return_to_go_key: what the policy reads; see `set_tensor_keys`.
        out_action_key: the action that it writes.

    Raises:
        ValueError: `inference_context` is below 1.
        TypeError: it is no integer, or `spec` no spec.
    """

    td_module: TensorDictModuleBase

    def __init__(
        self,
        policy: TensorDictModuleBase,
        *,
        inference_context: int = 5,
        spec: TensorSpec | None = None,
        device: DEVICE_TYPING | None = None,
    ) -> None:
        super().__init__(policy)
        self.inference_context = int_param("inference_context", inference_context, at_least=1)
        self.observation_key: NestedKey = "observation"
        self.action_key: NestedKey = "action"
        self.out_action_key: NestedKey = "action"
        self.return_to_go_key: NestedKey = "return_to_go"
        made = own_spec(getattr(policy, "spec", None) if spec is None else spec)
        if made is not None and not isinstance(made, TensorSpec):
            raise TypeError(f"spec must be a spec, got {type(made).__name__}")
        if not isinstance(made, Composite):
            made = Composite({self.action_key: made})
        self._spec: Composite = made.clone() if device is None else made.to(device)

    @property
    def spec(self) -> Composite:
        """The specs of what is written, by key; None for what is not known."""
        return self._spec

    @property
    def in_keys(self) -> list[NestedKey]:
        """What the policy reads."""
        return [self.observation_key, self.action_key, self.return_to_go_key]

    @property
    def out_keys(self) -> list[NestedKey]:
        """What is written: what the policy writes, and what it reads."""
        return sorted({*self.td_module.out_keys, *self.in_keys}, key=str)

    def set_tensor_keys(self, **keys: NestedKey) -> None:
        """Read and write other entries.

        Args:
            **keys: `observation`, `action`, `return_to_go`, what the policy reads; `out_action`, the action that it writes.

        Raises:
            TypeError: for another name.
            ValueError: the policy does not write `out_action`.
        """
        unknown = keys.keys() - {*_INPUTS, "out_action"}
        if unknown:
            raise TypeError(
                f"set_tensor_keys takes {', '.join(_INPUTS)} and out_action, got {', '.join(sorted(unknown))}"
            )
        found = {f"{name}_key": unravel_key(key) for name, key in keys.items()}
        written = found.get("out_action_key", self.out_action_key)
        if written not in self.td_module.out_keys:
            raise ValueError(
                f"the policy writes {self.td_module.out_keys}, and no {written!r}: say out_action"
            )
        for name, key in found.items():
            setattr(self, name, key)

    def step(self, frames: int = 1) -> None:
        """Nothing: it does not change with the frames that are collected."""

    def mask_context(self, tensordict: TensorDictBase) -> TensorDictBase:
        """What the policy reads, in the tensordict: moved actions, and 0 outside of the context.

        Raises:
            KeyError: an entry is missing.
            ValueError: they are of different shapes before their last dimension.
        """
        observation, action, return_to_go = (
            entry(tensordict, key, owner="DecisionTransformerInferenceWrapper", role=f"the {role}")
            for key, role in zip(self.in_keys, _INPUTS, strict=True)
        )
        if len({value.shape[:-1] for value in (observation, action, return_to_go)}) > 1:
            shapes = ", ".join(str(list(value.shape)) for value in (observation, action, return_to_go))
            raise ValueError(
                f"observations, actions and returns to go are [*batch, time, n] with one batch and time, got {shapes}"
            )
        moved = torch.cat([action[..., 1:, :], torch.zeros_like(action[..., :1, :])], -2)
        for key, value in zip(self.in_keys, (observation, moved, return_to_go), strict=True):
            tensordict.set(key, self._seen(value))
        return tensordict

    def _seen(self, value: Tensor) -> Tensor:
        """The last steps of a sequence, and 0 before them."""
        hidden = value.shape[-2] - self.inference_context
        if hidden <= 0:
            return value
        return torch.cat([torch.zeros_like(value[..., :hidden, :]), value[..., hidden:, :]], -2)

    @dispatch(auto_batch_size=False)  # type: ignore[untyped-decorator]
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """What the policy does now.

        Raises:
            KeyError, ValueError: as `mask_context`; ValueError also if the policy does not write `out_action_key`.
        """
        self.set_tensor_keys()
        made = tensordict.copy()
        observation = made.get(self.observation_key)
        made = self.td_module(self.mask_context(made))
        action = made.get(self.out_action_key)
        if made.ndim == action.ndim - 1:  # time is one of the batch dimensions
            made.batch_size = made.batch_size[:-1]
        made.set(self.out_action_key, action[..., -1, :])
        made.set(self.return_to_go_key, made.get(self.return_to_go_key)[..., -1, :])
        return made.set(self.observation_key, observation)
