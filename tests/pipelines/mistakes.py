"""Mistakes that users of reinforcement learning really make, and the case folders or tests in which each is a diagnostic."""

from __future__ import annotations

MISTAKES: dict[str, tuple[str, ...]] = {
    "YAML: a number that is read as text": (
        "cases/yaml/exponent_without_dot",
        "cases/yaml/exponent_without_dot_in_chain",
        "cases/losses/exponent_without_dot",
    ),
    "YAML: a tab indents": ("cases/yaml/tab_indent",),
    "unknown: a field of a spec": ("cases/specs/misspelt_dtype", "cases/schema/unknown_spec_field"),
    "unknown: a transform": ("cases/schema/unknown_transform",),
    "types: an empty domain": ("cases/specs/empty_domain", "cases/specs/empty_domain_long"),
    "types: a bound outside of the dtype": ("cases/specs/uint8_below_zero",),
    "types: float64 into float32": (
        "cases/specs/float64_into_float32",
        "cases/specs/float64_state_into_observation",
    ),
    "collision: two StepCounters": ("cases/chains/two_step_counters",),
    "order: RewardSum before RewardScaling": ("cases/chains/reward_sum_before_scaling",),
    "order: GrayScale or Resize before ToTensorImage": (
        "cases/chains/gray_before_tensor_image",
        "cases/chains/channels_last",
    ),
    "no producer: the log-probability of what was done": (
        "cases/pipelines/log_probability_that_nobody_writes",
        "cases/pipelines/log_probabilities_under_another_key",
        "cases/pipelines/certain_policy_for_ppo",
        "cases/pipelines/what_follows_from_the_rest",
    ),
    "no producer: a mask that a transform drops": (
        "cases/pipelines/mask_that_a_transform_drops",
        "cases/pipelines/network_input_that_a_transform_drops",
    ),
    "nested: the reward of a group": ("cases/chains/nested_reward",),
    "language models: padding that differs": (
        "cases/models/rows_of_different_widths",
        "cases/models/padding_at_different_sides",
    ),
    "language models: no tokenizer": ("cases/models/model_without_tokenizer",),
    "language models: tokenizers that differ": ("cases/models/tokenizers_that_differ",),
    "language models: a coefficient below 0": ("cases/models/negative_coefficient",),
    "targets: nobody moves them": ("cases/pipelines/targets_that_nobody_moves",),
    "targets: eps for tau": (
        "cases/pipelines/tau_that_was_eps",
        "cases/pipelines/interval_that_was_tau",
    ),
    "estimator: a discount, a decay or a clipping range out of range": (
        "cases/pipelines/discount_above_one",
        "cases/pipelines/clip_below_zero",
        "cases/pipelines/clip_above_one",
        "cases/pipelines/clip_below_zero_in_a_pair",
    ),
    "estimator: values under another key than the loss reads": (
        "cases/pipelines/values_that_nobody_gives",
        "objectives/test_estimators.py::test_missing_values_and_inputs_are_named",
    ),
    "devices: parts that never meet": (
        "cases/pipelines/accelerators_of_two_kinds",
        "pipelines/test_devices.py::test_parts_apart_train_as_parts_in_one_place",
    ),
    "batches: other dimensions in front": (
        "envs/test_base.py::test_a_spec_without_the_batch_size_is_refused",
        "envs/test_base.py::test_wrong_batch_size_is_refused",
    ),
    "ends: `done` alone": ("cases/done/done_alone", "cases/done/nested_done_alone"),
    "ends: a root `done` and rewards of agents": (
        "cases/done/reward_without_done",
        "cases/pipelines/reward_of_the_team",
    ),
    "Gymnasium: a misspelt id": (
        "cli/test_commands.py::test_unknown_gymnasium_ids_write_nothing",
        "project/test_gymnasium.py::test_a_misspelt_id_that_is_not_recorded",
    ),
    "expressions: a truth value for a number": ("cases/specs/bool_into_float",),
    "expressions: an undefined name": ("cases/expressions/misspelt_name",),
    "injection: a function that is not allowed": (
        "cases/security/import_call",
        "cases/security/attribute",
    ),
    "injection: a tag": ("cases/security/python_tag", "cases/yaml/tag_harmless"),
}
