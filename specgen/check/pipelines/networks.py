"""The networks of a pipeline: what each reads, how large its last layer is, and what becomes of that."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from specgen.check.losses.model import LossNetwork
from specgen.check.model import Entry, dotted
from specgen.check.pipelines.actions import ActionReader
from specgen.check.pipelines.distributions import choices_of, support_of
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.heads_model import (
    FeatureHead,
    Head,
    PolicyHead,
    QValueHead,
    ValueHead,
    ValueQuantiles,
    ValueSupport,
)
from specgen.check.pipelines.language_models import LanguageModelReader
from specgen.check.pipelines.layers import LayersReader
from specgen.check.pipelines.layers_model import Layers, PipelineTrunk
from specgen.check.pipelines.loss_arguments import LossArguments
from specgen.check.pipelines.mixers import MixerReader
from specgen.check.pipelines.model import PipelineNetwork, Setting
from specgen.check.pipelines.network_numbers import NetworkNumbers
from specgen.check.pipelines.policies import PolicyReader
from specgen.check.pipelines.reader import PartReader, PipelineContext
from specgen.check.pipelines.seen import Seen, wrong_groups
from specgen.check.pipelines.teams import mixed_role
from specgen.check.pipelines.unused_settings import report_unused_settings
from specgen.diagnostics import Note, suggestion
from specgen.diagnostics.rules import pipeline_groups as group_rules
from specgen.diagnostics.rules import pipeline_networks as layer_rules
from specgen.diagnostics.rules import pipelines as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.expr.sizes import Dim
from specgen.expr.symbols import Key
from specgen.schema.other_names import named_as
from specgen.schema.pipeline_networks import NetworkBody
from specgen.values import replace

_OF_POLICIES = ("dist", "scale", "actions")


class NetworkReader(PartReader):
    """Reads the networks of one pipeline, which has an environment and a loss."""

    def __init__(
        self,
        context: PipelineContext,
        env: PipelineEnv,
        loss: LossArguments,
        declared: Mapping[str, str],
        trunks: dict[str, PipelineTrunk],
    ) -> None:
        super().__init__(context)
        self.env, self.loss, self.declared = env.of_agent(loss.group), loss, declared
        self.seen = Seen(env, loss.group)
        self.layers = LayersReader(context, self.seen, trunks)
        self.actions = ActionReader(context, self.env, loss, declared)
        self.policies = PolicyReader(context, self.env, loss)

    def networks(self) -> tuple[PipelineNetwork, ...] | None:
        """The networks, in the order of the loss; None after reporting a mistake."""
        complete = True
        if not self.actions.fit():
            return None
        made: list[PipelineNetwork] = []
        for role in self.loss.loss.networks:
            name = self.declared.get(role.name)
            if name is None:
                complete = complete and role.optional
                continue
            found = self._network(name, role, self.pipeline.networks[name])
            if found is not None:
                made.append(found)
            complete = complete and found is not None
        return tuple(made) if complete else None

    def _network(self, name: str, role: LossNetwork, body: NetworkBody) -> PipelineNetwork | None:
        if body.causal_lm is not None or self.env.chat is not None:
            reader = LanguageModelReader(self.context, self.env, self.loss.loss.name)
            return reader.network(name, role, body)
        mixer = MixerReader(self.context, self.seen, self.loss)
        if (mixed := mixed_role(self.loss.loss, role)) is not None:
            return mixer.mixer(name, role, mixed, body)
        if body.mixer is not None:
            mixer.report_none(name)
            return None
        here = ("networks", name)
        span = self.file.key_span(*self.path, *here)
        several = len(role.outputs) > 1 or (role.kept and len(role.reads) != 1)
        if several or (role.buffers and not _of_a_support(role)):
            message = (
                f"networks as `{self.loss.loss.name}` has it for `{name}` are not available in pipelines yet"
            )
            self.sink.add(schema_rules.NOT_AVAILABLE.at(span, message))
            return None
        if not self._shared_rightly(name, role, body):
            return None
        if not self._may_have_its_layers(name, role, body) or (
            role.kept and not self._reads_a_tensor(name, body)
        ):
            return None
        usual = self._usual(role, body, self.layers)
        layers = self.layers.layers(name, body, usual, self._numbers_of(name, body))
        found = self._head(name, role, body)
        if layers is None or found is None or not self._reads_actions(name, role, body, usual, layers):
            return None
        head, outputs, sizes = found
        of_actions = isinstance(head, QValueHead)
        report_unused_settings(self.file, self.path, name, body, layers, self.sink, of_actions=of_actions)
        if not self._asks_for_sizes(name, role, body):
            return None
        if isinstance(head, PolicyHead) and head.explores_by_features and layers.joins_nothing:
            message = f"`gsde` reads the features of a last hidden layer, and `{name}` has none"
            place = self.file.key_span(*self.path, "policy", "explore", "gsde")
            notes, help = [Note("the policy", span)], f"write `{name}: {{mlp: [64, 64]}}`"
            self.sink.add(layer_rules.NOISE_OF_FEATURES.at(place, message, notes=notes, help=help))
            return None
        return PipelineNetwork(
            name=name,
            role=role,
            layers=layers,
            outputs=outputs,
            sizes=sizes,
            head=head,
            doc=" ".join(body.doc.split()),
            span=span,
            group=self.loss.group,
            per=body.per or "group",
        )

    def _may_have_its_layers(self, name: str, role: LossNetwork, body: NetworkBody) -> bool:
        """Whether members of an ensemble, or agents with parameters of their own, may have such layers."""
        own = "each member of an ensemble" if role.members is not None else "each agent"
        if role.members is None and body.per in (None, "group"):
            return True
        for field in ("trunk", "gru", "lstm"):
            if getattr(body, field) is not None:
                span = self.file.key_span(*self.path, "networks", name, field)
                message = (
                    f"{own} of `{name}` has parameters of its own, and with them a copy of its `{field}`"
                )
                if field == "trunk":
                    self.sink.add(layer_rules.TRUNK.at(span, message, help="give it the layers themselves"))
                else:
                    self.sink.add(layer_rules.STATE.at(span, message, help="leave it out"))
                return False
        if body.python is not None:
            span = self.file.key_span(*self.path, "networks", name, "python")
            message = f"layers of one's own for {own} of `{name}` are not available yet"
            self.sink.add(schema_rules.NOT_AVAILABLE.at(span, message, help="leave out `python`"))
            return False
        if role.members is None and (body.cnn is not None or body.embedding is not None):
            field = "cnn" if body.cnn is not None else "embedding"
            span = self.file.key_span(*self.path, "networks", name, field)
            message = f"`{field}` with parameters of their own for agents is not available yet"
            self.sink.add(schema_rules.NOT_AVAILABLE.at(span, message, help="leave out `per`"))
            return False
        return True

    def _reads_a_tensor(self, name: str, body: NetworkBody) -> bool:
        """Whether a network that its loss calls with a tensor reads nothing else."""
        for field in ("in", "trunk", "gru", "lstm"):
            if getattr(body, "in_" if field == "in" else field):
                span = self.file.key_span(*self.path, "networks", name, field)
                message = f"`{self.loss.loss.name}` gives `{name}` what it reads, a tensor"
                self.sink.add(rules.NETWORK_INPUT.at(span, message, help=f"leave out `{field}`"))
                return False
        return True

    def _numbers_of(self, name: str, body: NetworkBody) -> NetworkNumbers:
        return NetworkNumbers(self.context, name, body, self.loss.loss.name)

    def _shared_rightly(self, name: str, role: LossNetwork, body: NetworkBody) -> bool:
        """Whether the agents of a network, and the groups that it sees, are such; policies that see others are reported."""
        here = (*self.path, "networks", name)
        if self.loss.group is None and body.per is not None:
            message = f"`{name}` is of no group of agents"
            span = self.file.key_span(*here, "per")
            self.sink.add(group_rules.AGENTS_OF_NETWORK.at(span, message, help="leave out `per`"))
        wrong = wrong_groups(self.file, here, body, self.seen) if body.of else None
        if wrong is not None:
            self.sink.add(wrong)
            return False
        central = "of" if body.of else "per" if body.per == "all" else ""
        alone = self.loss.group is not None and self.loss.group.size == 1 and not body.of
        if self.loss.group is not None and central and not alone and self._acts(role):
            whom = " and ".join(f"`{one}`" for one in body.of or (self.loss.group.name,))
            message = f"each agent's action depends on what all of {whom} observe"
            help = f"leave out `{central}` for a policy that each agent can follow by itself"
            span = self.file.key_span(*here, central)
            self.sink.add(group_rules.CENTRAL_POLICY.at(span, message, help=help))
        return True

    def _acts(self, role: LossNetwork) -> bool:
        """Whether agents act by a network: a policy, or the values of actions of a loss that has no policy."""
        policies = [one for one in self.loss.loss.networks if one.policy or self.actions.gives_action(one)]
        return role in policies if policies else role.action is not None

    def _usual(self, role: LossNetwork, body: NetworkBody, layers: LayersReader) -> list[Entry]:
        """What a network reads where it doesn't say it: what the loss says, or all that is observed."""
        known = {entry.dotted: entry for entry in (*self.env.observations, *self.env.actions)}
        keys = {one.name: dotted(one.key) for one in self.loss.loss.roles}
        group = () if self.loss.group is None else (self.loss.group.name,)
        found: list[Entry] = []
        for one in role.reads if role.kept else role.inputs or ("observation",):
            key = keys.get(one, dotted((*group, one))).removeprefix("next.")
            if key in known:
                found.append(known[key])
            elif one == "observation":
                found += layers.observed(body)
            else:
                found += [entry for entry in self.env.actions if one == "action"]
        return self.seen.with_other_groups(body, found)

    def _reads_actions(
        self, name: str, role: LossNetwork, body: NetworkBody, usual: Sequence[Entry], layers: Layers
    ) -> bool:
        """Whether a network that values actions reads them, where it says what it reads."""
        if "action" not in role.inputs or any(entry.role == "action" for entry in layers.reads):
            return True
        actions = [entry.dotted for entry in usual if entry.role == "action"]
        if not body.in_ or not actions:
            return True
        message = f"`{name}` values actions, and does not read `{actions[0]}`"
        help = f"write `in: [{', '.join((*body.in_, *actions))}]`"
        span = self.file.key_span(*self.path, "networks", name, "in")
        self.sink.add(rules.NETWORK_INPUT.at(span, message, help=help))
        return False

    def _head(
        self, name: str, role: LossNetwork, body: NetworkBody
    ) -> tuple[Head, int, tuple[Setting, ...]] | None:
        """The head, and how many numbers its last layer gives: the product of one that is known and of others."""
        if role.policy or self.actions.gives_action(role):
            key = self.actions.key(name)
            if key is None:
                return None
            found = self.policies.head(name, role, body, self.env.actions, key)
            return None if found is None else (found, found.outputs, ())
        for field in _OF_POLICIES:
            if getattr(body, field):
                span = self.file.key_span(*self.path, "networks", name, field)
                message = f"`{name}` is no policy, and has no `{field}`"
                self.sink.add(rules.DISTRIBUTION.at(span, message, help="leave it out"))
                return None
        if role.action is not None and len(role.value.dims) <= 2:
            valued = self._qvalue(name, role, body)
            return None if valued is None else (replace(valued[0], dueling=body.dueling), valued[1], ())
        if body.support is not None:
            self._numbers_of(name, body).no_support()
            return None
        sizes = [self._size(name, size, body) for size in role.value.sizes]
        if None in sizes:
            return None
        known = math.prod(size for size in sizes if isinstance(size, int))
        open = tuple(size for size in sizes if isinstance(size, Setting))
        if role.kept:
            return FeatureHead(), known, open
        (output, _), *_ = role.outputs
        key = next(one.key for one in self.loss.loss.roles if output in (one.name, one.accepted))
        return ValueHead(key), known, open

    def _size(self, name: str, size: Dim, body: NetworkBody) -> int | Setting | None:
        if isinstance(size, int):
            return size
        if str(size) in body.out:
            return self.layers.size(name, body.out[str(size)], "out", str(size))
        action = self.env.actions[0] if len(self.env.actions) == 1 else None
        if str(size) == "n_actions" and action is not None and action.spec.n:
            return action.spec.classes
        unknown = next((one for one in body.out if named_as(one, [str(size)])), None)
        if unknown is not None:
            span = self.file.key_span(*self.path, "networks", name, "out", unknown)
            message = f"`{self.loss.loss.name}` leaves no size `{unknown}` of `{name}` open"
            self.sink.add(rules.NETWORK.at(span, message, help=f"it is called `{size}` here"))
            return None
        message = f"the loss leaves open how large `{size}` is, which `{name}` writes"
        help = f"say it: `{name}: {{out: {{{size}: 64}}}}`"
        self.sink.add(rules.NETWORK.at(self.file.key_span(*self.path, "networks", name), message, help=help))
        return None

    def _asks_for_sizes(self, name: str, role: LossNetwork, body: NetworkBody) -> bool:
        """Whether the loss leaves all sizes open that `out` says."""
        left_open = {str(size) for size in role.value.sizes if not isinstance(size, int)}
        wrong = [size for size in body.out if size not in left_open]
        for size in wrong:
            message = f"`{self.loss.loss.name}` leaves no size `{size}` of `{name}` open"
            help = suggestion(size, left_open) or "leave it out"
            span = self.file.key_span(*self.path, "networks", name, "out", size)
            self.sink.add(rules.NETWORK.at(span, message, help=help))
        return not wrong

    def _mask(self, action: Entry) -> Key | None:
        mask = self.env.masks.get(action.dotted)
        return None if mask is None else tuple(mask.split("."))

    def _qvalue(self, name: str, role: LossNetwork, body: NetworkBody) -> tuple[QValueHead, int] | None:
        if self.actions.key(name) is None:
            return None
        (action,) = self.env.actions
        if role.choices:
            choices = choices_of(action.spec)
            if body.support is not None:
                self._numbers_of(name, body).no_support()
                return None
            return QValueHead(action, self._mask(action), choices=choices), sum(choices)
        if support_of(action.spec) not in ("index", "onehot"):
            span = self.file.key_span(*self.path, "networks", name)
            message = f"`{name}` gives a value for each action of a finite set, and `{action.dotted}` is {action.spec}"
            help = "take a loss for actions that are numbers: `SACLoss`, `TD3Loss`, `DDPGLoss`"
            self.sink.add(rules.DISTRIBUTION.at(span, message, help=help))
            return None
        if body.support is not None and not _of_a_support(role):
            self._numbers_of(name, body).no_support()
            return None
        if len(role.value.dims) == 1:
            return QValueHead(action, self._mask(action)), action.spec.classes
        size = role.value.sizes[0]
        distribution: ValueSupport | ValueQuantiles | None
        if role.buffers:
            distribution = self._numbers_of(name, body).support(size)
        else:
            count = self._size(name, size, body)
            distribution = None if count is None else ValueQuantiles(count)
        if distribution is None:
            return None
        return QValueHead(action, self._mask(action), distribution), action.spec.classes


def _of_a_support(role: LossNetwork) -> bool:
    """Whether a network gives the probabilities of values that a buffer of it holds, for each action."""
    return set(role.buffers) == {"support"} and role.action is not None and len(role.value.dims) == 2
