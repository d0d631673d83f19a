"""What the class of a transform does with what the policy wrote, and the specs of what the policy writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from specgen.check.transforms.entries import Image, Output, Role, by_condition
from specgen.check.transforms.images import image_of
from specgen.check.transforms.inverse import COUNTED, bound_names, classes_name, never_read_with
from specgen.check.transforms.model import CheckedTransform
from specgen.check.transforms.names import NTH
from specgen.check.transforms.per_env import rows_of_their_own
from specgen.check.transforms.several_given import several_given
from specgen.code import Code, using
from specgen.expr.sizes import Rest
from specgen.literals import literal
from specgen.plan.model import CallPlan, Text
from specgen.plan.per_env import param_of_rows
from specgen.plan.transforms.draws import TransformDraw, phase_draws
from specgen.plan.transforms.functions import PhaseFunction, phase_functions, ranked
from specgen.plan.transforms.model import InversePlan, OuterSpecsPlan, TensorMapPlan
from specgen.plan.transforms.text import dtype_code, shape_source, spec_like, variable


def plan_inverse(transform: CheckedTransform, row: Text, params: Mapping[str, str]) -> InversePlan | None:
    """Plan the inverse of a transform; None where it has none.

    Args:
        transform: the transform.
        row: the record of one repetition's keys.
        params: how the class reads each of its parameters.
    """
    if not transform.written(inverse=True):
        return None
    return _Planner(transform, row, params).run()


class _Planner:
    def __init__(self, transform: CheckedTransform, row: Text, params: Mapping[str, str]) -> None:
        self.transform = transform
        self.row = row
        self.params = params
        self.function = next(iter(phase_functions(transform, "inverse")), None)
        self.outer = {one.writes[0]: one for one in phase_functions(transform, "outer")}
        self.roles = {role.name: role for role in transform.backward}
        self.several = several_given(transform.roles)
        self.per_env = rows_of_their_own(transform.params)
        self.networks = frozenset(network.name for network in transform.networks)
        self.outputs = {output.name: output for output in transform.written(inverse=True)}
        self.bounds = {
            argument: (role, place)
            for role in transform.backward
            for place, (_, argument) in enumerate(bound_names(role))
        }
        named = {output.name: classes_name(output) for output in self.outputs.values()}
        self.told: set[str] = set()  # roles whose specs those of outputs are made of
        self.classes = {found[1]: name for name, found in named.items() if found is not None}

    def run(self) -> InversePlan:
        outer = tuple(
            (
                None if condition is None else condition.python,
                tuple((output.name, self._spec(output)) for output in outputs),
            )
            for condition, outputs in by_condition(self.outputs.values())
        )
        told = tuple((variable(name), name) for name in self.roles if name in self.told)
        specs = OuterSpecsPlan(self.row, told, outer)
        functions = tuple(one.plan for one in self.outer.values())
        function = self.function
        if function is None:  # each repetition of a step has an action of its own
            return InversePlan(specs, functions)
        functions += (function.plan,)
        draws = list(phase_draws(self.transform, "inverse", [function], self._named_size))
        alone = self._alone(function, draws)
        if alone is not None:
            return InversePlan(specs, functions, alone)
        several = None if self.several is None else variable(self.several.name)
        at_hand = {draw.name: draw.name for draw in draws}
        at_hand |= {draw.like: variable(draw.like) for draw in draws if draw.like in self.roles}
        fetched, call = self._call(function, at_hand)
        known = {name for names, _ in fetched for name in names}
        likes = [draw.like for draw in draws if draw.like is not None and variable(draw.like) not in known]
        lines = [(", ".join(names), text) for names, text in fetched]
        lines += [(variable(name), self._shape_of(name)) for name in dict.fromkeys(likes)]
        lines += [(draw.name, draw.text) for draw in draws]
        called = bool(self.networks & {*function.reads})
        store = "_give" if called else "_write"
        stores = tuple(
            f"self.{store}(tensordict, {self._key(write)}, {variable(write)})" for write in function.writes
        )
        needed = ", ".join(f"key.{name}" for name in self.outputs)
        if any(output.when is not None for output in self.outputs.values()):
            needed = "*self._fields(self._takes, [key])"
        results = tuple(map(variable, function.writes))
        return InversePlan(
            specs, functions, None, needed, tuple(lines), results, call, stores, called, several
        )

    def _key(self, name: str, *, outer: bool = False) -> str:
        """A key of a record: of a role of several keys the present one, for the spec of what is written the first."""
        if self.several is None or name != self.several.name:
            return f"key.{name}"
        return f"key.{name}[0]" if outer else "each"

    def _shape_of(self, name: str) -> str:
        return f"self._inner(key.{name})" if name in self.roles else self._taken(self.outputs[name])

    def _named_size(self, name: str) -> str:
        if name in self.params:
            return self.params[name]
        role, axis = self.transform.sizes[name]
        return f"self._inner(key.{role.name}).shape[{axis}]"

    def _alone(self, function: PhaseFunction, draws: Sequence[TransformDraw]) -> TensorMapPlan | None:
        """A map of what the policy wrote to what the environment is given, which can be called with any tensor."""
        if len(self.roles) != 1 or len(self.outputs) != 1 or self.several is not None:
            return None
        (output,) = self.outputs.values()
        given = {output.name, *(draw.name for draw in draws)}
        if output.when is not None or not {*function.reads} <= given | self.params.keys():
            return None
        if not self.per_env.isdisjoint(function.reads):
            return None  # values of rows have the batch's shape, which a tensor alone does not tell
        if any(draw.like not in (None, output.name) for draw in draws):
            return None
        value = variable(output.name)
        args = tuple(
            variable(read) if read in given else self._param(read, f"{value}.dtype")
            for read in function.reads
        )
        drawn = tuple((draw.name, draw.text) for draw in draws)
        return TensorMapPlan(value, CallPlan(function.name, args), drawn)

    def _param(self, name: str, dtype: str, given: frozenset[str] = frozenset()) -> Text:
        text = self.params[name]
        param = self.transform.param(name)
        if param.kind != "tensor":
            return text
        absent = param.optional and name not in given
        if absent:
            return using(f"in_dtype({text}, {dtype})", "in_dtype")
        return f"self._cast({literal(name)}, {dtype})"

    def _call(
        self, function: PhaseFunction, given: Mapping[str, str] | None = None, *, outer: bool = False
    ) -> tuple[tuple[tuple[tuple[str, ...], Text], ...], CallPlan]:
        """What is read before a call, each with its names, and the call.

        Args:
            function: what is called.
            given: what is at hand by name.
            outer: whether it computes the type of what the policy writes.
        """
        fetched: dict[tuple[str, ...], Text] = {}
        passed: list[Text] = []
        inner = self._key(next(iter(self.roles)), outer=outer)
        for read in function.reads:
            if given is not None and read in given:
                passed.append(given[read])
            elif read in self.bounds:
                role, _ = self.bounds[read]
                both = tuple(name for name, (other, _) in self.bounds.items() if other is role)
                fetched[both] = f"self._bounds(key.{role.name}{self._unread(role, bounds=True)})"
                passed.append(read)
            elif read in self.classes:
                passed.append(f"self._classes(key, key.{self.classes[read]})")
            elif read in self.transform.sizes:
                role, axis = self.transform.sizes[read]
                passed.append(f"self._inner({self._key(role.name, outer=outer)}).shape[{axis}]")
            elif read == NTH and self.several is not None:
                passed.append(NTH)
            elif (counted := ranked(self.transform, read)) is not None:
                passed.append(f"self._inner_rank({self._key(counted.name, outer=outer)})")
            elif read in self.per_env:
                param = self.transform.param(read)
                passed.append(param_of_rows(param, "tensordict.batch_size", self._like(function, inner)))
            elif read in self.params:
                passed.append(self._param(read, f"self._inner_dtype({inner})", function.given))
            elif read in self.networks:
                passed.append(f"self._networks[{literal(read)}]")
            elif read in self.roles:
                unread = self._unread(self.roles[read], bounds=False)
                passed.append(f"self._inner({self._key(read, outer=outer)}{unread})")
            else:
                fetched[variable(read),] = self._taken(self.outputs[read])
                passed.append(variable(read))
        return tuple(fetched.items()), CallPlan(function.name, tuple(passed))

    def _unread(self, role: Role, *, bounds: bool) -> str:
        """The argument that says whether parameters are given that the inverse reads in place of a role's bounds or shape."""
        found = [never_read_with(one.expr, role.name, bounds) for one in self.transform.inverse]
        reading = [names for names in found if names is not None]
        given = " or ".join(
            f"{self.params[param.name]} is not None"
            for param in self.transform.params
            if param.optional and reading and all(param.name in names for names in reading)
        )
        return f", unread={given}" if given else ""

    def _like(self, function: PhaseFunction, inner: str) -> str:
        """A tensor in whose dtype parameters are read: what the policy wrote, or what the environment is given."""
        read = (self.outputs[name] for name in function.reads if name in self.outputs)
        written = next((variable(one.name) for one in read if one.when is None), None)
        return written or f"self._inner({inner})"

    def _taken(self, output: Output) -> str:
        text = f"outer_tensordict, key.{output.name}"
        if output.when is None:
            return f"self._require({text})"
        return f"self._written_by_policy({text}, {output.when.python})"

    # ------------------------------------------------------------------- specs

    def _follows(self, output: Output) -> bool:
        """Whether the values of an output follow from those of its role."""
        return output.kind is None and output.interval is None and output.dims is None

    def _spec(self, output: Output) -> CallPlan:
        """The call that makes the spec of an output."""
        if self.several is not None:
            return self._joined(output, self.several)
        assert output.each is not None
        role = self.roles[output.each]
        if output.kind is not None:
            return self._choices(output, role)
        if not self._follows(output):
            if shape_source(output) == role.name:
                self.told.add(role.name)
            return spec_like(output, variable(role.name), role, lambda name: self._number(name, role))
        args: list[Text] = [f"key.{role.name}", f"key.{output.name}", literal(self._image(output, role))]
        if (function := self.outer.get(output.name)) is not None:
            given = {role.name: variable(role.name)}
            pairs = {name: self.bounds[name] for name in function.reads if name in self.bounds}
            given |= {name: f"self._bounds(key.{one.name})[{place}]" for name, (one, place) in pairs.items()}
            _, call = self._call(function, given)
            uses = [use for arg in call.args if isinstance(arg, Code) for use in arg.uses]
            passed = self._both_bounds(function, call)
            text = f"lambda {variable(role.name)}: {call.function}({', '.join(passed)})"
            if function.reads[-1] == role.name:
                text = f"partial({', '.join([call.function, *passed[:-1]])})"
                uses.append("partial")
            args.append(using(text, *uses))
        if output.dtype is not None:
            dtype = dtype_code(output.dtype)
            args.append(using(f"dtype={dtype}", *dtype.uses))
        return CallPlan("self._outer_spec", tuple(args))

    def _both_bounds(self, function: PhaseFunction, call: CallPlan) -> list[str]:
        """The arguments of a call; both bounds of a role, one after the other, are one."""
        passed: list[str] = []
        before: tuple[Role, int] | None = None
        for read, arg in zip(function.reads, call.args, strict=True):
            bound = self.bounds.get(read)
            if bound is not None and bound[1] == 1 and before == (bound[0], 0):
                passed[-1] = f"*self._bounds(key.{bound[0].name})"
            else:
                passed.append(str(arg))
            before = bound
        return passed

    def _joined(self, output: Output, role: Role) -> CallPlan:
        """The call that makes the spec of what is written in place of several keys."""
        function, value = self.outer[output.name], variable(role.name)
        _, call = self._call(function, {role.name: value}, outer=True)
        uses = [use for arg in call.args if isinstance(arg, Code) for use in arg.uses]
        args = ", ".join(map(str, call.args))
        made = call.function if function.reads == (role.name,) else f"lambda {value}: {call.function}({args})"
        text = using(made, *uses)
        image = literal(self._image(output, role))
        return CallPlan("self._joined_spec", (f"key.{role.name}", f"key.{output.name}", image, text))

    def _image(self, output: Output, role: Role) -> Image:
        """How the values of an output follow from those of its role, and the role's from the output's."""
        repeated = self.transform.phase("action")
        statements = self.transform.inverse or repeated
        if not statements:  # a class computes it
            return "interval"
        if any(self.per_env & one.reads for one in statements):
            return "interval"
        index = next(i for i, one in enumerate(statements) if one.target == role.name)
        read = {name for one in statements for name in one.reads if name in self.outputs}
        besides = [self.outputs[name].when for name in read - {output.name}]
        when = output.when
        alone = all(when is not None and other is not None and when.excludes(other) for other in besides)
        if output.name not in read or not alone or (len(self.roles) > 1 and self._mixed(role, output)):
            return "interval"
        images = [image_of(statements[index].typed, statements[:index], wraps=False)]
        images += [image_of(one.typed, ()) for one in self.transform.outer if one.target == output.name]
        if "interval" in images or (repeated and "monotone" in images):
            return "interval"
        return "monotone" if "monotone" in images else "structural"

    def _mixed(self, role: Role, output: Output) -> bool:
        """Whether anything else is computed of an output."""
        others = [one for one in self.transform.inverse if one.target != role.name]
        return any(output.name in one.reads for one in others)

    def _choices(self, output: Output, role: Role) -> CallPlan:
        """The call that makes the spec of choices among classes."""
        kind = output.kind
        assert kind is not None
        open_ = any(isinstance(size, Rest) for size in kind.shape)
        named = sum(not isinstance(size, Rest) for size in role.dims)
        drop = str(named) if open_ else f"self._inner_rank(key.{role.name})"
        more = [self._number(size, role) for size in kind.shape if not isinstance(size, Rest)]
        self.told.add(role.name)
        counts = kind.nvec or (kind.n,)
        text = self._number(counts[0], role)
        if len(counts) > 1:
            text = f"({', '.join(self._number(count, role) for count in counts)})"
        args = [variable(role.name), literal(kind.kind), text, f"drop={drop}"]
        if more:
            args.append(f"more=({', '.join(more)},)")
        dtype = dtype_code(kind.dtype)
        return CallPlan("choices_like", (*args, using(f"dtype={dtype}", *dtype.uses)))

    def _number(self, size: object, role: Role) -> str:
        if isinstance(size, int):
            return str(size)
        name = str(size)
        if name in self.params:
            return self.params[name]
        self.told.add(role.name)
        axis = next(place for place, one in enumerate(role.dims) if str(one) == name) - len(role.dims)
        return f"{variable(role.name)}.shape[{axis}]"


def key_groups(transform: CheckedTransform) -> Iterator[tuple[str, list[str]]]:
    """The fields of an inverse record: what the environment is given, and what the policy writes."""
    if transform.backward:
        yield "_gives", [role.name for role in transform.backward]
        yield "_takes", [output.name for output in transform.written(inverse=True)]


def fitting_keys(role: Role, keys: Code) -> Code:
    """The keys of a role, once they are known to be of the kind, or to have the bounds, that its pattern says."""
    if role.spec.kind in COUNTED:
        counts = tuple(count for count in role.spec.nvec or (role.spec.n,) if isinstance(count, int))
        groups = ", INPUTS" if role.inverse or role.acted else ""
        text = f"self._of_kind(env, {keys}, {literal(role.spec.kind)}, {literal(counts)}{groups})"
        return using(text, *keys.uses)
    if not role.inverse or not role.spec.bounded:
        return keys
    return using(f"self._with_bounds(env, {keys})", *keys.uses)
