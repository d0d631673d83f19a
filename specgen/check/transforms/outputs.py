"""The outputs of a transform: under which keys they are written, of what type, and when they exist."""

from __future__ import annotations

from collections.abc import Mapping

from specgen.check.conditions import ALWAYS, Condition, read_condition
from specgen.check.model import Parameter
from specgen.check.names import Names
from specgen.check.transforms.entries import Drop, Output, Role
from specgen.check.transforms.inverse import COUNTED, OuterTypes
from specgen.check.transforms.names import transform_key_refusal
from specgen.check.transforms.roles import PATTERNS, claim_keyword
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import flow as flow_rules
from specgen.diagnostics.rules import schema as rules
from specgen.diagnostics.rules import transform_language as language_rules
from specgen.expr import SpecType, parse_type
from specgen.expr.sizes import ANY_DIMS
from specgen.expr.spec_types import flatten
from specgen.expr.tree import Name
from specgen.program.program import ENDING_FLAGS
from specgen.schema.load import SchemaFile
from specgen.schema.transform import OutKey, Transform
from specgen.schema.transform_offline import Recursion
from specgen.values import dataclass


@dataclass
class Outputs:
    """Checks `out` and `drops` of the transform at `path`.

    Attributes:
        roles: its roles by name.
        params: its parameters by name.
    """

    file: SchemaFile
    path: tuple[str, ...]
    transform: Transform
    roles: Mapping[str, Role]
    params: Mapping[str, Parameter]
    names: Names
    sink: Sink

    def __post_init__(self) -> None:
        self._claimed: set[str] = set()
        self.outer = OuterTypes(self.file, self.path, self.transform, self.roles, self.params, self.sink)

    def check(self) -> tuple[Output, ...]:
        """The outputs, without those that something is wrong with."""
        found = tuple(filter(None, (self._output(name, out) for name, out in self.transform.out.items())))
        self._keys_differ(found)
        return found

    def drops(self, *, inverse: bool = False) -> tuple[Drop, ...]:
        """The roles that are not shown any more, or that are left out on the way to the environment."""
        field = "drops_inverse" if inverse else "drops"
        written = self.transform.drops_inverse if inverse else self.transform.drops
        found: list[Drop] = []
        for index, name in enumerate(written):
            listed = isinstance(written, list)
            span = (
                self.file.span(*self.path, field, index)
                if listed
                else self.file.key_span(*self.path, field, name)
            )
            role = self.roles.get(name)
            if role is None:
                if name not in self.transform.in_:
                    self.sink.add(
                        rules.UNKNOWN_DECLARATION.at(
                            span, f"no role `{name}` to drop", help=suggestion(name, self.roles)
                        )
                    )
                continue
            always = listed or (isinstance(written, dict) and written[name] == "true")
            flags = always and "env.flags" in role.default
            if flags or role.structural or role.form == "flag" or role.inverse:
                what = "what the environment is given" if role.inverse else "a done flag"
                help = f"drop it under a condition, for recorded data only: `{name}: not keep_dones`"
                self.sink.add(
                    language_rules.DROPPED_FLAG.at(
                        span, f"`{name}` is {what}, which can't be dropped", help=help if flags else None
                    )
                )
                continue
            when = None
            if isinstance(written, dict):
                text = self.file.scalar(*self.path, field, name)
                if text.text != "true":
                    when = read_condition(text, self.params.values(), self.sink)
            found.append(Drop(name, when))
        return tuple(found)

    def _output(self, name: str, out: OutKey) -> Output | None:
        here = (*self.path, "out", name)
        if not self.names.claim(name, "output", self.file.key_span(*here)):
            return None
        if (out.each is None) is (out.key is None):
            self.sink.add(
                rules.MISSING_FIELD.at(
                    self.file.key_span(*here), f"output `{name}` needs exactly one of `each` and `key`"
                )
            )
            return None
        if out.hidden and out.written_by == "policy":
            self.sink.add(
                language_rules.HIDDEN_UNREAD.at(
                    self.file.key_span(*here, "hidden"),
                    f"`{name}` is left to the policy, which can't see it",
                    help="leave `hidden` out",
                )
            )
        if out.inverse and out.each is not None:
            self.sink.add(
                rules.UNKNOWN_FIELD.at(
                    self.file.key_span(*here, "inverse"),
                    f"`inverse` goes with `key:`; `{name}` is what the policy writes if `{out.each}` is an inverse role",
                )
            )
            return None
        if not self._key_fits(here, out) or not self._may_be_left_out(here, out):
            return None
        if out.each is not None and out.each not in self.roles:
            if out.each not in self.transform.in_:
                self.sink.add(
                    rules.UNKNOWN_DECLARATION.at(
                        self.file.span(*here, "each"),
                        f"no role `{out.each}`",
                        help=suggestion(out.each, self.roles)
                        or f"the roles are {', '.join(self.roles) or 'none'}",
                    )
                )
            return None
        role = None if out.each is None else self.roles[out.each]
        collected = self.transform.around is not None and name in self.transform.around.collect
        several = role is not None and role.form == "all" and collected
        if role is not None and role.form not in ("each", "key") and not several:
            self.sink.add(
                rules.WRONG_TARGET.at(
                    self.file.span(*here, "each"),
                    f"`{role.name}` stands for several keys at once, so no output can follow each of them",
                    help="write `key:` and the key of the output"
                    + (", and `inverse: true`" if role.several_given else ""),
                )
            )
            return None
        if self._replaces_action(here, out):
            return None
        like, spec = self._type(here, out, role)
        interval = None
        if spec is not None and spec.low is not None and spec.high is not None:
            interval = (min(flatten(spec.low)), max(flatten(spec.high)))
        inverse = out.inverse or (role is not None and role.inverse)
        if like is None and spec is None and isinstance(self.transform.offline, Recursion):
            like = out.each
        if out.type is None and role is not None and inverse:
            self.outer.untyped(name, role)
        if out.inverse and (like is not None or spec is not None or out.type is None):
            self.outer.of_no_expression(name)
            return None
        kind = None
        if spec is not None and spec.kind in COUNTED and role is not None:
            made = self.outer.kind(name, spec, role)
            if made is None:
                return None
            kind, dims = made
            spec = SpecType("pattern", spec.dtype, dims)
        return Output(
            name=name,
            each=out.each,
            key=out.key if out.key is not None else "{}" if out.name == "same" else out.name,
            like=like,
            dtype=None if spec is None else spec.dtype,
            dims=None if spec is None or spec.dims == ANY_DIMS else spec.dims,
            interval=interval,
            keyword=out.keyword,
            when=self._when(here, out, role),
            carry=name in self.transform.carry or out.hidden or out.written_by is not None,
            flag=name in ENDING_FLAGS,
            inverse=inverse,
            reward=out.group == "reward",
            hidden=out.hidden,
            policy=out.written_by == "policy",
            kind=kind,
            whole=role is None or (out.name == "same" and role.form == "key"),
            doc=out.doc,
        )

    def _when(self, here: tuple[str, ...], out: OutKey, role: Role | None) -> Condition | None:
        """When an output exists; one that follows an optional role, where that has a key."""
        when = None
        if out.when is not None:
            inverse = role is not None and role.inverse
            optional = [] if inverse else [one.name for one in self.roles.values() if one.may_be_missing]
            text = self.file.scalar(*here, "when")
            when = read_condition(text, self.params.values(), self.sink, optional)
        if out.optional:
            when = (when or ALWAYS).and_given(here[-1])
        if role is None or not role.may_be_missing:
            return when
        return (when or ALWAYS).and_given(role.name)

    def _key_fits(self, here: tuple[str, ...], out: OutKey) -> bool:
        field, text = ("name", out.name.replace("{}", "x")) if out.key is None else ("key", out.key)
        parts = text.split(".") if out.key is not None else [text]
        if wrong := next((reason for part in parts if (reason := transform_key_refusal(part))), None):
            self.sink.add(
                rules.NAME_REFUSED.at(
                    self.file.span(*here, field),
                    f"`{getattr(out, field)}` can't be the name of a key: {wrong}",
                    help="write a name, `same`, or a name with `{}` for the last part of the input's key"
                    if out.key is None
                    else None,
                )
            )
            return False
        if out.keyword is None or (out.when and out.keyword in self._claimed):
            return True  # outputs of one key share its keyword; whether their conditions exclude each other is checked
        self._claimed.add(out.keyword)
        return claim_keyword(out.keyword, self.file.span(*here, "keyword"), self.names, self.sink)

    def _replaces_action(self, here: tuple[str, ...], out: OutKey) -> bool:
        """Report an output under the key of an action that the policy wrote, which a step has yet to take."""
        field, same = ("name", out.name == "same") if out.key is None else ("key", out.keyword is None)
        for role in self.roles.values() if same and not out.inverse else ():
            if role.acted and (out.each == role.name if out.key is None else out.key in role.default):
                message = f"`{here[-1]}` stands under the key of `{role.name}`, which the policy writes"
                help = f"give it a key of its own, `{field}: {here[-1]}`"
                self.sink.add(flow_rules.KEY_COLLISION.at(self.file.span(*here, field), message, help=help))
                return True
        return False

    def _may_be_left_out(self, here: tuple[str, ...], out: OutKey) -> bool:
        """Whether users can say whether there is an output, if it is `optional: true`."""
        if not out.optional or (out.keyword is not None and out.key is not None and not out.hidden):
            return True
        name = here[-1]
        help = f"write `keyword: {name}_key`" if out.keyword is None else None
        help = f"write `key: {name}` in place of `each`" if out.key is None else help
        self.sink.add(
            language_rules.UNASKED_OUTPUT.at(
                self.file.key_span(*here, "optional"),
                f"nothing asks for `{name}`: what is there only if users want it has a `key` and a `keyword`",
                help="leave out `hidden`, or `optional`" if out.hidden else help,
            )
        )
        return False

    def _type(
        self, here: tuple[str, ...], out: OutKey, role: Role | None
    ) -> tuple[str | None, SpecType | None]:
        """The role whose type an output has, or its type; nothing where it follows from what is computed."""
        if out.type is None:
            return None, None
        spec = parse_type(self.file.scalar(*here, "type"), self.sink)
        fallback = None if role is None else role.name
        if spec is None:
            return fallback, None
        inverse = out.inverse or (role is not None and role.inverse)
        if spec.like is not None and not isinstance(spec.like_expr, Name):
            if not inverse:
                self.sink.add(
                    rules.NOT_AVAILABLE.at(
                        self.file.span(*here, "type"),
                        "the type of an expression is not available yet for what the environment returns",
                        help="leave `type` out: it follows from what is computed",
                    )
                )
            return None, None
        if spec.like is not None:
            if spec.like not in self.roles:
                self.sink.add(
                    rules.UNKNOWN_DECLARATION.at(
                        self.file.span(*here, "type"),
                        f"no role `{spec.like}` that `{here[-1]}` could be like",
                        help=suggestion(spec.like, self.roles)
                        or f"the roles are {', '.join(self.roles) or 'none'}",
                    )
                )
                return fallback, None
            return spec.like, None
        if spec.kind in COUNTED and inverse:
            return None, spec
        if spec.kind == "binary" and spec.dtype == "bool":  # truth values of known dimensions
            spec = SpecType("pattern", "bool", spec.dims)
        if spec.kind not in ("pattern", "bounded", "unbounded"):
            self.sink.add(
                rules.NOT_AVAILABLE.at(
                    self.file.span(*here, "type"),
                    f"an output can't be declared as `{spec.kind}` yet",
                    help="an output that passes its input on keeps its kind: leave `type` out; numbers have a dtype",
                )
            )
            return fallback, None
        own = out.group == "reward" or self.transform.python is not None
        if role is not None and spec.shape == () and role.dims != () and not own and not inverse:
            self.sink.add(
                rules.WRONG_TYPE.at(
                    self.file.span(*here, "type"),
                    f"an output has the dimensions of the role that it follows: write `{spec.dtype}[...]`",
                )
            )
        if spec.dtype in PATTERNS:
            self.sink.add(
                rules.WRONG_TYPE.at(
                    self.file.span(*here, "type"),
                    f"`{spec.dtype}` is no dtype: an output has one, or that of its role",
                    help=f"write `like({role.name})`" if role is not None else None,
                )
            )
        return None, spec

    def _keys_differ(self, outputs: tuple[Output, ...]) -> None:
        """Report two outputs of one key that may exist together."""
        for index, output in enumerate(outputs):
            for other in outputs[:index]:
                if (output.each, output.key) != (other.each, other.key) or output.hidden or other.hidden:
                    continue
                if output.when is None or other.when is None or output.when.excludes(other.when):
                    continue  # where both always exist, users name them with `out_keys`
                self.sink.add(
                    language_rules.OUTPUTS_OVERLAP.at(
                        self.file.key_span(*self.path, "out", output.name),
                        f"`{other.name}` and `{output.name}` are one key, and both may exist",
                        help="let their `when` exclude each other, or give one of them another `name`",
                    )
                )
