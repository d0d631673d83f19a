"""`joined`: calls of a network with its trained parameters that run as one batch, so that its statistics see all of them."""

from __future__ import annotations

from collections.abc import Sequence

from specgen.check.losses.forward import Alias, DrawnLogProb, Forward, Joint, NetworkCall, Split, parts_of
from specgen.check.losses.model import LossNetwork
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import loss_values as value_rules
from specgen.program.names import numbered
from specgen.schema.load import SchemaFile
from specgen.values import replace


def joined_calls(
    file: SchemaFile,
    path: tuple[str, ...],
    found: Sequence[Forward],
    networks: Sequence[LossNetwork],
    sink: Sink,
) -> tuple[Forward, ...]:
    """The values of a class, with one run in the place of the calls of each network that is `joined`.

    That stands where the last of them stood; what reads the others comes behind it.

    Args:
        file, path: where the loss is declared.
        found: the values, in order.
        networks: the networks of the loss.
        sink: takes networks of which nothing can be joined; where it holds errors, nothing is.
    """
    values = tuple(found)
    for network in networks:
        if not network.joined or sink.has_errors:
            continue
        calls = [one for one in values if _is_joined(one, network.name)]
        place = file.key_span(*path, "networks", network.name, "joined")
        if len(calls) < 2:
            message = f"there are not two calls of `{network.name}` with its trained parameters that could run as one"
            sink.add(
                value_rules.JOINED.at(
                    place, message, help="leave out `joined`, or call it with `now` and `next`"
                )
            )
            continue
        unfit = next((one for one in calls if "draw" in map(str, one.type.axes)), None)
        if unfit is not None:
            message = f"`{unfit.name}` has values for each draw, and one batch has one value for each sample"
            sink.add(value_rules.JOINED.at(place, message, help="draw one, or leave out `joined`"))
            continue
        made = _together(values, network.name, calls)
        if made is None:
            message = (
                f"a call of `{network.name}` needs what another one gives, so that they can't run as one"
            )
            sink.add(value_rules.JOINED.at(place, message, help="leave out `joined`"))
            continue
        values = made
    return values


def _is_joined(made: Forward, network: str) -> bool:
    value = made.value
    if not isinstance(value, NetworkCall) or value.network != network or made.replaced:
        return False
    return value.variant == "live" and not value.evaluated


def _together(
    values: Sequence[Forward], network: str, calls: Sequence[Forward]
) -> tuple[Forward, ...] | None:
    """The values with these calls in one run; None if one of them needs what another gives."""
    name = numbered(f"{network}_joined", {one.name for one in values})
    runs = [one.value for one in calls if isinstance(one.value, NetworkCall)]
    made: list[Forward] = []
    behind: list[Forward] = []
    waiting: set[str] = set()
    for one in values:
        waits = not waiting.isdisjoint(_read(one))
        if one not in calls:
            (behind if waits else made).append(one)
            waiting |= {one.name} if waits else set()
            continue
        if waits:
            return None
        behind.append(replace(one, value=Split(Alias(name), calls.index(one))))
        waiting.add(one.name)
        if one is calls[-1]:
            made += [Forward(name, Joint(tuple(runs)), network, one.type, one.path), *behind]
            behind, waiting = [], set()
    return tuple(made)


def _read(made: Forward) -> set[str]:
    """The names of the values that a value is computed from."""
    names = {part.name for part in parts_of(made.value) if isinstance(part, Alias)}
    return names | {part.draw for part in parts_of(made.value) if isinstance(part, DrawnLogProb)}
