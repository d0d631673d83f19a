"""The roles and outputs of a transform: which keys they stand for, of what type, under which name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from specgen.check.attributes import TRANSFORM_ATTRIBUTES
from specgen.check.model import Parameter
from specgen.check.names import Names, refused
from specgen.check.transform_model import Output, Role
from specgen.check.transform_names import TAKEN_VARIABLES, transform_key_refusal
from specgen.diagnostics import Sink, Span, suggestion
from specgen.diagnostics.rules import schema as rules
from specgen.diagnostics.rules import transforms as transform_rules
from specgen.expr import CONCRETE, SpecType, parse_type
from specgen.expr.sizes import ANY_DIMS
from specgen.expr.spec_types import flatten
from specgen.program.program import ENDING_FLAGS
from specgen.schema.load import SchemaFile
from specgen.schema.transform import InKey, OutKey, Transform

GROUPS = ("env.observation", "env.reward", "env.done", "env.action", "env.state")
_INPUT_GROUPS = ("env.action", "env.state")
_PATTERNS = {
    "float": ("float32", "float64"),
    "number": tuple(dtype for dtype in CONCRETE if dtype != "bool"),
    "any": tuple(CONCRETE),
}


def check_keys(
    file: SchemaFile,
    path: tuple[str, ...],
    transform: Transform,
    params: Iterable[Parameter],
    names: Names,
    sink: Sink,
) -> tuple[tuple[Role, ...], tuple[Output, ...]]:
    """Check `in` and `out` of the transform at `path`."""
    checker = _Keys(file, path, transform, names, sink)
    roles = tuple(filter(None, (checker.role(name, role) for name, role in transform.in_.items())))
    checker.one_role_each_way(roles)
    by_name = {role.name: role for role in roles}
    known = {param.name: param for param in params}
    outputs = (checker.output(name, out, by_name, known) for name, out in transform.out.items())
    return roles, tuple(filter(None, outputs))


@dataclass
class _Keys:
    file: SchemaFile
    path: tuple[str, ...]
    transform: Transform
    names: Names
    sink: Sink

    def _claim(self, name: str, what: str, span: Span) -> bool:
        """Take a name for a role or an output; it becomes a variable of the generated methods."""
        if name in TAKEN_VARIABLES:
            self.sink.add(refused(name, "generated methods use it", what, span))
            return False
        return self.names.claim(name, what, span)

    # ------------------------------------------------------------------ roles

    def role(self, name: str, role: InKey) -> Role | None:
        here = (*self.path, "in", name)
        if not self._claim(name, "role", self.file.key_span(*here)):
            return None
        given = [field for field in ("each", "key", "all") if getattr(role, field) is not None]
        if len(given) != 1:
            self.sink.add(
                rules.MISSING_FIELD.at(
                    self.file.key_span(*here), f"role `{name}` needs exactly one of `each`, `key` and `all`"
                )
            )
            return None
        if role.each is None:
            self.sink.add(
                rules.NOT_AVAILABLE.at(
                    self.file.key_span(*here, given[0]),
                    f"`{given[0]}:` is not available yet",
                    help="use `each:` with one key",
                )
            )
            return None
        default = (role.each,) if isinstance(role.each, str) else tuple(role.each)
        for index, entry in enumerate(default):
            place: tuple[str | int, ...] = (
                (*here, "each", index) if isinstance(role.each, list) else (*here, "each")
            )
            if not self._selector(entry, role.inverse, place):
                return None
        spec = self._pattern(here)
        if spec is None:
            return None
        dtypes = _PATTERNS.get(spec.dtype, (spec.dtype,))
        return Role(name, default, spec.dtype, dtypes, spec.shape, role.inverse, role.doc)

    def _selector(self, entry: str, inverse: bool, place: tuple[str | int, ...]) -> bool:
        if not entry.startswith("env."):
            if wrong := next(
                (reason for part in entry.split(".") if (reason := transform_key_refusal(part))), None
            ):
                self.sink.add(
                    rules.NAME_REFUSED.at(self.file.span(*place), f"`{entry}` can't be a key: {wrong}")
                )
            return wrong is None
        allowed = [group for group in GROUPS if (group in _INPUT_GROUPS) == inverse]
        if entry in allowed:
            return True
        side = "is given" if inverse else "returns"
        self.sink.add(
            transform_rules.UNKNOWN_GROUP.at(
                self.file.span(*place),
                f"`{entry}` is no group of what the environment {side}",
                help=suggestion(entry, allowed) or f"the groups here are {', '.join(allowed)}",
            )
        )
        return False

    def _pattern(self, here: tuple[str, ...]) -> SpecType | None:
        if "type" not in self.transform.in_[here[-1]].model_fields_set:
            return SpecType("pattern", "any", ANY_DIMS)
        return parse_type(self.file.scalar(*here, "type"), self.sink)

    def one_role_each_way(self, roles: Iterable[Role]) -> None:
        for inverse in (False, True):
            several = [role for role in roles if role.inverse == inverse]
            for role in several[1:]:
                self.sink.add(
                    rules.NOT_AVAILABLE.at(
                        self.file.key_span(*self.path, "in", role.name),
                        f"a second {'inverse ' if inverse else ''}role (`{role.name}` beside `{several[0].name}`) "
                        "is not available yet",
                        help="declare another transform and put both into the chain",
                    )
                )

    # ---------------------------------------------------------------- outputs

    def output(
        self, name: str, out: OutKey, roles: Mapping[str, Role], params: Mapping[str, Parameter]
    ) -> Output | None:
        here = (*self.path, "out", name)
        if not self._claim(name, "output", self.file.key_span(*here)):
            return None
        if not self._key_pattern(here, out):
            return None
        if out.each in self.transform.in_ and out.each not in roles:
            return None  # what is wrong with the role has been said
        if out.each not in roles:
            self.sink.add(
                rules.UNKNOWN_DECLARATION.at(
                    self.file.span(*here, "each"),
                    f"no role `{out.each}`",
                    help=suggestion(out.each, roles) or f"the roles are {', '.join(roles) or 'none'}",
                )
            )
            return None
        if out.scale:
            self.sink.add(
                rules.NOT_AVAILABLE.at(self.file.key_span(*here, "scale"), "`scale` is not available yet")
            )
            return None
        role = roles[out.each]
        when = self._when(here, out, params)
        dtype, like, interval = self._output_dtype(here, out, role)
        return Output(
            name=name,
            each=out.each,
            key="{}" if out.name == "same" else out.name,
            like=like,
            dtype=dtype,
            interval=interval,
            keyword=out.keyword,
            when=when,
            carry=name in self.transform.carry,
            flag=name in ENDING_FLAGS,
            inverse=role.inverse,
            doc=out.doc,
        )

    def _key_pattern(self, here: tuple[str, ...], out: OutKey) -> bool:
        if wrong := transform_key_refusal(out.name.replace("{}", "x")):
            self.sink.add(
                rules.NAME_REFUSED.at(
                    self.file.span(*here, "name"),
                    f"`{out.name}` can't be the name of a key: {wrong}",
                    help="write a name, `same`, or a name with `{}` for the last part of the input's key",
                )
            )
            return False
        if out.keyword is None:
            return True
        if out.keyword in TRANSFORM_ATTRIBUTES:
            span = self.file.span(*here, "keyword")
            self.sink.add(refused(out.keyword, "every transform has it", "keyword", span))
            return False
        return self.names.claim(out.keyword, "keyword", self.file.span(*here, "keyword"))

    def _when(self, here: tuple[str, ...], out: OutKey, params: Mapping[str, Parameter]) -> str | None:
        if out.when is None:
            return None
        found = re.fullmatch(r"\s*given\(\s*(\w+)\s*\)\s*", out.when)
        optional = [param.name for param in params.values() if param.optional]
        if found is None or found[1] not in optional:
            self.sink.add(
                transform_rules.WRONG_CONDITION.at(
                    self.file.span(*here, "when"),
                    f"`{out.when}` is no condition: write `given(…)` of an optional parameter",
                    help=suggestion(found[1], optional) if found else None,
                )
            )
            return None
        return found[1]

    def _output_dtype(
        self, here: tuple[str, ...], out: OutKey, role: Role
    ) -> tuple[str | None, str | None, tuple[float, float] | None]:
        if out.type is None:
            return None, role.name, None
        spec = parse_type(self.file.scalar(*here, "type"), self.sink)
        if spec is None:
            return None, role.name, None
        if spec.like is not None:
            if spec.like != role.name:
                self.sink.add(
                    rules.UNKNOWN_DECLARATION.at(
                        self.file.span(*here, "type"),
                        f"`{here[-1]}` follows `{role.name}`, so it can be like nothing else",
                        help=f"write `like({role.name})`",
                    )
                )
            return None, role.name, None
        if not spec.type().open and spec.shape != role.dims:
            self.sink.add(
                rules.WRONG_TYPE.at(
                    self.file.span(*here, "type"),
                    f"an output has the dimensions of the role that it follows: write `{spec.dtype}[...]`",
                )
            )
        if spec.dtype in _PATTERNS:
            self.sink.add(
                rules.WRONG_TYPE.at(
                    self.file.span(*here, "type"),
                    f"`{spec.dtype}` is no dtype: an output has one, or that of its role",
                    help=f"write `like({role.name})`",
                )
            )
        interval = None
        if spec.low is not None and spec.high is not None:
            interval = (min(flatten(spec.low)), max(flatten(spec.high)))
        return spec.dtype, None, interval
