"""A checked transform as pure functions and a thin adapter class."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.model import Checked, identifier
from specgen.check.transform_model import CheckedTransform, Output, Role
from specgen.expr.printer import tuple_text
from specgen.expr.tree import Call, Name
from specgen.literals import literal
from specgen.plan.model import Argument, ClassPlan, Field, FunctionPlan, Item, Line, RecordPlan
from specgen.plan.transform_docs import transform_doc, transform_init_doc
from specgen.plan.transform_functions import PhaseFunction, phase_functions
from specgen.plan.transform_text import (
    by_condition,
    joined,
    key_literal,
    param_lines,
    spec_like,
    spec_method,
)
from specgen.plan.writer import TORCH_DTYPES

_TENSORDICT = Argument("tensordict", "TensorDictBase")
_RESET = Argument("tensordict_reset", "TensorDictBase")
_NEXT = Argument("next_tensordict", "TensorDictBase")


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
        self.sequential = bool(transform.step)

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
        items.append(self._class())
        return items

    # ----------------------------------------------------------------- records

    def _record(self, role: Role, suffix: str, doc: str) -> RecordPlan:
        fields = [Field(role.name, "NestedKey", doc=role.doc)]
        fields += [
            Field(output.name, "NestedKey", doc=output.doc) for output in self.transform.outputs_of(role)
        ]
        return RecordPlan(f"{self.name}{suffix}", (doc,), tuple(fields))

    def _row(self, role: Role) -> str:
        return f"{self.name}{'InverseKeys' if role.inverse else 'Keys'}"

    # ------------------------------------------------------------------- class

    def _class(self) -> ClassPlan:
        forward = self._row(self.forward) if self.forward is not None else "tuple[NestedKey, ...]"
        base = f"GeneratedTransform[{forward}"
        base += f", {self._row(self.backward)}]" if self.backward is not None else "]"
        methods = [self._init()]
        if self.forward is not None:
            methods.append(self._bind(self.forward))
        if self.backward is not None:
            methods.append(self._bind(self.backward))
        if self.sequential:
            methods += [self._added_specs(), *self._derives_done(), self._reset(), self._step()]
        elif self.transform.map:
            methods += [self._apply(), self._mapped_spec(), _MAP_RESET]
        if self.backward is not None:
            methods += [self._inverse(), self._mapped_spec_inv(self.backward)]
        return ClassPlan(
            self.name, (base,), transform_doc(self.transform), tuple(self._attributes()), tuple(methods)
        )

    def _attributes(self) -> Iterator[str]:
        transform = self.transform
        if self.forward is not None and not self.forward.structural:
            yield f"_reads = {literal((self.forward.name,))}"
        for attribute, names in self._groups():
            always = [name for name in names if self._when(name) is None]
            # `__init__` adds to what is conditional, so its type must be said.
            declared = ": tuple[str, ...]" if len(always) < len(names) else ""
            if always:
                yield f"{attribute}{declared} = {literal(tuple(always))}"
        if self.sequential:
            yield "_sequential = True"
        if self.backward is not None:
            yield "invertible = True"
        for param in transform.params:
            if param.kind == "tensor":
                yield f"{param.name}: Tensor"

    def _groups(self) -> Iterator[tuple[str, list[str]]]:
        """What the base class has to know of the fields of a record."""
        outputs = [output for output in self.transform.outputs if not output.inverse]
        yield "_writes", [output.name for output in outputs]
        yield "_recalls", list(self.transform.recalls)
        yield "_carries", [output.name for output in outputs if output.carry]
        yield "_flags", [output.name for output in outputs if output.flag]

    def _when(self, name: str) -> str | None:
        return next((output.when for output in self.transform.outputs if output.name == name), None)

    def _init(self) -> FunctionPlan:
        transform = self.transform
        args = tuple(self._argument(name) for name in transform.signature)
        keys = [name for name in transform.signature if name.startswith(("in_keys", "out_keys"))]
        lines = [f"super().__init__({', '.join(f'{name}={name}' for name in keys)})"]
        for output in transform.outputs:
            if output.keyword is not None:
                lines.append(
                    f"self.{output.keyword} = leaf_name({output.keyword}, {literal(output.keyword)})"
                )
        for param in transform.params:
            lines += param_lines(param)
        for param in transform.params:
            added = [
                (attribute, [literal(name) for name in names if self._when(name) == param.name])
                for attribute, names in self._groups()
            ]
            if any(names for _, names in added):
                lines.append(f"if {param.name} is not None:")
                lines += [f"    self.{a} = (*self.{a}, {', '.join(names)})" for a, names in added if names]
        doc = transform_init_doc(transform)
        return FunctionPlan("__init__", args, "None", doc, joined(lines), method=True)

    def _argument(self, name: str) -> Argument:
        if name.startswith(("in_keys", "out_keys")):
            role = self.backward if name.endswith("_inv") else self.forward
            if name == "in_keys" and role is not None and role.required:
                return Argument(name, "Sequence[NestedKey]")
            return Argument(name, "Sequence[NestedKey] | None", "None")
        for output in self.transform.outputs:
            if output.keyword == name:
                return Argument(name, "str", literal(output.key))
        param = self.transform.param(name)
        annotation = "ArrayLike" if param.kind == "tensor" else param.kind
        if param.optional:
            return Argument(
                name, f"{annotation} | None", "None" if param.default is None else literal(param.default)
            )
        return Argument(name, annotation, None if param.required else literal(param.default))

    # -------------------------------------------------------------------- keys

    def _bind(self, role: Role) -> FunctionPlan:
        suffix = "_inv" if role.inverse else ""
        given = "None" if role.structural else f"self._in_keys{suffix}"
        dtypes = tuple_text(TORCH_DTYPES[dtype] for dtype in role.dtypes)
        groups = ", INPUTS" if role.inverse else ""
        default = tuple_text(key_literal(entry) for entry in role.default)
        lines = [f"{role.name} = self._select(env, {given}, {default}, {dtypes}{groups})"]
        outputs = list(self.transform.outputs_of(role))
        for output in outputs:
            named = self._default_keys(role, output)
            if output.keyword is None and not role.structural:
                keyword = f"out_keys{suffix}"
                named = f"self._named(self._{keyword}, {named}, {literal(keyword)})"
            lines.append(f"{output.name} = {named}")
        zipped = ", ".join([role.name, *(output.name for output in outputs)])
        if outputs:
            lines.append(f"return [{self._row(role)}(*keys) for keys in zip({zipped}, strict=True)]")
        else:
            lines.append(f"return [{self._row(role)}(key) for key in {role.name}]")
        row = self._row(role)
        return FunctionPlan(
            f"_bind{suffix}",
            (Argument("env", "EnvBase | None"),),
            f"list[{row}]",
            (),
            joined(lines),
            method=True,
        )

    def _default_keys(self, role: Role, output: Output) -> str:
        if output.keyword is not None:
            make = "rename_leaf" if "{}" in output.key else "sibling"
            return f"[{make}(key, self.{output.keyword}) for key in {role.name}]"
        if output.same:
            return role.name
        return f"[rename_leaf(key, {literal(output.key)}) for key in {role.name}]"

    # ------------------------------------------------------------------- specs

    def _added_specs(self) -> FunctionPlan:
        assert self.forward is not None
        role = self.forward.name
        lines = ["specs: dict[NestedKey, TensorSpec] = {}", "for key in self.keys:"]
        lines.append(f"    {role} = self._spec(key.{role})")
        for condition, outputs in by_condition(self.transform.outputs_of(self.forward)):
            indent = "    "
            if condition is not None:
                lines.append(f"    if self.{condition} is not None:")
                indent = "        "
            lines += [f"{indent}specs[key.{o.name}] = {spec_like(o, role)}" for o in outputs]
        lines.append("return specs")
        return FunctionPlan("_added_specs", (), "dict[NestedKey, TensorSpec]", (), joined(lines), method=True)

    def _derives_done(self) -> list[FunctionPlan]:
        derive = self.transform.derive_done
        if derive is True or not any(output.flag for output in self.transform.outputs):
            return []
        text = "False" if derive is False else f"self.{derive} and super()._derives_done()"
        return [FunctionPlan("_derives_done", (), "bool", (), (Line(f"return {text}"),), method=True)]

    def _mapped_spec(self) -> FunctionPlan:
        output = next(output for output in self.transform.outputs if not output.inverse)
        dtype = f", {TORCH_DTYPES[output.dtype]}" if output.dtype else ""
        if output.dtype == "bool":
            text = "flag_like(spec)"
        elif output.monotone:
            text = f"mapped_like(spec, self._apply_transform{dtype})"
        else:
            text = spec_like(output, "spec")
        return spec_method("_mapped_spec", text)

    def _mapped_spec_inv(self, role: Role) -> FunctionPlan:
        output = next(self.transform.outputs_of(role))
        dtype = TORCH_DTYPES[output.dtype] if output.dtype else "spec.dtype"
        expr = next(s.expr for s in self.transform.inverse if s.target == role.name)
        cast = isinstance(expr, Call) and len(expr.args) == 1 and isinstance(expr.args[0], Name)
        cast = cast and isinstance(expr, Call) and expr.function.path in TORCH_DTYPES
        text = f"cast_like(spec, {dtype})" if cast and output.dtype else spec_like(output, "spec")
        return spec_method("_mapped_spec_inv", text)

    # ----------------------------------------------------------------- moments

    def _apply(self) -> FunctionPlan:
        assert self.forward is not None
        return self._tensor_method("_apply_transform", self.functions["map"][0], self.forward.name)

    def _inverse(self) -> FunctionPlan:
        assert self.backward is not None
        output = next(self.transform.outputs_of(self.backward))
        return self._tensor_method("_inv_apply_transform", self.functions["inverse"][0], output.name)

    def _tensor_method(self, name: str, function: PhaseFunction, value: str) -> FunctionPlan:
        args = ", ".join(value if read == value else self._param(read, value) for read in function.reads)
        # The base class calls it with the tensor only, so the argument may have the name of the schema.
        return FunctionPlan(
            name,
            (Argument(value, "Tensor"),),
            "Tensor",
            (),
            (Line(f"return {function.name}({args})"),),
            method=True,
        )

    def _param(self, name: str, like: str) -> str:
        param = self.transform.param(name)
        return f"self.{name}.to({like}.dtype)" if param.kind == "tensor" else f"self.{name}"

    def _reset(self) -> FunctionPlan:
        body = self._loop("reset", "tensordict_reset")
        return FunctionPlan("_reset", (_TENSORDICT, _RESET), "TensorDictBase", (), joined(body), method=True)

    def _step(self) -> FunctionPlan:
        body = self._loop("step", "next_tensordict")
        return FunctionPlan("_step", (_TENSORDICT, _NEXT), "TensorDictBase", (), joined(body), method=True)

    def _loop(self, phase: str, target: str) -> list[str]:
        lines = ["for key in self.keys:"]
        at_hand: set[str] = set()
        for function in self.functions[phase]:
            indent = "    "
            if function.when is not None:
                lines.append(f"    if self.{function.when} is not None:")
                indent = "        "
            written = {w for f in self.functions[phase] for w in f.writes}
            passed: list[str] = []
            for read in function.reads:
                text = self._fetch(read, phase, target, written)
                if text is None or text.startswith("self._blank("):
                    passed.append(text or self._computed(read))
                    continue
                if read in at_hand:
                    passed.append(identifier(read))
                    continue
                if function.when is None:
                    at_hand.add(read)
                lines.append(f"{indent}{identifier(read)} = {text}")
                passed.append(identifier(read))
            args = ", ".join(passed)
            names = ", ".join(identifier(write) for write in function.writes)
            lines.append(f"{indent}{names} = {function.name}({args})")
            lines += [f"{indent}{self._store(write, target)}" for write in function.writes]
        if phase == "reset":
            lines += [f"    {line}" for line in self._unassigned_flags(target)]
        role_names = [role.name for role in self.transform.forward]
        lines += [
            f"    self._stash({target}, key.{name})" for name in self.transform.recalls if name in role_names
        ]
        return [*lines, f"return {target}"]

    def _fetch(self, read: str, phase: str, target: str, written: set[str]) -> str | None:
        """How the adapter gets an argument; ``None`` for a parameter or what was just computed."""
        bare = read.removeprefix("next.")
        if any(param.name == bare for param in self.transform.params):
            return None
        output = next((output for output in self.transform.outputs if output.name == bare), None)
        if phase == "reset":
            return f"self._require({target}, key.{bare})" if output is None else f"self._blank(key.{bare})"
        if not read.startswith("next."):
            return f"self._recall(tensordict, key.{bare})"
        if output is None:
            return f"self._require({target}, key.{bare})"
        if output.flag:
            return f"self._flag({target}, key.{bare})"
        return None if read in written else f"self._require({target}, key.{bare})"

    def _computed(self, read: str) -> str:
        """A parameter, or what another function of the phase has just computed."""
        return (
            f"self.{read}" if any(param.name == read for param in self.transform.params) else identifier(read)
        )

    def _store(self, write: str, target: str) -> str:
        output = self.transform.output(write.removeprefix("next."))
        value = identifier(write)
        if output.name in self.transform.recalls:
            return f"self._keep({target}, key.{output.name}, {value})"
        return f"self._write({target}, key.{output.name}, {value})"

    def _unassigned_flags(self, target: str) -> Iterator[str]:
        assigned = {write for function in self.functions["reset"] for write in function.writes}
        for output in self.transform.outputs:
            if output.flag and output.name not in assigned:
                value = f"self._flag({target}, key.{output.name})"
                text = f"self._write({target}, key.{output.name}, {value})"
                if output.when is not None:
                    yield f"if self.{output.when} is not None:"
                    yield f"    {text}"
                else:
                    yield text


_MAP_RESET = FunctionPlan(
    "_reset",
    (_TENSORDICT, _RESET),
    "TensorDictBase",
    (),
    (Line("return self._map(tensordict_reset, tolerant=True)"),),
    method=True,
)
