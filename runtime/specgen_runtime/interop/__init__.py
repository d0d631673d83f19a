"""Converts environments and specs to those of TorchRL, Gymnasium and Stable-Baselines3, and back.

None of these libraries is imported before one of the functions is called; each says which extra it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specgen_runtime.envs import EnvBase
from specgen_runtime.specs import TensorSpec
from specgen_runtime.transforms import Transform
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    import gymnasium
    from gymnasium.vector import VectorEnv

    from specgen_runtime.envs import GymWrapper

__all__ = [
    "from_gymnasium",
    "from_torchrl",
    "spec_from_torchrl",
    "spec_to_torchrl",
    "to_gymnasium",
    "to_sb3",
    "to_torchrl",
    "transform_to_torchrl",
]


def to_torchrl(env: EnvBase[Any]) -> Any:
    """Return a `torchrl.envs.EnvBase` around an environment.

    It has the same keys, specs (as TorchRL's), batch size, device, random numbers and `group_map`, and works in
    TorchRL's collectors, transforms, `SerialEnv` and `ParallelEnv`. Data are checked as in `EnvBase.step`.
    The wrapped environment is its attribute `wrapped`. What `from_torchrl` made is unwrapped.

    Args:
        env: any environment, batched or not.

    Raises:
        ImportError: TorchRL is not installed (extra `peers`).
        TypeError: `env` is not an `EnvBase`, or has a spec that TorchRL has no class for.
    """
    from specgen_runtime.interop.torchrl_env import to_torchrl as convert

    return convert(env)


def from_torchrl(env: Any) -> EnvBase[Any]:
    """Return an `EnvBase` around a `torchrl.envs.EnvBase`.

    It has the same keys, specs, batch size, device, random numbers and `group_map`; what the environment gives is compared
    with its specs at each step, and missing done flags follow by the rules of `EnvBase`. Rewards and flags of the
    right number of elements get the shape that their spec says, as in TorchRL. The wrapped environment is the
    attribute `wrapped`. What `to_torchrl` made is unwrapped.

    Args:
        env: any TorchRL environment, batched or not. `reset` takes its keywords.

    Raises:
        ImportError: TorchRL is not installed (extra `peers`).
        TypeError: `env` is not a TorchRL environment, or has a spec that is not known here.
        ValueError: its done spec has leaves that are no done flags, or a spec that contradicts itself.
    """
    from specgen_runtime.interop.torchrl_wrapper import from_torchrl as convert

    return convert(env)


def spec_to_torchrl(spec: TensorSpec) -> Any:
    """Return TorchRL's spec with the same shape, dtype, device, domain and mask.

    Raises:
        ImportError: TorchRL is not installed (extra `peers`).
        TypeError: it is not a spec, or TorchRL has no class for it.
    """
    from specgen_runtime.interop.torchrl_specs import spec_to_torchrl as convert

    return convert(spec)


def spec_from_torchrl(spec: Any) -> TensorSpec:
    """Return the spec with the same shape, dtype, device, domain and mask as one of TorchRL's.

    Raises:
        ImportError: TorchRL is not installed (extra `peers`).
        TypeError: it is not a TorchRL spec, or of a class that is not known here.
        ValueError: it contradicts itself, as bounds that are NaN or in the wrong order do.
    """
    from specgen_runtime.interop.torchrl_specs import spec_from_torchrl as convert

    return convert(spec)


def transform_to_torchrl(transform: Transform) -> Any:
    """Return a `torchrl.envs.Transform` around a transform, for TorchRL's replay buffers.

    Data pass through `inv` when they are added or extended, and through `forward` when they are sampled. A transform
    that only has a `forward` can be given to a buffer as it is. The wrapped transform is the attribute `wrapped`.

    Args:
        transform: any transform or chain. In environments it has no place: convert a `TransformedEnv` by `to_torchrl`.

    Raises:
        ImportError: TorchRL is not installed (extra `peers`).
        TypeError: it is not a `Transform`.
    """
    from specgen_runtime.interop.torchrl_transform import transform_to_torchrl as convert

    return convert(transform)


def to_gymnasium(
    env: EnvBase[Any],
    *,
    observation_keys: NestedKey | list[NestedKey] | None = None,
    autoreset_mode: Any = None,
) -> gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any]:
    """Return a `gymnasium.Env` around an environment, or a `gymnasium.vector.VectorEnv` around a batch.

    Spaces are those of `spec_to_space`: one-hot actions become `Discrete` ones and are converted.
    Action masks are `info["action_mask"]`, int8. The wrapped environment is the attribute `wrapped`.

    Args:
        env: an environment with the batch size `()` or `(n,)`, one action, one reward and one done flag at the
            root (an agent's or a group's own are left alone, where the root has some).
        observation_keys: what is observed: one key gives its own space, a list of keys a `Dict`. None chooses
            the entry `"observation"`; without one, all entries but the state, action masks and private ones: by
            itself if it is one, else a `Dict`.
        autoreset_mode: for batches, a `gymnasium.vector.AutoresetMode` or its value: `SAME_STEP` (the default),
            or `DISABLED`: then done environments are reset with `reset(options={"reset_mask": ...})`.

    Raises:
        ImportError: Gymnasium is not installed (extra `gym`).
        TypeError: `env` is not an `EnvBase`, or `autoreset_mode` is given for a single environment.
        ValueError: another batch size, several rewards or done flags, or another mode.
        KeyError: there is no observation of that key.
        NotImplementedError: Gymnasium has no space for a spec.
    """
    if not isinstance(env, EnvBase):
        raise TypeError(f"to_gymnasium needs an EnvBase, found {type(env).__name__}")
    from specgen_runtime.specs.gymnasium import import_gymnasium

    import_gymnasium()
    if not env.batch_size:
        if autoreset_mode is not None:
            raise TypeError(
                "autoreset_mode is for batches; a single gymnasium.Env is reset by whoever steps it"
            )
        from specgen_runtime.interop.gymnasium_env import GymnasiumEnv

        return GymnasiumEnv(env, observation_keys=observation_keys)
    from specgen_runtime.interop.gymnasium_vector import GymnasiumVectorEnv

    return GymnasiumVectorEnv(env, observation_keys=observation_keys, autoreset_mode=autoreset_mode)


def from_gymnasium(env: Any, **kwargs: Any) -> GymWrapper[Any]:
    """Return an `EnvBase` around a `gymnasium.Env` or a `gymnasium.vector.VectorEnv`.

    Args:
        env: the environment.
        **kwargs: passed to `GymWrapper`, such as `categorical_action_encoding` and `device`.

    Raises:
        ImportError: Gymnasium is not installed (extra `gym`).
        TypeError: `env` is of another class.
    """
    from specgen_runtime.interop.gymnasium_wrapper import from_gymnasium as convert

    return convert(env, **kwargs)


def to_sb3(env: EnvBase[Any], *, observation_keys: NestedKey | list[NestedKey] | None = None) -> Any:
    """Return a `stable_baselines3.common.vec_env.VecEnv` around a batch, on which Stable-Baselines3 trains.

    All environments of the batch step at once, without a loop over them. Wrap it in `VecMonitor` to see returns
    and lengths of episodes. Stable-Baselines3 takes what `to_gymnasium` gives for a single environment as it is.

    Args:
        env: an environment with the batch size `(n,)`; otherwise as for `to_gymnasium`.
        observation_keys: what is observed, as for `to_gymnasium`.

    Raises:
        ImportError: Stable-Baselines3 is not installed (extra `peers`).
        TypeError: `env` is not an `EnvBase`.
        ValueError, KeyError, NotImplementedError: as `to_gymnasium`.
    """
    if not isinstance(env, EnvBase):
        raise TypeError(f"to_sb3 needs an EnvBase, found {type(env).__name__}")
    from specgen_runtime.interop.imports import import_sb3

    import_sb3("stable_baselines3")
    from specgen_runtime.interop.sb3 import BatchVecEnv

    return BatchVecEnv(env, observation_keys=observation_keys)
