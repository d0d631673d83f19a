"""The loss of a pipeline: its arguments, and which terms, targets and trained parts it has with these."""

from __future__ import annotations

from collections.abc import Collection

from specgen.check.losses.forward import Bernoulli, Chosen, Draw, ForwardValue, Noise, Read
from specgen.check.losses.model import CheckedLoss
from specgen.check.losses.trained import trained_by_terms
from specgen.check.model import REQUIRED, Checked, Parameter
from specgen.check.param_arguments import check_argument
from specgen.check.pipelines.model import PipelineLoss, PipelineNetwork, Setting
from specgen.check.pipelines.numbers import Numbers, fact_of
from specgen.check.pipelines.when_given import Given
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import pipelines as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.schema.load import SchemaFile, find
from specgen.source import Mapping as MappingNode
from specgen.source import Scalar
from specgen.values import dataclass


@dataclass(frozen=True)
class LossArguments:
    """What a pipeline gives its loss besides networks.

    Attributes:
        loss: the loss.
        settings: numbers, by keyword.
        arguments: other values, by keyword.
        values: the value of every parameter of the loss.
        place: where they stand.
    """

    loss: CheckedLoss
    settings: dict[str, Setting]
    arguments: dict[str, object]
    values: dict[str, object]
    place: tuple[str, ...]

    def given(self, networks: Collection[str]) -> Given:
        """What the conditions of the loss are with these."""
        return Given(self.loss, self.values, networks)


def read_loss(
    file: SchemaFile,
    path: tuple[str, ...],
    losses: dict[str, Checked[CheckedLoss]],
    declared: Collection[str],
    numbers: Numbers,
    sink: Sink,
) -> LossArguments | None:
    """The loss that the pipeline at `path` names, with its arguments; None where it is none, or has mistakes itself."""
    place = (*path, "loss")
    node = file.node(*place)
    assert isinstance(node, MappingNode)
    if len(node.entries) != 1:
        named = ", ".join(f"`{key.text}`" for key, _ in node.entries) or "none"
        sink.add(rules.CHOICE.at(node.span, f"a pipeline has one loss, this one names {named}"))
        return None
    name = node.entries[0][0].text
    if name not in losses:
        if name not in declared:
            help = suggestion(name, declared) or "`import` the file that declares it"
            sink.add(
                schema_rules.UNKNOWN_DECLARATION.at(
                    node.entries[0][0].span, f"unknown loss `{name}`", help=help
                )
            )
        return None
    loss = losses[name].value
    return _arguments(file, (*place, name), loss, numbers, sink)


def _arguments(
    file: SchemaFile, place: tuple[str, ...], loss: CheckedLoss, numbers: Numbers, sink: Sink
) -> LossArguments:
    params = {param.name: param for param in loss.params if param.name not in loss.fixed}
    made = LossArguments(loss, {}, {}, {param.name: _default(param) for param in loss.params}, place)
    asked = {
        symbol.path.rsplit(".", 1)[-1]
        for condition in loss.when.values()
        for symbol in condition.symbols_read
        if ".nonzero." in symbol.path
    }
    node = find(file.root, place)
    for key, value in node.entries if isinstance(node, MappingNode) else ():
        param = params.get(key.text)
        if param is None:
            known = suggestion(key.text, params)
            help = known or f"its arguments are {', '.join(sorted(params))}"
            message = f"`{loss.name}` has no argument `{key.text}`"
            sink.add(schema_rules.UNKNOWN_FIELD.at(key.span, message, help=help))
        elif _is_number(param, value):
            nonzero = key.text in asked and not (isinstance(value, Scalar) and value.value == 0)
            here = place[2:]
            setting = numbers.setting(*here, key.text, owner="loss", fact=fact_of(param, nonzero=nonzero))
            if setting is None:
                continue
            made.values[key.text] = setting.default
            if key.text in asked and setting.default == 0:
                made.arguments[key.text] = setting.default  # it decides which terms there are
                numbers.settings.pop(setting.name, None)
            else:
                made.settings[key.text] = setting
        else:
            made.arguments[key.text] = made.values[key.text] = check_argument(param, value, loss.name, sink)
    for name, param in params.items():
        if param.required and name not in made.values:
            message = f"`{loss.name}` needs `{name}`"
            help = f"write `{loss.name}: {{{name}: …}}`"
            sink.add(schema_rules.MISSING_FIELD.at(file.key_span(*place), message, help=help))
    return made


def _default(param: Parameter) -> object:
    return None if param.default is REQUIRED else param.default


def _is_number(param: Parameter, node: object) -> bool:
    """Whether an argument is a hyper-parameter: a number, the name of one, or a schedule."""
    if param.kind not in ("float", "int", "float64") or not isinstance(node, Scalar):
        return False
    return not isinstance(node.value, bool) and not (param.optional and node.value == "null")


def _draws(value: ForwardValue) -> bool:
    """Whether a value is drawn; the entropy and the divergence of some distributions are estimated from draws."""
    estimated = isinstance(value, Read) and value.function in ("entropy", "kl")
    return estimated or isinstance(value, Draw | Noise | Bernoulli | Chosen)


def with_networks(
    found: LossArguments, networks: tuple[PipelineNetwork, ...], file: SchemaFile
) -> PipelineLoss:
    """The loss with its networks."""
    loss, given = found.loss, found.given({network.name for network in networks})
    terms = tuple(term.name for term in loss.terms if given.holds(loss.when.get(term.name)))
    metrics = tuple(one.name for one in loss.metrics if given.holds(loss.when.get(one.name)))
    present = {network.name for network in networks}
    trained = {
        term: tuple(name for name in names if name not in loss.networks_by_name or name in present)
        for term, names in trained_by_terms(loss).items()
    }
    return PipelineLoss(
        loss=loss,
        networks=networks,
        settings=found.settings,
        arguments=found.arguments,
        terms=terms,
        metrics=tuple(name for name in metrics if name not in loss.each),
        targets=tuple(network.name for network in networks if given.target(network.name)),
        trained=trained,
        draws=any(_draws(made.value) for made in loss.forward),
        span=file.key_span(*found.place),
    )
