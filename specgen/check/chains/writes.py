"""The keys that transforms write in a chain, and those that they can't write to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from specgen.check.chains.model import Instance
from specgen.check.model import CheckedEnv, Entry, Role, dotted
from specgen.check.names import Names, reserved_in_env
from specgen.check.transforms.entries import Output, chosen_by_out_keys
from specgen.check.transforms.model import PHASES, CheckedTransform
from specgen.diagnostics import Note, Sink, Span
from specgen.diagnostics.rules import flow as rules
from specgen.expr import SpecType, Type
from specgen.expr.dtypes import FLOAT_RANGES, INT_RANGES
from specgen.expr.sizes import Dim, Rest, replaced
from specgen.expr.symbols import Key
from specgen.expr.tree import Call, Name
from specgen.program.program import DONE_FLAGS
from specgen.values import replace

PRIVATE = "_carry"
"""The group of what a transform shows to nobody, and of what a later one shows another value of."""


def written_entry(
    transform: CheckedTransform,
    output: Output,
    entry: Entry | None,
    row: Mapping[str, Entry],
    key: Key,
    sizes: Mapping[str, int],
) -> Entry:
    """The entry that an output of a transform writes; what nothing declares is as its role until it is typed.

    Args:
        transform: whose output it is.
        output: the output.
        entry: what its role stands for, if it has one.
        row: what each role stands for.
        key: the key that it is written under.
        sizes: what the names of sizes are for the repetition, static parameters among them.
    """
    source = row.get(output.like or "", entry) if output.like != output.each else entry
    dtype = output.dtype or ("float32" if source is None else source.spec.dtype)
    shape = () if source is None else source.type.shape
    if output.dims is not None:
        role_dims = () if output.each is None else transform.role(output.each).dims
        named = sum(not isinstance(dim, Rest) for dim in role_dims)
        rest = shape if entry is None else entry.type.shape[: len(entry.type.shape) - named]
        shape = tuple(
            size
            for dim in output.dims
            for size in (rest if isinstance(dim, Rest) else (sizes_of(dim, sizes),))
        )
    role = _role(transform, output, entry, key)
    own = output.dims is not None and not any(isinstance(dim, Rest) for dim in output.dims)
    column = role in ("reward", "done") or (source is not None and source.type.col and not own)
    low, high = output.interval or (float("-inf"), float("inf"))
    if dtype in INT_RANGES:
        low, high = max(low, INT_RANGES[dtype][0]), min(high, INT_RANGES[dtype][1])
    bounded = output.interval is not None and (low, high) != (float("-inf"), float("inf"))
    # what an expression does to bounds is not followed: the result is known by dtype and shape alone
    spec = (
        SpecType("bounded", dtype, shape, low=low, high=high)
        if bounded
        else SpecType("unbounded", dtype, shape)
    )
    return Entry(key, role, spec, Type(dtype, shape, col=column), output.doc)


def cast_bounds(transform: CheckedTransform, output: Output, source: Entry, made: Entry) -> Entry:
    """`made` with the bounds of `source`, where the transform does nothing but cast one to the other."""
    if source.spec.kind != "bounded" or made.spec.dtype not in FLOAT_RANGES:
        return made
    pairs = {(s.target, s.expr) for s in transform.map} | {(s.target, s.expr) for s in transform.inverse}
    names = {output.name, output.each}
    for target, expr in pairs:
        match expr:
            case Call(Name("float32" | "float64"), (Name(read),), ()) if {target, read} == names:
                spec = replace(made.spec, kind="bounded", low=source.spec.low, high=source.spec.high)
                return replace(made, spec=spec)
    return made


def hidden_entry(instance: Instance, output: Output, entry: Entry | None, sizes: Mapping[str, int]) -> Entry:
    """The entry of an output that nobody sees, below `_carry`; arguments as for `written_entry`."""
    prefix, last = ((), "") if entry is None else (entry.key[:-1], f"_{entry.key[-1]}")
    key = (*prefix, PRIVATE, f"t{instance.position}", f"{output.name}{last}")
    followed = {} if entry is None else {output.each or "": entry}
    return written_entry(instance.transform, output, entry, followed, key, sizes)


def sizes_of(dim: Dim, sizes: Mapping[str, int]) -> int:
    """A size of a pattern as the number that it is for a key."""
    if isinstance(dim, int):
        return dim
    found = replaced(dim, sizes)
    assert isinstance(found, int), dim
    return found


def _role(transform: CheckedTransform, output: Output, entry: Entry | None, key: Key) -> Role:
    if output.flag:
        return "done"
    if output.reward:
        return "reward"
    # a mapped reward is a reward, under whatever key; anything else beside its input is observed
    mapped = output.name in transform.mapped
    if entry is not None and (key == entry.key or (mapped and entry.role == "reward")):
        return entry.role
    return "observation"


class WrittenKeys:
    """The keys that were written up to a position of a chain: by whom, and what they are called in Python."""

    def __init__(self, name: str, env: CheckedEnv, span: Span, sink: Sink) -> None:
        """Start with the keys of the environment, which stands at `span`; `name` is that of the chain."""
        self._env = env
        self._sink = sink
        functions = [function.name for function in env.functions]
        made = dict.fromkeys(
            ("not_done", "env_consts", "env_params", "dynamics", "networks", "objects"),
            "generated code calls something else so",
        )
        self._names = Names(
            sink, {**reserved_in_env(env.name, functions), **reserved_in_env(name, ()), **made}
        )
        self._writers: dict[str, tuple[str, Span | None]] = {}
        self._own: set[str] = set()
        for entry in env.entries:
            self._names.claim(entry.dotted, f"{entry.role} key", span, "a key of the environment")
            self._writers[entry.dotted] = ("the environment", None)
        self._actions = {entry.dotted for entry in env.action}
        for prefix in env.done:
            for flag in DONE_FLAGS:
                self._writers[dotted((*prefix, flag))] = ("the environment", None)
        self._flags = self._writers.keys() - {entry.dotted for entry in env.entries}

    @property
    def last_writers(self) -> dict[str, tuple[str, Span]]:
        """The transform that wrote each key last, by its name and where it stands in the chain."""
        return {key: (name, span) for key, (name, span) in self._writers.items() if span is not None}

    def begin(self) -> None:
        """Go on to the next transform."""
        self._own = set()

    def note_written(self, made: Entry, writer: str, span: Span) -> bool:
        """Note a new key of the transform `writer`, at `span`; returns whether nothing stands against it."""
        before = self._sink.errors
        self._note_new_key(made, span)
        self._writers[made.dotted] = (writer, span)
        return self._sink.errors == before

    def note_action(self, made: Entry, span: Span, present: Collection[str]) -> None:
        """Note the key under which a transform takes an action; a key that is there already is reported.

        Args:
            made: what the policy writes.
            span: where its key was chosen.
            present: the actions that are there besides.
        """
        if made.dotted in present or (made.dotted in self._writers and made.dotted not in self._actions):
            what = "an action" if made.dotted in present else "an entry of the environment"
            message = f"`{made.dotted}` is {what} already"
            help = "give what the policy writes another key"
            self._sink.add(rules.KEY_COLLISION.at(span, message, help=help))
        elif made.dotted not in self._actions:
            self._note_new_key(made, span)
            self._actions.add(made.dotted)
        else:
            self.check_group(made, span)

    def note_output(
        self,
        made: Entry,
        read: Iterable[Entry],
        output: Output,
        transform: CheckedTransform,
        span: Span,
        beside: Iterable[Entry],
        free: Collection[str],
    ) -> None:
        """Note that an output is written under its key; what stands against it is reported at `span`.

        Args:
            made: the output.
            read: what the roles of its repetition stand for.
            output: its declaration.
            transform: whose it is.
            span: where its key was chosen.
            beside: what the transform writes for the same entry above it.
            free: the keys that it may take although they are there: those that the transform drops, and rewards.
        """
        replaced = next((entry for entry in read if entry.key == made.key), None)
        flag = next((entry for entry in read if entry.role == "done"), None)
        if any(other.key == made.key for other in beside):
            self._report_collision(made, output, transform, span, aside=True)
        elif replaced is not None and replaced.role == "action":
            message = f"`{made.dotted}` is what the policy writes, and `{transform.name}` would write it, too"
            help = f"give `{output.name}` a key of its own"
            self._sink.add(rules.KEY_COLLISION.at(span, message, help=help))
        elif output.flag:
            self._note_flag(made, output, transform, span)
        elif flag is not None and (output.name in transform.mapped or replaced is flag):
            self._sink.add(
                rules.FLAG_PLACE.at(
                    span,
                    f"`{transform.name}` maps the done flag `{flag.dotted}`, which later transforms may raise",
                    help="declare an output `terminated` or `truncated` to raise one, "
                    "or compute what follows from it under `step` and `reset`",
                )
            )
        elif made.dotted in self._writers and replaced is None and made.dotted not in free:
            self._report_collision(made, output, transform, span)
        elif made.dotted not in self._writers:
            self._note_new_key(made, span)
        self._writers[made.dotted] = (transform.name, span)
        self._own.add(made.dotted)

    def _note_flag(self, made: Entry, output: Output, transform: CheckedTransform, span: Span) -> None:
        level = made.key[:-1]
        if made.key[-1] == "done":
            self._sink.add(
                rules.FLAG_PLACE.at(
                    span,
                    "`done` follows from the flags beside it",
                    help=f"choose another name for `{output.name}`; raised, it raises `done`",
                )
            )
        elif made.dotted in self._writers and made.dotted not in self._flags:
            self._report_collision(made, output, transform, span)
        elif level not in self._env.done:
            where = f"`{dotted(level)}`" if level else "the root"
            self._sink.add(
                rules.FLAG_PLACE.at(
                    span,
                    f"there are no done flags at {where} that `{made.dotted}` could stand beside",
                    notes=[
                        f"done flags are at {', '.join(f'`{dotted(p)}`' if p else 'the root' for p in self._env.done)}"
                    ],
                    help="take another key in `in_keys`, or declare the flags under `done` of the environment",
                )
            )
        elif (made.type.dims or ()) != self._env.done_dims[level]:
            self._sink.add(
                rules.FLAG_PLACE.at(
                    span,
                    f"`{made.dotted}` has shape {list(made.type.dims or ())}, "
                    f"the done flags beside it have shape {list(self._env.done_dims[level])}",
                )
            )
        elif made.dotted not in self._writers:
            self._note_new_key(made, span)
            self._flags.add(made.dotted)

    def _report_collision(
        self, made: Entry, output: Output, transform: CheckedTransform, span: Span, aside: bool = False
    ) -> None:
        """Report a key that is there; `aside` says that another output of this repetition has it."""
        other, first = self._writers[made.dotted]
        by = f"by `{transform.name}` and by {other if first is None else f'`{other}`'}"
        repeated = None
        if made.dotted in self._own:
            by, first = f"by `{transform.name}` twice", None
            repeated = transform.driver(inverse=False) if output.each is None and not aside else None
        elif other == transform.name and first is not None:
            by = f"by `{transform.name}`, and by another `{other}` before it"
        keyword = output.keyword
        if keyword is None and chosen_by_out_keys(output, transform.roles):
            keyword = "out_keys"
        help = (
            f"set `{keyword}`"
            if keyword
            else f"give `{output.name}` a `keyword` where it is declared, and set it"
        )
        if repeated is not None:
            help = (
                f"let `{output.name}` follow what is repeated: `{output.name}: {{each: {repeated.name}, …}}`"
            )
        self._sink.add(
            rules.KEY_COLLISION.at(
                span,
                f"`{made.dotted}` is written {by}",
                notes=[Note("the first one", first)] if first is not None else [],
                help=f"{help} on one of them" if first is not None else help,
            )
        )

    def _note_new_key(self, made: Entry, span: Span) -> None:
        """A key that was not there: its name, and what it stands under."""
        if not self._names.claim(made.dotted, f"{made.role} key", span):
            return
        called = {key.replace(".", "_"): key for key in self._writers}
        bare = made.name.removeprefix("next_")
        later = called.get(f"next_{made.name}")
        if (bare != made.name and bare in called) or later is not None:
            of, own = (made.dotted, later) if later is not None else (called[bare], made.dotted)
            self._sink.add(
                rules.KEY_PLACE.at(
                    span,
                    f"`{own}` is what `next.{of}` is called in Python",
                    help=f"choose another key than `{made.dotted}`",
                )
            )
            return
        self.check_group(made, span)

    def check_group(self, made: Entry, span: Span, *, collected: bool = False) -> None:
        """Report what has no dimension for the agents of the group that it stands under.

        What is collected of several steps has these in front, even where they are as many as the agents.
        """
        group = next((group for group in self._env.groups if group.name == made.key[0]), None)
        dims = made.type.dims or ()
        if group is not None and (collected or dims[:1] != (group.size,)):
            self._sink.add(
                rules.KEY_PLACE.at(
                    span,
                    f"`{made.dotted}` has shape {list(dims)}{', steps in front' if collected else ''}: what stands under `{group.name}` is one for each "
                    f"of its {group.size} agents",
                    help="choose a key that is not in the group"
                    if collected or made.role == "action" or len(dims) < 2
                    else "leave the first dimension as it is: another axis, such as -1, or a key that is not in the group",
                )
            )


def written_once(transform: CheckedTransform, output: Output) -> bool:
    """Whether one key is the same in all repetitions, since nothing is read for it but parameters and itself."""
    own = {output.name, *(param.name for param in transform.params)}
    statements = [
        statement
        for phase in PHASES
        for statement in transform.phase(phase)
        if statement.target.removeprefix("next.") == output.name
    ]
    return not output.hidden and all(statement.reads <= own for statement in statements)
