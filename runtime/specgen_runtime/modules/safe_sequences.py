"""Sequences of tensordict modules with the specs of what they write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensordict.nn import ProbabilisticTensorDictSequential, TensorDictSequential

from specgen_runtime.interop.torchrl_specs import own_spec
from specgen_runtime.modules.safe import OutputSpecs, output_specs
from specgen_runtime.modules.sequences import PlainProbabilisticSequence, PlainSequence
from specgen_runtime.specs import Composite


class SafeSequential(OutputSpecs, PlainSequence):
    """A `tensordict.nn.TensorDictSequential` with the specs of what its modules write.

    Args:
        *modules: called one after another.
        partial_tolerant: leave out modules whose inputs are missing.
        inplace: write into the tensordict that is read; ``"empty"`` gives an empty one of its kind.
    """

    def __init__(
        self, *modules: Any, partial_tolerant: bool = False, inplace: bool | str | None = None
    ) -> None:
        TensorDictSequential.__init__(self, *modules, partial_tolerant=partial_tolerant, inplace=inplace)
        self._collect_specs(modules)

    def _collect_specs(self, modules: Iterable[Any]) -> None:
        specs = Composite()
        for module in modules:
            known = own_spec(getattr(module, "spec", None))
            written = (
                known if isinstance(known, Composite) else output_specs(None, getattr(module, "out_keys", ()))
            )
            specs.update(written.clone())
        self._spec = specs
        self.safe = False


class SafeProbabilisticTensorDictSequential(
    PlainProbabilisticSequence,
    SafeSequential,
    ProbabilisticTensorDictSequential,  # type: ignore[misc]
):
    """A `tensordict.nn.ProbabilisticTensorDictSequential` with the specs of what its modules write.

    ``get_dist`` gives the distribution of its last module.

    Args:
        *modules: called one after another, the last of which draws.
        partial_tolerant: leave out modules whose inputs are missing.
    """

    def __init__(self, *modules: Any, partial_tolerant: bool = False) -> None:
        ProbabilisticTensorDictSequential.__init__(self, *modules, partial_tolerant=partial_tolerant)
        self._collect_specs(modules)
