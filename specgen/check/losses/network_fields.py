"""Which fields of a network of a loss fit together: those of policies, of modules of tensors, of several outputs."""

from __future__ import annotations

from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import schema as schema_rules
from specgen.diagnostics.rules.loss_modules import PLAIN
from specgen.diagnostics.rules.losses import UNKNOWN_ROLE
from specgen.schema.load import SchemaFile
from specgen.schema.loss import Loss

_OF_FUNCTIONAL = ("qvalue", "choices", "ensemble", "target", "apart", "optional", "joined", "buffers")
"""Fields of networks whose parameters a loss takes."""


def fields_fit(file: SchemaFile, here: tuple[str, ...], loss: Loss, sink: Sink) -> bool:
    """Whether the fields of the network at `here` fit together: reported where they don't."""
    name = here[-1]
    network = loss.networks[name]
    if network.plain and not _fits_plain(file, here, loss, sink):
        return False
    if network.keys and not _keys_fit(file, here, loss, sink):
        return False
    if network.policy is None and not network.out:
        message = f"`{name}` needs `out`: the key that it writes, and its type"
        sink.add(schema_rules.WRONG_TYPE.at(file.key_span(*here), message))
        return False
    what, instead, unfits = "", "", tuple[str, ...]()
    if network.policy is not None:
        what, instead = f"gives a distribution over `{network.policy}`", "`policy`"
        unfits = ("out", "qvalue", "choices", "ensemble", "joined", "buffers")
    elif len(network.out) > 1:
        what, instead = "writes several entries", "all entries of `out` but one"
        unfits = ("qvalue", "choices", "ensemble", "buffers")
    elif network.choices:
        if network.qvalue is None:
            message = f"`{name}` values no action that could make several choices"
            help = "say which: `qvalue: action`; or leave out `choices`"
            sink.add(schema_rules.WRONG_TYPE.at(file.key_span(*here, "choices"), message, help=help))
            return False
        if loss.samples:
            message = f"`{name}` gives values of each choice of a sample, and samples here are not those of the batch"
            help = "leave out `choices`, or `samples`"
            sink.add(schema_rules.WRONG_TYPE.at(file.key_span(*here, "choices"), message, help=help))
            return False
        what, instead = "gives values of each choice", "`choices`"
        unfits = ("ensemble", "buffers")
    for unfit in unfits:
        if getattr(network, unfit):
            message = f"`{name}` {what}, and has no `{unfit}`"
            help = f"leave out `{unfit}`, or {instead}"
            sink.add(schema_rules.WRONG_TYPE.at(file.key_span(*here, unfit), message, help=help))
            return False
    return True


def _keys_fit(file: SchemaFile, here: tuple[str, ...], loss: Loss, sink: Sink) -> bool:
    """Whether a network can say the keys of the roles under `keys`: reported where it can't."""
    name = here[-1]
    network = loss.networks[name]
    if network.policy is None:
        message = f"`{name}` is no policy, whose keys `keys` takes"
        sink.add(schema_rules.WRONG_TYPE.at(file.key_span(*here, "keys"), message, help="leave it out"))
        return False
    for role, what in network.keys.items():
        place = file.key_span(*here, "keys", role)
        if role not in loss.keys:
            message = f"`{role}` is no key of `{here[-3]}`"
            help = suggestion(role, loss.keys) or f"declare `{role}` under `keys`"
            sink.add(UNKNOWN_ROLE.at(place, message, help=help))
            return False
        if (what == "sample") is not (role == network.policy):
            message = f"the sample of `{name}` is `{network.policy}`"
            help = f"write `{network.policy}: sample`, and `log_prob` of the role of its log-probability"
            sink.add(schema_rules.WRONG_TYPE.at(place, message, help=help))
            return False
    return True


def _fits_plain(file: SchemaFile, here: tuple[str, ...], loss: Loss, sink: Sink) -> bool:
    """Whether a network with `plain` can be what that says: reported where it can't."""
    name, help = here[-1], None
    network = loss.networks[name]
    wrong = next((field for field in _OF_FUNCTIONAL if getattr(network, field)), None)
    unknown = next((role for role in network.in_ if role not in loss.keys), None)
    if network.policy is not None:
        if network.plain == "delta":
            return True
        message = f"`{name}` is a policy: `plain: delta` says that it may be certain"
        help = "write `plain: delta`"
        place = file.span(*here, "plain")
    elif network.plain == "delta":
        message = f"`{name}` is no policy, of which `plain: delta` is"
        help = "declare `policy` in the place of `out`"
        place = file.span(*here, "plain")
    elif wrong is not None:
        message = f"`{name}` is a module of tensors, which is kept as it is, and has no `{wrong}`"
        place = file.key_span(*here, wrong)
    elif len(network.out) > 1:
        message = f"`{name}` is a module of tensors, which gives one"
        help = "leave out all entries of `out` but one"
        place = file.key_span(*here, "out")
    elif unknown is not None or not network.in_:
        message = f"`{name}` is called with the tensors of the keys under `in`: "
        message += "there is none" if unknown is None else f"`{unknown}` is no key"
        known = suggestion(unknown or "", loss.keys)
        unknown = unknown or "observation"
        help = known or f'declare it: `keys: {{{unknown}: {{key: {unknown}, type: "float32[n]"}}}}`'
        place = file.span(*here, "in")
    else:
        return True
    sink.add(PLAIN.at(place, message, help=help))
    return False
