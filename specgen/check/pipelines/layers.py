"""The layers of the networks of a pipeline: what they read, and whether each fits what is in front of it."""

from __future__ import annotations

from collections.abc import Sequence

from specgen.check.chains.keys import is_channels_last
from specgen.check.model import Entry
from specgen.check.pipelines.fields import DROPOUT, Fact
from specgen.check.pipelines.layers_model import Convolution, Layers, OwnLayers, PipelineTrunk, Recurrence
from specgen.check.pipelines.model import Setting
from specgen.check.pipelines.network_numbers import NetworkNumbers
from specgen.check.pipelines.readable import (
    how_to_read,
    how_to_read_one,
    is_image,
    is_index,
    is_vector,
    unread_observation,
)
from specgen.check.pipelines.reader import PartReader, PipelineContext
from specgen.check.pipelines.seen import Seen, unread_group, wrong_layers
from specgen.check.python_source import python_source
from specgen.diagnostics import Note, Span, suggestion
from specgen.diagnostics.rules import pipeline_networks as layer_rules
from specgen.diagnostics.rules import pipeline_values as value_rules
from specgen.diagnostics.rules import pipelines as rules
from specgen.schema.pipeline_networks import NetworkBody

_LAYERS = ("trunk", "embedding", "python", "cnn", "gru", "lstm", "mlp")


class LayersReader(PartReader):
    """Reads the layers of the networks of one pipeline.

    Args:
        context: what all readers of the pipeline are given.
        seen: what they may read of its environment.
        trunks: the trunks that are sound, by name.
    """

    def __init__(self, context: PipelineContext, seen: Seen, trunks: dict[str, PipelineTrunk]) -> None:
        super().__init__(context)
        self.seen, self.trunks = seen, trunks
        self.env, self.group = seen.env, seen.group

    def layers(
        self, name: str, body: NetworkBody, usual: Sequence[Entry] | None, own: NetworkNumbers
    ) -> Layers | None:
        """The layers of a network; None after reporting a mistake.

        Args:
            name: the network.
            body: its declaration.
            usual: what it reads where it doesn't say it; None for `observation`, or else all that is observed and layers
                can read.
            own: its numbers.
        """
        if all(getattr(body, field) is None for field in _LAYERS):
            message = f"`{name}` says no layers"
            span = self.file.key_span(*self.path, "networks", name)
            self.sink.add(rules.CHOICE.at(span, message, help=f"write `{name}: {{mlp: [64, 64]}}`"))
            return None
        trunk = None
        if body.trunk is not None:
            trunk = self.trunks.get(body.trunk)
            if trunk is None or not self._fits_trunk(name, body):
                return None
        inputs = self._inputs(name, body, usual, trunk)
        sights = () if inputs is None else self.seen.sights(body, inputs)
        cells = self._sizes(name, "mlp", body.mlp or ())
        recurrence = self._recurrence(name, body)
        if (
            inputs is None
            or ((sights or body.of) and not self._joins(name, body, inputs))
            or cells is None
            or (recurrence is None and not (body.gru is None and body.lstm is None))
        ):
            return None
        own_layers = self._own(name, body)
        if own_layers is None and body.python is not None:
            return None
        embedding = self._embedding(name, body, inputs)
        convolutions, image = self._convolutions(name, body, inputs)
        if (image is None and body.cnn is not None) or (embedding is None and body.embedding is not None):
            return None
        if recurrence is not None and not self._reads_one(name, inputs, trunk, own_layers):
            return None
        return Layers(
            inputs=inputs,
            trunk=trunk,
            embedding=embedding,
            own=own_layers,
            convolutions=convolutions,
            image=image,
            recurrence=recurrence,
            cells=cells,
            activation=body.activation,
            layer_norm=body.layer_norm,
            dropout=self._dropout(name) if cells else None,
            frozen=body.frozen,
            orthogonal=own.orthogonal(),
            precision=self.file.module.pipelines[self.path[1]].precision,
            sights=sights,
        )

    def _dropout(self, name: str) -> Setting | None:
        owner = name.replace(".", "_")
        return self.numbers.setting("networks", name, "dropout", owner=owner, fact=DROPOUT)

    def _joins(self, name: str, body: NetworkBody, inputs: tuple[Entry, ...]) -> bool:
        """Whether what agents see of others can be joined."""
        vectors = {entry.dotted for entry in inputs if is_vector(entry)}
        wrong = wrong_layers(self.file, (*self.path, "networks", name), body, inputs, vectors)
        if wrong is not None:
            self.sink.add(wrong)
        return wrong is None

    @property
    def _observation(self) -> str:
        """The entry that networks read where nothing is said."""
        return "observation" if self.group is None else f"{self.group.name}.observation"

    def _span(self, name: str, *field: str | int) -> Span:
        return self.file.key_span(*self.path, "networks", name, *field)

    def _fits_trunk(self, name: str, body: NetworkBody) -> bool:
        """Whether a network may stand on a trunk."""
        span = self._span(name, "trunk")
        if body.cnn is not None:
            message = f"`{name}` reads features of `{body.trunk}`, which are no images"
            self.sink.add(layer_rules.TRUNK.at(span, message, help="put `cnn` into the trunk"))
        return body.cnn is None

    # ------------------------------------------------------------------ what is read

    def _inputs(
        self, name: str, body: NetworkBody, usual: Sequence[Entry] | None, trunk: PipelineTrunk | None
    ) -> tuple[Entry, ...] | None:
        """What a network reads of the data: what it says, or the usual; behind a trunk no observations besides."""
        known = self.seen.readable(body)
        found: list[Entry] = []
        for index, key in enumerate(body.in_):
            if key not in known:
                span = self.file.span(*self.path, "networks", name, "in", index)
                help = suggestion(key, known) or f"there are {', '.join(f'`{one}`' for one in known)}"
                message = f"nobody writes `{key}`, which `{name}` reads"
                if (other := self.seen.group_of(key)) is not None:
                    message = f"`{name}` reads `{key}`, and does not see all of `{other}`"
                    help = f"write `of: [{', '.join((*self.seen.of(body), other))}]`"
                notes = []
                if key in self.env.dropped:
                    notes.append(Note(f"{self.env.dropped[key]}, drops it", self.env.span))
                self.sink.add(rules.NETWORK_INPUT.at(span, message, notes=notes, help=help))
                return None
            found.append(known[key])
        place = (*self.path, "networks", name)
        if (unread := unread_group(self.file, place, body, found, self.seen)) is not None:
            self.sink.add(unread)
            return None
        if not body.in_:
            if usual is None:
                usual = [known[self._observation]] if self._observation in known else self.observed(body)
            found = list(usual)
            if trunk is not None:
                found = [entry for entry in found if entry.role == "action"]
            elif body.cnn is None and body.python is None:
                # who reads `observation` alone takes the others for what they are: beside it
                observed = () if self._observation in known else self.env.observed
                missed = unread_observation(name, found, self.env.observations, observed)
                if missed is not None:
                    message, help = missed
                    self.sink.add(layer_rules.UNREAD.at(self._span(name), message, help=help))
        if body.cnn is not None or (trunk is not None and not found):
            return tuple(found)  # what convolutions read is checked with them
        readable = (lambda entry: entry.type.dtype == "float32") if body.python is not None else is_vector
        wrong = next((entry for entry in found if not readable(entry)), None)
        if len(found) == 1 and is_index(found[0]) and body.python is None:
            return tuple(found)
        if wrong is None and found:
            return tuple(found)
        help = "say what it reads with `in`"
        if body.python is not None and wrong is not None:
            message = f"layers of one's own read float32, and `{wrong.dotted}` is {wrong.type}"
        elif wrong is None:
            there = ", ".join(f"`{one.dotted}`: {one.type}" for one in self.env.observations)
            message = f"`{self.env.name}` has nothing that layers of `{name}` can read: {there}"
            help = how_to_read(self.env.observed)
        elif wrong.role == "action" and not body.in_:
            message = (
                f"`{name}` reads actions that are numbers, and `{wrong.dotted}` is one of {wrong.spec.n}"
            )
            help = "take a loss for actions of a finite set: `DQNLoss`, `DiscreteSACLoss`"
            self.sink.add(rules.DISTRIBUTION.at(self._span(name), message, help=help))
            return None
        elif is_index(wrong):
            message = f"layers of `{name}` read `{wrong.dotted}`, one of {wrong.spec.n}, only by itself"
        else:
            what = wrong.type if wrong.stored_shape else f"a single {wrong.type}"
            message = f"layers of `{name}` read vectors of float32, and `{wrong.dotted}` is {what}"
            help = how_to_read_one(wrong) if body.in_ else how_to_read([wrong])
        self.sink.add(rules.NETWORK_INPUT.at(self._span(name), message, help=help))
        return None

    def observed(self, body: NetworkBody) -> Sequence[Entry]:
        """All that is observed and layers can read: images where there are convolutions, else vectors, else an index."""
        seen = self.env.observed
        if body.cnn is not None:
            return [entry for entry in seen if is_image(entry)]
        return [entry for entry in seen if is_vector(entry)] or [entry for entry in seen if is_index(entry)]

    def _reads_one(
        self, name: str, inputs: tuple[Entry, ...], trunk: PipelineTrunk | None, own: OwnLayers | None
    ) -> bool:
        """Whether a recurrent layer reads one vector only."""
        count = 1 if own is not None else len(inputs) + (trunk is not None)
        if count > 1:
            read = ", ".join([*(entry.dotted for entry in inputs)] + ([] if trunk is None else [trunk.name]))
            message = f"the recurrent layer of `{name}` reads one vector, and here are several: {read}"
            help = "join them in a trunk with `mlp`, and let it read that"
            self.sink.add(rules.NETWORK_INPUT.at(self._span(name), message, help=help))
        return count == 1

    # ------------------------------------------------------------------ sizes

    def _sizes(self, name: str, field: str, sizes: Sequence[int | str]) -> tuple[int | Setting, ...] | None:
        made = [self.size(name, size, field, index) for index, size in enumerate(sizes)]
        found = tuple(size for size in made if size is not None)
        return found if len(found) == len(made) else None

    def size(self, name: str, size: int | str, *field: str | int) -> int | Setting | None:
        """The size of a layer, or the hyper-parameter that says it."""
        place = ("networks", name, *field)
        if isinstance(size, str):
            return self.numbers.setting(*place, fact=Fact(size, "int", "size of a layer", ((">=", 1.0),)))
        if size < 1:
            span = self.file.span(*self.path, *place)
            self.sink.add(value_rules.OUT_OF_RANGE.at(span, f"a layer has at least one unit, got {size}"))
            return None
        return size

    def _recurrence(self, name: str, body: NetworkBody) -> Recurrence | None:
        if body.gru is not None and body.lstm is not None:
            message = f"`{name}` has one recurrent layer"
            help = "leave one out, or put it into a trunk of its own"
            self.sink.add(rules.CHOICE.at(self._span(name, "lstm"), message, help=help))
        agents = None if self.group is None else self.group.size
        if body.gru is not None:
            size = self.size(name, body.gru, "gru")
            return None if size is None else Recurrence("gru", size, agents)
        size = None if body.lstm is None else self.size(name, body.lstm, "lstm")
        return None if size is None else Recurrence("lstm", size, agents)

    def _own(self, name: str, body: NetworkBody) -> OwnLayers | None:
        """Layers of a Python class."""
        other = next((field for field in ("embedding", "cnn") if getattr(body, field) is not None), None)
        if body.python is None:
            if body.features is not None:
                message = f"`features` says what layers of `python` give, and `{name}` has none"
                self.sink.add(rules.CHOICE.at(self._span(name, "features"), message, help="leave it out"))
            return None
        if other is not None:
            message = f"`python` of `{name}` stands in the place of `{other}`"
            self.sink.add(rules.CHOICE.at(self._span(name, other), message, help="leave one of them out"))
            return None
        source = python_source(
            self.file.scalar(*self.path, "networks", name, "python"), self.module, self.sink
        )
        if body.features is None:
            message = f"nobody knows how many numbers `{source.name}` gives"
            help = "say it: `features: 64`"
            self.sink.add(rules.MISSING_PART.at(self._span(name, "python"), message, help=help))
            return None
        size = self.size(name, body.features, "features")
        return None if size is None else OwnLayers(source, size)

    def _embedding(self, name: str, body: NetworkBody, inputs: tuple[Entry, ...]) -> int | Setting | None:
        if body.embedding is None:
            return None
        if len(inputs) != 1 or not is_index(inputs[0]):
            read = ", ".join(f"`{entry.dotted}`, {entry.type}" for entry in inputs) or "features"
            message = f"`embedding` stands for one of finitely many, and `{name}` reads {read}"
            self.sink.add(rules.NETWORK_INPUT.at(self._span(name, "embedding"), message, help="leave it out"))
            return None
        return self.size(name, body.embedding, "embedding")

    def _convolutions(
        self, name: str, body: NetworkBody, inputs: tuple[Entry, ...]
    ) -> tuple[tuple[Convolution, ...], tuple[int, int] | None]:
        """The convolutions, and the channels that they read with how many numbers they give; None after a mistake."""
        if body.cnn is None:
            return (), None
        image = self._image(name, inputs)
        made: list[Convolution] = []
        for index, numbers in enumerate(body.cnn):
            span = self.file.span(*self.path, "networks", name, "cnn", index)
            if len(numbers) != 3 or min(numbers) < 1:
                message = f"a convolution is `[channels, kernel, stride]`, each at least 1, got {numbers}"
                self.sink.add(layer_rules.CONVOLUTION.at(span, message, help="write `[32, 3, 1]`"))
                return (), None
            made.append(Convolution(*numbers))
        if image is None:
            return (), None
        if not made:
            span = self._span(name, "cnn")
            help = "write `cnn: [[32, 3, 1]]`"
            self.sink.add(
                layer_rules.CONVOLUTION.at(span, f"`cnn` of `{name}` has no convolution", help=help)
            )
            return (), None
        shape = image.stored_shape
        sizes, channels = list(shape[1:]), made[-1].channels
        for index, one in enumerate(made):
            if one.kernel > min(sizes):
                what = f"`{image.dotted}`, {image.type}" if index == 0 else f"{sizes[0]} x {sizes[1]} numbers"
                span = self.file.span(*self.path, "networks", name, "cnn", index)
                message = f"a kernel of {one.kernel} x {one.kernel} is larger than what it reads: {what}"
                help = f"write a kernel of {min(sizes)} at most, or smaller strides in front"
                if index == 0 and is_channels_last(shape):
                    help = _CHANNELS_FIRST
                self.sink.add(layer_rules.CONVOLUTION.at(span, message, help=help))
                return (), None
            sizes = [(size - one.kernel) // one.stride + 1 for size in sizes]
        if is_channels_last(shape):
            message = (
                f"`{image.dotted}`, {image.type}, has its channels last, and convolutions read them first"
            )
            self.sink.add(
                layer_rules.CHANNELS_LAST.at(self._span(name, "cnn"), message, help=_CHANNELS_FIRST)
            )
        return tuple(made), (shape[0], channels * sizes[0] * sizes[1])

    def _image(self, name: str, inputs: tuple[Entry, ...]) -> Entry | None:
        """The image that convolutions read."""
        span = self._span(name, "cnn")
        if len(inputs) == 1 and is_image(inputs[0]) and inputs[0].type.dtype == "float32":
            return inputs[0]
        help = "say which with `in`"
        if not inputs:
            there = ", ".join(f"`{one.dotted}`: {one.type}" for one in self.env.observations)
            message = f"`{self.env.name}` has nothing of channels, height and width: {there}"
            help = "leave out `cnn`, or read it with `in` from what has them"
        elif len(inputs) > 1:
            read = ", ".join(f"`{entry.dotted}`" for entry in inputs)
            message = f"convolutions of `{name}` read one image by itself, and here are {read}"
            help = f"put `cnn` into a trunk, `encoder: {{cnn: …}}`, and write `{name}: {{trunk: encoder, mlp: [256]}}`"
        else:
            (one,) = inputs
            message = (
                f"convolutions read float32 of channels, height and width, and `{one.dotted}` is {one.type}"
            )
            help = "leave out `cnn`"
            if is_image(one):
                help = _made_readable(one)
        self.sink.add(layer_rules.CONVOLUTION.at(span, message, help=help))
        return None


_CHANNELS_FIRST = (
    "put `{PermuteTransform: {dims: [-1, -3, -2]}}` into the chain, or `ToTensorImage` for uint8"
)


def _made_readable(image: Entry) -> str:
    """How an image of another dtype becomes float32 with the channels first."""
    channels, *sides = image.stored_shape
    keys = "" if image.dotted == "pixels" else f"in_keys: [{image.dotted}]"
    if channels < min(sides):  # first already
        cast = f"DTypeCastTransform: {{dtype_in: {image.type.dtype}, dtype_out: float32, in_keys: [{image.dotted}]}}"
        return f"put `{{{cast}}}` into the chain, or observe it as float32"
    transform = f"`{{ToTensorImage: {{{keys}}}}}`" if keys else "`ToTensorImage`"
    return f"put {transform} into the chain, which makes it float32 with the channels first"
