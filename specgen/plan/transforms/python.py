"""What a user's class behind a transform has to be: a Protocol, the records that it takes and returns, how it is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from specgen.check.chains.model import CheckedChain, Instance
from specgen.check.conditions import ALWAYS, Condition
from specgen.check.model import PARAM_DTYPES, Parameter
from specgen.check.transforms.entries import Output, Role
from specgen.check.transforms.model import CheckedTransform, PythonPhases
from specgen.check.transforms.python import gives
from specgen.code import Code, named, using, value_code
from specgen.expr.dtypes import is_abstract
from specgen.expr.sizes import Dims, Rest
from specgen.literals import literal
from specgen.plan.data import JAXTYPING
from specgen.plan.docs import wrapped
from specgen.plan.items import Item
from specgen.plan.model import Argument, CallPlan, Field, FunctionPlan, Line, ProtocolPlan, RecordPlan, Text
from specgen.plan.per_env import kept_annotation
from specgen.plan.transforms.model import PythonClassPlan
from specgen.plan.transforms.networks import row_sizes
from specgen.plan.transforms.text import dtype_code

_Entry = tuple[str, str, Dims | None, str, Condition | None]
"""A field of a record: its name, dtype, dimensions and documentation, and when it is there."""

_ROWS, _TIMES = ("rows",), ("rows", "time")
"""The dimensions in front of those of a row: of one moment, and of recorded data."""


def python_items(transform: CheckedTransform) -> list[Item]:
    """The Protocol of a transform's class, behind the records that its methods speak of; nothing without a class."""
    return [] if transform.python is None else list(_Writer(transform, transform.python).items())


def python_class(transform: CheckedTransform) -> PythonClassPlan | None:
    """How the class of a transform is imported and called; None where there is none."""
    return None if transform.python is None else _Writer(transform, transform.python).plan()


def objects_record(chain: CheckedChain) -> list[Item]:
    """The record of the objects that the transforms of a chain call; nothing where they call none."""
    called = using("ObjectOfRows", "ObjectOfRows")
    fields = tuple(
        Field(one.field, called, doc=f"`{one.transform.python.source.text}`, of {one.transform.name}")
        for one in chain.instances
        if one.transform.python is not None
    )
    doc = (f"The objects of the classes behind transforms of `{chain.name}`.",)
    return [RecordPlan(f"{chain.name}Objects", doc, fields)] if fields else []


def chain_objects(chain: CheckedChain) -> tuple[tuple[str, CallPlan], ...]:
    """The names of these objects, with the calls that make their transforms."""
    return tuple((one.field, _made(one)) for one in chain.instances if one.transform.python is not None)


def made_with(chain: CheckedChain) -> tuple[tuple[str, str], ...]:
    """The parameters of a chain that such objects are made with, each with the transform of one."""
    found = {
        given.name: one.transform.name
        for one in chain.instances
        if one.transform.python is not None
        for given in one.params.values()
        if isinstance(given, Parameter)
    }
    return tuple(found.items())


def _made(instance: Instance) -> CallPlan:
    """A transform with the parameters that a chain gives it."""
    transform = instance.transform
    driver = transform.driver(inverse=False)
    keys = [row.inputs[driver.name].key for row in instance.rows] if driver and driver.required else []
    args: list[Text] = (
        [f"in_keys={literal([key[0] if len(key) == 1 else key for key in keys])}"] if keys else []
    )
    for param in transform.params:
        given = instance.params[param.name]
        value = using(f"self.params.{given.name}") if isinstance(given, Parameter) else value_code(given)
        args.append(using(f"{param.name}={value}", *value.uses))
    for keyword in _asked(transform).values():
        if (key := instance.arguments.get(keyword)) is not None:
            args.append(f"{keyword}={literal(key[0] if len(key) == 1 else key)}")
    return CallPlan(transform.name, tuple(args))


class _Writer:
    def __init__(self, transform: CheckedTransform, python: PythonPhases) -> None:
        self.transform = transform
        self.python = python
        self.name = transform.name
        self.carried = tuple(output for output in transform.outputs if output.carry)
        self.carries = "step" in python.phases and bool(self.carried)
        self.inverse = "inverse" in python.phases
        self.left = any(output.policy for output in transform.outputs)
        self.flags = any(output.flag for output in transform.outputs)
        self.forward = any(phase not in ("inverse", "offline") for phase in python.phases)
        self.recorded = () if transform.recursion is None else transform.recursion.reads
        self.params = tuple(param for param in transform.params if not param.per_env)
        self.of_rows = tuple(param for param in transform.params if param.per_env)

    def items(self) -> Iterator[Item]:
        transform, name, source = self.transform, self.name, self.python.source.name
        if self.params:
            fields = tuple(Field(p.name, _param(p), doc=p.doc) for p in self.params)
            yield RecordPlan(f"{name}Params", (f"Constructor keywords of `{name}`.",), fields)
        yield RecordPlan(f"{name}Setup", (f"What `{source}` is made from.",), tuple(self._setup()))
        if self.forward:
            inputs = (*map(_role, transform.forward), *map(_param_of_rows, self.of_rows))
            yield RecordPlan(
                f"{name}Inputs", (f"The entries of a moment: what `{source}` is given.",), inputs
            )
        if self.inverse:
            written = (*(_field(*one) for one in self._written), *map(_param_of_rows, self.of_rows))
            yield RecordPlan(f"{name}Written", ("What the policy wrote.",), written)
        if self.recorded:
            yield from self._recorded_records()
        if self.carries:
            carried = tuple(map(_output, self.carried))
            doc = f"What `{source}.reset` or `{source}.step` returned before, of that which is carried."
            yield RecordPlan(f"{name}Carried", tuple(wrapped(doc)), carried)
        for phase in self.python.phases:
            lead = _TIMES if phase == "offline" else _ROWS
            given = tuple(self._given_field(one, lead) for one in self._given(phase))
            yield RecordPlan(f"{name}{phase.capitalize()}", (f"What `{source}.{phase}` returns.",), given)
        yield ProtocolPlan(f"{name}Protocol", self._doc(), tuple(map(self._method, self.python.phases)))

    def plan(self) -> PythonClassPlan:
        source, name = self.python.source, self.name
        given = {
            phase: CallPlan(
                "GivenRows",
                (
                    named(f"{name}{phase.capitalize()}"),
                    _tuple(dtype_code(dtype) for _, dtype, *_ in self._given(phase)),
                    literal(tuple(_rows(dims) for _, _, dims, *_ in self._given(phase))),
                    *self._conditions(phase),
                ),
            )
            for phase in self.python.phases
        }
        params = tuple(f"{p.name}=self.{p.name}" for p in self.params)
        records = ("Setup", "Protocol", "Params", "Inputs", "Written", "Root", "Next", "Recorded")
        taken = {f"{name}{kind}" for kind in records} | {"Callable", name}
        return PythonClassPlan(
            source.text,
            source.module,
            source.name,
            "Behaviour" if source.name in taken else source.name,
            f"{name}Setup",
            f"{name}Protocol",
            CallPlan(f"{name}Params", params) if params else None,
            self._inputs() if self.forward else None,
            self._read("Carried", map(_entry, self.carried)) if self.carries else None,
            self._read("Written", self._written, self.of_rows) if self.inverse else None,
            self._read_recorded() if self.recorded else None,
            tuple(given.items()),
            self.python.reads_env,
            tuple(_asked(self.transform).items()),
        )

    def _read(self, kind: str, entries: Iterable[_Entry], params: Iterable[Parameter] = ()) -> CallPlan:
        """A record that the class is given: its fields, those that may be None, and those that are parameters."""
        found = list(entries)
        of_rows = tuple(param.name for param in params)
        rows = (*(_rows(dims) for _, _, dims, *_ in found), *(() for _ in of_rows))
        args: list[Text] = [named(f"{self.name}{kind}"), literal(rows)]
        if missing := tuple(name for name, *_, when in found if when is not None):
            args.append(f"optional={literal(missing)}")
        if of_rows:
            args.append(f"params={literal(of_rows)}")
        return CallPlan("ReadRows", tuple(args))

    def _inputs(self) -> CallPlan:
        """What each method is given of the entries."""
        return self._read("Inputs", map(_read_entry, self.transform.forward), self.of_rows)

    def _read_at(self, root: bool) -> tuple[Role, ...]:
        """The roles that are read at the root, or under `next`."""
        prefix = "" if root else "next."
        return tuple(role for role in self.transform.forward if f"{prefix}{role.name}" in self.recorded)

    def _recorded_records(self) -> Iterator[Item]:
        """The records of what `offline` is given."""
        name, times = self.name, using('Bool[Tensor, "rows time"]', "Bool", "Tensor")
        at_root = (*(_role(one, _TIMES) for one in self._read_at(True)), *map(_param_of_rows, self.of_rows))
        at_next = tuple(_role(one, _TIMES) for one in self._read_at(False))
        fields: list[Field] = []
        for kind, where, found in (("Root", "at the root", at_root), ("Next", "under `next`", at_next)):
            if found:
                yield RecordPlan(f"{name}{kind}", (f"The entries {where}.",), found)
                fields.append(Field(kind.lower(), named(f"{name}{kind}"), doc=f"What stands {where}."))
        done = "bool [rows, time]: where episodes end; where it is false at the last moment, the data end inside of one."
        fields.append(Field("done", times, doc=done))
        yield RecordPlan(
            f"{name}Recorded",
            (f"What `{self.python.source.name}` is given of recorded data.",),
            tuple(fields),
        )

    def _read_recorded(self) -> CallPlan:
        """What `offline` is given."""
        args: list[Text] = [named(f"{self.name}Recorded")]
        for kind in ("Root", "Next"):
            roles, params = self._read_at(kind == "Root"), self.of_rows if kind == "Root" else ()
            if roles or params:
                read = self._read(kind, map(_read_entry, roles), params)
                text = f"{kind.lower()}={read.function}({', '.join(map(str, read.args))})"
                args.append(using(text, read.function, f"{self.name}{kind}"))
        return CallPlan("RecordedRows", tuple(args))

    def _conditions(self, phase: str) -> Iterator[str]:
        """What the keys of optional roles decide of what a method returns: which have to be there, and which not."""
        asked = {
            name: atoms
            for name, *_, when in self._given(phase)
            if when is not None
            and (atoms := tuple((one.name, one.holds) for one in when.of_keys if one.name != name))
        }
        if asked:
            yield f"when={literal(asked)}"

    def _given(self, phase: str) -> tuple[_Entry, ...]:
        """What a method returns: outputs, or what the environment takes."""
        if phase == "inverse":
            return tuple(
                (role.name, role.pattern, role.dims, role.doc, None) for role in self.transform.backward
            )
        outputs = self.transform.written(inverse=False)
        return tuple(_entry(output) for output in outputs if gives(output, phase))

    def _given_field(self, entry: _Entry, lead: tuple[str, ...]) -> Field:
        return _field(*entry, keyword=_asked(self.transform).get(entry[0]), lead=lead)

    @property
    def _written(self) -> tuple[_Entry, ...]:
        """What the policy writes."""
        return tuple(
            _entry(output, self.transform.role(output.each or ""))
            for output in self.transform.written(inverse=True)
        )

    def _setup(self) -> Iterator[Field]:
        if self.params:
            yield Field("params", named(f"{self.name}Params"), doc="The constructor keywords.")
        device = using("torch.device | None", "torch")
        yield Field("device", device, doc="Where the tensors live; None where that is not known yet.")
        if self.python.reads_env:
            yield Field("env", named("EnvBase"), doc="The environment that all transforms stand around.")
        if asked := _asked(self.transform):
            names = " and ".join(f"`{name}`" for name in asked)
            yield Field(
                "outputs", "frozenset[str]", doc=f"Those of {names} that users want: they gave a key."
            )

    def _doc(self) -> tuple[str, ...]:
        lead = (
            "Tensors have two dimensions in front, the rows and the time, whatever the batch size of the data; "
            if self.recorded
            else "Tensors have one batch dimension in front, the rows, whatever the batch size of the environment and "
            "however many times are computed at once; "
        )
        return tuple(
            wrapped(
                f"What `{self.python.source.text}` has to be. It is made from a `{self.name}Setup`, and stateless unless "
                f"it is an `nn.Module`, which becomes a submodule. {lead}tensors that it is given must not be changed in "
                "place. Subclass this to have type checkers show mistakes where they are."
            )
        )

    def _method(self, phase: str) -> FunctionPlan:
        kind = {"inverse": "Written", "offline": "Recorded"}.get(phase, "Inputs")
        args = [Argument(kind.lower(), named(f"{self.name}{kind}"))]
        told = {
            "map": "The outputs at any moment.",
            "reset": "The outputs at the start of an episode.",
            "step": "The outputs after a step."
            + (" What the policy writes is left to it." if self.left else "")
            + (" Done flags are raised where they are true." if self.flags else ""),
            "inverse": "What the environment is given.",
            "offline": "The outputs at all moments.",
        }[phase]
        said = {
            "step": ["    inputs: the entries after the step."],
            "inverse": ["    written: what the policy wrote."],
            "offline": ["    recorded: the recorded data."],
        }.get(phase, ["    inputs: the entries."])
        if phase == "step" and self.carries:
            args.insert(0, Argument("carried", named(f"{self.name}Carried")))
            said.insert(0, "    carried: what was returned before the step.")
        returns = named(f"{self.name}{phase.capitalize()}")
        return FunctionPlan(
            phase, tuple(args), returns, (told, "", "Args:", *said), (Line("..."),), method=True
        )


def _asked(transform: CheckedTransform) -> dict[str, str]:
    """The outputs that are there only where users name them, each with the keyword."""
    return {one.name: one.keyword for one in transform.outputs if one.left_out and one.keyword is not None}


def _rows(dims: Dims | None) -> tuple[int | str, ...]:
    """The dimensions of a row."""
    return row_sizes(tuple(size for size in dims or () if not isinstance(size, Rest)))


def _tuple(codes: Iterable[Code]) -> Code:
    found = list(codes)
    end = "," if len(found) == 1 else ""
    return using(f"({', '.join(map(str, found))}{end})", *(name for code in found for name in code.uses))


def _read_entry(role: Role) -> _Entry:
    return role.name, role.pattern, role.dims, role.doc, ALWAYS if role.may_be_missing else None


def _role(role: Role, lead: tuple[str, ...] = _ROWS) -> Field:
    made = _field(role.name, role.pattern, role.dims, role.doc, lead=lead)
    if not role.may_be_missing:
        return made
    annotation = _annotation(role.pattern, role.dims, lead)
    text = (
        f"{_text(role.pattern, role.dims, role.doc, lead).removesuffix('.')}; None where its key is missing."
    )
    return Field(role.name, using(f"{annotation} | None", *annotation.uses), doc=text)


def _output(output: Output) -> Field:
    return _field(*_entry(output), keyword=output.keyword if output.left_out else None)


def _entry(output: Output, role: Role | None = None) -> _Entry:
    """An output; what the policy writes for `role` is of its type, where it says none of its own."""
    if role is not None and output.dtype is None:
        return output.name, role.pattern, role.dims, output.doc, output.when
    return output.name, output.dtype or "float32", output.dims, output.doc, output.when


def _field(
    name: str,
    dtype: str,
    dims: Dims | None,
    doc: str,
    when: Condition | None = None,
    keyword: str | None = None,
    lead: tuple[str, ...] = _ROWS,
) -> Field:
    """An entry as a field, which is None unless `when` holds; `keyword` is that by which users ask for it."""
    annotation, text = _annotation(dtype, dims, lead), _text(dtype, dims, doc, lead)
    if when is None:
        return Field(name, annotation, doc=text)
    there = when if keyword is None else f"`{keyword}` is given"
    text = f"{text.removesuffix('.')}; None unless {there}."
    return Field(name, using(f"{annotation} | None", *annotation.uses), doc=text)


def _param_of_rows(param: Parameter) -> Field:
    """A parameter of which each row has its own value."""
    return _field(param.name, PARAM_DTYPES[param.kind], (), param.doc)


def _annotation(dtype: str, dims: Dims | None, lead: tuple[str, ...] = _ROWS) -> Code:
    kind = "Shaped" if is_abstract(dtype) else JAXTYPING[dtype]
    shape = literal(" ".join([*lead, *map(str, _rows(dims))]))
    return using(f"{kind}[Tensor, {shape}]", kind, "Tensor")


def _text(dtype: str, dims: Dims | None, doc: str, lead: tuple[str, ...] = _ROWS) -> str:
    text = f"{dtype} [{', '.join([*lead, *map(str, _rows(dims))])}]"
    return f"{text}: {doc}." if doc else f"{text}."


def _param(param: Parameter) -> Code:
    annotation = kept_annotation(param)
    return using(f"{annotation} | None", *annotation.uses) if param.optional else annotation
