"""The value estimator of a loss, and the keys that it fills where the data lack them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from specgen.check.losses.model import LossNetwork
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import expressions as expression_rules
from specgen.diagnostics.rules import loss_conditions as rules
from specgen.diagnostics.rules import losses as loss_rules
from specgen.expr import Type
from specgen.schema.load import SchemaFile
from specgen.schema.loss import Estimator, Loss, LossKey

OF_TARGETS: Final = ("td0", "td1", "td_lambda")
"""What `value_estimate` can be: targets from the value of the next state alone."""
OF_ADVANTAGES: Final = ("gae", "multi_agent_gae", "vtrace")
"""Estimators that read the values of both states, by a network."""
_ALL: Final = (*OF_TARGETS, *OF_ADVANTAGES)
_FILLED: Final = ("advantage", "value_target")
"""The roles that value estimators write."""


def estimators(
    file: SchemaFile,
    path: tuple[str, ...],
    loss: Loss,
    networks: Iterable[LossNetwork],
    roles: Sequence[str],
    sink: Sink,
) -> tuple[str, ...]:
    """The names of the value estimators that users may choose, the default first; none where there is none."""
    given = loss.value_estimator
    if given is None:
        return ()
    here = (*path, "value_estimator")
    if not isinstance(given, Estimator):
        _known(file, given, False, sink, *here)
        return tuple(dict.fromkeys((given, *OF_TARGETS)))
    _network(file, here, given, loss, networks, sink)
    values = given.network is not None
    _known(file, given.default, values, sink, *here, "default")
    listed = given.supports if isinstance(given.supports, list) else None
    supported = (_ALL if values else OF_TARGETS) if listed is None else listed
    for index, name in enumerate(listed or ()):
        if name != given.default:
            _known(file, name, values, sink, *here, "supports", index)
    if isinstance(given.supports, str) and given.supports != "all":
        message = f"`supports` lists value estimators, or is `all`; `{given.supports}` is neither"
        help = f"write `supports: [{given.supports}]`" if given.supports in _ALL else None
        sink.add(loss_rules.UNKNOWN_ESTIMATOR.at(file.span(*here, "supports"), message, help=help))
    if listed is not None and given.default not in listed:
        message = f"the default `{given.default}` is not among those that are supported"
        help = f"write `supports: [{', '.join((given.default, *listed))}]`"
        sink.add(loss_rules.UNKNOWN_ESTIMATOR.at(file.span(*here, "supports"), message, help=help))
    if given.value is not None and given.value not in loss.let and given.value not in roles:
        message = f"`{given.value}` is no value under `let`, and no key"
        help = suggestion(given.value, [*loss.let, *roles])
        sink.add(expression_rules.UNDEFINED.at(file.span(*here, "value"), message, help=help))
    return tuple(dict.fromkeys((given.default, *supported)))


def _known(file: SchemaFile, name: str, values: bool, sink: Sink, *place: str | int) -> None:
    """Report a name that is no estimator's, or that of one which needs a network."""
    span = file.span(*place)
    if name in OF_ADVANTAGES and not values:
        message = f"`{name}` reads the values of the states, and no network of the loss is said to give them"
        help = f"write `value_estimator: {{default: {name}, network: …}}`, with the network that gives them"
        sink.add(rules.ESTIMATOR_NETWORK.at(span, message, help=help))
    elif name not in _ALL:
        help = suggestion(name, _ALL) or f"the estimators are {', '.join(_ALL)}"
        sink.add(loss_rules.UNKNOWN_ESTIMATOR.at(span, f"unknown value estimator `{name}`", help=help))


def _network(
    file: SchemaFile,
    here: tuple[str, ...],
    given: Estimator,
    loss: Loss,
    networks: Iterable[LossNetwork],
    sink: Sink,
) -> None:
    """Report a network of the estimator that gives no value of a state."""
    if given.network is None:
        return
    found = next((one for one in networks if one.name == given.network), None)
    if found is None and given.network in loss.networks:
        return  # reported where it is declared
    wrong = f"there is no network `{given.network}`"
    if found is not None:
        wrong = f"`{found.name}` gives {found.type}"
        if found.type.col and found.members is None:
            return
    message = f"the value estimator reads one value of each state: {wrong}"
    help = suggestion(given.network, loss.networks) if found is None else None
    sink.add(rules.ESTIMATOR_NETWORK.at(file.span(*here, "network"), message, help=help))


def missing(
    file: SchemaFile, here: tuple[str, ...], loss: Loss, key: LossKey, type: Type | None, sink: Sink
) -> float | Literal["estimate"] | None:
    """What stands for a key where the data lack it; None where nothing does, or after reporting what can't."""
    if key.missing is None:
        return None
    span, name = file.span(*here, "missing"), here[-1]
    if key.missing == "estimate":
        given = loss.value_estimator
        default = given.default if isinstance(given, Estimator) else given
        known = isinstance(given, Estimator) and given.network is not None
        if name in _FILLED and (known or default in OF_ADVANTAGES):  # without a network that is reported
            return "estimate"
        message = f"the value estimator fills {' and '.join(_FILLED)}, `{name}` is neither"
        if name in _FILLED:
            waiting = [
                one for one, other in loss.keys.items() if getattr(other, "missing", None) == key.missing
            ]
            if name != next(one for one in waiting if one in _FILLED):
                return None  # reported at the first one
            message = "the loss has no value estimator that knows the values of states"
        help = (
            "declare `value_estimator: {default: gae, network: critic_network}`" if name in _FILLED else None
        )
        sink.add(rules.WRONG_MISSING.at(span, message, help=help))
        return None
    try:
        number = float(key.missing)
    except ValueError:
        message = f"what stands for a missing key is a number or `estimate`, not `{key.missing}`"
        sink.add(rules.WRONG_MISSING.at(span, message))
        return None
    if type is None or not all(isinstance(size, int) for size in type.dims) or type.dtype == "bool":
        message = f"a number stands for numbers of a known shape, `{name}` is {type or 'of no declared type'}"
        sink.add(rules.WRONG_MISSING.at(span, message))
        return None
    return number
