"""The parts of a pipeline, in the order in which they are made, and what of them a checkpoint holds."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.pipelines.acting import draws
from specgen.check.pipelines.data_model import OnPolicyData, PipelineData, RecordedData, ReplayData
from specgen.check.pipelines.layers_model import PipelineTrunk, are_recurrent, trunks_of
from specgen.check.pipelines.model import (
    CheckedPipeline,
    PipelineLoss,
    PipelineNetwork,
    PipelineOptimizer,
)
from specgen.check.pipelines.targets_model import TargetUpdates
from specgen.code import Code, using
from specgen.expr.symbols import Key
from specgen.literals import literal
from specgen.plan.pipelines.acting import acting_parts
from specgen.plan.pipelines.devices import device_of, storage_device
from specgen.plan.pipelines.environments import OPTIMIZER, UPDATER, action_spec, environments, made_part
from specgen.plan.pipelines.hindsight import hindsight_uses, in_hindsight
from specgen.plan.pipelines.language_models import (
    acting_model,
    further_model,
    further_models,
    language_models,
    recorded_chats,
    scored_by,
    scoring,
)
from specgen.plan.pipelines.model import StatePlan
from specgen.plan.pipelines.networks import call_of, call_of_trunk
from specgen.plan.spec_text import key_text

_CLASSES = {"adam": "Adam", "adamw": "AdamW", "sgd": "SGD", "rmsprop": "RMSprop"}
_ESTIMATORS = {
    "td0": "TD0",
    "td1": "TD1",
    "td_lambda": "TDLambda",
    "gae": "GAE",
    "vtrace": "VTrace",
    "multi_agent_gae": "MAGAE",
}


def optimizer_part(optimizer: PipelineOptimizer) -> str:
    """The attribute of an optimizer."""
    return f"{optimizer.name}_optimizer" if optimizer.name else "optimizer"


def norm_part(optimizer: PipelineOptimizer) -> str:
    """The attribute of the norm that gradients of an optimizer are scaled down to, where that changes in training."""
    return f"{optimizer.name}_max_grad_norm" if optimizer.name else "max_grad_norm"


def keeps_recorded_apart(data: PipelineData) -> bool:
    """Whether recorded transitions are kept beside those that are collected."""
    return isinstance(data, ReplayData) and data.fraction is not None


def shuffles(data: PipelineData) -> bool:
    """Whether something draws the order of frames in minibatches."""
    return isinstance(data, OnPolicyData) and data.shuffle


def parts_of(pipeline: CheckedPipeline) -> Iterator[Code]:
    """The parts, in order."""
    recurrent = are_recurrent(pipeline.networks)
    learning = f"self.{device_of(pipeline, 'loss')}"
    talking = language_models(pipeline)
    if not recurrent and not talking:
        yield from environments(pipeline)
    if _explores(pipeline):
        yield made_part("exploring", _generator("exploration", f"self.{device_of(pipeline, 'policy')}"))
    drawing = any(loss.draws for loss in pipeline.losses)
    apart = pipeline.devices.apart
    if drawing and apart:
        yield made_part("drawing", _generator("loss", learning))
    for trunk in trunks_of(pipeline.networks):
        made = call_of_trunk(trunk)
        yield made_part(trunk.name, using(f"{made}.to({learning}){_frozen(trunk)}", *made.uses))
    for network in pipeline.networks:
        if network.language_model is not None:
            yield from acting_model(pipeline, network, network.language_model)
            continue
        made = call_of(network, "drawing" if drawing and apart else "exploring")
        yield _network(pipeline, network, using(f"{made}.to({learning}){_frozen(network)}", *made.uses))
    for model in further_models(pipeline):
        yield further_model(pipeline, model)
    if talking:
        yield from environments(pipeline)  # which run the models
    if not apart:
        yield from acting_parts(pipeline)
    if drawing and not apart:
        yield made_part("drawing", _generator("loss", learning))
    for loss in pipeline.losses:
        part = loss.part("loss")
        yield made_part(part, _loss(pipeline, loss))
        if loss.keys:
            words = ", ".join(f"{role}={key_text(key)}" for role, key in loss.keys.items())
            yield using(f"self.{part}.set_keys({words})")
        if loss.draws:
            yield made_part(f"{part}.generator", using("self.drawing"))
        if loss in pipeline.estimated and loss.estimation and loss.estimation.kind in _ESTIMATORS:
            yield made_part(loss.part("estimator"), using(f"self.{part}.value_estimator"))
    for bonus in pipeline.bonuses:
        given = f"config.{bonus.coeff.name}, num_envs=config.{bonus.num_envs.name}"
        given += f", gamma=config.{bonus.gamma.name}" if bonus.gamma is not None else ""
        added = f"RewardBonus({given}).to({learning})"
        yield made_part(f"{bonus.name}_reward", using(added, "RewardBonus"))
    for targets in pipeline.targets:
        changes = targets.amount.schedule is not None  # then the loop sets its `tau`
        yield made_part(targets.part, _updater(targets), None if changes else UPDATER)
    for optimizer in pipeline.optimizers:
        yield made_part(optimizer_part(optimizer), _optimizer(pipeline, optimizer), OPTIMIZER)
        norm = optimizer.max_grad_norm
        if norm is not None and norm.schedule is not None:  # `update` reads what it is at present
            yield made_part(norm_part(optimizer), using(f"config.{norm.name}"))
    if apart:  # behind all that draws first weights: copies change none of them
        yield from acting_parts(pipeline)
    yield from _data(pipeline)


def _frozen(network: PipelineNetwork | PipelineTrunk) -> str:
    """What stands behind a network whose weights stay as they are."""
    return ".requires_grad_(False)" if network.layers.frozen else ""


def _network(pipeline: CheckedPipeline, network: PipelineNetwork, made: Code) -> Code:
    """The statement that makes a network; of an ensemble whose first weights are said, one for each member."""
    if network.role.members is None or network.layers.orthogonal is None:
        return made_part(network.attribute, made)
    count = next(_members(loss, network.role.members) for loss in pipeline.losses if network in loss.networks)
    members = f"[{made} for _ in range({count})]"
    return using(f"self.{network.attribute}: list[nn.Module] = {members}", *made.uses, "nn")


def _members(loss: PipelineLoss, name: str) -> str:
    """How many members an ensemble has: a hyper-parameter, an argument of the loss, or its default."""
    if name in loss.settings:
        return f"config.{loss.settings[name].name}"
    usual = next(param.default for param in loss.loss.params if param.name == name)
    return literal(loss.arguments.get(name, usual))


def state_of(pipeline: CheckedPipeline) -> Iterator[StatePlan]:
    """What a checkpoint holds, in order."""
    names = [loss.part("loss") for loss in pipeline.losses]
    names += [f"{bonus.name}_reward" for bonus in pipeline.bonuses]
    names += [targets.part for targets in pipeline.targets]
    names += [optimizer_part(one) for one in pipeline.optimizers]
    data = pipeline.data
    if not isinstance(data, RecordedData):
        names.append("collector")
    if isinstance(data, ReplayData) and data.n_step is not None:
        names.append("multi_step")
    for name in names:
        yield StatePlan(
            name, f"self.{name}.state_dict()", f"self.{name}.load_state_dict(state[{literal(name)}])"
        )
    for name in _generators(pipeline):
        restored = using(f"load_generator(self.{name}, state[{literal(name)}])", "load_generator")
        yield StatePlan(name, f"self.{name}.get_state()", restored)


def _generators(pipeline: CheckedPipeline) -> Iterator[str]:
    """The generators of random numbers, but for those that a buffer or a collector keeps itself."""
    if _explores(pipeline):
        yield "exploring"
    if any(loss.draws for loss in pipeline.losses):
        yield "drawing"
    if shuffles(pipeline.data):
        yield "shuffling"
    if isinstance(pipeline.data, RecordedData) or keeps_recorded_apart(pipeline.data):
        yield "sampling"


def _explores(pipeline: CheckedPipeline) -> bool:
    """Whether something draws actions."""
    return pipeline.acting.exploration is not None or any(map(draws, pipeline.networks))


def _generator(stream: str, device: str | None = None) -> Code:
    made = f"torch.Generator({device or ''}).manual_seed(stream(config.seed, {literal(stream)}))"
    return using(made, "torch", "stream")


def _loss(pipeline: CheckedPipeline, loss: PipelineLoss) -> Code:
    words = [f"{network.role.name}={scoring(loss, network)}" for network in loss.networks]
    words += [f"{name}={literal(value)}" for name, value in loss.arguments.items()]
    words += [f"{name}=config.{setting.name}" for name, setting in loss.settings.items()]
    for name, pair in loss.pairs.items():
        words.append(f"{name}=({', '.join(f'config.{one.name}' for one in pair)})")
    for name, numbers in loss.by_action.items():
        each = (f"{key_text(key)}: config.{one.name}" for key, one in numbers.items())
        words.append(f"{name}={{{', '.join(each)}}}")
    keywords = {word for domain in loss.loss.domains for word in domain.keywords}
    elsewhere = ".to(self.loss_device)" if pipeline.devices.apart else ""
    if "action_spec" in keywords:
        spec = action_spec(pipeline, loss.group)
        if (
            loss.group is not None and "bounds" in keywords
        ):  # asked for before the loss knows where its action is
            (key,) = (role.key for role in loss.loss.roles if role.name == "action")
            spec += f"[{', '.join(map(literal, key))}]"
        words.append(f"action_spec={spec}{elsewhere}")
    made, uses = f"{loss.loss.name}({', '.join(words)})", [loss.loss.name]
    estimation = loss.estimation
    if estimation is not None and estimation.kind in _ESTIMATORS:
        given = [f"ValueEstimators.{_ESTIMATORS[estimation.kind]}"]
        given += [f"{name}=config.{setting.name}" for name, setting in estimation.settings.items()]
        given += [f"{name}={literal(value)}" for name, value in estimation.arguments.items()]
        made += f".make_value_estimator({', '.join(given)})"
        uses.append("ValueEstimators")
    return using(made, *uses)


def _updater(targets: TargetUpdates) -> Code:
    """The call that makes what moves targets."""
    name = "SoftUpdate" if targets.kind == "soft" else "HardUpdate"
    word = "tau" if targets.kind == "soft" else "value_network_update_interval"
    words = [f"self.{targets.loss}", f"{word}=config.{targets.amount.name}"]
    words += [f"networks={literal(list(targets.networks))}"] if targets.networks else []
    return using(f"{name}({', '.join(words)})", name)


def _optimizer(pipeline: CheckedPipeline, optimizer: PipelineOptimizer) -> Code:
    found: dict[Code, bool] = {}  # whether it gives several; losses may share trunks
    for loss in pipeline.losses:
        part = f"self.{loss.part('loss')}"
        mine = [name for name in loss.trainable if name in optimizer.parts]
        whole = all(one.role.trains and not one.layers.frozen for one in loss.networks)
        whole = whole and not any(trunk.layers.frozen for trunk in trunks_of(loss.networks))
        whole = whole and (len(pipeline.losses) == 1 or not trunks_of(pipeline.networks))
        if whole and len(mine) == len(loss.trainable):
            found[Code(f"{part}.parameters()")] = True
            continue
        # members are copies that the loss makes; a single network keeps its own parameters
        owners = {
            one.name: Code(
                f"{part}.{one.role.name}_params.parameters()"
                if one.role.members
                else f"self.{one.attribute}.parameters()"
            )
            for one in loss.networks
        }
        owners |= {one.name: _own(one.attribute) for one in loss.networks if one.layers.trunk is not None}
        owners |= {trunk.name: _own(trunk.name) for trunk in trunks_of(pipeline.networks)}
        for name in mine:
            found[owners.get(name) or Code(f"{part}.{loss.learned[name]}")] = name in owners
    listed = ", ".join(f"*{one}" if several else str(one) for one, several in found.items())
    moved = str(*found) if [*found.values()] == [True] else f"[{listed}]"
    words = [moved, f"lr=config.{optimizer.lr.name}"]
    settings = {name: f"config.{one.name}" for name, one in optimizer.settings.items()}
    if "beta1" in settings or "beta2" in settings:
        words.append(f"betas=({settings.pop('beta1', '0.9')}, {settings.pop('beta2', '0.999')})")
    words += [f"{name}={value}" for name, value in settings.items()]
    own = frozenset[str]().union(*(one.uses for one in found))
    kind = _CLASSES[optimizer.kind]
    if optimizer.kind in ("adam", "adamw"):
        return using(f"{kind}({', '.join(words)})", kind, *own)
    return using(f"torch.optim.{kind}({', '.join(words)})", "torch", *own)


def _own(attribute: str) -> Code:
    """The parameters of a module that stands on a trunk, or is one, without those of trunks below it."""
    return using(f"own_parameters(self.{attribute})", "own_parameters")


def _priority_key(loss: PipelineLoss) -> Key | None:
    """Where a loss writes the priorities of frames; None where it writes none."""
    written = {one.name for one in loss.loss.writes}
    return next((one.key for one in loss.loss.roles if one.name == "priority" and one.name in written), None)


def _data(pipeline: CheckedPipeline) -> Iterator[Code]:
    data = pipeline.data
    if isinstance(data, OnPolicyData):
        if shuffles(data):
            yield made_part("shuffling", _generator("minibatches"))
        return
    if isinstance(data, RecordedData):
        place = storage_device(pipeline)
        yield made_part("sampling", _generator("buffer", place))
        found, uses = _loaded(pipeline), ["load_recorded"]
        words: list[str] = []
        if data.conversations is not None:
            # When it is made: it may import types of this module.
            yield using(f"from {data.conversations.module} import {data.conversations.name} as recorded")
            found, uses = recorded_chats(pipeline)
            words, more = scored_by(pipeline, data)
            uses += more
        storage = f"TensorStorage({found}, device={place or literal('auto')})"
        words = [
            f"storage={storage}",
            *words,
            f"batch_size=config.{data.batch_size.name}",
            "generator=self.sampling",
        ]
        made = f"TensorDictReplayBuffer({', '.join(words)})"
        yield made_part("buffer", using(made, "TensorDictReplayBuffer", "TensorStorage", *uses))
        return
    if data.n_step is not None and data.gamma is not None:
        made = f"MultiStepTransform(config.{data.n_step.name}, config.{data.gamma.name})"
        yield made_part("multi_step", using(made, "MultiStepTransform"))
    capacity = f"config.{data.capacity.name}"
    name = "LazyMemmapStorage" if data.storage == "memmap" else "LazyTensorStorage"
    place = storage_device(pipeline)
    given = capacity if place is None else f"{capacity}, device={place}"
    given += ", ndim=2" if data.in_order else ""
    words, uses = [f"storage={name}({given})"], ["TensorDictReplayBuffer", name]
    if data.sampler == "prioritized":
        assert data.alpha is not None
        assert data.beta is not None
        given = f"{capacity}, alpha=config.{data.alpha.name}, beta=config.{data.beta.name}"
        yield made_part("sampler", using(f"PrioritizedSampler({given})", "PrioritizedSampler"))
        words.append("sampler=self.sampler")
        key = next(filter(None, map(_priority_key, pipeline.losses)), ("td_error",))
        words += [f"priority_key={key_text(key)}"] if key != ("td_error",) else []
    elif data.sampler == "without_replacement":
        words.append("sampler=SamplerWithoutReplacement()")
        uses.append("SamplerWithoutReplacement")
    elif data.slice_length is not None:  # where a slice begins, networks go on from the state that is stored
        words.append(f"sampler=SliceSampler(slice_len=config.{data.slice_length.name}, init_key=None)")
        uses.append("SliceSampler")
    elif data.hindsight is not None:
        goals = in_hindsight(pipeline, data.hindsight)
        words, uses = [*goals, *words], ["HERReplayBuffer", name, *hindsight_uses(pipeline)]
    size = f"config.{data.batch_size.name}"
    recorded_size = "" if data.fraction is None else f"round(config.{data.fraction.name} * {size})"
    rest = f"{size} - {recorded_size}" if recorded_size else size
    words += [f"batch_size={rest}", f"generator={_generator('buffer', place)}"]
    made = f"{uses[0]}({', '.join(words)})"
    yield made_part("buffer", using(made, *uses, "stream", "torch"))
    if recorded_size:
        yield made_part("sampling", _generator("recorded", place))
        storage = f"TensorStorage({_loaded(pipeline)}, device={place or literal('auto')})"
        made = (
            f"TensorDictReplayBuffer(storage={storage}, batch_size={recorded_size}, generator=self.sampling)"
        )
        yield made_part("recorded_buffer", using(made, "TensorStorage", "load_recorded"))
    elif data.recorded is not None:
        yield using(f"self.buffer.extend({_loaded(pipeline, f'at_most={capacity}')})", "load_recorded")


def _loaded(pipeline: CheckedPipeline, *further: str) -> str:
    """The call that reads recorded transitions, whose entries may have other names in their files."""
    data = pipeline.data
    assert not isinstance(data, OnPolicyData)
    # all are said: what is read may follow from others, the next observation from where episodes end
    keys = {key_text(here): key_text(there) for here, there in data.keys.items()}
    renamed = (f"keys={{{', '.join(f'{here}: {there}' for here, there in keys.items())}}}",) if keys else ()
    return f"load_recorded({', '.join(('config.recorded', 'self.recorded', *renamed, *further))})"
