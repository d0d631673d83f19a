"""What a pipeline gives the constructor of an environment: numbers and truth values become hyper-parameters."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.chains.model import CheckedChain
from specgen.check.model import Checked, CheckedEnv, Parameter, ParamKind
from specgen.check.param_arguments import check_argument
from specgen.check.param_values import shape_of_value
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.fields import FIELDS, Fact
from specgen.check.pipelines.model import Amount, SettingKind
from specgen.check.pipelines.reader import PartReader
from specgen.diagnostics import suggestion
from specgen.diagnostics.rules import schema as rules
from specgen.schema.env import time_limit_help
from specgen.schema.load import describe, to_data
from specgen.source import Mapping as MappingNode
from specgen.source import Node, Scalar
from specgen.values import replace

_OWNER = "env"
"""What stands in front of the name of a parameter that something else of the pipeline is called, or may be."""

_FIELDS = frozenset(fact.name for fact in FIELDS.values())


class EnvArguments(PartReader):
    """Reads the arguments of the environments of one pipeline; their names give way to those of other numbers."""

    def given(self, env: PipelineEnv, place: tuple[str, ...], *, stays: str) -> PipelineEnv:
        """An environment with the arguments that it is named with.

        Args:
            env: the environment.
            place: where the pipeline names it.
            stays: why the loop that learns can't change its parameters; empty where it can.
        """
        here = (*place, env.name)
        node = self.file.node(*self.path, *place)
        body = node.get(env.name) if isinstance(node, MappingNode) else None
        declared = self._declared(env)
        base, own = (
            (declared.env.value, declared.params) if isinstance(declared, CheckedChain) else (declared, ())
        )
        known = {one.name: one for one in (*_parameters(base), *own)}
        of_chain = {one.name for one in own}
        keywords = {} if base.gymnasium is None else base.gymnasium.kwargs
        settings: dict[str, Amount] = {}
        arguments: dict[str, object] = {}
        for key, value in body.entries if isinstance(body, MappingNode) else ():
            param = known.get(key.text)
            if param is None and key.text in keywords:
                arguments[key.text] = self._foreign(env, key.text, keywords[key.text], value)
            elif param is None:
                self._report_unknown(env, declared, key, {*known, *keywords})
            elif param.kind == "bool" and isinstance(value, Scalar) and isinstance(value.value, bool):
                fact = self._fact(param, place, "it is a truth value")
                setting = self.numbers.truth_value(*here, key.text, owner=_OWNER, fact=fact)
                settings[key.text] = Amount(setting)
            elif param.kind != "bool" and isinstance(value, Scalar) and not isinstance(value.value, bool):
                why = _stays(param, declared, of_chain=param.name in of_chain)
                fact = self._fact(param, place, stays or why)
                amount = self.numbers.amount(*here, key.text, owner=_OWNER, fact=fact)
                if amount is not None:
                    settings[key.text] = amount
            elif param.entry is not None and param.entry.spec.shape:
                arguments[key.text] = self._several(param, param.entry.spec.shape, value, env)
            elif not self.numbers.refuses(value):
                arguments[key.text] = check_argument(param, value, env.name, self.sink)
        return replace(env, arguments=arguments, settings=settings)

    def _declared(self, env: PipelineEnv) -> CheckedEnv | CheckedChain:
        found = self.scopes.at(env.span).envs[env.name]
        assert isinstance(found, Checked)
        declared: CheckedEnv | CheckedChain = found.value
        return declared

    def _fact(self, param: Parameter, place: tuple[str, ...], stays: str) -> Fact:
        """What is known of a parameter; that of an environment of evaluations alone has these in its name."""
        kind: SettingKind = "float"
        if param.kind in ("int", "bool"):
            kind = param.kind
        doc = param.doc or f"`{param.name}` of the environment"
        fact = Fact(
            param.name, kind, doc, tuple(param.range), scheduled=not stays, stays=stays, ends_in_range=True
        )
        if len(place) == 1:
            return fact.of(_OWNER) if param.name in _FIELDS else fact
        return replace(fact.of(place[0]), doc=f"{doc.rstrip('.')}, in evaluations")

    def _several(self, param: Parameter, shape: tuple[object, ...], node: Node, env: PipelineEnv) -> object:
        """The numbers of a parameter that has dimensions, the same ones for all environments."""
        value = check_argument(replace(param, kind="tensor"), node, env.name, self.sink)
        if (found := shape_of_value(value)) != shape:
            message = f"`{param.name}` of `{env.name}` has the shape {list(shape)}, got "
            message += "lists of different lengths" if found is None else f"{list(found)}"
            help = "write one number for all of it, or a list of this shape, which all environments get"
            self.sink.add(rules.WRONG_TYPE.at(node.span, message, help=help))
        return value

    def _foreign(self, env: PipelineEnv, name: str, declared: object, node: Node) -> object:
        """A keyword of `gymnasium.make` that is neither a number nor a truth value, of the type that the declaration has."""
        value = to_data(node)
        if type(value) is not type(declared):
            message = (
                f"`{name}` of `{env.name}` is {declared!r} where it is declared, got {describe(node, value)}"
            )
            self.sink.add(rules.WRONG_TYPE.at(node.span, message))
        return value

    def _report_unknown(
        self, env: PipelineEnv, declared: CheckedEnv | CheckedChain, key: Scalar, known: set[str]
    ) -> None:
        base = declared.env.value if isinstance(declared, CheckedChain) else declared
        help = suggestion(key.text, known)
        if isinstance(declared, CheckedChain):
            help = help or _of_transform(key.text, declared)
        if (limited := time_limit_help(key.text)) is not None:
            help = help or ("it is called `max_steps` here" if "max_steps" in known else limited)
        if help is None and base.gymnasium is not None:
            help = f"keywords of `gymnasium.make` are declared with `{base.name}`: "
            help += f"`gymnasium: {{id: {base.gymnasium.id}, kwargs: {{{key.text}: …}}}}`"
        help = help or f"its parameters are {', '.join(sorted(known)) or 'none'}"
        message = f"`{env.name}` has no parameter `{key.text}`"
        self.sink.add(rules.UNKNOWN_FIELD.at(key.span, message, help=help))


def _of_transform(name: str, chain: CheckedChain) -> str | None:
    """How an argument that a chain gives one of its transforms becomes a parameter; None where it gives none that is called so."""
    for instance in chain.instances:
        value = instance.arguments.get(name)
        if isinstance(value, int | float):
            kind = instance.transform.name
            written = str(value).lower() if isinstance(value, bool) else value
            return f"declare it in the chain, `params: {{{name}: {written}}}`, and name it there, `{{{kind}: {{{name}: {name}}}}}`"
    return None


def _stays(param: Parameter, declared: CheckedEnv | CheckedChain, *, of_chain: bool) -> str:
    """Why a parameter has one value in a training; empty where it may change."""
    env = declared
    if isinstance(declared, CheckedChain):
        env = declared.env.value
        for one in declared.instances:
            named = [given.name for given in one.params.values() if isinstance(given, Parameter)]
            if of_chain and one.transform.python is not None and param.name in named:
                return f"the class behind `{one.transform.name}` is made with it"
    assert isinstance(env, CheckedEnv)
    if param.kind == "int":
        return "it is a whole number"
    if param.entry is not None:
        return "episodes keep it, each its own"
    if of_chain and not env.keeps_state:
        return ""
    return "the environment is made with it" if env.gymnasium is not None or env.python is not None else ""


def _parameters(env: CheckedEnv) -> Iterator[Parameter]:
    """The parameters of an environment; of Gymnasium's the keywords that are declared and are numbers or truth values."""
    yield from env.params
    kinds: dict[type, ParamKind] = {bool: "bool", int: "int", float: "float"}
    for name, value in env.gymnasium.kwargs.items() if env.gymnasium is not None else ():
        if type(value) in kinds:
            yield Parameter(name, kinds[type(value)], value, f"`{name}` of `gymnasium.make`")
