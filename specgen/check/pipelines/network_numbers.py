"""Numbers of the networks of a pipeline, besides the sizes of their layers."""

from __future__ import annotations

import math

from specgen.check.pipelines.fields import ATOMS, HEAD_GAIN, INIT_GAIN, V_MAX, V_MIN
from specgen.check.pipelines.heads_model import ValueSupport
from specgen.check.pipelines.model import Setting
from specgen.check.pipelines.reader import PartReader, PipelineContext
from specgen.diagnostics.rules import pipeline_forms as forms
from specgen.diagnostics.rules import pipeline_values as rules
from specgen.expr.sizes import Dim
from specgen.schema.pipeline_networks import NetworkBody


class NetworkNumbers(PartReader):
    """Reads the numbers of one network.

    Args:
        context: what all readers of the pipeline are given.
        name: the network.
        body: its declaration.
        loss: the name of its loss; empty for a trunk.
    """

    def __init__(self, context: PipelineContext, name: str, body: NetworkBody, loss: str) -> None:
        super().__init__(context)
        self.name, self.body, self.loss = name, body, loss

    def no_support(self) -> None:
        """Report a support of a network that gives no distribution of values."""
        span = self.file.key_span(*self.path, "networks", self.name, "support")
        message = f"`{self.loss}` asks `{self.name}` for no probabilities of values"
        self.sink.add(forms.SUPPORT.at(span, message, help="leave it out"))

    def support(self, size: Dim) -> ValueSupport | None:
        """The values of a distributional network; None after reporting a mistake.

        Args:
            size: how many the loss takes: a name, where it leaves that open.
        """
        place = ("networks", self.name, "support")
        found = [
            self.numbers.setting(*place, field, owner=self.name, fact=fact)
            for field, fact in (("atoms", ATOMS), ("low", V_MIN), ("high", V_MAX))
        ]
        given = self.body.support
        if given is None or None in (given.atoms, given.low, given.high):
            span = self.file.key_span(*self.path, "networks", self.name)
            message = (
                f"`{self.loss}` asks `{self.name}` for the probabilities of values, and nobody says which"
            )
            help = f"write `{self.name}: {{support: {{atoms: 51, low: 0, high: 100}}}}`"
            self.sink.add(forms.SUPPORT.at(span, message, help=help))
            return None
        atoms, low, high = found
        if atoms is None or low is None or high is None:
            return None
        if low.default >= high.default:
            message = f"`low` must be below `high`, got {low.default:g} and {high.default:g}"
            self.sink.add(rules.OUT_OF_RANGE.at(low.span, message))
            return None
        if isinstance(size, int) and atoms.default != size:
            message = f"`{self.loss}` takes the probabilities of {size} values, got {atoms.default:g}"
            self.sink.add(forms.SUPPORT.at(atoms.span, message, help=f"write `atoms: {size}`"))
            return None
        if isinstance(size, int):
            atoms = self.numbers.exactly(atoms, size)
        return ValueSupport(atoms, low, high)

    def orthogonal(self) -> tuple[Setting, Setting] | None:
        """The gains of hidden layers and of the last one, where first weights are orthogonal; of a trunk, all are hidden."""
        if self.body.init is None or self.body.init.orthogonal is None:
            return None
        place = ("networks", self.name, "init", "orthogonal")
        made = []
        fields = (("gain", INIT_GAIN, math.sqrt(2.0)), ("head_gain", HEAD_GAIN, 1.0))
        for field, fact, usual in fields if self.loss else fields[:1]:
            found = self.numbers.setting(*place, field, owner=self.name, fact=fact)
            if found is None and getattr(self.body.init.orthogonal, field) is None:
                found = self.numbers.default("", usual, fact, owner=self.name)
            if found is None:
                return None
            made.append(found)
        return made[0], made[-1]
