"""The roles of a transform: which keys they stand for, and of what type these are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from specgen.check.attributes import TRANSFORM_ATTRIBUTES
from specgen.check.conditions import ALWAYS, Condition, read_condition
from specgen.check.model import Parameter
from specgen.check.names import Names, refused
from specgen.check.params import words_of
from specgen.check.transforms.entries import Role, RoleForm
from specgen.check.transforms.model import driver_of
from specgen.check.transforms.names import transform_key_refusal
from specgen.diagnostics import Sink, Span, suggestion
from specgen.diagnostics.rules import schema as rules
from specgen.diagnostics.rules import transform_language as language_rules
from specgen.diagnostics.rules import transforms as transform_rules
from specgen.diagnostics.rules import transforms_policy as policy_rules
from specgen.expr import CONCRETE, SpecType, parse_type
from specgen.expr.sizes import ANY_DIMS
from specgen.schema.fields import Param
from specgen.schema.load import SchemaFile
from specgen.schema.transform import InKey, Transform
from specgen.schema.transform_offline import Recursion
from specgen.values import dataclass, replace

GROUPS = ("env.observation", "env.reward", "env.done", "env.flags", "env.action", "env.state")
_INPUT_GROUPS = ("env.action", "env.state")
_FORMS: tuple[RoleForm, ...] = ("each", "key", "all", "flag")
_OF: Mapping[str, tuple[RoleForm, ...]] = {
    "with_": ("each",),
    "beside": ("key",),
    "keyword": ("key", "all"),
    "but": ("all",),
    "varargs": ("all",),
    "sorted": ("all",),
    "of": ("flag",),
    "optional": ("each", "key"),
    "dtype": ("each",),
    "recorded": ("each",),
    "written_by": ("each", "key"),
}
"""Fields that only some forms of a role have."""

PATTERNS = {
    "float": ("float32", "float64"),
    "number": tuple(dtype for dtype in CONCRETE if dtype != "bool"),
    "any": tuple(CONCRETE),
}
"""The dtypes that a pattern admits."""


def claim_keyword(keyword: str, span: Span, names: Names, sink: Sink) -> bool:
    """Take a name for a keyword of the constructor."""
    if keyword in TRANSFORM_ATTRIBUTES:
        sink.add(refused(keyword, "every transform has it", "keyword", span))
        return False
    return names.claim(keyword, "keyword", span)


def check_roles(
    file: SchemaFile,
    path: tuple[str, ...],
    transform: Transform,
    params: tuple[Parameter, ...],
    names: Names,
    sink: Sink,
) -> tuple[Role, ...]:
    """Check `in` of the transform at `path`, which has these parameters."""
    checker = _Roles(file, path, transform, params, names, sink)
    found = tuple(filter(None, (checker.role(name, role) for name, role in transform.in_.items())))
    checker.check_drivers(found)
    return tuple(checker.linked(role, found) for role in found)


def read_elsewhere(roles: Iterable[Role], *, step: bool) -> dict[str, str]:
    """The names of flags and actions that a phase can't read, with what to say of each; `step`: whether it is a step."""
    flags = [role for role in roles if role.form == "flag"]
    help = "a done flag is what a step returned: it is read under `step`, as `next.{}`"
    found = {role.name: help.format(role.name) for role in flags}
    if not step:
        found |= {f"next.{name}": text for name, text in found.items()}
    for role in roles:
        if role.acted:
            help = f"the policy writes it before the step: it is read under `step`, as `{role.name}`"
            found |= {f"next.{role.name}": help} if step else {role.name: help, f"next.{role.name}": help}
    return found


@dataclass
class _Roles:
    file: SchemaFile
    path: tuple[str, ...]
    transform: Transform
    params: tuple[Parameter, ...]
    names: Names
    sink: Sink

    def role(self, name: str, role: InKey) -> Role | None:
        """One role; None after reporting what is wrong with it."""
        here = (*self.path, "in", name)
        if not self.names.claim(name, "role", self.file.key_span(*here)):
            return None
        given = [form for form in _FORMS if getattr(role, form) is not None]
        if len(given) != 1:
            self.sink.add(
                rules.MISSING_FIELD.at(
                    self.file.key_span(*here),
                    f"role `{name}` needs exactly one of `each`, `key`, `all` and `flag`",
                )
            )
            return None
        form = given[0]
        default = self._default(here, role, form)
        spec = self._pattern(here, role)
        if default is None or spec is None or not self._fields_fit(here, role, form):
            return None
        if role.keyword is not None and not self._claims(here, role):
            return None
        dtypes = PATTERNS.get(spec.dtype, (spec.dtype,))
        made = Role(name, default, spec.dtype, dtypes, spec.dims, role.inverse, role.doc, form)
        return replace(
            made,
            paired=role.with_,
            beside=role.beside or role.of,
            keyword=self._keyword(name, role, form),
            but=role.but,
            varargs=role.varargs,
            sorted=self._sorted(here, role),
            optional=role.optional,
            recorded=role.recorded,
            acted=role.written_by is not None,
            spec=spec,
            dtype=role.dtype,
        )

    def _claims(self, here: tuple[str, ...], role: InKey) -> bool:
        """Whether the keyword of a role is free; that of an inverse `all` may be a list of keys of every transform."""
        span = self.file.span(*here, "keyword")
        if role.all is not None and role.inverse and role.keyword in ("in_keys_inv", "out_keys_inv"):
            return self.names.claim(role.keyword, "keyword", span)
        return claim_keyword(role.keyword or "", span, self.names, self.sink)

    def _sorted(self, here: tuple[str, ...], role: InKey) -> Condition | None:
        """When the keys of a role are put into the order of their names."""
        if role.sorted is None:
            return None
        text = self.file.scalar(*here, "sorted")
        return ALWAYS if text.text == "true" else read_condition(text, self.params, self.sink)

    def _keyword(self, name: str, role: InKey, form: RoleForm) -> str | None:
        if form == "key":
            return role.keyword or f"{name}_key"
        return f"{name}_keys" if role.with_ is not None else role.keyword

    def _fields_fit(self, here: tuple[str, ...], role: InKey, form: RoleForm) -> bool:
        for field, forms in _OF.items():
            if getattr(role, field) and form not in forms:
                name = field.rstrip("_")
                self.sink.add(
                    rules.UNKNOWN_FIELD.at(
                        self.file.key_span(*here, name),
                        f"`{name}` goes with {' and '.join(f'`{one}:`' for one in forms)}, not with `{form}:`",
                    )
                )
                return False
        if form == "all" and role.keyword is not None and not role.inverse:
            self.sink.add(
                rules.UNKNOWN_FIELD.at(
                    self.file.key_span(*here, "keyword"),
                    f"the keys of `{here[-1]}` are passed as `in_keys`: `keyword` goes with `key:`, and with an inverse `all:`",
                )
            )
            return False
        if role.dtype is not None and not self._says_a_dtype(here, role.dtype):
            return False
        if role.recorded and (why := self._not_of_data(role)):
            message = f"`{here[-1]}` stands for keys of recorded data, but {why}"
            self.sink.add(
                language_rules.NOT_OF_RECORDED_DATA.at(self.file.key_span(*here, "recorded"), message)
            )
            return False
        if role.written_by is not None and (why := self._not_acted(here[-1], role)):
            message = f"`{here[-1]}` is what the policy wrote, but {why}"
            span = self.file.key_span(*here, "written_by")
            self.sink.add(policy_rules.ACTION_READ_ELSEWHERE.at(span, message))
            return False
        if form == "flag" and role.of is None:
            self.sink.add(
                rules.MISSING_FIELD.at(self.file.key_span(*here), f"role `{here[-1]}` needs `of:` and a role")
            )
            return False
        if form == "flag" and "type" in role.model_fields_set:
            message = f"`{here[-1]}` is a truth value of the dimensions of `{role.of}`"
            span = self.file.key_span(*here, "type")
            self.sink.add(rules.UNKNOWN_FIELD.at(span, message, help="leave `type` out"))
            return False
        if form == "flag" and not self.transform.step:
            span = self.file.key_span(*here)
            message = f"`{here[-1]}` is a done flag, which is read under `step`, and there is none"
            self.sink.add(transform_rules.NO_VALUE.at(span, message))
            return False
        return True

    def _not_of_data(self, role: InKey) -> str | None:
        """Why a role can't be one of recorded data only."""
        one = self.transform
        if one.offline is False:
            return "the transform refuses such data"
        if role.inverse:
            return "it is what the environment is given"
        if role.each:
            return "it has some of its own; write `each: []`"
        if (
            one.reset
            or one.step
            or one.around is not None
            or one.update
            or isinstance(one.offline, Recursion)
        ):
            return "the transform does more than to map them"
        if not one.map and one.python is None:
            return "there is no `map` that reads it"
        return None

    def _not_acted(self, name: str, role: InKey) -> str | None:
        """Why a role can't be an action that a step reads."""
        one = self.transform
        if role.inverse:
            return "it is what the environment is given, too: a second role reads the action"
        if role.optional or role.recorded or role.beside is not None:
            return "an action is always there, under a key of its own: leave `optional`, `recorded` and `beside` out"
        if name in one.drops or name in one.drops_inverse or name in one.masks:
            return "it is dropped, or has a mask: that is said of a role with `inverse: true`"
        if one.python is not None or not one.step:
            return "no statement under `step` reads it"
        return None

    def _says_a_dtype(self, here: tuple[str, ...], name: str) -> bool:
        """Whether a parameter is a static choice of dtypes; reported otherwise."""
        found = {
            name: words_of(param)
            for name, param in self.transform.params.items()
            if isinstance(param, Param) and param.static and not param.optional
        }
        fitting = [name for name, words in found.items() if words and all(word in CONCRETE for word in words)]
        if name not in fitting:
            message = f"`dtype: {name}` names no parameter that is a static choice of dtypes"
            help = suggestion(name, fitting) or "declare it: `type: enum(float32, float64), static: true`"
            self.sink.add(
                transform_rules.WRONG_CONDITION.at(self.file.span(*here, "dtype"), message, help=help)
            )
        return name in fitting

    def _default(self, here: tuple[str, ...], role: InKey, form: RoleForm) -> tuple[str, ...] | None:
        """The keys and groups that a role stands for where nobody chooses others."""
        written = getattr(role, form)
        entries = (written,) if isinstance(written, str) else tuple(written)
        for index, entry in enumerate(entries):
            place: tuple[str | int, ...] = (
                (*here, form, index) if isinstance(written, list) else (*here, form)
            )
            if not self._selector(entry, role, form, place):
                return None
        return entries

    def _selector(self, entry: str, role: InKey, form: RoleForm, place: tuple[str | int, ...]) -> bool:
        if not entry.startswith("env."):
            if wrong := next(
                (reason for part in entry.split(".") if (reason := transform_key_refusal(part))), None
            ):
                self.sink.add(
                    rules.NAME_REFUSED.at(self.file.span(*place), f"`{entry}` can't be a key: {wrong}")
                )
            return wrong is None
        given = role.inverse or role.written_by is not None
        allowed = [group for group in GROUPS if (group in _INPUT_GROUPS) == given] if form != "key" else []
        if role.written_by is not None:
            allowed = [group for group in allowed if group == "env.action"]
        if form != "all" and "env.flags" in allowed:
            allowed.remove("env.flags")
        if entry in allowed:
            return True
        side = "is given" if given else "returns"
        message = f"`{entry}` is no group of what the environment {side}"
        help = suggestion(entry, allowed) or f"the groups here are {', '.join(allowed)}"
        if form == "key":
            message, help = f"`{entry}` is a group, and `key:` is one key", "write `each:`, or name one key"
        self.sink.add(transform_rules.UNKNOWN_GROUP.at(self.file.span(*place), message, help=help))
        return False

    def _pattern(self, here: tuple[str, ...], role: InKey) -> SpecType | None:
        if "type" not in role.model_fields_set:
            return SpecType("pattern", "bool" if role.flag else "any", ANY_DIMS)
        return parse_type(self.file.scalar(*here, "type"), self.sink)

    # ----------------------------------------------------------------- between roles

    def check_drivers(self, roles: tuple[Role, ...]) -> None:
        """Report a second role of one direction that everything would be repeated for."""
        for role in roles:
            driver = driver_of(roles, inverse=role.inverse)
            if role.form != "each" or role is driver or role.paired is not None:
                continue
            assert driver is not None
            self.sink.add(
                language_rules.TWO_DRIVERS.at(
                    self.file.key_span(*self.path, "in", role.name),
                    f"`{driver.name}` and `{role.name}` both stand for one key after another",
                    help=f"write `with: {driver.name}` if they go together, or `all:` to read its keys at once",
                )
            )

    def linked(self, role: Role, roles: tuple[Role, ...]) -> Role:
        """The role, once those that it names are known to be there."""
        fitting = {
            "with": [one.name for one in roles if one.form == "each" and one.inverse is role.inverse],
            "beside": [one.name for one in roles if one.form in ("each", "key") and one is not role],
            "of": [one.name for one in roles if one.form in ("each", "key") and not one.inverse],
            "but": [one.name for one in roles if one is not role],
            "type": [one.name for one in roles if one is not role and one.shaped_as is None],
        }
        named = {"with": role.paired, "but": role.but, "of" if role.form == "flag" else "beside": role.beside}
        named["type"] = role.shaped_as
        for field, name in named.items():
            if name is None or name in fitting[field]:
                continue
            if name in self.transform.in_ and not any(one.name == name for one in roles):
                continue  # what is wrong with that role has been said
            self.sink.add(
                rules.UNKNOWN_DECLARATION.at(
                    self.file.span(*self.path, "in", role.name, field),
                    f"no role `{name}` that `{role.name}` could go with",
                    help=suggestion(name, fitting[field])
                    or f"the roles are {', '.join(fitting[field]) or 'none'}",
                )
            )
        return role
