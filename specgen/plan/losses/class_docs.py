"""The docstrings of the class of a loss."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.losses.model import CheckedLoss, LossNetwork
from specgen.check.losses.trained import trained_by_terms
from specgen.literals import literal
from specgen.plan.docs import filled_lines, hanging, summary, wrapped
from specgen.plan.losses.coefficients import KEYWORDS, param_doc
from specgen.plan.losses.facts import can_leave_networks, has_scalars, values_actions
from specgen.plan.losses.modules import module_docs
from specgen.plan.losses.numbers import number_read


def class_doc(loss: CheckedLoss) -> Iterator[str]:
    """That of the class: what it computes, what each term trains, and the keys."""
    yield from wrapped(_what(loss))
    yield ""
    for term, names in trained_by_terms(loss).items():
        yield from filled_lines(f"`{term}` trains {', '.join(f'`{name}`' for name in names) or 'nothing'}.")
    yield ""
    yield "Keys, by the name that `set_keys` takes:"
    for role in loss.roles:
        key = ("next", *role.key) if role.after else role.key
        text = key[0] if len(key) == 1 else literal(key)
        yield from hanging(f"{role.accepted}: {text}" + (f"; {role.doc}" if role.doc else ""))


def init_doc(loss: CheckedLoss) -> Iterator[str]:
    """That of the constructor."""
    yield from summary(_what(loss))
    yield ""
    yield "Args:"
    for network in loss.networks:
        yield from hanging(f"{network.name}: {network.doc or _gives(network)}")
    for domain in loss.domains:
        for word in domain.keywords:
            yield from hanging(f"{word}: {KEYWORDS[word].format(domain.role)}")
    yield from module_docs(loss)
    for param in loss.params:
        if param.name not in loss.fixed:
            yield from hanging(f"{param.name}: {param_doc(loss, param)}")
    if values_actions(loss):
        joint = all(network.action is None or network.members is None for network in loss.networks)
        kinds = (
            '"one-hot", "mult-one-hot", "categorical", "multi-categorical"'
            if joint
            else '"one-hot", "categorical"'
        )
        if any(network.choices for network in loss.networks):
            kinds = '"mult-one-hot", "multi-categorical"'
        yield from hanging(
            f"action_space: how actions are stored, {kinds} or their spec; by default what the network says."
        )
    yield from hanging(
        'reduction: of the samples, "mean", "sum" or "none", which keeps one value per sample. Defaults to "mean".'
    )
    yield from hanging(
        'use_prioritized_weights: weight the samples by their importance: True, False, or "auto", if the data '
        "hold weights."
    )
    if has_scalars(loss):
        yield from hanging(
            'scalar_output_mode: what becomes of numbers that are one for the batch with the reduction "none": '
            '"exclude" leaves them out, "non_tensor" returns them as data that are no tensors. Defaults to None: as '
            "they are."
        )
    if can_leave_networks(loss):
        yield from hanging(
            f"functional: whether the loss takes the parameters of its networks. Defaults to {loss.functional}; otherwise "
            "they are ordinary children, without targets."
        )
    if any(network.members for network in loss.networks):
        yield from hanging(
            "deactivate_vmap: call the members of an ensemble one after another where `torch.vmap` would call them at "
            "once, for modules that it can't run. Defaults to False."
        )
    yield from hanging("device: of the buffers of the loss itself. Defaults to None: that of the parameters.")
    yield ""
    yield "Raises:"
    policies = (
        ", or a policy gives no distribution"
        if any(one.policy and not one.plain for one in loss.networks)
        else ""
    )
    methods = ", or an object lacks a method" if loss.modules else ""
    numbers = (
        ", or something else is given for a number"
        if any(number_read(one, None) for one in loss.params)
        else ""
    )
    yield from hanging(f"TypeError: if a network is not a module{policies}{methods}{numbers}.")
    yield from hanging(
        "ValueError: if a keyword has a value that it does not take, or they contradict each other."
    )


def _gives(network: LossNetwork) -> str:
    if network.policy:
        return f"gives the distribution of `{network.output}`."
    if network.kept:
        return f"gives `{network.output}`."
    return f"writes {', '.join(f'`{role}`' for role, _ in network.outputs)}."


def _what(loss: CheckedLoss) -> str:
    return loss.doc or f"The loss `{loss.name}`."


def forward_doc(loss: CheckedLoss) -> tuple[str, ...]:
    """That of `forward`."""
    writes = ", ".join(f"`{s.target}`" for s in loss.writes)
    return (
        "Compute the loss of a batch" + (f", and write {writes} into it." if writes else "."),
        "",
        "Raises:",
        "    KeyError: if something that the loss reads is missing.",
    )
