"""`DeployedPolicy`: a policy with the transforms that it was trained behind."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from threading import RLock
from typing import Any, NoReturn, cast

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from specgen_runtime.deployment.names import check_names, flat, one_word
from specgen_runtime.deployment.needed import needed_by
from specgen_runtime.deployment.observed_env import learned_apart, observed
from specgen_runtime.dtypes import dtype_name
from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.exploration import ExplorationType, set_exploration_type
from specgen_runtime.envs.keys import MissingKeyError, as_tuple, join_key
from specgen_runtime.envs.traced import is_traced
from specgen_runtime.random_state import drawing_nothing
from specgen_runtime.specs import TensorSpec
from specgen_runtime.transforms.compose import leaves
from specgen_runtime.transforms.env import TransformedEnv
from specgen_runtime.typing import DEVICE_TYPING, NestedKey

__all__ = ["DeployedPolicy"]

_ONE_AT_A_TIME = RLock()
"""How policies choose is one setting of the whole process: calls in several threads would undo each other's."""

BEGINS = "begins"
"""The entry of a state that says which rows begin an episode, bool of the batch size."""


class DeployedPolicy(nn.Module):
    """A policy with the transforms that it was trained behind, for observations from elsewhere.

    It takes what the environment itself observes, and gives what the environment itself takes: normalisers, stacked
    frames, scaled actions and states of recurrent networks are inside. Of the transforms it has those that the policy
    needs; statistics, weights and networks are copies, as they are when it is made.

    `act` remembers the moment before. `forward` is a function of that, as the exported program is: what serves several
    clients calls it with the state of each. Calls in several threads wait for each other.

    Args:
        policy: what was trained, with `in_keys` and `out_keys`.
        env: the environment that it acts in, with its transforms: ``parts.eval_env`` of a printed training, a chain, a
            `TransformedEnv`. Nobody steps it.
        batch_size: how many observations there are side by side; for a single one `()`, or `(1,)`.
        deterministic: take what the policy holds for best; else draw.
        device: where it acts. None: where the environment is.

    Attributes:
        policy: the copy of the policy.
        transform: the copies of the transforms.
        in_keys: the names of what it is given, of nested keys with dots.
        out_keys: those of what it gives.

    Raises:
        TypeError: the policy has no keys, or the environment runs in other processes.
        ValueError: the policy reads what follows from rewards, or takes other observations; two keys have one name, as
            `"a.b"` and `("a", "b")`; or the environments of a `SerialEnv` have learned what the policy needs each by itself.
        KeyError: the policy does not write what the environment takes.

    Example:
        >>> agent = DeployedPolicy(parts.policy, parts.eval_env)
        >>> agent.act({"observation": [0.1, 0.0, 0.0, 0.0]})
        {'action': tensor(1)}
    """

    _env: TransformedEnv[Any]
    _any_number: bool = False
    """Whether there may be any number of observations in front of the batch size."""

    def __init__(
        self,
        policy: nn.Module,
        env: EnvBase[Any, Any],
        *,
        batch_size: Sequence[int] = (),
        deterministic: bool = True,
        device: DEVICE_TYPING | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(env, EnvBase):
            raise TypeError(f"DeployedPolicy needs an environment, which is an object, got {env!r}")
        reads, writes = (getattr(policy, name, None) for name in ("in_keys", "out_keys"))
        if reads is None or writes is None:
            raise TypeError(
                f"DeployedPolicy needs a policy with in_keys and out_keys, got {type(policy).__name__}: wrap it in a"
                " tensordict.nn.TensorDictModule"
            )
        device = env.device if device is None else torch.device(device)
        if not isinstance(batch_size, Sequence):
            raise TypeError(f"batch_size has the sizes of all dimensions, [{batch_size}], got {batch_size!r}")
        self.batch_size = torch.Size(batch_size)
        self.device = torch.device("cpu") if device is None else torch.device(device)
        self.deterministic = deterministic
        self.policy = copy.deepcopy(policy).eval().requires_grad_(False).to(self.device)
        with drawing_nothing(self.policy, self.device):
            # its state is that of the transforms
            size = () if self._any_number else self.batch_size
            self.__dict__["_env"] = observed(env, size, self.device, batch_locked=not self._any_number)
        self.transform = self._env.transform
        keys = [join_key(as_tuple(key)) for key in reads]
        self._needed = needed_by(keys, self._env)
        apart = learned_apart(env)
        for place, entry in enumerate(leaves(self.transform)):
            if place in apart and any(entry is one for one in (*self._needed.forward, *self._needed.inverse)):
                raise ValueError(
                    f"DeployedPolicy: each environment of the {type(env).__name__} has learned a {type(entry).__name__} of its"
                    " own: give it one of them, `env.envs[0]`, or let them learn together, SerialEnv(2, CommonStatistics(make_env))"
                )
        outputs = [as_tuple(key) for key in writes]
        # what the policy leaves to its next call
        self._written = [join_key(key[1:]) for key in outputs if key[0] == "next"]
        self._carried = [key for key in self._needed.carried if key not in self._written]
        self._forward = [
            entry for entry in self._needed.forward if not set(entry.out_keys) <= set(self._written)
        ]
        self._read = list(dict.fromkeys([*keys, *self._carried]))
        acted = {*self._written, *map(join_key, outputs)}
        self._given = [key for key in self._needed.observed if key not in acted]
        self._actions: list[NestedKey] = [join_key(as_tuple(key)) for key in self._env.base_env.action_keys]
        self.in_keys = [one_word(key) for key in self._given]
        self.out_keys = [one_word(key) for key in self._actions]
        self._specs = self._env.base_env.full_observation_spec
        unknown = [key for key in self._given if key not in self._specs.keys(True, True)]
        if unknown:
            raise ValueError(
                f"DeployedPolicy: the policy reads {', '.join(map(one_word, unknown))}, which neither the environment observes"
                " nor a transform of it writes: give the environment that it was trained in, as `parts.eval_env`, or append"
                " these transforms (InitTracker, primers of recurrent networks)"
            )
        states = [as_tuple(key) for key in (BEGINS, *self._carried, *self._written)]
        check_names(map(as_tuple, self._specs.keys(True, True)))
        check_names(states)
        check_names(map(as_tuple, self._actions))
        with drawing_nothing(self.policy, self.device):
            self._begun = self._states_at_first()
        try:
            self._state = self.initial_state()
        except RuntimeError as error:
            read = ", ".join(
                f"{name} {list(self._specs[key].shape)}"
                for name, key in zip(self.in_keys, self._given, strict=True)
            )
            raise ValueError(
                f"DeployedPolicy: the policy does not take what this environment observes, {read}: {error}"
            ) from error

    def _states_at_first(self) -> dict[NestedKey, Tensor]:
        """What the policy's own states are where an episode begins.

        Raises:
            ValueError: nothing says what one of them is.
        """
        moment = self._moment(self._zeros(), self.batch_size)
        for entry in self._needed.forward:
            moment = entry._reset(moment.empty(), moment)
        found = {key: moment.get(key, None) for key in self._written}
        unknown = [one_word(key) for key, value in found.items() if value is None]
        if unknown:
            raise ValueError(
                f"DeployedPolicy: the policy leaves {', '.join(unknown)} to its next call, and no transform of the environment"
                " says what that is at first: append the primers of the policy (get_primers_from_module)"
            )
        return found

    # ------------------------------------------------------------------ one after the other

    def reset(self) -> None:
        """Begin a new episode with the next observation: stacked frames and states of networks are forgotten."""
        self._state = self.initial_state()

    @torch.no_grad()
    def act(self, observation: Mapping[Any, Any]) -> dict[str, Tensor]:
        """The action for an observation that follows the one before; the first one begins an episode.

        Args:
            observation: tensors, arrays, lists or numbers, by `in_keys`, nested ones also as dicts in dicts;
                what the environment observes besides is left alone.

        Returns:
            What the environment takes, by `out_keys`.

        Raises:
            KeyError: an entry is missing, or the environment observes none of its name.
            ValueError: one has another shape, or an integer that its dtype does not hold; or the policy gives NaN for it.
            TypeError: one is no number, or of a dtype that holds others: a fraction is no integer, and no number a truth value.
        """
        given = self._as_tensors(observation)
        action, state = self.forward(given, self._state)
        for name, value in action.items():
            if bool(value.isnan().any()):
                shown = {key: one.tolist() for key, one in given.items()}
                raise ValueError(f"the policy gives NaN as {name!r} for {shown!r:.200}")
        self._state = state
        return action

    def _as_tensors(self, observation: Mapping[Any, Any]) -> dict[str, Tensor]:
        if not isinstance(observation, Mapping):
            raise TypeError(
                f"the policy reads {self.in_keys} by their names, and was given {type(observation).__name__}"
            )
        observed = {one_word(key) for key in self._specs.keys(True, True)}
        entries = list(flat(observation))
        given = dict(entries)
        if len(given) < len(entries) or not set(self.in_keys) <= set(given) <= observed:
            raise MissingKeyError(
                f"the policy is given {sorted(name for name, _ in entries)}, and reads {sorted(self.in_keys)}"
            )
        return {
            name: self._as_tensor(name, given[name], self._specs[key])
            for name, key in zip(self.in_keys, self._given, strict=True)
        }

    def _as_tensor(self, name: str, value: Any, spec: TensorSpec) -> Tensor:
        try:
            given = torch.as_tensor(np.asarray(value) if isinstance(value, list | tuple) else value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"the policy reads {name!r} as numbers, and was given {value!r}") from error
        if given.shape != spec.shape:
            raise ValueError(
                f"the policy reads {name!r} of the shape {list(spec.shape)}, and was given {list(given.shape)}"
            )
        dtype = cast("torch.dtype", spec.dtype)
        if not torch.can_cast(given.dtype, dtype):
            raise TypeError(
                f"the policy reads {name!r} as {dtype_name(dtype)}, which {dtype_name(given.dtype)} is not"
            )
        exact = given.to(dtype=dtype, device=self.device)
        if given.dtype != dtype and not dtype.is_floating_point and not torch.equal(exact.to(given), given):
            raise ValueError(f"the policy reads {name!r} as {dtype_name(dtype)}, and was given {value!r:.80}")
        return exact

    # ------------------------------------------------------------------ as a function

    def initial_state(self) -> dict[str, Tensor]:
        """What `forward` is given for the first observations of episodes."""
        begins = torch.ones(self.batch_size, dtype=torch.bool, device=self.device)
        with torch.no_grad(), _ONE_AT_A_TIME, drawing_nothing(self.policy, self.device):
            _, state = self._call(self._zeros(), {BEGINS: begins})
        return {name: torch.zeros_like(value) for name, value in state.items()} | {BEGINS: begins}

    def forward(
        self, observation: Mapping[str, Tensor], state: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Actions for observations, of any moment.

        Args:
            observation: tensors by `in_keys`, of the batch size and the shapes that the environment observes.
            state: what the call before gave, or `initial_state()`; of some rows this one, of others that one.

        Returns:
            What the environment takes, by `out_keys`, and the state for the next call.

        Raises:
            KeyError: the state lacks an entry.
        """
        if missing := [
            name for name in (BEGINS, *map(one_word, (*self._carried, *self._written))) if name not in state
        ]:
            raise MissingKeyError(
                f"the state lacks {', '.join(missing)}: it is what `forward` gave before, or `initial_state()`"
            )
        return self._call(observation, state)

    def _call(
        self, observation: Mapping[str, Tensor], state: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        begins = state[BEGINS]
        size = begins.shape if self._any_number else self.batch_size
        if is_traced():
            moment = self._either(
                begins, self._first(observation, size), self._next(observation, state, size), size
            )
        elif bool(begins.all()):
            moment = self._first(observation, size)
        elif bool(begins.any()):
            moment = self._either(
                begins, self._first(observation, size), self._next(observation, state, size), size
            )
        else:
            moment = self._next(observation, state, size)
        exploration = ExplorationType.DETERMINISTIC if self.deterministic else ExplorationType.RANDOM
        with nullcontext() if is_traced() else _ONE_AT_A_TIME, set_exploration_type(exploration):
            acted = self.policy(moment.copy())
        following = {BEGINS: torch.zeros_like(begins)}
        following.update((one_word(key), acted.get(key)) for key in self._carried)
        following.update((one_word(key), acted.get(("next", *as_tuple(key)))) for key in self._written)
        for entry in self._needed.inverse:
            acted = entry._inv_call(acted)
        return {one_word(key): self._written_by_policy(acted, key) for key in self._actions}, following

    def _written_by_policy(self, acted: TensorDictBase, key: NestedKey) -> Tensor:
        action: Tensor | None = acted.get(key, None)
        if action is None:
            written = ", ".join(repr(one_word(one)) for one in cast("list[NestedKey]", self.policy.out_keys))
            raise MissingKeyError(
                f"DeployedPolicy: the environment takes {one_word(key)!r}, and the policy writes {written}"
            )
        return action

    def _first(self, observation: Mapping[str, Tensor], size: torch.Size) -> TensorDictBase:
        """The moment that begins an episode."""
        moment = self._moment(observation, size)
        for entry in self._forward:
            moment = entry._reset(moment.empty(), moment)
        if self._any_number:
            return moment.update(
                {key: one[0].expand(*size, *one.shape[1:]) for key, one in self._begun.items()}
            )
        return moment.update(self._begun)

    def _next(
        self, observation: Mapping[str, Tensor], state: Mapping[str, Tensor], size: torch.Size
    ) -> TensorDictBase:
        """The moment behind another one."""
        before = self._empty(size)
        for key in self._carried:
            before.set(key, state[one_word(key)])
        moment = self._moment(observation, size)
        for entry in self._forward:
            moment = entry._step(before, moment)
        return moment.update({key: state[one_word(key)] for key in self._written})

    def _moment(self, observation: Mapping[str, Tensor], size: torch.Size) -> TensorDictBase:
        """What the environment observes, in an episode that goes on."""
        moment = self._empty(size)
        for key in self._given:
            moment.set(key, observation[one_word(key)])
        for key, spec in self._env.base_env.full_done_spec.items(True, True):
            shape = (*size, *spec.shape[len(self._env.batch_size) :])
            moment.set(key, torch.zeros(shape, dtype=torch.bool, device=self.device))
        return moment

    def _either(
        self, begins: Tensor, first: TensorDictBase, following: TensorDictBase, size: torch.Size
    ) -> TensorDictBase:
        """The entries that are read further on: of `first` where an episode begins, else of `following`."""
        moment = self._empty(size)
        for key in self._read:
            one, other = first.get(key, None), following.get(key, None)
            if one is None or other is None:
                continue
            mask = begins.reshape(*begins.shape, *(1,) * (one.ndim - begins.ndim))
            moment.set(key, torch.where(mask, one, other))
        return moment

    def _empty(self, size: torch.Size) -> TensorDictBase:
        return TensorDict({}, size, device=self.device)

    def _zeros(self) -> dict[str, Tensor]:
        """An observation of zeros."""
        size = self.batch_size if self._any_number else ()
        return {one_word(key): self._specs[key].zero(size) for key in self._given}

    def _apply(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not available, and so is all that calls it, as `to`, `cuda` and `half`: raises RuntimeError."""
        raise RuntimeError(
            "a DeployedPolicy stays on the device that it was made for, in its dtypes: DeployedPolicy(..., device=...)"
        )

    # ------------------------------------------------------------------ as a program

    def export(self, *, dynamic_batch: bool = False) -> ExportedProgram:
        """`forward` as a program of `torch.export`, which needs torch alone.

        Its ``example_inputs`` are an observation of zeros and the initial state, also behind `torch.export.load`.

        Args:
            dynamic_batch: whether it takes any number of observations side by side, from one on; the example has two.

        Raises:
            torch._dynamo.exc.UserError: it is to take any number, and a network is for one number alone.
        """
        with torch.no_grad():
            if not dynamic_batch:
                return torch.export.export(self, (self._zeros(), self.initial_state()), strict=False)
            # of two, since torch takes a size of one in the example for the only one
            agent = _OfAnyNumber(
                self.policy, self._env, batch_size=(2,), deterministic=self.deterministic, device=self.device
            )
            two = (agent._zeros(), agent.initial_state())
            rows = Dim("batch", min=1)
            shapes = tuple({name: {0: rows} for name in given} for given in two)
            return torch.export.export(agent, two, dynamic_shapes=shapes, strict=False)


class _OfAnyNumber(DeployedPolicy):
    """As programs are that take any number of observations."""

    _any_number = True
