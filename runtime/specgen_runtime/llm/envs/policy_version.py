"""`PolicyVersion`: which version of the policy answered."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import torch
from tensordict import NonTensorData, TensorDictBase

from specgen_runtime.specs import Composite, NonTensor, Unbounded
from specgen_runtime.transforms import Transform
from specgen_runtime.transforms.keys import normal_key
from specgen_runtime.typing import NestedKey

__all__ = ["PolicyVersion", "VersionChange"]


class VersionChange(NamedTuple):
    """A change of the version."""

    timestamp: datetime
    old_version: str | int | None
    new_version: str | int


class PolicyVersion(Transform):
    """Writes the version of the policy into what an environment observes, so that data tell how old they are.

    Whoever gives the policy new weights calls `increment_version`. It is an observation, so that a step's own is that which
    the environment observed before the policy acted.

    Args:
        version_type: ``int`` or ``"int"`` counts from 0; ``str`` or ``"uuid"`` draws a UUID for each version, which
            several programs can tell apart.
        version_key: where: int64 ``[*batch]``, or a string for each row.

    Attributes:
        version: the present version; it may be assigned.
        version_history: the changes so far.

    Raises:
        ValueError: `version_type` is none of these.
    """

    def __init__(
        self,
        version_type: type[int] | type[str] | Literal["int", "uuid"] = int,
        *,
        version_key: NestedKey = "policy_version",
    ) -> None:
        if version_type not in (int, str, "int", "uuid"):
            raise ValueError(f"version_type is 'int' or 'uuid', got {version_type!r}")
        super().__init__(out_keys=[version_key])
        self.version_type = version_type
        self.version_key = normal_key(version_key)
        self.version_history: list[VersionChange] = []
        self.version: str | int = self._first()
        self._note(None)

    @property
    def _counts(self) -> bool:
        return self.version_type in (int, "int")

    def _first(self) -> str | int:
        return 0 if self._counts else str(uuid.uuid4())

    def _note(self, old: str | int | None) -> None:
        self.version_history.append(VersionChange(datetime.now(UTC), old, self.version))

    def increment_version(self) -> None:
        """Go on to the next version."""
        old = self.version
        self.version = int(old) + 1 if self._counts else str(uuid.uuid4())
        self._note(old)

    def _written(self, data: TensorDictBase) -> TensorDictBase:
        if self._counts:
            value: Any = torch.full(data.batch_size, int(self.version), dtype=torch.int64, device=data.device)
        else:
            value = NonTensorData(str(self.version), batch_size=data.batch_size, device=data.device)
        return data.set(self.version_key, value)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._written(tensordict_reset)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        return self._written(next_tensordict)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """The observation specs with the version."""
        shape, device = observation_spec.shape, observation_spec.device
        observation_spec[self.version_key] = (
            Unbounded(shape, dtype=torch.int64, device=device)
            if self._counts
            else NonTensor(shape, device=device, example_data=str(self.version), batched=False)
        )
        return observation_spec

    def get_extra_state(self) -> str | int:
        """The version, in `state_dict`."""
        return self.version

    def set_extra_state(self, state: Any) -> None:
        """Go on from a version, by `load_state_dict`."""
        self.version = state
