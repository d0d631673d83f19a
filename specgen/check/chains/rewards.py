"""The rewards of an environment behind the transforms of a chain: each is of the shape of the flags beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specgen.check.chains.model import Instance
from specgen.check.model import CheckedEnv, Entry
from specgen.diagnostics import Sink, Span
from specgen.diagnostics.rules import devices as rules


def check_rewards(
    instances: Sequence[Instance],
    env: CheckedEnv,
    entries: Mapping[str, Entry],
    spans: Mapping[int, Span],
    sink: Sink,
) -> None:
    """Report a reward of the environment that a transform gives another shape than the environment does.

    Rewards of conversations are none of these: there may be one for each token.
    """
    if env.chat is not None:
        return
    for before in env.reward:
        after = entries.get(before.dotted)
        if after is None or after.role != "reward" or after.type.dims == before.type.dims:
            continue
        for instance in instances:
            made = [one for row in instance.rows for one in row.outputs.values() if one.key == before.key]
            if not made or made[-1].type.dims == before.type.dims:
                continue
            given, wanted = list(made[-1].type.dims or ()), list(before.type.dims or ())
            message = f"`{instance.transform.name}` gives `{before.dotted}` the shape {given}, and its flags have {wanted}"
            help = (
                "declare the output as one number, `float32[]`"
                if not wanted
                else "give it the shape of its role"
            )
            sink.add(rules.DONE_SHAPE.at(spans[instance.position], message, help=help))
            break
