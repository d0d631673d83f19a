"""What generated modules read without declaring it: what they import, and Python's own functions.

The planner finds the imports of a module here; the checker, what no declaration may be called.
"""

from __future__ import annotations

from specgen.values import dataclass


@dataclass(frozen=True)
class Import:
    """`from module import name`, or `import module` when there is no name; with an alias `from module import name as alias`."""

    module: str
    name: str | None = None
    typing_only: bool = False
    alias: str | None = None

    @property
    def text(self) -> str | None:
        """What stands behind `import`; None where the module is imported."""
        return self.name if self.alias is None else f"{self.name} as {self.alias}"


FUNCTIONAL = (
    "broadcast_tensors",
    "categorical_quantile",
    "class_indices",
    "euler",
    "expit",
    "index_in_range",
    "poisson_quantile",
    "resize_image",
    "rk4",
    "vector_norm",
)
"""The functions of `specgen_runtime.functional` that expressions call by their bare names."""

LEAF_SPECS = frozenset(
    (
        "Binary",
        "Bounded",
        "Categorical",
        "MultiCategorical",
        "MultiOneHot",
        "NonTensor",
        "OneHot",
        "Unbounded",
    )
)
"""The specs of single entries."""
_RUNTIME_SPECS = ("Composite", "TensorSpec", *LEAF_SPECS)
_RUNTIME_TRANSFORMS = {
    "arguments": ("as_float_tensor", "as_numbers", "dtype_name", "in_dtype"),
    "around": ("RepeatTransform", "SkipTransform"),
    "reset_steps": ("ResetStepsTransform",),
    "dtypes": ("ANY_DTYPES", "FLOAT_DTYPES", "NUMBER_DTYPES"),
    "follows": ("Follows",),
    "generated": ("INPUTS", "GeneratedTransform"),
    "keys": ("in_order", "leaf_name", "normal_key", "normal_keys", "rename_leaf", "sibling"),
    "like": ("bounded_like", "flag_like", "shaped_like", "unbounded_like"),
    "outer": ("choices_like",),
    "python": ("PythonTransform", "python_object"),
    "python_recursion": ("PythonRecursion",),
    "python_rows": ("GivenRows", "ObjectOfRows", "ReadRows", "RecordedRows"),
    "recursion": ("RecordedTimes", "RecursionTransform"),
    "new_rows": ("NewRows", "OneRow", "batch_count", "batch_mean", "batch_rank", "batch_sum"),
    "statistics": ("BufferSpec", "LearningTransform"),
    "compose": ("Compose",),
    "env": ("TransformedEnv",),
    "unfused": ("Unfused",),
}
_RUNTIME_CHATS = ("Message", "Scores")
_RUNTIME_ENVS = (
    "Draws",
    "EnvBase",
    "EnvSpecs",
    "GeneratedEnv",
    "GeneratedGymEnv",
    "GeneratedPythonEnv",
    "GymDynamics",
    "SimulatorDynamics",
    "VectorDynamics",
)
ROW_VALUES = (
    "filled_row",
    "row_concat",
    "row_max",
    "row_min",
    "row_number",
    "row_resized",
    "row_sqrt",
    "row_tile",
)
"""What steps and updates by NumPy call."""

_RUNTIME_LEARNING = ("LearnedStatistics", "LearningChain")
_RUNTIME_LIFTING = (
    "affine_before",
    "all_before",
    "any_before",
    "counts_before",
    "kept_before",
    "maxima_before",
    "minima_before",
    "products_before",
    "shifted_before",
    "sums_before",
)
_RUNTIME_TYPING = (
    "Array",
    "ArrayLike",
    "DEVICE_TYPING",
    "Entries",
    "NestedKey",
    "TensorDict",
    "TensorDictBase",
)
_RUNTIME_TYPED = (
    "Actions",
    "Dones",
    "NoState",
    "Observations",
    "OneAction",
    "OneReward",
    "Rewards",
    "States",
    "TypedTensorDict",
)
_RUNTIME_LOSSES = (
    "Coefficient",
    "LossModule",
    "LossPart",
    "Normalizer",
    "PartWeights",
    "Reduction",
    "ScalarOutputMode",
    "ValueEstimators",
    "ValueNorm",
    "action_size",
    "adapt",
    "add_bounds",
    "add_coefficient",
    "add_coefficient_parts",
    "add_learnable",
    "add_part_names",
    "add_part_weights",
    "as_pair",
    "as_policy",
    "bernoulli_of",
    "check_returned",
    "check_support",
    "chosen_members",
    "coefficient_part",
    "distance_loss",
    "estimate_each",
    "exponential_of",
    "given_policy",
    "in_loss_modes",
    "input_gradient",
    "is_random_policy",
    "joined_values",
    "member_gradients",
    "moved_between",
    "entries_of_parts",
    "has_parts",
    "network_buffer",
    "next_key",
    "normal_like",
    "project",
    "not_none",
    "own_buffer",
    "pair_param",
    "part_weights",
    "parts_of",
    "read_between",
    "settle",
    "settled",
    "switched",
    "term_alone",
    "uniform_like",
    "with_methods",
)
_RUNTIME_SAMPLES = (
    "sample_count",
    "sample_effective_fraction",
    "sample_logsumexp",
    "sample_max",
    "sample_mean",
    "sample_standardized",
    "sample_std",
    "sample_sum",
    "sample_var",
)
_RUNTIME_MODULES = (
    "ActionSpace",
    "ActionSpaceName",
    "action_index",
    "as_choice_network",
    "as_qvalue_ensemble",
    "as_qvalue_network",
    "choice_indices",
)
_RUNTIME_LLM = (
    "KLComputation",
    "KLRewardTransform",
    "RetrieveKL",
    "RetrieveLogProb",
    "TransformersWrapper",
    "load_template",
)
_JAXTYPING = ("Bool", "Float", "Float32", "Float64", "Int8", "Int16", "Int32", "Int64", "UInt8", "Shaped")

IMPORTABLE: dict[str, Import] = {
    "math": Import("math"),
    "torch": Import("torch"),
    "Tensor": Import("torch", "Tensor"),
    "nn": Import("torch", "nn"),
    "NamedTuple": Import("typing", "NamedTuple"),
    "StrEnum": Import("enum", "StrEnum"),
    "Protocol": Import("typing", "Protocol"),
    "TypedDict": Import("typing", "TypedDict"),
    "SupportsFloat": Import("typing", "SupportsFloat"),
    "abstractmethod": Import("abc", "abstractmethod"),
    "Any": Import("typing", "Any"),
    "Literal": Import("typing", "Literal"),
    "Never": Import("typing", "Never"),
    "overload": Import("typing", "overload", typing_only=True),
    "ClassVar": Import("typing", "ClassVar"),
    "Callable": Import("collections.abc", "Callable"),
    "Iterable": Import("collections.abc", "Iterable"),
    "Iterator": Import("collections.abc", "Iterator"),
    "Sequence": Import("collections.abc", "Sequence"),
    "Mapping": Import("collections.abc", "Mapping"),
    "dataclass": Import("dataclasses", "dataclass"),
    "partial": Import("functools", "partial"),
    **{name: Import("specgen_runtime.functional", name) for name in FUNCTIONAL},
    **{name: Import("specgen_runtime.specs", name) for name in _RUNTIME_SPECS},
    **{name: Import("specgen_runtime.envs", name) for name in _RUNTIME_ENVS},
    **{name: Import("specgen_runtime.llm", name) for name in _RUNTIME_CHATS},
    "GeneratedChatEnv": Import("specgen_runtime.llm.envs.generated", "GeneratedChatEnv"),
    **{name: Import("specgen_runtime.envs.generated.learning", name) for name in _RUNTIME_LEARNING},
    **{name: Import("specgen_runtime.envs.generated.lifting", name) for name in _RUNTIME_LIFTING},
    **{name: Import("specgen_runtime.envs.rendering", name) for name in ("Picture", "RenderedEnv")},
    **{name: Import("specgen_runtime.envs.gym.row_values", name) for name in ROW_VALUES},
    **{name: Import("specgen_runtime.typing", name) for name in _RUNTIME_TYPING},
    **{name: Import("specgen_runtime.typed", name, typing_only=True) for name in _RUNTIME_TYPED},
    **{
        name: Import(f"specgen_runtime.transforms.{module}", name)
        for module, names in _RUNTIME_TRANSFORMS.items()
        for name in names
    },
    **{
        name: Import("specgen_runtime.params", name)
        for name in ("as_ints", "bool_param", "float_param", "int_param")
    },
    "NumberRange": Import("specgen_runtime.params", "NumberRange", typing_only=True),
    **{name: Import("specgen_runtime.objectives", name) for name in _RUNTIME_LOSSES},
    **{name: Import("specgen_runtime.objectives.samples", name) for name in _RUNTIME_SAMPLES},
    "combined_mask": Import("specgen_runtime.objectives.weighting", "combined_mask"),
    **{name: Import("specgen_runtime.modules", name) for name in _RUNTIME_MODULES},
    **{name: Import("specgen_runtime.llm", name) for name in _RUNTIME_LLM},
    "wrapper_of": Import("specgen_runtime.llm.kl.scored_tokens", "wrapper_of"),
    "check_recorded": Import("specgen_runtime.llm.models.loading", "check_recorded"),
    **{
        name: Import("specgen_runtime.row_networks", name)
        for name in ("NetworkRows", "RowNetwork", "row_network")
    },
    "KeyTypes": Import("specgen_runtime.envs.spec_types", "KeyTypes", typing_only=True),
    "TYPE_CHECKING": Import("typing", "TYPE_CHECKING"),
    "Distribution": Import("torch.distributions", "Distribution", typing_only=True),
    "TensorDictParams": Import("specgen_runtime.typing", "TensorDictParams", typing_only=True),
    "TensorDictModuleBase": Import("specgen_runtime.typing", "TensorDictModuleBase", typing_only=True),
    **{name: Import("jaxtyping", name, typing_only=True) for name in _JAXTYPING},
}
"""Names that generated code may use, and where each comes from."""

PYTHON_FUNCTIONS = frozenset(
    {
        "ValueError",
        "abs",
        "bool",
        "callable",
        "dict",
        "enumerate",
        "float",
        "getattr",
        "int",
        "isinstance",
        "iter",
        "len",
        "list",
        "max",
        "min",
        "next",
        "range",
        "reversed",
        "round",
        "str",
        "super",
        "tuple",
        "type",
        "zip",
    }
)
"""Python's own names that generated functions read (`tests/build/test_names.py` compares them with it)."""

NAMES_READ = PYTHON_FUNCTIONS | IMPORTABLE.keys()
"""Every name that generated code reads without declaring it."""
