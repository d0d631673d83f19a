"""The transforms that run language models, as chains may name them: what each is given, reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from specgen.check.language_models.model import CheckedLanguageModel
from specgen.check.model import Entry, Parameter
from specgen.expr.symbols import Key
from specgen.values import dataclass, replace

ESTIMATORS = ("k1", "abs", "k2", "k3", "k3+", "k3_is")
"""Those that log-probabilities of tokens tell; two models tell `full`, too."""

_POSITIVE = ((">", 0.0),)
_PENALTY = (
    Parameter("add_to_reward", "bool", True),
    Parameter("estimator", "enum", "k1", choices=ESTIMATORS),
    Parameter("level", "enum", "token", choices=("token", "sequence")),
    Parameter("bound", "float", 10.0, range=_POSITIVE),
    Parameter("spread", "enum", "sum", choices=("sum", "tokens")),
    Parameter("check_finite", "bool", True),
    Parameter("target_kl", "float", None, range=_POSITIVE, optional=True),
    Parameter("horizon", "float", 10_000.0, range=_POSITIVE),
)
_FULL_PENALTY = tuple(
    replace(param, choices=(*ESTIMATORS, "full")) if param.name == "estimator" else param
    for param in _PENALTY
)
_ASSISTANT_ONLY = Parameter("assistant_only", "bool", True)
_DETACH = Parameter("detach", "bool", True)
_EMPTY = Parameter("empty", "enum", "error", choices=("error", "zero"))


@dataclass(frozen=True)
class Texts:
    """A keyword for text.

    Attributes:
        name: the keyword.
        listed: whether it is a list of texts.
        ids: whether ids of tokens may stand in it, too.
    """

    name: str
    listed: bool = True
    ids: bool = False
    default: None = None


_RAY = (
    Parameter("use_ray_service", "bool", False),
    Parameter("num_gpus", "float", None, range=((">=", 0.0),), optional=True),
    Parameter("num_cpus", "float", None, range=((">=", 0.0),), optional=True),
    Parameter("replicas", "int", 1, range=((">=", 1.0),)),
    Parameter("lifetime", "enum", None, choices=("detached",), optional=True),
    Parameter("timeout", "float", None, range=_POSITIVE, optional=True),
)
_ROLES, _EXCLUDE, _NAME = Texts("roles"), Texts("exclude_tokens", ids=True), Texts("actor_name", listed=False)
_MASK = {"mask_key": None}


@dataclass(frozen=True)
class ModelTransform:
    """A transform of the runtime that runs language models, or computes with what they write.

    Attributes:
        name: its class.
        models: its keywords for models; with each whether it has to be given.
        keys: its keywords for keys, with their defaults as the language writes them; an empty one follows from a model,
            and there is none in place of None.
        params: its other keywords for values.
        texts: its keywords for text.
        coefficient: the keyword of the penalty's coefficient; empty where it writes no penalty.
    """

    name: str
    models: Mapping[str, bool]
    keys: Mapping[str, str | None]
    params: tuple[Parameter, ...]
    coefficient: str = ""
    texts: tuple[Texts, ...] = ()

    @property
    def arguments(self) -> tuple[Parameter | Texts, ...]:
        """What it takes besides models and keys."""
        return (*self.params, *self.texts)

    @property
    def keywords(self) -> tuple[str, ...]:
        """All that a chain may give it."""
        return (*self.models, *self.keys, *(param.name for param in self.arguments))

    @property
    def of_actors(self) -> tuple[Parameter | Texts, ...]:
        """Those for the processes that models run in."""
        return tuple(param for param in self.arguments if param in (*_RAY[1:], _NAME))


MODEL_TRANSFORMS: Mapping[str, ModelTransform] = {
    one.name: one
    for one in (
        ModelTransform(
            "RetrieveKL",
            {"gen_model": False, "ref_model": True},
            {
                "gen_log_probs_full_key": "log_probs.full",
                "ref_log_probs_full_key": "ref_log_probs.full",
                "kl_key": "kl_penalty",
                **_MASK,
            },
            (_ASSISTANT_ONLY, Parameter("coeff", "float", 1.0), _DETACH, _EMPTY, *_RAY, *_FULL_PENALTY),
            "coeff",
            (_ROLES, _EXCLUDE, _NAME),
        ),
        ModelTransform(
            "RetrieveLogProb",
            {"model": True},
            {"log_probs_full_key": "", **_MASK},
            (_ASSISTANT_ONLY, _DETACH, _EMPTY),
            texts=(_ROLES, _EXCLUDE),
        ),
        ModelTransform(
            "KLComputation",
            {},
            {
                "gen_log_probs_full_key": "log_probs.full",
                "ref_log_probs_full_key": "ref_log_probs.full",
                "kl_key": "kl_penalty",
                **_MASK,
            },
            (Parameter("coeff", "float", 1.0), *_PENALTY),
            "coeff",
        ),
        ModelTransform(
            "KLRewardTransform",
            {"ref_model": True},
            {
                "log_prob_key": "log_probs.full",
                "kl_key": "kl_penalty",
                "ref_log_probs_key": "ref_log_probs",
                **_MASK,
            },
            (_ASSISTANT_ONLY, Parameter("coef", "float", 1.0), *_RAY, *_PENALTY),
            "coef",
            (_EXCLUDE, _NAME),
        ),
    )
}
"""The transforms that chains know without a declaration, by their names."""

FROM_COLLECTOR = "from_collector"
"""What stands for the policy of whatever runs the environment."""


@dataclass(frozen=True)
class ModelInstance:
    """Such a transform at its position of a chain.

    Attributes:
        path: its declaration path, `chains.C.transforms[1]`.
        position: its index in the chain.
        models: the model of each keyword for one; those of the collector are not among them.
        keys: the key of each keyword for one.
        params: the value of each other keyword.
        given: which of the other keywords are written out.
        writes: the entries that it leaves behind.
    """

    path: str
    position: int
    transform: ModelTransform
    models: Mapping[str, CheckedLanguageModel]
    keys: Mapping[str, Key]
    params: Mapping[str, Any]
    given: tuple[str, ...]
    writes: tuple[Entry, ...]

    @property
    def written(self) -> frozenset[str]:
        """The keys that are others behind it: new ones, and the reward that it takes the penalty from."""
        penalised = self.transform.coefficient and self.params["add_to_reward"]
        return frozenset(entry.dotted for entry in self.writes) | ({"reward"} if penalised else frozenset())


def given_models(instances: Iterable[ModelInstance]) -> tuple[CheckedLanguageModel, ...]:
    """The models that the constructor of a chain with these is given, in the order in which they are named.

    Those of Ray's actors are made there.
    """
    found = {
        (model.module, model.name): model
        for instance in instances
        if not instance.params.get("use_ray_service")
        for model in instance.models.values()
    }
    return tuple(found.values())
