"""Names that a transform can't give: those of its generated class, and keys that are no names."""

from __future__ import annotations

import re

from specgen.check.names import SPEC_ATTRIBUTES

TAKEN_VARIABLES = frozenset(
    {"env", "key", "keys", "specs", "spec", "tensordict", "tensordict_reset", "next_tensordict"}
)
"""Variables of the generated methods, where roles and outputs are variables too."""

TAKEN_ATTRIBUTES = frozenset(
    [
        "T_destination",
        "add_module",
        "apply",
        "bfloat16",
        "buffers",
        "call_super_init",
        "carry_keys",
        "children",
        "clone",
        "close",
        "compile",
        "container",
        "cpu",
        "cuda",
        "double",
        "dump_patches",
        "empty_cache",
        "enable_inv_on_reset",
        "eval",
        "extra_repr",
        "float",
        "forward",
        "get_buffer",
        "get_extra_state",
        "get_parameter",
        "get_submodule",
        "half",
        "in_keys",
        "in_keys_inv",
        "init",
        "inv",
        "invertible",
        "ipu",
        "keys",
        "keys_inv",
        "load_state_dict",
        "missing_tolerance",
        "modules",
        "mtia",
        "named_buffers",
        "named_children",
        "named_modules",
        "named_parameters",
        "out_keys",
        "out_keys_inv",
        "parameters",
        "parent",
        "register_backward_hook",
        "register_buffer",
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "register_full_backward_pre_hook",
        "register_load_state_dict_post_hook",
        "register_load_state_dict_pre_hook",
        "register_module",
        "register_parameter",
        "register_state_dict_post_hook",
        "register_state_dict_pre_hook",
        "requires_grad_",
        "reset_parent",
        "set_container",
        "set_extra_state",
        "set_missing_tolerance",
        "set_submodule",
        "share_memory",
        "state_dict",
        "to",
        "to_empty",
        "train",
        "training",
        "transform_action_spec",
        "transform_done_spec",
        "transform_env_batch_size",
        "transform_env_device",
        "transform_input_spec",
        "transform_observation_spec",
        "transform_output_spec",
        "transform_reward_spec",
        "transform_state_spec",
        "type",
        "xpu",
        "zero_grad",
    ]
)
"""What every transform has; parameters and keywords are attributes beside these."""

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def key_refusal(part: str) -> str | None:
    """Why a text can't be one part of a key, or ``None``."""
    if part in SPEC_ATTRIBUTES:
        return "every spec has an attribute of this name"
    return None if _KEY.match(part) else "keys are letters, digits and `_`, and do not start with a digit"
