"""The imports of a generated module: what its items say that they use, and what their templates read by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from operator import attrgetter
from typing import Any

from specgen.code import Code, needs_math
from specgen.imported import IMPORTABLE, Import
from specgen.pipeline_module import PIPELINE_IMPORTS
from specgen.plan.envs.model import (
    ChatEnvPlan,
    ComposedChainPlan,
    EnvironmentPlan,
    GymPlan,
    ParamPlan,
    TablePlan,
)
from specgen.plan.items import Item, TypingPlan
from specgen.plan.losses.model import LossParamPlan, LossPlan
from specgen.plan.model import (
    AliasPlan,
    CallPlan,
    DataPlan,
    FunctionPlan,
    ProtocolPlan,
    RecordPlan,
    SpecTypesPlan,
    TypedDictPlan,
)
from specgen.plan.pipelines.model import PipelinePlan
from specgen.plan.transforms.model import TransformPlan
from specgen.values import replace


def imports_of(items: Iterable[Item], further: Mapping[str, Import], module: str) -> frozenset[Import]:
    """The imports that `items` need.

    Args:
        items: everything that stands in the module.
        further: names from other generated modules.
        module: the module itself, dotted.
    """
    known = {**IMPORTABLE, **further}
    items = list(items)
    own = {item.name for item in items}
    used: set[str] = set()
    typing_only: set[str] = set()
    for item in items:
        names = typing_only if isinstance(item, TypingPlan) else used
        names.update(names_used(item), _of_template(item))
        if isinstance(item, DataPlan):
            used.add("TensorDict")
    # What others give is needed also where something here is called so: `names_of_two` finds both.
    own -= {
        name for name, one in further.items() if one.alias is not None or _is_of_pipelines(name, one, module)
    }
    imports = [known[name] for name in used - own if name in known]
    imports += [replace(known[name], typing_only=True) for name in typing_only - own if name in known]
    if any(each.typing_only for each in imports):
        imports.append(known["TYPE_CHECKING"])
    return frozenset([*imports, *_of_other_modules(used, module)])


def _is_of_pipelines(name: str, one: Import, module: str) -> bool:
    """Whether an import is one that modules of pipelines have, and no other module that is generated calls so."""
    return one == PIPELINE_IMPORTS.get(name) and one.module != module


def _of_other_modules(used: Iterable[str], own: str) -> Iterator[Import]:
    """The functions of files that are used with their modules, `package.module:function`."""
    for module, colon, name in (use.partition(":") for use in used):
        if colon and module != own:
            yield Import(module, name)


def names_used(part: object) -> set[str]:
    """The names of its module that a part of a plan says it uses."""
    found: set[str] = set()
    _add_names_used(part, found)
    return found


def _add_names_used(part: Any, found: set[str]) -> None:
    kind = part.__class__
    if kind is tuple or kind is list:
        parts = part
    elif issubclass(kind, Code):
        found |= part.uses
        return
    else:
        if kind is CallPlan:
            found.add(part.function)
        elif kind is FunctionPlan:
            found |= part.uses
        elif kind in _WITH_VALUES and needs_math(_values(part)):
            found.add("math")
        parts = _parts_of(kind)(part)
    for each in parts:
        if each and each.__class__ not in _PLAIN:
            _add_names_used(each, found)


_PLAIN = frozenset((str, bool, int, float, type))
"""What reads no names: most of what a plan says."""

_WITH_VALUES = frozenset((ParamPlan, TablePlan, LossParamPlan, GymPlan))


@cache
def _parts_of(kind: type) -> Callable[[object], tuple[object, ...]]:
    """What reads all fields of a part of a plan at once."""
    names = tuple(getattr(kind, "__dataclass_fields__", ()))
    # with the class in front, so that one field is a tuple, too
    return attrgetter("__class__", *names) if names else lambda part: ()


def _values(part: object) -> object:
    """The values in a part of a plan that its template prints as literals."""
    match part:
        case ParamPlan():
            return [part.default, *(bound for _, bound in part.limits)]
        case TablePlan():
            return part.value
        case LossParamPlan():
            return part.default
        case GymPlan():
            return list(part.kwargs.values())
        case _:
            return None


def _of_template(item: Item) -> Iterable[str]:
    """What the template of an item reads without being told so by a part of its plan."""
    match item:
        case AliasPlan():
            return (item.record,)
        case RecordPlan():
            return ("NamedTuple",)
        case FunctionPlan() | PipelinePlan() | TypedDictPlan():
            return ()
        case ProtocolPlan():
            return ("Protocol", "abstractmethod")
        case EnvironmentPlan():
            return _of_environment(item)
        case ChatEnvPlan():
            return ("GeneratedChatEnv", *(one.protocol for one in item.functions))
        case ComposedChainPlan():
            return ("TransformedEnv", "Compose")
        case TransformPlan():
            return _of_transform(item)
        case LossPlan():
            return _of_loss(item)
        case DataPlan():
            return ("TypedTensorDict", "Literal", *([] if item.within else ["Never"]))
        case SpecTypesPlan():
            bases = (base for base, _ in item.bases)
            return ("KeyTypes", "Literal", *([] if all(item.keys) else ["NestedKey"]), *bases)


def _of_environment(plan: EnvironmentPlan) -> Iterator[str]:
    yield from ("Composite", "EnvSpecs", "torch", plan.root, plan.next)
    yield "DEVICE_TYPING"
    if plan.gym is None and (plan.python is None or not plan.python.stateful):
        yield "Sequence"
    if plan.advance is not None:
        yield "Tensor"
    if plan.gym is not None or plan.root_entries is not None or plan.next_entries is not None:
        yield "Any"
    if plan.next_entries is not None:
        yield "Tensor"
    if plan.groups:
        yield "ClassVar"
    if plan.picture is not None:
        yield from ("ClassVar", "Picture")
    if plan.learners:
        yield "LearningChain"
    if plan.unfused is not None:
        yield "Unfused"
    if plan.networks:
        yield from ("nn", "row_network")
    if plan.objects:
        yield "python_object"
    if plan.gym is not None:
        yield "GeneratedGymEnv"
    elif plan.python is not None:
        env = plan.python.env
        yield from ("GeneratedPythonEnv", "Callable", plan.python.form)
        yield from (f"{env}{kind}" for kind in ("Protocol", "Reset", "Step", "Setup"))
    else:
        yield "GeneratedEnv" if plan.picture is None else "RenderedEnv"


def _of_transform(plan: TransformPlan) -> Iterator[str]:
    yield plan.base
    if plan.python is not None:
        yield from ("Callable", "ClassVar", "Mapping", "torch", plan.python.setup, plan.python.protocol)
    if plan.around is not None and plan.around.methods:
        yield "TensorDictBase"
    if plan.recursion is not None and plan.recursion.blocks:
        yield from ("Mapping", "RecordedTimes", "Tensor")
    if plan.learns is not None:
        yield from ("BufferSpec", "Mapping", "NewRows", "Tensor")
        yield from ("ClassVar",) if plan.learns.values_of else ()
        yield from ("Any",) if plan.learns.values == "Any" else ()
        yield from () if plan.learns.row is None else ("Any", "OneRow")
    columns = plan.columns
    if plan.follows or any(
        (columns.maps, columns.beside, columns.shapes, columns.inverse_shapes, *plan.meets)
    ):
        yield from ("ClassVar", "Mapping")
    if any(param.listed for param in plan.params):
        yield "as_ints"
    if any(param.tensor for param in plan.params):
        yield from ("Tensor", "as_float_tensor")
    if any(param.rows for param in plan.params):
        yield from ("Tensor", "torch", "as_numbers")
    if any(param.dtypes for param in plan.params):
        yield "dtype_name"
    if any(param.enum_class is not None for param in plan.params):
        yield "StrEnum"
    if plan.bindings:
        yield "EnvBase"
    if plan.added_specs is not None:
        yield from ("NestedKey", "TensorSpec")
    if plan.reset is not None or plan.step is not None or plan.map is not None:
        yield "TensorDictBase"
    if plan.tensor_map is not None or plan.inverse is not None:
        yield "Tensor"
    if plan.inverse is not None:
        yield from ("INPUTS", "NestedKey", "TensorSpec")
        if plan.inverse.call is not None and plan.inverse.alone is None:
            yield "TensorDictBase"


def _of_loss(plan: LossPlan) -> Iterator[str]:
    yield from ("Any", "ClassVar", "LossModule", "NestedKey", "Reduction", "TYPE_CHECKING", "Tensor")
    yield from ("TensorDict", "TensorDictBase")
    if any(not network.kept for network in plan.networks):
        yield from ("TensorDictModuleBase", "TensorDictParams")
    yield from ("nn", "overload", "torch", "Literal", "Mapping", "Sequence")
    if plan.own_roles:
        yield "dataclass"
    if plan.parent:
        yield plan.parent
    if len(plan.parts) > 1 or plan.parent:
        yield "LossPart"
    if plan.ranges is not None:
        yield from ("NumberRange", *plan.ranges.uses)
    if any(method.returns is None for method in plan.methods):
        yield "term_alone"
    if any(method.modes for method in plan.methods):
        yield "in_loss_modes"
    if any(method.conditional for method in plan.methods):
        yield "check_returned"
    if plan.scalars:
        yield "ScalarOutputMode"
    if plan.learnables:
        yield "add_learnable"
    if any(one.exponential for one in plan.learnables):
        yield "exponential_of"
    if plan.modules:
        yield "with_methods"
    if plan.bounds:
        yield "add_bounds"
    if "action_spec" in plan.keywords:
        yield "TensorSpec"
    for one in plan.coefficients:
        yield from ("settle", "settled") if one.settled else ()
        yield (
            "add_coefficient_parts" if one.parts else "add_part_weights" if one.by_part else "add_coefficient"
        )
        yield from ("switched",) if one.true_is else ()
        yield from ("adapt",) if one.adapted else ()
        if one.doc and not one.settled:
            yield "own_buffer"
    if plan.parts_of:
        yield "add_part_names"
        if len(plan.parts) > 1:
            yield "TensorDict"
    if plan.estimators:
        yield "ValueEstimators"
    if plan.masks:
        yield "combined_mask"
    if plan.actions:
        yield from ("ActionSpace", "ActionSpaceName", "TensorSpec")
    valued = [network for network in plan.networks if network.qvalue]
    yield from ("is_random_policy" if one.certain else "as_policy" for one in plan.networks if one.policy)
    for network in valued:
        plain = "as_choice_network" if network.choices else "as_qvalue_network"
        yield "as_qvalue_ensemble" if network.members else plain
