"""What a user's class has to be: a Protocol, and the records that it takes and returns."""

from __future__ import annotations

from collections.abc import Iterable

from specgen.check.model import CheckedEnv, Entry, Parameter
from specgen.check.programs.python_env import of_class
from specgen.check.sources import PythonSource
from specgen.code import Code, named, using
from specgen.expr import SpecType, Type
from specgen.literals import literal
from specgen.plan.data import annotation
from specgen.plan.docs import hanging, items_doc, wrapped
from specgen.plan.interface import FLAG_DOCS
from specgen.plan.items import Item
from specgen.plan.model import Argument, Field, FunctionPlan, Line, ProtocolPlan, RecordPlan
from specgen.plan.per_env import record_fields
from specgen.plan.short_texts import domain_text
from specgen.program.program import ENDING_FLAGS


def protocol_items(env: CheckedEnv, source: PythonSource) -> list[Item]:
    """The Protocol of an environment's class, behind the records that its methods speak of."""
    return _Writer(env, source).items()


def setup_params(env: CheckedEnv) -> tuple[Parameter, ...]:
    """The parameters that the class is made from: those that are one value for all environments."""
    return tuple(param for param in env.params if param.entry is None)


_GENERATOR = Argument("generator", using("torch.Generator", "torch"))
_GENERATOR_DOC = "    generator: draw from it; it is on the device of the data."


class _Writer:
    def __init__(self, env: CheckedEnv, source: PythonSource) -> None:
        self.env = env
        self.source = source
        self.stateful = source.stateful

    def items(self) -> list[Item]:
        env, name = self.env, self.source.name
        observed = [self._returned(entry) for entry in of_class(env, env.observation)]
        state = [self._returned(entry) for entry in of_class(env, env.state)]
        items: list[Item] = []
        if env.dims:
            sizes = tuple(Field(size, "int", literal(value)) for size, value in env.dims.items())
            items.append(RecordPlan(f"{env.name}Dims", (f"The named sizes of `{env.name}`.",), sizes))
        if env.differing and setup_params(env):
            kept = "Constructor keywords that are one value for all environments."
            items.append(RecordPlan(f"{env.name}SetupParams", (kept,), record_fields(setup_params(env))))
        items.append(RecordPlan(f"{env.name}Setup", (f"What `{name}` is made from.",), tuple(self._setup())))
        if env.differing:
            items.append(self._episode_params())
        if not self.stateful:
            doc = (f"The state in each row: what `{name}.step` is given.",)
            items.append(RecordPlan(f"{env.name}State", doc, tuple(state)))
        items.append(RecordPlan(f"{env.name}Reset", (f"What `{name}.reset` returns.",), (*state, *observed)))
        flags = [self._flag(prefix, flag) for prefix in env.done for flag in ENDING_FLAGS]
        rewards = [self._returned(entry) for entry in env.reward]
        items.append(
            RecordPlan(
                f"{env.name}Step",
                (f"What `{name}.step` returns.",),
                (*state, *observed, *rewards, *flags),
            )
        )
        items.append(ProtocolPlan(f"{env.name}Protocol", self._doc(), (self._reset(), self._step())))
        return items

    def _setup(self) -> Iterable[Field]:
        env = self.env
        if env.differing and setup_params(env):
            yield Field("params", named(f"{env.name}SetupParams"), doc="The same for all environments.")
        elif setup_params(env):
            yield Field("params", named(f"{env.name}Params"), doc="The constructor keywords.")
        if env.consts:
            yield Field("consts", named(f"{env.name}Consts"), doc="The constant tables.")
        if env.dims:
            yield Field("dims", named(f"{env.name}Dims"), doc="The named sizes.")
        if not self.stateful:
            yield Field(
                "device",
                using("torch.device | None", "torch"),
                doc="Where the tensors live; None is torch's default.",
            )

    def _episode_params(self) -> RecordPlan:
        where = "an episode" if self.stateful else "the episode in each row"
        fields = tuple(
            Field(
                param.name,
                annotation(param.entry.type, self._lead),
                doc=self._text(param.entry.type, param.entry.spec, param.doc),
            )
            for param in self.env.differing
            if param.entry is not None
        )
        doc = (f"The parameters of {where}: they keep their values until the next reset.",)
        return RecordPlan(f"{self.env.name}EpisodeParams", doc, fields)

    def _doc(self) -> tuple[str, ...]:
        what = (
            "One instance, which keeps its state to itself. Numbers, lists, arrays and tensors may be returned; they "
            "are copied and take the declared dtype if it holds them. If it has a method `close`, that is called "
            "when the environment is closed."
            if self.stateful
            else "It is stateless: what changes from step to step is in the state that it is given and returns. "
            "Tensors have one batch dimension in front, the rows, whatever the batch size of the environment; tensors "
            "that it is given must not be changed in place."
        )
        text = (
            f"What `{self.source.text}` has to be. It is made from a `{self.env.name}Setup`. {what} Subclass this to "
            "have type checkers show mistakes where they are."
        )
        return tuple(wrapped(text))

    def _reset(self) -> FunctionPlan:
        if self.stateful:
            args = [Argument("seed", "int | None"), *self._params]
            told = hanging(
                "seed: begin anew with the random numbers of this seed; None goes on with those that follow."
            )
            told += ["    params: those of the episode; copies on the CPU."] if self._params else []
            first = "Begin a new episode."
        else:
            args = [Argument("rows", "int"), *self._params, _GENERATOR]
            told = ["    rows: how many.", *self._told_params, _GENERATOR_DOC]
            first = "New episodes, one in each row."
        return self._method("reset", args, named(f"{self.env.name}Reset"), (first, "", "Args:", *told))

    def _step(self) -> FunctionPlan:
        env = self.env
        args = [Argument(e.name, annotation(e.type, self._lead)) for e in env.action]
        kept = "; a copy on the CPU" if self.stateful else ""
        said = items_doc(f"{e.name}: {self._text(e.type, e.spec, e.doc, kept)}" for e in env.action)
        first = "One step."
        if self.stateful:
            told = said
        else:
            state = Argument("state", named(f"{env.name}State"))
            args = [state, *args, *self._params, _GENERATOR]
            told = [
                "    state: what it returned last, or what a reset has put in its place.",
                *said,
                *self._told_params,
                _GENERATOR_DOC,
            ]
            first = "One step in each row."
        return self._method("step", args, named(f"{env.name}Step"), (first, "", "Args:", *told))

    @property
    def _params(self) -> list[Argument]:
        """The argument that hands over the parameters that differ, if some do."""
        return [Argument("params", named(f"{self.env.name}EpisodeParams"))] if self.env.differing else []

    @property
    def _told_params(self) -> list[str]:
        return ["    params: those of each row."] if self.env.differing else []

    def _method(self, name: str, args: list[Argument], returns: Code, doc: tuple[str, ...]) -> FunctionPlan:
        return FunctionPlan(name, tuple(args), returns, doc, (Line("..."),), method=True)

    @property
    def _lead(self) -> str:
        return "" if self.stateful else "rows"

    def _returned(self, entry: Entry) -> Field:
        """A field of a record; rewards are without the trailing 1 that they are stored with."""
        type = Type(entry.type.dtype, entry.type.dims)
        return Field(
            entry.name,
            self._annotation(type, entry.role == "reward"),
            doc=self._text(type, entry.spec, entry.doc),
        )

    def _flag(self, prefix: tuple[str, ...], flag: str) -> Field:
        type = Type("bool", self.env.done_dims[prefix])
        # only the last field may be left out
        default = "False" if self.stateful and flag == "truncated" and len(self.env.done) == 1 else None
        text = self._text(type, None, FLAG_DOCS[flag])
        if self.stateful:
            return Field(
                "_".join((*prefix, flag)), named("ArrayLike") if type.dims else "bool", default, text
            )
        return Field("_".join((*prefix, flag)), annotation(type, self._lead), None, text)

    def _annotation(self, type: Type, reward: bool) -> Code:
        if not self.stateful:
            return annotation(type, self._lead)
        return named("SupportsFloat" if reward and not type.dims else "ArrayLike")

    def _text(self, type: Type, spec: SpecType | None, doc: str, further: str = "") -> str:
        dims = ", ".join(filter(None, [self._lead, *map(str, type.dims or ())]))
        shape = f" [{dims}]" if dims else ""
        text = f"{type.dtype}{shape}{domain_text(spec) if spec is not None else ''}"
        return f"{text}{f': {doc}' if doc else ''}{further}."
