"""`TransformedEnv`: an environment with transforms."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping
from textwrap import indent
from typing import Any, Self

import torch
from tensordict import TensorDict, TensorDictBase
from typing_extensions import TypeVar

from specgen_runtime.envs.base import EnvBase, S
from specgen_runtime.envs.rollout import RolloutOptions
from specgen_runtime.envs.rollout_steps import RolloutSteps
from specgen_runtime.envs.wrapping import WrappingEnv
from specgen_runtime.specs import Composite, TensorSpec
from specgen_runtime.transforms.around import AroundTransform
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.base_actions import Masks, base_action_masks, base_rand_action
from specgen_runtime.transforms.bound import BoundTransform
from specgen_runtime.transforms.compose import Compose, leaves
from specgen_runtime.transforms.function import TransformLike, as_transform
from specgen_runtime.transforms.keys import subspec
from specgen_runtime.transforms.parts import InnerEnv, parts_of
from specgen_runtime.transforms.stages import Stages
from specgen_runtime.typing import DEVICE_TYPING, NestedKey

__all__ = ["TransformedEnv"]

T = TypeVar("T", bound=TensorDictBase, default=TensorDict)

# What transforms raise that do not fit their environment.
_UNFIT = (KeyError, TypeError, ValueError, RuntimeError)


class TransformedEnv(WrappingEnv[T, S]):
    """An environment whose data and specs pass through transforms.

    Args:
        base_env: the environment inside.
        transform: a transform, a chain, or a function of a tensordict (see `FunctionTransform`).
        auto_unwrap: make one chain with that of `base_env`, if it is a `TransformedEnv` itself; else keep it whole.
        device: where `base_env` is moved to, if given.

    Attributes:
        base_env: the environment inside.

    Rules:
        - At a step, what the policy wrote passes through the transforms from the last to the first, and what the
          environment returns from the first to the last. Transforms see the root as the policy left it.
        - At a reset, everything is computed for all rows; rows that are not being reset keep their old entries.
        - A transform that raises `terminated` or `truncated` raises `done` with it, and what is raised at the root
          holds for every nested group.
        - Where a transform carries an entry that a later one rewrites, or the base environment reads a state entry
          that a transform rewrites, the unrewritten value is kept below an entry ``"_carry"`` beside it: never does
          what is shown to the policy feed back into what is carried.
        - Specs are transformed once; `empty_cache` forgets them. Other public attributes are those of `base_env`.

    Example:
        >>> env = TransformedEnv(CartPole(), Compose(StepCounter(max_steps=100), RewardSum()))
        >>> env.rollout(200)["next", "step_count"].max()
        tensor(100)
    """

    _same_actions: bool | None = None  # whether the base environment takes the actions as they are
    _known_masks: Masks | None = None
    _parts_refuse_casts = True

    def __init__(
        self,
        base_env: EnvBase[Any],
        transform: TransformLike | None = None,
        *,
        auto_unwrap: bool = True,
        device: DEVICE_TYPING | None = None,
    ) -> None:
        if not isinstance(base_env, EnvBase):
            raise TypeError(f"base_env is an environment, got {base_env!r}")
        if device is not None:
            base_env.to(device)
        chosen = Compose() if transform is None else as_transform(transform)
        # Exactly TransformedEnv: a subclass may do more than pass things on, so it stays whole.
        if auto_unwrap and type(base_env) is TransformedEnv:
            chosen = Compose(base_env.transform.clone(), chosen)
            base_env = base_env.base_env
        super().__init__(
            device=chosen.transform_env_device(base_env.device),
            batch_size=chosen.transform_env_batch_size(base_env.batch_size),
            batch_locked=base_env.batch_locked,
            check_finite=base_env.check_finite,
        )
        self.base_env = base_env
        self._supports_set_state = base_env._supports_set_state
        self._known_stages: Stages | None = None
        self._known_parts: InnerEnv | None = None
        self._install(chosen)

    # -------------------------------------------------------------- transforms

    @property
    def transform(self) -> Transform:
        """The transform, or the chain of them."""
        return self._transform

    @transform.setter
    def transform(self, transform: TransformLike) -> None:
        self._transform.reset_parent()
        self._install(as_transform(transform))

    def __setattr__(self, name: str, value: Any) -> None:
        # nn.Module registers any module that is assigned, and never reaches the property.
        if name == "transform":
            TransformedEnv.transform.fset(self, value)  # type: ignore[attr-defined]
        else:
            super().__setattr__(name, value)

    def _install(self, transform: Transform) -> None:
        if self._device is not None:
            transform.to(self._device)
        transform.eval()
        transform.set_container(self)
        self._transform = transform
        self.empty_cache()

    def share_memory(self) -> Self:
        """Put all statistics, parameters and buffers where processes share them: what one learns, all know.

        Copies in other processes, such as the environments of a `ParallelEnv`, share them if they are made behind this
        call.
        """
        super().share_memory()
        self._transform.share_memory()
        return self

    def append_transform(self, transform: TransformLike) -> TransformedEnv:
        """Add a transform at the end of the chain; returns this environment."""
        return self.insert_transform(len(leaves(self._transform)), transform)

    def insert_transform(self, index: int, transform: TransformLike) -> TransformedEnv:
        """Add a transform before the one at `index`; returns this environment.

        Raises:
            ValueError: if `index` is not within the chain or at its end.
        """
        added = as_transform(transform)
        if self._device is not None:
            added.to(self._device)
        if type(self._transform) is Compose:
            self._transform.insert(index, added)
        else:
            only = self._transform
            only.reset_parent()
            chain = Compose(only)
            chain.insert(index, added)
            self._install(chain)
        self.empty_cache()
        return self

    def empty_cache(self) -> None:
        """Forget the specs and everything that transforms derived from them."""
        self._known_stages = self._known_parts = self._known_layout = self._same_actions = None
        self._known_masks = None
        self._groups.clear()
        self._transform.empty_cache()
        self._batch_size = self._transform.transform_env_batch_size(self.base_env.batch_size)
        self._device = self._transform.transform_env_device(self.base_env.device)

    @property
    def _allow_done_after_reset(self) -> bool:
        return self.base_env._allow_done_after_reset

    @_allow_done_after_reset.setter
    def _allow_done_after_reset(self, value: bool) -> None:
        if "base_env" in self._modules:  # the constructor of the base class sets it first
            raise RuntimeError(
                "_allow_done_after_reset is a read-only property for TransformedEnvs: set it on base_env"
            )

    @property
    def _acts_in_resets(self) -> bool:  # type: ignore[override]
        around = [entry for entry in leaves(self._transform) if isinstance(entry, AroundTransform)]
        return self.base_env._acts_in_resets or any(entry._acts_in_resets for entry in around)

    def _upstream_of(self, transform: Transform) -> TransformedEnv:
        """The base environment with the transforms before `transform`."""
        chain = leaves(self._transform)
        whole = 0 if transform is self._transform else None  # before the whole chain is nothing
        place = next((index for index, entry in enumerate(chain) if _holds(entry, transform)), whole)
        if place is None:
            raise ValueError(f"{type(transform).__name__} is not part of this environment")
        before = [entry.clone() for entry in chain[:place]]
        view = TransformedEnv(self.base_env, Compose(before), auto_unwrap=False)
        try:
            stages = self._stages()
        except _UNFIT:
            return (
                view  # what stands behind it may not fit; the environment before it is asked for all the same
            )
        for copy, original in zip(before, chain, strict=False):
            if isinstance(copy, BoundTransform) and isinstance(original, BoundTransform):
                # Its keys were bound here; nobody asks for them, and so for the parent, again.
                copy._adopt(original)
        view._known_stages = stages.until(before)
        return view

    def _rollout_steps(self, options: RolloutOptions) -> RolloutSteps:
        steps = self._transform._rollout_steps
        return super()._rollout_steps(options) if steps is None else steps(self, options)

    def set_missing_tolerance(self, mode: bool = False) -> None:
        """Let the transforms pass over missing inputs, or raise; see `Transform.set_missing_tolerance`."""
        self._transform.set_missing_tolerance(mode)

    def register_collector(self, collector: object) -> None:
        """Tell the transforms which collector runs this environment; it is not kept alive."""
        self.__dict__["_collector_ref"] = weakref.ref(collector)

    @property
    def collector(self) -> Any:
        """The collector that runs this environment, or the one inside, if it was registered."""
        known = self.__dict__.get("_collector_ref")
        inside = None if known is not None else getattr(self.base_env, "collector", None)
        return inside if known is None else known()

    # ------------------------------------------------------------------- specs

    def _stages(self) -> Stages:
        if self._known_stages is None:
            # Kept while it is found: transforms may ask for the environment before them.
            self._known_stages = Stages(self.base_env, leaves(self._transform), self._first_index)
            try:
                self._known_stages.find()
            except BaseException:
                self._known_stages = None
                raise
            self._known_layout = self._same_actions = self._known_masks = None
        return self._known_stages

    @property
    def _columns(self) -> frozenset[NestedKey]:
        return self._stages().specs[-1].columns

    def _index_of(self, transform: Transform) -> int:
        """The place of a transform in the chain."""
        return next(index for index, entry in enumerate(leaves(self._transform)) if _holds(entry, transform))

    @property
    def _parts(self) -> InnerEnv:
        """What runs the transforms, those that step the environment before them included."""
        if self._known_parts is None:
            self._stages()
            self._known_parts = parts_of(self, leaves(self._transform))
        return self._known_parts

    @property
    def _first_index(self) -> int:
        """How many transforms wrapped environments have: counted on from there, private keys never collide."""
        inner = self.base_env
        return inner._first_index + len(leaves(inner.transform)) if isinstance(inner, TransformedEnv) else 0

    def _group(self, name: str) -> Composite:
        last = self._stages().specs[-1]
        return subspec(last.inputs if name in last.inputs else last.outputs, name)

    def _set_group(self, name: str, spec: TensorSpec | None) -> None:
        raise RuntimeError(
            f"{name.removeprefix('full_')} of a TransformedEnv follows from its base environment and its transforms; "
            "set it on `base_env`, then call `empty_cache()`"
        )

    @property
    def batch_size(self) -> torch.Size:
        """The batch size of the base environment, as the transforms change it."""
        return self._batch_size

    @batch_size.setter
    def batch_size(self, value: object) -> None:
        raise RuntimeError("the batch size of a TransformedEnv is that of its base environment; set it there")

    # ------------------------------------------------------------------- moments

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._parts.step(tensordict)

    @property
    def _kept_at_reset(self) -> Collection[NestedKey]:
        if self.batch_size != self.base_env.batch_size:
            return ()  # its rows are others
        return [key for key in self.base_env._kept_at_reset if key not in self._stages().written]

    @property
    def _action_masks(self) -> Masks:
        self._stages()
        if self._known_masks is None:
            self.__dict__["_known_masks"] = base_action_masks(self)
        return self._known_masks or ()

    def rand_action(self, tensordict: T | None = None) -> T:
        """Write random actions, as the base environment draws them; see `EnvBase.rand_action`.

        Raises:
            RuntimeError: the base environment has a `rand_action` of its own, and transforms change the actions.
        """
        drawn = base_rand_action(self, tensordict)
        return super().rand_action(tensordict) if drawn is None else drawn

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        parts = self._parts
        request = self._transform._reset_env_preprocess(None if tensordict is None else tensordict.copy())
        return parts.reset(tensordict, request, **kwargs)

    def _stash_state(self, tensordict: TensorDictBase) -> None:
        for key, place in self._stages().private_state.items():
            tensordict.set(place, tensordict.get(key))

    def _complete_dones(self, tensordict: TensorDictBase) -> None:
        """Write flags that a transform declares and did not write; the base environment's own are complete."""
        for level in self._stages().flag_sets:
            for key in level.flags:
                if tensordict.get(key, None) is None:
                    tensordict.set(key, torch.zeros_like(tensordict.get(level.done)))

    def fake_tensordict(self) -> T:
        """One transition of zeros, as the specs say and `transform_fake_tensordict` of the transforms changes it."""
        fake: T = self.transform.transform_fake_tensordict(super().fake_tensordict())
        return fake

    def add_truncated_keys(self) -> Self:
        """Declare `truncated` in the done sets of the base environment that have it not, even here; returns self."""
        if any(s.truncated is None for s in self._done_sets):
            self.base_env.add_truncated_keys()
            self.empty_cache()
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move the base environment, the transforms and the specs; in place, returns this environment."""
        self.base_env.to(*args, **kwargs)
        self._transform.to(*args, **kwargs)
        self.empty_cache()
        return self

    def train(self, mode: bool = True) -> Self:
        """Put the transforms in training (or evaluation) mode."""
        self.training = mode
        if "_transform" in self._modules:
            self._transform.train(mode)
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """The state of the transforms."""
        state: dict[str, Any] = self._transform.state_dict(*args, **kwargs)
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Restore the state of the transforms."""
        return self._transform.load_state_dict(state_dict, *args, **kwargs)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called, here or on the base environment."""
        return self._closed or self.base_env.is_closed

    @is_closed.setter
    def is_closed(self, value: bool) -> None:
        self._closed = bool(value)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the base environment and release what the transforms hold."""
        super().close(raise_if_closed=raise_if_closed)
        self._transform.close()

    def __getstate__(self) -> dict[str, Any]:
        # A collector stays where it is; weak references can't be pickled.
        return {name: value for name, value in self.__dict__.items() if name != "_collector_ref"}

    def __repr__(self) -> str:
        inside = f"env={self.base_env!r},\ntransform={self._transform!r}"
        return f"{type(self).__name__}(\n{indent(inside, '    ')})"


def _holds(entry: Transform, wanted: Transform) -> bool:
    return entry is wanted or (isinstance(entry, Compose) and any(_holds(inner, wanted) for inner in entry))
