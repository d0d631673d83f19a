"""The types of actions whose values a network gives."""

from __future__ import annotations

from specgen.check.losses.model import LossNetwork
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import loss_values as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.expr import Type
from specgen.schema.load import SchemaFile
from specgen.schema.loss import Loss, Network


def values_fit(file: SchemaFile, here: tuple[str, ...], network: Network, type: Type, sink: Sink) -> bool:
    """Whether what the network at `here` writes can be the values of actions, if it values any: reported where it can't."""
    rank = 2 if network.choices else 1
    if network.qvalue is None or (type.rank == rank if network.choices else type.rank >= rank):
        return True
    (output,) = network.out
    what = "a row for each choice" if network.choices else "a vector, one for each action"
    message = f"the action values of `{here[-1]}` are {what}; `{output}` is {type}"
    help = 'write "float32[choices, n_actions]"' if network.choices else 'write "float32[n]"'
    sink.add(schema_rules.WRONG_TYPE.at(file.span(*here, "out", output), message, help=help))
    return False


def action_type(
    file: SchemaFile,
    path: tuple[str, ...],
    loss: Loss,
    role: str,
    declared: Type | None,
    network: LossNetwork,
    sink: Sink,
) -> Type:
    """The type of an action in expressions: one index, one for each choice, or one for each place of the
    dimensions that it is declared with.

    Args:
        file, path, loss: the loss.
        role: the action.
        declared: its type, if the loss says one.
        network: the network that gives its values.
        sink: takes what is wrong.
    """
    values = network.type.dims[:-1]
    if declared is None and network.choices:
        return Type("int64", values)
    if declared is None or (declared.dtype == "int64" and not declared.dims and not network.choices):
        return Type("int64")
    span = file.span(*path, "keys", role, "type")
    places = values if network.choices else values[len(values) - len(declared.dims) :]
    if declared.dtype != "int64" or declared.dims != places:
        message = f"`{network.name}` gives {network.type}, among which `{role}`, {declared}, is no index"
        which = f"int64[{', '.join(map(str, values))}]" if values else "int64"
        help = (
            f"write {which}, where each action that was done stands among its values, or leave out the type"
        )
        sink.add(rules.QVALUE_ACTION.at(span, message, help=help))
        return Type("int64", values)
    policy = next((name for name, one in loss.networks.items() if one.policy == role), None)
    if policy is not None:
        message = f"`{role}` is {declared}, and `{policy}` is a policy over one choice"
        help = "leave out the type, and say `samples: [batch, agents]` where each agent is a sample"
        sink.add(rules.QVALUE_ACTION.at(span, message, help=help))
    return declared
