"""A checked transform as pure functions and a thin adapter class."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.model import Checked, Parameter, identifier
from specgen.check.transform_model import CheckedTransform, Output, Phase, Role
from specgen.code import named, using, value_code
from specgen.expr.printer import tuple_text
from specgen.expr.tree import Call, Name
from specgen.literals import literal
from specgen.plan.items import Item
from specgen.plan.model import Argument, CallPlan, Field, RecordPlan, Text
from specgen.plan.per_env import param_annotation
from specgen.plan.short_texts import TORCH_DTYPES
from specgen.plan.transform_around import plan_around
from specgen.plan.transform_docs import transform_doc, transform_init_doc
from specgen.plan.transform_functions import PhaseFunction, phase_functions
from specgen.plan.transform_model import (
    AddedSpecsPlan,
    BindingPlan,
    MapPlan,
    OutputKeys,
    PhaseBlock,
    PhasePlan,
    TransformParamPlan,
    TransformPlan,
)
from specgen.plan.transform_offline import plan_recursion, recursion_functions
from specgen.plan.transform_text import by_condition, dtype_code, key_literal, limits, spec_like


def plan_transform(checked: Checked[CheckedTransform]) -> list[Item]:
    """Plan a transform: the records of its keys, its pure functions, its class."""
    return _Planner(checked.value).run()


class _Planner:
    def __init__(self, transform: CheckedTransform) -> None:
        self.transform = transform
        self.name = transform.name
        self.forward = next(iter(transform.forward), None)
        self.backward = next(iter(transform.backward), None)
        self.functions = {
            phase: phase_functions(transform, phase) for phase in ("reset", "step", "map", "inverse")
        }
        self.recursion = recursion_functions(transform)
        self.sequential = bool(transform.step)
        self.around = plan_around(transform)

    def run(self) -> list[Item]:
        items: list[Item] = []
        if self.forward is not None:
            items.append(self._record(self.forward, "Keys", "What one repetition reads and writes."))
        if self.backward is not None:
            items.append(
                self._record(
                    self.backward, "InverseKeys", "What one repetition of the inverse writes and reads."
                )
            )
        items += [function.plan for functions in self.functions.values() for function in functions]
        items += [] if self.around is None else self.around.functions
        items += [function.plan for function in self.recursion]
        items.append(self._class())
        return items

    # ----------------------------------------------------------------- records

    def _record(self, role: Role, suffix: str, doc: str) -> RecordPlan:
        fields = [Field(role.name, named("NestedKey"), doc=role.doc)]
        fields += [
            Field(output.name, named("NestedKey"), doc=output.doc)
            for output in self.transform.outputs_of(role)
        ]
        return RecordPlan(f"{self.name}{suffix}", (doc,), tuple(fields))

    def _row(self, role: Role) -> str:
        return f"{self.name}{'InverseKeys' if role.inverse else 'Keys'}"

    # ------------------------------------------------------------------- class

    def _class(self) -> TransformPlan:
        transform = self.transform
        return TransformPlan(
            name=self.name,
            doc=transform_doc(transform),
            init_doc=transform_init_doc(transform),
            rows=tuple(
                self._row(role) if role is not None else using("tuple[NestedKey, ...]", "NestedKey")
                for role in (self.forward, *([self.backward] if self.backward is not None else []))
            ),
            reads=self.forward.name if self.forward is not None and not self.forward.structural else None,
            groups=tuple(self._always()),
            sequential=self.sequential,
            invertible=bool(transform.inverse),
            args=tuple(self._argument(name) for name in transform.signature),
            keys=tuple(name for name in transform.signature if name == "done_key" or _names_keys(name)),
            names=tuple(output.keyword for output in transform.outputs if output.keyword is not None),
            params=tuple(self._param(param) for param in transform.params),
            bindings=tuple(self._binding(role) for role in (self.forward, self.backward) if role is not None),
            added_specs=self._added_specs() if self.sequential or self._adds() else None,
            derives_done=self._derives_done() if self.sequential else None,
            reset=self._phase("reset", "tensordict_reset") if self.sequential else None,
            step=self._phase("step", "next_tensordict") if self.sequential else None,
            map=self._map() if transform.map and not self.sequential else None,
            inverse=self._inverse(self.backward) if self.backward is not None and transform.inverse else None,
            recursion=plan_recursion(transform, self.recursion),
            refuses_offline=transform.refuses_offline,
            around=self.around,
        )

    def _adds(self) -> bool:
        """Whether `around` writes entries of its own."""
        return self.around is not None and any(not output.inverse for output in self.transform.outputs)

    def _groups(self) -> Iterator[tuple[str, list[str]]]:
        """What the base class has to know of the fields of a record."""
        outputs = [output for output in self.transform.outputs if not output.inverse]
        folded = [role.name for role in self.transform.folded]
        yield "_writes", [*folded, *(output.name for output in outputs)]
        yield "_recalls", list(self.transform.recalls)
        yield "_carries", [output.name for output in outputs if output.carry]
        yield "_flags", [output.name for output in outputs if output.flag]
        for attribute, fields in () if self.around is None else self.around.groups:
            yield attribute, list(fields)

    def _always(self) -> Iterator[tuple[str, bool, tuple[str, ...]]]:
        """The groups with the fields that always exist, and whether the constructor adds some."""
        for attribute, names in self._groups():
            always = tuple(name for name in names if self._when(name) is None)
            if always:
                yield attribute, len(always) < len(names), always

    def _when(self, name: str) -> str | None:
        return next((output.when for output in self.transform.outputs if output.name == name), None)

    def _param(self, param: Parameter) -> TransformParamPlan:
        added = [
            (attribute, tuple(name for name in names if self._when(name) == param.name))
            for attribute, names in self._groups()
        ]
        return TransformParamPlan(
            param.name,
            param.kind == "tensor",
            param.optional,
            tuple(limits(param)),
            tuple((attribute, names) for attribute, names in added if names),
        )

    def _argument(self, name: str) -> Argument:
        if _names_keys(name):
            role = self.backward if name.endswith("_inv") else self.forward
            if name == "in_keys" and role is not None and role.required:
                return Argument(name, using("Sequence[NestedKey]", "Sequence", "NestedKey"))
            return Argument(name, using("Sequence[NestedKey] | None", "Sequence", "NestedKey"), "None")
        if name == "done_key":
            return Argument(name, using("NestedKey", "NestedKey"), literal("done"))
        for output in self.transform.outputs:
            if output.keyword == name:
                return Argument(name, "str", literal(output.key))
        param = self.transform.param(name)
        annotation = param_annotation(param)
        if param.optional:
            optional = using(f"{annotation} | None", *annotation.uses)
            return Argument(name, optional, value_code(param.default))
        return Argument(name, annotation, None if param.required else value_code(param.default))

    # -------------------------------------------------------------------- keys

    def _binding(self, role: Role) -> BindingPlan:
        suffix = "_inv" if role.inverse else ""
        args: list[Text] = [
            "env",
            "None" if role.structural else f"self._in_keys{suffix}",
            tuple_text(key_literal(entry) for entry in role.default),
            using(
                tuple_text(TORCH_DTYPES[dtype] for dtype in role.dtypes), *(["torch"] if role.dtypes else [])
            ),
            *([named("INPUTS")] if role.inverse else []),
        ]
        outputs = tuple(
            OutputKeys(
                output.name,
                _made_key(output),
                None if output.keyword is not None or role.structural else f"out_keys{suffix}",
            )
            for output in self.transform.outputs_of(role)
        )
        return BindingPlan(suffix, self._row(role), role.name, tuple(args), outputs)

    # ------------------------------------------------------------------- specs

    def _added_specs(self) -> AddedSpecsPlan:
        assert self.forward is not None
        role = self.forward.name
        return AddedSpecsPlan(
            role,
            tuple(
                (condition, tuple((output.name, spec_like(output, role)) for output in outputs))
                for condition, outputs in by_condition(self.transform.outputs_of(self.forward))
            ),
        )

    def _derives_done(self) -> str | None:
        derive = self.transform.derive_done
        if derive is True or not any(output.flag for output in self.transform.outputs):
            return None
        return "False" if derive is False else f"self.{derive} and super()._derives_done()"

    def _map(self) -> MapPlan:
        assert self.forward is not None
        output = next(output for output in self.transform.outputs if not output.inverse)
        spec = spec_like(output, "spec")
        if output.monotone and output.dtype != "bool":
            dtype = (dtype_code(output.dtype),) if output.dtype else ()
            spec = CallPlan("mapped_like", ("spec", "self._apply_transform", *dtype))
        return self._tensor_map(self.functions["map"][0], self.forward.name, spec)

    def _inverse(self, role: Role) -> MapPlan:
        output = next(self.transform.outputs_of(role))
        dtype = dtype_code(output.dtype) if output.dtype else "spec.dtype"
        expr = next(s.expr for s in self.transform.inverse if s.target == role.name)
        cast = isinstance(expr, Call) and len(expr.args) == 1 and isinstance(expr.args[0], Name)
        cast = cast and isinstance(expr, Call) and expr.function.path in TORCH_DTYPES
        made = CallPlan("cast_like", ("spec", dtype))
        spec = made if cast and output.dtype else spec_like(output, "spec")
        return self._tensor_map(self.functions["inverse"][0], output.name, spec)

    def _tensor_map(self, function: PhaseFunction, value: str, spec: CallPlan) -> MapPlan:
        """A map of the tensor `value`: the base class calls it with that only, so it may be called as in the schema."""
        args = tuple(value if read == value else self._param_text(read, value) for read in function.reads)
        return MapPlan(value, CallPlan(function.name, args), spec)

    def _param_text(self, name: str, like: str) -> str:
        param = self.transform.param(name)
        return f"self.{name}.to({like}.dtype)" if param.kind == "tensor" else f"self.{name}"

    # ------------------------------------------------------------------ phases

    def _phase(self, phase: Phase, target: str) -> PhasePlan:
        functions = self.functions[phase]
        written = {write for function in functions for write in function.writes}
        at_hand: set[str] = set()
        blocks = []
        for function in functions:
            fetched: list[tuple[str, str]] = []
            passed: list[str] = []
            for read in function.reads:
                text, named = self._fetch(read, phase, target, written)
                passed.append(identifier(read) if named else text)
                if named and read not in at_hand:
                    fetched.append((identifier(read), text))
                    if function.when is None:
                        at_hand.add(read)
            blocks.append(
                PhaseBlock(
                    function.when,
                    tuple(fetched),
                    tuple(map(identifier, function.writes)),
                    CallPlan(function.name, tuple(passed)),
                    tuple(self._store(write, target) for write in function.writes),
                )
            )
        roles = [role.name for role in self.transform.forward]
        return PhasePlan(
            target,
            tuple(blocks),
            tuple(self._unassigned_flags(target, written)) if phase == "reset" else (),
            tuple(name for name in self.transform.recalls if name in roles),
        )

    def _fetch(self, read: str, phase: str, target: str, written: set[str]) -> tuple[str, bool]:
        """How the adapter gets an argument, and whether that takes a line and a name of its own."""
        bare = read.removeprefix("next.")
        if any(param.name == read for param in self.transform.params):
            return f"self.{read}", False
        output = next((output for output in self.transform.outputs if output.name == bare), None)
        if phase == "reset":
            if output is None:
                return f"self._require({target}, key.{bare})", True
            return f"self._blank(key.{bare})", False
        if not read.startswith("next."):
            return f"self._recall(tensordict, key.{bare})", True
        if output is None:
            return f"self._require({target}, key.{bare})", True
        if output.flag:
            return f"self._flag({target}, key.{bare})", True
        if read in written:
            return identifier(read), False  # another function of the phase has just computed it
        return f"self._require({target}, key.{bare})", True

    def _store(self, write: str, target: str) -> str:
        output = self.transform.output(write.removeprefix("next."))
        value = identifier(write)
        if output.name in self.transform.recalls:
            return f"self._keep({target}, key.{output.name}, {value})"
        return f"self._write({target}, key.{output.name}, {value})"

    def _unassigned_flags(self, target: str, assigned: set[str]) -> Iterator[tuple[str | None, str]]:
        for output in self.transform.outputs:
            if output.flag and output.name not in assigned:
                value = f"self._flag({target}, key.{output.name})"
                yield output.when, f"self._write({target}, key.{output.name}, {value})"


def _made_key(output: Output) -> CallPlan | None:
    """What makes the key of an output from that of its input; None where it is the same."""
    if output.keyword is not None:
        make = "rename_leaf" if "{}" in output.key else "sibling"
        return CallPlan(make, ("key", f"self.{output.keyword}"))
    return None if output.same else CallPlan("rename_leaf", ("key", literal(output.key)))


def _names_keys(name: str) -> bool:
    """Whether an argument of the constructor is of the base class: the keys that a transform works on."""
    return name in ("in_keys", "out_keys", "in_keys_inv", "out_keys_inv")
