"""Whether the parts of a pipeline that trains a language model fit together: its chain, its loss, groups and devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from specgen.check.accelerators import accelerator
from specgen.check.language_models.model import CheckedLanguageModel
from specgen.check.language_models.pairs import check_pair
from specgen.check.language_models.transforms import ModelInstance
from specgen.check.pipelines.data_model import OnPolicyData, PipelineData, RecordedData
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.limits_model import Limits
from specgen.check.pipelines.losses import is_on_policy
from specgen.check.pipelines.model import Devices, PipelineLoss, PipelineNetwork, PipelineOptimizer, Setting
from specgen.check.pipelines.numbers import nearest_divisor
from specgen.check.pipelines.reader import PartReader, PipelineContext
from specgen.check.pipelines.recorded_conversations import check_recorded_conversations, is_taught
from specgen.check.pipelines.sequences import check_whole_rows
from specgen.check.pipelines.workers_model import CollectingWorkers
from specgen.diagnostics import Note
from specgen.diagnostics.rules import devices as device_rules
from specgen.diagnostics.rules import pipeline_conversations as rules
from specgen.diagnostics.rules import pipeline_language_models as model_rules
from specgen.diagnostics.rules import pipeline_numbers as number_rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.schema.load import find

LossNumbers = Mapping[str, object]

_DIGITS = {"bfloat16": 8, "float16": 11}
"""The binary digits of numbers of a dtype: a step that is smaller by more is rounded away."""

_SMALL = 0.004
"""A size that most parameters of language models are above."""


class ConversationsCheck(PartReader):
    """Checks a pipeline around conversations, whose parts are sound each by itself.

    Args:
        context: what all readers of the pipeline are given.
        env: its environment.
        eval_env: that of evaluations.
    """

    def __init__(self, context: PipelineContext, env: PipelineEnv, eval_env: PipelineEnv) -> None:
        super().__init__(context)
        self.env, self.eval_env = env, eval_env
        self.envs = (env,) if eval_env is env else (env, eval_env)

    def check(
        self,
        losses: Sequence[PipelineLoss],
        given: Sequence[LossNumbers],
        data: PipelineData,
        optimizers: Sequence[PipelineOptimizer],
        limits: Limits | None,
        workers: CollectingWorkers | None,
        devices: Devices,
    ) -> None:
        """Report what does not fit together.

        Args:
            losses: its losses, with their networks.
            given: the value of every parameter of each of them.
            data: where the data come from.
            optimizers: what moves the parameters.
            limits: when it ends; None where that has mistakes.
            workers: what collects the data, if others do.
            devices: where the parts lie.
        """
        self._refuse_bonuses()
        models = [
            one.language_model for loss in losses for one in loss.networks if one.language_model is not None
        ]
        for loss, values in zip(losses, given, strict=True):
            self._check_loss(loss, values)
            if isinstance(data, OnPolicyData) and is_taught(loss.loss):
                self._check_direction(loss, values)
        check_recorded_conversations(self.file, self.path, losses, data, self.sink)
        if not models:
            return
        for env in self.envs:
            self._check_models(env, models)
            if env.chat is not None and env.chat.source is None:
                message = f"`{env.name}` has no source of prompts that conversations could begin with"
                help = "write `source: package.module:function` in its `chat`"
                self.sink.add(model_rules.NO_PROMPTS.at(env.span, message, help=help))
            if env.chat is not None and env.chat.reward is None:
                self._report_no_reward(env)
        reference = data.ref_model if isinstance(data, RecordedData) else None
        self._check_names(models if reference is None else [*models, reference])
        self._check_device(models[0], devices)
        self._check_kinds(models[0], devices)
        for optimizer in optimizers:
            self._check_steps(optimizer, models)
        if isinstance(data, OnPolicyData):
            self._check_width(models[0], data, workers)
            whole = self._check_groups(self.env, data.num_envs, "conversations side by side")
            self._check_turns(data, whole=whole)
            if workers is not None and whole:
                self._check_workers(workers, data)
        if limits is not None:
            self._check_groups(self.eval_env, limits.episodes, "conversations of an evaluation")

    def _report_no_reward(self, env: PipelineEnv) -> None:
        """Report an environment without a function that rewards; transforms of its chain may give all there is."""
        help = "write `reward: …` in its `chat`, with a function of `rewards`"
        if env.rewarding:
            who = " and ".join(f"`{name}`" for name in env.rewarding)
            message = f"only {who} of `{env.name}` changes the rewards of its conversations, which are 0"
            self.sink.add(model_rules.ONLY_TRANSFORMS.at(env.span, message, help=help))
            return
        message = f"nothing rewards the conversations of `{env.name}`: each is worth 0"
        self.sink.add(model_rules.NO_REWARD.at(env.span, message, help=help))

    def _refuse_bonuses(self) -> None:
        """Report a bonus on rewards, which pipelines around conversations don't have yet."""
        if self.pipeline.reward:
            span = self.file.key_span(*self.path, "reward")
            message = "a bonus on the rewards of conversations: not available in pipelines yet"
            help = "add it in the reward function (`rewards: {…: {python: …}}`), which sees the answers of all that ended"
            self.sink.add(schema_rules.NOT_AVAILABLE.at(span, message, help=help))

    def _check_loss(self, loss: PipelineLoss, values: LossNumbers) -> None:
        """Report penalties that are subtracted twice, truncated distributions, and rewards that are no advantages."""
        if not is_on_policy(loss):  # it reads no rewards
            return
        penalising = [
            one for one in self.env.runs if one.transform.coefficient and one.params["add_to_reward"]
        ]
        place = (*_place(self.path, loss), "kl_to_ref_coeff")
        if values.get("kl_to_ref_coeff") and penalising and find(self.file.root, place) is not None:
            name = penalising[0].transform.name
            message = f"`{name}` of `{self.env.name}` takes the penalty from the reward, and `kl_to_ref_coeff` adds it to the loss"
            notes = [Note("the chain", self.env.span)]
            help = f"leave it out, or write `add_to_reward: false` for `{name}`"
            self.sink.add(
                rules.SUBTRACTED_TWICE.at(self.file.key_span(*place), message, notes=notes, help=help)
            )
        for network in loss.networks:
            if network.language_model is not None:
                self._check_truncation(loss, network, network.language_model)
        reward = self.env.entries.get("reward")
        if reward is not None and reward.type.shape:
            message = f"`{self.env.name}` gives a reward for each of {reward.type.shape[-1]} tokens, and `{loss.loss.name}` compares answers"
            help = "leave out `spread` in its chain"
            self.sink.add(model_rules.REWARDS_OF_TOKENS.at(self.env.span, message, help=help))

    def _check_direction(self, loss: PipelineLoss, values: LossNumbers) -> None:
        """Report the distance of a teacher from its student that is estimated from the student's answers."""
        if values.get("kl_direction") != "forward":
            return
        message = f"`{loss.loss.name}` estimates the distance of the teacher from the student, and the answers are the student's"
        span = self.file.key_span(*_place(self.path, loss), "kl_direction")
        help = "write `kl_direction: reverse`, which is for answers of the student"
        self.sink.add(model_rules.OTHERS_ANSWERS.at(span, message, help=help))

    def _check_truncation(
        self, loss: PipelineLoss, network: PipelineNetwork, model: CheckedLanguageModel
    ) -> None:
        generate = model.generate
        if generate is None or (generate.top_k == 0 and generate.top_p == 1):
            return
        field = "top_k" if generate.top_k else "top_p"
        message = f"`{model.name}` draws from the likeliest tokens only (`{field}: {getattr(generate, field)}`), and `{loss.loss.name}` compares probabilities before and after updates"
        notes = [Note("said here", model.place(f"generate.{field}"))]
        span = self.file.span(*self.path, "networks", network.name, "causal_lm")
        help = f"leave out `{field}` in `{model.name}`"
        self.sink.add(rules.TRUNCATED.at(span, message, notes=notes, help=help))

    def _check_models(self, env: PipelineEnv, acting: Sequence[CheckedLanguageModel]) -> None:
        """Report models of a chain that are neither frozen nor act, and pairs that are known only here."""
        known = {one.maker for one in acting}  # of those of one name another rule says it
        for model in env.models:
            if not model.frozen and model.maker not in known:
                message = f"`{env.name}` runs `{model.name}`, and `{acting[0].name}` acts and learns"
                notes = [Note("it is declared here", model.span)]
                help = f"write `{acting[0].name}` in the chain, or `frozen: true` in `{model.name}`"
                self.sink.add(model_rules.OTHER_MODEL.at(env.span, message, notes=notes, help=help))
        for instance in _of_collectors(env.runs):
            models = {**instance.models, "gen_model": acting[0]}
            check_pair(
                instance.transform, models, instance.keys, instance.params, lambda _: env.span, self.sink
            )

    def _check_names(self, acting: Sequence[CheckedLanguageModel]) -> None:
        """Report two models that the training would call by one name."""
        known = {model.maker: model for model in acting}
        for env in self.envs:
            for model in env.models:
                first = known.setdefault(model.maker, model)
                if first.is_same(model):
                    continue
                message = f"`{env.name}` runs another `{model.name}` than the one that is here already"
                notes = [Note("the first one", first.span), Note("the other one", model.span)]
                help = "give one of them another name"
                self.sink.add(model_rules.SAME_NAME.at(env.span, message, notes=notes, help=help))

    def _check_device(self, model: CheckedLanguageModel, devices: Devices) -> None:
        """Report a model that acts and says another device than the pipeline."""
        if self.pipeline.device is None or model.device in (None, devices.policy):
            return
        what, part = ("`device` has the policy", ["policy"]) if devices.apart else ("the training", [])
        message = f"`{model.name}` is on {model.device}, and {what} on {devices.policy}"
        notes = [Note("said here", model.place("device"))]
        span = self.file.span(*self.path, "device", *part)
        help = "leave one of the two out"
        self.sink.add(model_rules.TWO_DEVICES.at(span, message, notes=notes, help=help))

    def _check_kinds(self, acting: CheckedLanguageModel, devices: Devices) -> None:
        """Report a further model on an accelerator of another kind than those of the parts."""
        parts = {"policy": devices.policy, "loss": devices.loss, "env": devices.env, "data": devices.data}
        found = next((item for item in parts.items() if accelerator(item[1])), None)
        if found is None:
            return
        what = f"`{found[0]}`" if devices.apart else "the training"
        for model in {one.maker: one for env in self.envs for one in env.models}.values():
            if model.device == acting.device or accelerator(model.device) in (None, accelerator(found[1])):
                continue
            message = f"`{model.name}` is on {model.device}, and {what} on {found[1]}: no machine has both"
            said = self.pipeline.device is not None
            span = self.file.key_span(*self.path, "device") if said else self.env.span
            notes = [Note("said here", model.place("device"))]
            help = f"write `{accelerator(found[1])}:1`, say, for `{model.name}`"
            self.sink.add(device_rules.NEVER_MEET.at(span, message, notes=notes, help=help))

    def _check_steps(self, optimizer: PipelineOptimizer, models: Sequence[CheckedLanguageModel]) -> None:
        """Report steps that most parameters of a model are too coarse for, where its dtype is said."""
        lr = optimizer.lr.setting
        for model in models:
            digits = _DIGITS.get(model.dtype or "")
            if digits is None or not optimizer.steps_by_lr:
                continue
            moved = lr.default * 2**digits
            if moved < _SMALL:
                message = f"`{optimizer.kind}` moves parameters by about {lr.default:g} at each step, and those of `{model.name}` that are above {moved:.1g} stay as they are in {model.dtype}"
                notes = [Note("said here", model.place("dtype"))]
                help = f"write `dtype: float32` in `{model.name}`"
                self.sink.add(model_rules.COARSE.at(lr.span, message, notes=notes, help=help))

    def _check_groups(self, env: PipelineEnv, number: Setting, what: str) -> bool:
        """Whether conversations are of whole groups, which is reported where they are not."""
        group = 1 if env.chat is None else env.chat.group
        whole = number.default % group == 0
        if not whole:
            message = f"{number.default} {what} are no whole groups of {group}"
            notes = [Note("the environment", env.span)]
            help = f"write {max(1, round(number.default / group)) * group}"
            self.sink.add(number_rules.DOES_NOT_FIT.at(number.span, message, notes=notes, help=help))
        return whole

    def _check_workers(self, workers: CollectingWorkers, data: OnPolicyData) -> None:
        """Report workers that share the conversations about one prompt, and conversations that batches would tear."""
        group = 1 if self.env.chat is None else self.env.chat.group
        groups, count = int(data.num_envs.default) // group, workers.count
        if groups % count.default:
            message = f"{count.default} workers do not divide the {groups} groups of {group} conversations"
            notes = [Note("the conversations side by side", data.num_envs.span)]
            help = f"write `{workers.kind}: {nearest_divisor(groups, count.default)}`"
            self.sink.add(number_rules.DOES_NOT_FIT.at(count.span, message, notes=notes, help=help))
        turns = 1 if self.env.chat is None else self.env.chat.max_turns
        if not workers.sync and turns != 1:
            span = self.file.key_span(*self.path, "workers", "sync")
            message = "conversations of several answers, of one worker after the other: not available yet"
            help = "leave out `sync`, so that a batch waits for the conversations of all workers"
            self.sink.add(schema_rules.NOT_AVAILABLE.at(span, message, help=help))

    def _check_turns(self, data: OnPolicyData, *, whole: bool) -> None:
        """Report conversations of several answers that batches would cut, or minibatches of `whole` groups."""
        turns = 1 if self.env.chat is None else self.env.chat.max_turns
        notes = [Note("the environment", self.env.span)]
        if turns is None:
            message = f"`{self.env.name}` has conversations without a limit, and a batch is of whole ones"
            help = "write `max_turns: 4`, say, in its `chat`"
            self.sink.add(model_rules.TORN.at(self.env.span, message, help=help))
        elif turns != 1 and data.num_steps.default != turns:
            message = f"`{self.env.name}` has conversations of up to {turns} answers, and a batch has {data.num_steps.default}"
            help = "leave it out: a batch has whole conversations"
            self.sink.add(model_rules.TORN.at(data.num_steps.span, message, notes=notes, help=help))
        elif turns != 1 and whole:
            torn = f"the {turns} answers of a conversation"
            check_whole_rows(data, torn, "conversations", model_rules.TORN, notes, self.sink)

    def _check_width(
        self, model: CheckedLanguageModel, data: OnPolicyData, workers: CollectingWorkers | None
    ) -> None:
        """Report rows that can't be stacked over steps; a batch of one worker has as many more as there are workers."""
        steps, span = data.num_steps.default, data.num_steps.span
        if workers is not None and not workers.sync:
            steps, span = steps * workers.count.default, workers.count.span
        if steps == 1 or model.pad_to is not None:
            return
        message = f"rows of `{model.name}` have another width in each of {steps} steps"
        notes = [Note("it is declared here", model.span)]
        help = f"write `pad_to: 512`, say, in `{model.name}`"
        self.sink.add(rules.RAGGED.at(span, message, notes=notes, help=help))


def _place(path: tuple[str, ...], loss: PipelineLoss) -> tuple[str, ...]:
    """Where the arguments of a loss stand."""
    return (*path, "loss", *([loss.name] if loss.name else []), loss.loss.name)


def _of_collectors(runs: Sequence[ModelInstance]) -> Iterator[ModelInstance]:
    """The transforms whose policy is the one of whatever runs the environment."""
    return (one for one in runs if "gen_model" in one.transform.models and "gen_model" not in one.models)
