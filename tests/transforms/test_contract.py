"""The contract of transforms, row by row: which tests hold each promise and each fault of TorchRL 0.14.1."""

from __future__ import annotations

import pytest
from specgen_runtime.transforms import ConditionalSkip, UnaryTransform

from tests.named_tests import TESTS, is_there
from tests.transforms.faults import FAULTS

TOLD = {
    "a condition on what stands still": (ConditionalSkip, "entries that stand still holds for ever"),
    "bounds behind any function": (UnaryTransform, "decides the spec of an output, without bounds"),
}
"""What nobody can mend: a user's function decides it. The class says so."""

CLASSES = {
    "every member of a transform, and calls": (
        "transforms/test_every_transform.py::test_calls_with_tensors",
        "transforms/test_every_transform.py::test_calls_that_do_not_fit",
        "transforms/test_every_transform.py::test_the_collector_is_found",
        "transforms/test_constructors.py::test_calls_outside_of_environments_follow_each_other",
        "transforms/test_given_specs.py::test_the_spec_of_the_only_entry",
        "transforms/test_signatures_against_torchrl.py::test_public_methods",
        "transforms/test_signatures_against_torchrl.py::test_keywords_of_constructors",
    ),
    "a chain is a sequence": (
        "transforms/test_chain.py::test_sequence",
        "transforms/test_chain.py::test_chains_flatten_and_lists_are_taken",
        "transforms/test_chain.py::test_nested_environments_become_one_chain",
    ),
    "specs of a transformed environment follow its chain": (
        "transforms/test_every_transform.py::test_specs_follow_the_chain",
        "transforms/test_chain.py::test_append_and_insert_change_the_specs",
    ),
    "functions are transforms": ("transforms/test_every_transform.py::test_functions_are_transforms",),
    "replay buffers call `forward` at a sample, `inv` at an extend": (
        "transforms/test_replay_buffers.py::test_forward_when_sampled",
        "transforms/test_replay_buffers.py::test_inverse_when_stored",
        "data/test_replay_buffer.py::TestTransforms::test_both_ways",
    ),
    "a map of recorded data is at the root and under `next`": (
        "transforms/test_offline.py::test_a_map_is_applied_at_the_root_and_under_next",
    ),
    "a replay begins each episode with its own root": (
        "transforms/test_offline.py::test_every_episode_begins_with_its_own_root",
        "transforms/test_offline.py::test_resets_that_read_their_input",
    ),
    "a module and a device": ("transforms/test_module.py::test_device",),
    "a module of a chain is called at its place": (
        "transforms/test_networks.py::test_a_chain_gives_what_the_classes_give",
    ),
    "a module as a service": (
        "ray/test_module_transform.py::test_in_an_environment",
        "ray/test_module_transform.py::test_what_can_not_be_made",
        "ray/test_service.py::test_an_actor_that_finds_no_place",
    ),
    "users declare their own": (
        "transforms/test_declared.py::test_values_before_and_after",
        "transforms/test_python.py::test_a_chain_gives_what_the_classes_give",
    ),
    "random actions keep to masks under transforms": (
        "transforms/test_action_mask.py::test_in_and_around_batches",
        "agreement/test_action_masks.py::test_chains_keep_to_masks",
    ),
    "bounds of fused chains are those of the classes": (
        "agreement/test_library_chains.py::test_a_chain_over_the_library",
        "agreement/test_fused_chains.py::test_actions_keep_their_bounds_behind_a_cast",
        "transforms/test_chain_params.py::test_bounds_are_those_of_all_values",
    ),
}

AGREEMENT = {
    "interpreted, fused and dynamic are equal, over full and partial resets": (
        "agreement/test_random_chains.py::test_random_chains",
        "agreement/test_library_chains.py::test_a_chain_over_the_library",
        "agreement/test_library_chains.py::test_a_chain_over_gymnasium",
        "agreement/test_small_chains.py::test_a_small_chain",
    ),
    "inferred specs are those of the runtime, and data are in them": (
        "agreement/test_random_chains.py::test_random_chains",
        "agreement/test_fused_chains.py::test_specs",
        "agreement/test_fused_chains.py::test_contract",
    ),
    "a replay is what the environment wrote": (
        "agreement/test_library_chains.py::test_a_chain_over_the_library",
        "transforms/test_offline.py::test_offline_equals_online",
    ),
    "a state dict that was loaded goes on": (
        "agreement/test_library_chains.py::test_a_chain_over_the_library",
        "agreement/test_fused_statistics.py::test_saved_and_loaded",
    ),
    "as TorchRL's, transform by transform": (
        "transforms/test_against_torchrl.py::test_cartpole",
        "transforms/test_library_against_torchrl.py::test_batches_with_partial_resets",
        "transforms/test_images_against_torchrl.py::test_agrees",
        "transforms/test_limits_and_stacks_against_torchrl.py::test_agrees",
        "transforms/test_windows_against_torchrl.py::test_windows_and_their_padding",
        "transforms/test_actions_against_torchrl.py::test_permuted_actions",
        "transforms/test_dtype_cast_against_torchrl.py::test_float64_as_float32",
        "transforms/test_vec_norm_v2_against_torchrl.py::test_means_deviations_and_what_is_normalised",
        "transforms/test_replay_sequences.py::test_multi_step_against_torchrl",
        "transforms/test_expand_against_torchrl.py::test_agrees",
        "agreement/test_chains_against_torchrl.py::test_native",
    ),
    "what is learned in one process, in four, saved and loaded": (
        "transforms/test_statistics.py::test_one_row_after_the_other",
        "transforms/test_statistics.py::test_many_rows_at_once_weigh_as_one_by_one",
        "transforms/test_statistics.py::test_four_processes_learn_together",
        "transforms/test_statistics.py::test_saved_and_loaded",
        "agreement/test_fused_statistics.py::test_processes_learn_together",
    ),
}

DIAGNOSTICS = {
    "order": (
        "cases/chains/read_before_it_is_written",
        "cases/chains/reward_sum_before_scaling",
        "cases/chains/reward_read_too_early",
        "cases/chains/action_changed_behind_its_reader",
    ),
    "missing keys": ("cases/chains/misspelt_in_key", "cases/chains/nested_reward"),
    "dropped keys": (
        "cases/chains/key_dropped_before",
        "cases/chains/flag_dropped",
        "cases/chains/every_reward_dropped",
    ),
    "collisions": (
        "cases/chains/two_step_counters",
        "cases/chains/two_reward_sums",
        "cases/chains/key_written_twice",
        "cases/chains/output_named_like_an_observation",
    ),
    "shapes": (
        "cases/chains/sizes_that_differ",
        "cases/chains/keys_of_several_shapes",
        "cases/chains/argument_beyond_the_axes",
        "cases/chains/type_changes_after_a_step",
        "cases/chains/scale_of_another_shape",
    ),
    "dtypes": ("cases/chains/float32_for_float64", "cases/chains/actions_that_do_not_fit"),
    "a learned statistic under a frozen policy's data": (
        "cases/pipelines/evaluation_with_other_statistics",
        "cases/pipelines/statistics_where_nothing_acts",
        "cases/pipelines/statistics_below_a_buffer",
    ),
    "counters before a frame skip": ("cases/around/counts_repetitions",),
    "lints are allowed by name": ("cases/good/chain_that_allows_a_warning",),
    "masks": (
        "cases/chains/masks",
        "cases/transforms/masks",
        "cases/chains/masks_of_several_actions",
    ),
    "roles and outputs": (
        "cases/around/several_keys",
        "cases/transforms/two_roles_repeated",
        "cases/chains/keys_that_go_together",
        "cases/transforms/type_of_what_reads_itself",
        "cases/transforms/type_that_a_step_changes",
        "cases/transforms/parameter_that_shapes_a_type",
        "cases/transforms/inverse_without_a_type",
        "cases/transforms/bounds_of_what_may_have_none",
        "cases/transforms/outputs_of_one_key",
        "cases/transforms/hidden_output_unread",
        "cases/transforms/kind_of_an_output",
    ),
    "statistics": (
        "cases/transforms/statistic_of_a_batch_elsewhere",
        "cases/transforms/buffer_never_assigned",
        "cases/lints/statistic_in_float32",
        "cases/transforms/buffer_of_another_kind",
    ),
    "repeated steps": (
        "cases/around/two_kinds",
        "cases/around/acc_outside_of_fold",
        "cases/around/reward_of_the_last_repetition",
        "cases/around/collected_over_a_changing_number",
        "cases/around/steps_without_a_bound",
        "cases/around/skip_reads_next",
    ),
    "recorded data": (
        "cases/transforms/recursion_incomplete",
        "cases/transforms/recursion_without_start",
        "cases/chains/recursion_in_a_chain",
    ),
    "states of the policy": (
        "cases/transforms/state_of_the_policy_stepped",
        "cases/chains/state_of_the_policy_dropped",
    ),
    "draws, phases and one-hot rows": (
        "cases/transforms/draw_in_a_map",
        "cases/transforms/python_class_misused",
        "cases/chains/actions_that_do_not_fit",
    ),
}
"""What chains and declarations get wrong, at its line."""

ROWS: dict[str, tuple[str, ...]] = {
    **{f"fault of {row}": held_by for row, held_by in FAULTS.items()},
    **{f"class: {row}": held_by for row, held_by in CLASSES.items()},
    **{f"agreement: {row}": held_by for row, held_by in AGREEMENT.items()},
    **{f"diagnostic: {row}": held_by for row, held_by in DIAGNOSTICS.items()},
}


@pytest.mark.parametrize("row", ROWS)
def test_each_row_is_held_by_a_test(row: str) -> None:
    assert ROWS[row]
    assert [test for test in ROWS[row] if not is_there(test)] == []


@pytest.mark.parametrize("row", TOLD)
def test_what_cannot_be_mended_is_told(row: str) -> None:
    of, said = TOLD[row]
    assert said in " ".join((of.__doc__ or "").split())


def test_the_ledger_names_each_transform_with_a_fault() -> None:
    ledger = (TESTS.parent / "docs/differences.md").read_text(encoding="utf-8")
    names = {name for row in FAULTS for name in row.partition(":")[0].split(", ")}
    assert {name for name in names if name not in ledger} == set()
