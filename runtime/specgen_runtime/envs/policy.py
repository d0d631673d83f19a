"""The policies that a rollout accepts, and the checks of the actions that they give."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from tensordict import LazyStackedTensorDict, TensorDictBase, is_non_tensor
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn

from specgen_runtime.dtypes import dtype_name
from specgen_runtime.envs.keys import show_key
from specgen_runtime.envs.traced import is_traced
from specgen_runtime.specs.classes.categorical import Categorical
from specgen_runtime.specs.classes.vectors import VectorSpec
from specgen_runtime.specs.non_tensors.data import data_text, plain
from specgen_runtime.typing import DEVICE_TYPING, NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs.layout import Layout

__all__ = [
    "as_policy",
    "check_action_values",
    "check_actions",
    "note_inputs",
    "observation_policy",
    "on_policy_device",
    "shown",
    "takes_tensordict",
]


def as_policy(layout: Layout, policy: Callable[..., Any], trust_policy: bool = False) -> Callable[[Any], Any]:
    """Make any accepted policy a function from the root tensordict to the root with actions.

    Args:
        layout: of the environment; it says which observations feed a policy that takes no tensordict, and where its
            result goes.
        policy: what takes a tensordict: anything with `in_keys`, or whose first parameter is called `tensordict` or
            `td` or is annotated as a tensordict. Any other callable or module takes the top-level entries of the
            observation spec, in their order, and returns the action, or a tuple of all actions.
        trust_policy: take it for one that takes a tensordict, whatever it looks like.

    Raises:
        TypeError: it is not callable, or cannot take the observations.
    """
    if not callable(policy):
        raise TypeError(f"a policy must be callable, found {type(policy).__name__}")
    if not trust_policy and not takes_tensordict(policy):
        return _from_observations(layout, policy)

    in_keys = getattr(policy, "in_keys", ())

    def act(tensordict: Any) -> Any:
        try:
            result = policy(tensordict)
        except RuntimeError as error:
            note_inputs(error, in_keys, [tensordict.get(key, None) for key in in_keys])
            raise
        if result is tensordict:
            return tensordict
        if not isinstance(result, TensorDictBase):
            raise TypeError(
                f"a policy must return the tensordict with {_names(layout.action.keys)} in it,"
                f" found {type(result).__name__}"
            )
        return tensordict.update(result)

    return act


def note_inputs(error: RuntimeError, keys: Sequence[NestedKey], values: Sequence[Any]) -> None:
    """Note at an error of a policy, which may be torch's own, what it was called with."""
    read = [
        f"{show_key(key)}, {dtype_name(value.dtype)} {list(value.shape)}"
        for key, value in zip(keys, values, strict=True)
        if isinstance(value, Tensor)
    ]
    if read:
        error.add_note(f"in the policy, which was called with {' and '.join(read)}")


def takes_tensordict(policy: Callable[..., Any]) -> bool:
    """Whether a policy is called with the root tensordict, by what it looks like."""
    if hasattr(policy, "in_keys") or isinstance(policy, TensorDictModuleBase):
        return True
    signature = _signature(policy)
    if signature is None:
        return not isinstance(policy, nn.Module)
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.name in ("tensordict", "td"):
        return True
    declared = first.annotation
    if isinstance(declared, str):
        return "TensorDict" in declared
    return isinstance(declared, type) and issubclass(declared, TensorDictBase)


def _signature(policy: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(policy.forward if isinstance(policy, nn.Module) else policy)
    except (TypeError, ValueError):  # some builtins have none
        return None


def observation_policy(
    layout: Layout, policy: Callable[..., Any]
) -> tuple[list[str], Callable[[Any], tuple[Any, ...]]]:
    """What a policy that takes no tensordict is called with, and how its result becomes a tuple of all actions.

    Raises:
        TypeError: it cannot take the observations.
    """
    observations, actions = list(layout.observation.spec.keys()), layout.action.keys
    name = getattr(policy, "__name__", type(policy).__name__)
    signature = _signature(policy)
    if signature is not None and "input_ids" in signature.parameters and hasattr(policy, "generate"):
        raise TypeError(
            f"the policy {name} reads tokens, input_ids, as models of transformers do: wrap it,"
            " specgen_runtime.llm.TransformersWrapper(model, tokenizer=tokenizer)"
        )
    if signature is not None:
        try:
            signature.bind(*observations)
        except TypeError as error:
            raise TypeError(
                f"the policy {name}{signature} takes no tensordict (its first parameter would be called tensordict or"
                f" td), so it is called with the observations {_names(observations)}: {error};"
                " wrap it in a TensorDictModule to choose others"
            ) from None

    def values_of(result: Any) -> tuple[Any, ...]:
        values = result if isinstance(result, tuple) else (result,)
        if len(values) != len(actions) or any(isinstance(value, TensorDictBase) for value in values):
            found = ", ".join(type(value).__name__ for value in values)
            raise TypeError(
                f"the policy {name} is called with the observations {_names(observations)} and must return"
                f" {_names(actions)}, found {found}; a policy that takes the tensordict has a first parameter called"
                " tensordict or td"
            )
        return values

    return observations, values_of


def _from_observations(layout: Layout, policy: Callable[..., Any]) -> Callable[[Any], Any]:
    observations, values_of = observation_policy(layout, policy)

    def act(tensordict: Any) -> Any:
        values = [tensordict.get(key) for key in observations]
        try:
            result = policy(*values)
        except RuntimeError as error:
            note_inputs(error, observations, values)
            raise
        for key, value in zip(layout.action.keys, values_of(result), strict=True):
            tensordict.set(key, value)
        return tensordict

    return act


def on_policy_device(
    act: Callable[[Any], Any],
    policy: Callable[..., Any],
    env_device: torch.device | None,
    device: torch.device | None = None,
) -> Callable[[Any], Any]:
    """Run a policy on a device, that of its parameters if none is said, and bring the result back."""
    if device is None and isinstance(policy, nn.Module):
        device = next((parameter.device for parameter in policy.parameters()), None)
    if device is None or device == env_device:
        return act

    def moved(tensordict: Any) -> Any:
        result = act(tensordict.to(device))
        back = result.to(env_device if env_device is not None else "cpu")
        return back if env_device is not None else back.clear_device_()

    return moved


def check_actions(
    layout: Layout, rollout: TensorDictBase, device: DEVICE_TYPING | None = None, *, zeros: bool = False
) -> None:
    """Refuse actions outside their spec, for all steps of a rollout `[*batch, T]` at once.

    Floating-point actions may miss the domain by rounding (1e-5 relative, 1e-6 absolute).

    Args:
        layout: of the environment.
        rollout: the transitions.
        device: where they are, if not where the environment is.
        zeros: whether one-hot vectors may be all zeros, as `spec.zero()` is: no class is chosen, and it is for `_step`
            to know what that means, or to refuse it.

    Raises:
        ValueError: naming the key, the step and the value.
    """
    time = rollout.batch_dims - 1
    lazy = isinstance(rollout, LazyStackedTensorDict)  # sizes may differ from step to step
    for leaf in (e.leaf for e in layout.action.entries):
        spec = leaf.spec if device is None else leaf.spec.to(device)
        actions = None if lazy or leaf.items else rollout.get(leaf.key)
        if isinstance(actions, torch.Tensor) and _allowed(spec, actions.movedim(time, 0), zeros=zeros):
            continue
        for t, step in enumerate(rollout.unbind(time)):
            value = leaf.find(step)
            if not _allowed(spec, value, zeros=zeros):
                raise ValueError(
                    f"the policy's {leaf} at step {t} is not in its spec {spec}: found {shown(value)}"
                )


def check_action_values(
    layout: Layout, leaves: Sequence[tuple[NestedKey, Any]], actions: Sequence[torch.Tensor]
) -> None:
    """Refuse the actions of one step that are outside their spec, as `check_actions` does for a rollout.

    Only on the CPU: on other devices, looking at values would wait for all that is computed there. Where torch
    traces, there are none.

    Args:
        layout: of the environment, for the message.
        leaves: the keys and the specs of its actions.
        actions: in the same order, of the right shapes and dtypes.

    Raises:
        ValueError: naming the key and the value.
    """
    if is_traced():
        return
    for (key, spec), action in zip(leaves, actions, strict=True):
        if action.device.type == "cpu" and not (_is_class(spec, action) or _allowed(spec, action)):
            name = f"{layout.env}.step"
            lost = " (a policy whose losses were nan gives that)" if bool(action.isnan().any()) else ""
            raise ValueError(
                f"{name}: {show_key(key)} is not in its spec {spec}: found {shown(action)}{lost}"
            )


def _is_class(spec: Any, action: torch.Tensor) -> bool:
    """Whether a single action is the index of a class, without a mask, and in range: ten times cheaper than `is_in`."""
    if action.numel() != 1 or type(spec) is not Categorical or spec.mask is not None:
        return False
    return 0 <= action.item() < spec.n


def _allowed(spec: Any, action: Any, *, zeros: bool = False) -> bool:
    if getattr(spec, "mask", None) is not None:  # that of the last step only
        spec = spec.clone()
        spec.update_mask(None)
    if spec.is_in(action):
        return True
    if zeros and isinstance(spec, VectorSpec) and spec.is_in(spec.with_choices(action)):
        return True
    if not isinstance(action, torch.Tensor) or action.is_nested or not action.is_floating_point():
        return False
    return torch.allclose(action, spec.project(action.clone()), rtol=1e-5, atol=1e-6)


def shown(value: Any) -> str:
    """A value as messages print it: a tensor by its dtype, shape and range."""
    if not isinstance(value, torch.Tensor) or value.is_nested:
        return data_text(plain(value, 0) if is_non_tensor(value) else value)
    return f"{value.dtype} {list(value.shape)} in [{value.min()}, {value.max()}]"


def _names(keys: Sequence[Any]) -> str:
    return ", ".join(show_key(key) for key in keys) or "none"
