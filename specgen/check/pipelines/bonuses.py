"""The bonuses that a pipeline adds to the reward."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.pipelines.bonuses_model import PipelineBonus
from specgen.check.pipelines.data_model import OnPolicyData, PipelineData
from specgen.check.pipelines.fields import BONUS_COEFF
from specgen.check.pipelines.model import Amount, PipelineLoss
from specgen.check.pipelines.reader import PartReader
from specgen.diagnostics import Note, suggestion
from specgen.diagnostics.rules import pipeline_rewards as reward_rules
from specgen.diagnostics.rules import pipelines as rules


class BonusReader(PartReader):
    """Reads the `reward` of one pipeline."""

    def bonuses(self, losses: tuple[PipelineLoss, ...], data: PipelineData) -> Iterator[PipelineBonus]:
        """The bonuses, without those that a mistake stands in the way of."""
        for name, bonus in self.pipeline.reward.items():
            place = ("reward", name)
            span = self.file.key_span(*self.path, *place)
            coeff = self.numbers.amount(*place, "coeff", fact=BONUS_COEFF.of(name))
            if coeff is None:
                coeff = Amount(self.numbers.default("", 1.0, BONUS_COEFF.of(name)))
            if bonus.from_ is None:
                message = f"`{name}` does not say `from` which loss it comes"
                self.sink.add(rules.MISSING_PART.at(span, message, help=f"write `from: {_example(losses)}`"))
                continue
            found = self._metric(name, bonus.from_, losses)
            if not isinstance(data, OnPolicyData):
                notes = [Note("the data", self.file.key_span(*self.path, "data"))]
                message = f"`{name}` is computed when a batch was collected, and these data are sampled later"
                help = "take a loss for `on_policy` data, such as `ClipPPOLoss`, or leave out `reward`"
                self.sink.add(reward_rules.STALE_BONUS.at(span, message, notes=notes, help=help))
            elif found is not None:
                gamma = self.numbers.settings.get("gamma") or self.numbers.default("gamma", 0.99)
                loss, metric = found
                yield PipelineBonus(
                    name, loss.name, metric, coeff, gamma if bonus.normalize else None, data.num_envs
                )

    def _metric(
        self, name: str, source: str, losses: tuple[PipelineLoss, ...]
    ) -> tuple[PipelineLoss, str] | None:
        """The loss of a bonus and its metric; None after reporting that there is none."""
        span = self.file.span(*self.path, "reward", name, "from")
        owner, _, metric = source.partition(".")
        known = {one.name: one for one in losses if one.name}
        if owner not in known:
            help = suggestion(owner, known) or "name the losses: `loss: {agent: {…}, bonus: {RNDLoss: {}}}`"
            self.sink.add(reward_rules.NO_BONUS.at(span, f"there is no loss `{owner}`", help=help))
            return None
        loss = known[owner]
        able = loss.each
        if loss.group is not None or not able or (metric and metric not in able):
            what = f"`{metric}`" if metric else "number"
            message = f"`{loss.loss.name}` gives no {what} of each sample"
            if loss.group is not None:
                message = f"`{owner}` is the loss of a group of agents, and a bonus is one for each step"
            similar = suggestion(metric, able) if metric else None
            help = similar or "declare a metric of it: `novelty: {each: error}`"
            notes = [Note("the loss", loss.span)]
            self.sink.add(reward_rules.NO_BONUS.at(span, message, notes=notes, help=help))
            return None
        if not metric and len(able) > 1:
            many = " or ".join(f"`{owner}.{one}`" for one in able)
            message = f"`{loss.loss.name}` gives several numbers of each sample"
            self.sink.add(reward_rules.NO_BONUS.at(span, message, help=f"write {many}"))
            return None
        return loss, metric or able[0]


def _example(losses: tuple[PipelineLoss, ...]) -> str:
    """The loss that a bonus may come from."""
    return next((loss.name for loss in losses if loss.each and loss.name), "bonus")
