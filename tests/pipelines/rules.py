"""What a pipeline is checked for, in the order in which its parts run, and the case folders in which it is found."""

from __future__ import annotations

RULES: dict[str, tuple[str, ...]] = {
    "somebody wrote what a loss reads": (
        "cases/pipelines/log_probability_that_nobody_writes",
        "cases/pipelines/distance_to_a_reference_that_nobody_runs",
        "cases/pipelines/losses_of_papers",
    ),
    "a misspelt key falls back to no other": (
        "cases/pipelines/misspelt_network_input",
        "cases/losses/misspelt_key_in_expression",
        "objectives/test_loss_module.py::test_missing_signals_are_named",
    ),
    "what a transform dropped is not read": (
        "cases/pipelines/network_input_that_a_transform_drops",
        "cases/pipelines/mask_that_a_transform_drops",
    ),
    "a recurrent state is begun and carried": (
        "cases/pipelines/memory_of_the_critic_alone",
        "collectors/test_recurrent_policies.py::test_what_the_environment_lacks_is_added",
        "cases/chains/state_of_the_policy_dropped",
    ),
    "nothing is read before it is written": (
        "cases/pipelines/advantages_in_each_pass",
        "cases/pipelines/estimator_that_runs_in_the_loss",
        "cases/pipelines/what_others_do_next",
        "cases/pipelines/bonus_in_a_buffer",
    ),
    "parts that nobody uses": (
        "cases/pipelines/critic_that_nobody_trains",
        "cases/pipelines/image_that_nobody_reads",
        "cases/pipelines/parameter_that_no_field_names",
        "cases/pipelines/numbers_that_no_term_reads",
        "cases/lints/network_that_nobody_calls",
    ),
    "targets have an updater": (
        "cases/pipelines/targets_that_nobody_moves",
        "cases/pipelines/targets_by_name",
    ),
    "updaters have targets": ("cases/pipelines/updater_without_targets",),
    "tau is no eps": ("cases/pipelines/tau_that_was_eps",),
    "targets neither stand still nor follow at once": (
        "cases/pipelines/targets_never_replaced",
        "cases/pipelines/target_replaced_too_often",
        "cases/pipelines/target_that_follows_closely",
        "cases/pipelines/interval_that_was_tau",
    ),
    "no target is in an optimizer, or its own source": (
        "cases/pipelines/what_follows_from_the_rest",
        "objectives/test_functional.py::test_target_params_are_copies_in_buffers_under_both_names",
    ),
    "numbers are in their ranges": (
        "cases/pipelines/discount_above_one",
        "cases/pipelines/clip_below_zero",
        "cases/pipelines/several_mistakes",
    ),
    "an estimator is one of the loss's, with its own numbers": (
        "cases/pipelines/estimator_without_a_state_value",
        "cases/pipelines/td0_without_a_trace",
        "cases/pipelines/values_that_nobody_gives",
    ),
    "there is one discount, to the power of its steps": (
        "cases/pipelines/two_discounts",
        "cases/pipelines/steps_that_are_not_discounted",
    ),
    "estimators that go back through time have time": (
        "cases/pipelines/estimator_over_random_frames",
        "cases/pipelines/small_batch",
    ),
    "advantages and rewards are normalised once": (
        "cases/pipelines/advantages_normalised_twice",
        "cases/pipelines/logged_returns_of_normalised_rewards",
    ),
    "a distribution is over the action": (
        "cases/pipelines/normal_on_a_bounded_action",
        "cases/pipelines/categorical_on_numbers",
        "cases/pipelines/distributions_of_other_actions",
        "cases/pipelines/distributions_of_several_choices",
    ),
    "encodings of loss, action and head agree": (
        "cases/pipelines/actions_for_a_loss_of_choices",
        "cases/pipelines/actions_of_a_finite_set",
        "cases/pipelines/values_of_each_action_on_numbers",
    ),
    "a distribution has what the loss calls": (
        "cases/pipelines/certain_policy_for_ppo",
        "cases/pipelines/entropy_that_no_policy_has",
        "cases/losses/misspelt_functions_of_distributions",
    ),
    "policies and exploration keep to masks": (
        "cases/pipelines/mask_of_one_of_several_actions",
        "pipelines/test_values_of_choices.py::test_no_choice_is_made_that_is_not_allowed",
        "pipelines/test_several_choices.py::test_no_choice_is_drawn_that_is_not_allowed",
    ),
    "off-policy losses explore, by what fits the action": (
        "cases/pipelines/epsilon_of_zero",
        "cases/pipelines/greedy_for_ever",
        "cases/pipelines/epsilon_on_numbers",
        "cases/pipelines/noise_of_zero",
        "cases/pipelines/noise_on_a_policy_that_draws",
        "cases/pipelines/noise_that_drowns_actions",
        "modules/test_gaussian_noise.py::test_actions_keep_to_their_spec",
    ),
    "a log-probability is of the action that was done": (
        "cases/pipelines/noise_behind_the_log_probability",
        "cases/pipelines/exploring_in_conversations",
        "pipelines/test_several_actions.py::test_the_loss_weighs_by_the_sum",
        "pipelines/test_gsde.py::test_log_probabilities_of_a_batch_are_those_that_the_loss_finds",
    ),
    "an on-policy loss has data of its policy": (
        "cases/pipelines/on_policy_loss_from_a_buffer",
        "cases/pipelines/data_of_older_policies",
    ),
    "recorded data have what a loss reads": (
        "cases/pipelines/names_of_recorded_entries",
        "cases/pipelines/recorded_transitions_as_steps",
        "data/test_recorded.py::test_all_that_does_not_fit_is_named",
    ),
    "priorities that are sampled are written, by one loss": (
        "cases/pipelines/priorities_that_nobody_writes",
        "cases/pipelines/priorities_of_two_groups",
    ),
    "batches, minibatches, workers and buffers divide and fit": (
        "cases/pipelines/minibatches_that_do_not_divide",
        "cases/pipelines/workers_that_do_not_divide",
        "cases/pipelines/buffer_smaller_than_a_batch",
        "cases/pipelines/several_steps_wait",
        "cases/pipelines/what_follows_from_the_rest",
    ),
    "updates for each frame": (
        "cases/pipelines/too_many_updates",
        "cases/pipelines/too_few_updates",
        "cases/pipelines/updates_that_nothing_says",
    ),
    "no normaliser learns below a buffer": ("cases/pipelines/statistics_below_a_buffer",),
    "each trained parameter is in one optimizer, no frozen one": (
        "cases/pipelines/temperature_in_no_optimizer",
        "cases/pipelines/network_in_two_optimizers",
        "cases/pipelines/frozen_networks",
        "cases/pipelines/optimizer_of_nothing",
        "cases/pipelines/losses_in_no_optimizer",
        "pipelines/test_training.py::test_all_that_the_loss_trains_is_moved_by_one_optimizer",
    ),
    "the critic of an estimator is the loss's": (
        "pipelines/test_update.py::test_the_estimator_has_the_critic_that_the_loss_trains",
        "cases/pipelines/critic_that_nobody_trains",
    ),
    "steps, clipping and schedules that can't be meant": (
        "cases/pipelines/large_steps",
        "cases/pipelines/several_mistakes",
        "cases/pipelines/schedule_longer_than_the_training",
        "cases/pipelines/training_that_ends_before_it_learns",
    ),
    "signs of coefficients": (
        "cases/pipelines/entropy_that_is_punished",
        "cases/pipelines/entropy_that_no_policy_has",
        "cases/models/negative_coefficient",
    ),
    "an evaluation observes the same, and teaches nothing": (
        "cases/pipelines/evaluation_without_a_transform",
        "cases/pipelines/evaluation_of_other_actions",
        "cases/pipelines/evaluation_with_other_statistics",
        "cases/pipelines/statistics_of_another_chain",
        "pipelines/test_learned_statistics.py::test_an_evaluation_teaches_nothing_and_normalises",
        "training/test_evaluation.py::test_the_training_is_left_alone",
    ),
    "a training ends by returns of the environment": ("cases/pipelines/return_of_scaled_rewards",),
    "recurrent networks learn from sequences": (
        "cases/pipelines/recurrent_from_a_buffer",
        "cases/pipelines/sequences_torn_apart",
        "cases/pipelines/minibatches_of_part_of_a_sequence",
        "cases/pipelines/slices_that_do_not_fit",
    ),
    "keys and shapes of groups": (
        "cases/pipelines/group_without_loss",
        "cases/pipelines/group_misspelt",
        "cases/pipelines/group_with_the_loss_of_one_agent",
        "cases/pipelines/reward_of_the_team",
        "cases/pipelines/policy_that_sees_all_agents",
        "cases/pipelines/return_of_which_group",
    ),
    "references are not trained": (
        "cases/pipelines/reference_that_the_loss_trains",
        "cases/models/reference_that_is_trained",
        "cases/pipelines/penalty_subtracted_twice",
    ),
    "devices meet, and have the dtypes": (
        "cases/pipelines/accelerators_of_two_kinds",
        "cases/pipelines/float64_on_mps",
        "cases/pipelines/buffer_in_two_places",
        "cases/pipelines/device_that_is_none",
    ),
    "`terminated` is apart from `truncated`": (
        "cases/done/done_alone",
        "cases/lints/terminated_read_from_done",
        "cases/lints/bootstrap_masked_with_done",
        "cases/lints/terminated_at_time_limits",
        "cases/lints/time_limit_terminates",
    ),
    "episodes end": (
        "cases/pipelines/episodes_that_never_end",
        "cases/pipelines/values_without_end",
    ),
    "a resumed simulator begins new episodes, and says so": (
        "pipelines/test_simulators.py::test_a_resumed_training_begins_new_episodes",
        "training/test_env_state.py::test_a_simulator_begins_new_episodes",
    ),
}
