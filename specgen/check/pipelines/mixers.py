"""The networks of a pipeline that mix the values of a team: their kind, and the state that they read."""

from __future__ import annotations

from collections.abc import Sequence

from specgen.check.losses.model import LossNetwork, LossRole
from specgen.check.model import Entry
from specgen.check.pipelines.fields import Fact
from specgen.check.pipelines.heads_model import MixerHead
from specgen.check.pipelines.layers_model import NO_LAYERS
from specgen.check.pipelines.loss_arguments import LossArguments
from specgen.check.pipelines.model import PipelineNetwork, Setting
from specgen.check.pipelines.readable import is_vector
from specgen.check.pipelines.reader import PartReader, PipelineContext
from specgen.check.pipelines.seen import Seen
from specgen.check.python_source import python_source
from specgen.check.sources import PythonSource
from specgen.diagnostics import Note, suggestion
from specgen.diagnostics.rules import pipeline_teams as rules
from specgen.diagnostics.rules import pipeline_values as value_rules
from specgen.diagnostics.rules import pipelines as pipeline_rules
from specgen.schema.pipeline_networks import Mixer, NetworkBody
from specgen.values import replace

_OF_MIXERS = {"mixer", "in_", "doc"}
_STATE = "state"
"""What a mixer reads besides the values, where it does not say it."""


class MixerReader(PartReader):
    """Reads the mixers of one loss, which is of a team.

    Args:
        context: what all readers of the pipeline are given.
        seen: what its networks may read.
        loss: the loss.
    """

    def __init__(self, context: PipelineContext, seen: Seen, loss: LossArguments) -> None:
        super().__init__(context)
        self.seen, self.loss = seen, loss

    def mixer(
        self, name: str, role: LossNetwork, mixed: LossRole, body: NetworkBody
    ) -> PipelineNetwork | None:
        """A mixer; None after reporting a mistake.

        Args:
            name: the network.
            role: the loss's network.
            mixed: the values that it mixes.
            body: its declaration.
        """
        here, group = (*self.path, "networks", name), self.loss.group
        assert group is not None
        span = self.file.key_span(*here)
        beside = sorted(body.model_fields_set - _OF_MIXERS)
        if body.mixer is None or beside:
            message = f"`{name}` mixes the values of `{group.name}`"
            if body.mixer is None:
                instead = f" in the place of {' and '.join(f'`{one}`' for one in beside)}" if beside else ""
                help = f"write `mixer: vdn`, their sum, or `mixer: {{qmix: 32}}`{instead}"
                self.sink.add(rules.MIXER.at(span, f"{message}, and says no `mixer`", help=help))
                return None
            for field in beside:
                place = self.file.key_span(*here, field)
                self.sink.add(rules.MIXER.at(place, f"{message}, and has no `{field}`", help="leave it out"))
            return None
        hidden: int | Setting | None = None
        state: Entry | None = None
        own: PythonSource | None = None
        if isinstance(body.mixer, Mixer) and body.mixer.python is not None:
            if body.mixer.qmix is not None:
                message = f"`{name}` is one mixer, `python` or `qmix`"
                place = self.file.key_span(*here, "mixer", "qmix")
                self.sink.add(rules.MIXER.at(place, message, help="leave one of them out"))
                return None
            own = python_source(self.file.scalar(*here, "mixer", "python"), self.module, self.sink)
            state = self._state(name, body) if body.in_ else None
            if body.in_ and state is None:
                return None
        elif isinstance(body.mixer, Mixer):
            hidden = self._hidden(name, body.mixer)
            state = self._state(name, body)
            if hidden is None or state is None:
                return None
        elif body.in_ and self.file.key_span(*here, "in").begins_in(self.file.span(*self.path)):
            message = f"`vdn` is the sum of the values, and `{name}` reads nothing besides"
            help = "leave out `in`, or write `mixer: {qmix: 32}`"
            self.sink.add(rules.MIXER.at(self.file.key_span(*here, "in"), message, help=help))
            return None
        (output, _), *_ = role.outputs
        key = next(one.key for one in self.loss.loss.roles if output in (one.name, one.accepted))
        precision = self.file.module.pipelines[self.path[1]].precision
        return PipelineNetwork(
            name=name,
            role=role,
            layers=replace(NO_LAYERS, inputs=() if state is None else (state,), precision=precision),
            outputs=1,
            head=MixerHead(key, mixed.key, group.size, hidden, state, own),
            doc=" ".join(body.doc.split()),
            span=span,
            group=group,
        )

    def report_none(self, name: str) -> None:
        """Report a mixer in place of a network that mixes nothing."""
        message = f"`{self.loss.loss.name}` mixes no values by `{name}`"
        span = self.file.key_span(*self.path, "networks", name, "mixer")
        self.sink.add(rules.MIXER.at(span, message, help="leave out `mixer`, and say its layers"))

    def _hidden(self, name: str, mixer: Mixer) -> int | Setting | None:
        """How many hidden numbers it has, or the hyper-parameter that says it."""
        size, place = mixer.qmix, ("networks", name, "mixer", "qmix")
        if isinstance(size, str):
            fact = Fact(size, "int", "hidden numbers of the mixer", ((">=", 1.0),))
            return self.numbers.setting(*place, fact=fact)
        if size is None:
            span = self.file.key_span(*self.path, "networks", name, "mixer")
            message = f"`mixer` of `{name}` is none of `vdn`, `qmix` and `python`"
            self.sink.add(rules.MIXER.at(span, message, help="write `mixer: {qmix: 32}`"))
        elif size < 1:
            span = self.file.span(*self.path, *place)
            message = f"a mixer has at least one hidden number, got {size}"
            self.sink.add(value_rules.OUT_OF_RANGE.at(span, message, help="write `qmix: 32`"))
            return None
        return size

    def _state(self, name: str, body: NetworkBody) -> Entry | None:
        """What it reads besides the values, with the dimension of agents where it has one."""
        here, whole = (*self.path, "networks", name), self.seen.whole
        known = {entry.dotted: entry for entry in whole.observations}
        reads = body.in_ or [_STATE]
        span = self.file.span(*here, "in", 0) if body.in_ else self.file.key_span(*here)
        if len(reads) > 1:
            message = f"a mixer reads one state, and `{name}` names {len(reads)}"
            help = f"write `in: [{reads[0]}]`"
            if all(one in known and is_vector(known[one]) for one in reads):
                joined = f"`CatTensors: {{in_keys: [{', '.join(reads)}], out_key: all}}`"
                help += f", or join them in the chain, {joined}, and write `in: [all]`"
            self.sink.add(rules.MIXER.at(self.file.key_span(*here, "in"), message, help=help))
            return None
        found = known.get(reads[0])
        if found is None:
            states = (entry for entry in known.values() if entry.dotted not in whole.counted)
            floats = [entry for entry in states if entry.type.dtype == "float32"]
            said = f"write `in: [{self._best(floats)}]`" if floats else "observe one, `state`"
            near = suggestion(reads[0], [one.dotted for one in floats]) if body.in_ else None
            help = near or f"{said}; or take the sum of the values, `mixer: vdn`"
            message = f"nobody writes `{reads[0]}`, which `{name}` reads"
            notes = []
            if reads[0] in whole.dropped:
                notes.append(Note(f"{whole.dropped[reads[0]]}, drops it", whole.span))
            self.sink.add(pipeline_rules.NETWORK_INPUT.at(span, message, notes=notes, help=help))
            return None
        if found.type.dtype != "float32":
            message = f"a mixer reads float32, and `{found.dotted}` is {found.type}"
            help = "observe it as numbers, `float32[...]`: one of finitely many as zeros with a one"
            self.sink.add(pipeline_rules.NETWORK_INPUT.at(span, message, help=help))
            return None
        return found

    def _best(self, entries: Sequence[Entry]) -> str:
        """Of several entries one of no group that is observed, else what its own agents observe, else any."""

        def rank(entry: Entry) -> tuple[bool, int]:
            owner = self.seen.owner(entry)
            return entry.role == "state", 0 if owner is None else 1 if owner == self.loss.group else 2

        return min(entries, key=rank).dotted
