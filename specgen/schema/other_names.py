"""What others call the distributions of policies, the fields of pipelines, and transforms."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from specgen.diagnostics import did_you_mean

_NORMAL = ("normal", "write `tanh_normal` for an action with bounds, `normal` for one without")
_CERTAIN = ("tanh_delta", "write `tanh_delta` for an action with bounds, `delta` for one without")
_SQUASHED = ("tanh_normal", "write `tanh_normal`")
_CHOICES = ("categorical", "write `categorical`")
_DISTRIBUTIONS = {
    "gaussian": _NORMAL, "independentnormal": _NORMAL, "diaggaussian": _NORMAL, "diagonalgaussian": _NORMAL,
    "deterministic": _CERTAIN, "dirac": _CERTAIN,
    "squashedgaussian": _SQUASHED, "squashednormal": _SQUASHED, "tanhgaussian": _SQUASHED,
    "softmax": _CHOICES, "discrete": _CHOICES, "multinomial": _CHOICES,
}  # fmt: skip
"""What others call the distributions of policies, each with one that is meant, and what to write."""


def otherwise_called(name: str, expected: Collection[str]) -> str | None:
    """What to write in the place of a name that others use for one of those that are expected; None if nobody does."""
    meant = _DISTRIBUTIONS.get(name.lower().replace("_", "").replace("-", ""))
    return meant[1] if meant is not None and meant[0] in expected else None


_FIELDS = {
    "lr": ("learning_rate", "step_size"),
    "beta1": ("betas",),
    "max_grad_norm": ("clip_grad", "clip_grad_norm", "grad_clip", "gradient_clip", "clip_norm"),
    "mlp": ("net_arch", "num_cells", "hidden_sizes", "hidden_layers", "hidden_dims", "fcnet_hiddens"),
    "activation": ("activation_fn", "activation_class", "fcnet_activation"),
    "num_envs": ("n_envs", "num_env_runners", "n_parallel"),
    "n_step": ("n_steps", "nstep", "multi_step"),
    "num_steps": ("n_steps", "rollout_length", "rollout_steps", "rollout_fragment_length", "train_freq"),
    "epochs": ("n_epochs", "num_epochs", "ppo_epochs", "update_epochs", "num_sgd_iter"),
    "minibatch_size": ("batch_size", "mini_batch_size", "sub_batch_size", "sgd_minibatch_size"),
    "minibatches": ("num_minibatches", "n_minibatches"),
    "capacity": ("buffer_size", "memory_size", "max_size", "replay_size", "replay_buffer_size"),
    "warm_up_frames": ("learning_starts", "init_random_frames", "start_steps", "warmup_steps"),
    "updates": ("gradient_steps", "utd_ratio", "updates_per_step", "total_updates"),
    "every": ("eval_freq", "eval_interval", "save_freq", "log_interval"),
    "episodes": ("n_eval_episodes", "num_episodes", "eval_episodes"),
    "frames": ("total_frames", "total_timesteps", "max_frames", "num_timesteps"),
    "gamma": ("discount", "discount_factor"),
    "lmbda": ("lambda", "gae_lambda", "lam"),
    "tau": ("polyak",),
    "interval": ("every", "target_update_interval", "target_network_frequency", "value_network_update_interval"),
    "clip_epsilon": ("clip_range", "clip_coef", "clip_param", "clip_ratio", "eps_clip"),
    "entropy_coeff": ("ent_coef", "ent_coeff", "entropy_weight", "entropy_beta"),
    "critic_coeff": ("vf_coef", "vf_coeff", "value_coef", "value_loss_coef", "vf_loss_coeff"),
    "normalize_advantage": ("norm_adv", "standardize_advantages"),
    "prioritized": ("per", "use_per", "prioritized_replay", "prioritized_experience_replay"),
    "hindsight": ("her", "use_her", "hindsight_replay", "hindsight_experience_replay"),
    "strategy": ("goal_selection_strategy", "goal_strategy", "replay_strategy", "subgoal_strategy"),
    "goal_key": ("desired_goal_key", "goal_name"),
    "her_ratio": ("ratio", "relabel_ratio", "relabel_prob", "future_p", "relabeling_ratio"),
    "dueling": ("dueling_network", "dueling_dqn", "use_dueling"),
    "compile": ("torch_compile", "use_compile", "compile_loss", "compile_update"),
    "num_qvalue_nets": ("n_critics", "num_critics", "num_q_networks", "n_q_nets"),
    "top_quantiles_to_drop_per_net": ("top_quantiles_to_drop", "quantiles_to_drop", "n_quantiles_to_drop"),
    "alpha_init": ("ent_coef", "init_alpha", "init_temperature", "initial_alpha"),
    "quantiles": ("n_quantiles", "num_quantiles"),
    "atoms": ("num_atoms", "n_atoms", "atom_size"),
    "low": ("v_min", "vmin"),
    "high": ("v_max", "vmax"),
    "qmix": ("mixing_embed_dim", "embed_dim"),
    "recorded": ("offline", "dataset", "offline_data"),
    "path": ("dataset", "dataset_path", "dataset_id", "file"),
    "scale": ("log_std", "log_std_init", "init_std", "std"),
    "num_samples": ("num_return_sequences", "n", "num_generations"),
    "max_new_tokens": ("max_tokens", "max_completion_length"),
    "max_steps": ("max_episode_steps", "max_episode_length", "episode_length", "time_limit", "horizon"),
    "N": ("num_stack", "n_stack", "stack_size", "n_frames"),
    "stop": ("stop_strings", "stop_token_ids", "stop_sequences", "eos_token_id"),
    "in": ("inputs", "in_keys"),
    "out": ("outputs", "out_keys"),
    "carry": ("state", "states", "memory"),
}  # fmt: skip
"""What the fields of pipelines, and the arguments of losses, are called by TorchRL, Stable-Baselines3, CleanRL and RLlib, those
of `generate` by `transformers`, TRL and vLLM, and those of transforms by others, or in environments."""
_FRAMES = ("{CatFrames: {N: 4, dim: -3, in_keys: [pixels]}}", "frames")
_STATISTICS = ("RewardSum", "reward_sum")
_NORMALISED = ("{VecNorm: {in_keys: [observation]}}", "vec_norm")
_GRAY = ("GrayScale", "images")
_SKIP = ("{FrameSkipTransform: {frame_skip: 4}}", "time")
_WRAPPERS = {
    "TimeLimit": ("{StepCounter: {max_steps: 500}}", "step_counter"),
    "RecordEpisodeStatistics": _STATISTICS, "Monitor": _STATISTICS, "VecMonitor": _STATISTICS,
    "FrameStack": _FRAMES, "FrameStackObservation": _FRAMES, "VecFrameStack": _FRAMES,
    "NormalizeObservation": _NORMALISED, "VecNormalize": _NORMALISED,
    "NormalizeReward": ("{VecNorm: {in_keys: [reward]}}", "vec_norm"),
    "ClipReward": ("{RewardClipping: {clamp_min: -1, clamp_max: 1}}", "rewards"),
    "TransformReward": ("{RewardScaling: {loc: 0.0, scale: 0.1}}", "reward_scaling"),
    "GrayscaleObservation": _GRAY, "GrayScaleObservation": _GRAY,
    "ResizeObservation": ("{Resize: {w: 84, h: 84}}", "images"),
    "MaxAndSkipObservation": _SKIP, "MaxAndSkipEnv": _SKIP, "FrameSkip": _SKIP,
}  # fmt: skip
"""Wrappers of Gymnasium and Stable-Baselines3: the transform that does the same, and its file in the library."""


def wrapper_named(name: str) -> str | None:
    """What to write in the place of a wrapper of other libraries among the transforms of a chain; None if it is none."""
    if name not in _WRAPPERS:
        return None
    transform, file = _WRAPPERS[name]
    return f"write `{transform}`, and import `specgen_std/transforms/{file}`"


_IN_BUFFERS = (
    "ActionChunkTransform", "BurnInTransform", "FlattenTensorDict", "MultiStepTransform", "NextObservationDelta",
    "NextStateReconstructor", "PolicyAgeFilter", "RandomCropTensorDict",
)  # fmt: skip
"""Classes of `specgen_runtime.transforms` that replay buffers take, and environments do not."""
IN_PYTHON = (
    "BatchSizeTransform", "ConditionalPolicySwitch", "ConditionalSkip", "DeviceCastTransform", "ExpandAs",
    "FiniteTensorDictCheck", "FixedNorm", "Hash", "ModuleTransform", "PinMemoryTransform", "PixelRenderTransform",
    "RayModuleTransform", "RemoveEmptySpecs", "TensorDictPrimer", "TerminateTransform", "Timer", "Tokenizer",
    "UnaryTransform", "VecNormV2", "gSDENoise", *_IN_BUFFERS,
)  # fmt: skip
"""Classes of `specgen_runtime.transforms` that are written by hand: chains, which are declared, do not have them."""


def made_in_python(name: str) -> str | None:
    """How to have a transform in Python that chains do not have; None for names of no such class."""
    if name not in IN_PYTHON:
        return None
    if name in _IN_BUFFERS:
        return f"replay buffers take it, in Python: `buffer.append_transform({name}(…))`, of `specgen_runtime.transforms`"
    help = f"put it around the environment in Python: `TransformedEnv(env, {name}(…))`, of `specgen_runtime.transforms`"
    if name == "VecNormV2":
        return f"write `VecNorm`, which has one statistic for all rows, and import `specgen_std/transforms/vec_norm`; or {help}"
    return help


_DO_SAMPLE = "leave it out to sample; write `temperature: 0` for the likeliest token each time"
_GOALS = "write `her_ratio: 0.8`, the part of a batch with other goals: of n_sampled_goal = 4 other goals for each of its own"
_FRAMES_PER_BATCH = "write `num_steps`, the steps of each environment: frames_per_batch / num_envs"

_DECAYS = (
    "eps_init", "eps_end", "annealing_num_steps", "exploration_initial_eps", "exploration_final_eps", "exploration_fraction",
    "start_e", "end_e", "initial_epsilon", "final_epsilon", "epsilon_timesteps", "epsilon_decay", "eps_decay", "decay",
)  # fmt: skip
"""What others say of how random actions become rarer, which is a schedule here."""
_SHARED = (
    "write `per: agent`, each agent its own parameters, or leave `per` out, one network for all of a group"
)
_CENTRAL = "write `per: all`, or `of: [group, …]` for what agents of several groups observe"
_OF_AGENTS = {
    "share_params": _SHARED, "share_parameters": _SHARED, "parameter_sharing": _SHARED, "share_policy": _SHARED,
    "centralized": _CENTRAL, "centralised": _CENTRAL, "centralized_critic": _CENTRAL, "central_critic": _CENTRAL,
}  # fmt: skip
"""What others say of the networks of several agents, which is `per` here."""
_DECAY = 'write `eps: "linear(1.0, 0.05, over=10_000)"`'
_LAYERS = "the layers of each network stand under `networks`: `actor_network: {mlp: [64, 64]}`"


def field_otherwise_called(name: str, fields: Collection[str]) -> str | None:
    """What to write in the place of a field that others call so, if one of these is meant; None if none is."""
    if name == "frames_per_batch" and "num_steps" in fields:
        return _FRAMES_PER_BATCH
    if name in ("n_sampled_goal", "replay_k") and "her_ratio" in fields:
        return _GOALS
    if name == "do_sample" and "temperature" in fields:
        return _DO_SAMPLE
    if name in _DECAYS and "eps" in fields:
        return _DECAY
    if name in _OF_AGENTS and "per" in fields:
        return _OF_AGENTS[name]
    if name == "policy_kwargs" and "networks" in fields:
        return _LAYERS
    found = named_as(name, fields)
    return f"it is called `{found}` here" if found else None


def meant_fields(names: Iterable[str], fields: Collection[str]) -> set[str]:
    """The fields that are most likely meant by names that are none: what misspelt ones, and those of others, stand for."""
    found = (named_as(name, fields) or did_you_mean(name, fields) for name in names if name not in fields)
    return {one for one in found if one is not None}


def named_as(name: str, fields: Collection[str]) -> str | None:
    """The field that is called so, here or by others; None if none of these is."""
    if name in fields:
        return name
    return next((one for one, others in _FIELDS.items() if one in fields and name in others), None)
