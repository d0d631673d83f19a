"""A checked transform as pure functions and a thin adapter class."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from specgen.check.model import Checked, Parameter
from specgen.check.transforms.model import PHASES, CheckedTransform, Phase
from specgen.check.transforms.per_env import rows_of_their_own
from specgen.check.transforms.types import joins_only
from specgen.code import named, using, value_code
from specgen.expr.builtins.batch import NEW_ROWS
from specgen.literals import literal
from specgen.plan.items import Item
from specgen.plan.model import Argument, CallPlan, Text
from specgen.plan.per_env import argument_annotation, param_of_rows
from specgen.plan.transforms.around import plan_around
from specgen.plan.transforms.buffers import initial_params, met_params, plan_learning, update_functions
from specgen.plan.transforms.columns import plan_columns
from specgen.plan.transforms.docs import transform_doc, transform_init_doc
from specgen.plan.transforms.draws import draw_lines, phase_draws
from specgen.plan.transforms.fields import always_fields, chosen_names, conditional_fields
from specgen.plan.transforms.functions import (
    PhaseFunction,
    asked_for,
    phase_functions,
    ranked,
    read_by_all,
    read_of,
)
from specgen.plan.transforms.inverse import plan_inverse
from specgen.plan.transforms.keys import KeyPlanner
from specgen.plan.transforms.model import TensorMapPlan, TransformPlan
from specgen.plan.transforms.networks import plan_networks
from specgen.plan.transforms.offline import plan_recursion, recursion_functions
from specgen.plan.transforms.params import plan_param
from specgen.plan.transforms.phases import PhaseBlock, PhasePlan
from specgen.plan.transforms.python import python_class, python_items
from specgen.plan.transforms.specs import plan_added_specs
from specgen.plan.transforms.text import (
    argument_texts,
    base_keys,
    exists,
    follows_code,
    if_there,
    keyless,
    methods_name,
    named_done_key,
    named_reset_keys,
    policy_states,
    rank_text,
    unassigned_flags,
    unless_lacking,
    variable,
)


def plan_transform(checked: Checked[CheckedTransform]) -> list[Item]:
    """Plan a transform: the records of its keys, its pure functions, its class."""
    return _Planner(checked.value).run()


class _Planner:
    def __init__(self, transform: CheckedTransform) -> None:
        self.transform = transform
        self.name = transform.name
        self.forward = KeyPlanner(transform, inverse=False)
        self.backward = KeyPlanner(transform, inverse=True) if transform.backward else None
        phases: list[Phase] = [phase for phase in PHASES if phase != "inverse"]
        self.functions: dict[Phase, list[PhaseFunction]] = {
            phase: phase_functions(transform, phase) for phase in phases
        }
        params = {param.name: f"self.{param.name}" for param in transform.params}
        self.inverse = None if self.backward is None else plan_inverse(transform, self.backward.row, params)
        self.recursion = recursion_functions(transform)
        self.update = update_functions(transform)
        self.initial = initial_params(transform)
        self.networks = frozenset(network.name for network in transform.networks)
        self.buffers = frozenset(buffer.name for buffer in transform.buffers)
        stepped = transform.python is not None and "reset" in transform.python.phases
        self.sequential = bool(transform.step or transform.reset) or stepped
        self.around = plan_around(transform)
        self.roles = {role.name: role for role in transform.roles}
        self.outputs = {output.name: output for output in transform.outputs}
        self.keyless = keyless(transform)

    def run(self) -> list[Item]:
        items: list[Item] = [directed.record() for directed in self._directions()]
        items += [function.plan for functions in self.functions.values() for function in functions]
        items += () if self.inverse is None else self.inverse.functions
        items += (*(self.around.functions if self.around else ()), *(one.plan for one in self.recursion))
        if self.update is not None:
            items += self.update.plans
        items += python_items(self.transform)
        return [*items, self._class()]

    def _directions(self) -> Iterator[KeyPlanner]:
        if self.forward.roles or self.forward.outputs:
            yield self.forward
        if self.backward is not None:
            yield self.backward

    # ------------------------------------------------------------------- class

    def _class(self) -> TransformPlan:
        transform = self.transform
        arguments = tuple(self._argument(name) for name in transform.signature)
        missing = frozenset(one.name for one in transform.params if one.optional)
        empty = using("tuple[NestedKey, ...]", "NestedKey")
        rows: list[Text] = [self.forward.row if self.forward.roles or self.forward.outputs else empty]
        rows += [self.backward.row] if self.backward is not None else []
        tensor_map = self._tensor_map_of()
        general = bool(transform.map) and tensor_map is None
        added = None if transform.recursion is not None else plan_added_specs(transform, self._named_size)
        around = () if self.around is None else self.around.groups
        return TransformPlan(
            name=self.name,
            doc=transform_doc(transform),
            init_doc=transform_init_doc(transform),
            rows=tuple(rows),
            reads=tuple(role.name for role in transform.forward if role.listed or role.varargs),
            groups=tuple(always_fields(transform, around)),
            grown=tuple(conditional_fields(transform, around)),
            follows=follows_code(transform.written(inverse=False)),
            columns=plan_columns(transform),
            meets=(met_params(transform, inverse=False), met_params(transform, inverse=True)),
            recorded=any(role.recorded for role in transform.roles),
            sequential=self.sequential,
            invertible=bool(transform.inverse)
            or (transform.python is not None and "inverse" in transform.python.phases),
            args=tuple(argument_texts(transform, arguments)),
            annotations=arguments,
            keys=tuple(base_keys(transform)),
            names=tuple(pair for directed in self._directions() for pair in directed.stored()),
            params=tuple(
                plan_param(p, initial=p.name in self.initial, missing=missing) for p in transform.params
            ),
            of_each=tuple(directed.of_each for directed in self._directions() if directed.of_each[1] != 1),
            bindings=tuple(directed.binding() for directed in self._directions()),
            chosen_names=tuple(chosen_names(transform)),
            added_specs=added,
            reset_keyword=transform.reset_keyword,
            done_keyword=transform.done_keyword,
            named_done_key=named_done_key(transform.done_keyword),
            inverse_keyword=transform.inverse_keyword,
            backward_param=transform.backward_param,
            named_reset_keys=named_reset_keys(transform.reset_keyword),
            derives_done=self._derives_done() if self.sequential else None,
            reset=self._phase("reset", "tensordict_reset") if self._prints_steps else None,
            step=self._phase("step", "next_tensordict") if self._prints_steps else None,
            tensor_map=tensor_map,
            map=self._map() if general else None,
            inverse=self.inverse,
            recursion=plan_recursion(transform, self.recursion),
            refuses_offline=transform.refuses_offline,
            masks=tuple(transform.masks.items()),
            renamed_inverse=tuple(transform.renamed_inverse.items()),
            learns=plan_learning(transform, self.update),
            around=self.around,
            networks=plan_networks(transform),
            python=python_class(transform),
            methods=None if transform.methods is None else named(methods_name(transform.name)),
        )

    @property
    def _prints_steps(self) -> bool:
        """Whether the class has a reset and a step of its own, as those with a user's class have not."""
        return self.sequential and self.transform.python is None

    def _argument(self, name: str) -> Argument:
        if name == self.transform.inverse_keyword:
            return Argument(name, "bool", "False")
        if name == self.transform.done_keyword:
            return Argument(name, using("NestedKey | None", "NestedKey"), "None")
        if name == "done_key":
            return Argument(name, using("NestedKey", "NestedKey"), literal("done"))
        if name == self.transform.reset_keyword:
            given = using("NestedKey | Sequence[NestedKey] | None", "NestedKey", "Sequence")
            return Argument(name, given, "None")
        for directed in (self.forward, self.backward):
            found = None if directed is None else directed.argument(name)
            if found is not None:
                return found
        if name in self.networks:
            return Argument(name, using("nn.Module", "nn"))
        param = self.transform.param(name)
        annotation = argument_annotation(param)
        if param.optional:
            optional = using(f"{annotation} | None", *annotation.uses)
            return Argument(name, optional, value_code(param.default))
        return Argument(name, annotation, None if param.required else value_code(param.default))

    def _derives_done(self) -> str | None:
        derive = self.transform.derive_done
        if derive is True or not any(output.flag for output in self.transform.outputs):
            return None
        return "False" if derive is False else f"self.{derive} and super()._derives_done()"

    # ------------------------------------------------------------------- maps

    def _tensor_map_of(self) -> TensorMapPlan | None:
        """A map of each key to one output, which the base class can call with any tensor."""
        functions, outputs = self.functions["map"], self.transform.written(inverse=False)
        driver = self.forward.driver
        if self.sequential or self.around or len(functions) != 1 or len(outputs) != 1 or driver is None:
            return None
        known = self.buffers | rows_of_their_own(self.transform.params)
        if any(ranked(self.transform, name) or name in known for name in functions[0].reads):
            return None  # it depends on the key or the rows, not on the tensor alone
        reads = [name for name in functions[0].reads if name in self.roles]
        alone = len(self.forward.roles) == 1 and reads == [driver.name] and driver.listed
        if not alone or outputs[0].each != driver.name or functions[0].when is not None:
            return None
        return self._tensor_map(functions[0], driver.name)

    def _tensor_map(self, function: PhaseFunction, value: str) -> TensorMapPlan:
        """A map of the tensor `value`: the base class calls it with that only, so it may be called as in the schema."""
        args = tuple(
            variable(value)
            if read == value
            else self._size(read, function.reads)
            if read in self.transform.sizes
            else self._param_text(read, variable(value), function)
            for read in function.reads
        )
        return TensorMapPlan(variable(value), CallPlan(function.name, args))

    def _param_text(self, name: str, like: str | None, function: PhaseFunction) -> Text:
        """A parameter or a network, as it is passed: a tensor in the dtype of `like`, if there is such a thing."""
        if name in self.networks:
            return f"self._networks[{literal(name)}]"
        param = self.transform.param(name)
        if param.kind != "tensor" or like is None:
            return f"self.{name}"
        if param.optional and name not in function.given:
            return using(f"in_dtype(self.{name}, {like}.dtype)", "in_dtype")
        return f"self._cast({literal(name)}, {like}.dtype)"

    # ------------------------------------------------------------------ phases

    def _map(self) -> PhasePlan:
        """The map of several tensors, or of those of a transform that steps as well."""
        functions = self.functions["map"]
        target, needed = "tensordict", read_by_all(functions, self.keyless)
        # A repetition may write what a later one reads: then all is read as it was before.
        source = "seen" if self.forward.driver is not None or len(functions) > 1 else target
        return PhasePlan(
            target,
            tuple(self._blocks("map", target, source)),
            end=target,
            source="seen" if source == "seen" else None,
            needed=tuple(name for name in (*self.roles, *self.outputs) if name in needed),
        )

    def _phase(self, phase: Phase, target: str) -> PhasePlan:
        written = {write for function in self.functions[phase] for write in function.writes}
        read = {name for function in self.functions[phase] for name in function.reads}
        end = target
        if self.transform.map:
            tolerant = "tolerant=True" if phase == "reset" else "self._missing_tolerance"
            end = f"self._map({target}, {tolerant})"
        if self.transform.drops:
            end = f"self._dropped({end})"
        if phase == "reset" and any(output.reward for output in self.transform.outputs):
            end = f"self._without_rewards({end})"
        draws = list(phase_draws(self.transform, phase, self.functions[phase], self._named_size))
        drawn = draw_lines(draws, lambda like: self._fetch(like, phase, target, {})[0])
        return PhasePlan(
            target,
            tuple(self._blocks(phase, target, target, [draw.like for draw in draws if draw.like])),
            () if phase == "reset" else tuple(policy_states(self.transform.outputs)),
            tuple(unassigned_flags(self.transform.outputs, target, written)) if phase == "reset" else (),
            tuple(
                name for name in self.transform.recalls if name in self.roles and not self.roles[name].acted
            ),
            end,
            learns=self._rows_learned_of(phase),
            locked=phase == "reset" and not self.buffers.isdisjoint(read),
            drawn=tuple(drawn),
        )

    def _rows_learned_of(self, phase: Phase) -> str | None:
        """The method that says of which rows a phase learns; None where it learns nothing."""
        if self.update is None or not (phase == "reset" or self.transform.learns_of_steps):
            return None
        return "_reset_rows" if phase == "reset" else "_stepped_rows"

    def _blocks(
        self, phase: Phase, target: str, source: str, drawn: Iterable[str] = ()
    ) -> Iterator[PhaseBlock]:
        """The calls of a phase; what `drawn` names has been read for the shape of a draw."""
        functions = self.functions[phase]
        whens = {one.name: self._when(one, phase, source) for one in functions}
        always = {write: whens[one.name] is None for one in functions for write in one.writes}
        at_hand = set(drawn)
        names = {*self.roles, *self.outputs, *self.buffers}
        for function in functions:
            fetched: list[tuple[str, str]] = []
            passed: list[Text] = []
            missing = self.keyless.intersection(self.roles) - function.given
            there = [name for name in function.reads if name.removeprefix("next.") not in missing]
            like = next((name for name in there if name.removeprefix("next.") in self.roles), None)
            if not self.buffers.isdisjoint(function.reads):  # one state of them all
                fetched.append(("held", f"self._held(key.{self._first_key()})"))
            for read in function.reads:
                if read in self.transform.sizes:
                    passed.append(self._size(read, function.reads, missing))
                    continue
                if read == NEW_ROWS:
                    passed.append(f"self._reset_rows(tensordict)(key, {target})")
                    continue
                if (counted := ranked(self.transform, read)) is not None:
                    passed.append(if_there(counted.name, rank_text(self.transform, counted), missing, "0"))
                    continue
                if (param := self._param_of(read)) is not None and param.per_env:
                    passed.append(param_of_rows(param, f"{source}.batch_size", variable(like or "")))
                    continue
                if param is not None or read in self.networks:
                    passed.append(self._param_text(read, like and variable(like), function))
                    continue
                if read.removeprefix("next.") not in names:
                    passed.append(read)  # it has been drawn
                    continue
                text, named = self._fetch(read, phase, source, always)
                passed.append(variable(read) if named else text)
                if named and read not in at_hand:
                    bare = read.removeprefix("next.")
                    fetched.append((variable(read), if_there(bare, text, missing, "None")))
                    if whens[function.name] is None and bare not in missing:
                        at_hand.add(read)
            yield PhaseBlock(
                whens[function.name],
                tuple(fetched),
                tuple(map(variable, function.writes)),
                CallPlan(function.name, tuple(passed)),
                tuple(self._store(write, target) for write in function.writes),
            )

    def _when(self, function: PhaseFunction, phase: Phase, source: str) -> str | None:
        """When a function is called; None for always. That of a map also wants at this moment what not all of them read."""
        maps = self.functions["map"] if phase == "map" else []
        asked = asked_for(function, self.keyless, maps)
        outputs = [name.removeprefix("next.") for name in (*function.writes, *asked)]
        when = exists(function.when, dict.fromkeys(name for name in outputs if name in self.outputs))
        own = read_of(function, maps) - read_by_all(maps, self.keyless) if maps else ()
        return unless_lacking(when, source, [name for name in (*self.roles, *self.outputs) if name in own])

    def _fetch(self, read: str, phase: Phase, source: str, always: Mapping[str, bool]) -> tuple[str, bool]:
        """How the adapter gets an argument, and whether that takes a line and a name of its own."""
        bare = read.removeprefix("next.")
        if read in self.buffers:
            return f"held[{literal(read)}]", False
        output, role = self.outputs.get(bare), self.roles.get(bare)
        if role is not None and role.form == "all" and joins_only(self.transform, role):
            return f"self._vectors({source}, key.{bare})", True
        if role is not None and role.form == "all":
            return f"[self._require({source}, each) for each in key.{bare}]", True
        if role is not None and role.form == "flag":
            return f"self._ended({source}, key.{bare}, key.{role.beside})", True
        if phase == "reset":
            if output is None:
                return f"self._require({source}, key.{bare})", True
            return f"self._blank(key.{bare})", False
        if phase == "step" and not read.startswith("next."):
            recall = "_recall" if output is not None else "_recall_input"
            return f"self.{recall}(tensordict, key.{bare})", True
        if output is not None and output.flag:
            return f"self._flag({source}, key.{bare})", True
        if output is not None and (known := always.get(read)) is not None:
            target = "tensordict" if source == "seen" else source
            return (variable(read), False) if known else (f"self._just_written({target}, key.{bare})", True)
        return f"self._require({source}, key.{bare})", True

    def _size(self, name: str, reads: tuple[str, ...], missing: Collection[str] = ()) -> str:
        """A named size, of the tensor of its role where that is at hand; 0 where that is `missing`."""
        role, axis = self.transform.sizes[name]
        found = next((read for read in reads if read.removeprefix("next.") == role.name), None)
        there = variable(found) if found else f"key.{role.name}"
        size = f"{there}.shape[{axis}]" if found else f"self._spec({there}).shape[{axis}]"
        return f"0 if {there} is None else {size}" if role.name in missing else size

    def _named_size(self, name: str) -> str:
        """What gives a size that has a name, for the shape of a draw."""
        return self._size(name, ()) if name in self.transform.sizes else f"self.{name}"

    def _first_key(self) -> str:
        """A field of which every record has a key."""
        names = [one.name for one in self.forward.roles] + [one.name for one in self.forward.outputs]
        return next(name for name in names if name not in self.keyless)

    def _param_of(self, name: str) -> Parameter | None:
        return next((param for param in self.transform.params if param.name == name), None)

    def _store(self, write: str, target: str) -> str:
        output = self.transform.output(write.removeprefix("next."))
        value = variable(write)
        if output.name in self.transform.recalls and not output.hidden:
            return f"self._keep({target}, key.{output.name}, {value})"
        return f"self._write({target}, key.{output.name}, {value})"
