"""The contract of losses and value estimators, row by row: which tests hold each promise and each fault of TorchRL 0.14.1."""

from __future__ import annotations

import pytest

from tests.named_tests import is_there

LOSSES = {
    "convert_to_functional: parameters apart, the module no child": (
        "objectives/test_functional.py::test_params_are_the_very_parameters_and_module_is_no_child",
        "objectives/test_functional.py::test_module_must_be_a_module",
    ),
    "without targets: a detached view that follows": (
        "objectives/test_functional.py::test_without_targets_the_attribute_is_a_detached_view_that_follows",
    ),
    "targets: copies in buffers": (
        "objectives/test_functional.py::test_target_params_are_copies_in_buffers_under_both_names",
    ),
    "expand_dim": (
        "objectives/test_functional.py::test_expand_dim_resamples_parameters_and_repeats_buffers",
        "objectives/test_functional.py::test_a_list_of_modules_is_stacked",
    ),
    "compare_against": (
        "objectives/test_functional.py::test_compare_against_detaches_what_another_network_trains",
        "objectives/test_documentation_examples.py::test_members_of_what_another_network_has_are_copies_without_gradients",
    ),
    "names in the state, parameters without targets": (
        "objectives/test_every_loss.py::test_a_state_of_torchrls_loss",
        "objectives/test_loss_module.py::test_state_round_trips_inside_a_parent_and_with_assign",
        "objectives/test_functional.py::test_params_are_the_very_parameters_and_module_is_no_child",
    ),
    "coefficients are buffers, assigned in place": (
        "objectives/test_loss_module.py::test_coefficients_are_buffers_assigned_in_place",
        "objectives/test_coefficients.py::test_a_coefficient_is_assigned_in_place",
    ),
    "get_stateful_net": (
        "objectives/test_functional.py::test_stateful_copy_is_independent",
        "objectives/test_functional.py::test_stateful_net_without_copy_holds_the_parameters_themselves",
    ),
    "from_stateful_net": (
        "objectives/test_contract_rows.py::test_stateful_networks_compute_what_the_loss_does",
        "objectives/test_functional.py::test_from_stateful_net_refuses_what_does_not_fit_and_copies_nothing",
    ),
    "functional is read-only": (
        "objectives/test_documentation_examples.py::test_whether_it_is_functional_is_read_only",
    ),
    "forward gives a new tensordict, in its sampling mode": (
        "objectives/test_loss_module.py::test_output_is_new_and_has_no_batch",
        "objectives/test_loss_module.py::test_runs_in_its_sampling_mode",
    ),
    "missing inputs, calls by keyword": (
        "objectives/test_loss_module.py::test_keyword_calls",
        "objectives/test_loss_module.py::test_missing_signals_are_named",
        "objectives/test_every_loss.py::test_double_precision_and_keyword_calls",
    ),
    "reduction": (
        "objectives/test_loss_module.py::test_reductions",
        "objectives/test_contract_rows.py::test_reductions_are_of_what_is_not_reduced",
    ),
    "loss_mask_key": ("objectives/test_loss_module.py::test_masks_leave_samples_out_even_if_they_are_nan",),
    "DQN: priority, action_space, double_dqn": (
        "objectives/test_dqn.py::test_priority_is_rewritten_in_place_and_detached",
        "objectives/test_dqn.py::test_action_space_is_inferred",
        "objectives/test_dqn.py::test_constructor_refuses",
    ),
    "set_keys": (
        "objectives/test_loss_module.py::test_set_keys_reaches_the_estimator_before_and_after_it_is_made",
        "objectives/test_loss_module.py::test_set_keys_is_used",
    ),
    "make_value_estimator, value_estimator": (
        "objectives/test_loss_module.py::test_make_value_estimator_takes_names_classes_and_instances_and_returns_the_loss",
        "objectives/test_loss_module.py::test_make_value_estimator_refuses",
        "objectives/test_contract_rows.py::test_estimators_have_the_defaults_and_others_are_refused",
    ),
    "vmap_randomness": (
        "objectives/test_functional.py::test_vmap_randomness",
        "objectives/test_contract_rows.py::test_members_draw_as_vmap_randomness_says",
    ),
    "SoftUpdate, HardUpdate": (
        "objectives/test_targets.py::test_soft_update_moves_by_tau",
        "objectives/test_targets.py::test_soft_update_refuses",
        "objectives/test_targets.py::test_hard_update_copies_at_every_nth_step_exactly",
    ),
    "a loss with targets and no updater warns": (
        "objectives/test_functional.py::test_a_forgotten_updater_is_warned_of",
    ),
}

ESTIMATORS = {
    "GAE of three steps, truncated and terminated; TD(lambda) follows the same rule": (
        "objectives/test_estimators.py::test_by_hand",
    ),
    "TD(0) reads terminated alone": (
        "objectives/test_estimators.py::test_truncation_bootstraps_and_done_is_not_read",
    ),
    "TD(1) follows the rule of done and terminated": (
        "objectives/test_value_functions.py::test_equal_plain_loops",
        "objectives/test_value_functions.py::test_termination_ends_the_trajectory_even_if_done_does_not_say_so",
    ),
    "one shape": ("objectives/test_value_functions.py::test_what_does_not_fit_is_refused",),
    "time: by name, else the last, time_dim": (
        "objectives/test_estimators_against_torchrl.py::test_time_by_name_by_option_and_by_call",
        "objectives/test_estimators.py::test_time_first_data_must_say_so",
    ),
    "shifted": (
        "objectives/test_estimators_against_torchrl.py::test_shifted",
        "objectives/test_estimator_networks.py::test_shifted_equals_unshifted_on_contiguous_data",
    ),
    "GAE: a batch dimension, lmbda by its name": (
        "objectives/test_estimators.py::test_locked_data_and_data_without_batch_are_refused",
        "objectives/test_documentation_examples.py::test_the_decay_of_gae_is_asked_for_by_its_name",
    ),
    "skip_existing": (
        "objectives/test_estimators_against_torchrl.py::test_values_that_the_data_hold",
        "objectives/test_estimator_networks.py::test_values_in_the_data_are_used_where_skipping_is_on",
    ),
    "average_gae": ("objectives/test_estimators_against_torchrl.py::test_standardised",),
    "no gradient to the values' parameters": (
        "objectives/test_estimators_against_torchrl.py::test_gradients_reach_rewards_and_observations_only",
        "objectives/test_estimators_against_torchrl.py::test_parameters_for_the_call",
    ),
    "vectorized equals the loop": (
        "objectives/test_estimators_against_torchrl.py::test_vectorized",
        "objectives/test_value_functions.py::test_equal_plain_loops",
    ),
}

FAULTS = {
    1: ("objectives/test_documentation_examples.py::test_a_subclass_with_keys",),
    2: (
        "objectives/test_documentation_examples.py::test_keys_that_have_other_names_are_told_which",
        "objectives/test_documentation_examples.py::test_value_estimators",
    ),
    3: ("objectives/test_loss_module.py::test_set_keys_is_all_or_nothing",),
    4: ("objectives/test_loss_module.py::test_set_keys_refuses_what_is_no_key",),
    5: ("objectives/test_functional.py::test_vmap_randomness",),
    6: ("objectives/test_functional.py::test_target_params_are_copies_in_buffers_under_both_names",),
    7: (
        "objectives/test_documentation_examples.py::test_parameters_that_two_networks_have_are_named_once_or_twice",
    ),
    8: ("objectives/test_functional.py::test_compare_against_its_own_parameters_detaches_them",),
    9: (
        "objectives/test_functional.py::test_train_and_eval_reach_the_networks_but_not_the_given_module",
        "objectives/test_contract_rows.py::test_evaluation_reaches_the_dropout_of_networks",
    ),
    10: ("objectives/test_functional.py::test_stateless_module_holds_no_parameters_and_says_so",),
    11: ("objectives/test_functional.py::test_stateful_copy_is_independent",),
    12: ("objectives/test_targets.py::test_hard_update_copies_at_every_nth_step_exactly",),
    13: ("objectives/test_targets.py::test_soft_update_moves_batch_norm_statistics",),
    14: ("objectives/test_targets.py::test_making_an_updater_does_not_touch_restored_targets",),
    15: (
        "objectives/test_loss_module.py::test_make_value_estimator_takes_names_classes_and_instances_and_returns_the_loss",
    ),
    16: ("objectives/test_loss_module.py::test_state_does_not_depend_on_whether_the_loss_was_used",),
    17: ("objectives/test_every_loss.py::test_the_state_does_not_depend_on_whether_it_was_called",),
    18: (
        "objectives/test_estimators.py::test_by_hand",
        "objectives/test_value_functions.py::test_termination_ends_the_trajectory_even_if_done_does_not_say_so",
    ),
    19: (
        "objectives/test_loss_module.py::test_missing_signals_are_named",
        "objectives/test_estimators.py::test_missing_signals_are_named",
    ),
    20: ("objectives/test_estimator_differences.py::test_keywords_do_not_take_features_for_time",),
    21: ("objectives/test_estimators.py::test_time_first_data_must_say_so",),
    22: (
        "objectives/test_estimator_differences.py::test_discounts_are_within_their_range",
        "objectives/test_targets.py::test_soft_update_refuses",
    ),
    23: (
        "objectives/test_loss_module.py::test_missing_signals_are_named",
        "objectives/test_estimators.py::test_missing_signals_are_named",
    ),
    24: ("objectives/test_contract_rows.py::test_words_are_checked_when_a_loss_is_made",),
    25: ("objectives/test_targets.py::test_hard_update_refuses",),
    27: (
        "objectives/test_functional.py::test_from_stateful_net_refuses_what_does_not_fit_and_copies_nothing",
        "objectives/test_contract_rows.py::test_stateful_networks_compute_what_the_loss_does",
    ),
    28: (
        "objectives/test_functional.py::test_expand_dim_must_be_positive",
        "objectives/test_functional.py::test_module_must_be_a_module",
    ),
    29: (
        "objectives/test_contract_rows.py::test_members_of_constant_parameters_are_equal_and_modules_of_their_own_are_not",
    ),
    30: ("objectives/test_loss_module.py::test_runs_in_its_sampling_mode",),
    32: ("objectives/test_loss_module.py::test_random_modules_are_classes",),
}
"""Those of the checklist, by number: it has no 26 and no 31."""

FURTHER_FAULTS = {
    "networks in another order": (
        "objectives/test_contract_rows.py::test_networks_in_another_order_are_refused",
    ),
    "numbers out of their range": (
        "objectives/test_contract_rows.py::test_numbers_that_make_no_loss_are_refused_when_it_is_made",
    ),
    "integer actions against one-hot": (
        "objectives/test_encodings_of_actions.py::test_indices_where_action_values_are_one_hot",
        "objectives/test_encodings_of_actions.py::test_indices_where_a_policy_draws_one_hot",
        "objectives/test_encodings_of_actions.py::test_one_hot_where_a_policy_draws_indices",
        "objectives/test_dqn.py::test_actions_of_the_other_encoding_are_refused",
    ),
    "a reward that is not a number": (
        "objectives/test_estimator_differences.py::test_not_a_number_stays_in_its_trajectory",
    ),
}

ROWS: dict[str, tuple[str, ...]] = {
    **{f"loss: {row}": held_by for row, held_by in LOSSES.items()},
    **{f"estimator: {row}": held_by for row, held_by in ESTIMATORS.items()},
    **{f"fault {number}": held_by for number, held_by in FAULTS.items()},
    **{f"fault: {row}": held_by for row, held_by in FURTHER_FAULTS.items()},
}


@pytest.mark.parametrize("row", ROWS)
def test_each_row_is_held_by_a_test(row: str) -> None:
    assert ROWS[row]
    assert [test for test in ROWS[row] if not is_there(test)] == []


def test_no_number_is_left_out() -> None:
    assert [*FAULTS] == [*range(1, 26), *range(27, 31), 32]


@pytest.mark.parametrize(
    "name",
    [
        "objectives/test_sac.py::test_it_is_gone",
        "objectives/test_gone.py::test_equals_torchrl",
        "cases/losses/gone",
        "specs/test_faults.py::TestArguments::test_it_is_gone",
    ],
)
def test_a_test_that_is_gone_is_missed(name: str) -> None:
    assert not is_there(name)
