"""Which networks of a pipeline are those of which loss, and whether every loss has what it needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from specgen.check.pipelines.loss_arguments import LossArguments
from specgen.check.pipelines.model import part_name
from specgen.check.pipelines.reader import PipelineContext
from specgen.check.pipelines.teams import mixed_role
from specgen.diagnostics import did_you_mean, suggestion
from specgen.diagnostics.rules import pipelines as rules
from specgen.schema.pipeline_networks import NetworkBody
from specgen.source import Mapping as MappingNode


def assigned(
    context: PipelineContext, losses: tuple[LossArguments, ...], trunks: Collection[str]
) -> tuple[dict[str, str], ...] | None:
    """The declared networks of each loss, by the names that the loss has for them; None after reporting a mistake.

    Those among `trunks` are of no loss.

    A network is called as its loss calls it. Where several losses have that name, that of the loss stands in front:
    `adversary.actor_network`.
    """
    file, path, sink = context.file, context.path, context.sink
    networks = context.pipeline.networks
    found: tuple[dict[str, str], ...] = tuple({} for _ in losses)
    unknown: list[str] = []
    complete = True
    here = file.node(*path)
    unsaid = isinstance(here, MappingNode) and "networks" in here.lost  # a value that was refused itself
    missing = [] if unsaid else _missing(networks, losses)
    for name in networks:
        if name in trunks:
            continue
        owners = [index for index, loss in enumerate(losses) if name in names_of(loss)]
        span = file.key_span(*path, "networks", name)
        if len(owners) > 1:
            named = [f"`{losses[index].name}.{name}`" for index in owners]
            message = f"`{name}` may be {' or '.join(named)}"
            sink.add(rules.NETWORK.at(span, message, help="write which"))
            return None
        if not owners:
            unknown.append(name)
            known = {one: loss for loss in losses for one in names_of(loss)}
            who = " and ".join(
                f"`{loss.loss.name}`" for loss in {one.loss.name: one for one in losses}.values()
            )
            has = "has" if len({loss.loss.name for loss in losses}) == 1 else "have"
            full = [one for one in known if "." in one] or list(known)
            group = name.rpartition(".")[0]
            if any(
                loss.name == group for loss in losses if loss.name
            ):  # networks of other groups are not meant
                known = {one: loss for one, loss in known.items() if loss.name == group and "." in one}
                full = list(known)
            help = suggestion(name, known) or _meant_as_trunk(name, networks)
            lacking = next((one for one in missing if one in known), None)
            if help is None and lacking is not None:  # that one is missing is said here, and not once more
                missing.remove(lacking)
                help = f"`{lacking}` is missing: call it so"
            there = ", ".join(f"`{one}`" for one in full)
            help = help or f"there are {there}; a trunk is named by those that stand on it: `trunk: {name}`"
            sink.add(rules.NETWORK.at(span, f"{who} {has} no network `{name}`", help=help))
            complete = False
            continue
        (index,) = owners
        called = name.rsplit(".", 1)[-1]
        if called in found[index]:
            message = f"`{name}` and `{found[index][called]}` are the same network"
            sink.add(rules.NETWORK.at(span, message, help="leave one out"))
            return None
        found[index][called] = name
    for loss, mine in zip(losses, found, strict=True):
        for role in loss.loss.networks:
            if role.name in mine or role.optional:
                continue
            complete = False
            name = part_name(loss.name, role.name)
            message = f"`{loss.loss.name}` needs a network `{name}`"
            example = "mlp: [64, 64]" if mixed_role(loss.loss, role) is None else "mixer: vdn"
            help = f"declare it: `networks: {{{name}: {{{example}}}}}`"
            if name in missing and not any(suggestion(one, (name, role.name)) for one in unknown):
                sink.add(rules.NETWORK.at(file.key_span(*path), message, help=help))
    return found if complete else None


def _missing(networks: Collection[str], losses: tuple[LossArguments, ...]) -> list[str]:
    """The networks that losses need and that are not declared, as they would be called."""
    found: list[str] = []
    for loss in losses:
        for role in loss.loss.networks:
            name = part_name(loss.name, role.name)
            if not role.optional and not {name, role.name} & set(networks):
                found.append(name)
    return found


def names_of(loss: LossArguments) -> tuple[str, ...]:
    """What the networks of a loss may be called."""
    roles = tuple(role.name for role in loss.loss.networks)
    return (*roles, *(f"{loss.name}.{role}" for role in roles)) if loss.name else roles


def _meant_as_trunk(name: str, networks: Mapping[str, NetworkBody]) -> str | None:
    """What is said of a trunk where a network names one that there is not, by nearly its name."""
    for other, body in networks.items():
        if body.trunk is not None and body.trunk not in networks and did_you_mean(body.trunk, (name,)):
            return f"`{other}` stands on `{body.trunk}`: write `trunk: {name}` there"
    return None
