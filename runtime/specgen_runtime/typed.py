"""Types for type checkers alone: tensordicts and composites whose keys they know.

A generated data class is one line for each type of value that its entries have: the type of their keys, and the type
of the values.

```python
class PointData(
    TypedTensorDict[
        Literal["reward"],
        Literal["observation"] | tuple[Literal["next"], Literal["observation"]], Float32[Tensor, "*batch 3"],
        tuple[Literal["next"], Literal["reward"]], Float32[Tensor, "*batch 1"],
        Literal["next"], PointNextData,
    ]
): ...
```

Nothing of this exists at run time, where a data class is another name of `TensorDict`.
"""

# ruff: noqa: D102
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Generic, Never, Self, overload

    from typing_extensions import TypeVar

    from specgen_runtime.specs import Composite, TensorSpec
    from specgen_runtime.typing import Index, NestedKey, TensorDict

    Default = TypeVar("Default")
    Within = TypeVar("Within", default=Never)
    K0 = TypeVar("K0", default=Never)
    V0 = TypeVar("V0", default=Never)
    K1 = TypeVar("K1", default=Never)
    V1 = TypeVar("V1", default=Never)
    K2 = TypeVar("K2", default=Never)
    V2 = TypeVar("V2", default=Never)
    K3 = TypeVar("K3", default=Never)
    V3 = TypeVar("V3", default=Never)
    K4 = TypeVar("K4", default=Never)
    V4 = TypeVar("V4", default=Never)
    K5 = TypeVar("K5", default=Never)
    V5 = TypeVar("V5", default=Never)
    K6 = TypeVar("K6", default=Never)
    V6 = TypeVar("V6", default=Never)
    K7 = TypeVar("K7", default=Never)
    V7 = TypeVar("V7", default=Never)
    K8 = TypeVar("K8", default=Never)
    V8 = TypeVar("V8", default=Never)
    K9 = TypeVar("K9", default=Never)
    V9 = TypeVar("V9", default=Never)
    K10 = TypeVar("K10", default=Never)
    V10 = TypeVar("V10", default=Never)
    K11 = TypeVar("K11", default=Never)
    V11 = TypeVar("V11", default=Never)
    K12 = TypeVar("K12", default=Never)
    V12 = TypeVar("V12", default=Never)
    K13 = TypeVar("K13", default=Never)
    V13 = TypeVar("V13", default=Never)
    K14 = TypeVar("K14", default=Never)
    V14 = TypeVar("V14", default=Never)
    K15 = TypeVar("K15", default=Never)
    V15 = TypeVar("V15", default=Never)
    S0 = TypeVar("S0", bound=TensorSpec, default=Never)
    S1 = TypeVar("S1", bound=TensorSpec, default=Never)
    S2 = TypeVar("S2", bound=TensorSpec, default=Never)
    S3 = TypeVar("S3", bound=TensorSpec, default=Never)
    S4 = TypeVar("S4", bound=TensorSpec, default=Never)
    S5 = TypeVar("S5", bound=TensorSpec, default=Never)
    S6 = TypeVar("S6", bound=TensorSpec, default=Never)
    S7 = TypeVar("S7", bound=TensorSpec, default=Never)

    # fmt: off
    class TypedTensorDict(
        TensorDict, Generic[  # type: ignore[misc]  # tensordict is untyped for mypy
            Within, K0, V0, K1, V1, K2, V2, K3, V3, K4, V4, K5, V5, K6, V6, K7, V7,
            K8, V8, K9, V9, K10, V10, K11, V11, K12, V12, K13, V13, K14, V14, K15, V15,
        ]
    ):
        # fmt: on
        """A tensordict whose keys are known: up to sixteen types of keys, each with the type of its values.

        A misspelt key is an error wherever it is written out. A key that is known at run time only (a `str`) is for
        `get` with a default, or for code whose tensordicts are annotated as `TensorDictBase`.

        Type parameters:
            Within: names that stand in groups such as `"next"` only; language servers offer them after `"next",`.
            K0, V0, ...: the keys that hold a type of value, as a union of `Literal`s and tuples of them; that type.
        """

        @overload
        def __getitem__(self, key: K0) -> V0: ...
        @overload
        def __getitem__(self, key: K1) -> V1: ...
        @overload
        def __getitem__(self, key: K2) -> V2: ...
        @overload
        def __getitem__(self, key: K3) -> V3: ...
        @overload
        def __getitem__(self, key: K4) -> V4: ...
        @overload
        def __getitem__(self, key: K5) -> V5: ...
        @overload
        def __getitem__(self, key: K6) -> V6: ...
        @overload
        def __getitem__(self, key: K7) -> V7: ...
        @overload
        def __getitem__(self, key: K8) -> V8: ...
        @overload
        def __getitem__(self, key: K9) -> V9: ...
        @overload
        def __getitem__(self, key: K10) -> V10: ...
        @overload
        def __getitem__(self, key: K11) -> V11: ...
        @overload
        def __getitem__(self, key: K12) -> V12: ...
        @overload
        def __getitem__(self, key: K13) -> V13: ...
        @overload
        def __getitem__(self, key: K14) -> V14: ...
        @overload
        def __getitem__(self, key: K15) -> V15: ...
        # No call fits: an index is one argument. It is here for the names that language servers offer.
        @overload
        def __getitem__(self, key: Within, never: Never, /) -> Never: ...
        @overload
        def __getitem__(self, key: Index) -> Self: ...
        # For unions of keys; and pyright names the parameters of the last overload when none fits.
        @overload
        def __getitem__(
            self, key: K0 | K1 | K2 | K3 | K4 | K5 | K6 | K7 | K8 | K9 | K10 | K11 | K12 | K13 | K14 | K15
        ) -> V0 | V1 | V2 | V3 | V4 | V5 | V6 | V7 | V8 | V9 | V10 | V11 | V12 | V13 | V14 | V15: ...
        def __getitem__(self, key: Any, never: Any = ...) -> Any: ...  # pyright: ignore[reportIncompatibleMethodOverride]

        def __setitem__(self, key: NestedKey | Index, value: Any) -> None: ...  # pyright: ignore[reportIncompatibleMethodOverride]

        @overload
        def get(self, key: K0) -> V0: ...
        @overload
        def get(self, key: K1) -> V1: ...
        @overload
        def get(self, key: K2) -> V2: ...
        @overload
        def get(self, key: K3) -> V3: ...
        @overload
        def get(self, key: K4) -> V4: ...
        @overload
        def get(self, key: K5) -> V5: ...
        @overload
        def get(self, key: K6) -> V6: ...
        @overload
        def get(self, key: K7) -> V7: ...
        @overload
        def get(self, key: K8) -> V8: ...
        @overload
        def get(self, key: K9) -> V9: ...
        @overload
        def get(self, key: K10) -> V10: ...
        @overload
        def get(self, key: K11) -> V11: ...
        @overload
        def get(self, key: K12) -> V12: ...
        @overload
        def get(self, key: K13) -> V13: ...
        @overload
        def get(self, key: K14) -> V14: ...
        @overload
        def get(self, key: K15) -> V15: ...
        @overload
        def get(self, key: K0, default: Default) -> V0 | Default: ...
        @overload
        def get(self, key: K1, default: Default) -> V1 | Default: ...
        @overload
        def get(self, key: K2, default: Default) -> V2 | Default: ...
        @overload
        def get(self, key: K3, default: Default) -> V3 | Default: ...
        @overload
        def get(self, key: K4, default: Default) -> V4 | Default: ...
        @overload
        def get(self, key: K5, default: Default) -> V5 | Default: ...
        @overload
        def get(self, key: K6, default: Default) -> V6 | Default: ...
        @overload
        def get(self, key: K7, default: Default) -> V7 | Default: ...
        @overload
        def get(self, key: K8, default: Default) -> V8 | Default: ...
        @overload
        def get(self, key: K9, default: Default) -> V9 | Default: ...
        @overload
        def get(self, key: K10, default: Default) -> V10 | Default: ...
        @overload
        def get(self, key: K11, default: Default) -> V11 | Default: ...
        @overload
        def get(self, key: K12, default: Default) -> V12 | Default: ...
        @overload
        def get(self, key: K13, default: Default) -> V13 | Default: ...
        @overload
        def get(self, key: K14, default: Default) -> V14 | Default: ...
        @overload
        def get(self, key: K15, default: Default) -> V15 | Default: ...
        @overload
        def get(self, key: NestedKey, default: Any) -> Any: ...
        @overload
        def get(
            self, key: K0 | K1 | K2 | K3 | K4 | K5 | K6 | K7 | K8 | K9 | K10 | K11 | K12 | K13 | K14 | K15
        ) -> V0 | V1 | V2 | V3 | V4 | V5 | V6 | V7 | V8 | V9 | V10 | V11 | V12 | V13 | V14 | V15: ...
        def get(self, key: Any, default: Any = ...) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            """Return an entry; `default` if there is none (without a default: KeyError)."""

        def set(  # pyright: ignore[reportIncompatibleMethodOverride]
            self,
            key: K0 | K1 | K2 | K3 | K4 | K5 | K6 | K7 | K8 | K9 | K10 | K11 | K12 | K13 | K14 | K15,
            item: Any,
            inplace: bool = False,
            *,
            non_blocking: bool = False,
        ) -> Self:
            """Write an entry of the specs; one of your own is written by `data["own"] = value`."""
            ...

    # fmt: off
    class TypedComposite(
        Composite, Generic[K0, S0, K1, S1, K2, S2, K3, S3, K4, S4, K5, S5, K6, S6, K7, S7]
    ):
        # fmt: on
        """A composite whose keys are known, each with the class of its spec; groups are plain composites.

        Type parameters:
            K0, S0, ...: the keys of the specs of a class, as a union of `Literal`s and tuples of them; that class.
        """

        @overload  # type: ignore[override]  # what it takes is the point
        def __getitem__(self, key: K0) -> S0: ...
        @overload
        def __getitem__(self, key: K1) -> S1: ...
        @overload
        def __getitem__(self, key: K2) -> S2: ...
        @overload
        def __getitem__(self, key: K3) -> S3: ...
        @overload
        def __getitem__(self, key: K4) -> S4: ...
        @overload
        def __getitem__(self, key: K5) -> S5: ...
        @overload
        def __getitem__(self, key: K6) -> S6: ...
        @overload
        def __getitem__(self, key: K7) -> S7: ...
        @overload
        def __getitem__(self, key: Index) -> Self: ...
        @overload
        def __getitem__(
            self, key: K0 | K1 | K2 | K3 | K4 | K5 | K6 | K7
        ) -> S0 | S1 | S2 | S3 | S4 | S5 | S6 | S7: ...
        def __getitem__(self, key: Any) -> Any: ...  # pyright: ignore[reportIncompatibleMethodOverride]

        @overload  # type: ignore[override]
        def get(self, key: K0) -> S0: ...
        @overload
        def get(self, key: K1) -> S1: ...
        @overload
        def get(self, key: K2) -> S2: ...
        @overload
        def get(self, key: K3) -> S3: ...
        @overload
        def get(self, key: K4) -> S4: ...
        @overload
        def get(self, key: K5) -> S5: ...
        @overload
        def get(self, key: K6) -> S6: ...
        @overload
        def get(self, key: K7) -> S7: ...
        @overload
        def get(self, key: K0, default: Default) -> S0 | Default: ...
        @overload
        def get(self, key: K1, default: Default) -> S1 | Default: ...
        @overload
        def get(self, key: K2, default: Default) -> S2 | Default: ...
        @overload
        def get(self, key: K3, default: Default) -> S3 | Default: ...
        @overload
        def get(self, key: K4, default: Default) -> S4 | Default: ...
        @overload
        def get(self, key: K5, default: Default) -> S5 | Default: ...
        @overload
        def get(self, key: K6, default: Default) -> S6 | Default: ...
        @overload
        def get(self, key: K7, default: Default) -> S7 | Default: ...
        @overload
        def get(self, key: NestedKey, default: Any) -> Any: ...
        @overload
        def get(
            self, key: K0 | K1 | K2 | K3 | K4 | K5 | K6 | K7
        ) -> S0 | S1 | S2 | S3 | S4 | S5 | S6 | S7: ...
        def get(self, key: Any, default: Any = ...) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            """Return the spec of an entry; `default` if there is none (without a default: KeyError)."""

    # The types of an environment's specs, one class for each group of specs, with pairs as above.

    class OneAction(Generic[K0, S0, K1, S1, K2, S2, K3, S3, K4, S4, K5, S5, K6, S6, K7, S7]):
        """The only action of an environment: its key and the class of its spec; then the groups that it is in."""

        @property
        def action_spec(self) -> S0: ...
        @property
        def full_action_spec(self) -> TypedComposite[
            K0, S0, K1, S1, K2, S2, K3, S3, K4, S4, K5, S5, K6, S6, K7, S7
        ]: ...

    class Actions(Generic[K0, S0, K1, S1, K2, S2, K3, S3, K4, S4, K5, S5, K6, S6, K7, S7]):
        """The actions of an environment: their keys, by the class of their spec."""

        @property
        def action_spec(self) -> TypedComposite[
            K0, S0, K1, S1, K2, S2, K3, S3, K4, S4, K5, S5, K6, S6, K7, S7
        ]: ...
        @property
        def full_action_spec(self) -> TypedComposite[
            K0, S0, K1, S1, K2, S2, K3, S3, K4, S4, K5, S5, K6, S6, K7, S7
        ]: ...

    class Observations(Generic[K0, S0, K1, S1, K2, S2, K3, S3, K4, S4, K5, S5, K6, S6, K7, S7]):
        """The observations of an environment: their keys, by the class of their spec."""

        @property
        def observation_spec(self) -> TypedComposite[
            K0, S0, K1, S1, K2, S2, K3, S3, K4, S4, K5, S5, K6, S6, K7, S7
        ]: ...

    class States(Generic[K0, S0, K1, S1, K2, S2, K3, S3, K4, S4, K5, S5, K6, S6, K7, S7]):
        """What a step reads besides actions: keys, by the class of their spec."""

        @property
        def state_spec(self) -> TypedComposite[
            K0, S0, K1, S1, K2, S2, K3, S3, K4, S4, K5, S5, K6, S6, K7, S7
        ]: ...

    class NoState:
        """A step reads actions only."""

        @property
        def state_spec(self) -> Composite: ...

    class OneReward(Generic[K0, S0, K1, S1, K2, S2, K3, S3, K4, S4, K5, S5, K6, S6, K7, S7]):
        """The only reward of an environment: its key and the class of its spec; then the groups that it is in."""

        @property
        def reward_spec(self) -> S0: ...
        @property
        def full_reward_spec(self) -> TypedComposite[
            K0, S0, K1, S1, K2, S2, K3, S3, K4, S4, K5, S5, K6, S6, K7, S7
        ]: ...

    class Rewards(Generic[K0, S0, K1, S1, K2, S2, K3, S3, K4, S4, K5, S5, K6, S6, K7, S7]):
        """The rewards of an environment: their keys, by the class of their spec."""

        @property
        def reward_spec(self) -> TypedComposite[
            K0, S0, K1, S1, K2, S2, K3, S3, K4, S4, K5, S5, K6, S6, K7, S7
        ]: ...
        @property
        def full_reward_spec(self) -> TypedComposite[
            K0, S0, K1, S1, K2, S2, K3, S3, K4, S4, K5, S5, K6, S6, K7, S7
        ]: ...

    class Dones(Generic[K0, S0, K1, S1, K2, S2, K3, S3, K4, S4, K5, S5, K6, S6, K7, S7]):
        """The done flags of an environment: their keys, by the class of their spec."""

        @property
        def done_spec(self) -> TypedComposite[
            K0, S0, K1, S1, K2, S2, K3, S3, K4, S4, K5, S5, K6, S6, K7, S7
        ]: ...
        @property
        def full_done_spec(self) -> TypedComposite[
            K0, S0, K1, S1, K2, S2, K3, S3, K4, S4, K5, S5, K6, S6, K7, S7
        ]: ...
