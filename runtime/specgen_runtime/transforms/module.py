"""`ModuleTransform`: a module as a transform, here or in an actor of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn

from specgen_runtime.services import ActorOptions, HereOrInActors, RayService, described
from specgen_runtime.specs import Composite
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.keys import leaf_keys, normal_keys
from specgen_runtime.transforms.spec_changes import SpecChange, changed, like_value
from specgen_runtime.transforms.weights import copy_weights, sent_weights
from specgen_runtime.typing import DEVICE_TYPING, NestedKey

__all__ = ["ModuleTransform", "RayModuleTransform"]


class ModuleTransform(HereOrInActors, Transform):
    """Runs a module on what an environment returns, at reset and at step, or on the actions that it is given.

    The keys are those of the module; offline it runs wherever they stand, at the root and under ``"next"``. In an environment it runs without gradients, unless one of its inputs needs
    them; elsewhere (`forward`, `inv`) as `no_grad` says. Inputs that no reset has, such as rewards, are not waited for:
    what depends on them is zero after a reset. Entries of the environment's output that no `..._spec_transform`
    accounts for get an unbounded spec, of the shape and dtype that the module gives for zeros.

    Args:
        module: has `in_keys` and `out_keys`, and takes a tensordict, as a `TensorDictModule`. Exclusive with
            `module_factory`; one of them is needed.
        module_factory: makes the module.
        no_grad: whether to run it without gradients outside environments, too.
        inverse: whether it turns what the policy wrote into what the environment takes: `inv` runs it, and `forward`
            does nothing. Keys that replace others need `action_spec_transform` or `state_spec_transform`.
        device: where the module runs; inputs are moved there, outputs back. None: where it is.
        use_ray_service: whether to run it in a Ray actor: a `RayModuleTransform`.
        actor_name: of the Ray actor. If there is one of this name that runs the same module, it is used.
        num_gpus: that the Ray actor occupies; `num_cpus` the same (None: 0).
        observation_spec_transform: the observation specs with the module's outputs, or a function of those without.
            As for the others, the spec of one entry stands for the only one that the module writes in this group.
        action_spec_transform: the same for the action specs that the policy sees.
        reward_spec_transform: the same for rewards.
        done_spec_transform: the same for done flags.
        state_spec_transform: the same for the state specs that the user sees.

    Raises:
        ValueError: not exactly one of `module` and `module_factory`; arguments of Ray without `use_ray_service`.
        TypeError: the module has no keys.

    Example:
        >>> encode = TensorDictModule(nn.Linear(4, 2), in_keys=["observation"], out_keys=["feature"])
        >>> env = TransformedEnv(GymEnv("CartPole-v1"), ModuleTransform(module=encode))
        >>> env.reset()["feature"].shape
        torch.Size([2])
    """

    module: nn.Module

    def __init__(
        self,
        *,
        module: nn.Module | None = None,
        module_factory: Callable[[], nn.Module] | None = None,
        no_grad: bool = False,
        inverse: bool = False,
        device: DEVICE_TYPING | None = None,
        use_ray_service: bool = False,
        actor_name: str | None = None,
        num_gpus: float | None = None,
        num_cpus: float | None = None,
        observation_spec_transform: SpecChange = None,
        action_spec_transform: SpecChange = None,
        reward_spec_transform: SpecChange = None,
        done_spec_transform: SpecChange = None,
        state_spec_transform: SpecChange = None,
    ) -> None:
        super().__init__()
        if (module is None) == (module_factory is None):
            raise ValueError("ModuleTransform takes either `module` or `module_factory`")
        given: ActorOptions = {"actor_name": actor_name, "num_gpus": num_gpus, "num_cpus": num_cpus}
        actor = self._actor_options(use_ray_service, given)
        self.no_grad = no_grad
        self.inverse = inverse
        self.device = None if device is None else torch.device(device)
        self.observation_spec_transform = observation_spec_transform
        self.action_spec_transform = action_spec_transform
        self.reward_spec_transform = reward_spec_transform
        self.done_spec_transform = done_spec_transform
        self.state_spec_transform = state_spec_transform
        reads, writes = self._prepare(module, module_factory, actor)
        if inverse:
            self.in_keys_inv, self.out_keys_inv = writes, reads
        else:
            self.in_keys, self.out_keys = reads, writes

    def _prepare(
        self, module: nn.Module | None, module_factory: Callable[[], nn.Module] | None, actor: ActorOptions
    ) -> tuple[list[NestedKey], list[NestedKey]]:
        """Take or make the module; the keys that it reads and writes."""
        made: Any = module_factory() if module is None and module_factory is not None else module
        if not hasattr(made, "in_keys") or not hasattr(made, "out_keys"):
            raise TypeError(
                f"module is a TensorDictModule, got {type(made).__name__}, which does not say what it reads and"
                " writes: wrap it in TensorDictModule(module, in_keys=[...], out_keys=[...])"
            )
        self.module = made if self.device is None else made.to(self.device)
        return self.keys_of_module()

    def keys_of_module(self) -> tuple[list[NestedKey], list[NestedKey]]:
        """The keys that the module reads, and those that it writes."""
        module: Any = self.module
        return normal_keys(module.in_keys), [key for key in normal_keys(module.out_keys) if key != "_"]

    # --------------------------------------------------------------- moments

    def run_module(self, inputs: TensorDictBase, gradients: bool) -> TensorDictBase:
        """The outputs of the module, on the device of its inputs.

        Args:
            inputs: what it reads.
            gradients: whether to record them.
        """
        device = self.device
        home = _device_of(inputs)
        with torch.set_grad_enabled(gradients and torch.is_grad_enabled()):
            given = inputs.copy() if device is None else inputs.to(device)
            outputs: TensorDictBase = self.module(given).select(*self.keys_of_module()[1])
            return outputs if device is None or home is None else outputs.to(home)

    def _apply_module(
        self, tensordict: TensorDictBase, reads: list[NestedKey], gradients: bool
    ) -> TensorDictBase:
        inputs = tensordict.empty()
        for key in reads:
            value = self._read(tensordict, key, self._missing_tolerance)
            if value is None:
                return tensordict
            inputs.set(key, value)
        for key, value in self.run_module(inputs, gradients).items(True, True):
            tensordict.set(key, value)
        return tensordict

    def _needs_gradients(self, tensordict: TensorDictBase, reads: list[NestedKey]) -> bool:
        values = (tensordict.get(key, None) for key in reads)
        return not self.no_grad and any(isinstance(value, Tensor) and value.requires_grad for value in values)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        if self.inverse:
            return next_tensordict
        gradients = self._needs_gradients(next_tensordict, self.in_keys)
        return self._apply_module(next_tensordict, self.in_keys, gradients)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        if self.inverse:
            return tensordict_reset
        env = self.parent
        if env is None:
            return self._call(tensordict_reset)
        if any(key in env.reward_keys and key not in tensordict_reset for key in self.in_keys):
            specs = self.transform_observation_spec(env.full_observation_spec.clone())
            zeros = [key for key in leaf_keys(specs) if key in self.out_keys]
            return tensordict_reset.update({key: specs[key].zero() for key in zeros})
        rewards = {*env.reward_keys, *(() if self.container is None else self.container.reward_keys)}
        return self._call(tensordict_reset).exclude(*rewards.intersection(self.out_keys))

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self.inverse:
            return tensordict
        moments = [tensordict, tensordict.get("next", TensorDict())]
        whole = [each for each in moments if all(each.get(key, None) is not None for key in self.in_keys)]
        for moment in whole or [tensordict]:
            self._apply_module(moment, self.in_keys, not self.no_grad)
        return tensordict

    def _inverse_map(self, tensordict: TensorDictBase, tolerant: bool) -> TensorDictBase:
        reads = self.out_keys_inv
        if not self.inverse or (tolerant and any(key not in tensordict for key in reads)):
            return tensordict
        gradients = self._needs_gradients(tensordict, reads) if self.container else not self.no_grad
        return self._apply_module(tensordict, reads, gradients)

    def update_weights(self, weights: TensorDictBase | Mapping[str, Any]) -> None:
        """Copy new values into the parameters and buffers of the module.

        Args:
            weights: a tensordict as `TensorDict.from_module` makes it, or a state dict.

        Raises:
            KeyError, ValueError: it does not fit the module, which stays as it was.
        """
        copy_weights(self.module, weights)

    def set_training(self, mode: bool) -> None:
        """Put the module in training (or evaluation) mode; `train`, without a result that is sent back."""
        self.train(mode)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Change the module's dtype, and its device unless one was given; see `torch.nn.Module.to`."""
        if self.device is None:
            return super().to(*args, **kwargs)
        for wanted in (*args, *kwargs.values()):
            if isinstance(wanted, (torch.dtype, Tensor)):
                self.module.to(wanted if isinstance(wanted, torch.dtype) else wanted.dtype)
        return self

    # ----------------------------------------------------------------- specs

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """The observation specs with what the module writes; inferred where nothing was given."""
        elsewhere: set[NestedKey] = set()
        if (env := self.parent) is not None:
            rewards = self.transform_reward_spec(env.full_reward_spec.clone())
            elsewhere = {
                *leaf_keys(rewards),
                *leaf_keys(self.transform_done_spec(env.full_done_spec.clone())),
            }
        written = [key for key in self.out_keys if key not in elsewhere]
        return self._output_specs(observation_spec, self.observation_spec_transform, written)

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """The reward specs; of rewards that the module writes inferred where nothing was given."""
        return self._output_specs(reward_spec, self.reward_spec_transform, self._written_in(reward_spec))

    def transform_done_spec(self, done_spec: Composite) -> Composite:
        """The done specs; of flags that the module writes inferred where nothing was given."""
        return self._output_specs(done_spec, self.done_spec_transform, self._written_in(done_spec))

    def transform_action_spec(self, action_spec: Composite) -> Composite:
        """The action specs that the policy sees, as `action_spec_transform` says.

        Raises:
            ValueError: the module reads entries that have no spec.
        """
        specs = changed(action_spec, self.action_spec_transform, self.out_keys_inv)
        if self.inverse and self.action_spec_transform is None and self.state_spec_transform is None:
            env = self.parent
            known = leaf_keys(action_spec) + ([] if env is None else leaf_keys(env.full_state_spec))
            missing = [key for key in self.out_keys_inv if key not in known]
            if missing:
                raise ValueError(
                    f"the module reads {', '.join(map(repr, missing))} from the policy; say what they are by"
                    " action_spec_transform"
                )
        return specs

    def transform_state_spec(self, state_spec: Composite) -> Composite:
        """The state specs that the user sees, as `state_spec_transform` says."""
        return changed(state_spec, self.state_spec_transform, self.out_keys_inv)

    def _written_in(self, specs: Composite) -> list[NestedKey]:
        present = leaf_keys(specs)
        return [key for key in self.out_keys if key in present]

    def _output_specs(self, specs: Composite, change: SpecChange, written: list[NestedKey]) -> Composite:
        if change is not None:
            return changed(specs, change, self.out_keys)
        made = self._made_of_zeros(specs) if written else None
        if made is not None:
            for key in written:
                specs[key] = like_value(made.get(key))
        return specs

    def _made_of_zeros(self, specs: Composite) -> TensorDictBase | None:
        """What the module makes of zeros; None if there are no specs of its inputs."""
        env = self.parent
        known = [specs]
        if env is not None:
            known += [env.full_observation_spec, env.full_reward_spec, env.full_done_spec]
        zeros = TensorDict({}, specs.shape, device=specs.device)
        for key in self.in_keys:
            spec = next((group[key] for group in known if key in leaf_keys(group)), None)
            if spec is None:
                return None
            zeros.set(key, spec.zero())
        training = self.training
        self.eval()  # no batch statistics from zeros
        try:
            with torch.random.fork_rng(devices=[]):
                return self.run_module(zeros, gradients=False)
        finally:
            self.train(training)

    def __repr__(self) -> str:
        keys = (
            f"{self.out_keys_inv} -> {self.in_keys_inv}"
            if self.inverse
            else f"{self.in_keys} -> {self.out_keys}"
        )
        return f"{type(self).__name__}({keys})"


class RayModuleTransform(ModuleTransform, in_actors=True):
    """A `ModuleTransform` whose module runs in an actor of a Ray cluster.

    One actor can serve several environments. Gradients do not reach the module. `close` ends the actor, unless it
    has a name: then others may use it, and `service.kill()` ends it.

    Args:
        kwargs: as for `ModuleTransform`.

    Attributes:
        service: the actor.

    Raises:
        ImportError: Ray is not installed.
        ValueError: the actor of that name runs another module, or with other settings.
        TimeoutError: the actor did not start, as where the GPUs that it asks for are not there.
    """

    service: RayService

    def _prepare(
        self, module: nn.Module | None, module_factory: Callable[[], nn.Module] | None, actor: ActorOptions
    ) -> tuple[list[NestedKey], list[NestedKey]]:
        create = partial(
            ModuleTransform,
            module=module,
            module_factory=module_factory,
            no_grad=self.no_grad,
            inverse=self.inverse,
            device=self.device,
        )
        settings = {
            "module": described(type(module) if module_factory is None else module_factory),
            "no_grad": str(self.no_grad),
            "inverse": str(self.inverse),
            "device": str(self.device),
        }
        self.service = RayService(
            create,
            what="ModuleTransform",
            settings=settings,
            **actor,
        )
        return self.keys_of_module()

    def keys_of_module(self) -> tuple[list[NestedKey], list[NestedKey]]:
        """The keys that the module reads, and those that it writes."""
        reads, writes = self.service.call("keys_of_module")
        return reads, writes

    def run_module(self, inputs: TensorDictBase, gradients: bool) -> TensorDictBase:
        """The outputs of the module, on the device of its inputs.

        Raises:
            RuntimeError: an input needs gradients.
        """
        reads = list(inputs.keys(True, True))
        if gradients and torch.is_grad_enabled() and self._needs_gradients(inputs, reads):
            raise RuntimeError(
                "gradients do not cross to the Ray actor of this ModuleTransform: detach its inputs, or give no_grad=True"
            )
        home = _device_of(inputs)
        outputs: TensorDictBase = self.service.call("run_module", inputs, False)
        return outputs if home is None else outputs.to(home)

    def update_weights(self, weights: TensorDictBase | Mapping[str, Any]) -> None:
        """Copy new values into the parameters and buffers of the module in the actor; see `ModuleTransform`."""
        self.service.call("update_weights", sent_weights(weights))

    def train(self, mode: bool = True) -> Self:
        """Put the module in training (or evaluation) mode."""
        super().train(mode)
        if not self.service.closed:
            self.service.call("set_training", mode)
        return self

    def close(self) -> None:
        """Use the actor no more; one without a name ends."""
        self.service.close()


def _device_of(inputs: TensorDictBase) -> torch.device | None:
    return inputs.device or next((leaf.device for leaf in inputs.values(True, True)), None)
