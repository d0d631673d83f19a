"""`Steps`: the modules of a network that one of its outputs needs, run on tensors without a tensordict between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from tensordict import unravel_key
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictModuleBase,
    TensorDictSequential,
)
from torch import Tensor, nn

from specgen_runtime.modules.qvalue import QValueModule
from specgen_runtime.modules.safe import SafeModule
from specgen_runtime.modules.sequences import PlainSequence
from specgen_runtime.objectives.layers import runs_forward_alone
from specgen_runtime.objectives.stacked import Stacked
from specgen_runtime.typing import NestedKey

Value: TypeAlias = Tensor | Stacked
"""Of a network, or of all members of an ensemble, if their parameters are `Stacked`."""


@dataclass(frozen=True, slots=True)
class Step:
    """One module of a network.

    Attributes:
        run: from the tensors that it reads to those that it writes: a tuple of them, or one.
        reads: their keys.
        writes: likewise; ``"_"`` for what is left aside.
    """

    run: Callable[..., Any]
    reads: tuple[NestedKey, ...]
    writes: tuple[NestedKey, ...]


@dataclass(frozen=True, slots=True)
class Steps:
    """Modules that are run one after another.

    Attributes:
        steps: the modules, in order.
        reads: the keys that they need from outside.
    """

    steps: tuple[Step, ...]
    reads: tuple[NestedKey, ...]

    def __call__(self, inputs: Mapping[NestedKey, Tensor]) -> dict[NestedKey, Value] | None:
        """What is read and what is written, by key; None if a module gives something else than its tensors."""
        values: dict[NestedKey, Value] = dict(inputs)
        for step in self.steps:
            found = step.run(*[values[key] for key in step.reads])
            outputs = found if isinstance(found, tuple) else (found,)
            if len(outputs) != len(step.writes):
                return None
            for key, value in zip(step.writes, outputs, strict=True):
                if not isinstance(value, (Tensor, Stacked)):
                    return None
                values[key] = value
        return values


def steps_to(module: nn.Module, key: NestedKey) -> Steps | None:
    """The modules that entry ``key`` of what a network writes needs; None if it can only be called as a whole.

    Networks are taken apart that consist of plain `tensordict.nn.TensorDictModule` and `QValueModule` alone, in
    sequences or by themselves, without hooks.
    """
    parts = list(_parts(module))
    return None if None in parts else _needed([part for part in parts if part is not None], [key])


def steps_to_distribution(module: nn.Module) -> tuple[Steps, ProbabilisticTensorDictModule] | None:
    """The modules before the distribution of a policy, and what makes it; None as with `steps_to`."""
    if not isinstance(module, ProbabilisticTensorDictSequential):
        return None
    if type(module).get_dist is not ProbabilisticTensorDictSequential.get_dist:
        return None
    *before, last = module._module_iter()
    if (
        module.return_composite
        or not isinstance(last, ProbabilisticTensorDictModule)
        or not runs_forward_alone(module)
    ):
        return None
    parts = [part for one in before for part in _parts(one)]
    steps = None if None in parts else _needed([part for part in parts if part is not None], last.in_keys)
    return None if steps is None else (steps, last)


def _parts(module: nn.Module) -> Iterator[TensorDictModuleBase | None]:
    """The modules of a network in order; None for one that can't be run on tensors."""
    kind = type(module)
    if not runs_forward_alone(module):
        yield None
    elif isinstance(module, TensorDictSequential) and kind.forward in _IN_ORDER:
        plain = module.inplace in (None, True) and not module.partial_tolerant
        for one in module._module_iter() if plain and not module._select_before_return else [None]:
            yield from [None] if one is None else _parts(one)
    elif isinstance(module, TensorDictModule) and kind.forward in _ALONE:
        plain = module.method is None and module._kwargs is None and module.inplace is True
        plain = plain and not module.method_kwargs and not module._get_kwargs
        yield module if plain and not isinstance(module.module, TensorDictModuleBase) else None
    else:
        yield module if isinstance(module, QValueModule) and kind.forward is QValueModule.forward else None


_IN_ORDER = (TensorDictSequential.forward, PlainSequence.forward)
"""What sequences do that call their modules one after the other."""

_ALONE = (TensorDictModule.forward, SafeModule.forward)
"""What modules do that call the one inside, and no more where they have no hooks."""


def _needed(parts: Collection[TensorDictModuleBase], keys: Collection[NestedKey]) -> Steps | None:
    """Those of some modules that write ``keys``, and what they need; None if one writes none of it alone."""
    wanted = {unravel_key(key) for key in keys}
    steps: list[Step] = []
    for part in reversed(list(parts)):
        writes = tuple(map(unravel_key, part.out_keys))
        if wanted.isdisjoint(writes):
            continue
        reads, run = tuple(map(unravel_key, part.in_keys)), getattr(part, "module", None)
        if isinstance(part, QValueModule):
            value = unravel_key(part.action_value_key)
            if wanted.intersection(writes) != {value}:
                return None
            run, writes = part.allowed_values, (value,)
        assert run is not None
        wanted = wanted.difference(writes).union(reads)
        steps.append(Step(run, reads, writes))
    written = {key for step in steps for key in step.writes}
    if not all(unravel_key(key) in written for key in keys):
        return None
    return Steps(tuple(reversed(steps)), tuple(sorted(wanted, key=str)))
