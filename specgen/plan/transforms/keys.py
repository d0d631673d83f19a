"""How the class of a transform finds its keys: a record for each repetition, and the constructor's keywords for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specgen.check.conditions import Condition
from specgen.check.transforms.entries import Output, Role, chosen_by_out_keys
from specgen.check.transforms.model import CheckedTransform, driver_of
from specgen.code import Code, named, using
from specgen.expr.dtypes import is_abstract
from specgen.expr.printer import tuple_text
from specgen.literals import literal
from specgen.plan.model import Argument, Field, RecordPlan
from specgen.plan.short_texts import TORCH_DTYPES
from specgen.plan.transforms.inverse import fitting_keys
from specgen.plan.transforms.model import BindingPlan
from specgen.plan.transforms.text import key_literal, variable
from specgen.precedence import ATOM, OR


class KeyPlanner:
    """The keys of one direction of a transform.

    Attributes:
        inverse: whether it is what the environment is given.
        roles, outputs: what stands in a record of one repetition.
    """

    def __init__(self, transform: CheckedTransform, *, inverse: bool) -> None:
        self.transform = transform
        self.inverse = inverse
        self.suffix = "_inv" if inverse else ""
        # what only has a mask stands beside it
        roles = transform.backward if inverse else (*transform.forward, *transform.passed)
        # The first key of a record tells what is learned for it, and of which repetition it is.
        self.driver = driver_of(roles, inverse=inverse)
        self.roles = tuple(sorted(roles, key=lambda role: (role is not self.driver, role.may_be_missing)))
        self.outputs = transform.written(inverse=inverse)
        # Outputs that share a name exclude each other (SG338): one key is enough for them.
        self._free: dict[_Name, list[Condition | None]] = {}
        for output in self.outputs:
            if chosen_by_out_keys(output, self.transform.roles):
                self._free.setdefault(_name(output), []).append(output.when)

    @property
    def row(self) -> str:
        """The name of the record."""
        return f"{self.transform.name}{'InverseKeys' if self.inverse else 'Keys'}"

    def record(self) -> RecordPlan:
        """The record of one repetition's keys."""
        doc = "writes and reads" if self.inverse else "reads and writes"
        what = f"What one repetition{' of the inverse' if self.inverse else ''} {doc}."
        roles = [Field(role.name, _role_type(role), doc=role.doc) for role in self.roles]
        several = self.transform.stacked
        outputs = [
            Field(output.name, _SEVERAL if output.name in several else _output_type(output), doc=output.doc)
            for output in self.outputs
        ]
        return RecordPlan(self.row, (what,), (*roles, *outputs))

    def binding(self) -> BindingPlan:
        """The method that makes the records."""
        lines: list[tuple[str, Code]] = [
            (variable(role.name), fitting_keys(role, self._role(role))) for role in self._ordered()
        ]
        lines += [(variable(output.name), self._output(output, lines)) for output in self.outputs]
        names = [
            variable(name)
            for name in (*(one.name for one in self.roles), *(one.name for one in self.outputs))
        ]
        return BindingPlan(self.suffix, self.row, tuple(lines), tuple(names))

    def _ordered(self) -> Iterator[Role]:
        """The role for which everything is repeated first, and each behind those that it names."""
        rank = {"each": 0, "all": 1, "key": 2, "flag": 3}
        yield from sorted(
            self.roles, key=lambda role: (role is not self.driver, rank[role.form], role.but is not None)
        )

    def _first(self, lines: list[tuple[str, Code]]) -> str | None:
        return lines[0][0] if lines else None

    def _role(self, role: Role) -> Code:
        lead = self.driver or next((one for one in self._ordered()), role)
        match role.form:
            case "each" if role.inverse and not self.inverse:
                selected = self._select(role, "self._in_keys_inv")  # it only has a mask
                if self.driver is None:
                    return selected
                text = f"self._paired_with({variable(self.driver.name)}, {selected}, 'in_keys_inv')"
                return using(text, *selected.uses)
            case "each" if role is self.driver and role.recorded:
                selected = self._select(role, f"self._in_keys{self.suffix} or []")
                return using(f"[] if env is not None else {selected}", *selected.uses)
            case "each" if role is self.driver and role.optional:
                return self._select(role, f"self._in_keys{self.suffix}", "_select_optional")
            case "each" if role is self.driver:
                return self._select(role, f"self._in_keys{self.suffix}" if role.listed else "None")
            case "each":
                assert role.paired is not None
                if role.optional:
                    return self._if_there(role)
                selected = self._select(role, f"self.{role.keyword}")
                text = f"self._paired_with({variable(role.paired)}, {selected}, {literal(role.keyword)})"
                return using(text, *selected.uses)
            case "all":
                chosen = role.listed or role.varargs
                made = self._select(role, f"self._in_keys{self.suffix}" if chosen else "None")
                if role.but is not None:
                    made = using(f"self._without({made}, {variable(role.but)})", *made.uses)
                if role.sorted is not None:
                    by_name = "" if role.sorted.always else f", {role.sorted.python}"
                    made = using(f"in_order({made}{by_name})", "in_order", *made.uses)
                if self._may_be_without(role):
                    return using(f"self._together({made})", *made.uses)
                return using(
                    f"[{made}]" if role is lead else f"[{made}] * len({variable(lead.name)})", *made.uses
                )
            case "flag":
                assert role.beside is not None
                return Code(f"self._flag_keys(env, {variable(role.beside)}, {literal(role.default[0])})")
            case _ if role.optional:
                return self._if_there(role)
            case _:
                key = f"self.{role.keyword}"
                dtypes = _dtypes(role)
                uses = [*dtypes.uses, *(["INPUTS"] if role.inverse or role.acted else [])]
                if role.beside is not None:
                    keys = f"[sibling(key, {key}) for key in {variable(role.beside)}]"
                    uses.append("sibling")
                else:
                    keys = f"[{key}]" if role is lead else f"[{key}] * len({variable(lead.name)})"
                groups = ", INPUTS" if role.inverse or role.acted else ""
                return using(f"self._checked(env, {keys}, {dtypes}{groups})", *uses)

    def _may_be_without(self, role: Role) -> bool:
        """Whether a role of several keys may have none: its users pass those of the other direction alone."""
        several = role.several_given or self.transform.may_have_inverse_keys_only(role)
        return several and role.required and len(self.roles) == 1

    def _if_there(self, role: Role) -> Code:
        """The keys of a role that may be missing, None where they are."""
        key, dtypes = f"self.{role.keyword}", _dtypes(role)
        lead = variable((self.driver or next(self._ordered())).name)
        uses = [*dtypes.uses]
        if role.form == "each":
            default = f"[{', '.join(map(key_literal, role.default))}]"
            if not role.default:
                default = f"[None] * len({lead})"
            keys = f"self._paired_with({lead}, {key} or {default}, {literal(role.keyword)})"
        elif role.beside is not None:
            name = f"{key} or {literal(role.default[0])}"
            keys = f"[sibling(key, {name}) for key in {variable(role.beside)}]"
            uses.append("sibling")
        else:
            keys = f"[{key} or {key_literal(role.default[0])}]"
            keys += "" if lead == variable(role.name) else f" * len({lead})"
        return using(f"self._if_there(env, {keys}, {dtypes}, named={key} is not None)", *uses)

    def _select(self, role: Role, given: str, method: str = "_select") -> Code:
        """The keys that a role stands for; `given` are those that its user chose."""
        default = tuple_text(key_literal(entry) for entry in role.default) if role.default else "()"
        groups = ", INPUTS" if role.inverse or role.acted else ""
        dtypes = _dtypes(role)
        text = f"self.{method}(env, {given}, {default}, {dtypes}{groups})"
        return using(text, *dtypes.uses, *(["INPUTS"] if role.inverse or role.acted else []))

    def _output(self, output: Output, lines: list[tuple[str, Code]]) -> Code:
        """The keys of an output; None where it does not exist for want of an optional key."""
        made = self._output_keys(output, lines)
        asked = () if output.when is None else output.when.of_keys
        own = (output.each, output.name)  # the keys of an output that users may leave out say that themselves
        asked = tuple(atom for atom in asked if not (atom.holds and atom.name in own))
        if not asked:
            return made
        there = " and ".join(f"{atom.name}_key is {'not ' if atom.holds else ''}None" for atom in asked)
        names = ", ".join(f"{atom.name}_key" for atom in asked)
        lists = ", ".join(variable(atom.name) for atom in asked)
        text = f"[key if {there} else None for key, {names} in zip({made}, {lists}, strict=True)]"
        return using(text, *made.uses)

    def _output_keys(self, output: Output, lines: list[tuple[str, Code]]) -> Code:
        """The keys of an output wherever its role has one."""
        if output.each is None:
            key = literal(output.key) if "." not in output.key else literal(tuple(output.key.split(".")))
            text = f"self.{output.keyword}" if output.keyword is not None else key
            text = f"self._hidden(None, {literal(output.name)})" if output.hidden else text
            first = self._first(lines)
            return Code(f"[{text}] * len({first})" if first is not None else f"[{text}]")
        source = variable(output.each)
        if output.name in self.transform.stacked:
            text = f"[[rename_leaf(key, {literal(output.key)}) for key in keys] for keys in {source}]"
            return using(text, "rename_leaf")
        if self.transform.role(output.each).may_be_missing:
            return self._beside_optional(output, source)
        if output.hidden:
            return Code(f"[self._hidden(key, {literal(output.name)}) for key in {source}]")
        if output.keyword is not None and output.same:
            other = "[self.{0}]" if output.whole else "[sibling(key, self.{0}) for key in {1}]"
            text = f"{source} if self.{{0}} is None else {other}".format(output.keyword, source)
            return using(text, *([] if output.whole else ["sibling"]))
        if output.keyword is not None:
            make = "rename_leaf" if "{}" in output.key else "sibling"
            return using(f"[{make}(key, self.{output.keyword}) for key in {source}]", make)
        made = Code(source)
        if not output.same:
            text = f"[rename_leaf(key, {literal(output.key)}) for key in {source}]"
            made = using(text, "rename_leaf")
        if not chosen_by_out_keys(output, self.transform.roles):
            return made
        what = f"out_keys{self.suffix}"
        part = ""
        if len(self._free) > 1:
            names = list(self._free)
            index = names.index(_name(output))
            part = f", ({self._count(names[:index])}, {self._count(names)})"
        text = f"self._named(self._{what}, {made}, {literal(what)}{part})"
        if len(self._free) > 1 and (when := self._exists(_name(output))) is not None:
            text = f"{text} if {when} else {made}"
        return using(text, *made.uses)

    def _beside_optional(self, output: Output, source: str) -> Code:
        """The keys of an output that follows a role which may be missing, None where it is."""
        name = f"self.{output.keyword}" if output.keyword is not None else literal(output.key)
        make = "rename_leaf" if "{}" in output.key else "sibling"
        made = using(f"{make}(key, {name})", make)
        if output.hidden:
            made = Code(f"self._hidden(key, {literal(output.name)})")
        elif output.same:
            other = name if output.whole else f"sibling(key, {name})"
            made = using(f"key if {name} is None else {other}", *([] if output.whole else ["sibling"]))
            if output.keyword is None:
                return Code(source)
        return using(f"[None if key is None else {made} for key in {source}]", *made.uses)

    def _exists(self, name: _Name) -> Code | None:
        """When there is an output of this name; None for always."""
        found: list[Code] = []
        for condition in self._free[name]:
            if condition is None or condition.always:
                return None
            found.append(Code(condition.python, precedence=condition.precedence))
        return (
            found[0] if len(found) == 1 else Code(" or ".join(one.at(ATOM) for one in found), precedence=OR)
        )

    def _count(self, names: Sequence[_Name]) -> str:
        """How many of some names there are outputs of."""
        conditions = [self._exists(name) for name in names]
        sometimes = [one.at(ATOM) for one in conditions if one is not None]
        return " + ".join([str(conditions.count(None)), *sometimes])

    @property
    def of_each(self) -> tuple[str, int | str]:
        """`keys` or `keys_inv`, and how many of outputs users list for each of an input: a number, or code."""
        names, what = list(self._free), f"keys{self.suffix}"
        if len(names) < 2:
            return what, 1
        known = all(self._exists(name) is None for name in names)
        return what, len(names) if known else self._count(names)

    # ------------------------------------------------------------ arguments

    def argument(self, name: str) -> Argument | None:
        """An argument of the constructor that names keys of this direction; None for any other."""
        if name in [role.list_argument for role in self.roles if role.listed]:
            role = next(role for role in self.roles if role.listed)
            if self.transform.needs_keys(role) and not self.transform.may_have_inverse_keys_only(role):
                return Argument(name, _SEQUENCE)
            return Argument(name, _OPTIONAL, "None")
        if name == "in_keys_inv" and any(role.listed and role.inverse for role in self.roles):
            return Argument(name, _OPTIONAL, "None")
        if name == f"out_keys{self.suffix}":
            return Argument(name, _OPTIONAL, "None")
        for role in self.roles:
            if role.keyword == name and role.form == "key":
                if role.optional:
                    kind = named("NestedKey") if role.beside is None else Code("str")
                    return Argument(name, using(f"{kind} | None", *kind.uses), "None")
                if role.beside is not None:
                    return Argument(name, "str", literal(role.default[0]))
                return Argument(name, named("NestedKey"), key_literal(role.default[0]))
            if role.keyword == name:
                if role.required:
                    return Argument(name, _SEQUENCE)
                return Argument(name, _OPTIONAL, "None")
        for output in self.outputs:
            if output.keyword == name:
                if output.left_out or (output.each is None and output.inverse):
                    return Argument(name, _MAYBE, "None")
                if output.each is None:
                    return Argument(name, named("NestedKey"), key_literal(output.key))
                if output.same:
                    kind = named("NestedKey") if output.whole else Code("str")
                    return Argument(name, using(f"{kind} | None", *kind.uses), "None")
                return Argument(name, "str", literal(output.key))
        return None

    def stored(self) -> Iterator[tuple[str, Code]]:
        """The keywords that the class keeps, each with what it keeps."""
        for role in self.roles:
            if (name := role.keyword) is None or role.several_given:
                continue  # the base class has these
            made = using(f"normal_keys({name})", "normal_keys")
            if role.form == "key":
                made = _key(name, leaf=role.beside is not None)
            if role.optional or (role.form != "key" and role.default):
                made = using(f"None if {name} is None else {made}", *made.uses)
            yield name, made
        for keyword, output in {one.keyword: one for one in self.outputs if one.keyword is not None}.items():
            made = _key(keyword, leaf=not output.whole)
            if output.inverse and output.each is None:
                role = next(role for role in self.roles if role.several_given)
                usual = key_literal(output.key)
                if role.required:
                    names = f"{literal(role.list_argument)}, {literal(keyword)}"
                    made = Code(f"self._in_place_of({names}, {keyword}, {usual})")
                else:
                    made = using(f"{usual} if {keyword} is None else {made}", *made.uses)
            elif output.same or output.left_out:
                made = using(f"None if {keyword} is None else {made}", *made.uses)
            yield keyword, made


_Name = tuple[str | None, bool, str]


def _name(output: Output) -> _Name:
    """What an output is called, and beside what."""
    return output.each, output.same, output.key


def _key(name: str, *, leaf: bool) -> Code:
    """The argument `name`, once it is known to be a key, or the last part of one."""
    if leaf:
        return using(f"leaf_name({name}, {literal(name)})", "leaf_name")
    return using(f"normal_key({name})", "normal_key")


def _dtypes(role: Role) -> Code:
    """The dtypes of a role as a tuple."""
    if role.dtype is not None:
        return using(f"(getattr(torch, self.{role.dtype}),)", "torch")
    if is_abstract(role.pattern):
        name = f"{role.pattern.upper()}_DTYPES"
        return using(name, name)
    return using(tuple_text(TORCH_DTYPES[dtype] for dtype in role.dtypes), "torch")


def _role_type(role: Role) -> Code:
    """The type of a role's field in a record of keys."""
    if role.form == "all":
        return _SEVERAL
    return _MAYBE if role.may_be_missing else named("NestedKey")


def _output_type(output: Output) -> Code:
    """The type of an output's field in a record of keys."""
    return _MAYBE if output.when is not None and output.when.of_keys else named("NestedKey")


_SEVERAL = using("list[NestedKey]", "NestedKey")
_MAYBE = using("NestedKey | None", "NestedKey")
_SEQUENCE = using("Sequence[NestedKey]", "Sequence", "NestedKey")
_OPTIONAL = using("Sequence[NestedKey] | None", "Sequence", "NestedKey")
